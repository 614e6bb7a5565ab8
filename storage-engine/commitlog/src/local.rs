//! Waiting on one core: an event, and a bounded set of futures run together.
//!
//! Owns nothing but wakers. Nothing here is `Send`, allocates per poll, or wakes while a borrow is held.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Poll, Waker};

/// Something that happened; whoever waits looks again.
#[derive(Debug, Default)]
pub(crate) struct Event {
    wakers: RefCell<Vec<Waker>>,
}

impl Event {
    /// Wakes everyone who waits.
    pub(crate) fn notify(&self) {
        // Taken out first: a waker may run the task at once, and that task may wait again.
        let wakers = std::mem::take(&mut *self.wakers.borrow_mut());
        for waker in wakers {
            waker.wake();
        }
    }

    /// Waits until `ready` gives a value; it is asked at once and after every [`Event::notify`].
    pub(crate) async fn wait_for<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(value) = ready() {
                return Poll::Ready(value);
            }
            let mut wakers = self.wakers.borrow_mut();
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

/// Runs all of `futures` together and gives their values in the same order.
///
/// The caller bounds their number: each wake polls every one that is not done.
pub(crate) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<Option<Pin<Box<F>>>> =
        futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut values: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (future, value) in running.iter_mut().zip(values.iter_mut()) {
            let Some(pinned) = future else { continue };
            match pinned.as_mut().poll(context) {
                Poll::Ready(output) => {
                    *value = Some(output);
                    *future = None;
                }
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    values.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_waiter_sees_what_happened_before_and_after_it_waits() {
        let event = Rc::new(Event::default());
        let value = Rc::new(Cell::new(0));
        let waiter = event.wait_for(|| (value.get() == 2).then_some("seen"));
        let driver = async {
            for next in 1..=2 {
                value.set(next);
                event.notify();
                futures_lite::future::yield_now().await;
            }
        };
        let (seen, ()) = futures_lite::future::block_on(futures_lite::future::zip(waiter, driver));
        assert_eq!(seen, "seen");
    }

    #[test]
    fn joined_futures_keep_their_order() {
        let values = futures_lite::future::block_on(join_all(
            (0..5)
                .map(|index| async move {
                    for _ in index..5 {
                        futures_lite::future::yield_now().await;
                    }
                    index
                })
                .collect(),
        ));
        assert_eq!(values, vec![0, 1, 2, 3, 4]);
    }
}
