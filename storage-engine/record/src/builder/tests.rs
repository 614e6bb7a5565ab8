use alloc::vec;

use super::*;
use crate::{BatchView, Batches, Found, Records};

#[test]
fn a_built_batch_has_kafkas_bytes() {
    // The console producer's three records, in the batch that Kafka stored.
    let kafkas = include_bytes!("../../tests/fixtures/java-none.log");
    let header = BatchHeader::parse(kafkas).unwrap();
    let mut builder = BatchBuilder::new(Codec::None)
        .producer(Producer { id: ProducerId(0), epoch: ProducerEpoch(0), base_sequence: 0 })
        .assigned(Offset(0), LeaderEpoch(0));
    let text = |text: &'static str| Some(text.as_bytes());
    let pair = |key: &'static str, value| Header { key: key.as_bytes(), value: text(value) };
    // Times of creation are the producer's own: take them from the records.
    let records = Records::new(&header, &kafkas[HEADER_BYTES..]);
    let times: Vec<_> = records.map(|record| record.unwrap().timestamp(&header)).collect();
    let rows = [
        ("k0", "value zero", [pair("h1", "v1"), pair("h2", "v2")].to_vec()),
        (
            "k1",
            "value one value one value one value one",
            [pair("h1", "a"), pair("h1", "b")].to_vec(),
        ),
        ("k2", "", [pair("h1", "")].to_vec()),
    ];
    for ((key, value, headers), timestamp) in rows.iter().zip(times) {
        let (key, value) = (text(key), text(value));
        builder.append(&NewRecord { timestamp, key, value, headers });
    }
    assert_eq!(builder.records_count(), 3);
    assert_eq!(builder.plain_bytes(), kafkas.len());
    assert_eq!(builder.build(), kafkas);
}

#[test]
fn markers_are_those_that_kafka_wrote() {
    let log = include_bytes!("../../tests/fixtures/transactions.log");
    let mut markers = 0;
    for (_, found) in Batches::new(log) {
        let Found::Whole(view) = found else { panic!("{found:?}") };
        view.verify_crc().unwrap();
        assert!(view.header().is_transactional());
        let records: Vec<_> = Records::new(view.header(), view.record_bytes()).collect();
        if !view.header().is_control() {
            continue;
        }
        markers += 1;
        let marker = Marker::parse(&records[0].unwrap()).unwrap();
        assert_eq!(marker, Marker { kind: MarkerKind::Commit, coordinator_epoch: 0 });
        let header = view.header();
        let mut batch =
            marker.batch(header.producer_id, header.producer_epoch, header.max_timestamp);
        crate::batch::assign(&mut batch, header.base_offset, header.partition_leader_epoch);
        assert_eq!(batch, view.bytes());
    }
    assert!(markers > 1);
}

#[test]
fn an_abort_marker_reads_back() {
    let marker = Marker { kind: MarkerKind::Abort, coordinator_epoch: 7 };
    let batch = marker.batch(ProducerId(1), ProducerEpoch(2), Timestamp(3));
    let view = BatchView::parse(&batch).unwrap();
    assert!(view.header().is_control() && view.header().is_transactional());
    assert_eq!((view.header().base_sequence, view.header().last_sequence()), (-1, -1));
    let record = Records::new(view.header(), view.record_bytes()).next().unwrap().unwrap();
    assert_eq!(Marker::parse(&record), Some(marker));
    let other = Record { key: Some(&[0, 0, 0, 2]), ..record };
    assert_eq!(Marker::parse(&other), None);
    assert_eq!(Marker::parse(&Record { key: Some(&[0, 0, 0]), ..record }), None);
    assert_eq!(Marker::parse(&Record { value: None, ..record }), None);
}

#[test]
fn append_time_takes_the_place_of_the_records_own() {
    let mut builder = BatchBuilder::new(Codec::Lz4);
    for timestamp in [50, 70, 60] {
        builder.append(&NewRecord { timestamp: Timestamp(timestamp), ..NewRecord::default() });
    }
    let mut batch = builder.build();
    let created = BatchHeader::parse(&batch).unwrap();
    assert_eq!((created.base_timestamp, created.max_timestamp), (Timestamp(50), Timestamp(70)));
    let appended = with_timestamps(
        &created,
        TimestampType::LogAppendTime,
        Timestamp(99),
        &batch[HEADER_BYTES..],
    );
    batch[..HEADER_BYTES].copy_from_slice(&appended.encode());
    let view = BatchView::parse(&batch).unwrap();
    view.verify_crc().unwrap();
    assert_eq!(view.header().timestamp_type(), TimestampType::LogAppendTime);
    let mut workspace = crate::Workspace::new();
    let plain = crate::decompress(Codec::Lz4, view.record_bytes(), 1000, &mut workspace).unwrap();
    let times: Vec<_> = Records::new(view.header(), &plain)
        .map(|record| record.unwrap().timestamp(view.header()))
        .collect();
    assert_eq!(times, vec![Timestamp(99); 3]);
    // Back again, bytes and checksum are those of the producer.
    let back = with_timestamps(
        &appended,
        TimestampType::CreateTime,
        Timestamp(70),
        &batch[HEADER_BYTES..],
    );
    assert_eq!(back, created);
}
