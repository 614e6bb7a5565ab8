//! Whether a producer's batch may be appended: the checks between the frame and the log.
//!
//! Owns the order of RB-3 as far as it concerns the bytes, the polite pauses while they are checked, and the words of a refusal. It
//! looks at no state of the partition: the leader core does.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::TopicSettings;
use commitlog::Executor;
use partition::{Acks, Attempt};
use record::batch::TimestampType;
use record::{
    BatchError, BatchHeader, BatchRefusal, Codec, DecompressError, NullKeys, RecordFaultKind,
    RecordFaults, Step, Summary, Timestamp, ValidateOptions, Validator, Windows, Workspace,
    with_timestamps,
};

use crate::calls::ZstdAllowed;
use crate::memory::{HeldMemory, MemoryBudget};
use crate::platform::Platform;
use crate::refusal::{ProduceRefusal, RefusedRecord};

/// Work between two polite pauses.
const STEP_NS: u32 = 20_000;
/// Workspaces that one core keeps for reuse.
const WORKSPACES_MAX: usize = 8;
/// What a large window takes, and what a core has for large windows: five kilobytes would else take as much on each connection
/// that sends them.
const LARGE_WINDOW_BYTES: usize = 128 << 20;

/// What a client asks for with a Produce.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// When to answer; `None` for acks=0.
    pub acks: Option<Acks>,
    /// How long the answer may wait for safety.
    pub timeout: Duration,
    /// Monotonic time when that is over, counted from when those before it on its connection had been served. The cores of a node
    /// share the clock.
    pub deadline: Duration,
    /// Whether the request's version can carry zstd.
    pub zstd: ZstdAllowed,
}

impl Terms {
    /// Ends with a refusal once the deadline has passed.
    pub async fn overdue<T>(&self, platform: &impl Platform) -> Result<T, ProduceRefusal> {
        platform.sleep(self.deadline.saturating_sub(platform.monotonic())).await;
        Err(ProduceRefusal::Overdue { timeout: self.timeout })
    }
}

/// What a topic asks of its batches.
#[derive(Debug, Clone, Copy)]
pub struct BatchRules {
    batch_bytes_max: usize,
    segment_bytes: usize,
    output_bytes_max: usize,
    timestamp_type: TimestampType,
    timestamp_before_max_ms: i64,
    timestamp_after_max_ms: i64,
}

impl BatchRules {
    /// The rules of a topic's settings.
    #[must_use]
    pub fn of(settings: &TopicSettings) -> Self {
        let bytes = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            batch_bytes_max: bytes(settings.max_message_bytes),
            segment_bytes: bytes(settings.segment_bytes),
            output_bytes_max: bytes(settings.max_decompressed_message_bytes),
            timestamp_type: settings.timestamp_type,
            timestamp_before_max_ms: settings.timestamp_before_max_ms,
            timestamp_after_max_ms: settings.timestamp_after_max_ms,
        }
    }

    fn options(&self, now: Timestamp) -> ValidateOptions {
        let (timestamp_min, timestamp_max) = match self.timestamp_type {
            TimestampType::CreateTime => (
                Timestamp(now.0.saturating_sub(self.timestamp_before_max_ms)),
                Timestamp(now.0.saturating_add(self.timestamp_after_max_ms)),
            ),
            // What the producer's clock says is not kept.
            TimestampType::LogAppendTime => (Timestamp(i64::MIN), Timestamp(i64::MAX)),
        };
        ValidateOptions {
            batch_bytes_max: self.batch_bytes_max,
            output_bytes_max: self.output_bytes_max,
            timestamp_min,
            timestamp_max,
            null_keys: NullKeys::Allow,
        }
    }

    /// What every record of a batch that is appended at `now` is stamped with, where that is the broker's to say.
    #[must_use]
    pub fn append_time(&self, now: Timestamp) -> Option<Timestamp> {
        (self.timestamp_type == TimestampType::LogAppendTime).then_some(now)
    }
}

/// Memory for decompression, shared by the partitions of a core.
#[derive(Debug, Clone, Default)]
pub struct Workspaces(Rc<Kept>);

#[derive(Debug)]
struct Kept {
    workspaces: RefCell<Vec<Workspace>>,
    large_windows: Rc<MemoryBudget>,
}

impl Default for Kept {
    fn default() -> Self {
        let large_windows = MemoryBudget::new(LARGE_WINDOW_BYTES);
        Self { workspaces: RefCell::default(), large_windows }
    }
}

/// The one batch of a core that is decompressed with a large window, until it is dropped.
#[derive(Debug)]
pub struct LargeWindow(#[expect(dead_code, reason = "held, not read")] HeldMemory);

impl Workspaces {
    fn take(&self) -> Workspace {
        self.0.workspaces.borrow_mut().pop().unwrap_or_default()
    }

    fn give_back(&self, mut workspace: Workspace) {
        workspace.shed();
        let mut kept = self.0.workspaces.borrow_mut();
        if kept.len() < WORKSPACES_MAX {
            kept.push(workspace);
        }
    }

    /// The turn to decompress with a large window: first come, first served.
    pub async fn large_window(&self) -> LargeWindow {
        LargeWindow(self.0.large_windows.take(LARGE_WINDOW_BYTES).await)
    }
}

/// A batch that may be appended.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// Its header; where the producer's largest timestamp was wrong, the true one and its checksum.
    pub header: BatchHeader,
    /// The whole batch as it came, with the producer's header.
    pub batch: Bytes,
}

impl Admitted {
    /// The header of the batch appended at `time` by the broker's clock (RB-5).
    #[must_use]
    pub fn stamped(&self, time: Timestamp) -> BatchHeader {
        with_timestamps(&self.header, TimestampType::LogAppendTime, time, after_header(&self.batch))
    }

    /// What the leader core decides by.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        Attempt {
            producer_id: self.header.producer_id,
            producer_epoch: self.header.producer_epoch,
            base_sequence: self.header.base_sequence,
            last_offset_delta: self.header.last_offset_delta,
            is_transactional: self.header.is_transactional(),
            is_control: self.header.is_control(),
        }
    }
}

/// Checks the records field of one partition of a Produce request. Where it needs a large window, `turn` gets one: that may take
/// as long as the batches of others do.
pub async fn admit(
    executor: &impl Executor,
    workspaces: &Workspaces,
    records: &Bytes,
    terms: &Terms,
    rules: &BatchRules,
    now: Timestamp,
    turn: impl AsyncFnOnce() -> Result<LargeWindow, ProduceRefusal>,
) -> Result<Admitted, ProduceRefusal> {
    if records.is_empty() {
        return Err(invalid(&"a Produce carries exactly one batch, this one none"));
    }
    let mut workspace = workspaces.take();
    let options = rules.options(now);
    let mut judged = judge(executor, &mut workspace, records, terms, &options).await;
    if let Ok(Judged::NeedsLargeWindow) = judged {
        // What it holds by now would be held by everybody who waits.
        drop(workspace);
        let _window = turn().await?;
        workspace = workspaces.take();
        workspace.allow(Windows::Large);
        judged = judge(executor, &mut workspace, records, terms, &options).await;
        workspace.shed();
    }
    workspaces.give_back(workspace);
    let summary = match judged? {
        Judged::Sound(summary) => summary,
        Judged::NeedsLargeWindow => return Err(invalid(&"a frame's window is too large")),
    };
    if records.len() > rules.segment_bytes {
        let (bytes, maximum) = (records.len(), rules.segment_bytes);
        return Err(ProduceRefusal::LargerThanSegment { bytes, maximum });
    }
    let header = if summary.is_header_true() { summary.header } else { correct(&summary, records) };
    Ok(Admitted { header, batch: records.clone() })
}

/// What became of a look at a batch.
#[derive(Debug)]
enum Judged {
    Sound(Summary),
    /// A frame needs a large window, and the workspace allows none.
    NeedsLargeWindow,
}

async fn judge(
    executor: &impl Executor,
    workspace: &mut Workspace,
    records: &Bytes,
    terms: &Terms,
    options: &ValidateOptions,
) -> Result<Judged, ProduceRefusal> {
    let mut validator = Validator::new(records, options, workspace)?;
    // Before anything is decompressed: what a version cannot carry is refused as that.
    if terms.zstd == ZstdAllowed::No && is_zstd(records) {
        return Err(ProduceRefusal::UnsupportedCompression);
    }
    loop {
        match validator.step(STEP_NS) {
            Ok(Step::Done(summary)) => return Ok(Judged::Sound(summary)),
            Ok(Step::More) => executor.yield_if_needed().await,
            Err(BatchRefusal::Data(DecompressError::LargeWindow { .. })) => {
                return Ok(Judged::NeedsLargeWindow);
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

fn is_zstd(records: &[u8]) -> bool {
    BatchHeader::parse(records).is_ok_and(|header| header.codec() == Ok(Codec::Zstd))
}

/// RB-5: a producer whose largest timestamp is not true is corrected, not refused.
fn correct(summary: &Summary, records: &Bytes) -> BatchHeader {
    let (create_time, largest) = (TimestampType::CreateTime, summary.max_timestamp);
    with_timestamps(&summary.header, create_time, largest, after_header(records))
}

fn after_header(batch: &[u8]) -> &[u8] {
    batch.get(record::batch::HEADER_BYTES..).unwrap_or_default()
}

fn invalid(detail: &impl ToString) -> ProduceRefusal {
    ProduceRefusal::InvalidRecord { detail: detail.to_string(), records: Vec::new() }
}

impl From<BatchRefusal> for ProduceRefusal {
    fn from(refusal: BatchRefusal) -> Self {
        match refusal {
            // As in Kafka: what cannot be a batch is corrupt; another batch than it should be is invalid.
            BatchRefusal::Batch(
                error @ (BatchError::Crc { .. }
                | BatchError::Length { .. }
                | BatchError::Magic { .. }),
            ) if !is_of_old_clients(&error) => Self::Corrupt { detail: error.to_string() },
            BatchRefusal::TooLarge { batch_bytes, batch_bytes_max } => {
                Self::TooLarge { bytes: batch_bytes, maximum: batch_bytes_max }
            }
            BatchRefusal::Data(DecompressError::OutputBound { output_bytes_max, .. }) => {
                Self::ExpandsTooFar { maximum: output_bytes_max }
            }
            BatchRefusal::TimestampType => {
                Self::InvalidTimestamp { detail: refusal.to_string(), records: Vec::new() }
            }
            BatchRefusal::Codec(_) => Self::UnsupportedCompression,
            BatchRefusal::Records { faults } => of_faults(&faults),
            BatchRefusal::Batch(_)
            | BatchRefusal::BaseOffset { .. }
            | BatchRefusal::Count { .. }
            | BatchRefusal::Control
            | BatchRefusal::Sequence { .. }
            | BatchRefusal::Data(_)
            | BatchRefusal::Record { .. } => invalid(&refusal),
        }
    }
}

/// A message set from before record batches.
fn is_of_old_clients(error: &BatchError) -> bool {
    matches!(error, BatchError::Magic { magic: 0 | 1 })
}

/// One refusal for all faulty records: a timestamp fault, where there is one, names the error.
fn of_faults(faults: &RecordFaults) -> ProduceRefusal {
    let records = faults.first.iter().map(|fault| RefusedRecord {
        index: u32::try_from(fault.index).unwrap_or(0),
        message: match fault.kind {
            RecordFaultKind::NullKey => "a compacted topic needs a key".to_owned(),
            RecordFaultKind::Timestamp(timestamp) => format!(
                "timestamp {timestamp} is outside message.timestamp.before.max.ms and after.max.ms"
            ),
        },
    });
    let records = records.collect();
    let detail = format!("{} records of the batch may not be appended", faults.count);
    let is_time = |kind| matches!(kind, RecordFaultKind::Timestamp(_));
    if faults.first.iter().any(|fault| is_time(fault.kind)) {
        ProduceRefusal::InvalidTimestamp { detail, records }
    } else {
        ProduceRefusal::InvalidRecord { detail, records }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commitlog::{LocalTask, TaskClass};
    use futures_lite::future::block_on;
    use record::{BatchBuilder, NewRecord, Producer, ProducerEpoch, ProducerId};

    use crate::error_code::ToErrorCode;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    #[derive(Clone)]
    struct NoTasks;

    impl Executor for NoTasks {
        fn spawn(&self, _: TaskClass, _: LocalTask) {}
        async fn yield_if_needed(&self) {}
    }

    fn rules() -> BatchRules {
        BatchRules {
            batch_bytes_max: 100_000,
            segment_bytes: 50_000,
            output_bytes_max: 200_000,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: 1000,
            timestamp_after_max_ms: 1000,
        }
    }

    /// The batch as the log will hold it.
    fn as_held(header: &BatchHeader, batch: &[u8]) -> Vec<u8> {
        [&header.encode(), after_header(batch)].concat()
    }

    fn batch(codec: Codec, value: &[u8], timestamps: &[i64]) -> Vec<u8> {
        let producer = Producer { id: ProducerId(9), epoch: ProducerEpoch(1), base_sequence: 4 };
        let mut builder = BatchBuilder::new(codec).producer(producer);
        for delta in timestamps {
            builder.append(&NewRecord {
                timestamp: Timestamp(NOW.0 + delta),
                value: Some(value),
                ..NewRecord::default()
            });
        }
        builder.build()
    }

    fn admitted(bytes: Vec<u8>, zstd: ZstdAllowed) -> Result<Admitted, ProduceRefusal> {
        admitted_by(&rules(), bytes, zstd)
    }

    fn admitted_by(
        rules: &BatchRules,
        bytes: Vec<u8>,
        zstd: ZstdAllowed,
    ) -> Result<Admitted, ProduceRefusal> {
        let (timeout, deadline) = (Duration::ZERO, Duration::ZERO);
        let terms = Terms { acks: None, timeout, deadline, zstd };
        let workspaces = Workspaces::default();
        let turn = async || Ok(workspaces.large_window().await);
        block_on(admit(&NoTasks, &workspaces, &bytes.into(), &terms, rules, NOW, turn))
    }

    #[test]
    fn a_sound_batch_is_admitted_as_it_came_in_every_codec() {
        for codec in Codec::ALL {
            let bytes = batch(codec, b"value", &[0, 1]);
            let admitted = admitted(bytes.clone(), ZstdAllowed::Yes).expect("sound");
            assert_eq!(admitted.batch, bytes, "{codec}");
            assert_eq!(admitted.attempt().base_sequence, 4);
            assert_eq!(admitted.attempt().last_offset_delta, 1);
        }
    }

    /// A batch of one record of zeros, in a zstd frame with a window of 128 MiB.
    fn in_a_large_window() -> Vec<u8> {
        let plain = batch(Codec::None, &[0; 1000], &[0]);
        let header = BatchHeader::parse(&plain).expect("a batch");
        let content = after_header(&plain);
        // No content size, no checksum; one raw block, the last.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3];
        let head = (u32::try_from(content.len()).expect("small") << 3) | 1;
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(content);
        let length = header.length + 9;
        let attributes = header.attributes.with_codec(Codec::Zstd);
        let header = BatchHeader { length, attributes, ..header };
        let mut bytes = [header.encode().to_vec(), frame].concat();
        let crc = record::batch::crc_of(&bytes);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    #[test]
    fn one_batch_of_a_core_at_a_time_has_a_large_window() {
        let bytes: Bytes = in_a_large_window().into();
        let small = Bytes::from(batch(Codec::Zstd, b"value", &[0]));
        let (timeout, deadline) = (Duration::ZERO, Duration::ZERO);
        let terms = Terms { acks: None, timeout, deadline, zstd: ZstdAllowed::Yes };
        let (workspaces, rules) = (Workspaces::default(), rules());
        let another = block_on(workspaces.large_window());
        let turns = std::cell::Cell::new(0);
        let admit = |bytes| {
            let turn = async || {
                turns.set(turns.get() + 1);
                Ok(workspaces.large_window().await)
            };
            admit(&NoTasks, &workspaces, bytes, &terms, &rules, NOW, turn)
        };
        let mut waiting = std::pin::pin!(admit(&bytes));
        assert!(block_on(futures_lite::future::poll_once(&mut waiting)).is_none());
        // Who needs none does not wait.
        block_on(admit(&small)).expect("sound");
        assert_eq!(turns.get(), 1);
        drop(another);
        block_on(waiting).expect("sound");
        block_on(admit(&bytes)).expect("nobody is at it any more");
    }

    #[test]
    fn a_batch_that_has_no_turn_with_a_large_window_in_time_is_refused_and_keeps_none() {
        let bytes: Bytes = in_a_large_window().into();
        let (timeout, deadline) = (Duration::ZERO, Duration::ZERO);
        let terms = Terms { acks: None, timeout, deadline, zstd: ZstdAllowed::Yes };
        let (workspaces, rules) = (Workspaces::default(), rules());
        let late = async || Err(ProduceRefusal::Overdue { timeout });
        let refused = block_on(admit(&NoTasks, &workspaces, &bytes, &terms, &rules, NOW, late));
        assert_eq!(refused.unwrap_err(), ProduceRefusal::Overdue { timeout });
        block_on(workspaces.large_window());
    }

    #[test]
    fn a_wrong_largest_timestamp_is_corrected_with_its_checksum() {
        let mut bytes = batch(Codec::None, b"value", &[5, 3]);
        bytes[35..43].copy_from_slice(&(NOW.0 + 900).to_be_bytes());
        let crc = record::batch::crc_of(&bytes);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let admitted = admitted(bytes, ZstdAllowed::Yes).expect("corrected");
        let held = as_held(&admitted.header, &admitted.batch);
        assert_eq!(held, batch(Codec::None, b"value", &[5, 3]));
        assert_eq!(admitted.header.max_timestamp, Timestamp(NOW.0 + 5));
    }

    #[test]
    fn a_batch_stamped_by_the_broker_is_sound_whatever_the_producers_clock_says() {
        let stamping = BatchRules { timestamp_type: TimestampType::LogAppendTime, ..rules() };
        assert_eq!(stamping.append_time(NOW), Some(NOW));
        assert_eq!(rules().append_time(NOW), None);
        for codec in Codec::ALL {
            let bytes = batch(codec, b"value", &[5_000_000, -7]);
            let admitted =
                admitted_by(&stamping, bytes, ZstdAllowed::Yes).expect("any time will do");
            let header = admitted.stamped(NOW);
            let held = as_held(&header, &admitted.batch);
            assert_eq!(record::batch::crc_of(&held), header.crc, "{codec}");
            assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(header.max_timestamp, NOW);
            assert_eq!(header.codec(), Ok(codec));
        }
    }

    #[test]
    fn each_fault_has_the_code_that_clients_know() {
        let check = |bytes: Vec<u8>, zstd, expected: &str| {
            let refusal = admitted(bytes, zstd).expect_err("refused");
            assert_eq!(refusal.error_code().name(), expected, "{refusal}");
        };
        let sound = batch(Codec::None, b"value", &[0]);
        let changed = |at: usize, byte: u8| {
            let mut bytes = sound.clone();
            bytes[at] = byte;
            bytes
        };
        let yes = ZstdAllowed::Yes;
        check(Vec::new(), yes, "INVALID_RECORD");
        check(sound[..30].to_vec(), yes, "INVALID_RECORD");
        check([sound.clone(), sound.clone()].concat(), yes, "INVALID_RECORD");
        check(changed(7, 1), yes, "INVALID_RECORD");
        check(changed(16, 1), yes, "INVALID_RECORD");
        check(changed(16, 3), yes, "CORRUPT_MESSAGE");
        check(changed(11, 5), yes, "CORRUPT_MESSAGE");
        check(changed(70, 0xff), yes, "CORRUPT_MESSAGE");
        check(batch(Codec::None, &[7; 100_000], &[0]), yes, "MESSAGE_TOO_LARGE");
        check(batch(Codec::None, &[7; 60_000], &[0]), yes, "RECORD_LIST_TOO_LARGE");
        check(batch(Codec::Gzip, &[7; 300_000], &[0]), yes, "MESSAGE_TOO_LARGE");
        check(batch(Codec::Zstd, b"value", &[0]), ZstdAllowed::No, "UNSUPPORTED_COMPRESSION_TYPE");
        check(batch(Codec::None, b"value", &[0, 1001]), yes, "INVALID_TIMESTAMP");
        check(batch(Codec::None, b"value", &[-1001]), yes, "INVALID_TIMESTAMP");
    }
}
