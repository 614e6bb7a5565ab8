//! The formats that outlive the process, each with the tests that hold its bytes.
//!
//! Owns the form of docs/formats.md as far as it names tests: in every section a paragraph `Tests:` with files in backticks,
//! each followed by test names in backticks where it has other tests too. A path may leave out the folders before it that one
//! file alone makes needless.

use crate::report::Violation;
use crate::rules::pitfalls::runs;
use crate::rules::text;
use crate::workspace::{Source, Workspace};

/// The page, below the root.
pub(crate) const FORMATS_FILE: &str = "docs/formats.md";

/// One section of the page.
struct Section<'a> {
    title: &'a str,
    line: usize,
    /// The paragraphs of tests, one after another.
    tests: String,
}

/// Every section names tests that exist.
pub(crate) fn name_their_tests(workspace: &Workspace) -> Vec<Violation> {
    let sections = sections(&workspace.formats);
    if sections.is_empty() {
        return vec![Violation::new(FORMATS_FILE, "is missing or empty")];
    }
    let mut found = Vec::new();
    for section in sections {
        let mut add = |fact: String| found.push(Violation::at(FORMATS_FILE, section.line, fact));
        let mut file: Option<&Source> = None;
        let mut count = 0;
        // What stands between backticks is every second piece.
        for name in section.tests.split('`').skip(1).step_by(2) {
            count += 1;
            if name.ends_with(".rs") {
                let is_it =
                    |source: &&Source| format!("/{}", source.path).ends_with(&format!("/{name}"));
                let mut files = workspace.sources.iter().filter(is_it);
                file = files.next();
                let fact = match (file, files.count()) {
                    (Some(_), 0) => continue,
                    (Some(_), others) => format!("{} files are called `{name}`", others + 1),
                    (None, _) => format!("no file `{name}`"),
                };
                add(format!("{}: {fact}", section.title));
            } else if !file.is_some_and(|source| runs(&text::code(&source.text), name)) {
                add(format!("{}: no test `{name}` there", section.title));
            }
        }
        if count == 0 {
            add(format!("{}: names no test", section.title));
        }
    }
    found
}

fn sections(page: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut is_of_tests = false;
    for (index, line) in page.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title, line: index + 1, tests: String::new() });
        }
        is_of_tests = line.starts_with("Tests:") || (is_of_tests && !line.is_empty());
        if let Some(section) = sections.last_mut().filter(|_| is_of_tests) {
            section.tests.push_str(line);
            section.tests.push(' ');
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{source, workspace};

    #[test]
    fn a_section_without_its_tests_is_found() {
        let check = |page: &str, expected: &[&str]| {
            let text = "#[test]\nfn golden_bytes() {}\nfn helper() {}\n";
            let paths = ["storage-engine/commitlog/src/a.rs", "server/wire/src/a.rs"];
            let sources = paths.map(|path| source(path, text));
            let mut tree = workspace(vec![], sources.into());
            tree.formats = page.to_owned();
            let found: Vec<String> =
                name_their_tests(&tree).iter().map(|v| v.fact.clone()).collect();
            assert_eq!(found, expected, "{page}");
        };
        let file = "`commitlog/src/a.rs`";
        check(&format!("# F\n## A\nTests: {file}\n(`golden_bytes`).\n\n`x`\n"), &[]);
        check(&format!("## A\nTests: {file}.\n"), &[]);
        check("## A\nTests: `storage-engine/commitlog/src/a.rs` (`golden_bytes`)\n", &[]);
        check("", &["is missing or empty"]);
        check(&format!("## A\n`x`\n## B\nTests: {file}\n"), &["A: names no test"]);
        check(&format!("## A\nTests: {file} (`helper`)\n"), &["A: no test `helper` there"]);
        check(
            "## A\nTests: `log/src/a.rs` (`golden_bytes`)\n",
            &["A: no file `log/src/a.rs`", "A: no test `golden_bytes` there"],
        );
        check("## A\nTests: `src/a.rs` (`golden_bytes`)\n", &["A: 2 files are called `src/a.rs`"]);
    }
}
