//! One connection of a client: requests out, answers in.
//!
//! Owns frames and correlation ids: the answers must come in the order of the requests, each with the number of its own. Every
//! wait has an end: a request that is never answered on a connection that stands breaks a property.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use broker::sync::Flag;
use wire::{Call, Decoder, Request, Response, ResponseHeader, encode_request};

use super::{Advertise, LifePlan, World};
use crate::platform::{SimMachine, SimSocket};
use crate::verdict::{Verdict, broken};

/// Where the first core listens.
pub(super) const PORT: u16 = 9092;

/// Longer than anything takes: disks and cores stand still for seconds at most.
const PATIENCE: Duration = Duration::from_secs(300);

/// Largest answer that a client takes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Whether a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    Yes,
    /// Produce with acks=0.
    No,
}

/// A connection.
pub(super) struct Connection {
    world: Rc<World>,
    socket: SimSocket,
    next_correlation: i32,
    expected: VecDeque<i32>,
}

/// A client that comes again and again until `is_over`, each time on a connection of its own, `pause_ms` later.
pub(super) async fn visit(
    (world, machine, plan): (&Rc<World>, &SimMachine, LifePlan),
    is_over: Flag,
    pause_ms: (u64, u64),
    mut act: impl AsyncFnMut(&mut Connection) -> Verdict,
) -> Verdict {
    while !is_over.is_raised() {
        world.pause(pause_ms).await;
        let Some(mut connection) = Connection::open(world, machine, plan) else { continue };
        act(&mut connection).await?;
    }
    Ok(())
}

impl Connection {
    /// A connection to some core; `None` where the node does not listen.
    pub(super) fn open(world: &Rc<World>, machine: &SimMachine, plan: LifePlan) -> Option<Self> {
        let core = match world.config.advertise {
            Advertise::Node => 0,
            Advertise::Core => world.chance(|prng| prng.below(u64::from(plan.cores))),
        };
        let port = PORT + u16::try_from(core).expect("a few cores");
        let socket = machine.network().connect(SocketAddr::from(([127, 0, 0, 1], port)))?;
        world.count(|stats| stats.connections += 1);
        world.trace.note("connect", "", [u64::from(port), u64::from(socket.address().port())]);
        let next_correlation =
            world.chance(|prng| i32::try_from(prng.below(1 << 20)).expect("small"));
        Some(Self { world: Rc::clone(world), socket, next_correlation, expected: VecDeque::new() })
    }

    /// Requests that wait for their answers.
    pub(super) fn under_way(&self) -> usize {
        self.expected.len()
    }

    /// Sends a request.
    pub(super) fn send<'a, R: Request<'a>>(
        &mut self,
        version: i16,
        request: &R,
        answered: Answered,
    ) {
        let correlation_id = self.next_correlation;
        self.next_correlation = correlation_id.wrapping_add(1);
        let frame = frame_of(version, correlation_id, request);
        let (api, bytes) = (R::API, frame.len() as u64);
        let number = u64::from(correlation_id.unsigned_abs());
        self.world.trace.note("send", api.name(), [number, bytes]);
        if answered == Answered::Yes {
            self.expected.push_back(correlation_id);
        }
        self.socket.send(&frame);
    }

    /// Sends the beginning of a request and ends the connection.
    pub(super) fn cut_within<'a, R: Request<'a>>(self, version: i16, request: &R, bytes: usize) {
        let frame = frame_of(version, self.next_correlation, request);
        self.socket.send(&frame[..bytes.min(frame.len() - 1)]);
        self.cut();
    }

    /// Ends the connection as it is.
    pub(super) fn cut(self) {
        self.world.count(|stats| stats.cut_connections += 1);
        if self.world.chance(crate::prng::Prng::coin) {
            self.socket.reset();
        }
    }

    /// The next answer; `None` at the end of the connection.
    pub(super) async fn hear(&mut self) -> Verdict<Option<Vec<u8>>> {
        let heard = self.world.executor.within(PATIENCE, next_frame(&self.socket)).await;
        let Some(frame) = heard else {
            let detail = format!("{} requests wait", self.expected.len());
            return broken("every request is answered", detail);
        };
        let Some(frame) = frame? else { return Ok(None) };
        let found = i32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
        let expected = self.expected.pop_front();
        self.world.trace.note("hear", "", [u64::from(found.unsigned_abs()), frame.len() as u64]);
        if expected != Some(found) {
            let detail = format!("an answer to {found}, expected one to {expected:?}");
            return broken("answers come in the order of the requests", detail);
        }
        Ok(Some(frame))
    }

    /// One request and its answer; `None` at the end of the connection.
    pub(super) async fn call<'a, R: Request<'a>>(
        &mut self,
        version: i16,
        request: &R,
    ) -> Verdict<Option<Vec<u8>>> {
        self.send(version, request, Answered::Yes);
        self.hear().await
    }
}

fn frame_of<'a, R: Request<'a>>(version: i16, correlation_id: i32, request: &R) -> Vec<u8> {
    let call = Call { version, correlation_id, client_id: Some("sim") };
    let encoded = encode_request(call, request).expect("a client's request can be encoded");
    encoded.into_bytes().expect("its records are inline").to_vec()
}

async fn next_frame(socket: &SimSocket) -> Verdict<Option<Vec<u8>>> {
    let mut size = [0; 4];
    if !socket.fill(&mut size).await {
        return Ok(None);
    }
    let bytes = usize::try_from(u32::from_be_bytes(size)).expect("32 bits");
    if !(4..=ANSWER_BYTES_MAX).contains(&bytes) {
        return broken("an answer can be read", format!("a frame of {bytes} bytes"));
    }
    let mut frame = vec![0; bytes];
    Ok(socket.fill(&mut frame).await.then_some(frame))
}

/// A body of any API.
pub(super) fn read<'a, M: Response<'a>>(version: i16, frame: &'a [u8]) -> Verdict<M> {
    let decoded = ResponseHeader::decode(M::API, version, frame).and_then(|(_, body)| {
        let mut decoder = Decoder::new(body);
        let message = M::decode_from(version, &mut decoder)?;
        decoder.finish()?;
        Ok(message)
    });
    decoded
        .or_else(|error| broken("an answer can be read", format!("{} v{version}: {error}", M::API)))
}
