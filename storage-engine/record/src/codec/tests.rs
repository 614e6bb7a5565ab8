use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn written(write: impl Fn(&mut Writer<&mut dyn Sink>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    let mut counter = Counter::default();
    write(&mut Writer::new(&mut counter));
    assert_eq!(counter.bytes, bytes.len());
    bytes
}

#[test]
fn varints_have_kafkas_bytes() {
    let check = |value: i64, expected: &[u8]| {
        assert_eq!(written(|writer| writer.varlong(value)), expected);
        assert_eq!(Reader::new(expected).varlong(), Ok(value));
        assert_eq!(size::varlong(value), expected.len());
        if let Ok(value) = i32::try_from(value) {
            assert_eq!(written(|writer| writer.varint(value)), expected);
            assert_eq!(Reader::new(expected).varint(), Ok(value));
            assert_eq!(size::varint(value), expected.len());
        }
    };
    check(0, &[0]);
    check(-1, &[1]);
    check(1, &[2]);
    check(63, &[0x7e]);
    check(-64, &[0x7f]);
    check(64, &[0x80, 0x01]);
    check(-65, &[0x81, 0x01]);
    check(8191, &[0xfe, 0x7f]);
    check(i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]);
    check(i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]);
    check(i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    check(i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
}

#[test]
fn varints_past_their_width_are_refused() {
    let overlong = |what, bytes_max| Err(DecodeError::Overlong { what, at: 0, bytes_max });
    let too_long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
    assert_eq!(Reader::new(&too_long).uvarint(), overlong("uvarint", 5));
    // Five bytes hold 35 bits; the upper three must be clear.
    let too_wide = [0xff, 0xff, 0xff, 0xff, 0x1f];
    assert_eq!(Reader::new(&too_wide).uvarint(), overlong("uvarint", 5));
    assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint(), Ok(u32::MAX));
    let mut ten = [0xff; 10];
    ten[9] = 0x02;
    assert_eq!(Reader::new(&ten).uvarlong().map_err(|_| ()), Err(()));
    ten[9] = 0x01;
    assert_eq!(Reader::new(&ten).uvarlong(), Ok(u64::MAX));
    let overlong = DecodeError::Overlong { what: "varlong", at: 0, bytes_max: 10 };
    assert_eq!(Reader::new(&[0xff; 32]).varlong(), Err(overlong));
    // Zero groups inside the width are padding.
    assert_eq!(Reader::new(&[0x81, 0x80, 0x00]).uvarint(), Ok(1));
    for len in 0..5 {
        let result = Reader::new(&too_long[..len]).uvarint();
        let what = "uvarint";
        let expected = DecodeError::Truncated { what, at: 0, needed: len + 1, left: len };
        assert_eq!(result, Err(expected), "{len}");
    }
}

#[test]
fn lengths_beyond_the_bytes_that_remain_are_refused() {
    let truncated = |what, at, needed, left| DecodeError::Truncated { what, at, needed, left };
    let classic = [0x7f, 0xff, b'a'];
    assert_eq!(Reader::new(&classic).string(), Err(truncated("string", 2, 32767, 1)));
    let compact = [0xff, 0xff, 0xff, 0xff, 0x0f, b'a'];
    let expected = truncated("bytes", 5, 0xffff_fffe, 1);
    assert_eq!(Reader::new(&compact).compact_bytes(), Err(expected));
    let mut array = vec![0x7f, 0xff, 0xff, 0xff];
    array.extend_from_slice(&[0; 20]);
    let count = i32::MAX as usize;
    let too_many = |element_bytes_min| {
        let (what, at, left) = ("array", 0, 20);
        DecodeError::TooMany { what, at, count, element_bytes_min, left }
    };
    assert_eq!(Reader::new(&array).array_len(4), Err(too_many(4)));
    // An element of no bytes would let any count through.
    assert_eq!(Reader::new(&array).array_len(0), Err(too_many(1)));
    array[..4].copy_from_slice(&5_i32.to_be_bytes());
    assert_eq!(Reader::new(&array).array_len(4), Ok(5));
    assert!(Reader::new(&array).array_len(5).is_err());
}

#[test]
fn null_is_a_value_only_where_it_may_be_one() {
    let null = |what| DecodeError::Null { what, at: 0 };
    assert_eq!(Reader::new(&[0xff, 0xff]).nullable_string(), Ok(None));
    assert_eq!(Reader::new(&[0xff, 0xff]).string(), Err(null("string")));
    assert_eq!(Reader::new(&[0]).compact_nullable_string(), Ok(None));
    assert_eq!(Reader::new(&[0]).compact_string(), Err(null("string")));
    assert_eq!(Reader::new(&[0xff; 4]).nullable_bytes(), Ok(None));
    assert_eq!(Reader::new(&[0xff; 4]).bytes(), Err(null("bytes")));
    assert_eq!(Reader::new(&[0]).compact_nullable_bytes(), Ok(None));
    assert_eq!(Reader::new(&[0]).compact_bytes(), Err(null("bytes")));
    assert_eq!(Reader::new(&[0xff; 4]).nullable_array_len(1), Ok(None));
    assert_eq!(Reader::new(&[0xff; 4]).array_len(1), Err(null("array")));
    assert_eq!(Reader::new(&[0]).compact_nullable_array_len(1), Ok(None));
    assert_eq!(Reader::new(&[0]).compact_array_len(1), Err(null("array")));
    let negative = DecodeError::Negative { what: "string", at: 0, length: -2 };
    assert_eq!(Reader::new(&[0xff, 0xfe]).nullable_string(), Err(negative));
    assert_eq!(Reader::new(&[1]).varint_bytes_nullable(), Ok(None));
    let negative = DecodeError::Negative { what: "bytes", at: 0, length: -2 };
    assert_eq!(Reader::new(&[3]).varint_bytes_nullable(), Err(negative));
}

#[test]
fn strings_must_be_utf8() {
    let error = DecodeError::NotUtf8 { what: "string", at: 2, valid_bytes: 1 };
    assert_eq!(Reader::new(&[0, 2, b'a', 0xff]).string(), Err(error));
}

#[test]
fn tagged_fields_are_walked_and_skipped_within_bounds() {
    let bytes = written(|writer| {
        writer.uvarint(2);
        writer.tagged_field(1, 4);
        writer.i32(7);
        writer.tagged_field(300, 2);
        writer.raw(b"xy");
        writer.i8(9);
    });
    let mut reader = Reader::new(&bytes);
    let mut seen = Vec::new();
    reader
        .tagged_fields(|tag, field| {
            let at = field.position();
            seen.push((tag, at, field.take(field.remaining())?.to_vec()));
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, [(1, 3, vec![0, 0, 0, 7]), (300, 10, b"xy".to_vec())]);
    assert_eq!(reader.i8(), Ok(9));
    assert_eq!(reader.finish(), Ok(()));
    let mut reader = Reader::new(&bytes);
    reader.skip_tagged_fields().unwrap();
    assert_eq!(reader.remaining(), 1);
    assert_eq!(reader.finish(), Err(DecodeError::Trailing { at: 12, left: 1 }));
    for len in 0..bytes.len() - 1 {
        assert!(Reader::new(&bytes[..len]).skip_tagged_fields().is_err(), "{len}");
    }
    // A count that the bytes cannot hold is refused before the first field.
    let many = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    assert!(matches!(
        Reader::new(&many).skip_tagged_fields(),
        Err(DecodeError::TooMany { left: 2, .. })
    ));
}

#[test]
fn sub_readers_keep_counting_positions() {
    let bytes = [1, 2, 3, 4, 5];
    let mut reader = Reader::new(&bytes);
    reader.i8().unwrap();
    let mut sub = reader.sub_reader(2).unwrap();
    sub.i8().unwrap();
    assert_eq!((sub.position(), sub.remaining()), (2, 1));
    assert_eq!((reader.position(), reader.remaining()), (3, 2));
    assert!(reader.sub_reader(3).is_err());
    assert_eq!(reader.rest(), [4, 5]);
}

proptest! {
    #[test]
    fn every_primitive_round_trips_and_has_the_promised_size(
        small in any::<(bool, i8, i16, i32, i64, u16, u32)>(),
        float in any::<f64>(),
        uuid in any::<[u8; 16]>(),
        long in any::<u64>(),
        text in any::<Option<String>>(),
        blob in any::<Option<Vec<u8>>>(),
    ) {
        let (boolean, i8, i16, i32, i64, u16, u32) = small;
        let bytes = written(|writer| {
            writer.bool(boolean);
            writer.i8(i8);
            writer.i16(i16);
            writer.i32(i32);
            writer.i64(i64);
            writer.u16(u16);
            writer.u32(u32);
            writer.f64(float);
            writer.uuid(&uuid);
            writer.uvarint(u32);
            writer.uvarlong(long);
            writer.varint(i32);
            writer.varlong(i64);
            writer.nullable_string(text.as_deref());
            writer.compact_nullable_string(text.as_deref());
            writer.nullable_bytes(blob.as_deref());
            writer.compact_nullable_bytes(blob.as_deref());
            writer.array_len(Some(1));
            writer.compact_array_len(Some(1));
            writer.no_tagged_fields();
        });
        let promised = 1 + 1 + 2 + 4 + 8 + 2 + 4 + 8 + 16
            + size::uvarint(u32) + size::uvarlong(long) + size::varint(i32) + size::varlong(i64)
            + size::string(text.as_deref()) + size::compact_string(text.as_deref())
            + size::bytes(blob.as_deref()) + size::compact_bytes(blob.as_deref())
            + 4 + size::compact_array_len(Some(1)) + 1;
        prop_assert_eq!(bytes.len(), promised);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.bool(), Ok(boolean));
        prop_assert_eq!(reader.i8(), Ok(i8));
        prop_assert_eq!(reader.i16(), Ok(i16));
        prop_assert_eq!(reader.i32(), Ok(i32));
        prop_assert_eq!(reader.i64(), Ok(i64));
        prop_assert_eq!(reader.u16(), Ok(u16));
        prop_assert_eq!(reader.u32(), Ok(u32));
        prop_assert_eq!(reader.f64().map(f64::to_bits), Ok(float.to_bits()));
        prop_assert_eq!(reader.uuid(), Ok(uuid));
        prop_assert_eq!(reader.uvarint(), Ok(u32));
        prop_assert_eq!(reader.uvarlong(), Ok(long));
        prop_assert_eq!(reader.varint(), Ok(i32));
        prop_assert_eq!(reader.varlong(), Ok(i64));
        prop_assert_eq!(reader.nullable_string(), Ok(text.as_deref()));
        prop_assert_eq!(reader.compact_nullable_string(), Ok(text.as_deref()));
        prop_assert_eq!(reader.nullable_bytes(), Ok(blob.as_deref()));
        prop_assert_eq!(reader.compact_nullable_bytes(), Ok(blob.as_deref()));
        prop_assert_eq!(reader.array_len(1), Ok(1));
        prop_assert_eq!(reader.compact_array_len(1), Ok(1));
        prop_assert_eq!(reader.skip_tagged_fields(), Ok(()));
        prop_assert_eq!(reader.finish(), Ok(()));
    }
}
