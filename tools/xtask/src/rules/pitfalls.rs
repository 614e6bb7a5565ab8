//! The pitfalls of others, each with the test that keeps us out of it.
//!
//! Owns the form of docs/pitfalls.tsv: id, area, situation, and either `path::test_name` (several with a comma) or
//! `later: area`. A test that is renamed or deleted is missed here, not by a user.

use crate::report::Violation;
use crate::rules::text;
use crate::workspace::Workspace;

/// The table, below the root.
pub(crate) const PITFALLS_FILE: &str = "docs/pitfalls.tsv";

const COLUMNS: usize = 4;

/// Every row is complete, unique, and its tests exist.
pub(crate) fn have_tests(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    if workspace.pitfalls.lines().count() < 2 {
        found.push(Violation::new(PITFALLS_FILE, "is missing or empty"));
    }
    for (index, line) in workspace.pitfalls.lines().enumerate().skip(1) {
        let mut add = |fact: String| found.push(Violation::at(PITFALLS_FILE, index + 1, fact));
        let columns: Vec<&str> = line.split('\t').collect();
        let &[id, _area, _situation, cover] = columns.as_slice() else {
            add(format!("{} columns instead of {COLUMNS}", columns.len()));
            continue;
        };
        if seen.contains(&id) {
            add(format!("{id} is there twice"));
        }
        seen.push(id);
        if let Some(area) = cover.strip_prefix("later: ") {
            if area.trim().is_empty() {
                add(format!("{id} names no area"));
            }
            continue;
        }
        for test in cover.split(',').map(str::trim) {
            if !test_exists(workspace, test) {
                add(format!("{id}: no test `{test}`"));
            }
        }
    }
    found
}

fn test_exists(workspace: &Workspace, test: &str) -> bool {
    let Some((path, name)) = test.split_once("::") else { return false };
    let is_its_line = |line: &str| {
        let line = line.trim_start();
        let definition = line.strip_prefix("def ").or_else(|| {
            let start = line.find("fn ")?;
            line.get(start + 3..)
        });
        definition.is_some_and(|rest| {
            rest.strip_prefix(name).is_some_and(|after| after.starts_with(['(', '<']))
        })
    };
    let files = workspace.sources.iter().chain(&workspace.scripts);
    files
        .filter(|source| source.path == path)
        .any(|source| text::code(&source.text).lines().any(is_its_line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{source, workspace};

    #[test]
    fn a_row_without_its_test_is_found() {
        let check = |row: &str, expected: &[&str]| {
            let text = "#[test]\nfn zero_tail_is_no_end() {}\n// fn in_a_comment() {}\n";
            let mut tree =
                workspace(vec![], vec![source("storage-engine/commitlog/src/a.rs", text)]);
            tree.scripts.push(source("tools/conformance/b.py", "def check_tls(broker):\n"));
            tree.pitfalls = format!("id\tarea\tsituation\tcovered by\n{row}\n");
            let found: Vec<String> = have_tests(&tree).iter().map(|v| v.fact.clone()).collect();
            assert_eq!(found, expected, "{row}");
        };
        let rust = "storage-engine/commitlog/src/a.rs";
        check(&format!("P01\tstorage\tzeros\t{rust}::zero_tail_is_no_end"), &[]);
        check("P73\tsecurity\tTLS\ttools/conformance/b.py::check_tls", &[]);
        check("P35\ttransactions\tLSO\tlater: transactions", &[]);
        check("P35\ttransactions\tLSO\tlater: ", &["P35 names no area"]);
        check("P35\ttransactions\tLSO", &["3 columns instead of 4"]);
        check(
            &format!("P01\tstorage\tzeros\t{rust}::zero_tail"),
            &["P01: no test `storage-engine/commitlog/src/a.rs::zero_tail`"],
        );
        check(
            &format!("P01\tstorage\tzeros\t{rust}::in_a_comment"),
            &["P01: no test `storage-engine/commitlog/src/a.rs::in_a_comment`"],
        );
        check("P1\ta\tb\tlater: x\nP1\ta\tb\tlater: x", &["P1 is there twice"]);
    }

    #[test]
    fn a_missing_table_is_found() {
        assert_eq!(have_tests(&workspace(vec![], vec![])).len(), 1);
    }
}
