//! What clients did and were told: the oracle of the world.
//!
//! Owns the batches that were sent, where each was seen, and what must hold of it for ever. It knows nothing of how the broker
//! works: a batch is recognised by its checksum, compared byte for byte, and an offset once shown or acknowledged belongs to
//! its batch in all lives to come.

use std::collections::BTreeMap;
use std::rc::Rc;

use record::{BatchHeader, Offset, TopicId};

use crate::prng::Prng;
use crate::verdict::{Verdict, broken};

/// A partition of the world: an index into its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) usize);

/// A batch of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchId(pub(super) usize);

/// A topic that lasts.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: Rc<str>,
    pub(super) partitions: i32,
    /// Once it is known: it never changes.
    pub(super) id: Option<TopicId>,
}

/// What is sure of one partition.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) topic: usize,
    pub(super) index: i32,
    /// What was shown or acknowledged, by base offset.
    placed: BTreeMap<i64, BatchId>,
    /// The highest low watermark that a deletion was answered: nothing below it comes back.
    pub(super) log_start: i64,
    /// Up to where deletions were asked for by offset, answered or not, and where answered ones went.
    deletion_asked: i64,
    /// Deletions up to the high watermark, as the broker has it, of which it is not known where they went.
    open_deletions: usize,
    /// The highest high watermark that a client was told, and the end of what was acknowledged by all.
    pub(super) high_watermark: i64,
}

impl Partition {
    /// Up to where records may be gone by request.
    fn deletion_bound(&self) -> i64 {
        if self.open_deletions > 0 { i64::MAX } else { self.deletion_asked }
    }
}

/// Whether a batch may be in the log more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarantee {
    /// Once, whatever happens.
    Once,
    /// As often as it was sent.
    AsOftenAsSent,
}

/// A batch that was sent.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) producer: usize,
    pub(super) place: Place,
    /// Its number among those of its producer for this partition.
    pub(super) number: u64,
    pub(super) guarantee: Guarantee,
    pub(super) bytes: Rc<[u8]>,
    pub(super) records: i64,
    pub(super) base_timestamp: i64,
    sends: usize,
    seen_at: Vec<i64>,
}

/// What a reader asks of a partition, and what was known of it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// What is asked for.
    pub(super) from: i64,
    pub(super) high_watermark: i64,
    pub(super) log_start: i64,
}

/// What one answer of a Fetch says of one partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) place: Place,
    pub(super) known: Known,
    pub(super) high_watermark: Offset,
    pub(super) last_stable_offset: Offset,
    pub(super) log_start: Offset,
    pub(super) bytes: &'a [u8],
}

/// The history of a world.
#[derive(Debug)]
pub(super) struct History {
    pub(super) topics: Vec<Topic>,
    pub(super) partitions: Vec<Partition>,
    pub(super) batches: Vec<Batch>,
    /// Whether old segments go by themselves.
    pub(super) retains: bool,
    by_crc: BTreeMap<u32, BatchId>,
}

impl History {
    pub(super) fn draw(prng: &mut Prng, retains: bool) -> Self {
        let mut history = Self {
            topics: Vec::new(),
            partitions: Vec::new(),
            batches: Vec::new(),
            retains,
            by_crc: BTreeMap::new(),
        };
        for topic in 0..usize::try_from(prng.between(1, 2)).expect("a few") {
            let partitions = i32::try_from(prng.between(1, 6)).expect("a few");
            let name = ["orders", "events"][topic].into();
            history.topics.push(Topic { name, partitions, id: None });
            for index in 0..partitions {
                history.partitions.push(Partition {
                    topic,
                    index,
                    placed: BTreeMap::new(),
                    log_start: 0,
                    deletion_asked: 0,
                    open_deletions: 0,
                    high_watermark: 0,
                });
            }
        }
        history
    }

    /// Whether a batch with this checksum was made before.
    pub(super) fn knows(&self, crc: u32) -> bool {
        self.by_crc.contains_key(&crc)
    }

    /// Takes a new batch; it has not been sent yet.
    pub(super) fn add(&mut self, crc: u32, batch: Batch) -> BatchId {
        let id = BatchId(self.batches.len());
        self.batches.push(batch);
        self.by_crc.insert(crc, id);
        id
    }

    pub(super) fn batch(&self, id: BatchId) -> &Batch {
        &self.batches[id.0]
    }

    /// The batch is on its way; returns how often it has been sent before.
    pub(super) fn sent(&mut self, id: BatchId) -> usize {
        self.batches[id.0].sends += 1;
        self.batches[id.0].sends - 1
    }

    pub(super) fn partition(&self, place: Place) -> &Partition {
        &self.partitions[place.0]
    }

    /// The place of a partition of a topic.
    pub(super) fn place(&self, topic: usize, index: i32) -> Option<Place> {
        let found = self.partitions.iter().position(|one| one.topic == topic && one.index == index);
        found.map(Place)
    }

    /// `orders-3`.
    pub(super) fn name(&self, place: Place) -> String {
        let Partition { topic, index, .. } = self.partition(place);
        format!("{}-{index}", self.topics[*topic].name)
    }

    /// The batch was acknowledged at this offset.
    pub(super) fn acknowledged(&mut self, id: BatchId, base: i64, by_all: bool) -> Verdict {
        let batch = self.batch(id);
        let (place, end) = (batch.place, base + batch.records);
        if base < 0 {
            return broken("an acknowledgement names an offset", format!("{base}"));
        }
        self.place_batch(id, place, base)?;
        let partition = &mut self.partitions[place.0];
        if by_all {
            // Whoever asks from now on is shown it.
            partition.high_watermark = partition.high_watermark.max(end);
        }
        Ok(())
    }

    /// A batch was seen at an offset: from now on it is there, and nothing else.
    fn place_batch(&mut self, id: BatchId, place: Place, base: i64) -> Verdict {
        let name = self.name(place);
        let end = base + self.batch(id).records;
        let overlapping = self.partitions[place.0].placed.range(..end).next_back();
        if let Some((at, known)) = overlapping {
            let known_end = at + self.batch(*known).records;
            if (*at, *known) == (base, id) {
                return Ok(());
            }
            if known_end > base {
                let (known, seen) = (self.words(*known), self.words(id));
                let detail = format!("{name}: {known} at {at}, then {seen} at {base}");
                return broken("what was shown or acknowledged stays", detail);
            }
        }
        let batch = &self.batches[id.0];
        let seen_max = match batch.guarantee {
            Guarantee::Once => 1,
            Guarantee::AsOftenAsSent => batch.sends,
        };
        if batch.seen_at.len() >= seen_max {
            let detail = format!("{name}: {} at {:?} and {base}", self.words(id), batch.seen_at);
            return broken("nothing is there more often than it was sent", detail);
        }
        self.batches[id.0].seen_at.push(base);
        self.partitions[place.0].placed.insert(base, id);
        Ok(())
    }

    /// A batch in words.
    pub(super) fn words(&self, id: BatchId) -> String {
        let Batch { producer, place, number, records, .. } = self.batch(id);
        format!(
            "batch {number} of producer {producer} for {} ({records} records)",
            self.name(*place)
        )
    }

    /// Compares what a Fetch was answered; returns where the reader goes on.
    pub(super) fn shown(&mut self, shown: &Shown<'_>) -> Verdict<i64> {
        let name = self.name(shown.place);
        let (known, high_watermark) = (shown.known, shown.high_watermark.0);
        self.told_high_watermark(shown.place, known.high_watermark, high_watermark)?;
        self.told_log_start(shown.place, known.log_start, shown.log_start.0, high_watermark)?;
        if shown.last_stable_offset.0 != high_watermark {
            return broken("every offset is stable", format!("{name}: {shown:?}"));
        }
        if known.from < shown.log_start.0 {
            return broken("nothing below the log start is served", format!("{name}: {shown:?}"));
        }
        let mut next = known.from;
        let mut rest = shown.bytes;
        let mut is_first = true;
        while !rest.is_empty() {
            let (id, base, bytes) = self.recognise(shown.place, rest)?;
            let last = base + self.batch(id).records - 1;
            let is_next = if is_first { base <= next && next <= last } else { base == next };
            if !is_next {
                let detail = format!("{name}: {} at {base}, expected {next}", self.words(id));
                return broken("a read goes on where it should", detail);
            }
            if last >= high_watermark {
                let detail = format!(
                    "{name}: {} at {base}, high watermark {high_watermark}",
                    self.words(id)
                );
                return broken("nothing is shown above the high watermark", detail);
            }
            self.place_batch(id, shown.place, base)?;
            next = last + 1;
            is_first = false;
            rest = &rest[bytes..];
        }
        Ok(next)
    }

    /// A client was told a high watermark when it had asked with `floor` known.
    pub(super) fn told_high_watermark(&mut self, place: Place, floor: i64, told: i64) -> Verdict {
        if told < floor {
            let detail = format!("{}: {told}, {floor} was known before", self.name(place));
            return broken("the high watermark never goes back", detail);
        }
        let partition = &mut self.partitions[place.0];
        partition.high_watermark = partition.high_watermark.max(told);
        Ok(())
    }

    /// A deletion up to there is on its way; the high watermark, as the broker has it, where that is `None`.
    pub(super) fn asks_deletion(&mut self, place: Place, offset: Option<i64>) {
        let partition = &mut self.partitions[place.0];
        match offset {
            Some(offset) => partition.deletion_asked = partition.deletion_asked.max(offset),
            None => partition.open_deletions += 1,
        }
    }

    /// Nothing of an earlier life is on its way any more, and each partition has told where it ends: no deletion went further.
    pub(super) fn settle_deletions(&mut self) {
        for partition in &mut self.partitions {
            if std::mem::take(&mut partition.open_deletions) > 0 {
                let end = partition.high_watermark;
                partition.deletion_asked = partition.deletion_asked.max(end);
            }
        }
    }

    /// A deletion that had asked with `floor` known was answered with a low watermark: it holds in all lives to come.
    pub(super) fn deleted(
        &mut self,
        place: Place,
        floor: i64,
        asked: Option<i64>,
        low_watermark: i64,
    ) -> Verdict {
        let name = self.name(place);
        self.told_log_start(place, floor, low_watermark, i64::MAX)?;
        let partition = &mut self.partitions[place.0];
        if asked.is_none() {
            partition.open_deletions -= 1;
            partition.deletion_asked = partition.deletion_asked.max(low_watermark);
        }
        let asked = asked.unwrap_or(0);
        if low_watermark < asked {
            let detail = format!("{name}: {low_watermark}, asked for {asked}");
            return broken("what is deleted is gone", detail);
        }
        partition.log_start = partition.log_start.max(low_watermark);
        // Only records below the high watermark can go.
        partition.high_watermark = partition.high_watermark.max(low_watermark);
        Ok(())
    }

    /// A client was told a log start when it had asked with `floor` known.
    pub(super) fn told_log_start(
        &self,
        place: Place,
        floor: i64,
        told: i64,
        high_watermark: i64,
    ) -> Verdict {
        if told < floor {
            let detail = format!("{}: {told}, {floor} was answered before", self.name(place));
            return broken("the log start never goes back", detail);
        }
        let asked = self.partition(place).deletion_bound();
        let may_go = self.retains || told <= asked;
        if !may_go || told > high_watermark {
            let name = self.name(place);
            let detail = format!("{name}: {told} of {high_watermark}, asked for {asked}");
            return broken("records go only where they may", detail);
        }
        Ok(())
    }

    /// Whether what stands at that offset may be gone.
    pub(super) fn may_be_gone(&self, place: Place, offset: i64) -> bool {
        self.retains || offset < self.partition(place).deletion_bound()
    }

    /// The batch that these bytes begin with, its base offset and its size.
    fn recognise(&self, place: Place, bytes: &[u8]) -> Verdict<(BatchId, i64, usize)> {
        let name = self.name(place);
        let header = match BatchHeader::parse(bytes) {
            Ok(header) => header,
            Err(error) => return broken("whole batches only", format!("{name}: {error}")),
        };
        let Some(found) = bytes.get(..header.total_bytes()) else {
            return broken("whole batches only", format!("{name}: {} bytes", bytes.len()));
        };
        let Some(id) = self.by_crc.get(&header.crc) else {
            let detail = format!("{name}: a batch at {} that nobody sent", header.base_offset);
            return broken("nothing is invented", detail);
        };
        let batch = self.batch(*id);
        // Base offset and leader epoch are the broker's.
        let is_same = found.len() == batch.bytes.len()
            && found[8..12] == batch.bytes[8..12]
            && found[16..] == batch.bytes[16..];
        if !is_same {
            return broken("bytes are those sent", format!("{name}: {}", self.words(*id)));
        }
        if batch.place != place {
            return broken(
                "an answer is for its partition",
                format!("{name}: {}", self.words(*id)),
            );
        }
        Ok((*id, header.base_offset.0, header.total_bytes()))
    }

    /// Compares a partition that has just been read from its start to `end`, the high watermark.
    pub(super) fn read_whole(&self, place: Place, start: i64, end: i64) -> Verdict {
        let name = self.name(place);
        let mut next = start;
        let mut numbers: BTreeMap<usize, u64> = BTreeMap::new();
        for (base, id) in self.kept(place, start) {
            let batch = self.batch(id);
            // The first may hold records from before the start.
            let is_next = base == next || (next == start && base < start);
            if !is_next {
                let detail = format!("{name}: {next}..{base} is not there");
                return broken("offsets are contiguous", detail);
            }
            next = base + batch.records;
            if batch.guarantee == Guarantee::Once {
                let first = if start == 0 { 0 } else { batch.number };
                let expected = numbers.entry(batch.producer).or_insert(first);
                if batch.number != *expected {
                    let detail = format!("{name}: {} after {expected}", self.words(id));
                    return broken("a producer's batches keep their order", detail);
                }
                *expected += 1;
            }
        }
        if next != end {
            let detail = format!("{name}: placed up to {next}, high watermark {end}");
            return broken("what was shown or acknowledged stays", detail);
        }
        Ok(())
    }

    /// The batches that a log of this start has, as far as they are known.
    fn kept(&self, place: Place, start: i64) -> impl Iterator<Item = (i64, BatchId)> {
        let placed = self.partition(place).placed.iter().map(|(base, id)| (*base, *id));
        placed.filter(move |(base, id)| base + self.batch(*id).records > start)
    }

    /// How many batches are placed.
    pub(super) fn placed_count(&self, place: Place) -> u64 {
        self.partition(place).placed.len() as u64
    }

    /// The batch that holds this offset, if it is known.
    pub(super) fn batch_at(&self, place: Place, offset: i64) -> Option<(i64, &Batch)> {
        let (base, id) = self.partition(place).placed.range(..=offset).next_back()?;
        let batch = self.batch(*id);
        (offset < base + batch.records).then_some((*base, batch))
    }
}

impl History {
    /// Whether no batch before `offset` in a log of this start is as late as `target`.
    pub(super) fn is_first_at(&self, place: Place, target: i64, start: i64, offset: i64) -> bool {
        let is_before = |(base, id): &(i64, BatchId)| base + self.batch(*id).records <= offset;
        let mut before = self.kept(place, start).take_while(is_before);
        before.all(|(_, id)| self.batch(id).base_timestamp < target)
    }
}

/// The parts of a new batch.
pub(super) struct NewBatch {
    pub(super) producer: usize,
    pub(super) place: Place,
    pub(super) number: u64,
    pub(super) guarantee: Guarantee,
    pub(super) bytes: Vec<u8>,
    pub(super) records: i64,
    pub(super) base_timestamp: i64,
}

impl From<NewBatch> for Batch {
    fn from(new: NewBatch) -> Self {
        let NewBatch { producer, place, number, guarantee, bytes, records, base_timestamp } = new;
        let bytes = bytes.into();
        Self {
            producer,
            place,
            number,
            guarantee,
            bytes,
            records,
            base_timestamp,
            sends: 0,
            seen_at: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_of_all_allows_no_more_to_go_once_it_is_known_how_far_it_went() {
        let mut history = History::draw(&mut Prng::new(1), false);
        let place = Place(0);
        let goes = |history: &History, to| history.told_log_start(place, 0, to, i64::MAX).is_ok();
        assert!(!goes(&history, 1));
        history.asks_deletion(place, None);
        history.asks_deletion(place, None);
        assert!(goes(&history, 9), "it may be under way");
        history.deleted(place, 0, None, 5).unwrap();
        assert!(goes(&history, 9), "another one may be");
        history.deleted(place, 5, None, 7).unwrap();
        assert!(goes(&history, 7) && !goes(&history, 8));
        assert!(history.may_be_gone(place, 6) && !history.may_be_gone(place, 7));
        // Its answer is lost; the next life says where the log ends.
        history.asks_deletion(place, None);
        history.told_high_watermark(place, 0, 20).unwrap();
        history.settle_deletions();
        assert!(goes(&history, 20) && !goes(&history, 21));
    }
}
