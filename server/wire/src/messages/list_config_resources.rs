//! ListConfigResources (key 74): what has configurations. Version 0 lists client metrics only.

use alloc::vec::Vec;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks what has configurations.
    request(ListConfigResources) ListConfigResourcesRequest {
        /// Which kinds: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group; none for all.
        resource_types: Vec<i8>, in 1..;
    }

    /// What has configurations.
    response(ListConfigResources) ListConfigResourcesResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// The resources.
        config_resources: Vec<ConfigResource<'a>>, in 0..;
    }

    /// One resource.
    part ConfigResource<'a> {
        /// Which one.
        resource_name: Text<'a>, in 0..;
        /// What kind of resource.
        resource_type: i8, in 1.., default 16;
    }
}
