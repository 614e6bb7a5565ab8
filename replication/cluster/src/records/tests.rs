//! Golden bytes of every metadata record, and what happens to bytes that are none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use proptest::prelude::*;

use super::*;

const ID: TopicId = TopicId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn registration() -> NodeRegistration {
    NodeRegistration {
        node: NodeId(7),
        incarnation: ID.0,
        directory_id: [0xff; 16],
        shards: 2,
        rack: Some(text("r1")),
        listeners: vec![ListenerEndpoint {
            name: text("PLAINTEXT"),
            host: text("host"),
            port: 9092,
            security: 0,
            advertise: Advertise::Core,
        }],
    }
}

fn partition() -> PartitionState {
    PartitionState {
        topic_id: ID,
        index: PartitionIndex(3),
        slot: Slot(u16::MAX),
        shard_override: None,
        leader: NodeId(7),
        leader_epoch: LeaderEpoch(1),
        partition_epoch: 2,
        replicas: vec![NodeId(7), NodeId(8)],
        isr: vec![NodeId(7)],
    }
}

fn change() -> PartitionChange {
    PartitionChange {
        topic_id: ID,
        index: PartitionIndex(3),
        leader: NodeId::NONE,
        leader_epoch: LeaderEpoch(4),
        partition_epoch: 9,
        isr: vec![NodeId(8)],
        shard_override: None,
    }
}

fn golden() -> Vec<(MetadataRecord, &'static str)> {
    let shard = Some(ShardIndex(5));
    vec![
        (MetadataRecord::NoOp, "01010000"),
        (MetadataRecord::Cluster { cluster_id: text("abc") }, "0102000461626300"),
        (MetadataRecord::FeatureLevel { level: 1 }, "010300000100"),
        (
            MetadataRecord::NodeRegister(registration()),
            concat!(
                "01040000000007000102030405060708090a0b0c0d0e0fffffffffffffffffffffffffffffffff0002037231",
                "020a504c41494e5445585405686f7374238400010000"
            ),
        ),
        (
            MetadataRecord::NodeRegister(NodeRegistration {
                rack: None,
                listeners: vec![],
                ..registration()
            }),
            "01040000000007000102030405060708090a0b0c0d0e0fffffffffffffffffffffffffffffffff0002000100",
        ),
        (MetadataRecord::NodeUnregister { node: NodeId(7) }, "0105000000000700"),
        (
            MetadataRecord::Topic { name: text("orders"), id: ID },
            "010600076f7264657273000102030405060708090a0b0c0d0e0f00",
        ),
        (MetadataRecord::TopicRemove { id: ID }, "010700000102030405060708090a0b0c0d0e0f00"),
        (
            MetadataRecord::Partition(partition()),
            concat!(
                "010800000102030405060708090a0b0c0d0e0f00000003ffff00000007000000010000000203000000070000",
                "0008020000000700"
            ),
        ),
        (
            MetadataRecord::Partition(PartitionState { shard_override: shard, ..partition() }),
            concat!(
                "010800000102030405060708090a0b0c0d0e0f00000003ffff00000007000000010000000203000000070000",
                "000802000000070100020005"
            ),
        ),
        (
            MetadataRecord::PartitionChange(change()),
            "010900000102030405060708090a0b0c0d0e0f00000003ffffffff0000000400000009020000000800",
        ),
        (
            MetadataRecord::PartitionChange(PartitionChange { shard_override: shard, ..change() }),
            concat!(
                "010900000102030405060708090a0b0c0d0e0f00000003ffffffff0000000400000009020000000801000200",
                "05"
            ),
        ),
        (
            MetadataRecord::TopicConfig {
                id: ID,
                name: text("retention.ms"),
                value: Some(text("-1")),
            },
            "010a00000102030405060708090a0b0c0d0e0f0d726574656e74696f6e2e6d73032d3100",
        ),
        (
            MetadataRecord::TopicConfig { id: ID, name: text("retention.ms"), value: None },
            "010a00000102030405060708090a0b0c0d0e0f0d726574656e74696f6e2e6d730000",
        ),
        (
            MetadataRecord::NodeConfig {
                node: NodeId::NONE,
                name: text("log.roll.ms"),
                value: Some(text("5")),
            },
            "010b00ffffffff0c6c6f672e726f6c6c2e6d73023500",
        ),
        (
            MetadataRecord::ProducerIdBlock { node: NodeId(7), first: 1_000, count: 1_000 },
            "010c000000000700000000000003e8000003e800",
        ),
    ]
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_record_has_the_bytes_it_always_had() {
    let mut kinds = alloc::collections::BTreeSet::new();
    for (record, hex) in golden() {
        assert_eq!(hex_of(&record.encode()), hex, "{record:?}");
        assert_eq!(MetadataRecord::decode(&bytes_of(hex)).as_ref(), Ok(&record));
        kinds.insert(record.kind());
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
}

#[test]
fn a_type_version_or_frame_that_is_not_known_is_an_error() {
    let check = |hex: &str, expected: &str| {
        assert_eq!(MetadataRecord::decode(&bytes_of(hex)).unwrap_err().to_string(), expected);
    };
    check("010d0000", "metadata record type 13 version 0: this version does not know it");
    check("01000000", "metadata record type 0 version 0: this version does not know it");
    check("01010100", "metadata record type 1 version 1: this version does not know it");
    check("02010000", "metadata frame 2: this version reads 1");
}

#[test]
fn unknown_tagged_fields_are_stepped_over() {
    // NoOp with tag 9 of two bytes.
    let record = MetadataRecord::decode(&bytes_of("010100010902abcd"));
    assert_eq!(record, Ok(MetadataRecord::NoOp));
}

#[test]
fn every_cut_and_every_trailing_byte_is_refused() {
    for (record, hex) in golden() {
        let bytes = bytes_of(hex);
        for end in 0..bytes.len() {
            assert!(MetadataRecord::decode(&bytes[..end]).is_err(), "{record:?} cut at {end}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(MetadataRecord::decode(&longer).is_err(), "{record:?}");
    }
}

#[test]
fn a_listener_that_advertises_in_an_unknown_way_is_refused() {
    let bytes = MetadataRecord::NodeRegister(registration()).encode();
    let mut bytes: Vec<u8> = bytes;
    let advertise = bytes.len() - 3;
    bytes[advertise] = 2;
    let error = RecordError::Value { kind: 4, what: "advertise", value: 2 };
    assert_eq!(MetadataRecord::decode(&bytes), Err(error));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_decode_or_are_refused(
        kind in 0_u8..14,
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = vec![1, kind, 0];
        bytes.extend(rest);
        if let Ok(record) = MetadataRecord::decode(&bytes) {
            let again = MetadataRecord::decode(&record.encode());
            prop_assert_eq!(again, Ok(record));
        }
    }

    #[test]
    fn flipped_golden_bytes_decode_or_are_refused(row in 0_usize..16, at: usize, value: u8) {
        let mut bytes = bytes_of(golden()[row].1);
        let at = at % bytes.len();
        bytes[at] ^= value;
        drop(MetadataRecord::decode(&bytes));
    }
}
