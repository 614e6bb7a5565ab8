//! Several futures at once on one task: all of them, or the first.
//!
//! Owns two small loops over boxed futures. Every wake polls all of them: there is one for each broker, and a cluster of
//! commands is small.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// A future of a connection.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What all of `futures` give, in their order.
pub(crate) async fn all<T>(futures: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut slots: Vec<Slot<'_, T>> = futures.into_iter().map(Slot::Waiting).collect();
    poll_fn(|context| {
        for slot in &mut slots {
            if let Slot::Waiting(future) = slot
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Slot::Done(value);
            }
        }
        let is_waiting = slots.iter().any(|slot| matches!(slot, Slot::Waiting(_)));
        if is_waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let done = slots.into_iter().filter_map(|slot| match slot {
        Slot::Done(value) => Some(value),
        Slot::Waiting(_) => None,
    });
    done.collect()
}

enum Slot<'a, T> {
    Waiting(Boxed<'a, T>),
    Done(T),
}

/// What the first of `futures` to be done gives; it is taken out. `None` where there are none.
pub(crate) async fn first<T>(futures: &mut Vec<Boxed<'_, T>>) -> Option<T> {
    if futures.is_empty() {
        return None;
    }
    let (index, value) = poll_fn(|context| {
        for (index, future) in futures.iter_mut().enumerate() {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready((index, value));
            }
        }
        Poll::Pending
    })
    .await;
    // The rest keep their order but for the one taken, which goes behind: a busy broker does not starve the others.
    drop(futures.remove(index));
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, yield_now};

    fn after(polls: usize, value: u8) -> Boxed<'static, u8> {
        Box::pin(async move {
            for _ in 0..polls {
                yield_now().await;
            }
            value
        })
    }

    #[test]
    fn all_give_their_values_in_order() {
        assert_eq!(block_on(all(vec![after(3, 1), after(0, 2), after(1, 3)])), [1, 2, 3]);
        assert!(block_on(all(Vec::<Boxed<'_, u8>>::new())).is_empty());
    }

    #[test]
    fn the_first_is_taken_out_and_the_others_go_on() {
        let mut futures = vec![after(5, 1), after(1, 2), after(3, 3)];
        assert_eq!(block_on(first(&mut futures)), Some(2));
        assert_eq!(block_on(first(&mut futures)), Some(3));
        assert_eq!(block_on(first(&mut futures)), Some(1));
        assert_eq!(block_on(first(&mut futures)), None);
    }
}
