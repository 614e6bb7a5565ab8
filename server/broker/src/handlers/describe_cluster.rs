//! DescribeCluster (key 60), versions 0 to 2: the brokers, as an administrator sees them.
//!
//! 1 brings the endpoint type (1 brokers, 2 controllers), 2 fenced brokers. There are no controllers that a client could reach:
//! asking for them is refused as Kafka's brokers do.

use wire::ErrorCode;
use wire::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

use crate::handlers::metadata::{CLUSTER_OPERATIONS, controller};
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers from the image.
pub(super) fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &DescribeClusterRequest,
) -> Answer<DescribeClusterResponse<'static>> {
    if request.endpoint_type != BROKERS {
        let error_code = match request.endpoint_type {
            CONTROLLERS => ErrorCode::MismatchedEndpointType,
            _ => ErrorCode::UnsupportedEndpointType,
        };
        let error_message = "this listener describes brokers: endpoint type 1";
        let body = DescribeClusterResponse {
            error_code,
            error_message: Some(error_message.into()),
            ..Default::default()
        };
        return Answer::failed(body, error_code);
    }
    let image = call.shard.image();
    let mut brokers = Vec::new();
    for node in image.nodes() {
        for found in call.context.approach().to_all(node) {
            brokers.push(DescribeClusterBroker {
                broker_id: found.id,
                host: found.host.into(),
                port: found.port.into(),
                rack: node.rack.as_ref().map(|rack| rack.to_string().into()),
                is_fenced: false,
            });
        }
    }
    let mut body = DescribeClusterResponse {
        cluster_id: image.cluster_id().map(|id| id.to_string().into()).unwrap_or_default(),
        controller_id: controller(call, &image),
        brokers,
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        body.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    Answer::ok(body)
}
