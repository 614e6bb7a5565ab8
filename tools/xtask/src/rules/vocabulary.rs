//! Which words may be spoken where: wire types and serde stop at the edges.
//!
//! Owns the lists of the places. Only code counts, not comments or strings.

use crate::report::Violation;
use crate::rules::text;
use crate::workspace::{DependencyKind, Member, Workspace};

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

/// What `wire` has besides messages: the buffers that bytes arrive in may be kept by whoever owns a core.
const FRAMING: [&str; 4] = ["BufferPool", "FrameDecoder", "FrameError", "FrameLimits"];

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
    named_elsewhere(workspace, &["wire"], &WIRE_MAY_BE_NAMED, &FRAMING)
}

/// A derived format changes when a field is renamed: never for bytes that stay.
pub(crate) fn serde_stops_at_the_edges(workspace: &Workspace) -> Vec<Violation> {
    let mut found = named_elsewhere(workspace, &["serde", "serde_json"], &SERDE_MAY_BE_NAMED, &[]);
    // A crate that has serde for its tests alone cannot name it elsewhere: the compiler sees to that.
    found.retain(|violation| !has_serde_for_tests_alone(workspace, &violation.place));
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

fn has_serde_for_tests_alone(workspace: &Workspace, place: &str) -> bool {
    let is_its_place = |member: &&Member| place.starts_with(&format!("{}/", member.folder));
    let Some(member) = workspace.members.iter().find(is_its_place) else { return false };
    let mut needs = member.dependencies.iter().filter(|needed| needed.name.starts_with("serde"));
    needs.all(|needed| needed.kind == DependencyKind::Dev)
}

/// Paths (`word::`) outside `places` that lead to anything but `free`; files of tests are free altogether.
fn named_elsewhere(
    workspace: &Workspace,
    words: &[&str],
    places: &[&str],
    free: &[&str],
) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        let is_place = places.iter().any(|place| source.path.starts_with(place));
        if is_place || is_test_file(&source.path) {
            continue;
        }
        for (index, line) in text::code(&source.text).lines().enumerate() {
            for word in words {
                if named_things(line, word).any(|thing| !free.contains(&thing)) {
                    found.push(Violation::at(&source.path, index + 1, format!("names {word}::")));
                }
            }
        }
    }
    found
}

/// What `line` names of the crate `word`: `A` and `B` of `word::A` and `word::{A, B}`; an empty name where a list goes on
/// in the next line. Not what `crate::word::` leads to.
fn named_things<'a>(line: &'a str, word: &str) -> impl Iterator<Item = &'a str> {
    let path = format!("{word}::");
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let starts: Vec<usize> = line.match_indices(path.as_str()).map(|(start, _)| start).collect();
    starts.into_iter().flat_map(move |start| {
        let before = &line[..start];
        let parent = before.strip_suffix("::").unwrap_or_default();
        if before.ends_with(is_part) || parent.ends_with(is_part) {
            return Vec::new();
        }
        let after = &line[start + path.len()..];
        let list = after.strip_prefix('{').map(|list| list.split('}').next().unwrap_or(list));
        match list {
            Some(list) => list.split(',').map(first_name).collect(),
            None => vec![first_name(after)],
        }
    })
}

fn first_name(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_');
    &text[..end.unwrap_or(text.len())]
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
    fn framing_may_be_kept_and_messages_may_not() {
        let check = |text: &str, expected: usize| {
            let tree = workspace(vec![], vec![source("server/broker/src/shard/mod.rs", text)]);
            assert_eq!(wire_stops_at_the_edges(&tree).len(), expected, "{text}");
        };
        check("use wire::{BufferPool, FrameLimits};", 0);
        check("fn f(pool: &wire::BufferPool) {}", 0);
        check("use wire::{BufferPool, ErrorCode};", 1);
        check("use wire::{\n    BufferPool,\n    ErrorCode,\n};", 1);
        check("use wire::fetch::FetchRequest;", 1);
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
        let text = "use serde_json::Value;";
        let sources = ["server/wire/src/json.rs", "replication/cluster/src/json.rs"];
        let sources = sources.map(|path| source(path, text)).to_vec();
        assert_eq!(
            facts(&serde_stops_at_the_edges(&workspace(members, sources))),
            [
                "replication/cluster/src/json.rs:1: names serde_json::",
                "replication/cluster/Cargo.toml: links serde",
            ]
        );
    }
}
