//! What this machine can do, measured the way a node uses it.
//!
//! Owns the measurements that `self-test` and `tune` share: files through the node's `Disk`, sockets through its `Platform`, on
//! an executor like a data core's. Each is bounded in time and bytes, and ends early when it is told to; none leaves a file.

pub(crate) mod disk;
pub(crate) mod facts;
pub(crate) mod loopback;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;

/// How long single operations took, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Latency {
    /// How many.
    pub(crate) count: usize,
    /// Half of them were within.
    pub(crate) p50_us: f64,
    /// 99 of 100 were.
    pub(crate) p99_us: f64,
    /// The longest.
    pub(crate) max_us: f64,
}

impl Latency {
    /// Of these times; `None` where there are none.
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let longest = *times.last()?;
        let at = |percent: usize| {
            // The smallest that so many do not pass.
            let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(rank).copied().unwrap_or(longest)
        };
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Some(Self {
            count: times.len(),
            p50_us: us(at(50)),
            p99_us: us(at(99)),
            max_us: us(longest),
        })
    }
}

/// A few futures of this task, side by side until all have ended.
pub(crate) async fn together<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut left: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    poll_fn(|context| {
        for (future, result) in &mut left {
            if let Some(running) = future
                && let Poll::Ready(ended) = running.as_mut().poll(context)
            {
                (*future, *result) = (None, Some(ended));
            }
        }
        if left.iter().all(|(future, _)| future.is_none()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    left.into_iter().filter_map(|(_, result)| result).collect()
}

/// Millions of bytes a second.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn mb_per_second(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { bytes as f64 / 1e6 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let latency = Latency::of(times).unwrap();
        let expected = Latency { count: 200, p50_us: 100.0, p99_us: 198.0, max_us: 200.0 };
        assert_eq!(latency.count, expected.count);
        for (one, other) in [
            (latency.p50_us, expected.p50_us),
            (latency.p99_us, expected.p99_us),
            (latency.max_us, expected.max_us),
        ] {
            assert!((one - other).abs() < 1e-6, "{latency:?}");
        }
        assert_eq!(Latency::of(Vec::new()), None);
        assert!(Latency::of(vec![Duration::from_micros(7)]).is_some_and(|one| one.p99_us > 6.9));
        assert!((mb_per_second(3_000_000, Duration::from_secs(2)) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_done_together_ends_when_the_last_has_ended() {
        let of = |number: u32| -> Pin<Box<dyn Future<Output = u32>>> {
            Box::pin(async move {
                for _ in 0..number {
                    futures_lite::future::yield_now().await;
                }
                number
            })
        };
        let ended = futures_lite::future::block_on(together(vec![of(3), of(0), of(7)]));
        assert_eq!(ended, [3, 0, 7]);
    }
}
