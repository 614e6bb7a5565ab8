//! From frames to answers: one file an API.
//!
//! Owns the dispatch, and the only place (with the connection edges) where wire types meet the broker's own. Handlers translate:
//! they look things up, ask cores through [`Shard`], and put the answer into Kafka's words. None of them keeps state.

mod alter_configs;
mod api_versions;
mod config_resource;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod fetch;
mod find_coordinator;
mod incremental_alter_configs;
mod init_producer_id;
mod leaders;
mod list_config_resources;
mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_for_leader_epoch;
mod produce;
mod update_features;

use std::collections::HashSet;
use std::hash::Hash;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use commitlog::Disk;
use wire::{
    ApiKey, BodyError, EncodeError, Encoded, ErrorCode, HeaderError, Message as _, RequestHeader,
    Response, ResponseHeader, encode_response,
};

use crate::connection::{Begun, Earlier, PendingReply, Served};
use crate::context::RequestContext;
use crate::memory::{COUNTED_BYTES_MIN, HeldMemory};
use crate::mesh_call::Message;
use crate::metrics::{RequestKey, Stage};
use crate::platform::{Mesh, Platform};
use crate::send_path::Part;
use crate::shard::{BadInputKind, Shard};

/// Why a request ends its connection: the protocol has no answer for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequest {
    /// Its header is none, or names what is not served.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Its body is not what the header says.
    #[error("{api} v{version}: {error}")]
    Body {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// What is wrong.
        error: BodyError,
    },
}

impl BadRequest {
    /// What the log counts it under.
    pub(crate) fn kind(&self) -> BadInputKind {
        match self {
            Self::Header(_) => BadInputKind::Header,
            Self::Body { .. } => BadInputKind::Body,
        }
    }
}

/// A response body, and the first error in it (for the metrics).
#[derive(Debug)]
pub(crate) struct Answer<Body> {
    body: Body,
    error: ErrorCode,
}

impl<Body> Answer<Body> {
    /// A response without an error.
    pub(crate) fn ok(body: Body) -> Self {
        Self { body, error: ErrorCode::None }
    }

    /// A response that says `error` somewhere.
    pub(crate) fn failed(body: Body, error: ErrorCode) -> Self {
        Self { body, error }
    }

    /// A response and the errors in it, in order.
    pub(crate) fn with_errors(body: Body, errors: impl IntoIterator<Item = ErrorCode>) -> Self {
        let error = errors.into_iter().find(|error| *error != ErrorCode::None);
        Self { body, error: error.unwrap_or_default() }
    }
}

/// One request on its way.
pub(crate) struct Call<P: Platform, M: Mesh<Message>> {
    /// The core that serves the connection.
    pub shard: Rc<Shard<P, M>>,
    /// Who asks.
    pub context: RequestContext,
    /// The API.
    pub api: ApiKey,
    /// The version of request and response.
    pub version: i16,
    /// The client's number for the request.
    pub correlation_id: i32,
    /// What the request takes in memory, where that is counted. Whoever keeps a part of it keeps this.
    pub memory: Option<Rc<HeldMemory>>,
}

impl<P: Platform, M: Mesh<Message>> Call<P, M> {
    /// Encodes a response and counts it.
    fn reply<'a, Body: Response<'a>>(&self, answer: &Answer<Body>) -> Served<P::Disk> {
        self.reply_with(answer, Vec::new(), None)
    }

    /// [`Call::reply`] for a response whose records are apart: `records` holds the pieces of each, in order, and
    /// `memory` is what they take.
    fn reply_with<'a, Body: Response<'a>>(
        &self,
        answer: &Answer<Body>,
        records: Vec<Vec<Part<P::Disk>>>,
        memory: Option<HeldMemory>,
    ) -> Served<P::Disk> {
        self.count(answer.error);
        let header = ResponseHeader { correlation_id: self.correlation_id };
        match encode_response(header, self.version, &answer.body).map(Encoded::into_bytes) {
            Ok(Ok(whole)) => Served::Reply(vec![Part::Bytes(whole)], None),
            Ok(Err(cut)) => Served::Reply(interleave(&cut, records), memory),
            Err(error) => self.too_long(&error),
        }
    }

    /// [`Call::reply`] with what the answer takes in memory until it has left.
    fn reply_holding<'a, Body: Response<'a>>(
        &self,
        answer: &Answer<Body>,
        mut memory: HeldMemory,
    ) -> Served<P::Disk> {
        match self.reply(answer) {
            Served::Reply(parts, _) => {
                memory.resize(parts.iter().map(|part| part.as_bytes().len()).sum());
                Served::Reply(parts, Some(memory))
            }
            served => served,
        }
    }

    /// Room for an answer of about `bytes`, waited for where others that are as large have not been taken; `None` where it is
    /// small, or counted with its request.
    async fn answer_room(&self, bytes: usize) -> Option<HeldMemory> {
        if self.memory.is_some() || bytes <= COUNTED_BYTES_MIN {
            return None;
        }
        Some(self.shard.answer_memory().take(bytes).await)
    }

    /// [`Call::reply`] with the room that was waited for, as far as the answer needs it.
    fn reply_in<'a, Body: Response<'a>>(
        &self,
        room: Option<HeldMemory>,
        answer: &Answer<Body>,
    ) -> Served<P::Disk> {
        match room {
            Some(room) => self.reply_holding(answer, room),
            None => self.reply(answer),
        }
    }

    fn too_long(&self, error: &EncodeError) -> Served<P::Disk> {
        tracing::error!(api = %self.api, version = self.version, %error, "a response cannot be sent, closing");
        Served::Close
    }

    /// Its turn has come; gives the time.
    fn note_turn(&self) -> Duration {
        let now = self.shard.platform().monotonic();
        let waited = now.saturating_sub(self.context.stages.received);
        self.shard.metrics().stage(Stage::Queue, waited);
        now
    }

    fn count(&self, error: ErrorCode) {
        let (now, stages) = (self.shard.platform().monotonic(), &self.context.stages);
        let elapsed = now.saturating_sub(stages.received);
        if let Some(appended) = stages.appended {
            self.shard.metrics().stage(Stage::Sync, now.saturating_sub(appended));
        }
        let key = RequestKey { api: self.api.key(), version: self.version, error: error.code() };
        self.shard.metrics().request(key, elapsed);
    }
}

/// The items of a request without those that repeat an earlier one: what is answered once costs what it costs once.
pub(crate) fn first_of_each<'r, T, K: Hash + Eq>(
    items: &'r [T],
    key: impl Fn(&'r T) -> K,
) -> Vec<&'r T> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().filter(|item| seen.insert(key(item))).collect()
}

/// A frame in sending order: the message's own bytes, with the record bytes where they belong.
fn interleave<D: Disk>(encoded: &Encoded, records: Vec<Vec<Part<D>>>) -> Vec<Part<D>> {
    let head = Bytes::copy_from_slice(encoded.head());
    let mut parts = Vec::with_capacity(1 + 2 * records.len());
    let mut start = 0;
    for (cut, pieces) in encoded.cuts().iter().zip(records) {
        let pieces_bytes: usize = pieces.iter().map(|part| part.as_bytes().len()).sum();
        assert_eq!(pieces_bytes, cut.bytes);
        if cut.at > start {
            parts.push(Part::Bytes(head.slice(start..cut.at)));
            start = cut.at;
        }
        parts.extend(pieces);
    }
    if head.len() > start {
        parts.push(Part::Bytes(head.slice(start..)));
    }
    parts
}

/// Starts a request: appends of a Produce are made before this returns, everything else when its reply's turn comes. `earlier`
/// ends when nothing before it still waits for its turn: a Produce waits for that, so that nobody sees effects out of order.
pub(crate) async fn begin<P: Platform, M: Mesh<Message>>(
    shard: &Rc<Shard<P, M>>,
    context: &mut RequestContext,
    (frame, memory): (Bytes, Option<Rc<HeldMemory>>),
    earlier: impl Future<Output = Earlier>,
) -> Result<Begun<P::Disk>, BadRequest> {
    let (header, body) = match RequestHeader::decode(&frame) {
        Ok(decoded) => decoded,
        Err(HeaderError::ApiVersionsTooNew { correlation_id, .. }) => {
            let reply = unsupported_api_versions(shard, context, correlation_id);
            return Ok(Begun::later(reply, 0));
        }
        Err(error) => return Err(error.into()),
    };
    if context.client.as_deref() != header.client_id.as_deref() {
        context.client = header.client_id.as_deref().map(Rc::from);
    }
    let call = Call {
        shard: Rc::clone(shard),
        context: context.clone(),
        api: header.api,
        version: header.version,
        correlation_id: header.correlation_id,
        memory: memory.clone(),
    };
    let body = frame.slice_ref(body);
    if call.api == ApiKey::Produce {
        return match earlier.await {
            // In memory of its own, which the next one gets: it is large, and a connection between requests would keep room for it.
            Earlier::Served => Box::pin(produce::begin(call, body)).await,
            Earlier::Dropped => Ok(Begun::later(Box::pin(async { Served::Close }), 0)),
        };
    }
    // It may wait for long: a small one must not keep the buffer that it was read into.
    let body = if body.len() <= COUNTED_BYTES_MIN { Bytes::copy_from_slice(&body) } else { body };
    let (api, version, held_bytes) = (call.api, call.version, body.len());
    let reply: PendingReply<P::Disk> = Box::pin(async move {
        let shard = Rc::clone(&call.shard);
        let peer = call.context.peer;
        call.note_turn();
        match serve(call, &body).await {
            Ok(served) => served,
            Err(error) => {
                let bad = BadRequest::Body { api, version, error };
                shard.report_bad_input(peer, bad.kind(), &bad.to_string());
                Served::Close
            }
        }
    });
    Ok(Begun::later(reply, held_bytes).holding(memory))
}

/// The one answer to a version of ApiVersions that is not known here.
fn unsupported_api_versions<P: Platform, M: Mesh<Message>>(
    shard: &Rc<Shard<P, M>>,
    context: &RequestContext,
    correlation_id: i32,
) -> PendingReply<P::Disk> {
    let call = Call {
        shard: Rc::clone(shard),
        context: context.clone(),
        api: ApiKey::ApiVersions,
        version: 0,
        correlation_id,
        memory: None,
    };
    Box::pin(async move {
        let body = wire::api_versions::ApiVersionsResponse::unsupported();
        call.reply(&Answer::failed(body, ErrorCode::UnsupportedVersion))
    })
}

async fn serve<P: Platform, M: Mesh<Message>>(
    call: Call<P, M>,
    body: &[u8],
) -> Result<Served<P::Disk>, BodyError> {
    let version = call.version;
    Ok(match call.api {
        ApiKey::ApiVersions => {
            let request = wire::api_versions::ApiVersionsRequest::decode(version, body)?;
            call.reply(&api_versions::handle(&call, &request))
        }
        ApiKey::Metadata => {
            let request = wire::metadata::MetadataRequest::decode(version, body)?;
            let (room, answer) = metadata::handle(&call, &request).await;
            call.reply_in(room, &answer)
        }
        ApiKey::Fetch => {
            let request = wire::fetch::FetchRequest::decode(version, body)?;
            fetch::handle(&call, &request).await
        }
        ApiKey::ListOffsets => {
            let request = wire::list_offsets::ListOffsetsRequest::decode(version, body)?;
            call.reply(&list_offsets::handle(&call, &request).await)
        }
        ApiKey::InitProducerId => {
            let request = wire::init_producer_id::InitProducerIdRequest::decode(version, body)?;
            call.reply(&init_producer_id::handle(&call, &request).await)
        }
        ApiKey::FindCoordinator => {
            let request = wire::find_coordinator::FindCoordinatorRequest::decode(version, body)?;
            call.reply(&find_coordinator::handle(&call, &request))
        }
        ApiKey::CreateTopics => {
            let request = wire::create_topics::CreateTopicsRequest::decode(version, body)?;
            call.reply(&create_topics::handle(&call, &request).await)
        }
        ApiKey::DeleteTopics => {
            let request = wire::delete_topics::DeleteTopicsRequest::decode(version, body)?;
            call.reply(&delete_topics::handle(&call, &request).await)
        }
        ApiKey::DeleteRecords => {
            let request = wire::delete_records::DeleteRecordsRequest::decode(version, body)?;
            call.reply(&delete_records::handle(&call, &request).await)
        }
        ApiKey::OffsetForLeaderEpoch => {
            use wire::offset_for_leader_epoch::OffsetForLeaderEpochRequest;
            let request = OffsetForLeaderEpochRequest::decode(version, body)?;
            call.reply(&offset_for_leader_epoch::handle(&call, &request).await)
        }
        _ => return serve_administration(&call, body).await,
    })
}

/// [`serve`] for what administrators ask.
async fn serve_administration<P: Platform, M: Mesh<Message>>(
    call: &Call<P, M>,
    body: &[u8],
) -> Result<Served<P::Disk>, BodyError> {
    let version = call.version;
    Ok(match call.api {
        ApiKey::CreatePartitions => {
            let request = wire::create_partitions::CreatePartitionsRequest::decode(version, body)?;
            call.reply(&create_partitions::handle(call, &request).await)
        }
        ApiKey::AlterConfigs => {
            let request = wire::alter_configs::AlterConfigsRequest::decode(version, body)?;
            call.reply(&alter_configs::handle(call, &request).await)
        }
        ApiKey::IncrementalAlterConfigs => {
            use wire::incremental_alter_configs::IncrementalAlterConfigsRequest as Request;
            let request = Request::decode(version, body)?;
            call.reply(&incremental_alter_configs::handle(call, &request).await)
        }
        ApiKey::DescribeConfigs => {
            let request = wire::describe_configs::DescribeConfigsRequest::decode(version, body)?;
            let room = call.answer_room(describe_configs::answer_bytes(&request)).await;
            call.reply_in(room, &describe_configs::handle(call, &request).await)
        }
        ApiKey::ListPartitionReassignments => {
            use wire::list_partition_reassignments::ListPartitionReassignmentsRequest as Request;
            Request::decode(version, body)?;
            call.reply(&list_partition_reassignments::handle(call))
        }
        ApiKey::DescribeProducers => {
            use wire::describe_producers::DescribeProducersRequest as Request;
            let request = Request::decode(version, body)?;
            describe_producers::handle(call, &request).await
        }
        ApiKey::DescribeQuorum => {
            let request = wire::describe_quorum::DescribeQuorumRequest::decode(version, body)?;
            call.reply(&describe_quorum::handle(call, &request).await)
        }
        ApiKey::UpdateFeatures => {
            let request = wire::update_features::UpdateFeaturesRequest::decode(version, body)?;
            call.reply(&update_features::handle(call, &request).await)
        }
        ApiKey::ListConfigResources => {
            use wire::list_config_resources::ListConfigResourcesRequest as Request;
            let request = Request::decode(version, body)?;
            let room = call.answer_room(list_config_resources::answer_bytes(call)).await;
            call.reply_in(room, &list_config_resources::handle(call, &request))
        }
        ApiKey::DescribeTopicPartitions => {
            use wire::describe_topic_partitions::DescribeTopicPartitionsRequest as Request;
            let request = Request::decode(version, body)?;
            let room = call.answer_room(describe_topic_partitions::answer_bytes(call)).await;
            call.reply_in(room, &describe_topic_partitions::handle(call, &request))
        }
        ApiKey::DescribeLogDirs => {
            let request = wire::describe_log_dirs::DescribeLogDirsRequest::decode(version, body)?;
            // Its room is waited for once it is made: while other cores are asked it must not be in the way of anybody.
            let answer = describe_log_dirs::handle(call, &request).await;
            let room = call.answer_room(describe_log_dirs::answer_bytes(&answer)).await;
            call.reply_in(room, &answer)
        }
        ApiKey::DescribeCluster => {
            let request = wire::describe_cluster::DescribeClusterRequest::decode(version, body)?;
            call.reply(&describe_cluster::handle(call, &request))
        }
        api => unreachable!("{api} passed the header check and has no handler"),
    })
}
