//! Whether a directory that is no data directory of ours may become one.
//!
//! Owns the judgement of names and of `meta.properties` before anything is written: another program's data, Apache Kafka's above
//! all, is recognised and left as it is. It reads nothing itself, so that it can be asked before the directory is locked.

use crate::checkpoint::CHECKPOINT_DIRECTORY;
use crate::directory::{
    COORDINATOR_DIRECTORY, DELETED_DIRECTORY, DirectoryError, META_FILE, STRAY_DIRECTORY,
    TOPICS_DIRECTORY,
};

/// What we make in a data directory before its identity is there: a first start may have ended between them.
const OWN_DIRECTORIES: [&str; 5] = [
    TOPICS_DIRECTORY,
    CHECKPOINT_DIRECTORY,
    DELETED_DIRECTORY,
    STRAY_DIRECTORY,
    COORDINATOR_DIRECTORY,
];
/// What a mount point brings along: the directory is empty all the same.
const LOST_AND_FOUND: &str = "lost+found";
/// Files that Kafka keeps at the top of each of its log directories.
const KAFKA_NAMES: [&str; 7] = [
    "__cluster_metadata-0",
    "bootstrap.checkpoint",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    ".kafka_cleanshutdown",
];

/// Refuses a directory of another program.
///
/// Shape   `names` are those at the top of the directory, `meta` is its `meta.properties`, if it has one.
/// Errors  [`DirectoryError::Kafka`], and [`DirectoryError::Foreign`] with the first name that is not ours. What is ours and
///         damaged passes: opening it says what is wrong.
pub fn refuse_foreign<'a>(
    names: impl IntoIterator<Item = &'a str>,
    meta: Option<&[u8]>,
) -> Result<(), DirectoryError> {
    let names: Vec<&str> = names.into_iter().collect();
    if meta.is_some_and(names_corelog) {
        return Ok(());
    }
    let is_begun = names.iter().any(|name| OWN_DIRECTORIES.contains(name));
    // Beside what we make, an identity without our lines is ours and damaged, however much it looks like Kafka's.
    let is_kafkas = meta.is_some_and(|meta| !is_begun && names_kafka(meta));
    if is_kafkas || names.iter().any(|name| KAFKA_NAMES.contains(name)) {
        return Err(DirectoryError::Kafka);
    }
    if meta.is_some() || is_begun {
        return Ok(());
    }
    let is_harmless = |name: &str| {
        // Hidden files are the mount's, the shell's and our lock; a name with our prefix is the identity not yet in place.
        name.starts_with('.') || name.starts_with(META_FILE) || name == LOST_AND_FOUND
    };
    match names.into_iter().find(|name| !is_harmless(name)) {
        Some(name) => Err(DirectoryError::Foreign { name: name.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a line of it is ours alone.
pub(crate) fn names_corelog(meta: &[u8]) -> bool {
    meta.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"corelog."))
}

/// Whether it looks like Kafka's: properties that Java writes begin with a comment, and a tool that leaves it out keeps the
/// lines that each version of the file has.
fn names_kafka(meta: &[u8]) -> bool {
    let has = |key: &[u8]| meta.split(|byte| *byte == b'\n').any(|line| line.starts_with(key));
    meta.starts_with(b"#") || (has(b"version=") && (has(b"node.id=") || has(b"broker.id=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, `meta.properties`, and what becomes of them.
    type Row<'a> = (&'a [&'a str], Option<&'a str>, Result<(), DirectoryError>);

    #[test]
    fn an_empty_directory_and_our_own_pass_and_what_others_made_does_not() {
        let ours = "version=1\nnode.id=1\ncorelog.format.version=1\n";
        let kafkas = "#\n#Sun Nov 29 22:06:06 UTC 2026\ncluster.id=x\nnode.id=1\nversion=1\n";
        let foreign = |name: &str| Err(DirectoryError::Foreign { name: name.to_owned() });
        let rows: &[Row<'_>] = &[
            (&[], None, Ok(())),
            (&[".lock", ".probe-7", "lost+found"], None, Ok(())),
            (&[".lock", "meta.properties.tmp"], None, Ok(())),
            (&["topics", "checkpoints"], None, Ok(())),
            (&["topics", "notes.txt"], None, Ok(())),
            (&["meta.properties", "topics", "notes.txt"], Some(ours), Ok(())),
            // Damaged, and for `open_or_create` to judge.
            (&["meta.properties", "topics"], Some(""), Ok(())),
            (&["meta.properties", "topics"], Some("version=1\nnode.id=1\n"), Ok(())),
            (&["meta.properties", "checkpoints"], Some(kafkas), Ok(())),
            (&["meta.properties"], Some(kafkas), Err(DirectoryError::Kafka)),
            (
                &["meta.properties", "orders-0", ".lock"],
                Some("version=1\ncluster.id=x\nnode.id=1\n"),
                Err(DirectoryError::Kafka),
            ),
            (&["meta.properties"], Some("version=0\nbroker.id=1\n"), Err(DirectoryError::Kafka)),
            (
                &["bootstrap.checkpoint", "orders-0"],
                Some("version=1\n"),
                Err(DirectoryError::Kafka),
            ),
            (&["orders-0", "recovery-point-offset-checkpoint"], None, Err(DirectoryError::Kafka)),
            (&["Documents", "topics.txt"], None, foreign("Documents")),
            (&[".bashrc", "base", "PG_VERSION"], None, foreign("base")),
        ];
        for (names, meta, expected) in rows {
            let found = refuse_foreign(names.iter().copied(), meta.map(str::as_bytes));
            assert_eq!(found, *expected, "{names:?} {meta:?}");
        }
    }
}
