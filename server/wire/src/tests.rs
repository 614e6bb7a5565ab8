//! Tests of the codec as a whole.

mod golden;
mod hostile;
pub(crate) mod json;

use alloc::vec::Vec;

/// A row of `tests/golden.tsv`: what Kafka 4.4's own serializers make of a message.
pub(crate) struct Golden {
    /// The line of the file, from 1.
    pub line: usize,
    pub name: &'static str,
    pub version: i16,
    pub json: &'static str,
    pub bytes: Vec<u8>,
}

/// All rows. Five for every message and version.
pub(crate) fn golden_rows() -> impl Iterator<Item = Golden> {
    include_str!("../tests/golden.tsv").lines().enumerate().map(|(index, line)| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap();
        let (name, version, json, hex) = (next(), next(), next(), next());
        let digits = hex.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).unwrap());
        let bytes = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        Golden { line: index + 1, name, version: version.parse().unwrap(), json, bytes }
    })
}
