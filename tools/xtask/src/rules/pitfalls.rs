//! The pitfalls of others, each with the test that keeps us out of it.
//!
//! Owns the form of docs/pitfalls.tsv: id, area, situation, and either `path::test_name` (several with a comma) or
//! `later: area`, one of the areas that are still to come. A test that is renamed, deleted or ignored is missed here, not
//! by a user.

use crate::report::Violation;
use crate::rules::text;
use crate::workspace::Workspace;

/// The table, below the root.
pub(crate) const PITFALLS_FILE: &str = "docs/pitfalls.tsv";

const COLUMNS: usize = 4;

/// What is still to come. An area that has come is struck out here, and every row that waited for it is found.
const LATER: [&str; 5] =
    ["consumer groups", "compaction", "transactions", "security", "several nodes"];

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
            if !LATER.contains(&area) {
                add(format!("{id}: `{area}` is no area to come; one of {}", LATER.join(", ")));
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
    let mut here = workspace.sources.iter().filter(|source| source.path == path);
    let mut scripts = workspace.scripts.iter().filter(|source| source.path == path);
    here.any(|source| runs(&text::code(&source.text), name))
        || scripts.any(|source| {
            let mut definitions =
                source.text.lines().filter_map(|line| line.trim_start().strip_prefix("def "));
            definitions.any(|rest| is_named(rest, name))
        })
}

/// Whether a function of that name is a test, and one that is run.
pub(super) fn runs(code: &str, name: &str) -> bool {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let is_function = |line: &str| {
        let rest = line.find("fn ").and_then(|start| line.get(start + 3..));
        rest.is_some_and(|rest| is_named(rest, name))
    };
    (0..lines.len()).filter(|at| lines.get(*at).is_some_and(|line| is_function(line))).any(|at| {
        // Its attributes: what stands between it and the end of whatever was before.
        let before = lines.iter().take(at).rev();
        let own: Vec<&&str> = before.take_while(|line| !line.ends_with(['}', ';', '{'])).collect();
        own.contains(&&"#[test]") && !own.iter().any(|line| text::has_word(line, "ignore"))
    })
}

fn is_named(rest: &str, name: &str) -> bool {
    rest.strip_prefix(name).is_some_and(|after| after.starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{source, workspace};

    #[test]
    fn a_row_without_its_test_is_found() {
        let check = |row: &str, expected: &[&str]| {
            let text = "#[test]\nfn zero_tail_is_no_end() {}\n// fn in_a_comment() {}\n\
                        fn helper() {}\n#[test]\n#[ignore = \"slow\"]\nfn left_out() {}\n\
                        /// Says why.\n#[test]\n#[expect(\n    clippy::a,\n    reason = \"b\"\n)]\nfn expects() {}\n";
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
        let areas = LATER.join(", ");
        for area in ["", "first node", "transactions "] {
            let fact = format!("P35: `{area}` is no area to come; one of {areas}");
            check(&format!("P35\ttransactions\tLSO\tlater: {area}"), &[&fact]);
        }
        check(&format!("P01\tstorage\tzeros\t{rust}::expects"), &[]);
        for name in ["helper", "left_out"] {
            let fact = format!("P01: no test `{rust}::{name}`");
            check(&format!("P01\tstorage\tzeros\t{rust}::{name}"), &[&fact]);
        }
        check("P35\ttransactions\tLSO", &["3 columns instead of 4"]);
        check(
            &format!("P01\tstorage\tzeros\t{rust}::zero_tail"),
            &["P01: no test `storage-engine/commitlog/src/a.rs::zero_tail`"],
        );
        check(
            &format!("P01\tstorage\tzeros\t{rust}::in_a_comment"),
            &["P01: no test `storage-engine/commitlog/src/a.rs::in_a_comment`"],
        );
        check("P1\ta\tb\tlater: security\nP1\ta\tb\tlater: security", &["P1 is there twice"]);
    }

    #[test]
    fn a_missing_table_is_found() {
        assert_eq!(have_tests(&workspace(vec![], vec![])).len(), 1);
    }
}
