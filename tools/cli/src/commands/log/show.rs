//! How batches, findings and totals are shown.
//!
//! Owns the columns and the names of JSON fields. One line an item, so that a gigabyte can be piped.

use std::io::{self, Write};

use record::{BatchHeader, Codec};
use serde::Serialize;

use super::census::{GONE, NO_METADATA, NO_START, OFFLINE, UNBOUNDED, UNKNOWN};
use super::journals;
use crate::output::{Format, Show, counted, write_json_line};
use crate::yaml::write_document;

/// Above the lines of [`BatchLine`].
pub(super) const TABLE_HEADINGS: &str = "        BASE         LAST    POSITION      BYTES  RECORDS  CODEC   EPOCH      \
PRODUCER  P.EPOCH    SEQUENCE   MAX TIMESTAMP  KIND";

/// One thing that a log file holds.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A whole batch.
    Batch(&'a BatchLine<'a>),
    /// Zeros at the end.
    ZeroTail(&'a ZeroTail<'a>),
    /// Something wrong.
    Finding(&'a Finding),
}

impl Item<'_> {
    /// Writes it as one line.
    pub(super) fn write(&self, sink: &mut dyn Write, format: Format) -> io::Result<()> {
        match self {
            Self::Batch(batch) => write_item(sink, format, *batch, |sink| batch.write(sink)),
            Self::ZeroTail(tail) => write_item(sink, format, *tail, |sink| {
                let bytes = counted(tail.bytes, "byte");
                writeln!(sink, "zeros from byte {} on: {bytes}", tail.position)
            }),
            Self::Finding(finding) => {
                write_item(sink, format, *finding, |sink| finding.write(sink))
            }
        }
    }
}

fn write_item(
    sink: &mut dyn Write,
    format: Format,
    item: &impl Serialize,
    for_people: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match format {
        Format::Table => for_people(sink),
        Format::Json => write_json_line(sink, item),
        Format::Yaml => write_document(sink, item),
    }
}

/// A batch and where it lies.
#[derive(Debug, Serialize)]
pub(super) struct BatchLine<'a> {
    file: &'a str,
    position: u64,
    bytes: usize,
    base_offset: i64,
    last_offset: i64,
    records: i32,
    codec: &'static str,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    max_timestamp: i64,
    transactional: bool,
    control: bool,
    crc: u32,
}

impl<'a> BatchLine<'a> {
    /// The line of a batch.
    pub(super) fn new(file: &'a str, position: u64, header: &BatchHeader) -> Self {
        Self {
            file,
            position,
            bytes: header.total_bytes(),
            base_offset: header.base_offset.0,
            last_offset: header.last_offset().0,
            records: header.records_count,
            codec: header.attributes.codec().map_or("unknown", Codec::name),
            leader_epoch: header.partition_leader_epoch.0,
            producer_id: header.producer_id.0,
            producer_epoch: header.producer_epoch.0,
            base_sequence: header.base_sequence,
            max_timestamp: header.max_timestamp.0,
            transactional: header.attributes.is_transactional(),
            control: header.attributes.is_control(),
            crc: header.crc,
        }
    }

    fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        let absent = |number: i64| if number < 0 { "-".to_owned() } else { number.to_string() };
        let kind = match (self.control, self.transactional) {
            (true, _) => "control",
            (false, true) => "transactional",
            (false, false) => "data",
        };
        writeln!(
            sink,
            "{:>12} {:>12} {:>11} {:>10} {:>8}  {:<6} {:>6} {:>13} {:>8} {:>11} {:>15}  {kind}",
            self.base_offset,
            self.last_offset,
            self.position,
            self.bytes,
            self.records,
            self.codec,
            absent(self.leader_epoch.into()),
            absent(self.producer_id),
            absent(self.producer_epoch.into()),
            absent(self.base_sequence.into()),
            self.max_timestamp,
        )
    }
}

/// Room at the end of a segment that holds nothing.
#[derive(Debug, Serialize)]
pub(super) struct ZeroTail<'a> {
    /// File.
    pub(super) file: &'a str,
    /// Where it starts.
    #[serde(rename = "zeros_from")]
    pub(super) position: u64,
    /// How far it goes.
    pub(super) bytes: u64,
}

/// Whether a finding is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Bytes that should be there are not, or not right.
    Problem,
    /// What a crash or a running node leaves: the next start sees to it.
    Note,
}

/// Something wrong, or worth a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// How bad it is.
    pub(super) severity: Severity,
    /// File.
    pub(super) file: String,
    /// Where in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<u64>,
    /// What is wrong.
    pub(super) problem: String,
    /// What it means for those who read the log.
    pub(super) consequence: String,
}

/// What to do about a problem; the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remedy {
    /// Without it no node starts here.
    BeforeStart,
    /// Without it one partition is offline.
    Partition,
    /// Acknowledged records are only in what is left of a journal.
    Journal,
    /// Nobody knows how far the logs were written.
    Checkpoint,
    /// The node goes on, but for what is damaged.
    Serve,
}

impl Remedy {
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::BeforeStart => {
                "put back from a copy what the node does not start without, and do not delete what is left beside it"
            }
            Self::Partition => {
                "put a missing partition back from a copy before the node starts, or delete its topic: until then it is \
                 offline, and an empty directory in its place would hide the loss"
            }
            Self::Journal => {
                "copy the data directory before the node starts: the start writes what it can of the journal to the segments and \
                 keeps the rest in stray/"
            }
            Self::Checkpoint => {
                "put the checkpoints back from a copy of the same moment as the logs, or let the next start scan the logs"
            }
            Self::Serve => {
                "a node serves everything but damaged batches, and makes wrong indexes again by itself; the records of a \
                 damaged batch come back only from a copy"
            }
        }
    }
}

impl Finding {
    /// What to do about it, if anything.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        if self.severity == Severity::Note {
            return None;
        }
        Some(match self.consequence.as_str() {
            NO_START | NO_METADATA => Remedy::BeforeStart,
            GONE | OFFLINE | UNKNOWN => Remedy::Partition,
            UNBOUNDED => Remedy::Checkpoint,
            journals::LOST | journals::UNJOINED => Remedy::Journal,
            _ => Remedy::Serve,
        })
    }

    fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        let Self { severity, file, position, problem, consequence } = self;
        if *severity == Severity::Note {
            write!(sink, "note: ")?;
        }
        match position {
            Some(position) => writeln!(sink, "{file}: byte {position}: {problem}; {consequence}"),
            None => writeln!(sink, "{file}: {problem}; {consequence}"),
        }
    }
}

/// What was read altogether.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    /// Segments.
    pub(super) segments: u64,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// Whole batches.
    pub(super) batches: u64,
    /// Records, as the headers of those count them.
    pub(super) records: u64,
    /// Entries of indexes.
    pub(super) index_entries: u64,
    /// Snapshots of producers.
    pub(super) snapshots: u64,
    /// Entry sets of journals that the next start needs.
    pub(super) journal_sets: u64,
    /// Groups in them that it writes to segments.
    pub(super) journal_groups: u64,
    /// Findings that are problems.
    pub(super) problems: u64,
    /// Findings that are none.
    pub(super) notes: u64,
}

impl Totals {
    /// Adds up.
    pub(super) fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.bytes += other.bytes;
        self.batches += other.batches;
        self.records += other.records;
        self.index_entries += other.index_entries;
        self.snapshots += other.snapshots;
        self.journal_sets += other.journal_sets;
        self.journal_groups += other.journal_groups;
        self.problems += other.problems;
        self.notes += other.notes;
    }
}

impl Show for Totals {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        let Self { segments, bytes, batches, records, index_entries, snapshots, .. } = self;
        let Self { journal_sets, journal_groups, problems, notes, .. } = self;
        writeln!(
            sink,
            "segments={segments} bytes={bytes} batches={batches} records={records} \
             index_entries={index_entries} snapshots={snapshots} journal_sets={journal_sets} \
             journal_groups={journal_groups} problems={problems} notes={notes}"
        )
    }
}
