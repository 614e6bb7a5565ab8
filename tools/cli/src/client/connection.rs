//! One connection to one broker: versions agreed first, then one request at a time.
//!
//! Owns the socket's two halves, the frame decoder and what the broker serves. It never retries: after any error but a
//! refusal the connection is of no use and is dropped by its owner.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter};
use bytes::Bytes;
use futures_lite::FutureExt;
use wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{
    ApiKey, BufferPool, Call, Encoded, ErrorCode, FrameDecoder, FrameError, FrameLimits, Request,
    Response, ResponseHeader, Versions, encode_request,
};

use crate::client::address::Address;
use crate::client::error::{ClientError, Delivery, Speaks};
use crate::client::tls_probe::speaks_tls;

/// What the client calls itself, in requests and in the node's log.
const CLIENT_ID: &str = "corelog";
/// The version of ApiVersions to open with: served by every broker since 2.4, and Kafka 4.4 answers it in full.
const API_VERSIONS_VERSION: i16 = 3;
/// The largest answer: a batch is bounded by `max.message.bytes`, whose own bound is below this. Memory follows what
/// arrives.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// How a connection ended that its other end closed.
const CLOSED: &str = "the broker closed it";
/// Read buffers kept for the next large answer.
const POOL_BYTES_MAX: usize = 32 << 20;

/// How one request is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOptions {
    /// The longest wait for the answer.
    pub(crate) within: Duration,
    /// The highest version to use, below the codec's.
    pub(crate) version_max: i16,
}

impl CallOptions {
    /// The newest version that both know.
    pub(crate) fn within(within: Duration) -> Self {
        Self { within, version_max: i16::MAX }
    }
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    address: Address,
    api: ApiKey,
    version: i16,
    /// The frame behind its size field.
    frame: Bytes,
}

impl Answer {
    /// Reads it; what is read borrows from it.
    pub(crate) fn read<'a, M: Response<'a>>(&'a self) -> Result<M, ClientError> {
        let malformed = |source| ClientError::Malformed {
            address: self.address.clone(),
            api: self.api,
            version: self.version,
            source,
        };
        let (_, body) =
            ResponseHeader::decode(self.api, self.version, &self.frame).map_err(malformed)?;
        M::decode(self.version, body).map_err(malformed)
    }

    /// Shares `part`, which must have been read from it, without a copy.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        self.frame.slice_ref(part)
    }
}

/// A connection.
pub(crate) struct Connection<P: Platform> {
    platform: P,
    address: Address,
    reader: P::Reader,
    writer: P::Writer,
    decoder: FrameDecoder,
    pool: BufferPool,
    correlation_id: i32,
    served: Vec<(i16, Versions)>,
}

impl<P: Platform> Connection<P> {
    /// Connects to the first of the name's addresses that answers, and asks what the broker serves.
    pub(crate) async fn open(
        platform: &P,
        address: &Address,
        within: Duration,
    ) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
        let (reader, writer) = dial(platform, address, within).await.map_err(unreachable)?;
        let limits = FrameLimits { frame_bytes_max: ANSWER_BYTES_MAX };
        let mut connection = Self {
            platform: platform.clone(),
            address: address.clone(),
            reader,
            writer,
            decoder: FrameDecoder::new(limits),
            pool: BufferPool::new(POOL_BYTES_MAX),
            correlation_id: 0,
            served: Vec::new(),
        };
        match connection.negotiate(within).await {
            Ok(()) => Ok(connection),
            Err(ClientError::Broken { .. })
                if speaks_tls(platform, connection.reader.peer_address()).await =>
            {
                let address = address.clone();
                Err(ClientError::Foreign { address, speaks: Speaks::Tls })
            }
            Err(error) => Err(error),
        }
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// What the broker serves, as it told when the connection was opened.
    pub(crate) fn served(&self) -> &[(i16, Versions)] {
        &self.served
    }

    /// The newest version of `api` that both know, and at most `version_max`.
    pub(crate) fn version(&self, api: ApiKey, version_max: i16) -> Result<i16, ClientError> {
        let ours = api.api().codec;
        let theirs = self.served.iter().find(|(key, _)| *key == api.key());
        let theirs = theirs.map(|(_, versions)| *versions);
        let common = theirs.and_then(|theirs| {
            let version = ours.max.min(theirs.max).min(version_max);
            (version >= ours.min.max(theirs.min)).then_some(version)
        });
        common.ok_or_else(|| ClientError::NoCommonVersion {
            address: self.address.clone(),
            api,
            theirs,
            ours,
        })
    }

    /// Asks and waits for the answer.
    pub(crate) async fn call<'q, Q: Request<'q>>(
        &mut self,
        request: &Q,
        options: CallOptions,
    ) -> Result<Answer, ClientError> {
        let version = self.version(Q::API, options.version_max)?;
        self.call_in(version, request, options.within).await
    }

    /// Sends what the broker will not answer: Produce with acks=0.
    pub(crate) async fn send_only<'q, Q: Request<'q>>(
        &mut self,
        request: &Q,
        options: CallOptions,
    ) -> Result<(), ClientError> {
        let version = self.version(Q::API, options.version_max)?;
        let (frame, _) = self.encode(version, request)?;
        let parts = [frame.head()];
        let sent = in_time(&self.platform, options.within, self.writer.send(&parts)).await;
        self.judge(Q::API, Delivery::Unsent, options.within, sent)
    }

    async fn negotiate(&mut self, within: Duration) -> Result<(), ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: CLIENT_ID.into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..ApiVersionsRequest::default()
        };
        let answer = self.call_in(API_VERSIONS_VERSION, &request, within).await?;
        let response = match answer.read_versions(API_VERSIONS_VERSION) {
            Ok(response) if response.error_code == ErrorCode::UnsupportedVersion => None,
            Ok(response) => Some(self.take_versions(&response)),
            Err(error) => return Err(error),
        };
        if let Some(served) = response {
            return served;
        }
        let answer = self.call_in(0, &ApiVersionsRequest::default(), within).await?;
        let response = answer.read_versions(0)?;
        self.take_versions(&response)
    }

    fn take_versions(&mut self, response: &ApiVersionsResponse<'_>) -> Result<(), ClientError> {
        let place = self.address.to_string();
        ClientError::check(&place, response.error_code, None)?;
        self.served = response
            .api_keys
            .iter()
            .filter(|api| 0 <= api.min_version && api.min_version <= api.max_version)
            .map(|api| (api.api_key, Versions::new(api.min_version, api.max_version)))
            .collect();
        Ok(())
    }

    async fn call_in<'q, Q: Request<'q>>(
        &mut self,
        version: i16,
        request: &Q,
        within: Duration,
    ) -> Result<Answer, ClientError> {
        let api = Q::API;
        let is_first = self.correlation_id == 0;
        let (frame, correlation_id) = self.encode(version, request)?;
        // Kept since the last answer, it may have been closed for silence; the system would take the request all the same. What
        // closes before the first answer is looked at: it may be no broker.
        if !is_first && self.reader.has_ended() {
            let ended = Some(Err(io::Error::other(CLOSED)));
            return self.judge(api, Delivery::Unsent, within, ended);
        }
        let platform = self.platform.clone();
        let delivery = Cell::new(Delivery::Unsent);
        let exchange = async {
            self.writer.send(&[frame.head()]).await?;
            delivery.set(Delivery::Sent);
            receive(&mut self.reader, &mut self.decoder, &mut self.pool).await
        };
        let received = in_time(&platform, within, exchange).await;
        let frame = self.judge(api, delivery.get(), within, received)?;
        let answer = Answer { address: self.address.clone(), api, version, frame };
        self.check_correlation(&answer, correlation_id)?;
        Ok(answer)
    }

    fn encode<'q, Q: Request<'q>>(
        &mut self,
        version: i16,
        request: &Q,
    ) -> Result<(Encoded, i32), ClientError> {
        let correlation_id = self.correlation_id;
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let call = Call { version, correlation_id, client_id: Some(CLIENT_ID) };
        let frame = encode_request(call, request).map_err(|error| ClientError::Unsendable {
            place: Q::API.name().to_owned(),
            reason: error.to_string(),
        })?;
        Ok((frame, correlation_id))
    }

    fn judge<T>(
        &self,
        api: ApiKey,
        delivery: Delivery,
        within: Duration,
        result: Option<io::Result<T>>,
    ) -> Result<T, ClientError> {
        let address = self.address.clone();
        match result {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(match self.speaks(&error) {
                Some(speaks) => ClientError::Foreign { address, speaks },
                None => ClientError::Broken { address, api, delivery, reason: error.to_string() },
            }),
            None => Err(ClientError::TimedOut { address, api, delivery, within }),
        }
    }

    /// What the other end speaks, where its first words are not Kafka's.
    fn speaks(&self, error: &io::Error) -> Option<Speaks> {
        /// A TLS alert of any version, as it is taken for a frame's size.
        const TLS_ALERTS: std::ops::RangeInclusive<usize> = 0x1503_0000..=0x1503_04ff;
        const SIZE_BYTES: usize = 4;
        let is_first = self.correlation_id == 1;
        let framing = error.get_ref().and_then(|inner| inner.downcast_ref::<FrameError>());
        let claimed = self.decoder.frame_under_way().map(|bytes| bytes - SIZE_BYTES);
        match framing {
            _ if !is_first => None,
            Some(FrameError::Tls) => Some(Speaks::Tls),
            Some(FrameError::Http) => Some(Speaks::Http),
            Some(FrameError::Negative { .. } | FrameError::TooLarge { .. }) => Some(Speaks::Other),
            None => claimed.filter(|bytes| TLS_ALERTS.contains(bytes)).map(|_| Speaks::Tls),
        }
    }

    fn check_correlation(&self, answer: &Answer, expected: i32) -> Result<(), ClientError> {
        let found = answer.frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
        if found == Some(expected) {
            return Ok(());
        }
        Err(ClientError::Broken {
            address: self.address.clone(),
            api: answer.api,
            delivery: Delivery::Sent,
            reason: format!("the answer is numbered {found:?} instead of {expected}"),
        })
    }
}

impl Answer {
    /// The answer to ApiVersions, which a broker that lacks our version gives in version 0.
    fn read_versions(&self, version: i16) -> Result<ApiVersionsResponse<'_>, ClientError> {
        let malformed = |source| ClientError::Malformed {
            address: self.address.clone(),
            api: self.api,
            version,
            source,
        };
        let (_, body) =
            ResponseHeader::decode(self.api, version, &self.frame).map_err(malformed)?;
        ApiVersionsResponse::decode_answer(version, body).map_err(malformed)
    }
}

async fn dial<P: Platform>(
    platform: &P,
    address: &Address,
    within: Duration,
) -> io::Result<(P::Reader, P::Writer)> {
    // Blocks the executor for the time of a look-up: nothing else runs on it before there is a connection.
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

async fn receive<R: ConnectionReader>(
    reader: &mut R,
    decoder: &mut FrameDecoder,
    pool: &mut BufferPool,
) -> io::Result<Bytes> {
    loop {
        if let Some(frame) = decoder.next_frame(pool).map_err(io::Error::other)? {
            return Ok(frame);
        }
        match reader.read(decoder.spare_mut(pool)).await? {
            0 => return Err(io::Error::other(CLOSED)),
            count => decoder.filled(count),
        }
    }
}

/// What `future` gives, or `None` when `within` has passed first.
pub(super) async fn in_time<P: Platform, T>(
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
