//! Waiting, within one core: a value that arrives once, an event that many wait for, and what is built of the two.
//!
//! Owns small primitives for tasks of one executor. They are not `Send`, allocate once, and never lose a wake-up: a waiter
//! registers before it looks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use commitlog::{Executor, TaskClass};
use futures_lite::future::or;

/// What both halves of a one-time channel share.
#[derive(Debug)]
struct Shared<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    sender_gone: Cell<bool>,
}

/// The half that gives the value.
#[derive(Debug)]
pub struct OnceSender<T>(Rc<Shared<T>>);

/// The half that awaits it; `None` when the sender went away without one.
#[derive(Debug)]
pub struct OnceReceiver<T>(Rc<Shared<T>>);

/// A channel for one value between two tasks of this core.
#[must_use]
pub fn once<T>() -> (OnceSender<T>, OnceReceiver<T>) {
    let shared = Rc::new(Shared {
        value: RefCell::new(None),
        waker: RefCell::new(None),
        sender_gone: Cell::new(false),
    });
    (OnceSender(Rc::clone(&shared)), OnceReceiver(shared))
}

impl<T> OnceSender<T> {
    /// Whether nobody waits for the value any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    /// Gives the value. A receiver that went away simply never sees it.
    pub fn send(self, value: T) {
        *self.0.value.borrow_mut() = Some(value);
    }
}

impl<T> Drop for OnceSender<T> {
    fn drop(&mut self) {
        self.0.sender_gone.set(true);
        let waker = self.0.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.0.value.borrow_mut().take() {
            return Poll::Ready(Some(value));
        }
        if self.0.sender_gone.get() {
            return Poll::Ready(None);
        }
        *self.0.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Something that happens again and again, and that any number of tasks may wait for.
#[derive(Debug, Default)]
pub struct Event {
    generation: Cell<u64>,
    next_key: Cell<u64>,
    waiters: RefCell<Waiters>,
}

/// Who waits for an event, by the number of the wait. A connection has events of its own, and at most two tasks to wait for any of
/// them: those need no memory beside the event's.
#[derive(Debug)]
enum Waiters {
    Few([Option<(u64, Waker)>; FEW_WAITERS]),
    Many(BTreeMap<u64, Waker>),
}

const FEW_WAITERS: usize = 2;

impl Default for Waiters {
    fn default() -> Self {
        Self::Few([const { None }; FEW_WAITERS])
    }
}

impl Waiters {
    fn insert(&mut self, key: u64, waker: Waker) {
        let slots = match self {
            Self::Many(waiters) => {
                waiters.insert(key, waker);
                return;
            }
            Self::Few(slots) => slots,
        };
        let is_own = |slot: &Option<(u64, Waker)>| slot.as_ref().is_some_and(|one| one.0 == key);
        let own = slots.iter().position(is_own);
        match own.or_else(|| slots.iter().position(Option::is_none)) {
            Some(place) => slots[place] = Some((key, waker)),
            None => {
                let few = slots.iter_mut().filter_map(Option::take);
                *self = Self::Many(few.chain([(key, waker)]).collect());
            }
        }
    }

    fn remove(&mut self, key: u64) {
        match self {
            Self::Few(slots) => {
                let is_own = |one: &mut (u64, Waker)| one.0 == key;
                slots.iter_mut().for_each(|slot| drop(slot.take_if(is_own)));
            }
            Self::Many(waiters) => {
                waiters.remove(&key);
                if waiters.len() <= FEW_WAITERS {
                    let mut few = std::mem::take(waiters).into_iter();
                    *self = Self::Few(std::array::from_fn(|_| few.next()));
                }
            }
        }
    }

    /// Wakes them in the order in which they began to wait.
    fn wake(self) {
        match self {
            Self::Few(mut slots) => {
                slots.sort_unstable_by_key(|slot| slot.as_ref().map(|one| one.0));
                slots.into_iter().flatten().for_each(|(_, waker)| waker.wake());
            }
            Self::Many(waiters) => waiters.into_values().for_each(Waker::wake),
        }
    }
}

impl Event {
    /// An event that has not happened yet.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// Wakes everyone who listens; listeners made from now on wait for the next time.
    pub fn notify(&self) {
        self.generation.set(self.generation.get().wrapping_add(1));
        let waiters = self.waiters.take();
        waiters.wake();
    }

    /// A future that ends at the next [`Event::notify`] after this call.
    pub fn listen(self: &Rc<Self>) -> Listen {
        let key = self.next_key.get();
        self.next_key.set(key.wrapping_add(1));
        Listen { event: Rc::clone(self), generation: self.generation.get(), key }
    }
}

/// See [`Event::listen`].
#[derive(Debug)]
pub struct Listen {
    event: Rc<Event>,
    generation: u64,
    key: u64,
}

impl Future for Listen {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.event.generation.get() != self.generation {
            return Poll::Ready(());
        }
        self.event.waiters.borrow_mut().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        self.event.waiters.borrow_mut().remove(self.key);
    }
}

/// Work for one task, in the order it came. Whoever pushes keeps the bound.
#[derive(Debug)]
pub struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    arrived: Rc<Event>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: RefCell::default(), arrived: Rc::default() }
    }
}

impl<T> Queue<T> {
    /// Puts an item behind the others.
    pub fn push(&self, item: T) {
        self.items.borrow_mut().push_back(item);
        self.arrived.notify();
    }

    /// The next item, once there is one.
    pub async fn pop(&self) -> T {
        loop {
            let next = self.items.borrow_mut().pop_front();
            if let Some(next) = next {
                return next;
            }
            self.arrived.listen().await;
        }
    }
}

/// What one task at a time may do.
#[derive(Debug, Default)]
pub struct Turns {
    is_taken: Cell<bool>,
    ended: Rc<Event>,
}

/// The turn of one task, until it is dropped, however that comes about.
#[derive(Debug)]
pub struct Turn(Rc<Turns>);

impl Turns {
    /// Takes a turn, once there is none.
    pub async fn take(self: &Rc<Self>) -> Turn {
        while self.is_taken.replace(true) {
            self.ended.listen().await;
        }
        Turn(Rc::clone(self))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.ended.notify();
    }
}

/// Runs `futures` side by side in this task until all have ended. Keep them few: each wakes the whole task.
pub async fn join(futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    let mut pending = futures;
    std::future::poll_fn(|context| {
        pending.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Runs `aside` along with `work` in this task, until `work` has ended.
pub async fn beside<T>(work: impl Future<Output = T>, aside: impl Future<Output = ()>) -> T {
    let forever = async {
        aside.await;
        std::future::pending().await
    };
    or(work, forever).await
}

/// Runs `work` as a task of its own and waits for its outcome; `None` where it panicked, which the executor has counted. For a
/// loop that serves many: one piece of its work must not end it.
pub async fn contained<E: Executor, T: 'static>(
    executor: &E,
    class: TaskClass,
    work: impl Future<Output = T> + 'static,
) -> Option<T> {
    let (sender, receiver) = once();
    executor.spawn(class, Box::pin(async move { sender.send(work.await) }));
    receiver.await
}

/// A flag that is raised once and stays up: "this core is stopping".
#[derive(Debug, Clone, Default)]
pub struct Flag(Rc<FlagState>);

#[derive(Debug, Default)]
struct FlagState {
    raised: Cell<bool>,
    event: Rc<Event>,
}

impl Flag {
    /// Raises the flag and wakes whoever waits for it.
    pub fn raise(&self) {
        self.0.raised.set(true);
        self.0.event.notify();
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.raised.get()
    }

    /// Ends when the flag is up.
    pub async fn raised(&self) {
        while !self.is_raised() {
            self.0.event.listen().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    #[test]
    fn a_value_sent_before_or_after_the_wait_arrives() {
        let (sender, receiver) = once();
        sender.send(7);
        assert_eq!(block_on(receiver), Some(7));
        let (sender, mut receiver) = once();
        assert_eq!(block_on(poll_once(&mut receiver)), None);
        sender.send(8);
        assert_eq!(block_on(receiver), Some(8));
    }

    #[test]
    fn a_sender_that_goes_away_ends_the_wait() {
        let (sender, receiver) = once::<u8>();
        drop(sender);
        assert_eq!(block_on(receiver), None);
    }

    #[test]
    fn joined_futures_run_side_by_side_and_end_together() {
        let (first, first_sent) = once::<u8>();
        let (second, second_sent) = once::<u8>();
        // Each ends only after the other has started.
        let one: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            second.send(1);
            assert_eq!(first_sent.await, Some(2));
        });
        let other = Box::pin(async move {
            first.send(2);
            assert_eq!(second_sent.await, Some(1));
        });
        block_on(join(vec![one, other]));
        block_on(join(Vec::new()));
    }

    #[test]
    fn a_turn_is_taken_by_one_at_a_time_and_given_back_when_it_is_dropped() {
        let turns = Rc::new(Turns::default());
        let first = block_on(turns.take());
        let mut second = Box::pin(turns.take());
        assert!(block_on(poll_once(&mut second)).is_none());
        drop(first);
        let second = block_on(second);
        let mut given_up = Box::pin(turns.take());
        assert!(block_on(poll_once(&mut given_up)).is_none());
        drop(given_up);
        drop(second);
        drop(block_on(turns.take()));
    }

    #[test]
    fn an_event_wakes_those_who_listened_before_it_and_forgets_the_rest() {
        let event = Event::new();
        let early = event.listen();
        let mut dropped = event.listen();
        assert_eq!(block_on(poll_once(&mut dropped)), None);
        drop(dropped);
        assert!(matches!(&*event.waiters.borrow(), Waiters::Few([None, None])));
        event.notify();
        block_on(early);
        let mut late = event.listen();
        assert_eq!(block_on(poll_once(&mut late)), None);
    }

    /// Notes in what order the waiters of one event are woken.
    struct Order(u64, std::sync::Arc<std::sync::Mutex<Vec<u64>>>);

    impl std::task::Wake for Order {
        fn wake(self: std::sync::Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    /// Begins so many waits, polls them from the last to the first, polls the `again` once more and drops the `gone`; checks who
    /// is woken.
    fn check_waits(count: u64, again: &[u64], gone: &[u64], expected: &[u64]) {
        let (event, woken) = (Event::new(), std::sync::Arc::default());
        let waker =
            |key| Waker::from(std::sync::Arc::new(Order(key, std::sync::Arc::clone(&woken))));
        let mut waits: BTreeMap<u64, Listen> =
            (0..count).map(|key| (key, event.listen())).collect();
        for (key, wait) in waits.iter_mut().rev() {
            assert!(Pin::new(wait).poll(&mut Context::from_waker(&waker(*key))).is_pending());
        }
        for key in again {
            let wait = Pin::new(waits.get_mut(key).unwrap());
            assert!(wait.poll(&mut Context::from_waker(&waker(100 + key))).is_pending());
        }
        waits.retain(|key, _| !gone.contains(key));
        event.notify();
        assert_eq!(*woken.lock().unwrap(), expected, "{count} waits without {gone:?}");
    }

    #[test]
    fn however_many_wait_each_is_woken_once_in_the_order_of_the_waits() {
        check_waits(0, &[], &[], &[]);
        check_waits(1, &[0], &[], &[100]);
        check_waits(2, &[1], &[], &[0, 101]);
        check_waits(2, &[], &[0], &[1]);
        check_waits(2, &[], &[1], &[0]);
        check_waits(3, &[2, 0], &[], &[100, 1, 102]);
        check_waits(3, &[], &[1], &[0, 2]);
        check_waits(3, &[], &[0, 1, 2], &[]);
        check_waits(5, &[4], &[0, 3], &[1, 2, 104]);
    }

    #[test]
    fn an_event_that_many_waited_for_is_small_again_when_few_do() {
        let event = Event::new();
        let mut waits: Vec<Listen> = (0..9).map(|_| event.listen()).collect();
        waits.iter_mut().for_each(|wait| assert!(block_on(poll_once(wait)).is_none()));
        assert!(matches!(&*event.waiters.borrow(), Waiters::Many(_)));
        waits.truncate(FEW_WAITERS);
        assert!(matches!(&*event.waiters.borrow(), Waiters::Few([Some(_), Some(_)])));
    }
}
