//! Produce requests, encoded once: a send patches the correlation id and copies nothing.
//!
//! Owns the skeletons: each is a whole request frame without its batches, for one group of partitions and one template. The
//! batches lie in the templates, shared by all.
//!
//! ```text
//!   head[..8]   correlation id   head[12..cut]   batch   head[cut..]   batch  …        one sendmsg, no copy in user space
//! ```

use record::PartitionIndex;
use wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::{Call, Cut, EncodeError, Records, encode_request};

use crate::client::CLIENT_ID;
use crate::template::Template;
use crate::workload::Acks;

/// Where a request frame carries its correlation id: behind size, key and version.
const CORRELATION_ID: std::ops::Range<usize> = 8..12;
/// Skeletons of one leader: with ten thousand partitions and more, fewer templates are used for each.
const FRAMES_MAX: usize = 1 << 16;

/// What all requests of a run have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameOptions<'a> {
    pub(crate) topic: &'a str,
    /// Of Produce; one that names topics.
    pub(crate) version: i16,
    pub(crate) acks: Acks,
    /// How long the broker may take.
    pub(crate) timeout_ms: i32,
}

/// A request without its batches.
#[derive(Debug, Clone)]
struct Skeleton {
    head: Vec<u8>,
    cuts: Vec<Cut>,
}

/// The requests to one leader.
#[derive(Debug, Clone)]
pub(crate) struct FrameSet {
    /// The partitions of each group, in the order of its requests.
    groups: Vec<Vec<PartitionIndex>>,
    /// Those of the first group, one a template, then those of the second.
    skeletons: Vec<Skeleton>,
    templates: usize,
}

/// Which request: what is sent, and what its answer is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameIndex {
    pub(crate) group: usize,
    pub(crate) template: usize,
}

impl FrameSet {
    /// Encodes requests for `partitions`, `group_size` of them in each; a last group may be smaller.
    ///
    /// Panics without a partition or a template.
    pub(crate) fn encode(
        options: FrameOptions<'_>,
        partitions: &[PartitionIndex],
        group_size: usize,
        templates: &[Template],
    ) -> Result<Self, EncodeError> {
        assert!(!partitions.is_empty());
        assert!(!templates.is_empty());
        let groups: Vec<Vec<PartitionIndex>> =
            partitions.chunks(group_size.max(1)).map(<[PartitionIndex]>::to_vec).collect();
        let count = templates.len().min((FRAMES_MAX / groups.len()).max(1));
        let mut skeletons = Vec::with_capacity(groups.len() * count);
        for group in &groups {
            for template in templates.iter().take(count) {
                skeletons.push(skeleton(options, group, template.bytes.len())?);
            }
        }
        Ok(Self { groups, skeletons, templates: count })
    }

    /// How many groups.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The partitions of a group, in the order in which its requests carry them: that of `encode`'s argument.
    pub(crate) fn partitions(&self, group: usize) -> &[PartitionIndex] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// Where the first partition of a group stood in `encode`'s argument.
    pub(crate) fn first_of(&self, group: usize) -> usize {
        // Every group but the last is as large as the first.
        group * self.partitions(0).len()
    }

    /// The `number`-th request of a connection that begins with group `first`: groups take turns, and with each turn
    /// templates do.
    pub(crate) fn nth(&self, first: usize, number: u64) -> FrameIndex {
        let place = number.wrapping_add(first as u64);
        let groups = self.groups.len() as u64;
        let index = |value: u64| usize::try_from(value).unwrap_or(0);
        let template = (place / groups).wrapping_add(place % groups) % self.templates as u64;
        FrameIndex { group: index(place % groups), template: index(template) }
    }

    /// The frame in sending order: `parts` is cleared and filled.
    pub(crate) fn parts<'a>(
        &'a self,
        frame: FrameIndex,
        correlation_id: &'a [u8; 4],
        batch: &'a [u8],
        parts: &mut Vec<&'a [u8]>,
    ) {
        parts.clear();
        let Some(skeleton) = self.skeletons.get(frame.group * self.templates + frame.template)
        else {
            return;
        };
        let stretch = |range| skeleton.head.get(range).unwrap_or_default();
        parts.push(stretch(0..CORRELATION_ID.start));
        parts.push(correlation_id);
        let mut start = CORRELATION_ID.end;
        for cut in &skeleton.cuts {
            parts.push(stretch(start..cut.at));
            parts.push(batch);
            start = cut.at;
        }
        parts.push(stretch(start..skeleton.head.len()));
    }
}

fn skeleton(
    options: FrameOptions<'_>,
    partitions: &[PartitionIndex],
    batch_bytes: usize,
) -> Result<Skeleton, EncodeError> {
    let partition_data = partitions.iter().map(|index| PartitionProduceData {
        index: *index,
        records: Records::Apart { bytes: batch_bytes },
    });
    let topic = TopicProduceData {
        name: options.topic.into(),
        partition_data: partition_data.collect(),
        ..TopicProduceData::default()
    };
    let body = ProduceRequest {
        acks: options.acks.code(),
        timeout_ms: options.timeout_ms,
        topic_data: vec![topic],
        ..ProduceRequest::default()
    };
    let call = Call { version: options.version, correlation_id: 0, client_id: Some(CLIENT_ID) };
    let encoded = encode_request(call, &body)?;
    Ok(Skeleton { head: encoded.head().to_vec(), cuts: encoded.cuts().to_vec() })
}

#[cfg(test)]
mod tests {
    use record::Timestamp;
    use wire::{Message, RequestHeader};

    use super::*;
    use crate::workload::Workload;

    fn templates() -> Vec<Template> {
        let workload = Workload { templates: Some(3), batch_bytes: 4_096, ..Workload::default() };
        crate::template::build(&workload, Timestamp(1))
    }

    fn options(version: i16) -> FrameOptions<'static> {
        FrameOptions { topic: "orders", version, acks: Acks::All, timeout_ms: 7_000 }
    }

    #[test]
    fn a_frame_in_parts_is_what_wire_reads_as_the_request_with_its_batches() {
        let templates = templates();
        let partitions: Vec<PartitionIndex> = (0..5).map(PartitionIndex).collect();
        for version in [3, 8, 9, 12] {
            let set = FrameSet::encode(options(version), &partitions, 2, &templates).unwrap();
            assert_eq!(set.group_count(), 3);
            let frame = FrameIndex { group: 1, template: 2 };
            let correlation_id = 77_i32.to_be_bytes();
            let mut parts = Vec::new();
            set.parts(frame, &correlation_id, &templates[2].bytes, &mut parts);
            let bytes = parts.concat();
            let size = i32::from_be_bytes(*bytes.first_chunk().unwrap());
            assert_eq!(usize::try_from(size).unwrap() + 4, bytes.len(), "version {version}");
            let (header, body) = RequestHeader::decode(&bytes[4..]).unwrap();
            assert_eq!((header.version, header.correlation_id), (version, 77));
            let request = ProduceRequest::decode(version, body).unwrap();
            assert_eq!((request.acks, request.timeout_ms), (-1, 7_000));
            let sent = &request.topic_data[0].partition_data;
            let carried: Vec<i32> = sent.iter().map(|data| data.index.0).collect();
            assert_eq!(carried, [2, 3]);
            assert!(sent.iter().all(|data| data.records.inline() == templates[2].bytes));
        }
    }

    #[test]
    fn connections_take_turns_over_all_groups_and_templates() {
        let templates = templates();
        let partitions: Vec<PartitionIndex> = (0..4).map(PartitionIndex).collect();
        let set = FrameSet::encode(options(9), &partitions, 1, &templates).unwrap();
        let groups: Vec<usize> = (0..5).map(|number| set.nth(2, number).group).collect();
        assert_eq!(groups, [2, 3, 0, 1, 2]);
        let mut seen: Vec<(usize, usize)> = (0..60)
            .map(|number| set.nth(0, number))
            .map(|frame| (frame.group, frame.template))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4 * 3, "every template goes to every partition");
    }

    #[test]
    fn many_groups_have_fewer_templates_each() {
        let templates = templates();
        let partitions: Vec<PartitionIndex> = (0..40_000).map(PartitionIndex).collect();
        let set = FrameSet::encode(options(9), &partitions, 1, &templates).unwrap();
        assert_eq!(set.skeletons.len(), 40_000);
        assert_eq!(set.nth(39_999, 0), FrameIndex { group: 39_999, template: 0 });
    }
}
