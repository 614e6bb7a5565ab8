//! `corelog version`.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Outcome;
use crate::output::{Format, Output, Show};

#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
    operating_system: &'static str,
    architecture: &'static str,
}

impl Show for Version {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "corelog {} ({} {})", self.version, self.operating_system, self.architecture)
    }
}

/// Prints the version.
pub(crate) fn run(format: Format) -> Outcome {
    Output::new(format).show(&Version {
        version: env!("CARGO_PKG_VERSION"),
        operating_system: std::env::consts::OS,
        architecture: std::env::consts::ARCH,
    })
}
