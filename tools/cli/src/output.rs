//! What goes to standard output: tables for people, JSON or YAML for programs, and nothing else.
//!
//! Owns the stream. A reader that goes away (`| head`) ends the command quietly: that is not an error of ours. Progress
//! and errors go to standard error, never here.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::yaml::write_document;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people.
    Table,
    /// JSON, for programs.
    Json,
    /// YAML, a document for each value.
    Yaml,
}

/// Something that can be shown both ways.
pub(crate) trait Show: Serialize {
    /// Writes it for people.
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()>;
}

/// Bytes gathered before a write: large enough to keep a consumer from being bound by system calls.
const BUFFER_BYTES: usize = 256 * 1024;

/// Standard output, locked and buffered.
pub(crate) struct Output {
    format: Format,
    sink: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Takes standard output for this command.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, sink: BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()) }
    }

    /// Prints one value and sends it on.
    pub(crate) fn show(&mut self, value: &impl Show) -> Outcome {
        let shown = self.write(value);
        check(shown)
    }

    /// The same for a command that has more to say at its end than what it shows: a reader that went away does not end it.
    pub(crate) fn offer(&mut self, value: &impl Show) -> Outcome {
        match self.write(value) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(|error| Failure::io("standard output", &error)),
        }
    }

    fn write(&mut self, value: &impl Show) -> io::Result<()> {
        match self.format {
            Format::Table => value.show_table(&mut self.sink),
            Format::Json => write_json_line(&mut self.sink, value),
            Format::Yaml => write_document(&mut self.sink, value),
        }?;
        self.sink.flush()
    }

    /// Writes through `write`; what it writes may stay in the buffer until [`Output::flush`].
    pub(crate) fn with(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
        check(write(&mut self.sink))
    }

    /// Sends everything on.
    pub(crate) fn flush(&mut self) -> Outcome {
        check(self.sink.flush())
    }
}

/// A number of things, as people say it: `1 byte`, `2 bytes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// One JSON value and the end of its line.
pub(crate) fn write_json_line(sink: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *sink, value)?;
    sink.write_all(b"\n")
}

/// Says a line on standard error. Where nobody takes it the command goes on: what it does, and the code that it ends with, do not
/// depend on who listens.
pub(crate) fn say(text: impl fmt::Display) {
    // In one piece: threads speak beside each other.
    let _ = io::stderr().lock().write_all(format!("corelog: {text}\n").as_bytes());
}

fn check(result: io::Result<()>) -> Outcome {
    match result {
        Ok(()) => Ok(()),
        // The reader has what it wanted. Leaving here also skips the flush that would fail again.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::io("standard output", &error)),
    }
}

/// Columns under headings: text to the left, and as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row, of as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows.first().map_or(0, Vec::len));
        self.rows.push(cells);
    }

    /// Writes it.
    pub(crate) fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.lines(usize::MAX).iter().try_for_each(|line| writeln!(sink, "{line}"))
    }

    /// How wide each column is.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width_of).collect()
    }

    /// Its lines, with the first `columns` columns.
    pub(crate) fn lines(&self, columns: usize) -> Vec<String> {
        let widths = self.widths();
        let line_of = |row: &Vec<String>| {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths).take(columns) {
                line.push_str(&format!("{cell:<width$}  ", width = *width));
            }
            line.truncate(line.trim_end().len());
            line
        };
        self.rows.iter().map(line_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_told_from_several() {
        let told = [0, 1, 2].map(|count| counted(count, "byte"));
        assert_eq!(told, ["0 bytes", "1 byte", "2 bytes"]);
    }

    #[test]
    fn columns_align_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new(&["TOPIC", "PARTITIONS"]);
        table.row(vec!["käse".into(), "1".into()]);
        table.row(vec!["orders-long".into(), "12".into()]);
        let mut written = Vec::new();
        table.write(&mut written).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "TOPIC        PARTITIONS\nkäse         1\norders-long  12\n"
        );
    }
}
