//! Lines from a file or pipe, read on a thread of their own: a blocking read must not keep the executor from the network.
//!
//! Owns the thread and the bounded queue between it and the one task that takes lines. It never splits or drops a line:
//! what is too long ends the input with an error that names it.
//!
//! ```text
//! reader thread --push--> queue (bounded by bytes) --take--> producing task
//!        waits on a condition while full      is woken by a waker when there is something
//! ```

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The longest line: beyond every sensible `max.message.bytes`, and small enough to hold a few.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;
/// Bytes the queue holds before the reader waits: several of the largest batches.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// How the input ended.
#[derive(Debug)]
pub(crate) enum LinesError {
    /// Line `line`, counted from 1, is longer than [`LINE_BYTES_MAX`].
    TooLong {
        /// Which.
        line: u64,
    },
    /// Reading failed.
    Read(io::Error),
}

/// What one take brings.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Lines without their line ends, in order.
    pub(crate) lines: Vec<Vec<u8>>,
    /// Whether the queue was left empty: the input is slower than we are, so it does not pay to wait for more.
    pub(crate) is_drained: bool,
}

/// The taking end.
pub(crate) struct Lines {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    has_room: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    end: Option<Result<(), LinesError>>,
    waker: Option<Waker>,
}

impl Lines {
    /// Starts to read `input`. The thread ends with the input, or with the process.
    pub(crate) fn start(input: impl Read + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_reader = Arc::clone(&shared);
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
            let end = read_all(BufReader::with_capacity(READ_BYTES, input), &for_reader);
            for_reader.finish(end);
        })?;
        Ok(Self { shared })
    }

    /// Waits for lines; `None` at the end of the input.
    pub(crate) async fn take(&self, bytes_max: usize) -> Result<Option<Taken>, LinesError> {
        poll_fn(|context| {
            let mut queue = self.shared.lock();
            if queue.lines.is_empty() {
                return match queue.end.take() {
                    None => {
                        queue.waker = Some(context.waker().clone());
                        Poll::Pending
                    }
                    Some(Ok(())) => {
                        queue.end = Some(Ok(()));
                        Poll::Ready(Ok(None))
                    }
                    Some(Err(error)) => Poll::Ready(Err(error)),
                };
            }
            let taken = queue.take(bytes_max);
            self.shared.has_room.notify_one();
            Poll::Ready(Ok(Some(taken)))
        })
        .await
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic while the lock is held would leave whole lines only: the queue stays usable.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) {
        let mut queue = self.lock();
        while queue.bytes >= QUEUE_BYTES_MAX {
            queue = self.has_room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.bytes += line.len() + 1;
        queue.lines.push_back(line);
        wake(queue);
    }

    fn finish(&self, end: Result<(), LinesError>) {
        let mut queue = self.lock();
        queue.end = Some(end);
        wake(queue);
    }
}

/// Wakes the task after the lock is free again, so that it does not meet it.
fn wake(mut queue: MutexGuard<'_, Queue>) {
    let waker = queue.waker.take();
    drop(queue);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Queue {
    fn take(&mut self, bytes_max: usize) -> Taken {
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < bytes_max
            && let Some(line) = self.lines.pop_front()
        {
            bytes += line.len() + 1;
            lines.push(line);
        }
        self.bytes -= bytes;
        Taken { lines, is_drained: self.lines.is_empty() }
    }
}

fn read_all(mut input: impl BufRead, shared: &Shared) -> Result<(), LinesError> {
    for number in 1_u64.. {
        let mut line = Vec::new();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line);
        if read.map_err(LinesError::Read)? == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > LINE_BYTES_MAX {
            return Err(LinesError::TooLong { line: number });
        }
        shared.push(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;

    fn all(input: impl Read + Send + 'static) -> Result<Vec<Vec<u8>>, LinesError> {
        let source = Lines::start(input).unwrap();
        let mut lines = Vec::new();
        while let Some(taken) = block_on(source.take(1 << 20))? {
            lines.extend(taken.lines);
        }
        assert!(matches!(block_on(source.take(1)), Ok(None)), "the end is final");
        Ok(lines)
    }

    #[test]
    fn lines_are_whole_whatever_ends_them() {
        let check = |input: &'static str, expected: &[&str]| {
            let lines = all(input.as_bytes()).unwrap();
            let lines: Vec<&str> = lines.iter().map(|l| str::from_utf8(l).unwrap()).collect();
            assert_eq!(lines, expected, "{input:?}");
        };
        check("", &[]);
        check("a\nb\n", &["a", "b"]);
        check("a\n\nb", &["a", "", "b"]);
        check("a\r\n", &["a\r"]);
        check("\n", &[""]);
    }

    #[test]
    fn more_than_the_queue_holds_passes_in_order() {
        let count = 3 * QUEUE_BYTES_MAX / 100;
        let input: String = (0..count).map(|number| format!("{number:099}\n")).collect();
        let lines = all(io::Cursor::new(input)).unwrap();
        assert_eq!(lines.len(), count);
        assert!(
            lines
                .iter()
                .enumerate()
                .all(|(number, line)| { line.as_slice() == format!("{number:099}").as_bytes() })
        );
    }

    #[test]
    fn a_line_beyond_the_bound_ends_the_input_and_is_named() {
        let long = io::repeat(b'x').take(LINE_BYTES_MAX as u64 + 1);
        let error = all(io::Cursor::new("ok\n").chain(long)).unwrap_err();
        assert!(matches!(error, LinesError::TooLong { line: 2 }), "{error:?}");
    }

    #[test]
    fn a_slow_input_is_reported_as_drained() {
        let source = Lines::start(io::Cursor::new("a\nb\nc\n")).unwrap();
        while source.shared.lock().end.is_none() {
            std::thread::yield_now();
        }
        let first = block_on(source.take(3)).unwrap().unwrap();
        assert_eq!((first.lines.len(), first.is_drained), (2, false));
        let second = block_on(source.take(3)).unwrap().unwrap();
        assert_eq!((second.lines.len(), second.is_drained), (1, true));
    }
}
