//! Cutting a byte stream into frames.
//!
//! Owns [`FrameDecoder`], one for each connection, and [`BufferPool`], one for each core. A frame is refused by its first four
//! bytes, before anything is allocated for it; memory follows the bytes that arrive, never the size that is claimed (P72).
//!
//! ```text
//!   spare_mut() ──► a read fills a part of it ──► filled(n) ──► next_frame() until None ──► spare_mut() …
//!        └─────────► nothing is there to read ──► rest() ─────────────────────────────────────┘
//!
//!   buffer   [ handed out | whole and partial frames | spare ]
//!            0          start                       end     len
//! ```
//!
//! A large frame is handed out as a slice of the buffer that it was read into, and the buffer comes back through the pool
//! once all slices are gone: a steady producer's bytes are not copied, and nobody clears or faults in memory for them.

use core::mem;

use bytes::{Bytes, BytesMut};

use crate::encode::SIZE_BYTES;

mod pool;
#[cfg(test)]
mod tests;

pub use pool::BufferPool;

/// Frames up to this size are copied out: sharing is not cheaper, and a parked request must not pin a whole read buffer.
const COPY_BYTES_MAX: usize = 4 * 1024;

/// The first read buffer of a connection.
const READ_BYTES_MIN: usize = 4 * 1024;

/// The largest read buffer while no larger frame is under way. 16 KiB above 256 KiB: four frames that carry 64 KiB each, the
/// commonest large ones, fit whole, headers included, so that none is cut and has to be moved.
const READ_BYTES_MAX: usize = (256 + 16) * 1024;

/// Room that a frame may have on the word of its size alone.
const TRUST_BYTES_MIN: usize = 16 * 1024;

/// Room that a frame may have, as a multiple of what has arrived of it.
const TRUST_FACTOR: usize = 4;

/// After so many reads in a row that used an eighth of the buffer or less, the next buffer is smaller.
const SMALL_READS_MAX: u32 = 32;

const _: () = assert!(COPY_BYTES_MAX <= READ_BYTES_MIN);
const _: () = assert!(READ_BYTES_MIN <= TRUST_BYTES_MIN);
const _: () = assert!(TRUST_BYTES_MIN <= READ_BYTES_MAX);

/// What a connection may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// The largest frame, its size field not counted (`socket.request.max.bytes`).
    pub frame_bytes_max: usize,
}

impl Default for FrameLimits {
    /// Kafka's 100 MiB.
    fn default() -> Self {
        Self { frame_bytes_max: 100 * 1024 * 1024 }
    }
}

/// Why a stream was given up: after any of these the next frame cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A size below zero.
    #[error("frame size {size} is negative")]
    Negative {
        /// The size claimed.
        size: i32,
    },
    /// A size above the limit.
    #[error("frame of {bytes} bytes, at most {bytes_max}")]
    TooLarge {
        /// The size claimed.
        bytes: usize,
        /// The size allowed.
        bytes_max: usize,
    },
    /// The first bytes of a TLS handshake.
    #[error("the peer speaks TLS, and plain Kafka protocol is expected here")]
    Tls,
    /// The first bytes of an HTTP request.
    #[error("the peer speaks HTTP, and the Kafka protocol is expected here: is it the right port?")]
    Http,
}

/// Cuts one connection's bytes into frames; for a server's end and for a client's.
#[derive(Debug)]
pub struct FrameDecoder {
    limits: FrameLimits,
    buffer: Buffer,
    /// `start..end` of the buffer has arrived and is not handed out yet.
    start: usize,
    end: usize,
    /// The size of the next read buffer; follows what reads bring.
    read_bytes: usize,
    small_reads: u32,
    /// Whether nothing has been handed out yet.
    at_first_frame: bool,
}

/// The bytes of a decoder. All of either is initialised, so that reads can go anywhere in it.
#[derive(Debug)]
enum Buffer {
    /// Nothing of it has been handed out.
    Own(BytesMut),
    /// Frames that share it are out: it is read only.
    Shared(Bytes),
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// A handle on the whole of it, and from now on read only.
    fn share(&mut self) -> &Bytes {
        if let Self::Own(bytes) = self {
            *self = Self::Shared(mem::take(bytes).freeze());
        }
        match self {
            Self::Shared(bytes) => bytes,
            Self::Own(_) => unreachable!("just shared"),
        }
    }
}

impl FrameDecoder {
    /// A decoder at the start of a stream. Allocates nothing yet.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            buffer: Buffer::Own(BytesMut::new()),
            start: 0,
            end: 0,
            read_bytes: READ_BYTES_MIN,
            small_reads: 0,
            at_first_frame: true,
        }
    }

    /// A decoder that goes on with a stream of which `arrived` is not cut yet: what another decoder of it gave up.
    #[must_use]
    pub fn resumed(limits: FrameLimits, arrived: Bytes) -> Self {
        let end = arrived.len();
        let buffer = Buffer::Shared(arrived);
        Self { buffer, end, at_first_frame: false, ..Self::new(limits) }
    }

    /// What has arrived and is not handed out, copied out: the stream goes on in another decoder, [`Self::resumed`].
    #[must_use]
    pub fn into_arrived(mut self, pool: &mut BufferPool) -> Bytes {
        let arrived = Bytes::copy_from_slice(self.arrived());
        pool.retire(match mem::replace(&mut self.buffer, Buffer::Own(BytesMut::new())) {
            Buffer::Own(bytes) => bytes.freeze(),
            Buffer::Shared(bytes) => bytes,
        });
        arrived
    }

    /// Room for the next read; never empty.
    ///
    /// Shape   the tail of the read buffer, or, while a large frame is under way, no further than its end: then the start of
    ///         the frame after it need not be moved.
    /// Order   after [`Self::next_frame`] has given `None`.
    pub fn spare_mut(&mut self, pool: &mut BufferPool) -> &mut [u8] {
        let have = self.end - self.start;
        let frame = self.frame_under_way();
        let room = match frame {
            Some(bytes) => bytes.min((have * TRUST_FACTOR).max(TRUST_BYTES_MIN)),
            None => have + 1,
        };
        self.make_room(room, frame.unwrap_or(room), pool);
        let limit = match frame {
            Some(bytes) if bytes > self.read_bytes => self.start + bytes,
            _ => usize::MAX,
        };
        let end = self.end;
        match &mut self.buffer {
            Buffer::Own(bytes) => {
                let limit = limit.min(bytes.len());
                &mut bytes[end..limit]
            }
            Buffer::Shared(_) => unreachable!("make_room leaves a buffer of our own"),
        }
    }

    /// Takes note that a read put `count` bytes at the start of the spare room.
    ///
    /// Panics if that is more than there was.
    pub fn filled(&mut self, count: usize) {
        let len = self.buffer.bytes().len();
        assert!(count <= len - self.end);
        self.end += count;
        if self.end == len {
            self.read_bytes = (self.read_bytes * 4).min(READ_BYTES_MAX);
            self.small_reads = 0;
        } else if count > self.read_bytes / 8 {
            self.small_reads = 0;
        } else {
            self.small_reads += 1;
            if self.small_reads == SMALL_READS_MAX {
                self.read_bytes = (self.read_bytes / 4).max(READ_BYTES_MIN);
                self.small_reads = 0;
            }
        }
    }

    /// Gives the read buffer back while nothing has arrived that needs it: for who has to wait for more. What comes next may then
    /// lie in a buffer that another decoder has used.
    pub fn rest(&mut self, pool: &mut BufferPool) {
        if self.pending_bytes() > 0 {
            return;
        }
        (self.start, self.end) = (0, 0);
        match mem::replace(&mut self.buffer, Buffer::Own(BytesMut::new())) {
            Buffer::Own(bytes) if bytes.len() == READ_BYTES_MIN => pool.rest(bytes),
            Buffer::Own(bytes) => pool.retire(bytes.freeze()),
            Buffer::Shared(bytes) => pool.retire(bytes),
        }
    }

    /// The next whole frame, without its size field; `None` when more bytes are needed.
    ///
    /// Errors  [`FrameError`], again and again: the connection is to be closed.
    pub fn next_frame(&mut self, pool: &mut BufferPool) -> Result<Option<Bytes>, FrameError> {
        let Some(first) = self.arrived().first_chunk::<SIZE_BYTES>() else { return Ok(None) };
        let frame_bytes = self.judge(*first)?;
        let start = self.start + SIZE_BYTES;
        let end = start + frame_bytes;
        if end > self.end {
            return Ok(None);
        }
        let frame = if frame_bytes <= COPY_BYTES_MAX {
            Bytes::copy_from_slice(&self.buffer.bytes()[start..end])
        } else {
            self.buffer.share().slice(start..end)
        };
        self.start = end;
        self.at_first_frame = false;
        if frame_bytes > READ_BYTES_MAX {
            // The next one is likely as large. A short first read tells, and the rest goes where it can stay.
            self.read_bytes = TRUST_BYTES_MIN;
        }
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.retire_shared(pool);
        }
        Ok(Some(frame))
    }

    /// What has arrived of the frame under way, without its size field: enough to judge its header early.
    #[must_use]
    pub fn frame_start(&self) -> &[u8] {
        self.arrived().get(SIZE_BYTES..).unwrap_or_default()
    }

    /// Bytes that have arrived and belong to no frame handed out. 0 at a frame's border: there the stream may end.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.end - self.start
    }

    fn arrived(&self) -> &[u8] {
        &self.buffer.bytes()[self.start..self.end]
    }

    /// The size of a frame by its first four bytes.
    fn judge(&self, first: [u8; SIZE_BYTES]) -> Result<usize, FrameError> {
        let size = i32::from_be_bytes(first);
        let refusal = match usize::try_from(size) {
            Ok(bytes) if bytes <= self.limits.frame_bytes_max => None,
            Ok(bytes) => {
                Some(FrameError::TooLarge { bytes, bytes_max: self.limits.frame_bytes_max })
            }
            Err(_) => Some(FrameError::Negative { size }),
        };
        // A limit above 369 MB lets the first bytes of TLS pass as a size; at the start of a stream they are no size.
        if (refusal.is_some() || self.at_first_frame)
            && let Some(other) = other_protocol(first)
        {
            return Err(other);
        }
        refusal.map_or(Ok(size.unsigned_abs() as usize), Err)
    }

    /// The whole size of the frame under way, size field included; `None` while its size is unknown (or refused).
    #[must_use]
    pub fn frame_under_way(&self) -> Option<usize> {
        let first = self.arrived().first_chunk::<SIZE_BYTES>()?;
        Some(SIZE_BYTES + self.judge(*first).ok()?)
    }

    /// Makes `self.start + room` lie inside a buffer of our own. A new buffer takes in all of `ideal` when the pool has one:
    /// that memory is paid for already.
    fn make_room(&mut self, room: usize, ideal: usize, pool: &mut BufferPool) {
        let have = self.end - self.start;
        if let Buffer::Own(bytes) = &mut self.buffer {
            let sizes = self.read_bytes..=self.read_bytes * pool::WASTE_FACTOR;
            let outgrown = have == 0 && !sizes.contains(&bytes.len());
            if self.start + room <= bytes.len() && !outgrown {
                return;
            }
            if room <= bytes.len() && !outgrown {
                bytes.copy_within(self.start..self.end, 0);
                self.start = 0;
                self.end = have;
                return;
            }
        }
        let mut bytes = pool
            .reuse(ideal.max(self.read_bytes))
            .unwrap_or_else(|| pool.take(room.max(self.read_bytes)));
        bytes[..have].copy_from_slice(self.arrived());
        self.start = 0;
        self.end = have;
        let old = mem::replace(&mut self.buffer, Buffer::Own(bytes));
        pool.retire(match old {
            Buffer::Own(bytes) => bytes.freeze(),
            Buffer::Shared(bytes) => bytes,
        });
    }

    fn retire_shared(&mut self, pool: &mut BufferPool) {
        if let Buffer::Shared(bytes) = &mut self.buffer {
            pool.retire(mem::take(bytes));
            self.buffer = Buffer::Own(BytesMut::new());
        }
    }
}

/// What else may knock at a Kafka port, by its first four bytes.
fn other_protocol(first: [u8; SIZE_BYTES]) -> Option<FrameError> {
    match &first {
        // A handshake record of TLS 1.0 to 1.3; all of them say 3 here.
        [0x16, 0x03, ..] => Some(FrameError::Tls),
        b"GET " | b"HEAD" | b"POST" | b"PUT " | b"OPTI" | b"DELE" | b"PATC" | b"CONN" | b"PRI "
        // What a server says, where a client of ours came to the wrong port.
        | b"HTTP" => {
            Some(FrameError::Http)
        }
        _ => None,
    }
}
