//! A data directory as a whole: whether it says whose it is, and every partition that its metadata knows is there.
//!
//! Owns the comparison of the metadata log with the directories. What a partition holds is for [`super::check`]; here it only
//! has to be there, under its name, and say that it is what the metadata means by that name. It changes nothing.

use std::collections::BTreeSet;

use cluster::{Image, MetadataRecord};
use commitlog::checkpoint::CHECKPOINT_DIRECTORY;
use commitlog::directory::{
    COORDINATOR_DIRECTORY, META_FILE, TOPICS_DIRECTORY, read_identity, read_topic_id,
};
use commitlog::scan::ScanItem;
use commitlog::{Disk, Executor};
use record::{BatchView, NodeId, Offset, PartitionIndex, Records, TopicId, TopicPartition};

use super::check::{Checker, Print};
use super::files::{Partition, Segment};
use super::ground::METADATA_LOG;
use crate::exit::Outcome;

pub(super) const NO_START: &str = "the node does not start; restore it from a copy";
pub(super) const NO_METADATA: &str =
    "the node does not start, and which topics there were is not known; restore it from a copy";
const NOT_COMPARED: &str = "whether every topic is there is not known";
pub(super) const GONE: &str = "they were acknowledged and come back only from a copy; until then the node takes this partition offline";
pub(super) const OFFLINE: &str =
    "the node takes this partition offline; restore the file or the directory";
const MADE: &str = "no record was acknowledged; the next start makes it";
const NO_TOPIC: &str = "the metadata knows no such partition: the next start moves it to stray/";
pub(super) const UNKNOWN: &str = "without its checkpoint it is not known whether it held records";
pub(super) const UNBOUNDED: &str =
    "what was acknowledged is not known; the next start scans these logs from their beginning";

impl<D: Disk, E: Executor> Checker<D, E> {
    /// The data directory at the root, whose partitions are these.
    pub(super) async fn census(
        &mut self,
        partitions: &[Partition],
        print: &mut impl Print,
    ) -> Outcome {
        let unread = self.ground.damaged.iter().filter(|copy| !copy.has_other);
        let unread: Vec<_> = unread.map(|copy| (copy.path.clone(), copy.damage)).collect();
        for (path, damage) in unread {
            let finding = self.finding(&path, None, format!("{damage}, nor can its other copy"));
            self.report(finding, UNBOUNDED, print)?;
        }
        let node = self.identity(print).await?;
        self.journals(print)?;
        let image = self.metadata(partitions, print).await?;
        let has_topics = image.as_ref().is_none_or(|image| !image.topics_sorted().is_empty());
        if has_topics && !self.ground.has_checkpoint() && self.ground.damaged.is_empty() {
            // A node has written one before it takes the first topic.
            let finding = self.finding(CHECKPOINT_DIRECTORY, None, "no checkpoint".to_owned());
            self.report_unless_running(finding, UNBOUNDED, print)?;
        }
        let Some(image) = image else { return Ok(()) };
        let mut known = BTreeSet::new();
        for topic in image.topics_sorted() {
            for (index, partition) in topic.indexed() {
                if node.is_some_and(|node| !partition.replicas.contains(&node)) {
                    continue;
                }
                let log = TopicPartition { topic_id: topic.id, partition: index };
                let directory = directory_of(&topic.name, index);
                let found = partitions.iter().any(|found| found.directory == directory);
                self.placed(log, &directory, found, print).await?;
                known.insert(directory);
            }
        }
        let is_topic = |directory: &str| directory.split('/').next() == Some(TOPICS_DIRECTORY);
        for partition in partitions {
            let directory = partition.directory.as_str();
            if is_topic(directory) && !known.contains(directory) {
                let finding = self.finding(directory, None, "of no topic".to_owned());
                self.note(finding, NO_TOPIC, print)?;
            }
        }
        Ok(())
    }

    /// The node that the directory belongs to, if it says so.
    async fn identity(&mut self, print: &mut impl Print) -> Outcome<Option<NodeId>> {
        match read_identity(&self.disk).await {
            Ok(Some(ids)) => Ok(Some(ids.node_id)),
            Ok(None) => {
                let finding = self.finding(META_FILE, None, "missing".to_owned());
                self.report(finding, NO_START, print)?;
                Ok(None)
            }
            Err(error) => {
                let finding = self.finding(META_FILE, None, error.to_string());
                self.report(finding, NO_START, print)?;
                Ok(None)
            }
        }
    }

    /// The metadata as far as its log can be read; `None` where that is not to its end.
    async fn metadata(
        &mut self,
        partitions: &[Partition],
        print: &mut impl Print,
    ) -> Outcome<Option<Image>> {
        let log = partitions.iter().find(|found| found.directory == COORDINATOR_DIRECTORY);
        let segments = log.map_or(&[][..], |log| &log.segments);
        let entry = self.ground.entry_of(&METADATA_LOG).copied();
        if segments.is_empty() {
            let was_there = entry.is_some_and(|entry| entry.created) || !partitions.is_empty();
            if was_there {
                let problem = "no log of metadata".to_owned();
                let finding = self.finding(COORDINATOR_DIRECTORY, None, problem);
                self.report(finding, NO_METADATA, print)?;
            }
            return Ok(None);
        }
        let mut image = Image::default();
        for segment in segments {
            if let Err(problem) = self.replay(segment, &mut image).await? {
                let finding = self.finding(&segment.path, None, problem);
                self.report_unless_running(finding, NOT_COMPARED, print)?;
                return Ok(None);
            }
        }
        // What ends early was reported with the segments.
        let is_whole = entry.is_none_or(|entry| image.next_offset() >= entry.end);
        Ok(is_whole.then_some(image))
    }

    /// Takes in the records of a segment up to the first bytes that are no batch.
    async fn replay(
        &mut self,
        segment: &Segment,
        image: &mut Image,
    ) -> Outcome<Result<(), String>> {
        let path = segment.path.as_str();
        let Some(mut scan) = self.open(segment).await? else {
            return Ok(Err("gone since the directory was listed".to_owned()));
        };
        while let Some(item) = scan.next().await.map_err(|error| self.failed(path, &error))? {
            let ScanItem::Batch { position, header } = item else { break };
            let bytes = scan.batch_bytes(position, &header).await;
            let bytes = bytes.map_err(|error| self.failed(path, &error))?;
            if let Err(problem) = apply(image, &bytes) {
                return Ok(Err(problem));
            }
        }
        Ok(Ok(()))
    }

    /// A partition that the metadata knows.
    async fn placed(
        &mut self,
        log: TopicPartition,
        directory: &str,
        is_found: bool,
        print: &mut impl Print,
    ) -> Outcome {
        let entry = self.ground.entry_of(&log).copied();
        let created = entry.filter(|entry| entry.created);
        if !is_found {
            let Some(entry) = created else {
                if !self.ground.knows_all() {
                    let finding = self.finding(directory, None, "missing".to_owned());
                    return self.report_unless_running(finding, UNKNOWN, print);
                }
                let finding = self.finding(directory, None, "not there yet".to_owned());
                return self.note(finding, MADE, print);
            };
            let gone = match entry.end {
                end if end > entry.log_start => {
                    format!("missing, with offsets {} to {}", entry.log_start, end.0 - 1)
                }
                _ => {
                    let finding = self.finding(directory, None, "missing".to_owned());
                    return self.report_unless_running(finding, OFFLINE, print);
                }
            };
            let finding = self.finding(directory, None, gone);
            return self.report_unless_running(finding, GONE, print);
        }
        let id = read_topic_id(&self.disk, directory).await;
        let id = id.map_err(|error| self.failed(directory, &error))?;
        if id == Some(log.topic_id) {
            return Ok(());
        }
        let said = id.map_or("no topic".to_owned(), |id: TopicId| format!("topic {id}"));
        let problem =
            format!("partition.metadata names {said}, the metadata topic {}", log.topic_id);
        let finding = self.finding(directory, None, problem);
        match created {
            // A running node may have deleted the topic since its metadata was read.
            Some(_) => self.report_unless_running(finding, OFFLINE, print),
            None => self.note(finding, NO_TOPIC, print),
        }
    }
}

fn directory_of(topic: &str, index: PartitionIndex) -> String {
    format!("{TOPICS_DIRECTORY}/{topic}-{}", index.0)
}

/// Takes in the records of one batch.
fn apply(image: &mut Image, bytes: &[u8]) -> Result<(), String> {
    let batch = BatchView::parse(bytes).map_err(|error| error.to_string())?;
    let header = batch.header();
    for record in Records::new(header, batch.record_bytes()) {
        let record = record.map_err(|defect| defect.to_string())?;
        let offset: Offset = record.offset(header);
        let at = |error: String| format!("metadata at offset {offset}: {error}");
        let value = record.value.unwrap_or_default();
        let change = MetadataRecord::decode(value).map_err(|error| at(error.to_string()))?;
        image.apply(offset, &change).map_err(|error| at(error.to_string()))?;
    }
    Ok(())
}
