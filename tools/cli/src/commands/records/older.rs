//! What of a partition is proved to be older than a time.
//!
//! Owns the look for the last record that has a time. Records without one (-1) are as old as nobody
//! knows: those before a record of an earlier time were written before it, and so are older; those behind it are not taken
//! for old, however the broker answers a look-up by time.

use std::collections::BTreeMap;

use broker::Platform;
use record::{Offset, PartitionIndex};

use crate::client::{Client, ClientError, Consumer, OffsetAt, Topic};
use crate::commands::consume::decode::BatchReader;
use crate::exit::Outcome;

/// The first step back from a time, in milliseconds; each is twice the one before.
const STEP_MS: i64 = 1000;

type Offsets = BTreeMap<PartitionIndex, Offset>;

/// How far each partition is older.
#[derive(Debug, Default)]
pub(super) struct Older {
    /// Everything before these offsets is.
    pub(super) ends: Offsets,
    /// Of these, which hold records, nothing is known: no record has a time before the first that is late enough.
    pub(super) unknown: Vec<PartitionIndex>,
}

/// What lies before `ends` and is older than `ms`. Order: the ends were asked for first, so that what is written meanwhile
/// stays.
pub(super) async fn older_than<P: Platform>(
    client: &mut Client<P>,
    topic: &mut Topic,
    ends: &Offsets,
    ms: i64,
) -> Outcome<Older> {
    let indexes: Vec<PartitionIndex> = ends.keys().copied().collect();
    let starts = client.offsets(topic, &indexes, OffsetAt::Start).await?;
    let mut stops = ends.clone();
    // Where no record is of that time or later, the answer is -1.
    let found = client.offsets(topic, &indexes, OffsetAt::Time(ms)).await?;
    stops.extend(found.iter().filter(|(_, offset)| offset.0 >= 0));
    let mut older = Older::default();
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for (&index, &stop) in &stops {
        let is_late = found.get(&index).is_some_and(|offset| offset.0 >= 0);
        match starts.get(&index) {
            Some(start) if *start >= stop => drop(older.ends.insert(index, stop)),
            _ if is_late => late.push(index),
            _ => early.push(index),
        }
    }
    let mut known = known_before(client, topic, &late, &stops, ms).await?;
    let newest = client.offsets(topic, &early, OffsetAt::MaxTimestamp).await?;
    known.extend(newest.into_iter().filter(|(_, offset)| offset.0 >= 0));
    let with_time = |index: &PartitionIndex| known.contains_key(index);
    older.unknown = late.into_iter().chain(early).filter(|index| !with_time(index)).collect();
    older.unknown.sort();
    older.ends.extend(last_timed(client, topic, known, &stops).await?);
    Ok(older)
}

/// A record before `stops` that has a time, and not one far from the last; nothing of a partition that has none.
async fn known_before<P: Platform>(
    client: &mut Client<P>,
    topic: &mut Topic,
    partitions: &[PartitionIndex],
    stops: &Offsets,
    ms: i64,
) -> Result<Offsets, ClientError> {
    let mut known = Offsets::new();
    let mut left = partitions.to_vec();
    let mut step = STEP_MS;
    while !left.is_empty() {
        let at = ms.saturating_sub(step).max(0);
        let found = client.offsets(topic, &left, OffsetAt::Time(at)).await?;
        let before = |(index, offset): &(PartitionIndex, Offset)| {
            offset.0 >= 0 && stops.get(index).is_some_and(|stop| offset < stop)
        };
        known.extend(found.into_iter().filter(before));
        left.retain(|index| !known.contains_key(index));
        if at == 0 {
            break;
        }
        step = step.saturating_mul(2);
    }
    Ok(known)
}

/// Behind the last record with a time, of those from `known` up to `stops`.
async fn last_timed<P: Platform>(
    client: &mut Client<P>,
    topic: &Topic,
    known: Offsets,
    stops: &Offsets,
) -> Outcome<Offsets> {
    let mut ends: Offsets =
        known.iter().map(|(index, offset)| (*index, Offset(offset.0 + 1))).collect();
    let mut consumer = Consumer::new(client, topic.clone(), known);
    let mut reader = BatchReader::default();
    while !consumer.is_done() {
        for fetched in consumer.next().await? {
            let index = fetched.partition;
            let Some(&stop) = stops.get(&index) else { continue };
            let place = topic.place(index);
            let position = reader.each_record(&place, &topic.name, &fetched, |record| {
                if record.timestamp >= 0 && record.offset < stop.0 {
                    ends.insert(index, Offset(record.offset + 1));
                }
                Ok(())
            })?;
            consumer.move_to(index, position);
            if position >= stop {
                consumer.leave(index);
            }
        }
    }
    Ok(ends)
}
