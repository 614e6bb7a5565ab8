//! A snapshot and its image say the same, and bytes that are no snapshot say nothing.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use proptest::prelude::*;
use record::{LeaderEpoch, PartitionIndex, TopicId};

use super::*;
use crate::testing::{image_of_nodes, registration, run, topic_id};
use crate::{Deletion, LeaderEpochs, PartitionChange, TopicReference};

fn topic(image: &mut Image, name: &str, id: TopicId, partition_count: i32) {
    let mut records = vec![MetadataRecord::Topic { name: Arc::from(name), id }];
    let first = image.slots_next.get(&NodeId(1)).map_or(0, |slot| slot.0);
    records.extend((0..partition_count).zip(first..).map(|(index, slot)| {
        MetadataRecord::Partition(PartitionState {
            topic_id: id,
            index: PartitionIndex(index),
            slot: Slot(slot),
            shard_override: (index == 1).then_some(record::ShardIndex(1)),
            leader: NodeId(1),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
            replicas: vec![NodeId(1)],
            isr: vec![NodeId(1)],
        })
    }));
    run(image, &records);
}

/// An image in which every kind of fact has left something.
fn image() -> Image {
    let mut image = image_of_nodes(1);
    topic(&mut image, "a.b", topic_id(1), 2);
    topic(&mut image, "gone", topic_id(2), 3);
    topic(&mut image, "c", topic_id(3), 1);
    let gone = image.decide_delete_topics(&[TopicReference::Name("gone")], Deletion::Enabled);
    run(&mut image, &gone.records);
    let (name, value) = (Arc::from("retention.ms"), Some(Arc::from("1000")));
    let change = PartitionChange {
        topic_id: topic_id(1),
        index: PartitionIndex(0),
        leader: NodeId::NONE,
        leader_epoch: LeaderEpoch(4),
        partition_epoch: 9,
        isr: vec![NodeId(1)],
        shard_override: None,
    };
    run(
        &mut image,
        &[
            MetadataRecord::TopicConfig { id: topic_id(3), name, value },
            MetadataRecord::NodeConfig {
                node: NodeId::NONE,
                name: Arc::from("retention.ms"),
                value: Some(Arc::from("5")),
            },
            MetadataRecord::PartitionChange(change),
            MetadataRecord::NoOp,
        ],
    );
    let block = image.decide_producer_ids(NodeId(1)).unwrap();
    run(&mut image, &block.records);
    image
}

#[test]
fn a_snapshot_is_the_image() {
    for image in [Image::default(), image_of_nodes(3), image()] {
        let bytes = image.encode_snapshot(0xc4c4_c4c4).unwrap();
        let MetadataSnapshot { image: read, batch_crc } = Image::decode_snapshot(&bytes).unwrap();
        read.check();
        assert_eq!(batch_crc, 0xc4c4_c4c4);
        assert_eq!(read.facts(), image.facts());
        assert_eq!(read.partition_count(), image.partition_count());
        assert_eq!(read.encode_snapshot(batch_crc), Ok(bytes));
    }
}

#[test]
fn the_log_goes_on_behind_a_snapshot() {
    let mut whole = image();
    let mut read = Image::decode_snapshot(&whole.encode_snapshot(0).unwrap()).unwrap().image;
    for image in [&mut whole, &mut read] {
        // The slot that follows those of the topic that is gone, the next producer ids, a new node epoch.
        topic(image, "later", topic_id(9), 2);
        let block = image.decide_producer_ids(NodeId(1)).unwrap();
        run(image, &block.records);
        let cluster = Arc::from("cluster");
        let node = image.decide_register(&cluster, &registration(1), LeaderEpochs::Bump).unwrap();
        run(image, &node.records);
    }
    assert_eq!(read.facts(), whole.facts());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn metadata_snapshot_golden_bytes() {
    let mut image = Image::default();
    run(
        &mut image,
        &[
            MetadataRecord::Cluster { cluster_id: Arc::from("c") },
            MetadataRecord::FeatureLevel { level: 1 },
            MetadataRecord::Topic { name: Arc::from("t"), id: TopicId([5; 16]) },
        ],
    );
    let partition = PartitionState {
        topic_id: TopicId([5; 16]),
        index: PartitionIndex(0),
        slot: Slot(6),
        shard_override: None,
        leader: NodeId(1),
        leader_epoch: LeaderEpoch(2),
        partition_epoch: 3,
        replicas: vec![NodeId(1)],
        isr: vec![NodeId(1)],
    };
    run(&mut image, &[MetadataRecord::Partition(partition)]);
    let expected = [
        "434c4d53",
        "0002",
        "0000", // magic, version, reserved
        "0000000000000004",
        "01020304",
        "0000000000000000", // next offset, the checksum of the batch before it, next producer id
        "00000001",
        "00000001",
        "0007",     // the slot after 6 for node 1
        "00000004", // four facts
        "ffffffffffffffff",
        "00000006",
        "010200",
        "0263",
        "00",
        "ffffffffffffffff",
        "00000006",
        "010300",
        "0001",
        "00",
        "ffffffffffffffff",
        "00000016",
        "010600",
        "0274",
        "05050505050505050505050505050505",
        "00",
        "ffffffffffffffff",
        "00000030",
        "010800",
        "05050505050505050505050505050505",
        "00000000",
        "0006",
        "00000001",
        "00000002",
        "00000003",
        "0200000001",
        "0200000001",
        "00",
    ]
    .concat();
    let bytes = image.encode_snapshot(0x0102_0304).unwrap();
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    assert_eq!(hex(body), expected);
    assert_eq!(crc, crc32c(body).to_be_bytes());
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_snapshot_is_noticed() {
    let bytes = image().encode_snapshot(7).unwrap();
    for length in 0..bytes.len() {
        assert!(Image::decode_snapshot(&bytes[..length]).is_err(), "cut to {length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Image::decode_snapshot(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn what_nobody_would_read_is_not_written() {
    let length = image().encode_snapshot(7).unwrap().len();
    assert!(image().encode_within(length, 7).is_ok());
    let too_large = SnapshotTooLarge { bytes: length, bytes_max: length - 1 };
    assert_eq!(image().encode_within(length - 1, 7), Err(too_large));
}

/// The body with the checksum that goes with it.
fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&body);
    body.extend_from_slice(&crc.to_be_bytes());
    body
}

#[test]
fn a_later_version_is_called_that() {
    let bytes = image().encode_snapshot(7).unwrap();
    let mut body = bytes[..bytes.len() - 4].to_vec();
    body[5] = 3;
    let refused = Image::decode_snapshot(&sealed(body)).unwrap_err();
    assert_eq!(refused.to_string(), "magic or version 3 unknown");
}

#[test]
fn the_version_without_a_batch_is_told_from_damage() {
    let image = image();
    let bytes = image.encode_snapshot(7).unwrap();
    let mut body = bytes[..bytes.len() - 4].to_vec();
    body[5] = 1;
    body.drain(16..20);
    let refused = Image::decode_snapshot(&sealed(body)).unwrap_err();
    assert_eq!(refused, MetadataSnapshotError::Earlier { next_offset: image.next_offset() });
}

proptest! {
    /// Whatever is right by its checksum and wrong otherwise makes no image that breaks a rule.
    #[test]
    fn bytes_that_are_no_snapshot_are_refused_or_make_a_whole_image(
        at in 0_usize..4_096, change in proptest::collection::vec(any::<u8>(), 1..12),
    ) {
        let bytes = image().encode_snapshot(7).unwrap();
        let mut body = bytes[..bytes.len() - 4].to_vec();
        let at = at % body.len();
        for (place, byte) in body[at..].iter_mut().zip(&change) {
            *place = *byte;
        }
        if let Ok(snapshot) = Image::decode_snapshot(&sealed(body)) {
            snapshot.image.check();
        }
    }
}
