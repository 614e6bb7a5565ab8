//! Who may need whom: layers, siblings, the one runtime, and the walls round the pure crates.
//!
//! Owns the lists of pure crates and of what they may link. Direct dependencies suffice: every member is judged itself.

use crate::report::Violation;
use crate::rules::text;
use crate::workspace::{DependencyKind, Layer, Member, Workspace};

/// Crates that must not be able to name a clock, file, socket, thread or randomly ordered map.
const PURE: [&str; 7] =
    ["record", "quorum", "cluster", "partition", "groups", "transactions", "wire"];

/// What a pure crate may link besides pure crates: no_std themselves, or (crc-fast, snap) known not to reach outside.
const PURE_MAY_LINK: [&str; 8] =
    ["bytes", "crc-fast", "flate2", "lz4_flex", "noraft", "snap", "thiserror", "zstd-safe"];

/// The only crate that names the runtime, so that it can be replaced.
const RUNTIME_FOLDER: &str = "server/node";
const RUNTIME: &str = "glommio";

/// Runtimes that would bring threads and timers of their own beside ours.
const OTHER_RUNTIMES: [&str; 6] = ["async-std", "compio", "monoio", "smol", "tokio", "tokio-uring"];

/// Layers: no dependency, of tests and build scripts neither, leads to a higher folder.
pub(crate) fn point_down(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for member in &workspace.members {
        for needed in needed_members(workspace, member) {
            let layers = (Layer::of(&member.folder), Layer::of(&needed.folder));
            if let (Some(own), Some(other)) = layers
                && other > own
            {
                found.push(manifest_violation(member, format!("needs {}", needed.folder)));
            }
        }
    }
    found
}

/// Siblings in replication/ never meet.
pub(crate) fn replication_has_no_siblings(workspace: &Workspace) -> Vec<Violation> {
    let is_core = |member: &Member| Layer::of(&member.folder) == Some(Layer::Replication);
    let mut found = Vec::new();
    for member in workspace.members.iter().filter(|member| is_core(member)) {
        for needed in needed_members(workspace, member).filter(|needed| is_core(needed)) {
            found.push(manifest_violation(member, format!("needs its sibling {}", needed.name)));
        }
    }
    found
}

/// A crate is found by its name, lies in a layer, and takes part in the workspace's lints.
pub(crate) fn members_are_named_like_folders(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for member in &workspace.members {
        let folder = member.folder.rsplit('/').next().unwrap_or_default();
        if folder != member.name {
            found.push(manifest_violation(member, format!("is called {}", member.name)));
        }
        if Layer::of(&member.folder).is_none() {
            found.push(manifest_violation(member, "lies in no layer".to_owned()));
        }
        if !has_workspace_lints(&member.manifest) {
            found.push(manifest_violation(member, "has lints of its own, or none".to_owned()));
        }
    }
    found
}

/// One crate names the runtime; nobody brings a second.
pub(crate) fn one_runtime(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for member in &workspace.members {
        for dependency in &member.dependencies {
            let name = dependency.name.as_str();
            let is_misplaced = name == RUNTIME && member.folder != RUNTIME_FOLDER;
            if is_misplaced || OTHER_RUNTIMES.contains(&name) {
                found.push(manifest_violation(member, format!("needs {name}")));
            }
        }
    }
    found
}

/// The attributes that bind a pure crate, and what it links.
pub(crate) fn pure_crates_are_pure(workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_pure = |member: &&Member| PURE.contains(&member.name.as_str());
    for member in workspace.members.iter().filter(is_pure) {
        let root = format!("{}/src/lib.rs", member.folder);
        let root_text = workspace.sources.iter().find(|source| source.path == root);
        let root_code = root_text.map(|source| text::code(&source.text)).unwrap_or_default();
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !root_code.lines().any(|line| line.trim() == attribute) {
                found.push(Violation::new(&root, format!("lacks {attribute}")));
            }
        }
        for source in workspace.sources_of(member) {
            found.extend(unguarded_std(&source.path, &source.text));
        }
        for dependency in &member.dependencies {
            let name = dependency.name.as_str();
            let is_harmless = PURE.contains(&name) || PURE_MAY_LINK.contains(&name);
            if dependency.kind == DependencyKind::Normal && !is_harmless {
                found.push(manifest_violation(member, format!("links {name}")));
            }
        }
    }
    found
}

/// `extern crate std` undoes `no_std`; it may only stand behind `#[cfg(test)]`.
fn unguarded_std(path: &str, source: &str) -> Vec<Violation> {
    let code = text::code(source);
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let guard = index.checked_sub(1).and_then(|before| lines.get(before));
        if line.starts_with("extern crate std") && guard != Some(&"#[cfg(test)]") {
            found.push(Violation::at(path, index + 1, "brings std back"));
        }
    }
    found
}

fn needed_members<'a>(
    workspace: &'a Workspace,
    member: &'a Member,
) -> impl Iterator<Item = &'a Member> {
    member.dependencies.iter().filter_map(|dependency| {
        workspace.members.iter().find(|candidate| candidate.name == dependency.name)
    })
}

fn has_workspace_lints(manifest: &str) -> bool {
    let parsed: Result<toml::Table, _> = toml::from_str(manifest);
    let lints = parsed.ok().and_then(|table| table.get("lints")?.get("workspace")?.as_bool());
    lints == Some(true)
}

fn manifest_violation(member: &Member, fact: String) -> Violation {
    Violation::new(format!("{}/Cargo.toml", member.folder), fact)
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
    fn an_arrow_up_is_found_in_tests_too() {
        let members = vec![
            member("server/wire", &["record"]),
            member("storage-engine/record", &[]),
            member("tools/sim", &["record", "wire"]),
        ];
        let mut tree = workspace(members, vec![]);
        assert_eq!(point_down(&tree), []);
        tree.members[1]
            .dependencies
            .push(Dependency { name: "sim".into(), kind: DependencyKind::Dev });
        assert_eq!(
            facts(&point_down(&tree)),
            ["storage-engine/record/Cargo.toml: needs tools/sim"]
        );
    }

    #[test]
    fn siblings_are_found() {
        let members = vec![
            member("replication/cluster", &["partition"]),
            member("replication/partition", &["record"]),
            member("storage-engine/record", &[]),
        ];
        assert_eq!(
            facts(&replication_has_no_siblings(&workspace(members, vec![]))),
            ["replication/cluster/Cargo.toml: needs its sibling partition"]
        );
    }

    #[test]
    fn a_wrong_name_a_wrong_folder_and_missing_lints_are_found() {
        let mut renamed = member("server/wire", &[]);
        renamed.name = "kafka-wire".into();
        let mut lax = member("server/node", &[]);
        lax.manifest = "[lints.rust]\nunsafe_code = \"allow\"".into();
        let members = vec![renamed, lax, member("lib/misc", &[]), member("tools/cli", &[])];
        assert_eq!(
            facts(&members_are_named_like_folders(&workspace(members, vec![]))),
            [
                "server/wire/Cargo.toml: is called kafka-wire",
                "server/node/Cargo.toml: has lints of its own, or none",
                "lib/misc/Cargo.toml: lies in no layer",
            ]
        );
    }

    #[test]
    fn the_runtime_outside_node_and_a_second_one_are_found() {
        let members = vec![
            member("server/node", &["glommio"]),
            member("server/broker", &["glommio"]),
            member("tools/cli", &["tokio"]),
        ];
        assert_eq!(
            facts(&one_runtime(&workspace(members, vec![]))),
            ["server/broker/Cargo.toml: needs glommio", "tools/cli/Cargo.toml: needs tokio"]
        );
    }

    #[test]
    fn an_impure_crate_is_found() {
        let lib = "storage-engine/record/src/lib.rs";
        let pure =
            "//! Doc.\n#![no_std]\n#![forbid(unsafe_code)]\n#[cfg(test)]\nextern crate std;\n";
        let check = |text: &str, dependencies: &[&str], expected: &[&str]| {
            let members = vec![member("storage-engine/record", dependencies)];
            let tree = workspace(members, vec![source(lib, text)]);
            assert_eq!(facts(&pure_crates_are_pure(&tree)), expected, "{text}");
        };
        check(pure, &["bytes", "wire"], &[]);
        check(
            pure,
            &["rand", "commitlog"],
            &[
                "storage-engine/record/Cargo.toml: links rand",
                "storage-engine/record/Cargo.toml: links commitlog",
            ],
        );
        check(
            "//! #![no_std]\n#![forbid(unsafe_code)]",
            &[],
            &["storage-engine/record/src/lib.rs: lacks #![no_std]"],
        );
        check(
            "#![no_std]\n#![forbid(unsafe_code)]\nextern crate std;",
            &[],
            &["storage-engine/record/src/lib.rs:3: brings std back"],
        );
    }
}
