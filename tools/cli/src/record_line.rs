//! One record as one line: the fields that a person asked for, or everything as JSON or YAML.
//!
//! Owns the text forms. Bytes that are not UTF-8 are written as they are where a person asked for them, and as base64
//! where a program must be able to tell: `{"base64":"/w=="}` instead of a string.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::moment::Utc;
use crate::output::write_json_line;
use crate::yaml::write_document;

/// How a record is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Some of it, and the end of a line.
    Line(LineLayout),
    /// All of it, a JSON object a line.
    Json,
    /// All of it, a YAML document a record.
    Yaml,
}

/// What a line for people holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineLayout {
    /// In this order.
    pub(crate) fields: Vec<Field>,
    /// What stands between two of them.
    pub(crate) separator: String,
    /// What stands for a key, a value or a header's value that is null: an empty one is empty.
    pub(crate) null: String,
}

/// A part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Field {
    /// The topic's name.
    Topic,
    /// The partition's number.
    Partition,
    /// The offset.
    Offset,
    /// The time, of UTC.
    Timestamp,
    /// The headers as KEY=VALUE, with commas between.
    Headers,
    /// The key.
    Key,
    /// The value.
    Value,
}

/// A record as it was read.
#[derive(Debug, Serialize)]
pub(crate) struct RecordLine<'a> {
    /// Topic.
    pub(crate) topic: &'a str,
    /// Partition.
    pub(crate) partition: i32,
    /// Offset.
    pub(crate) offset: i64,
    /// Unix milliseconds; -1 for none.
    pub(crate) timestamp: i64,
    /// Key; null for none.
    pub(crate) key: Option<Text<'a>>,
    /// Value; null for none.
    pub(crate) value: Option<Text<'a>>,
    /// Headers in their order; keys may repeat.
    pub(crate) headers: Vec<HeaderLine<'a>>,
}

/// One header.
#[derive(Debug, Serialize)]
pub(crate) struct HeaderLine<'a> {
    /// Key.
    pub(crate) key: Text<'a>,
    /// Value; null for none.
    pub(crate) value: Option<Text<'a>>,
}

/// Bytes that are probably text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &base64(self.0))?;
        map.end()
    }
}

/// Writes `record` as `layout` says.
pub(crate) fn write_record(
    sink: &mut dyn Write,
    layout: &Layout,
    record: &RecordLine<'_>,
) -> io::Result<()> {
    match layout {
        Layout::Json => write_json_line(sink, record),
        Layout::Yaml => write_document(sink, record),
        Layout::Line(line) => {
            for (place, field) in line.fields.iter().enumerate() {
                if place > 0 {
                    sink.write_all(line.separator.as_bytes())?;
                }
                write_field(sink, *field, &line.null, record)?;
            }
            sink.write_all(b"\n")
        }
    }
}

fn write_field(
    sink: &mut dyn Write,
    field: Field,
    null: &str,
    record: &RecordLine<'_>,
) -> io::Result<()> {
    match field {
        Field::Topic => write!(sink, "{}", record.topic),
        Field::Partition => write!(sink, "{}", record.partition),
        Field::Offset => write!(sink, "{}", record.offset),
        Field::Timestamp => write!(sink, "{}", Utc(record.timestamp)),
        Field::Key => sink.write_all(or_null(record.key, null)),
        Field::Value => sink.write_all(or_null(record.value, null)),
        Field::Headers => {
            for (place, header) in record.headers.iter().enumerate() {
                if place > 0 {
                    sink.write_all(b",")?;
                }
                sink.write_all(header.key.0)?;
                sink.write_all(b"=")?;
                sink.write_all(or_null(header.value, null))?;
            }
            Ok(())
        }
    }
}

fn or_null<'a>(text: Option<Text<'a>>, null: &'a str) -> &'a [u8] {
    text.map_or(null.as_bytes(), |text| text.0)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place) & 0x3f) as usize;
            let is_padding = place > chunk.len();
            text.push(if is_padding { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(layout: &Layout, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
        let headers = vec![
            HeaderLine { key: Text(b"a"), value: Some(Text(b"1")) },
            HeaderLine { key: Text(b"a"), value: None },
        ];
        let record = RecordLine {
            topic: "orders",
            partition: 2,
            offset: 7,
            timestamp: 1_700_000_000_000,
            key: key.map(Text),
            value: value.map(Text),
            headers,
        };
        let mut written = Vec::new();
        write_record(&mut written, layout, &record).unwrap();
        String::from_utf8(written).unwrap()
    }

    fn fields(fields: &[Field], separator: &str, null: &str) -> Layout {
        let (separator, null) = (separator.to_owned(), null.to_owned());
        Layout::Line(LineLayout { fields: fields.to_vec(), separator, null })
    }

    #[test]
    fn every_layout() {
        let value = fields(&[Field::Value], "\t", "null");
        assert_eq!(line(&value, Some(b"k"), Some(b"v")), "v\n");
        assert_eq!(line(&value, None, Some(&[0xc3, 0xa4])), "ä\n");
        let both = fields(&[Field::Key, Field::Value], ": ", "null");
        assert_eq!(line(&both, Some(b"k"), Some(b"v")), "k: v\n");
        assert_eq!(
            line(&Layout::Json, None, Some(&[0xff])),
            "{\"topic\":\"orders\",\"partition\":2,\"offset\":7,\"timestamp\":1700000000000,\
             \"key\":null,\"value\":{\"base64\":\"/w==\"},\
             \"headers\":[{\"key\":\"a\",\"value\":\"1\"},{\"key\":\"a\",\"value\":null}]}\n"
        );
    }

    #[test]
    fn every_field_in_the_order_that_was_asked_for() {
        let all = [
            Field::Value,
            Field::Headers,
            Field::Timestamp,
            Field::Offset,
            Field::Partition,
            Field::Topic,
            Field::Key,
        ];
        assert_eq!(
            line(&fields(&all, "|", "-"), Some(b"k"), Some(b"v")),
            "v|a=1,a=-|2023-11-14T22:13:20.000Z|7|2|orders|k\n"
        );
    }

    #[test]
    fn null_and_empty_are_told_apart() {
        let both = fields(&[Field::Key, Field::Value], "\t", "null");
        assert_eq!(line(&both, None, None), "null\tnull\n");
        assert_eq!(line(&both, Some(b""), Some(b"")), "\t\n");
        assert_eq!(line(&fields(&[Field::Value], "\t", "\\N"), None, None), "\\N\n");
    }

    #[test]
    fn base64_is_padded() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(base64(bytes), expected);
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(b"foobar", "Zm9vYmFy");
        check(&[0xfb, 0xff], "+/8=");
    }
}
