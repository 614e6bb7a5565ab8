//! The journals of a data directory: what the next start writes to the segments, and what it cannot.
//!
//! Owns how findings of a ring are told. What a start would make of it `commitlog` finds out by the start's own rules.

use commitlog::{Disk, Executor, JournalFault, JournalRing, JournalWaiting};
use record::Offset;

use super::check::{Checker, Print};
use crate::exit::Outcome;
use crate::output::counted;

pub(super) const LOST: &str = "they were acknowledged; the next start writes what follows as far as its segments reach, and keeps the ring in stray/";
pub(super) const UNJOINED: &str = "they were acknowledged, and what lies before them is missing; the next start keeps the ring in stray/";
const UNFINISHED: &str = "no set is in the ring: the next start removes it";
const OTHER_HEADERS: &str =
    "its sets count all the same; the next start writes what they hold and removes the ring";
const UNTOLD: &str =
    "it was never synced, and nobody was told that it is durable; the next start leaves it out";
const WAITING: &str = "the next start writes them to their segments";

impl<D: Disk, E: Executor> Checker<D, E> {
    /// Every ring that was looked at.
    pub(super) fn journals(&mut self, print: &mut impl Print) -> Outcome {
        for ring in std::mem::take(&mut self.ground.rings) {
            self.ring(&ring, print)?;
            self.ground.rings.push(ring);
        }
        Ok(())
    }

    fn ring(&mut self, ring: &JournalRing, print: &mut impl Print) -> Outcome {
        let report = &ring.report;
        self.count_journal(report.sets, report.groups);
        for fault in &ring.faults {
            match fault {
                JournalFault::Missing { path, position, count } => {
                    let problem = format!("{} of the journal missing", counted(*count, "set"));
                    let finding = self.finding(path, *position, problem);
                    self.report(finding, LOST, print)?;
                }
                JournalFault::Torn { path, position } => {
                    let finding = self.finding(path, Some(*position), "a torn set".to_owned());
                    self.note(finding, UNTOLD, print)?;
                }
                JournalFault::Header { path } => {
                    let finding = self.finding(path, Some(0), "no header of a journal".to_owned());
                    match report.sets {
                        0 => self.note(finding, UNFINISHED, print)?,
                        _ => self.report(finding, OTHER_HEADERS, print)?,
                    }
                }
            }
        }
        if report.dropped_sets > 0 {
            let sets = counted(report.dropped_sets, "set");
            let problem = format!("{sets} behind one that is not there");
            let finding = self.finding(&ring.directory, None, problem);
            self.note(finding, UNTOLD, print)?;
        }
        for (refused, segment_bytes) in &report.refusals {
            let finding = self.finding(&ring.directory, None, said(refused, *segment_bytes));
            self.report(finding, UNJOINED, print)?;
        }
        let told: u64 = report.refusals.iter().map(|(refused, _)| refused.group_count).sum();
        if report.refused_groups > told {
            let more = counted(report.refused_groups - told, "further group");
            let finding = self.finding(&ring.directory, None, format!("{more} without a place"));
            self.report(finding, UNJOINED, print)?;
        }
        if report.groups > 0 {
            let (sets, groups) = (counted(report.sets, "set"), counted(report.groups, "group"));
            let logs = counted(report.waiting.len() as u64, "log");
            let problem = format!("{sets} with {groups} of {logs} that no segment holds yet");
            let finding = self.finding(&ring.directory, None, problem);
            self.note(finding, WAITING, print)?;
        }
        Ok(())
    }
}

/// What has no place, and why.
fn said(refused: &JournalWaiting, segment_bytes: Option<u64>) -> String {
    let JournalWaiting { directory, segment, position, base_offset, end_offset, .. } = refused;
    let last = Offset(end_offset.0.saturating_sub(1));
    let offsets = format!("{directory}: offsets {base_offset} to {last}");
    match segment_bytes {
        None => format!("{offsets} of a directory that is missing"),
        Some(bytes) => {
            let base = segment.0;
            format!(
                "{offsets} belong at byte {position} of {base:020}.log, which ends at byte {bytes}"
            )
        }
    }
}
