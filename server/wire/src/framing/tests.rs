use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::*;

const POOL_BYTES: usize = 64 << 20;

fn decoder() -> (FrameDecoder, BufferPool) {
    (FrameDecoder::new(FrameLimits::default()), BufferPool::new(POOL_BYTES))
}

fn framed(content: &[u8]) -> Vec<u8> {
    let size = i32::try_from(content.len()).unwrap();
    [&size.to_be_bytes(), content].concat()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// Gives the decoder up to `read_bytes` of the stream, as a socket would.
fn read(
    decoder: &mut FrameDecoder,
    pool: &mut BufferPool,
    stream: &mut &[u8],
    read_bytes: usize,
) -> Range<usize> {
    let spare = decoder.spare_mut(pool);
    assert!(!spare.is_empty());
    let count = spare.len().min(stream.len()).min(read_bytes);
    spare[..count].copy_from_slice(&stream[..count]);
    let start = spare.as_ptr().addr();
    *stream = &stream[count..];
    decoder.filled(count);
    start..start + count
}

/// All frames of a stream, read in steps of `read_bytes`.
fn frames(stream: &[u8], read_bytes: usize) -> Result<Vec<Bytes>, FrameError> {
    let (mut decoder, mut pool) = decoder();
    let mut stream = stream;
    let mut frames = Vec::new();
    while !stream.is_empty() {
        read(&mut decoder, &mut pool, &mut stream, read_bytes);
        while let Some(frame) = decoder.next_frame(&mut pool)? {
            frames.push(frame);
        }
    }
    assert_eq!(decoder.pending_bytes(), 0);
    Ok(frames)
}

#[test]
fn frames_of_all_sizes_come_whole_whatever_the_reads_bring() {
    let sizes = [0, 1, 3, 4095, 4096, 4097, 16 << 10, 70_000, 300_000, 1 << 20, 5, 9];
    let contents: Vec<_> = sizes.iter().map(|size| pattern(*size)).collect();
    let stream: Vec<u8> = contents.iter().flat_map(|content| framed(content)).collect();
    for read_bytes in [1, 7, 4096, 10_000, usize::MAX] {
        assert!(frames(&stream, read_bytes).unwrap().iter().eq(contents.iter()), "{read_bytes}");
    }
}

proptest! {
    #[test]
    fn any_cutting_of_any_frames_gives_the_frames(
        sizes in prop::collection::vec(prop_oneof![0_usize..200, 0_usize..20_000, 0_usize..400_000], 0..12),
        reads in prop::collection::vec(1_usize..200_000, 1..20),
    ) {
        let contents: Vec<_> = sizes.iter().map(|size| pattern(*size)).collect();
        let stream: Vec<u8> = contents.iter().flat_map(|content| framed(content)).collect();
        let (mut decoder, mut pool) = decoder();
        let mut rest = &stream[..];
        let mut got = Vec::new();
        for read_bytes in reads.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            read(&mut decoder, &mut pool, &mut rest, *read_bytes);
            while let Some(frame) = decoder.next_frame(&mut pool).unwrap() {
                got.push(frame);
            }
            decoder.rest(&mut pool);
        }
        prop_assert!(got.iter().eq(contents.iter()));
        prop_assert_eq!(decoder.pending_bytes(), 0);
    }
}

#[test]
fn sizes_out_of_bounds_and_other_protocols_are_refused_by_four_bytes() {
    let check = |first: &[u8; 4], expected: FrameError| {
        let (mut decoder, mut pool) = decoder();
        read(&mut decoder, &mut pool, &mut &first[..], 3);
        assert_eq!(decoder.next_frame(&mut pool), Ok(None));
        read(&mut decoder, &mut pool, &mut &first[3..], 1);
        for _ in 0..2 {
            assert_eq!(decoder.next_frame(&mut pool), Err(expected));
        }
        assert_eq!(decoder.buffer.bytes().len(), READ_BYTES_MIN);
    };
    check(&(-1_i32).to_be_bytes(), FrameError::Negative { size: -1 });
    check(&i32::MIN.to_be_bytes(), FrameError::Negative { size: i32::MIN });
    let bytes_max = 100 << 20;
    check(&[6, 0x40, 0, 1], FrameError::TooLarge { bytes: bytes_max + 1, bytes_max });
    check(&i32::MAX.to_be_bytes(), FrameError::TooLarge { bytes: 0x7fff_ffff, bytes_max });
    check(&[0x16, 0x03, 0x01, 0x02], FrameError::Tls);
    for start in [b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI "] {
        check(start, FrameError::Http);
    }
}

#[test]
fn tls_is_known_even_where_its_first_bytes_could_be_a_size() {
    let limits = FrameLimits { frame_bytes_max: 0x7fff_ffff };
    let mut pool = BufferPool::new(POOL_BYTES);
    let mut decoder = FrameDecoder::new(limits);
    read(&mut decoder, &mut pool, &mut &[0x16, 0x03, 0x01, 0x02][..], 4);
    assert_eq!(decoder.next_frame(&mut pool), Err(FrameError::Tls));
}

#[test]
fn a_frame_at_the_limit_passes_and_one_byte_more_does_not() {
    let limits = FrameLimits { frame_bytes_max: 5000 };
    let check = |len: usize, expected: Result<usize, FrameError>| {
        let mut pool = BufferPool::new(POOL_BYTES);
        let mut decoder = FrameDecoder::new(limits);
        let stream = framed(&pattern(len));
        let mut rest = &stream[..];
        let got = loop {
            read(&mut decoder, &mut pool, &mut rest, usize::MAX);
            match decoder.next_frame(&mut pool) {
                Ok(None) => {}
                Ok(Some(frame)) => break Ok(frame.len()),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(got, expected);
    };
    check(5000, Ok(5000));
    check(5001, Err(FrameError::TooLarge { bytes: 5001, bytes_max: 5000 }));
}

#[test]
fn memory_follows_what_arrives_not_what_is_claimed() {
    let (mut decoder, mut pool) = decoder();
    let claimed = 99 << 20;
    let mut arrived = 4;
    read(&mut decoder, &mut pool, &mut &i32::to_be_bytes(claimed)[..], 4);
    assert_eq!(decoder.next_frame(&mut pool), Ok(None));
    while arrived < 3_000_000 {
        let count = read(&mut decoder, &mut pool, &mut &vec![0; 9973][..], usize::MAX).len();
        assert_eq!(decoder.next_frame(&mut pool), Ok(None));
        let memory = decoder.buffer.bytes().len();
        // A new buffer is rounded up to 64 KiB at most.
        let bound = (arrived * TRUST_FACTOR).max(READ_BYTES_MAX) + (64 << 10);
        assert!(memory <= bound, "{memory} bytes for {arrived}");
        arrived += count;
    }
    assert_eq!(decoder.pending_bytes(), arrived);
}

#[test]
fn a_trickle_behind_a_large_claim_costs_a_small_buffer() {
    let (mut decoder, mut pool) = decoder();
    read(&mut decoder, &mut pool, &mut &i32::to_be_bytes(99 << 20)[..], 4);
    for _ in 0..4000 {
        assert_eq!(decoder.next_frame(&mut pool), Ok(None));
        read(&mut decoder, &mut pool, &mut &[0][..], 1);
    }
    assert_eq!(decoder.buffer.bytes().len(), TRUST_BYTES_MIN);
}

/// Reads one frame; gives it and the addresses that its bytes were read to.
fn read_frame(
    decoder: &mut FrameDecoder,
    pool: &mut BufferPool,
    content: &[u8],
) -> (Bytes, Vec<Range<usize>>) {
    let stream = framed(content);
    let mut rest = &stream[..];
    let mut reads = Vec::new();
    loop {
        reads.push(read(decoder, pool, &mut rest, usize::MAX));
        if let Some(frame) = decoder.next_frame(pool).unwrap() {
            assert_eq!(frame, content);
            return (frame, reads);
        }
    }
}

#[test]
fn large_frames_lie_where_they_were_read_and_their_memory_comes_back() {
    let (mut decoder, mut pool) = decoder();
    let content = pattern(1 << 20);
    let mut buffers = Vec::new();
    for _ in 0..20 {
        let (frame, reads) = read_frame(&mut decoder, &mut pool, &content);
        let frame = frame.as_ptr_range();
        let last = reads.last().unwrap();
        assert!(frame.start.addr() <= last.start && last.end <= frame.end.addr());
        buffers.push(frame.start.addr());
    }
    // After the first rounds the same buffer serves again and again.
    let settled = &buffers[4..];
    assert!(settled.iter().all(|buffer| buffer == &settled[0]), "{buffers:x?}");
}

#[test]
fn a_frame_in_use_is_never_overwritten() {
    let (mut decoder, mut pool) = decoder();
    let mut kept = Vec::new();
    for round in 0..40_u8 {
        let content = vec![round; 100_000 + usize::from(round) * 1000];
        kept.push((round, read_frame(&mut decoder, &mut pool, &content).0));
        if kept.len() > 3 {
            kept.remove(usize::from(round) % 3);
        }
        for (round, frame) in &kept {
            assert!(frame.iter().all(|byte| byte == round));
        }
    }
}

#[test]
fn the_read_of_a_large_frame_stops_at_its_end() {
    let (mut decoder, mut pool) = decoder();
    let frame = framed(&pattern(1 << 20));
    let stream = [&frame[..], &frame[..]].concat();
    let mut rest = &stream[..];
    while decoder.next_frame(&mut pool).unwrap().is_none() {
        read(&mut decoder, &mut pool, &mut rest, usize::MAX);
    }
    assert_eq!(decoder.pending_bytes(), 0);
}

#[test]
fn small_frames_do_not_pin_the_read_buffer() {
    let (mut decoder, mut pool) = decoder();
    let (kept, _) = read_frame(&mut decoder, &mut pool, &pattern(100));
    assert!(kept.is_unique());
    assert!(matches!(decoder.buffer, Buffer::Own(_)));
}

#[test]
fn the_read_buffer_grows_with_traffic_and_shrinks_with_quiet() {
    let (mut decoder, mut pool) = decoder();
    let stream: Vec<u8> = (0..20_000).flat_map(|_| framed(&pattern(100))).collect();
    let mut rest = &stream[..];
    while !rest.is_empty() {
        read(&mut decoder, &mut pool, &mut rest, usize::MAX);
        while decoder.next_frame(&mut pool).unwrap().is_some() {}
    }
    assert_eq!(decoder.read_bytes, READ_BYTES_MAX);
    for _ in 0..200 {
        read_frame(&mut decoder, &mut pool, &pattern(100));
    }
    assert_eq!(decoder.read_bytes, READ_BYTES_MIN);
    assert!(decoder.buffer.bytes().len() <= READ_BYTES_MIN * 4);
}

#[test]
fn decoders_that_wait_for_a_frame_share_buffers_and_one_that_waits_for_the_rest_keeps_its_own() {
    let (mut decoder, mut pool) = decoder();
    let mut places = Vec::new();
    for size in [100, 3000, 20] {
        let (_, reads) = read_frame(&mut decoder, &mut pool, &pattern(size));
        decoder.rest(&mut pool);
        assert_eq!((decoder.buffer.bytes().len(), pool.retained_bytes()), (0, READ_BYTES_MIN));
        places.push(reads[0].start);
        // Another stream of the same core.
        decoder = FrameDecoder::new(FrameLimits::default());
    }
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    let content = pattern(90);
    let stream = framed(&content);
    let mut rest = &stream[..];
    read(&mut decoder, &mut pool, &mut rest, 50);
    decoder.rest(&mut pool);
    assert_eq!((decoder.pending_bytes(), pool.retained_bytes()), (50, 0));
    read(&mut decoder, &mut pool, &mut rest, usize::MAX);
    assert_eq!(decoder.next_frame(&mut pool).unwrap().unwrap(), content);
    // One that has grown is shared as well.
    decoder.read_bytes = READ_BYTES_MAX;
    read_frame(&mut decoder, &mut pool, &pattern(100));
    decoder.rest(&mut pool);
    assert_eq!(decoder.buffer.bytes().len(), 0);
    assert!(pool.retained_bytes() >= READ_BYTES_MAX);
}

#[test]
fn the_pool_keeps_no_more_than_its_bound() {
    let mut pool = BufferPool::new(1 << 20);
    for len in [100, 20_000, 300_000, 2 << 20, 500_000, 500_000, 500_000] {
        pool.retire(BytesMut::zeroed(len).freeze());
        assert!(pool.retained_bytes() <= 1 << 20);
    }
    assert_eq!(pool.retained_bytes(), 1_000_000);
    assert_eq!(pool.take(400_000).len(), 500_000);
    assert_eq!(pool.take(100).len(), 100);
    assert_eq!(pool.retained_bytes(), 500_000);
    for _ in 0..1000 {
        pool.rest(BytesMut::zeroed(READ_BYTES_MIN));
        assert!(pool.retained_bytes() <= 1 << 20);
    }
    assert_eq!(pool.retained_bytes(), 500_000 + 256 * 1024);
    pool.retire(BytesMut::zeroed(700_000).freeze());
    assert_eq!(pool.retained_bytes(), 700_000 + 256 * 1024);
}

#[test]
fn the_start_of_a_frame_can_be_judged_early() {
    let (mut decoder, mut pool) = decoder();
    let stream = framed(&pattern(1000));
    let mut rest = &stream[..];
    read(&mut decoder, &mut pool, &mut rest, 2);
    assert!(decoder.frame_start().is_empty());
    read(&mut decoder, &mut pool, &mut rest, 12);
    assert_eq!(decoder.frame_start(), &stream[4..14]);
}

#[test]
fn a_stream_goes_on_in_another_decoder_wherever_it_was_left() {
    let contents: Vec<_> = [0, 3, 4096, 5000, 70_000, 9].map(pattern).to_vec();
    let stream: Vec<u8> = contents.iter().flat_map(|content| framed(content)).collect();
    for read_bytes in [1, 100, 5_000, usize::MAX] {
        let (mut decoder, mut pool) = decoder();
        let mut rest = stream.as_slice();
        let mut frames = Vec::new();
        while !rest.is_empty() {
            read(&mut decoder, &mut pool, &mut rest, read_bytes);
            // One frame of those that have come, then the decoder changes.
            frames.extend(decoder.next_frame(&mut pool).unwrap());
            let pending = decoder.pending_bytes();
            let arrived = decoder.into_arrived(&mut pool);
            assert_eq!(arrived.len(), pending);
            decoder = FrameDecoder::resumed(FrameLimits::default(), arrived);
        }
        while let Some(frame) = decoder.next_frame(&mut pool).unwrap() {
            frames.push(frame);
        }
        assert!(frames.iter().eq(contents.iter()), "{read_bytes}");
    }
}

#[test]
fn tls_is_known_at_the_start_of_a_stream_only_not_where_it_goes_on() {
    let limits = FrameLimits { frame_bytes_max: usize::MAX };
    let size = [0x16, 0x03, 0x01, 0x02];
    let mut pool = BufferPool::new(POOL_BYTES);
    let mut resumed = FrameDecoder::resumed(limits, Bytes::copy_from_slice(&size));
    assert_eq!(resumed.next_frame(&mut pool), Ok(None));
}
