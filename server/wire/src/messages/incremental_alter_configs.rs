//! IncrementalAlterConfigs (key 44): single changes to configurations.

use alloc::vec::Vec;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Configurations to change.
    request(IncrementalAlterConfigs) IncrementalAlterConfigsRequest<'a> {
        /// The resources.
        resources: Vec<AlterConfigsResource<'a>>, in 0..;
        /// Only say what would happen.
        validate_only: bool, in 0..;
    }

    /// The configurations of one resource.
    part AlterConfigsResource<'a> {
        /// What kind of resource: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        resource_type: i8, in 0..;
        /// Which one.
        resource_name: Text<'a>, in 0..;
        /// The configurations.
        configs: Vec<AlterableConfig<'a>>, in 0..;
    }

    /// One configuration.
    part AlterableConfig<'a> {
        /// The key.
        name: Text<'a>, in 0..;
        /// 0 set, 1 delete, 2 append to the list, 3 take from the list.
        config_operation: i8, in 0..;
        /// The value.
        value: Option<Text<'a>>, in 0.., null 0..;
    }

    /// What became of the changes.
    response(IncrementalAlterConfigs) IncrementalAlterConfigsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// The answers, by resource.
        responses: Vec<AlterConfigsResourceResponse<'a>>, in 0..;
    }

    /// What became of one resource.
    part AlterConfigsResourceResponse<'a> {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
        /// What kind of resource: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        resource_type: i8, in 0..;
        /// Which one.
        resource_name: Text<'a>, in 0..;
    }
}
