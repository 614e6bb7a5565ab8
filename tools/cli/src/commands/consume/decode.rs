//! Batches into records: checked, decompressed within a bound, and cut to what was asked for.
//!
//! Owns the walk over one answer. Bytes from a broker are hostile until proven otherwise: what does not hold together ends
//! the command with the place and the reason.

use record::{BatchHeader, Batches, Found, Offset, Records};

use crate::batch_records::BatchRecords;
use crate::client::Fetched;
use crate::exit::{Exit, Failure, Outcome};
use crate::record_line::{HeaderLine, RecordLine, Text};

/// Where records are taken from, and what keeps their memory.
#[derive(Debug, Default)]
pub(crate) struct BatchReader {
    records: BatchRecords,
}

impl BatchReader {
    /// Hands every record of `fetched` from its position on to `take`; gives where reading goes on.
    pub(crate) fn each_record(
        &mut self,
        place: &str,
        topic: &str,
        fetched: &Fetched,
        mut take: impl FnMut(RecordLine<'_>) -> Outcome,
    ) -> Outcome<Offset> {
        let mut position = fetched.from;
        for (_, found) in Batches::new(&fetched.batches) {
            let batch = match found {
                Found::Whole(batch) => batch,
                // The last batch may be cut off by the size of the answer: it comes again, whole.
                Found::Truncated { .. } if position > fetched.from => break,
                found => return Err(unreadable(place, position, &describe(&found))),
            };
            let header = batch.header();
            let damaged = |reason: String| unreadable(place, header.base_offset, &reason);
            batch.verify_crc().map_err(|error| damaged(error.to_string()))?;
            if !header.attributes.is_control() {
                let bytes = self.records.bytes_of(&batch).map_err(damaged)?;
                for record in Records::new(header, &bytes) {
                    let record = record.map_err(|error| damaged(error.to_string()))?;
                    // A batch is sent whole even where reading starts in its middle (FE-4).
                    if record.offset(header) >= fetched.from {
                        take(line(topic, fetched, header, &record))?;
                    }
                }
            }
            position = position.max(end_of(header));
        }
        Ok(position)
    }
}

fn end_of(header: &BatchHeader) -> Offset {
    Offset(header.base_offset.0 + i64::from(header.last_offset_delta) + 1)
}

fn line<'a>(
    topic: &'a str,
    fetched: &Fetched,
    header: &BatchHeader,
    record: &record::Record<'a>,
) -> RecordLine<'a> {
    let headers = record.headers;
    RecordLine {
        topic,
        partition: fetched.partition.0,
        offset: record.offset(header).0,
        timestamp: record.timestamp(header).0,
        key: record.key.map(Text),
        value: record.value.map(Text),
        headers: headers
            .map(|header| HeaderLine { key: Text(header.key), value: header.value.map(Text) })
            .collect(),
    }
}

fn describe(found: &Found<'_>) -> String {
    match found {
        Found::Whole(_) => "a whole batch".to_owned(),
        Found::Truncated { needed, left } => {
            format!("a batch of {needed} bytes, of which {left} came")
        }
        Found::ZeroTail { left } => format!("{left} bytes of zeros"),
        Found::Corrupt(error) => error.to_string(),
    }
}

fn unreadable(place: &str, at: Offset, reason: &str) -> Failure {
    let fact = format!("{place}: the batch at offset {at} cannot be read: {reason}");
    Failure::new(Exit::Refused, fact)
        .advise("corelog log verify tells whether it is the file or the way here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use record::{
        BatchBuilder, Codec, LeaderEpoch, Marker, MarkerKind, NewRecord, PartitionIndex,
        ProducerEpoch, ProducerId, Timestamp,
    };

    fn batch(codec: Codec, base_offset: i64, values: &[&str]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(codec).assigned(Offset(base_offset), LeaderEpoch(0));
        for value in values {
            let value = Some(value.as_bytes());
            let timestamp = Timestamp(1);
            builder.append(&NewRecord { timestamp, value, ..NewRecord::default() });
        }
        builder.build()
    }

    fn read(from: i64, bytes: Vec<u8>) -> Result<(Vec<(i64, String)>, i64), String> {
        let fetched = Fetched {
            partition: PartitionIndex(0),
            from: Offset(from),
            batches: Bytes::from(bytes),
        };
        let mut records = Vec::new();
        let position = BatchReader::default().each_record("t-0", "t", &fetched, |record| {
            let value = str::from_utf8(record.value.unwrap().0).unwrap().to_owned();
            records.push((record.offset, value));
            Ok(())
        });
        position.map(|position| (records, position.0)).map_err(|failure| failure.fact)
    }

    #[test]
    fn every_codec_and_a_start_within_a_batch() {
        for codec in Codec::ALL {
            let bytes = [batch(codec, 10, &["a", "b"]), batch(codec, 12, &["c"])].concat();
            let expected = vec![(11, "b".to_owned()), (12, "c".to_owned())];
            assert_eq!(read(11, bytes), Ok((expected, 13)), "{codec}");
        }
    }

    #[test]
    fn markers_are_passed_over() {
        let marker = Marker { kind: MarkerKind::Commit, coordinator_epoch: 0 };
        let mut bytes = marker.batch(ProducerId(1), ProducerEpoch(0), Timestamp(1));
        record::batch::assign(&mut bytes, Offset(4), LeaderEpoch(0));
        assert_eq!(read(4, bytes), Ok((vec![], 5)));
    }

    #[test]
    fn a_batch_cut_off_at_the_end_comes_again_and_one_at_the_start_is_an_error() {
        let (whole, cut) = (batch(Codec::None, 0, &["a"]), batch(Codec::None, 1, &["b"]));
        let bytes = [whole.as_slice(), &cut[..cut.len() - 1]].concat();
        assert_eq!(read(0, bytes), Ok((vec![(0, "a".to_owned())], 1)));
        let fact = read(1, cut[..cut.len() - 1].to_vec()).unwrap_err();
        assert!(fact.starts_with("t-0: the batch at offset 1 cannot be read"), "{fact}");
    }

    #[test]
    fn a_flipped_bit_is_named() {
        let mut bytes = batch(Codec::None, 7, &["value"]);
        *bytes.last_mut().unwrap() ^= 1;
        let fact = read(7, bytes).unwrap_err();
        assert!(fact.contains("t-0: the batch at offset 7") && fact.contains("crc"), "{fact}");
    }
}
