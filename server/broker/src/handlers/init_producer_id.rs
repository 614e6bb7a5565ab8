//! InitProducerId (key 22), versions 0 to 5: an identity for a producer.
//!
//! Without a transactional id every call gives a fresh id at epoch 0 (ID-7). With one it is the transaction coordinator's
//! business, and there is none yet.

use record::{ProducerEpoch, ProducerId};
use wire::ErrorCode;
use wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use crate::context::{Operation, Resource};
use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

/// Gives a fresh id.
pub(super) async fn handle<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &InitProducerIdRequest<'_>,
) -> Answer<InitProducerIdResponse> {
    match request.transactional_id.as_deref() {
        Some("") => return refuse(ErrorCode::InvalidRequest),
        Some(_) => return refuse(ErrorCode::NotCoordinator),
        None => {}
    }
    // From version 3 on a producer may say who it was: both, or nothing.
    let has_id = request.producer_id != ProducerId::NONE;
    if has_id != (request.producer_epoch != ProducerEpoch::NONE) {
        return refuse(ErrorCode::InvalidRequest);
    }
    if !call.context.may(Operation::IdempotentWrite, Resource::Cluster) {
        return refuse(ErrorCode::ClusterAuthorizationFailed);
    }
    match call.shard.next_producer_id().await {
        Some(producer_id) => Answer::ok(InitProducerIdResponse {
            producer_id,
            producer_epoch: ProducerEpoch(0),
            ..Default::default()
        }),
        // Metadata cannot be written now: a code that clients wait out.
        None => refuse(ErrorCode::CoordinatorLoadInProgress),
    }
}

fn refuse(error_code: ErrorCode) -> Answer<InitProducerIdResponse> {
    let body = InitProducerIdResponse {
        error_code,
        producer_epoch: ProducerEpoch::NONE,
        ..Default::default()
    };
    Answer::failed(body, error_code)
}
