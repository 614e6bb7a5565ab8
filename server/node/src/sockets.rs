//! Which sockets of an executor can be read or written.
//!
//! Owns [`Sockets`], one an executor, and [`Socket`], a descriptor in it. The kernel notes in one epoll set what happened to which
//! socket, and the ring waits for that set. A wait in the ring for each socket would be a submission for each request, and an
//! interrupt of this core for each that comes while it works: that is a fifth of what a small request costs. Must never wait, and
//! never take a descriptor out of the set later than it is closed: a set knows what a descriptor stands for, and that may be open
//! elsewhere.
//!
//! ```text
//! bytes come ─► set ─► ring, once however many come ─► `run`: asks the set, wakes who waits, waits again
//! recv or send that would block ─► nothing is asked of that socket until the set names it
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_lite::AsyncRead;
use glommio::net as runtime;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::platform::FOREGROUND_SHARES;
use crate::pulse::{Pulse, counted};
use crate::queue::task_queue;

/// Sockets that one question names at most; there is another question then.
const EVENTS_MAX: usize = 256;
/// How often the set is asked while this process has no descriptor left to wait for it with.
const WITHOUT_DESCRIPTOR: Duration = Duration::from_millis(1);

thread_local! {
    static CURRENT: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// The sockets of an executor that has some, and who asks about them.
#[derive(Debug)]
struct Running {
    sockets: Rc<Sockets>,
    task: glommio::Task<()>,
}

/// Nobody asks about the sockets of this executor any more: to be called last in it, since its descriptors would stay open.
pub(crate) async fn end() {
    if let Some(Running { task, .. }) = CURRENT.take() {
        task.cancel().await;
    }
}

/// The sockets of one executor.
#[derive(Debug)]
struct Sockets {
    set: Epoll,
    /// By their number in the set.
    states: RefCell<Vec<Option<Rc<State>>>>,
    free: RefCell<Vec<usize>>,
}

/// What is known of a socket.
#[derive(Debug)]
struct State {
    receive: Side,
    send: Side,
    /// The other end sends no more: what is there and the end are to be read without being told again.
    is_ending: Cell<bool>,
}

/// One direction of it.
#[derive(Debug)]
struct Side {
    /// Nothing is known that would make it wait.
    is_ready: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Side {
    /// It may be tried at once: that is how a socket that was just made finds out.
    fn new() -> Self {
        Self { is_ready: Cell::new(true), waiting: RefCell::new(None) }
    }

    fn tell(&self) {
        self.is_ready.set(true);
        let waiting = self.waiting.borrow_mut().take();
        if let Some(task) = waiting {
            task.wake();
        }
    }

    /// Tries it where it may not block; else the task is woken when that changes.
    fn poll<R>(
        &self,
        context: &Context<'_>,
        mut call: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        while self.is_ready.get() {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_ready.set(false),
                done => return Poll::Ready(done),
            }
        }
        let mut waiting = self.waiting.borrow_mut();
        match waiting.as_ref() {
            Some(task) if task.will_wake(context.waker()) => {}
            _ => *waiting = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Sockets {
    /// Those of the executor that runs this.
    fn current() -> io::Result<Rc<Self>> {
        let current = |running: &Option<Running>| running.as_ref().map(|one| one.sockets.clone());
        if let Some(current) = CURRENT.with_borrow(current) {
            return Ok(current);
        }
        let sockets = Rc::new(Self {
            set: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            states: RefCell::default(),
            free: RefCell::default(),
        });
        let run = counted(&Pulse::current(), sockets.clone().run());
        // Tasks that somebody waits for wait for this one.
        let queue = task_queue("sockets", FOREGROUND_SHARES);
        let task = glommio::spawn_local_into(run, queue);
        let task = task.expect("the queue lives as long as its executor");
        CURRENT.set(Some(Running { sockets: sockets.clone(), task }));
        Ok(sockets)
    }

    async fn run(self: Rc<Self>) {
        loop {
            self.look();
            // Whoever was woken runs before the set is asked again; what comes meanwhile ends this wait at once.
            if self.wait().await.is_err() {
                glommio::timer::sleep(WITHOUT_DESCRIPTOR).await;
            }
        }
    }

    /// Asks the set, and wakes who waited for what it names.
    fn look(&self) {
        let mut events = [EpollEvent::empty(); EVENTS_MAX];
        loop {
            // Fails where a signal came, or for good reasons of which none holds here: the next look tells.
            let count = self.set.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
            for event in &events[..count] {
                let number = usize::try_from(event.data()).unwrap_or(usize::MAX);
                let state = self.states.borrow().get(number).cloned().flatten();
                if let Some(state) = state {
                    state.note(event.events());
                }
            }
            if count < EVENTS_MAX {
                return;
            }
        }
    }

    /// Until the set has something to say. Errors: no descriptor is left to this process.
    async fn wait(&self) -> io::Result<()> {
        let set = self.set.0.as_fd().try_clone_to_owned()?;
        // SAFETY: the descriptor was just taken out of its owner, so this is its only owner.
        let mut set = unsafe { runtime::TcpStream::from_raw_fd(set.into_raw_fd()) };
        // A set cannot be read. The runtime tries once the ring has found it ready: when that has failed, it is.
        let read = |context: &mut Context<'_>| Pin::new(&mut set).poll_read(context, &mut [0]);
        let _ = std::future::poll_fn(read).await;
        Ok(())
    }
}

impl State {
    fn note(&self, events: EpollFlags) {
        let has_failed = events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        if has_failed || events.contains(EpollFlags::EPOLLRDHUP) {
            self.is_ending.set(true);
        }
        if has_failed || events.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP) {
            self.receive.tell();
        }
        if has_failed || events.contains(EpollFlags::EPOLLOUT) {
            self.send.tell();
        }
    }
}

/// A nonblocking socket of this executor. Dropping it closes the descriptor.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    number: usize,
    state: Rc<State>,
    sockets: Rc<Sockets>,
}

impl Socket {
    /// Errors  the descriptor is closed; no memory is left, or too many are in sets already.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let sockets = Sockets::current()?;
        let state =
            Rc::new(State { receive: Side::new(), send: Side::new(), is_ending: Cell::new(false) });
        let free = sockets.free.borrow_mut().pop();
        let number = free.unwrap_or_else(|| {
            sockets.states.borrow_mut().push(None);
            sockets.states.borrow().len() - 1
        });
        sockets.states.borrow_mut()[number] = Some(state.clone());
        let socket = Self { descriptor, number, state, sockets };
        let wanted = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        let event = EpollEvent::new(wanted, number as u64);
        // Where this fails, dropping it puts the number back.
        socket.sockets.set.add(&socket.descriptor, event)?;
        Ok(socket)
    }

    /// `receive`, into a buffer of `bytes_max`, where it may not block; else the task is woken when there is something, or the end.
    ///
    /// Fewer bytes than asked for empty the socket: it is not tried again before the set names it.
    pub(crate) fn poll_receive(
        &self,
        context: &Context<'_>,
        bytes_max: usize,
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let received = self.state.receive.poll(context, || receive(self.descriptor.as_fd()));
        if let Poll::Ready(Ok(bytes)) = &received
            && (1..bytes_max).contains(bytes)
            && !self.state.is_ending.get()
        {
            self.state.receive.is_ready.set(false);
        }
        received
    }

    /// `accept` where it may not block; else the task is woken when somebody has connected.
    pub(crate) fn poll_accept<R>(
        &self,
        context: &Context<'_>,
        mut accept: impl FnMut(BorrowedFd<'_>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.state.receive.poll(context, || accept(self.descriptor.as_fd()))
    }

    /// `send` where it may not block; else the task is woken when there is room, or it has failed.
    pub(crate) fn poll_send<R>(
        &self,
        context: &Context<'_>,
        mut send: impl FnMut(BorrowedFd<'_>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.state.send.poll(context, || send(self.descriptor.as_fd()))
    }

    /// The set forgets it: another core goes on with what its descriptor stands for.
    pub(crate) fn leave(&self) {
        // Not there any more where it has left before.
        let _ = self.sockets.set.delete(&self.descriptor);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.leave();
        self.sockets.states.borrow_mut()[self.number] = None;
        self.sockets.free.borrow_mut().push(self.number);
    }
}

#[cfg(test)]
mod tests;
