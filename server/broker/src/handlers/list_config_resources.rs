//! ListConfigResources (key 74), versions 0 and 1: what has configurations.
//!
//! Version 0 asks for client metrics, of which there are none. 1 names the kinds it wants, or none for all. Loggers and groups
//! have no configurations here, so none are listed.

use wire::ErrorCode;
use wire::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use crate::context::{Operation, Resource};
use crate::handlers::config_resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::handlers::metadata::TOPIC_BYTES;
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Every kind, in the order of the answer.
const KINDS: [i8; 5] = [GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC];

/// About how many bytes an answer has at most.
pub(super) fn answer_bytes<P: Platform, M: Mesh<Message>>(call: &Call<P, M>) -> usize {
    call.shard.image().topics().count() * TOPIC_BYTES
}

/// Answers from the image.
pub(super) fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &ListConfigResourcesRequest,
) -> Answer<ListConfigResourcesResponse<'static>> {
    if !call.context.may(Operation::DescribeConfigs, Resource::Cluster) {
        return refuse(ErrorCode::ClusterAuthorizationFailed);
    }
    let asked = &request.resource_types;
    if asked.iter().any(|kind| !KINDS.contains(kind)) {
        return refuse(ErrorCode::UnsupportedVersion);
    }
    let is_asked = |kind: &i8| match call.version {
        0 => *kind == CLIENT_METRICS,
        _ => asked.is_empty() || asked.contains(kind),
    };
    let kinds = KINDS.into_iter().filter(is_asked);
    let config_resources = kinds.flat_map(|kind| resources(call, kind)).collect();
    Answer::ok(ListConfigResourcesResponse { config_resources, ..Default::default() })
}

fn resources<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    resource_type: i8,
) -> Vec<ConfigResource<'static>> {
    let image = call.shard.image();
    let names: Vec<String> = match resource_type {
        TOPIC => image.topics_sorted().into_iter().map(|topic| topic.name.to_string()).collect(),
        BROKER => {
            let approach = call.context.approach();
            let brokers = image.nodes().flat_map(|node| approach.to_all(node));
            brokers.map(|broker| broker.id.to_string()).collect()
        }
        _ => Vec::new(),
    };
    let resource = |name: String| ConfigResource { resource_name: name.into(), resource_type };
    names.into_iter().map(resource).collect()
}

fn refuse(error_code: ErrorCode) -> Answer<ListConfigResourcesResponse<'static>> {
    let body = ListConfigResourcesResponse { error_code, ..Default::default() };
    Answer::failed(body, error_code)
}
