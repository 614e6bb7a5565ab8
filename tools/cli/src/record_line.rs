//! One record as one line: its value, its key and value, or everything as JSON.
//!
//! Owns the text forms. Bytes that are not UTF-8 are written as they are where a person asked for them, and as base64
//! where a program must be able to tell: `{"base64":"/w=="}` instead of a string.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::output::write_json_line;
use crate::yaml::write_document;

/// How a record is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Its value and the end of a line.
    Value,
    /// Its key, this separator, its value and the end of a line.
    KeyAndValue(String),
    /// All of it, a JSON object a line.
    Json,
    /// All of it, a YAML document a record.
    Yaml,
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
        Layout::Json => return write_json_line(sink, record),
        Layout::Yaml => return write_document(sink, record),
        Layout::KeyAndValue(separator) => {
            sink.write_all(record.key.map_or(&[][..], |key| key.0))?;
            sink.write_all(separator.as_bytes())?;
        }
        Layout::Value => {}
    }
    sink.write_all(record.value.map_or(&[][..], |value| value.0))?;
    sink.write_all(b"\n")
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

    #[test]
    fn every_layout() {
        let tab = Layout::KeyAndValue("\t".into());
        assert_eq!(line(&Layout::Value, Some(b"k"), Some(b"v")), "v\n");
        assert_eq!(line(&Layout::Value, None, None), "\n");
        assert_eq!(line(&tab, Some(b"k"), Some(b"v")), "k\tv\n");
        assert_eq!(line(&tab, None, Some(b"v")), "\tv\n");
        assert_eq!(
            line(&Layout::Json, None, Some(&[0xff])),
            "{\"topic\":\"orders\",\"partition\":2,\"offset\":7,\"timestamp\":1700000000000,\
             \"key\":null,\"value\":{\"base64\":\"/w==\"},\
             \"headers\":[{\"key\":\"a\",\"value\":\"1\"},{\"key\":\"a\",\"value\":null}]}\n"
        );
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
