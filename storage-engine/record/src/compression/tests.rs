use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::{Batches, Found};

const OUTPUT_MAX: usize = 16 * 1024 * 1024;
const COMPRESSING: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn compressed(codec: Codec, input: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    compress(codec, input, &mut output);
    output
}

fn decompressed(codec: Codec, input: &[u8]) -> Result<Vec<u8>, DecompressError> {
    decompress(codec, input, OUTPUT_MAX, &mut Workspace::new())
}

fn text() -> Vec<u8> {
    let line = |index| format!("{index:06} the quick brown fox jumps over the lazy dog\n");
    (0..4000).map(line).collect::<String>().into_bytes()
}

/// Bytes that no codec can shrink, and that are the same in every run.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn every_codec_gives_back_what_it_took() {
    let inputs = [
        vec![],
        vec![7],
        text(),
        noise(200_000),
        vec![0; 3_000_000],
        [text(), noise(70_000)].concat(),
    ];
    for codec in Codec::ALL {
        for input in &inputs {
            let output = decompressed(codec, &compressed(codec, input));
            assert!(
                output.as_ref() == Ok(input),
                "{codec}, {} bytes: {:?}",
                input.len(),
                output.err()
            );
        }
    }
}

#[test]
fn streams_back_to_back_are_one_output() {
    for codec in COMPRESSING {
        let two = [compressed(codec, b"one, "), compressed(codec, b"two")].concat();
        assert_eq!(decompressed(codec, &two).as_deref(), Ok(&b"one, two"[..]), "{codec}");
    }
}

#[test]
fn what_clients_wrote_is_read() {
    let fixtures: [(&str, &[u8]); 8] = [
        ("java gzip", include_bytes!("../../tests/fixtures/java-gzip-large.log")),
        ("java snappy", include_bytes!("../../tests/fixtures/java-snappy-large.log")),
        ("java lz4", include_bytes!("../../tests/fixtures/java-lz4-large.log")),
        ("java zstd", include_bytes!("../../tests/fixtures/java-zstd-large.log")),
        ("librdkafka gzip", include_bytes!("../../tests/fixtures/librdkafka-gzip-large.log")),
        ("librdkafka snappy", include_bytes!("../../tests/fixtures/librdkafka-snappy-large.log")),
        ("librdkafka lz4", include_bytes!("../../tests/fixtures/librdkafka-lz4-large.log")),
        ("librdkafka zstd", include_bytes!("../../tests/fixtures/librdkafka-zstd-large.log")),
    ];
    let values: String =
        (0..250).map(|index| format!("{index:04} {}", "0123456789".repeat(40))).collect();
    for (name, file) in fixtures {
        let mut output = Vec::new();
        for (_, found) in Batches::new(file) {
            let Found::Whole(view) = found else { panic!("{name}: {found:?}") };
            let codec = view.header().codec().unwrap();
            assert!(name.ends_with(codec.name()), "{name}");
            output.extend(decompressed(codec, view.record_bytes()).unwrap());
        }
        // Between the values lie a few bytes of framing each.
        let mut rest = output.as_slice();
        for value in values.as_bytes().chunks(405) {
            let at = rest.windows(405).take(64).position(|window| window == value);
            rest = &rest[at.unwrap_or_else(|| panic!("{name}: value missing")) + 405..];
        }
        assert!(rest.len() < 32, "{name}");
    }
}

#[test]
fn lz4_frames_of_the_reference_library_are_read() {
    let linked = include_bytes!("../../tests/fixtures/linked-checksums.lz4");
    let independent = include_bytes!("../../tests/fixtures/independent-4mib.lz4");
    assert!(decompressed(Codec::Lz4, linked) == Ok(text()));
    assert!(decompressed(Codec::Lz4, independent) == Ok(text()));
    // A skippable frame between two others.
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let three = [linked.as_slice(), &skippable, independent].concat();
    assert!(decompressed(Codec::Lz4, &three) == Ok([text(), text()].concat()));
    // Every bit of a frame with all checksums is covered by one of them or by the framing.
    let bits = linked.len() * 8;
    for bit in (0..512).chain((512..bits).step_by(101)).chain(bits - 128..bits) {
        let mut damaged = linked.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let output = decompressed(Codec::Lz4, &damaged);
        assert!(output.is_err(), "bit {bit}");
    }
}

#[test]
fn snappy_is_read_raw_and_with_long_distances() {
    let encode = |input: &[u8]| snap::raw::Encoder::new().compress_vec(input).unwrap();
    for input in [vec![], vec![7], text(), noise(200_000), vec![0; 3_000_000]] {
        assert!(decompressed(Codec::Snappy, &encode(&input)) == Ok(input));
    }
    // "abcdefgh", 100,000 bytes of noise, then a copy of 8 from 100,008 bytes back: S2 writes such distances.
    let mut block = vec![0xb0, 0x8d, 0x06];
    block.extend_from_slice(&[7 << 2]);
    block.extend_from_slice(b"abcdefgh");
    block.extend_from_slice(&[62 << 2, 0x9f, 0x86, 0x01]);
    block.extend_from_slice(&noise(100_000));
    block.extend_from_slice(&[7 << 2 | 3, 0xa8, 0x86, 0x01, 0x00]);
    let expected = [b"abcdefgh".as_slice(), &noise(100_000), b"abcdefgh"].concat();
    assert_eq!(expected.len(), 100_016);
    assert!(decompressed(Codec::Snappy, &block) == Ok(expected));
}

#[test]
fn gzip_headers_with_every_optional_part_are_read() {
    let plain = compressed(Codec::Gzip, b"hello");
    let mut member = vec![0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 0, 3];
    member.extend_from_slice(&[2, 0, b'x', b'y']);
    member.extend_from_slice(b"name\0comment\0");
    let crc = crc_fast::crc32_iso_hdlc(&member).to_le_bytes();
    member.extend_from_slice(&crc[..2]);
    member.extend_from_slice(&plain[10..]);
    assert_eq!(decompressed(Codec::Gzip, &member).as_deref(), Ok(&b"hello"[..]));
    member[14] ^= 1;
    let checksum = decompressed(Codec::Gzip, &member);
    assert!(matches!(checksum, Err(DecompressError::Checksum { what: "header checksum", .. })));
    for (at, value, what) in [(0, 0, "magic"), (2, 7, "method"), (3, 0x20, "flags")] {
        let mut member = plain.clone();
        member[at] = value;
        let expected = DecompressError::malformed(Codec::Gzip, 0, what);
        assert_eq!(decompressed(Codec::Gzip, &member), Err(expected));
    }
}

#[test]
fn every_truncation_is_refused() {
    for codec in COMPRESSING {
        let whole = compressed(codec, &text()[..3000]);
        for len in 1..whole.len() {
            // Xerial has no end mark: its header alone is an empty stream.
            if codec == Codec::Snappy && len == 16 {
                continue;
            }
            let error = decompressed(codec, &whole[..len]).unwrap_err();
            let truncated = matches!(error, DecompressError::Truncated { .. });
            // Shorter than its magic, a snappy stream is taken for a raw block.
            assert!(truncated || (codec == Codec::Snappy && len < 8), "{codec} {len}: {error}");
        }
    }
}

#[test]
fn flipped_bits_are_refused_or_give_bounded_output() {
    for codec in COMPRESSING {
        let input = &text()[..2000];
        let whole = compressed(codec, input);
        let mut workspace = Workspace::new();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let output = decompress(codec, &damaged, 1 << 20, &mut workspace);
            // gzip has a checksum: only bits without meaning (header, padding of deflate) may pass.
            if codec == Codec::Gzip {
                assert!(output.is_err() || output.as_deref() == Ok(input), "{bit}");
            }
        }
    }
}

/// One GiB of zeros in a form that repeats.
fn bomb(codec: Codec) -> Vec<u8> {
    let mebibyte = compressed(codec, &vec![0; 1 << 20]);
    mebibyte.repeat(1 << 10)
}

#[test]
fn bombs_end_at_the_bound_and_leave_the_memory_small() {
    for codec in COMPRESSING {
        let bomb = bomb(codec);
        let mut workspace = Workspace::new();
        let output_bytes_max = 64 << 20;
        let mut decoder = Decoder::new(codec, &bomb, output_bytes_max, &mut workspace).unwrap();
        let error = loop {
            match decoder.produce(&mut workspace, 16 * 1024) {
                Ok(Progress::Produced(bytes)) => workspace.window.consume(bytes),
                Ok(Progress::End) => panic!("{codec}: the bound was not met"),
                Err(error) => break error,
            }
            let memory = workspace.window.buffer_bytes();
            assert!(memory <= 512 << 10, "{codec}: {memory} bytes");
        };
        assert_eq!(error, DecompressError::OutputBound { codec, output_bytes_max });
    }
}

/// A frame that declares a window of `log` bits: one raw block, and many of a repeated byte, each four bytes for 128 KiB.
fn frame_of_window(log: u8, blocks: usize) -> Vec<u8> {
    // Magic; no content size, no checksum, no single segment; the window's exponent above 10, no mantissa.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3];
    let mut block = |kind: u32, size: u32, is_last: bool, content: &[u8]| {
        let head = (size << 3) | (kind << 1) | u32::from(is_last);
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    };
    block(0, 1, false, b"r");
    for index in 1..=blocks {
        block(1, 128 << 10, index == blocks, &[0]);
    }
    frame
}

/// Decodes all of `input` without keeping output; returns its length and the most memory that zstd held.
fn peak(input: &[u8], workspace: &mut Workspace) -> Result<(usize, usize), DecompressError> {
    let mut decoder = Decoder::new(Codec::Zstd, input, 1 << 30, workspace)?;
    let (mut output_bytes, mut peak) = (0, 0);
    while let Progress::Produced(bytes) = decoder.produce(workspace, 64 << 10)? {
        workspace.window.consume(bytes);
        output_bytes += bytes;
        peak = peak.max(workspace.zstd_bytes());
    }
    Ok((output_bytes, peak))
}

#[test]
fn a_window_is_as_large_as_is_allowed_and_its_memory_goes_again() {
    let (ordinary, large) = (frame_of_window(23, 100), frame_of_window(27, 1100));
    assert!(large.len() < 5000);
    let mut workspace = Workspace::new();
    let (output_bytes, held) = peak(&ordinary, &mut workspace).unwrap();
    assert_eq!(output_bytes, 1 + 100 * (128 << 10));
    assert!((8 << 20..9 << 20).contains(&held), "{held}");
    // A frame that asks for more is not begun, wherever it comes, and takes nothing.
    let refused = |at| Err(DecompressError::LargeWindow { codec: Codec::Zstd, at });
    assert_eq!(peak(&large, &mut Workspace::new()), refused(0));
    let behind = [ordinary.clone(), large.clone()].concat();
    assert!(matches!(
        peak(&behind, &mut workspace),
        Err(DecompressError::LargeWindow { codec: Codec::Zstd, .. })
    ));
    assert!(workspace.zstd_bytes() < 9 << 20, "{}", workspace.zstd_bytes());
    workspace.shed();
    assert!(workspace.zstd_bytes() > 8 << 20, "an ordinary window is kept");
    workspace.allow(Windows::Large);
    let (output_bytes, held) = peak(&large, &mut workspace).unwrap();
    assert_eq!(output_bytes, 1 + 1100 * (128 << 10));
    assert!(held > 128 << 20, "{held}");
    workspace.shed();
    assert_eq!(workspace.zstd_bytes(), 0);
    assert_eq!(peak(&large, &mut workspace), refused(0));
    // Beyond what anybody allows.
    workspace.allow(Windows::Large);
    let malformed = peak(&frame_of_window(28, 1), &mut workspace);
    assert!(matches!(malformed, Err(DecompressError::Malformed { .. })), "{malformed:?}");
}

#[test]
fn the_bound_itself_is_allowed() {
    for codec in Codec::ALL {
        let input = compressed(codec, &[9; 1000]);
        let mut workspace = Workspace::new();
        assert_eq!(decompress(codec, &input, 1000, &mut workspace).unwrap(), [9; 1000]);
        let error = DecompressError::OutputBound { codec, output_bytes_max: 999 };
        assert_eq!(decompress(codec, &input, 999, &mut workspace), Err(error));
    }
}

proptest! {
    #[test]
    fn any_input_round_trips(
        pieces in prop::collection::vec((any::<u8>(), 1_usize..3000, any::<bool>()), 0..40),
    ) {
        let mut input = Vec::new();
        for (byte, len, random) in pieces {
            if random { input.extend(noise(len)) } else { input.extend(vec![byte; len]) }
        }
        for codec in Codec::ALL {
            prop_assert!(decompressed(codec, &compressed(codec, &input)).as_ref() == Ok(&input));
        }
        let raw = snap::raw::Encoder::new().compress_vec(&input).unwrap();
        prop_assert!(decompressed(Codec::Snappy, &raw) == Ok(input));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600),
        start in 0_usize..6,
    ) {
        let heads: [&[u8]; 6] = [
            b"", b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01",
            b"\x04\x22\x4d\x18\x60\x40\x82", b"\x04\x22\x4d\x18\x40\x40\xc0", b"\x28\xb5\x2f\xfd",
        ];
        bytes.splice(0..0, heads[start].iter().copied());
        for codec in Codec::ALL {
            if let Ok(output) = decompress(codec, &bytes, 1 << 16, &mut Workspace::new()) {
                prop_assert!(output.len() <= 1 << 16);
            }
        }
    }
}
