//! Small images for tests.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;

use record::{NodeId, TopicId};

use crate::{Advertise, Image, LeaderEpochs, ListenerEndpoint, MetadataRecord, NodeRegistration};

pub(crate) fn registration(node: i32) -> NodeRegistration {
    NodeRegistration {
        node: NodeId(node),
        incarnation: [1; 16],
        directory_id: [2; 16],
        shards: 2,
        rack: None,
        listeners: vec![ListenerEndpoint {
            name: Arc::from("PLAINTEXT"),
            host: Arc::from(format!("node{node}")),
            port: 9092,
            security: 0,
            advertise: Advertise::Node,
        }],
    }
}

/// An image with nodes 1 to `count`.
pub(crate) fn image_of_nodes(count: i32) -> Image {
    let mut image = Image::default();
    for node in 1..=count {
        let cluster = Arc::from("cluster");
        let decision =
            image.decide_register(&cluster, &registration(node), LeaderEpochs::Keep).unwrap();
        run(&mut image, &decision.records);
    }
    image
}

/// Applies the records as the log would bring them, through their bytes.
pub(crate) fn run(image: &mut Image, records: &[MetadataRecord]) {
    for record in records {
        let read = MetadataRecord::decode(&record.encode()).unwrap();
        assert_eq!(read, *record);
        image.apply(image.next_offset(), &read).unwrap();
    }
    image.check();
}

pub(crate) fn topic_id(byte: u8) -> TopicId {
    TopicId([byte.wrapping_add(1); 16])
}
