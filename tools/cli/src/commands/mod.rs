//! The commands, one file each: arguments, help and examples beside what they do.
//!
//! Owns what they share: the executor that a command runs on.

pub(crate) mod apis;
pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod doctor;
pub(crate) mod host;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod offsets;
pub(crate) mod produce;
pub(crate) mod records;
pub(crate) mod self_test;
pub(crate) mod serve;
pub(crate) mod signals;
pub(crate) mod top;
pub(crate) mod topic;
pub(crate) mod tune;
pub(crate) mod version;

use std::future::Future;
use std::path::Path;

use node::{CorePlatform, GlommioDisk};

use crate::ClusterArgs;
use crate::client::{Client, ClientOptions};
use crate::exit::{Exit, Failure, Outcome};

/// Runs `body` with a client that has not connected yet.
pub(crate) fn with_client<T>(
    cluster: &ClusterArgs,
    body: impl AsyncFnOnce(&mut Client<CorePlatform>) -> Outcome<T>,
) -> Outcome<T> {
    with_options(cluster.options()?, body)
}

/// [`with_client`], from options that are read already.
pub(crate) fn with_options<T>(
    options: ClientOptions,
    body: impl AsyncFnOnce(&mut Client<CorePlatform>) -> Outcome<T>,
) -> Outcome<T> {
    // A client touches no file: the disk that a platform has is rooted where nothing is looked for.
    run(Path::new("."), async |platform| body(&mut Client::new(platform, options)).await)
}

/// Runs `body` on an executor of its own, with a disk rooted at `root`.
pub(crate) fn run<T>(
    root: &Path,
    body: impl AsyncFnOnce(CorePlatform) -> Outcome<T>,
) -> Outcome<T> {
    let platform = async { CorePlatform::new(GlommioDisk::new(root)) };
    local(async { body(platform.await).await })
}

fn local<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let ran = node::run_local(future);
    ran.unwrap_or_else(|error| {
        let next =
            "io_uring must be allowed and the limit of locked memory (ulimit -l) 512 KiB at least";
        Err(Failure::new(Exit::Io, error.to_string()).advise(next))
    })
}

/// Text that stands between fields: shells make it hard to type a tab, so `\t`, `\n` and `\\` stand for what they do elsewhere.
pub(crate) fn parse_separator(text: &str) -> Result<String, String> {
    let mut separator = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        separator.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('\\') => '\\',
                _ => return Err("behind \\ there must be t, n or \\".to_owned()),
            },
            character => character,
        });
    }
    if separator.is_empty() {
        return Err("must not be empty".to_owned());
    }
    Ok(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_as_people_type_them() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_separator(text).as_deref(), Ok(expected), "{text}");
        };
        check(":", ":");
        check("=>", "=>");
        check("\\t", "\t");
        check("\t", "\t");
        check("a\\\\b\\n", "a\\b\n");
        for text in ["", "\\", "\\x"] {
            assert!(parse_separator(text).is_err(), "{text}");
        }
    }
}
