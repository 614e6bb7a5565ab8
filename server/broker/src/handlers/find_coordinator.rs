//! FindCoordinator (key 10), versions 0 to 5: who coordinates a group or a transaction.
//!
//! Nobody yet: the answer is COORDINATOR_NOT_AVAILABLE, which clients take as "ask again". It has to be there all the same:
//! librdkafka offers lz4 only to a broker that has it.

use record::NodeId;
use wire::ErrorCode;
use wire::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use crate::handlers::{Answer, Call};
use crate::mesh_call::Message;
use crate::platform::{Mesh, Platform};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const MESSAGE: &str = "consumer groups and transactions are not supported yet";

/// Says so for each key, and in the log: clients ask again and again without telling their users why.
pub(super) fn handle<'a, P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    request: &FindCoordinatorRequest<'a>,
) -> Answer<FindCoordinatorResponse<'a>> {
    let (error_code, message) = match request.key_type {
        GROUP | TRANSACTION => (ErrorCode::CoordinatorNotAvailable, MESSAGE),
        // A client that asks for something else would ask for ever.
        _ => (ErrorCode::InvalidRequest, "key type 0 is a group, 1 a transaction"),
    };
    let what = match request.key_type {
        TRANSACTION => "transactions",
        _ => "consumer groups",
    };
    let key = request.coordinator_keys.first().unwrap_or(&request.key);
    call.shard.report_no_coordinator(&call.context, what, key);
    let body = if call.version < 4 {
        FindCoordinatorResponse {
            error_code,
            error_message: Some(message.into()),
            node_id: NodeId::NONE,
            port: -1,
            ..Default::default()
        }
    } else {
        let coordinators = request.coordinator_keys.iter().map(|key| Coordinator {
            key: key.clone(),
            node_id: NodeId::NONE,
            port: -1,
            error_code,
            error_message: Some(message.into()),
            ..Default::default()
        });
        FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() }
    };
    Answer::failed(body, error_code)
}
