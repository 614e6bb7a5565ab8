//! What `tune` found, for people and programs.
//!
//! Owns the tables and the bars of the curve.

use std::io::{self, Write};

use serde::Serialize;

use super::curve::Point;
use super::proposal::{Proposal, Value};
use super::settings::Setting;
use crate::commands::host::disk::{Direction, SyncCost, Transfers};
use crate::commands::host::facts::{Device, System};
use crate::commands::host::loopback::Loopback;
use crate::output::{Show, Table};

/// The longest bar.
const BAR_CELLS: usize = 32;

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Where the disk was measured.
    pub(super) directory: String,
    /// Its file system.
    pub(super) file_system: Option<String>,
    /// The machine.
    pub(super) system: System,
    /// The disk.
    pub(super) device: Option<Device>,
    /// Transfers of several sizes and depths.
    pub(super) transfers: Vec<Transfers>,
    /// Blocks made lasting.
    pub(super) syncs: SyncCost,
    /// What they mean, in words.
    pub(super) sync_costs: String,
    /// Sockets.
    pub(super) loopback: Loopback,
    /// Nodes under load, in the order they were measured.
    pub(super) curve: Vec<Point>,
    /// Options for the configuration file.
    pub(super) proposals: Vec<Proposal>,
    /// Settings of the system worth a change.
    pub(super) settings: Vec<Setting>,
    /// The file that they were written to.
    pub(super) written: Option<String>,
    /// Where it is kept as it was.
    pub(super) kept: Option<String>,
}

impl Show for Report {
    fn show_table(&self, sink: &mut dyn Write) -> io::Result<()> {
        writeln!(sink, "{}", self.machine())?;
        writeln!(sink, "\nDisk ({})", self.disk())?;
        self.transfer_table().write(sink)?;
        writeln!(sink, "\n{}", self.sync_costs)?;
        let Loopback { round_trip, mb_per_second } = &self.loopback;
        writeln!(
            sink,
            "\nLoopback: round trip {:.0} us (p50), {:.0} us (p99); {mb_per_second:.0} MB/s one way, both ends on one core",
            round_trip.p50_us, round_trip.p99_us
        )?;
        writeln!(
            sink,
            "\nNodes under load (the client shares the CPUs: they compare, and promise nothing)"
        )?;
        curve_table(&self.curve).write(sink)?;
        writeln!(sink, "\nProposed for the configuration file")?;
        for Proposal { key, value, why } in &self.proposals {
            writeln!(sink, "  {key} = {}\n      {why}", shown(value))?;
        }
        self.show_settings(sink)?;
        match (&self.written, &self.kept) {
            (Some(written), Some(kept)) => writeln!(
                sink,
                "\nwritten to {written}, for the node's next start; as it was: {kept}; back: corelog tune undo {written}"
            ),
            _ => writeln!(
                sink,
                "\nnothing was changed: --write FILE puts the options into a configuration file"
            ),
        }
    }
}

impl Report {
    fn machine(&self) -> String {
        let System { kernel, cpus, sibling_cpus, numa_nodes, memory_bytes, .. } = &self.system;
        let threads = match sibling_cpus.len() {
            0 => String::new(),
            count => format!(" ({count} of them second threads of a core)"),
        };
        let nodes =
            if *numa_nodes > 1 { format!(", {numa_nodes} NUMA nodes") } else { String::new() };
        let memory =
            memory_bytes.map_or_else(String::new, |bytes| format!(", {} GiB", bytes >> 30));
        let kernel = kernel.as_deref().unwrap_or("unknown");
        format!("Linux {kernel}, {} CPUs{threads}{nodes}{memory}", cpus.len())
    }

    fn disk(&self) -> String {
        let kind = self.file_system.as_deref().unwrap_or("unknown file system");
        let unknown = "unknown".to_owned();
        match &self.device {
            Some(device) => format!(
                "{}: {kind} on {}, scheduler {}, cache {}",
                self.directory,
                device.name,
                device.scheduler.as_ref().unwrap_or(&unknown),
                device.cache.as_ref().unwrap_or(&unknown)
            ),
            None => format!("{}: {kind}", self.directory),
        }
    }

    fn transfer_table(&self) -> Table {
        let mut table = Table::new(&["DIRECT", "SIZE", "DEPTH", "MB/S", "P50", "P99"]);
        for one in &self.transfers {
            let direction = match one.direction {
                Direction::Write => "write",
                Direction::Read => "read",
            };
            table.row(vec![
                direction.to_owned(),
                format!("{} KiB", one.bytes >> 10),
                one.depth.to_string(),
                format!("{:.0}", one.mb_per_second),
                format!("{:.2} ms", one.latency.p50_us / 1e3),
                format!("{:.2} ms", one.latency.p99_us / 1e3),
            ]);
        }
        table
    }

    fn show_settings(&self, sink: &mut dyn Write) -> io::Result<()> {
        if self.settings.is_empty() {
            return writeln!(sink, "\nThe system's settings are as a node wants them");
        }
        writeln!(sink, "\nSettings of the system, for root")?;
        for Setting { name, now, why, command } in &self.settings {
            writeln!(sink, "  {name} is {now}: {why}\n      {command}")?;
        }
        Ok(())
    }
}

/// A value as a configuration file has it.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Word(word) => format!("\"{word}\""),
    }
}

/// The curve, with a bar for the throughput of each.
fn curve_table(points: &[Point]) -> Table {
    let headings =
        ["SHARDS", "ADVERTISE", "MB/S", "", "P50", "P99.9", "CPU-S/GB", "FORWARDED", "WITH"];
    let mut table = Table::new(&headings);
    let fastest = points.iter().map(|point| point.mb_per_second).fold(0.0, f64::max);
    for point in points {
        let settings = point.candidate.settings.iter();
        let settings = settings.map(|(key, value)| format!("{key}={value}"));
        let behind = (!point.rate_kept).then(|| "(rate not kept)".to_owned());
        let settings: Vec<String> = settings.chain(behind).collect();
        table.row(vec![
            point.candidate.shards.to_string(),
            point.candidate.advertise.name().to_owned(),
            format!("{:.0}", point.mb_per_second),
            bar(point.mb_per_second, fastest),
            format!("{:.2} ms", point.p50_ms),
            format!("{:.2} ms", point.p999_ms),
            point.cpu_seconds_per_gb.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.2}")),
            format!("{:.2}", point.forwarded_per_request),
            settings.join(" "),
        ]);
    }
    table
}

fn bar(value: f64, longest: f64) -> String {
    let share = if longest > 0.0 { (value / longest).clamp(0.0, 1.0) } else { 0.0 };
    let cells = (0..BAR_CELLS).filter(|cell| {
        let middle = f64::from(u32::try_from(*cell).unwrap_or(0)) + 0.5;
        middle / f64::from(u32::try_from(BAR_CELLS).unwrap_or(1)) < share
    });
    "█".repeat(cells.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let lengths = [0.0, 1.0, 50.0, 100.0, 200.0].map(|value| bar(value, 100.0).chars().count());
        assert_eq!(lengths, [0, 0, 16, 32, 32]);
        assert_eq!(bar(0.0, 0.0), "");
    }
}
