//! One connection to one broker, and the few requests that a run needs beside its own.
//!
//! Owns dialling, versions and single calls. A connection of a run is opened here and then taken apart into its halves; what
//! fails here is not repeated, but for [`Admin`], which waits for a topic to be ready.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter};
use bytes::Bytes;
use futures_lite::FutureExt;
use record::{NodeId, PartitionIndex};
use wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use wire::{
    ApiKey, BufferPool, Call, FrameDecoder, FrameLimits, Message, Request, Response,
    ResponseHeader, Versions, encode_request,
};

use crate::address::Address;
use crate::error::LoadError;

mod admin;

pub(crate) use admin::{Admin, LogPlace, NewTopic, PartitionLeader, TopicOrigin, place};

/// What the client calls itself, in requests and in brokers' logs.
pub(crate) const CLIENT_ID: &str = "corelog-bench";
/// The largest answer: what is asked for, and one batch that is larger, which brokers take up to 100 MiB. Memory follows what
/// arrives.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Read buffers kept for the next large answer.
const POOL_BYTES_MAX: usize = 64 << 20;
/// Every broker serves it.
const API_VERSIONS_VERSION: i16 = 0;

/// What one end of a connection receives, cut into frames.
pub(crate) struct Frames<P: Platform> {
    reader: P::Reader,
    decoder: FrameDecoder,
    pool: BufferPool,
    address: Address,
}

impl<P: Platform> Frames<P> {
    /// The next frame, without its size field; `None` where the stream ended at a frame's border.
    pub(crate) async fn next(&mut self, api: ApiKey) -> Result<Option<Bytes>, LoadError> {
        loop {
            match self.decoder.next_frame(&mut self.pool) {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => {}
                Err(source) => {
                    return Err(LoadError::Frame { address: self.address.clone(), source });
                }
            }
            let spare = self.decoder.spare_mut(&mut self.pool);
            match self.reader.read(spare).await {
                Ok(0) if self.decoder.pending_bytes() == 0 => return Ok(None),
                Ok(0) => return Err(self.broken(api, io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.decoder.filled(count),
                Err(error) => return Err(self.broken(api, error)),
            }
        }
    }

    /// The error of a connection that ended.
    pub(crate) fn broken(&self, api: ApiKey, source: io::Error) -> LoadError {
        LoadError::Broken { address: self.address.clone(), api, source }
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

/// An answer as it came.
pub(crate) struct Answer {
    address: Address,
    api: ApiKey,
    version: i16,
    frame: Bytes,
}

impl Answer {
    /// Reads it; what is read borrows from it.
    pub(crate) fn read<'a, M: Response<'a>>(&'a self) -> Result<M, LoadError> {
        let malformed =
            |source| LoadError::Malformed { address: self.address.clone(), api: self.api, source };
        let (_, body) =
            ResponseHeader::decode(self.api, self.version, &self.frame).map_err(malformed)?;
        M::decode(self.version, body).map_err(malformed)
    }
}

/// A request that has left, and whose answer is still to be taken.
#[derive(Debug)]
pub(crate) struct Asked {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
}

/// A connection whose requests are answered in their order.
pub(crate) struct Connection<P: Platform> {
    platform: P,
    frames: Frames<P>,
    writer: P::Writer,
    correlation_id: i32,
    served: Vec<(i16, Versions)>,
}

impl<P: Platform> Connection<P> {
    /// Connects to the first of the name's addresses that answers, and asks what the broker serves.
    pub(crate) async fn open(
        platform: &P,
        address: &Address,
        within: Duration,
    ) -> Result<Self, LoadError> {
        let dialled = dial(platform, address, within).await;
        let (reader, writer) = dialled
            .map_err(|source| LoadError::Unreachable { address: address.clone(), source })?;
        let frames = Frames {
            reader,
            decoder: FrameDecoder::new(FrameLimits { frame_bytes_max: ANSWER_BYTES_MAX }),
            pool: BufferPool::new(POOL_BYTES_MAX),
            address: address.clone(),
        };
        let platform = platform.clone();
        let mut connection =
            Self { platform, frames, writer, correlation_id: 0, served: Vec::new() };
        connection.negotiate(within).await?;
        Ok(connection)
    }

    async fn negotiate(&mut self, within: Duration) -> Result<(), LoadError> {
        let request = ApiVersionsRequest::default();
        let answer = self.call_in(API_VERSIONS_VERSION, &request, within).await?;
        let response: ApiVersionsResponse<'_> = answer.read()?;
        LoadError::check(|| self.frames.address.to_string(), response.error_code, None)?;
        let is_range = |min: i16, max: i16| 0 <= min && min <= max;
        let served =
            response.api_keys.iter().filter(|api| is_range(api.min_version, api.max_version));
        self.served = served
            .map(|api| (api.api_key, Versions::new(api.min_version, api.max_version)))
            .collect();
        Ok(())
    }

    /// The newest version of `api` that both know, and at most `version_max`.
    pub(crate) fn version(&self, api: ApiKey, version_max: i16) -> Result<i16, LoadError> {
        let ours = api.api().codec;
        let theirs = self.served.iter().find(|(key, _)| *key == api.key());
        let common = theirs.and_then(|(_, theirs)| {
            let version = ours.max.min(theirs.max).min(version_max);
            (version >= ours.min.max(theirs.min)).then_some(version)
        });
        let address = self.frames.address.clone();
        common.ok_or(LoadError::NoCommonVersion { address, api })
    }

    /// Asks and waits for the answer.
    pub(crate) async fn call<'q, Q: Request<'q>>(
        &mut self,
        request: &Q,
        version_max: i16,
        within: Duration,
    ) -> Result<Answer, LoadError> {
        let version = self.version(Q::API, version_max)?;
        self.call_in(version, request, within).await
    }

    async fn call_in<'q, Q: Request<'q>>(
        &mut self,
        version: i16,
        request: &Q,
        within: Duration,
    ) -> Result<Answer, LoadError> {
        let address = self.frames.address.clone();
        let platform = self.platform.clone();
        let exchange = async {
            let sent = self.ask(version, request).await?;
            self.answer_to(sent).await
        };
        let answer = in_time(&platform, within, exchange).await;
        let api = <Q as Message<'q>>::API;
        answer.unwrap_or(Err(LoadError::TimedOut { address, api, within }))
    }

    /// Where the log of a partition that this broker leads begins by now.
    pub(crate) async fn log_start(
        &mut self,
        topic: &str,
        partition: PartitionIndex,
        within: Duration,
    ) -> Result<i64, LoadError> {
        let asked = ListOffsetsPartition {
            partition_index: partition,
            timestamp: LogPlace::Start as i64,
            ..ListOffsetsPartition::default()
        };
        let request = ListOffsetsRequest {
            replica_id: NodeId::NONE,
            topics: vec![ListOffsetsTopic { name: topic.into(), partitions: vec![asked] }],
            ..ListOffsetsRequest::default()
        };
        let answer = self.call(&request, i16::MAX, within).await?;
        let response: ListOffsetsResponse<'_> = answer.read()?;
        let mut answered = response.topics.iter().flat_map(|topic| &topic.partitions);
        let found = answered.find(|answered| answered.partition_index == partition);
        let place = || place(topic, partition);
        let found = found
            .ok_or_else(|| LoadError::NotMentioned { place: place(), api: ApiKey::ListOffsets })?;
        LoadError::check(place, found.error_code, None)?;
        Ok(found.offset.0)
    }

    /// Asks, and waits for no answer: [`Connection::answer_to`] does. Answers are taken in the order of the requests.
    pub(crate) async fn ask<'q, Q: Request<'q>>(
        &mut self,
        version: i16,
        request: &Q,
    ) -> Result<Asked, LoadError> {
        let api = <Q as Message<'q>>::API;
        let correlation_id = self.correlation_id;
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let call = Call { version, correlation_id, client_id: Some(CLIENT_ID) };
        let encoded = encode_request(call, request)
            .map_err(|source| LoadError::Unsendable { api, source })?;
        let sent = self.writer.send(&[encoded.head()]).await;
        sent.map_err(|source| self.frames.broken(api, source))?;
        Ok(Asked { api, version, correlation_id })
    }

    /// The answer to what was asked, however long that takes.
    pub(crate) async fn answer_to(&mut self, asked: Asked) -> Result<Answer, LoadError> {
        let Asked { api, version, correlation_id } = asked;
        let frame = self.frames.next(api).await?;
        let frame =
            frame.ok_or_else(|| self.frames.broken(api, io::ErrorKind::UnexpectedEof.into()))?;
        let address = self.frames.address.clone();
        check_number(&address, &frame, correlation_id)?;
        Ok(Answer { address, api, version, frame })
    }

    /// Gives back the memory that a connection needs which is used: nothing more is asked on it.
    pub(crate) fn slim(&mut self) {
        let limits = FrameLimits { frame_bytes_max: ANSWER_BYTES_MAX };
        self.frames.decoder = FrameDecoder::new(limits);
        self.frames.pool = BufferPool::new(0);
        self.served = Vec::new();
    }

    /// Whether the broker has closed it.
    pub(crate) fn has_ended(&self) -> bool {
        self.frames.reader.has_ended()
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &Address {
        self.frames.address()
    }

    /// Its halves, and the number of the next request: for who sends and receives at the same time.
    pub(crate) fn into_halves(self) -> (Frames<P>, P::Writer, i32) {
        (self.frames, self.writer, self.correlation_id)
    }
}

/// Whether a frame answers the request of that number.
pub(crate) fn check_number(
    address: &Address,
    frame: &[u8],
    expected: i32,
) -> Result<(), LoadError> {
    let found = frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(LoadError::Numbered {
            address: address.clone(),
            found: found.unwrap_or(-1),
            expected,
        }),
    }
}

async fn dial<P: Platform>(
    platform: &P,
    address: &Address,
    within: Duration,
) -> io::Result<(P::Reader, P::Writer)> {
    // Blocks the executor for the time of a look-up: nothing is measured before there is a connection.
    let no_address = |error| io::Error::new(io::ErrorKind::NotFound, error);
    let found = (address.host.as_str(), address.port).to_socket_addrs().map_err(no_address)?;
    let found: Vec<SocketAddr> = found.collect();
    let mut refusal = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in found {
        match platform.connect(candidate, within).await {
            Ok(halves) => return Ok(halves),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// What `future` gives, or `None` when `within` has passed first.
pub(crate) async fn in_time<P: Platform, T>(
    platform: &P,
    within: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let alarm = async {
        platform.sleep(within).await;
        None
    };
    async { Some(future.await) }.or(alarm).await
}

/// Connections to brokers by their addresses, opened when they are first needed.
pub(crate) type Connections<P> = BTreeMap<Address, Connection<P>>;
