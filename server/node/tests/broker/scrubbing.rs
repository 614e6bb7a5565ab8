//! Rot that nobody reads: sealed segments are checked by the node itself.

use wire::ErrorCode;

use crate::support::{Client, Node, Topic, batch_of, fetch_of, fetched, record};
use ::record::Codec;

/// One batch of a segment's size.
fn append_segments(client: &mut Client, topic: &Topic, count: usize) {
    for _ in 0..count {
        client.append(topic, 0, &batch_of(Codec::None, &[record(0, &vec![7; 900_000])]));
    }
}

#[test]
fn a_bit_that_flips_in_a_sealed_segment_is_found_without_a_reader() {
    let mut node = Node::start(1, &["scrub.interval.ms=50", "scrub.bytes.per.second=1000000000"]);
    let mut client = node.connect();
    let topic = Topic::create_with(&mut client, 1, &[("segment.bytes", "1048576")]);
    append_segments(&mut client, &topic, 4);
    node.wait_for_metric("corelog_scrubbed_bytes_total", |bytes| bytes > 8 * 900_000);
    assert_eq!(node.metric("corelog_damaged_ranges"), 0);

    node.flip_bit(&topic, 0, 1, 500_000);
    node.wait_for_metric("corelog_damaged_ranges", |ranges| ranges == 1);
    let passes = node.metric("corelog_scrub_passes_total");
    node.wait_for_metric("corelog_scrub_passes_total", |later| later > passes + 1);
    assert_eq!(node.metric("corelog_damaged_ranges"), 1, "found again and counted once");
    append_segments(&mut client, &topic, 1);
    node.stop();
    // What was in memory was still served; what is on disk is not.
    node.start_again();
    node.wait_for_metric("corelog_damaged_ranges", |ranges| ranges == 1);
    let mut client = node.connect();
    for (offset, expected) in
        [(0, ErrorCode::None), (1, ErrorCode::CorruptMessage), (2, ErrorCode::None)]
    {
        let frame = client.call(12, &fetch_of(&topic, &[(0, offset)]));
        assert_eq!(fetched(&frame).error_code, expected, "offset {offset}");
    }
    assert_eq!(client.end_of(&topic, 0), 5);
    node.stop();
}
