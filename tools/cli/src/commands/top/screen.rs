//! The terminal of a live view: drawn over, and given back as it was.
//!
//! Owns the terminal's state from [`Screen::open`] until it is dropped, which happens after a panic too. What is drawn fits:
//! columns that have no room are left out from the right, and lines from the bottom.

use std::io::{self, Read, Write};
use std::thread;

use console::Term;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use node::StopSignal;

use super::view::View;
use crate::exit::{Failure, Outcome};
use crate::output::Table;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left; what is right of the end of a line, and below the last, is cleared as it is drawn.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The terminal.
pub(super) struct Screen {
    terminal: Term,
    before: Termios,
}

impl Screen {
    /// Takes the terminal. From here on `q` asks to stop; Ctrl-C remains a signal.
    pub(super) fn open(stop: StopSignal) -> Outcome<Self> {
        let failed = |error: io::Error| Failure::io("terminal", &error);
        let before = tcgetattr(io::stdin()).map_err(|errno| failed(errno.into()))?;
        let mut keys = before.clone();
        // Keys as they are pressed, and not shown.
        keys.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &keys).map_err(|errno| failed(errno.into()))?;
        let screen = Self { terminal: Term::stdout(), before };
        write(ENTER).map_err(failed)?;
        let reader = thread::Builder::new().name("keys".to_owned());
        // It ends with the process: nothing can end a read of a terminal.
        let reading = reader.spawn(move || {
            let quits = |key: &io::Result<u8>| matches!(key, Ok(b'q' | b'Q') | Err(_));
            io::stdin().lock().bytes().find(quits);
            stop.request();
        });
        reading.map_err(failed)?;
        Ok(screen)
    }

    /// Draws a view, and what there is to say of it, over the last.
    pub(super) fn draw(&self, state: &str, view: Option<&View>) -> Outcome {
        let (height, width) = self.terminal.size();
        let mut lines = vec![format!("{state}   (q quits)")];
        if let Some(view) = view {
            lines.push(view.head());
            for table in view.tables() {
                lines.push(String::new());
                lines.extend(table.lines_within(width.into()));
            }
        }
        let frame = frame_of(&lines, usize::from(width), usize::from(height));
        write(&frame).map_err(|error| Failure::io("terminal", &error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing more can be done where even this fails.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Lines cut to the terminal, as they are written to it: all of the old is overwritten or cleared, and nothing scrolls.
fn frame_of(lines: &[String], width: usize, height: usize) -> String {
    let mut frame = String::from(HOME);
    for (place, line) in lines.iter().take(height).enumerate() {
        if place > 0 {
            frame.push_str("\r\n");
        }
        // What a node says may hold anything: a terminal must not obey it.
        let shown = line.chars().map(|character| match character {
            character if character.is_control() => '?',
            character => character,
        });
        frame.extend(shown.take(width));
        frame.push_str(CLEAR_LINE);
    }
    frame.push_str(CLEAR_BELOW);
    frame
}

impl Table {
    /// Its lines, with as many columns as a terminal of that width has room for; at least the first.
    fn lines_within(&self, width: usize) -> Vec<String> {
        let (mut columns, mut used) = (0, 0);
        for column in self.widths() {
            used += column + if columns > 0 { 2 } else { 0 };
            if columns > 0 && used > width {
                break;
            }
            columns += 1;
        }
        self.lines(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_terminal_and_clears_what_was_there() {
        let lines = ["abcdef", "x\x1b[2Jy", "third"].map(str::to_owned);
        assert_eq!(frame_of(&lines, 4, 2), "\x1b[Habcd\x1b[K\r\nx?[2\x1b[K\x1b[J");
        assert_eq!(frame_of(&[], 4, 2), "\x1b[H\x1b[J");
    }

    #[test]
    fn columns_without_room_are_left_out_whole() {
        let mut table = Table::new(&["NAME", "A", "B"]);
        table.row(["orders", "12", "345"].map(str::to_owned).to_vec());
        assert_eq!(table.lines_within(15), ["NAME    A   B", "orders  12  345"]);
        assert_eq!(table.lines_within(14), ["NAME    A", "orders  12"]);
        assert_eq!(table.lines_within(3), ["NAME", "orders"]);
    }
}
