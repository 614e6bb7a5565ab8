//! The fetch requests of readers.
//!
//! Owns their form: the last version that names topics; every request names what it asks for, or in a session what is different.

use std::collections::BTreeMap;

use record::{Offset, PartitionIndex};
use wire::ErrorCode;
use wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic};

use crate::read_load::FetchMode;

/// Of Fetch: the last that names topics.
pub(super) const FETCH_VERSION_MAX: i16 = 12;
/// How long a broker may wait for a first record.
const WAIT_MS: i32 = 500;
/// Answers in a row that bring nothing new, before a reader gives up.
pub(super) const EMPTY_MAX: u32 = 20;

/// How much an answer may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchLimits {
    /// In all.
    pub(super) bytes: u32,
    /// For one partition; a larger batch comes all the same.
    pub(super) partition_bytes: u32,
}

/// What comes next of each partition, by the offset to go on at; one without is at its end.
pub(super) fn request(
    topic: &str,
    partitions: impl Iterator<Item = (PartitionIndex, Option<i64>)>,
    limits: FetchLimits,
) -> FetchRequest<'_> {
    let bytes = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
    let partitions = partitions.filter_map(|(partition, next_offset)| {
        Some(FetchPartition {
            partition,
            fetch_offset: Offset(next_offset?),
            partition_max_bytes: bytes(limits.partition_bytes),
            ..FetchPartition::default()
        })
    });
    let topic = FetchTopic {
        topic: topic.into(),
        partitions: partitions.collect(),
        ..FetchTopic::default()
    };
    FetchRequest {
        max_wait_ms: WAIT_MS,
        min_bytes: 1,
        max_bytes: bytes(limits.bytes),
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

/// The epoch of a request that opens a session.
const OPENING: i32 = 0;
/// The first in one.
const FIRST: i32 = 1;

/// What the broker remembers of one reader's wishes (KIP-227).
#[derive(Debug)]
pub(super) struct Session {
    mode: FetchMode,
    /// 0 where there is none.
    id: i32,
    epoch: i32,
    /// The offsets that the broker knows.
    known: BTreeMap<PartitionIndex, i64>,
}

impl Session {
    /// None yet.
    pub(super) fn new(mode: FetchMode) -> Self {
        Self { mode, id: 0, epoch: OPENING, known: BTreeMap::new() }
    }

    /// What comes next of each partition, or of those that are different.
    pub(super) fn request<'a>(
        &mut self,
        topic: &'a str,
        partitions: impl Iterator<Item = (PartitionIndex, Option<i64>)>,
        limits: FetchLimits,
    ) -> FetchRequest<'a> {
        if self.mode == FetchMode::Whole {
            return request(topic, partitions, limits);
        }
        let wanted: BTreeMap<PartitionIndex, i64> =
            partitions.filter_map(|(partition, next)| Some((partition, next?))).collect();
        let known = std::mem::take(&mut self.known);
        let is_new = |partition: &PartitionIndex, offset: &i64| {
            self.id == 0 || known.get(partition) != Some(offset)
        };
        let changed = wanted.iter().filter(|(partition, offset)| is_new(partition, offset));
        let changed = changed.map(|(partition, offset)| (*partition, Some(*offset)));
        let mut request = request(topic, changed, limits);
        request.topics.retain(|topic| !topic.partitions.is_empty());
        let forgotten = known.keys().filter(|partition| !wanted.contains_key(partition)).copied();
        let forgotten = ForgottenTopic {
            topic: topic.into(),
            partitions: if self.id == 0 { Vec::new() } else { forgotten.collect() },
            ..ForgottenTopic::default()
        };
        if !forgotten.partitions.is_empty() {
            request.forgotten_topics_data.push(forgotten);
        }
        self.known = wanted;
        FetchRequest { session_id: self.id, session_epoch: self.epoch, ..request }
    }

    /// Takes note of an answer; gives whether the broker has forgotten the session, so that everything is to be asked anew.
    pub(super) fn has_lapsed(&mut self, response: &FetchResponse<'_>) -> bool {
        if self.mode == FetchMode::Whole {
            return false;
        }
        let is_open = self.id != 0;
        let is_lapse = matches!(
            response.error_code,
            ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch
        );
        (self.id, self.epoch) = match response.session_id {
            0 => (0, OPENING),
            _ if is_lapse => (0, OPENING),
            id if is_open => (id, self.epoch.checked_add(1).unwrap_or(FIRST)),
            id => (id, FIRST),
        };
        is_open && is_lapse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FetchLimits = FetchLimits { bytes: 10, partition_bytes: 5 };

    fn wanted(offsets: &[(i32, i64)]) -> impl Iterator<Item = (PartitionIndex, Option<i64>)> {
        offsets.iter().map(|(partition, offset)| (PartitionIndex(*partition), Some(*offset)))
    }

    /// Session, epoch, what is asked, what is forgotten.
    type Told = (i32, i32, Vec<(i32, i64)>, Vec<i32>);

    fn told(request: &FetchRequest<'_>) -> Told {
        let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
        let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| &topic.partitions);
        (
            request.session_id,
            request.session_epoch,
            asked.map(|asked| (asked.partition.0, asked.fetch_offset.0)).collect(),
            forgotten.map(|partition| partition.0).collect(),
        )
    }

    fn answer(session_id: i32, error_code: ErrorCode) -> FetchResponse<'static> {
        FetchResponse { session_id, error_code, ..FetchResponse::default() }
    }

    #[test]
    fn a_session_names_what_is_different_and_begins_anew_where_it_is_forgotten() {
        let mut session = Session::new(FetchMode::Session);
        let ask = |session: &mut Session, offsets: &[(i32, i64)]| {
            told(&session.request("t", wanted(offsets), LIMITS))
        };
        let all = vec![(0, 5), (1, 7)];
        assert_eq!(ask(&mut session, &all), (0, 0, all.clone(), vec![]));
        assert!(!session.has_lapsed(&answer(9, ErrorCode::None)));
        assert_eq!(ask(&mut session, &all), (9, 1, vec![], vec![]));
        assert!(!session.has_lapsed(&answer(9, ErrorCode::None)));
        assert_eq!(ask(&mut session, &[(0, 6)]), (9, 2, vec![(0, 6)], vec![1]));
        assert!(session.has_lapsed(&answer(0, ErrorCode::FetchSessionIdNotFound)));
        assert_eq!(ask(&mut session, &[(0, 6)]), (0, 0, vec![(0, 6)], vec![]));
        // A broker that gives no session is asked whole each time.
        assert!(!session.has_lapsed(&answer(0, ErrorCode::None)));
        assert_eq!(ask(&mut session, &[(0, 6)]), (0, 0, vec![(0, 6)], vec![]));
    }

    #[test]
    fn without_a_session_everything_is_named_each_time() {
        let mut session = Session::new(FetchMode::Whole);
        for _ in 0..2 {
            let request = session.request("t", wanted(&[(0, 5)]), LIMITS);
            assert_eq!(told(&request), (0, -1, vec![(0, 5)], vec![]));
            assert!(!session.has_lapsed(&answer(0, ErrorCode::None)));
        }
    }
}
