//! The steps that run another program: rustfmt and clippy.
//!
//! Owns their command lines. A step prints nothing of its own; what the program said is the violation.

use std::path::Path;
use std::process::Command;

use crate::report::Violation;

/// A program whose exit code is a rule.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its name in the report.
    pub(crate) name: &'static str,
    /// What holds when it passes.
    pub(crate) promise: &'static str,
    /// What to do when it does not.
    pub(crate) cure: &'static str,
    arguments: &'static [&'static str],
}

/// Lines of a failed program's output that are shown: enough for the first few findings.
const LINES_MAX: usize = 60;

/// All of them, the quick one first.
pub(crate) const ALL: [Step; 2] = [
    Step {
        name: "rustfmt",
        promise: "every file is as rustfmt writes it",
        cure: "run `cargo fmt`",
        arguments: &["fmt", "--all", "--check"],
    },
    Step {
        name: "clippy",
        promise: "clippy is silent about every target",
        cure: "mend what it names, or `#[expect(lint, reason = \"...\")]` with a true reason",
        arguments: &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    },
];

impl Step {
    /// Runs it in `root`; empty where it passed.
    pub(crate) fn run(&self, root: &Path) -> Vec<Violation> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = match Command::new(cargo).args(self.arguments).current_dir(root).output() {
            Ok(output) => output,
            Err(error) => return vec![Violation::new("cargo", error.to_string())],
        };
        if output.status.success() {
            return Vec::new();
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let mut found: Vec<Violation> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .take(LINES_MAX)
            .map(|line| Violation::new(self.name, line))
            .collect();
        if found.is_empty() {
            found.push(Violation::new(self.name, output.status.to_string()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_says_what_the_program_said() {
        let step = Step { name: "nonsense", promise: "", cure: "", arguments: &["no-such-verb"] };
        let found = step.run(Path::new("."));
        assert!(found.iter().any(|violation| violation.fact.contains("no-such-verb")), "{found:?}");
    }

    #[test]
    fn a_step_that_passes_finds_nothing() {
        let step = Step { name: "version", promise: "", cure: "", arguments: &["--version"] };
        assert_eq!(step.run(Path::new(".")), []);
    }
}
