//! DescribeConfigs (key 32): configurations of topics, nodes and groups.

use alloc::vec::Vec;

use crate::error::ErrorCode;
use crate::field::Text;
use crate::message::message;

message! {
    /// Asks for configurations.
    request(DescribeConfigs) DescribeConfigsRequest<'a> {
        /// The resources.
        resources: Vec<DescribeConfigsResource<'a>>, in 0..;
        /// Whether to say where else the value could come from.
        include_synonyms: bool, in 1..;
        /// Whether to explain each.
        include_documentation: bool, in 3..;
    }

    /// One resource to describe.
    part DescribeConfigsResource<'a> {
        /// What kind of resource: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        resource_type: i8, in 0..;
        /// Which one.
        resource_name: Text<'a>, in 0..;
        /// The names wanted; null for all.
        configuration_keys: Option<Vec<Text<'a>>>, in 0.., null 0..;
    }

    /// The configurations.
    response(DescribeConfigs) DescribeConfigsResponse<'a> {
        /// How long the client should wait before its next request.
        throttle_time_ms: i32, in 0..;
        /// The answers, by resource.
        results: Vec<DescribeConfigsResult<'a>>, in 0..;
    }

    /// The configurations of one resource.
    part DescribeConfigsResult<'a> {
        /// What went wrong, if anything did.
        error_code: ErrorCode, in 0..;
        /// What went wrong, in words.
        error_message: Option<Text<'a>>, in 0.., null 0..;
        /// What kind of resource: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        resource_type: i8, in 0..;
        /// Which one.
        resource_name: Text<'a>, in 0..;
        /// The configurations.
        configs: Vec<DescribeConfigsResourceResult<'a>>, in 0..;
    }

    /// One configuration.
    part DescribeConfigsResourceResult<'a> {
        /// The key.
        name: Text<'a>, in 0..;
        /// The value; null where it is a secret.
        value: Option<Text<'a>>, in 0.., null 0..;
        /// Whether it cannot be changed while the node runs.
        read_only: bool, in 0..;
        /// Where the value comes from: 1 topic, 2 broker, 3 default of all brokers, 4 file, 5 built in.
        config_source: i8, in 1.., default -1;
        /// Whether its value is a secret, which is never shown.
        is_sensitive: bool, in 0..;
        /// The places that the value could come from, the deciding one first.
        synonyms: Vec<DescribeConfigsSynonym<'a>>, in 1..;
        /// The type of the value: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
        config_type: i8, in 3..;
        /// What it is for.
        documentation: Option<Text<'a>>, in 3.., null 0..;
    }

    /// Another place that the value could come from.
    part DescribeConfigsSynonym<'a> {
        /// The key.
        name: Text<'a>, in 1..;
        /// The value.
        value: Option<Text<'a>>, in 1.., null 0..;
        /// The place, numbered as `config_source` is.
        source: i8, in 1..;
    }
}
