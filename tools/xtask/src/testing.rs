//! Small workspaces for the rules' tests: right ones, to be spoilt in one place.
//!
//! Owns the builders only.

use crate::workspace::{Dependency, DependencyKind, Member, Source, Workspace};

/// A member that follows every rule and needs `dependencies`.
pub(crate) fn member(folder: &str, dependencies: &[&str]) -> Member {
    let name = folder.rsplit('/').next().unwrap().to_owned();
    let manifest = format!("[package]\nname = \"{name}\"\n\n[lints]\nworkspace = true\n");
    let dependencies = dependencies
        .iter()
        .map(|name| Dependency { name: (*name).to_owned(), kind: DependencyKind::Normal })
        .collect();
    Member { name, folder: folder.to_owned(), manifest, dependencies }
}

/// A source file.
pub(crate) fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

/// A workspace of these parts.
pub(crate) fn workspace(members: Vec<Member>, sources: Vec<Source>) -> Workspace {
    Workspace { members, sources, ..Workspace::default() }
}
