//! A run that sends and reads at the same time: producers at a rate, and beside them consumers that catch up from the beginning of the
//! same topic.
//!
//! ```text
//!   topic made and filled ──┬── produce: from where the filling ended                           ── result
//!                           └── consume: what was filled, from the beginning, as fast as it goes ── result.beside
//! ```
//!
//! Owns the putting together. Each half is a run of its own with figures, latencies and an audit; both have the same broker's cost in
//! them.

use std::future::Future;

use broker::Platform;
use broker::sync::{Flag, beside};
use futures_lite::future::zip;

use super::consume::{ConsumeOptions, consume, fill};
use super::{Observer, Outcome, ProduceOptions, Silent, TopicChoice, delete, produce};
use crate::client::Admin;
use crate::error::LoadError;

/// Fills a topic, and then sends to it and reads what was filled at the same time.
///
/// Order   the topic of `consume` is made and filled, and is that of both; that of `produce` is not looked at. `stop` ends both.
/// Errors  [`LoadError`] where one of them could not begin; the topic is left behind then.
pub async fn mixed<P: Platform>(
    platform: &P,
    (producing, reading): (&ProduceOptions, &ConsumeOptions),
    observer: &mut dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Outcome, LoadError> {
    producing.workload.check()?;
    reading.load.check()?;
    let stopped = Flag::default();
    let run = async {
        let name = match &reading.topic {
            TopicChoice::Given { name } => name.clone(),
            TopicChoice::Made { .. } => fill(platform, reading, observer, stopped.raised()).await?,
        };
        let topic = TopicChoice::Given { name: name.clone() };
        let producing = ProduceOptions { topic: topic.clone(), ..producing.clone() };
        let reading_on = ConsumeOptions { topic, ..reading.clone() };
        let mut silent = Silent;
        let sending = async {
            let sent = produce(platform, &producing, observer, stopped.raised()).await;
            // What is read after that is read beside nothing.
            stopped.raise();
            sent
        };
        let catching_up = consume(platform, &reading_on, &mut silent, stopped.raised());
        let (sent, read) = zip(sending, catching_up).await;
        let (mut sent, read) = (sent?, read?);
        sent.failure = sent.failure.or(read.failure);
        sent.result.beside = Some(Box::new(read.result));
        sent.result = sent.result.judged();
        if matches!(reading.topic, TopicChoice::Made { is_kept: false, .. }) && sent.result.sound {
            let mut admin = Admin::open(platform, &reading.bootstrap, reading.timeout).await?;
            sent.deletion = delete(&mut admin, &name).await.err();
            sent.topic_left = sent.deletion.is_some().then_some(name);
        }
        Ok(sent)
    };
    let interrupt = async {
        stop.await;
        stopped.raise();
    };
    beside(run, interrupt).await
}
