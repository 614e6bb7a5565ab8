//! The repository as the rules see it: crates with their direct dependencies, and source files with their text.
//!
//! Owns the reading of `cargo metadata` and of the tree. It never judges: a rule is a function of a [`Workspace`], so
//! that its test can hand it a bad one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The folders that are layers, the floor first; what is not named here does not belong in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// Words, bytes, files.
    StorageEngine,
    /// Pure state machines.
    Replication,
    /// The edges.
    Server,
    /// Programs and measurements.
    Tools,
}

impl Layer {
    /// The layer that a path below the root lies in.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path.split('/').next()? {
            "storage-engine" => Some(Self::StorageEngine),
            "replication" => Some(Self::Replication),
            "server" => Some(Self::Server),
            "tools" | "benches" => Some(Self::Tools),
            _ => None,
        }
    }
}

/// How a crate needs another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    /// In what it ships.
    Normal,
    /// In its build script.
    Build,
    /// In its tests only.
    Dev,
}

/// One line of a `Cargo.toml`.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    /// The package it names.
    pub(crate) name: String,
    /// How.
    pub(crate) kind: DependencyKind,
}

/// One member of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Package name.
    pub(crate) name: String,
    /// Its folder below the root, `/`-separated.
    pub(crate) folder: String,
    /// The text of its `Cargo.toml`.
    pub(crate) manifest: String,
    /// What it needs, directly.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One `.rs` file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Path below the root, `/`-separated.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

/// Everything the rules look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    /// Where the repository lies.
    pub(crate) root: PathBuf,
    /// Members, in the order of their folders.
    pub(crate) members: Vec<Member>,
    /// Sources of the layers, ascending by path.
    pub(crate) sources: Vec<Source>,
    /// Python scripts of the same folders, ascending by path: some pitfalls are covered there.
    pub(crate) scripts: Vec<Source>,
    /// The table that says which test covers which pitfall; empty where the file is missing.
    pub(crate) pitfalls: String,
    /// The page of the formats, which names their tests; empty where the file is missing.
    pub(crate) formats: String,
}

/// Why the repository could not be read.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// A file or folder.
    Read {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// `cargo metadata` did not run or did not answer what we know.
    Metadata {
        /// What it said.
        answer: String,
    },
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(formatter, "{}: {source}", path.display()),
            Self::Metadata { answer } => write!(formatter, "cargo metadata: {answer}"),
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<PackageDependency>,
}

#[derive(Deserialize)]
struct PackageDependency {
    name: String,
    kind: Option<String>,
}

/// The folders whose `.rs` files are ours to judge.
const SOURCE_FOLDERS: [&str; 5] = ["storage-engine", "replication", "server", "tools", "benches"];
/// Deeper than any sensible tree: a loop of links ends here.
const DEPTH_MAX: usize = 12;

impl Workspace {
    /// Reads the repository that this program was built in.
    pub(crate) fn load() -> Result<Self, LoadError> {
        let metadata = metadata()?;
        let root = metadata.workspace_root;
        let mut members = Vec::new();
        for package in metadata.packages {
            members.push(member(&root, package)?);
        }
        members.sort_by(|left, right| left.folder.cmp(&right.folder));
        let sources = read_sources(&root, "rs")?;
        let scripts = read_sources(&root, "py")?;
        let read_if_there = |path: &str| {
            let path = root.join(path);
            if path.is_file() { read(&path) } else { Ok(String::new()) }
        };
        let pitfalls = read_if_there(crate::rules::PITFALLS_FILE)?;
        let formats = read_if_there(crate::rules::FORMATS_FILE)?;
        Ok(Self { root, members, sources, scripts, pitfalls, formats })
    }

    /// Sources below a member's folder.
    pub(crate) fn sources_of(&self, member: &Member) -> impl Iterator<Item = &Source> {
        let prefix = format!("{}/", member.folder);
        self.sources.iter().filter(move |source| source.path.starts_with(&prefix))
    }
}

fn metadata() -> Result<Metadata, LoadError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .map_err(|error| LoadError::Metadata { answer: error.to_string() })?;
    if !output.status.success() {
        let answer = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LoadError::Metadata { answer });
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| LoadError::Metadata { answer: error.to_string() })
}

fn member(root: &Path, package: Package) -> Result<Member, LoadError> {
    let folder = package.manifest_path.parent().unwrap_or(root);
    let dependencies = package
        .dependencies
        .into_iter()
        .map(|dependency| Dependency {
            name: dependency.name,
            kind: match dependency.kind.as_deref() {
                Some("dev") => DependencyKind::Dev,
                Some("build") => DependencyKind::Build,
                _ => DependencyKind::Normal,
            },
        })
        .collect();
    Ok(Member {
        name: package.name,
        folder: below(root, folder),
        manifest: read(&package.manifest_path)?,
        dependencies,
    })
}

/// Every file of the layers whose name ends in `extension`, ascending by path.
fn read_sources(root: &Path, extension: &str) -> Result<Vec<Source>, LoadError> {
    let mut paths = Vec::new();
    for folder in SOURCE_FOLDERS {
        if root.join(folder).is_dir() {
            collect(&root.join(folder), extension, DEPTH_MAX, &mut paths)?;
        }
    }
    paths.sort();
    let load = |path: &PathBuf| Ok(Source { path: below(root, path), text: read(path)? });
    paths.iter().map(load).collect()
}

fn collect(
    folder: &Path,
    extension: &str,
    depth_left: usize,
    paths: &mut Vec<PathBuf>,
) -> Result<(), LoadError> {
    let failed = |source| LoadError::Read { path: folder.to_path_buf(), source };
    if depth_left == 0 {
        return Err(failed(io::Error::other("folders nest too deeply")));
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        if kind.is_dir() {
            if entry.file_name() != "target" {
                collect(&path, extension, depth_left - 1, paths)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    Ok(())
}

fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn read(path: &Path) -> Result<String, LoadError> {
    std::fs::read_to_string(path)
        .map_err(|source| LoadError::Read { path: path.to_path_buf(), source })
}
