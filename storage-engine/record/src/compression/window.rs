//! The bytes a decoder has produced: those not read yet, and those its format may still refer to.
//!
//! Owns one growing buffer. Invariant: `floor`, `unread` <= `end` <= `bytes.len()`; what lies before both `unread` and
//! the history is dropped when room is needed, so the size follows the history and one chunk, never the output.
//!
//! ```text
//!   bytes  │ dropped next │   history … │ unread … │ room │
//!          0            keep_from                 end    len
//! ```

use alloc::vec::Vec;

/// Room that the first bytes get.
const FIRST_BYTES: usize = 16 * 1024;
/// A buffer that grew beyond this is given back when its use ends.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// What is copied at once where a length is not longer.
const BLOCK_BYTES: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    end: usize,
    unread: usize,
    /// No match may reach before this.
    floor: usize,
    history_bytes: usize,
}

impl Window {
    /// Starts again with nothing, for a format whose matches reach back `history_bytes` at most.
    pub(crate) fn reset(&mut self, history_bytes: usize) {
        if self.bytes.len() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
        (self.end, self.unread, self.floor) = (0, 0, 0);
        self.history_bytes = history_bytes;
    }

    /// What was produced and not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.unread..self.end).unwrap_or_default()
    }

    /// The last `len` bytes produced, while they are in the history or not consumed.
    pub(super) fn last(&self, len: usize) -> &[u8] {
        self.bytes.get(self.end.saturating_sub(len)..self.end).unwrap_or_default()
    }

    /// Steps over what was read.
    pub(crate) fn consume(&mut self, len: usize) {
        self.unread = (self.unread + len).min(self.end);
    }

    /// Bytes a match may reach back from here.
    pub(super) fn reach(&self) -> usize {
        (self.end - self.floor).min(self.history_bytes)
    }

    /// From here on no match reaches back before this point.
    pub(super) const fn forget_history(&mut self) {
        self.floor = self.end;
    }

    /// Room for `len` bytes that a foreign decoder fills; [`Window::advance`] says how many it did.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        self.reserve(len);
        self.bytes.get_mut(self.end..self.end + len).unwrap_or_default()
    }

    /// Takes in the first `len` bytes of the room.
    pub(super) fn advance(&mut self, len: usize) {
        self.end = (self.end + len).min(self.bytes.len());
    }

    /// Produces the first `len` bytes of `source`, which may be longer, and says whether it held so many.
    ///
    /// Short literals are most of them: one block of fixed size is copied, and what was too much is overwritten next.
    #[inline]
    pub(super) fn literal_head(&mut self, source: &[u8], len: usize) -> bool {
        if len <= BLOCK_BYTES
            && let Some(from) = source.first_chunk::<BLOCK_BYTES>()
            && let Some(to) = self.block_at(self.end)
        {
            *to = *from;
            self.end += len;
            return true;
        }
        let Some(literal) = source.get(..len) else { return false };
        self.literal(literal);
        true
    }

    /// Produces `literal`.
    pub(super) fn literal(&mut self, literal: &[u8]) {
        self.room(literal.len()).copy_from_slice(literal);
        self.end += literal.len();
    }

    /// Produces `len` bytes, each the one `distance` bytes before it; `false` if `distance` is 0 or out of reach.
    #[inline]
    pub(super) fn repeat(&mut self, distance: usize, len: usize) -> bool {
        if distance == 0 || distance > self.reach() {
            return false;
        }
        if distance >= BLOCK_BYTES
            && len <= BLOCK_BYTES
            && let Some(from) = self.block_at(self.end - distance)
        {
            let block = *from;
            if let Some(to) = self.block_at(self.end) {
                *to = block;
                self.end += len;
                return true;
            }
        }
        self.repeat_any(distance, len);
        true
    }

    fn repeat_any(&mut self, distance: usize, len: usize) {
        self.reserve(len);
        let mut left = len;
        // A distance below the length repeats what was just written: the stretch to copy from doubles each time.
        let mut stretch = distance;
        let start = self.end - distance;
        while left > 0 {
            let count = left.min(stretch);
            self.bytes.copy_within(start..start + count, self.end);
            self.end += count;
            left -= count;
            stretch += count;
        }
    }

    #[inline]
    fn block_at(&mut self, at: usize) -> Option<&mut [u8; BLOCK_BYTES]> {
        self.bytes.get_mut(at..)?.first_chunk_mut()
    }

    /// How many bytes the buffer takes.
    #[cfg(test)]
    pub(crate) const fn buffer_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn reserve(&mut self, len: usize) {
        if self.end + len <= self.bytes.len() {
            return;
        }
        let keep_from =
            self.unread.min(self.end.saturating_sub(self.history_bytes).max(self.floor));
        // Moving less than half the buffer for at least half of room keeps the cost a byte constant.
        if keep_from >= self.bytes.len() / 2 && self.end - keep_from + len <= self.bytes.len() {
            self.bytes.copy_within(keep_from..self.end, 0);
            self.end -= keep_from;
            self.unread -= keep_from;
            self.floor = self.floor.saturating_sub(keep_from);
            return;
        }
        let grown = (self.end + len).max(self.bytes.len() * 2).max(FIRST_BYTES);
        self.bytes.resize(grown, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_repeat_what_lies_before_them() {
        let check = |distance, len, expected: &[u8]| {
            let mut window = Window::default();
            window.reset(100);
            window.literal(b"abc");
            assert!(window.repeat(distance, len));
            assert_eq!(window.unread(), expected);
        };
        check(1, 5, b"abcccccc");
        check(2, 5, b"abcbcbcb");
        check(3, 8, b"abcabcabcab");
        check(3, 2, b"abcab");
    }

    #[test]
    fn matches_stay_within_reach() {
        let mut window = Window::default();
        window.reset(2);
        window.literal(b"abc");
        assert!(!window.repeat(0, 1));
        assert!(!window.repeat(3, 1));
        window.forget_history();
        assert!(!window.repeat(1, 1));
        window.literal(b"d");
        assert!(window.repeat(1, 1));
        assert!(!window.repeat(3, 1));
    }

    #[test]
    fn the_buffer_follows_the_history_and_not_the_output() {
        let mut window = Window::default();
        window.reset(1000);
        let mut produced = 0_u64;
        for round in 0..100_000_u32 {
            let byte = round.to_le_bytes()[0];
            window.literal(&[byte; 97]);
            assert!(window.repeat(97, 50));
            produced += 147;
            assert_eq!(window.last(147), [byte; 147]);
            window.consume(window.unread().len());
        }
        assert_eq!(produced, 14_700_000);
        assert!(window.buffer_bytes() <= FIRST_BYTES, "{}", window.buffer_bytes());
    }
}
