//! The encoders, for tools, tests and benches: a broker keeps its producers' bytes.
//!
//! Owns the framings the Java client writes: xerial chunks of 32 KiB, LZ4 frames of independent 64 KiB blocks. Input is
//! trusted to be smaller than 2 GiB; nothing here can fail.

use alloc::vec;
use alloc::vec::Vec;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::Codec;
use super::lz4::MAGIC;
use super::xxh32::Xxh32;

const XERIAL_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const XERIAL_CHUNK_BYTES: usize = 32 * 1024;
const LZ4_BLOCK_BYTES: usize = 64 * 1024;
/// Version 1, independent blocks; 64 KiB at most.
const LZ4_DESCRIPTOR: [u8; 2] = [0x60, 0x40];
/// zstd's own default, as Kafka's.
const ZSTD_LEVEL: i32 = 3;
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Compresses `input` and appends it to `output`.
pub fn compress(codec: Codec, input: &[u8], output: &mut Vec<u8>) {
    match codec {
        Codec::None => output.extend_from_slice(input),
        Codec::Gzip => gzip(input, output),
        Codec::Snappy => snappy(input, output),
        Codec::Lz4 => lz4(input, output),
        Codec::Zstd => zstd(input, output),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the trailer counts modulo 2^32")]
fn gzip(input: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&GZIP_HEADER);
    let mut deflate = Compress::new(Compression::default(), false);
    let mut rest = input;
    let mut chunk = vec![0; XERIAL_CHUNK_BYTES];
    loop {
        let (in_before, out_before) = (deflate.total_in(), deflate.total_out());
        let status = deflate
            .compress(rest, &mut chunk, FlushCompress::Finish)
            .expect("deflate takes any input");
        let consumed = (deflate.total_in() - in_before) as usize;
        let produced = (deflate.total_out() - out_before) as usize;
        rest = &rest[consumed..];
        output.extend_from_slice(&chunk[..produced]);
        if status == Status::StreamEnd {
            break;
        }
        assert!(consumed > 0 || produced > 0, "deflate makes progress");
    }
    output.extend_from_slice(&crc_fast::crc32_iso_hdlc(input).to_le_bytes());
    output.extend_from_slice(&(input.len() as u32).to_le_bytes());
}

fn snappy(input: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(XERIAL_HEADER);
    let mut encoder = snap::raw::Encoder::new();
    let mut block = vec![0; snap::raw::max_compress_len(XERIAL_CHUNK_BYTES)];
    for chunk in input.chunks(XERIAL_CHUNK_BYTES) {
        let len = encoder.compress(chunk, &mut block).expect("the block holds the worst case");
        output.extend_from_slice(&block_len(len).to_be_bytes());
        output.extend_from_slice(&block[..len]);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the second byte of the hash")]
fn lz4(input: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&MAGIC.to_le_bytes());
    output.extend_from_slice(&LZ4_DESCRIPTOR);
    output.push((Xxh32::hash(&LZ4_DESCRIPTOR) >> 8) as u8);
    let mut block = vec![0; lz4_flex::block::get_maximum_output_size(LZ4_BLOCK_BYTES)];
    for chunk in input.chunks(LZ4_BLOCK_BYTES) {
        let len = lz4_flex::block::compress_into(chunk, &mut block)
            .expect("the block holds the worst case");
        if len < chunk.len() {
            output.extend_from_slice(&block_len(len).to_le_bytes());
            output.extend_from_slice(&block[..len]);
        } else {
            output.extend_from_slice(&(block_len(chunk.len()) | 1 << 31).to_le_bytes());
            output.extend_from_slice(chunk);
        }
    }
    output.extend_from_slice(&[0; 4]);
}

fn zstd(input: &[u8], output: &mut Vec<u8>) {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(input.len()));
    zstd_safe::compress(&mut frame, input, ZSTD_LEVEL).expect("the frame holds the worst case");
    output.extend_from_slice(&frame);
}

fn block_len(len: usize) -> u32 {
    u32::try_from(len).expect("a block is at most 64 KiB and its overhead")
}
