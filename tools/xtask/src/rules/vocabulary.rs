//! Which words may be spoken where: wire types and serde stop at the edges.
//!
//! Owns the lists of the places. Only code counts, not comments or strings.

use crate::report::Violation;
use crate::rules::text;
use crate::workspace::{DependencyKind, Workspace};

/// Where a Kafka message may be named: its own crate, the broker's edges, and programs that are clients.
const WIRE_MAY_BE_NAMED: [&str; 7] = [
    "server/wire/",
    "server/broker/src/connection",
    "server/broker/src/handlers",
    "server/broker/src/peer",
    "server/broker/src/error_code",
    "tools/",
    "benches/",
];

/// Where serde may be named: what people read and write, never what outlives the process.
const SERDE_MAY_BE_NAMED: [&str; 5] = [
    "server/broker/src/config",
    "server/broker/src/admin",
    "server/console/",
    "tools/",
    "benches/",
];

/// Crates that hold such a place, and so may link serde.
const SERDE_MAY_BE_LINKED: [&str; 2] = ["server/broker", "server/console"];

/// Cores and logs have request types of their own.
pub(crate) fn wire_stops_at_the_edges(workspace: &Workspace) -> Vec<Violation> {
    named_elsewhere(workspace, &["wire"], &WIRE_MAY_BE_NAMED)
}

/// A derived format changes when a field is renamed: never for bytes that stay.
pub(crate) fn serde_stops_at_the_edges(workspace: &Workspace) -> Vec<Violation> {
    let mut found = named_elsewhere(workspace, &["serde", "serde_json"], &SERDE_MAY_BE_NAMED);
    for member in &workspace.members {
        let is_client =
            member.folder.starts_with("tools/") || member.folder.starts_with("benches/");
        if is_client || SERDE_MAY_BE_LINKED.contains(&member.folder.as_str()) {
            continue;
        }
        for dependency in &member.dependencies {
            let is_serde = dependency.name == "serde" || dependency.name == "serde_json";
            if is_serde && dependency.kind != DependencyKind::Dev {
                let place = format!("{}/Cargo.toml", member.folder);
                found.push(Violation::new(place, format!("links {}", dependency.name)));
            }
        }
    }
    found
}

/// Paths (`word::`) and imports (`use word;`) outside `places`; files of tests are free.
fn named_elsewhere(workspace: &Workspace, words: &[&str], places: &[&str]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let is_place = places.iter().any(|place| source.path.starts_with(place));
        if is_place || is_test_file(&source.path) {
            continue;
        }
        for (index, line) in text::code(&source.text).lines().enumerate() {
            for word in words {
                if names_crate(line, word) {
                    found.push(Violation::at(&source.path, index + 1, format!("names {word}::")));
                }
            }
        }
    }
    found
}

/// `word::x` with nothing before it but an operator, a keyword or another crate root: not `crate::word::x`.
fn names_crate(line: &str, word: &str) -> bool {
    let path = format!("{word}::");
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(path.as_str()).any(|(start, _)| {
        let before = &line[..start];
        let is_inner = before.ends_with("::") && !before.trim_end_matches("::").is_empty();
        let is_inner = is_inner && before.trim_end_matches("::").ends_with(is_part);
        !is_inner && !before.chars().next_back().is_some_and(is_part)
    })
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{member, source, workspace};
    use crate::workspace::Dependency;

    fn facts(found: &[Violation]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn wire_types_in_a_core_are_found() {
        let text =
            "//! wire::doc\nuse wire::ErrorCode;\nfn f(x: ::wire::A) {}\nuse crate::wire::B;\n";
        let check = |path: &str, expected: &[&str]| {
            let tree = workspace(vec![], vec![source(path, text)]);
            assert_eq!(facts(&wire_stops_at_the_edges(&tree)), expected, "{path}");
        };
        check("server/broker/src/handlers/produce.rs", &[]);
        check("tools/cli/src/client/mod.rs", &[]);
        check("server/broker/src/shard/tests.rs", &[]);
        check(
            "server/broker/src/shard/mod.rs",
            &[
                "server/broker/src/shard/mod.rs:2: names wire::",
                "server/broker/src/shard/mod.rs:3: names wire::",
            ],
        );
    }

    #[test]
    fn serde_in_a_format_is_found() {
        let text = "use serde::Serialize;\n#[derive(serde_json::Thing)]\n";
        let check = |path: &str, expected: &[&str]| {
            let tree = workspace(vec![], vec![source(path, text)]);
            assert_eq!(facts(&serde_stops_at_the_edges(&tree)), expected, "{path}");
        };
        check("server/broker/src/config/mod.rs", &[]);
        check(
            "storage-engine/commitlog/src/checkpoint.rs",
            &[
                "storage-engine/commitlog/src/checkpoint.rs:1: names serde::",
                "storage-engine/commitlog/src/checkpoint.rs:2: names serde_json::",
            ],
        );
    }

    #[test]
    fn serde_linked_below_the_edges_is_found_unless_for_tests() {
        let mut tested = member("server/wire", &[]);
        tested
            .dependencies
            .push(Dependency { name: "serde_json".into(), kind: DependencyKind::Dev });
        let members = vec![tested, member("replication/cluster", &["serde"])];
        assert_eq!(
            facts(&serde_stops_at_the_edges(&workspace(members, vec![]))),
            ["replication/cluster/Cargo.toml: links serde"]
        );
    }
}
