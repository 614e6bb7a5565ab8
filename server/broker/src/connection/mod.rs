//! One client connection: frames in, replies out, in order.
//!
//! Owns the reader loop: it cuts frames, starts each request and queues its reply; it stops reading while too much is under way.
//! A byte that is no Kafka request ends this connection, with one rate-limited line in the log, and touches no other.

mod activity;
mod counted;
mod replies;
mod routing;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use commitlog::{Disk, TaskClass};
use futures_lite::future::or;
use record::ShardIndex;
use wire::{FrameDecoder, FrameError, RequestHeader};

pub(crate) use activity::{Activity, ArrivalLimits, Lapse, Patience};
pub(crate) use replies::{Begun, Earlier, PendingReply, ReplyQueue, Served};
pub(crate) use routing::Routing;

use crate::calls::ConnectionNumber;
use crate::connection::counted::{counted_bytes, is_counted};
use crate::context::{Principal, RequestContext, Stages};
use crate::handlers;
use crate::handover::Departure;
use crate::memory::{COUNTED_BYTES_MIN, HeldMemory};
use crate::mesh_call::Message;
use crate::metrics::Stage;
use crate::platform::{ConnectionReader, Mesh, Platform};
use crate::send_path::{PlainSendPath, Sending};
use crate::shard::{Arrival, BadInputKind, Shard};
use crate::sync::Flag;

/// How long replies under way may take to leave once the client has sent its last byte.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Why a connection ended, as far as its reader knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndReason {
    /// The client has sent its last byte.
    #[error("the client closed the connection")]
    Closed,
    /// The socket failed.
    #[error("{0}")]
    Socket(String),
    /// The node stops.
    #[error("the node is stopping")]
    Stopping,
    /// The writer is gone.
    #[error("the connection was lost while replying")]
    Lost,
    /// Nothing has moved for `connections.max.idle.ms`.
    #[error("the connection was idle")]
    Idle,
    /// A request took too long to arrive, and others waited for its memory.
    #[error("a request took too long to arrive while others waited for its memory")]
    SlowRequest,
    /// The client did not take its answers.
    #[error("the client did not take its answers")]
    Stalled,
    /// The bytes are no frame.
    #[error("{0}")]
    Frame(FrameError),
    /// The frame is no request that is served here.
    #[error("{0}")]
    Request(handlers::BadRequest),
    /// It goes on there.
    #[error("the connection moves to core {core}", core = .0.0)]
    Moves(ShardIndex),
}

impl EndReason {
    fn given_up(activity: &Activity) -> Self {
        match activity.lapse() {
            Some(Lapse::Idle) => Self::Idle,
            Some(Lapse::SlowRequest) => Self::SlowRequest,
            Some(Lapse::Stalled) => Self::Stalled,
            None => Self::Lost,
        }
    }
}

/// Serves one connection to its end on this core; gives what is to go on elsewhere, and where.
pub(crate) async fn serve<P: Platform, M: Mesh<Message>>(
    shard: Rc<Shard<P, M>>,
    arrival: (ConnectionNumber, Arrival),
    activity: Rc<Activity>,
    (reader, writer): (P::Reader, P::Writer),
) -> Option<(ShardIndex, Departure)> {
    let queue = ReplyQueue::new(Rc::clone(&activity), shard.state().mutant);
    let sending = Rc::clone(&queue);
    let sender = Rc::clone(&shard);
    let (moving, began) = (Rc::clone(&activity), Cell::new(Duration::ZERO));
    let sent = move |progress| {
        let now = sender.platform().monotonic();
        match progress {
            Sending::Begins => {
                began.set(now);
                moving.begin_sending(now);
            }
            Sending::Sent(bytes) => {
                sender.metrics().sent_bytes.add(bytes as u64);
                moving.piece_sent(now);
                moving.moved(now);
            }
            Sending::Ends => {
                sender.metrics().stage(Stage::Send, now.saturating_sub(began.get()));
                moving.end_sending(now);
            }
        }
    };
    let finished = Flag::default();
    let writing = WritingEnd { activity: Rc::clone(&activity), finished: finished.clone() };
    shard.platform().spawn(
        TaskClass::Foreground,
        Box::pin(async move {
            sending.run(PlainSendPath(writer), sent).await;
            drop(writing);
        }),
    );
    let reading = ReadingEnd { activity: Rc::clone(&activity), queue: Rc::clone(&queue) };
    let peer = reader.peer_address();
    let queued = Rc::clone(&queue);
    let mut incoming = Incoming::begin(&shard, arrival, (reader, queued, activity));
    let (reason, departure) = loop {
        let reason = incoming.run(&shard).await;
        let EndReason::Moves(to) = reason else { break (reason, None) };
        if let Some(departure) = incoming.depart(&shard) {
            break (reason, Some((to, departure)));
        }
    };
    match &reason {
        EndReason::Frame(error) => {
            let kind = match error {
                FrameError::Tls => BadInputKind::Tls,
                FrameError::Http => BadInputKind::Http,
                FrameError::Negative { .. } | FrameError::TooLarge { .. } => BadInputKind::Frame,
            };
            shard.report_bad_input(peer, kind, &reason.to_string());
        }
        EndReason::Request(bad) => shard.report_bad_input(peer, bad.kind(), &reason.to_string()),
        EndReason::Stalled | EndReason::SlowRequest => shard.report_slow_client(peer, &reason),
        _ => tracing::debug!(%peer, %reason, "connection ends"),
    }
    queue.end();
    let drain_time = match reason {
        EndReason::Stopping => shard.state().config.shutdown_timeout,
        _ => DRAIN_TIME,
    };
    or(finished.raised(), shard.platform().sleep(drain_time)).await;
    drop(reading);
    departure
}

/// Dropped when the writing half ends, however it does: after a panic too the reading half must not wait for it.
struct WritingEnd {
    activity: Rc<Activity>,
    finished: Flag,
}

impl Drop for WritingEnd {
    fn drop(&mut self) {
        self.activity.give_up();
        self.finished.raise();
    }
}

/// Dropped when the reading half ends, however it does: after a panic too the writing half must not wait for more requests.
struct ReadingEnd<D: Disk> {
    activity: Rc<Activity>,
    queue: Rc<ReplyQueue<D>>,
}

impl<D: Disk> Drop for ReadingEnd<D> {
    fn drop(&mut self) {
        self.queue.end();
        self.activity.give_up();
    }
}

/// Ends when nothing more is to be read, for whatever reason but the client's.
async fn ended<T>(activity: &Activity, stopping: &Flag) -> Result<T, EndReason> {
    let stopped = async {
        stopping.raised().await;
        Err(EndReason::Stopping)
    };
    let given_up = async {
        activity.given_up().await;
        Err(EndReason::given_up(activity))
    };
    or(stopped, given_up).await
}

/// Ends when the client has been gone for the time that its last replies may take. While nothing is read, a client that leaves
/// with long polls under way would be waited for until the last of them ends.
async fn abandoned<P: Platform, M: Mesh<Message>>(reader: &P::Reader, shard: &Rc<Shard<P, M>>) {
    loop {
        shard.platform().sleep(DRAIN_TIME).await;
        if reader.has_ended() {
            shard.platform().sleep(DRAIN_TIME).await;
            return;
        }
    }
}

/// Ends as [`abandoned`] does, for want of a client.
async fn deserted<P: Platform, M: Mesh<Message>, T>(
    reader: &P::Reader,
    shard: &Rc<Shard<P, M>>,
) -> Result<T, EndReason> {
    abandoned(reader, shard).await;
    Err(EndReason::Closed)
}

/// Goes on with `work` while the connection is not given up; `None` where it was. Nothing is begun after that, or it would take
/// effect without what came before it, which may be gone.
async fn unless_given_up<T>(activity: &Activity, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match activity.is_given_up() {
        true => Poll::Ready(None),
        false => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// The reading half of a connection.
struct Incoming<P: Platform> {
    context: RequestContext,
    decoder: FrameDecoder,
    /// Of the frame that is arriving or being begun, where it is large.
    memory: Option<HeldMemory>,
    /// Monotonic time when the first bytes of the frame under way had come, if it did not come in one piece.
    begun: Option<Duration>,
    reader: P::Reader,
    queue: Rc<ReplyQueue<P::Disk>>,
    activity: Rc<Activity>,
}

impl<P: Platform> Incoming<P> {
    fn begin<M: Mesh<Message>>(
        shard: &Shard<P, M>,
        (connection, arrival): (ConnectionNumber, Arrival),
        (reader, queue, activity): (P::Reader, Rc<ReplyQueue<P::Disk>>, Rc<Activity>),
    ) -> Self {
        let limits = shard.frame_limits();
        let context = RequestContext {
            connection,
            principal: Principal::Anonymous,
            listener: arrival.listener,
            client: None,
            peer: reader.peer_address(),
            local: reader.local_address(),
            stages: Stages::default(),
            routing: arrival.routing,
            activity: Rc::clone(&activity),
        };
        let decoder = match arrival.read_ahead {
            Some(read_ahead) => FrameDecoder::resumed(limits, read_ahead),
            None => FrameDecoder::new(limits),
        };
        Self { context, decoder, memory: None, begun: None, reader, queue, activity }
    }

    async fn run<M: Mesh<Message>>(&mut self, shard: &Rc<Shard<P, M>>) -> EndReason {
        loop {
            let frame = match self.next_frame(shard).await {
                Ok(frame) => frame,
                Err(reason) => return reason,
            };
            let now = shard.platform().monotonic();
            let begun = self.begun.take().unwrap_or(now);
            shard.metrics().stage(Stage::Read, now.saturating_sub(begun));
            self.context.stages.received = now;
            self.activity.moved(now);
            let memory = match self.memory_of(shard, &frame).await {
                Ok(memory) => memory.map(Rc::new),
                Err(reason) => return reason,
            };
            self.activity.note_memory(memory.as_ref().and_then(|memory| memory.watch()));
            match self.begin_request(shard, (frame, memory)).await {
                Ok(begun) => self.queue.push(begun),
                Err(reason) => return reason,
            }
            let room = async {
                self.queue.room().await;
                Ok(())
            };
            if let Err(reason) = or(room, deserted(&self.reader, shard)).await {
                return reason;
            }
            if self.activity.is_given_up() {
                return EndReason::given_up(&self.activity);
            }
            if let Some(core) = shard.destination_of(&self.context.routing)
                && shard.take_handover_turn()
            {
                self.come_to_rest(shard).await;
                // Answers that were still to come may have changed what is known of it.
                if self.may_move(shard, core) {
                    return EndReason::Moves(core);
                }
            }
        }
    }

    /// Starts a request. One that waits, for those before it or for room in a log, ends with its client: what has no place in a
    /// log by then gets none, and was never acknowledged.
    async fn begin_request<M: Mesh<Message>>(
        &mut self,
        shard: &Rc<Shard<P, M>>,
        (frame, memory): (Bytes, Option<Rc<HeldMemory>>),
    ) -> Result<Begun<P::Disk>, EndReason> {
        let (reader, activity) = (&self.reader, &self.activity);
        let earlier = self.queue.all_served();
        let begun = handlers::begin(shard, &mut self.context, (frame, memory), earlier);
        let begin = async {
            let begun = unless_given_up(activity, begun).await;
            begun.ok_or_else(|| EndReason::given_up(activity))?.map_err(EndReason::Request)
        };
        let given_up = async {
            activity.given_up().await;
            Err(EndReason::given_up(activity))
        };
        or(begin, or(given_up, deserted(reader, shard))).await
    }

    /// Reads nothing more until every answer has been sent, or there is no point in it. Answers come in the order of the requests:
    /// nobody gets his later for it.
    async fn come_to_rest<M: Mesh<Message>>(&self, shard: &Rc<Shard<P, M>>) {
        let over = or(shard.stopping().raised(), abandoned(&self.reader, shard));
        or(self.queue.all_sent(), over).await;
    }

    fn may_move<M: Mesh<Message>>(&self, shard: &Rc<Shard<P, M>>, core: ShardIndex) -> bool {
        self.queue.is_empty()
            && !self.activity.is_given_up()
            && shard.destination_of(&self.context.routing) == Some(core)
    }

    /// Makes this connection plain data, for the core that it moves to; `None` where that cannot be, and it stays.
    fn depart<M: Mesh<Message>>(&mut self, shard: &Shard<P, M>) -> Option<Departure> {
        let routing = &self.context.routing;
        assert!(self.queue.is_empty(), "a connection moves with nothing under way");
        assert!(self.memory.is_none(), "memory is taken for a frame under way only");
        let parted = match self.reader.part() {
            Ok(parted) => parted,
            Err(error) => {
                tracing::debug!(peer = %self.context.peer, %error, "a connection cannot be moved");
                routing.stay(shard.platform().monotonic());
                return None;
            }
        };
        let decoder = FrameDecoder::new(shard.frame_limits());
        let decoder = std::mem::replace(&mut self.decoder, decoder);
        Some(Departure {
            parted,
            read_ahead: decoder.into_arrived(&mut shard.buffers().borrow_mut()),
            session: shard.fetch_sessions().borrow_mut().take(routing.session()),
            moves: routing.next_moves(),
        })
    }

    async fn next_frame<M: Mesh<Message>>(
        &mut self,
        shard: &Rc<Shard<P, M>>,
    ) -> Result<Bytes, EndReason> {
        loop {
            let next = self.decoder.next_frame(&mut shard.buffers().borrow_mut());
            if let Some(frame) = next.map_err(EndReason::Frame)? {
                return Ok(frame);
            }
            if self.begun.is_none() && self.decoder.pending_bytes() > 0 {
                self.begun = Some(shard.platform().monotonic());
            }
            // A request that nobody serves is not read to its end (P72).
            RequestHeader::check_start(self.decoder.frame_start())
                .map_err(|error| EndReason::Request(error.into()))?;
            self.reserve_memory(shard).await?;
            let count = self.read_more(shard).await?;
            shard.metrics().received_bytes.add(count as u64);
            self.activity.note_arrival(count);
            self.decoder.filled(count);
        }
    }

    /// Waits for memory for the frame under way before more of it is read than an uncounted request has: who only announces much
    /// takes nothing from others.
    async fn reserve_memory<M: Mesh<Message>>(
        &mut self,
        shard: &Rc<Shard<P, M>>,
    ) -> Result<(), EndReason> {
        if self.memory.is_some() {
            return Ok(());
        }
        let Some(bytes) = self.decoder.frame_under_way() else { return Ok(()) };
        if bytes > COUNTED_BYTES_MIN && self.decoder.pending_bytes() > COUNTED_BYTES_MIN {
            let counted = counted_bytes(self.decoder.frame_start(), bytes);
            self.memory = Some(self.take_memory(shard, counted).await?);
            self.activity.begin_arrival(shard.platform().monotonic());
        }
        Ok(())
    }

    /// The memory of a frame that has arrived; taken now if it came in one piece: what it may become is more than it is.
    async fn memory_of<M: Mesh<Message>>(
        &mut self,
        shard: &Rc<Shard<P, M>>,
        frame: &Bytes,
    ) -> Result<Option<HeldMemory>, EndReason> {
        if let Some(reserved) = self.memory.take() {
            self.activity.end_arrival();
            return Ok(Some(reserved));
        }
        if !is_counted(frame, frame.len()) {
            return Ok(None);
        }
        let counted = counted_bytes(frame, frame.len());
        self.take_memory(shard, counted).await.map(Some)
    }

    /// Waits for memory, unless the client is gone by then: what it sent must not take effect long after.
    async fn take_memory<M: Mesh<Message>>(
        &self,
        shard: &Rc<Shard<P, M>>,
        counted: usize,
    ) -> Result<HeldMemory, EndReason> {
        let take = async { Ok(shard.request_memory().take(counted).await) };
        let ended = ended(&self.activity, shard.stopping());
        // In memory of its own, like all that a connection seldom does: it would be a part of every connection otherwise.
        Box::pin(or(take, or(ended, deserted(&self.reader, shard)))).await
    }

    async fn read_more<M: Mesh<Message>>(
        &mut self,
        shard: &Rc<Shard<P, M>>,
    ) -> Result<usize, EndReason> {
        let Self { decoder, reader, activity, .. } = self;
        let read = poll_fn(|context| {
            let mut buffers = shard.buffers().borrow_mut();
            let read = reader.poll_read(context, decoder.spare_mut(&mut buffers));
            if read.is_pending() {
                // Most connections wait for a request nearly always: together they need few buffers.
                decoder.rest(&mut buffers);
            }
            read.map(|read| match read {
                Ok(0) => Err(EndReason::Closed),
                Ok(count) => Ok(count),
                Err(error) => Err(EndReason::Socket(error.to_string())),
            })
        });
        or(read, ended(activity, shard.stopping())).await
    }
}
