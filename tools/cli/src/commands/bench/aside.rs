//! Work that the thread which sends must not do: a thread takes it over a short queue.
//!
//! Owns the queue and its bound. A terminal that stands still (Ctrl-S), a pipe that nobody reads, a disk that is busy with the broker's
//! own writes: each would delay every request of the run if the thread that sends wrote to them itself.

use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::Duration;

use crate::exit::{Failure, Outcome};

/// A thread that does something with each item, and with the end of them.
#[derive(Debug)]
pub(super) struct Aside<T, R> {
    items: SyncSender<T>,
    done: Receiver<R>,
}

/// The queue is full, or the thread is gone: the item was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotTaken<T>(pub(super) T);

/// The thread did not come to its end in the time that was given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stuck;

impl<T: Send + 'static, R: Send + 'static> Aside<T, R> {
    /// Starts a thread that is told items one by one; at most so many wait.
    pub(super) fn start(
        name: &str,
        waiting_max: usize,
        work: impl FnOnce(&mut dyn Iterator<Item = T>) -> R + Send + 'static,
    ) -> Outcome<Self> {
        let (items, receiver) = sync_channel::<T>(waiting_max);
        let (sender, done) = channel();
        let body = move || {
            let result = work(&mut receiver.into_iter());
            // Who does not wait for it any longer has said so.
            let _ = sender.send(result);
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        thread.map_err(|error| Failure::io(format_args!("thread {name}"), &error))?;
        Ok(Self { items, done })
    }

    /// Hands over an item, and never waits.
    pub(super) fn give(&self, item: T) -> Result<(), NotTaken<T>> {
        self.items.try_send(item).map_err(|error| match error {
            TrySendError::Full(item) | TrySendError::Disconnected(item) => NotTaken(item),
        })
    }

    /// There are no more: waits so long for what is left to be done.
    pub(super) fn finish(self, within: Duration) -> Result<R, Stuck> {
        drop(self.items);
        self.done.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => Stuck,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_done_in_order_and_the_end_is_told() {
        let aside = Aside::start("sum", 4, |items| {
            items.fold(Vec::new(), |mut all, item: u32| {
                all.push(item);
                all
            })
        })
        .unwrap();
        for item in [3, 1, 2] {
            aside.give(item).unwrap();
        }
        assert_eq!(aside.finish(Duration::from_secs(60)), Ok(vec![3, 1, 2]));
    }

    #[test]
    fn who_does_not_come_on_delays_nobody() {
        let (go, wait) = channel::<()>();
        let aside = Aside::start("stuck", 2, move |items| {
            let first: Option<u32> = items.next();
            let _ = wait.recv();
            first.into_iter().chain(items).count()
        })
        .unwrap();
        // One is in its hands at most, two wait; the rest are not taken.
        let not_taken = (0..10).filter(|item| aside.give(*item).is_err()).count();
        assert!((7..=8).contains(&not_taken), "{not_taken}");
        let done = aside.done.recv_timeout(Duration::ZERO);
        assert_eq!(done, Err(RecvTimeoutError::Timeout));
        go.send(()).unwrap();
        assert_eq!(aside.finish(Duration::from_secs(60)), Ok(10 - not_taken));
    }
}
