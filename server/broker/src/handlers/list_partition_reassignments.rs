//! ListPartitionReassignments (key 46), version 0: partitions whose replicas are moving.
//!
//! None are while there is one node; kafka-topics asks before it describes.

use wire::ErrorCode;
use wire::list_partition_reassignments::ListPartitionReassignmentsResponse;

use crate::context::{Operation, Resource};
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Answers that nothing moves.
pub(super) fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
) -> Answer<ListPartitionReassignmentsResponse<'static>> {
    if call.context.may(Operation::Describe, Resource::Cluster) {
        return Answer::ok(ListPartitionReassignmentsResponse::default());
    }
    let error_code = ErrorCode::ClusterAuthorizationFailed;
    let body = ListPartitionReassignmentsResponse {
        error_code,
        error_message: Some("not allowed to describe the cluster".into()),
        ..Default::default()
    };
    Answer::failed(body, error_code)
}
