//! What every source file keeps to: a module doc, a length that fits a head, no silenced lint, no stray unsafe code.
//!
//! Owns the bounds. Line width is rustfmt's.

use crate::report::Violation;
use crate::rules::text;
use crate::workspace::{Source, Workspace};

/// STYLE: about 600 lines, 1,000 at most.
const LINES_MAX: usize = 1_000;

/// Where unsafe code may stand: the crate that talks to the kernel.
const UNSAFE_FOLDER: &str = "server/node/";

/// The first line is `//!`. Only `foo/tests.rs` may go without: it owns what the doc of `foo` says.
pub(crate) fn open_with_module_doc(workspace: &Workspace) -> Vec<Violation> {
    let lacks =
        |source: &&Source| !source.text.starts_with("//! ") && !source.path.ends_with("/tests.rs");
    workspace
        .sources
        .iter()
        .filter(lacks)
        .map(|source| Violation::at(&source.path, 1, "does not open with `//! `"))
        .collect()
}

/// No file outgrows its reader.
pub(crate) fn are_short(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            found.push(Violation::new(&source.path, format!("{lines} lines")));
        }
    }
    found
}

/// `allow` outlives its cause silently; `expect` complains when the cause is gone.
pub(crate) fn never_allow(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        for (index, line) in text::code(&source.text).lines().enumerate() {
            let is_attribute = line.contains("#[") || line.contains("#![");
            if is_attribute && text::has_word(line, "allow") && line.contains("allow(") {
                found.push(Violation::at(&source.path, index + 1, "allows a lint"));
            }
        }
    }
    found
}

/// Unsafe code has one keeper. Tests may count allocations, which needs an unsafe allocator.
pub(crate) fn unsafe_stays_in_node(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        if source.path.starts_with(UNSAFE_FOLDER) || source.path.contains("/tests/") {
            continue;
        }
        for (index, line) in text::code(&source.text).lines().enumerate() {
            if text::has_word(line, "unsafe") {
                found.push(Violation::at(&source.path, index + 1, "unsafe code"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{source, workspace};

    fn found_in(find: fn(&Workspace) -> Vec<Violation>, path: &str, text: &str) -> Vec<String> {
        let tree = workspace(vec![], vec![source(path, text)]);
        find(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_without_module_doc_is_found() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(found_in(open_with_module_doc, "a.rs", text), expected, "{text}");
        };
        check("//! What it owns.\nfn main() {}", &[]);
        check("fn main() {}", &["a.rs:1: does not open with `//! `"]);
        check("// A comment.\n//! Doc.", &["a.rs:1: does not open with `//! `"]);
        check("", &["a.rs:1: does not open with `//! `"]);
        assert_eq!(found_in(open_with_module_doc, "a/tests.rs", "use super::*;"), [""; 0]);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(found_in(are_short, "a.rs", &"x\n".repeat(1_000)), [] as [&str; 0]);
        assert_eq!(found_in(are_short, "a.rs", &"x\n".repeat(1_001)), ["a.rs: 1001 lines"]);
    }

    #[test]
    fn an_allowed_lint_is_found() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(found_in(never_allow, "a.rs", text), expected, "{text}");
        };
        check("#[expect(dead_code, reason = \"r\")]", &[]);
        check("// #[allow(dead_code)]", &[]);
        check("fn allow(x: u8) {}", &[]);
        check("\n#[allow(dead_code)]", &["a.rs:2: allows a lint"]);
        check("#![allow(clippy::all)]", &["a.rs:1: allows a lint"]);
        check("#[cfg_attr(test, allow(x))]", &["a.rs:1: allows a lint"]);
    }

    #[test]
    fn unsafe_code_outside_node_is_found() {
        let block = "fn f() {\n    unsafe { g() }\n}";
        assert_eq!(found_in(unsafe_stays_in_node, "server/node/src/a.rs", block), [] as [&str; 0]);
        assert_eq!(found_in(unsafe_stays_in_node, "server/wire/tests/a.rs", block), [""; 0]);
        assert_eq!(
            found_in(unsafe_stays_in_node, "server/wire/src/a.rs", block),
            ["server/wire/src/a.rs:2: unsafe code"]
        );
        let words = "#![forbid(unsafe_code)] // unsafe";
        assert_eq!(found_in(unsafe_stays_in_node, "server/wire/src/a.rs", words), [""; 0]);
    }
}
