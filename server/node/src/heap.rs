//! The C library's heap: what is freed is kept for the next transfer.
//!
//! Owns two of its thresholds. Buffers of transfers and frames are hundreds of kilobytes, come and go thousands of times a second,
//! and would each be mapped and unmapped by default: every page of a gigabyte read from disk would be cleared first, which costs
//! more than reading it. Must be set before the cores start.

/// Allocations below this come from heaps that stay mapped; the most that the library takes. Larger ones are rare: a request may
/// be so large, and what it took goes back.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: i32 = 32 << 20;
/// The end of a heap goes back when so much of it is free: more than the caches of a core let go of at once.
#[cfg(target_env = "gnu")]
const TRIMMED_BYTES_MIN: i32 = 64 << 20;

/// Sets the thresholds. Where the C library has none, nothing is done.
pub(crate) fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        use nix::libc::{M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};
        let set = |what, bytes| {
            // SAFETY: it changes how much is kept and not what is, takes the library's own lock, and knows both names.
            if unsafe { mallopt(what, bytes) } == 0 {
                tracing::debug!(what, bytes, "the C library does not take a threshold of its heap");
            }
        };
        set(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        set(M_TRIM_THRESHOLD, TRIMMED_BYTES_MIN);
    }
}
