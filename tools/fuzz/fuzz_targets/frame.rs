//! A stream of any bytes, read in steps of any size, against the plainest way to cut it.
//!
//! Input: one byte says how the stream is read, the rest is the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{BufferPool, FrameDecoder, FrameError, FrameLimits, HeaderError, RequestHeader};

/// Small, so that the limit is met and a buffer for what a frame claims costs little; above the step in which large buffers grow.
const FRAME_BYTES_MAX: usize = 1 << 17;
/// A stream is never read in more steps than this: what matters is where they fall, not that there are many.
const STEPS_MAX: usize = 2048;

/// What the decoder must do, with the whole stream at hand.
fn cut(mut stream: &[u8]) -> (Vec<&[u8]>, bool) {
    let mut frames = Vec::new();
    while let Some((size, rest)) = stream.split_first_chunk::<4>() {
        let Ok(bytes) = usize::try_from(i32::from_be_bytes(*size)) else { return (frames, true) };
        if bytes > FRAME_BYTES_MAX {
            return (frames, true);
        }
        let Some((frame, rest)) = rest.split_at_checked(bytes) else { break };
        frames.push(frame);
        stream = rest;
    }
    (frames, false)
}

fn check_header(frame: &[u8]) {
    match RequestHeader::decode(frame) {
        Ok((header, body)) => {
            assert!(header.api.is_served(header.version));
            assert!(frame.ends_with(body));
        }
        Err(HeaderError::Malformed(_) | HeaderError::ApiVersionsTooNew { .. }) => {}
        Err(refusal) => assert_eq!(RequestHeader::check_start(frame), Err(refusal)),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((step, stream)) = input.split_first() else { return };
    let read_bytes_max = match step % 4 {
        0 => 1.max(stream.len() / STEPS_MAX),
        1 => usize::from(*step).max(stream.len() / STEPS_MAX),
        2 => usize::from(*step) * 257,
        _ => usize::MAX,
    };
    let (expected, is_refused) = cut(stream);
    let limits = FrameLimits { frame_bytes_max: FRAME_BYTES_MAX };
    let (mut decoder, mut pool) = (FrameDecoder::new(limits), BufferPool::new(1 << 20));
    let mut frames = Vec::new();
    let mut rest = stream;
    let refusal = loop {
        match decoder.next_frame(&mut pool) {
            Ok(Some(frame)) => {
                check_header(&frame);
                frames.push(frame);
                continue;
            }
            Ok(None) if rest.is_empty() => break None,
            Ok(None) => decoder.rest(&mut pool),
            Err(error) => break Some(error),
        }
        let spare = decoder.spare_mut(&mut pool);
        let count = spare.len().min(rest.len()).min(read_bytes_max);
        assert!(count > 0);
        spare[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        decoder.filled(count);
    };
    assert!(frames.iter().eq(expected.iter()));
    assert_eq!(refusal.is_some(), is_refused, "{refusal:?}");
    if let Some(FrameError::TooLarge { bytes, .. }) = refusal {
        assert!(bytes > FRAME_BYTES_MAX);
    }
});
