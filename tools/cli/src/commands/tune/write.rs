//! What was proposed, put into a configuration file, and taken out of it again.
//!
//! Owns the file while it is changed: the old one is kept beside it, the new one replaces it in one step, and it is checked as
//! `serve` would before that. Comments, the order of lines and every other option stay as they are.

use std::fs;
use std::path::{Path, PathBuf};

use broker::config::{Config, Sources};
use toml_edit::{DocumentMut, Item, Key, Table, TableLike};

use super::proposal::{Proposal, Value};
use crate::exit::{Exit, Failure, Outcome};
use crate::replace::{self, beside, sync_parent, write_like};

/// What stands before an option that was not there.
const COMMENT: &str = "# Proposed by corelog tune.\n";
/// Behind the name of the file as it was before.
const BEFORE: &str = ".before-tune";
/// Behind the name of what an undo takes out.
const UNDONE: &str = ".undone-tune";

/// Whether there is such a file, and it can be replaced: asked before minutes are spent on what goes into it.
pub(super) fn check(path: &Path) -> Outcome {
    crate::commands::config::read_file(path)?;
    replace::check(path)
}

/// Puts the proposals into the file; gives where the old one is kept. `None`: the file has them already, and what is kept of it
/// stays, since it is what an undo is for.
pub(super) fn write(path: &Path, proposals: &[Proposal]) -> Outcome<Option<PathBuf>> {
    let path = real(path)?;
    let old = crate::commands::config::read_file(&path)?;
    let new = edited(&old, proposals).map_err(|fact| {
        Failure::new(Exit::Usage, format!("{}: {fact}", path.display()))
            .advise("corelog config check says what is wrong with the file")
    })?;
    let file = Some((path.display().to_string(), new.clone()));
    let checked = Config::load(&Sources { file, ..Sources::default() });
    checked.map_err(|errors| crate::commands::config::failure_of(&errors))?;
    if new == old {
        return Ok(None);
    }
    let before = beside(&path, BEFORE);
    write_like(&before, old.as_bytes(), &path)?;
    replace::replace(&path, new.as_bytes())?;
    Ok(Some(before))
}

/// Puts the file back as it was before the last [`write`]; gives where what was there now is kept.
pub(super) fn undo(path: &Path) -> Outcome<PathBuf> {
    let path = real(path)?;
    let (before, undone) = (beside(&path, BEFORE), beside(&path, UNDONE));
    if !before.exists() {
        let fact = format!("{}: not there, so nothing can be undone", before.display());
        return Err(Failure::new(Exit::Refused, fact)
            .advise("name the file that corelog tune --write was given"));
    }
    let failed = |at: &Path, error: std::io::Error| Failure::io(at.display(), &error);
    // What was changed since then by hand is kept.
    let now = crate::commands::config::read_file(&path)?;
    write_like(&undone, now.as_bytes(), &path)?;
    fs::rename(&before, &path).map_err(|error| failed(&path, error))?;
    sync_parent(&path).map_err(|error| failed(&path, error))?;
    Ok(undone)
}

/// Where links lead: the file itself is replaced, not a link to it.
fn real(path: &Path) -> Outcome<PathBuf> {
    path.canonicalize().map_err(|error| Failure::io(path.display(), &error))
}

/// The text with the proposals in it. Errors: it is no TOML, or has something else under the name of one.
fn edited(text: &str, proposals: &[Proposal]) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let mut is_first = true;
    for proposal in proposals {
        let words: Vec<&str> = proposal.key.split('.').collect();
        let value = match &proposal.value {
            Value::Number(number) => toml_edit::Value::from(*number),
            Value::Word(word) => toml_edit::Value::from(*word),
        };
        match find(document.as_table_mut(), &words) {
            Some(item) => {
                let old =
                    item.as_value_mut().ok_or_else(|| format!("{} is a table", proposal.key))?;
                let decor = old.decor().clone();
                *old = value;
                *old.decor_mut() = decor;
            }
            None => {
                insert(document.as_table_mut(), &words, value, is_first);
                is_first = false;
            }
        }
    }
    Ok(document.to_string())
}

/// The item of a key however the file spells it: `a.b.c`, `[a] b.c`, `"a.b".c`: all are one key.
fn find<'t>(table: &'t mut dyn TableLike, words: &[&str]) -> Option<&'t mut Item> {
    let taken = (1..=words.len()).find(|taken| {
        let (name, rest) = words.split_at(*taken);
        table.get(&name.join(".")).is_some_and(|item| holds(item, rest))
    })?;
    let (name, rest) = words.split_at(taken);
    let item = table.get_mut(&name.join("."))?;
    if rest.is_empty() {
        return Some(item);
    }
    find(item.as_table_like_mut()?, rest)
}

fn holds(item: &Item, words: &[&str]) -> bool {
    if words.is_empty() {
        return true;
    }
    let Some(table) = item.as_table_like() else { return false };
    (1..=words.len()).any(|taken| {
        let (name, rest) = words.split_at(taken);
        table.get(&name.join(".")).is_some_and(|item| holds(item, rest))
    })
}

/// Adds a key that is not there: into the table that begins it, or before all tables.
fn insert(table: &mut Table, words: &[&str], value: toml_edit::Value, is_commented: bool) {
    let Some((word, rest)) = words.split_first() else { return };
    let comment = if is_commented { COMMENT } else { "" };
    if rest.is_empty() {
        let mut key = Key::new(*word);
        key.leaf_decor_mut().set_prefix(comment);
        table.insert_formatted(&key, Item::Value(value));
        return;
    }
    if let Some(Item::Table(inner)) = table.get_mut(word) {
        insert(inner, rest, value, is_commented);
        return;
    }
    let mut inner = Table::new();
    inner.set_dotted(true);
    insert(&mut inner, rest, value, is_commented);
    table.insert(word, Item::Table(inner));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn proposals() -> Vec<Proposal> {
        let of = |key, value| Proposal { key, value, why: String::new() };
        vec![
            of("shards", Value::Number(2)),
            of("advertise", Value::Word("core")),
            of("io.memory.bytes", Value::Number(67_108_864)),
        ]
    }

    /// What a node would go by, of a text.
    fn loaded(text: &str) -> Vec<(String, String)> {
        let sources =
            Sources { file: Some(("f".to_owned(), text.to_owned())), ..Sources::default() };
        let config =
            Config::load(&sources).unwrap_or_else(|errors| panic!("{errors:?} in\n{text}"));
        let settings = config.settings.iter();
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        settings.map(|(key, setting)| ((*key).to_owned(), text(&setting.value))).collect()
    }

    fn check(text: &str) -> String {
        let new = edited(text, &proposals()).unwrap();
        let set = loaded(&new);
        for (key, value) in
            [("shards", "2"), ("advertise", "core"), ("io.memory.bytes", "67108864")]
        {
            assert!(set.contains(&(key.to_owned(), value.to_owned())), "{key} in\n{new}");
        }
        for line in text.lines() {
            let is_changed =
                ["shards", "advertise", "1048576"].iter().any(|old| line.contains(old));
            assert!(is_changed || new.contains(line), "{line} is lost in\n{new}");
        }
        assert_eq!(edited(&new, &proposals()).unwrap(), new, "a second time changes nothing");
        new
    }

    #[test]
    fn options_are_set_where_they_stand_and_comments_stay() {
        let text = "# Who.\nnode.id = 3 # mine\n\nshards = \"auto\" # all of them\nadvertise=\"node\"\n\
                    # Memory.\nio.memory.bytes = 1048576\nio.ring.depth = 256\n\n[[listeners]]\n\
                    name = \"A\"\nbind = \"127.0.0.1:9092\" # here\n";
        let new = check(text);
        assert!(new.contains("shards = 2 # all of them\nadvertise=\"core\"\n# Memory.\n"), "{new}");
        assert!(!new.contains(COMMENT), "{new}");
    }

    #[test]
    fn options_that_are_not_there_come_before_all_tables() {
        check("");
        check("# Only a comment.\n");
        let new = check(
            "node.id = 3\n\n# Ways in.\n[[listeners]]\nname = \"A\"\nbind = \"127.0.0.1:9092\"\n",
        );
        assert!(new.find("shards").unwrap() < new.find("[[listeners]]").unwrap(), "{new}");
        assert_eq!(new.matches(COMMENT).count(), 1, "{new}");
        check(include_str!("../../../../../docs/corelog.toml"));
    }

    #[test]
    fn every_spelling_of_a_key_is_the_key() {
        check("[io]\nmemory.bytes = 1048576\n");
        check("[io.memory]\nbytes = 1048576 # few\n");
        check("\"io.memory.bytes\" = 1048576\n");
        check("[io]\n\"memory.bytes\" = 1048576\n");
        check("io = { memory = { bytes = 1048576 } }\n");
        check("[io]\nring.depth = 256\n");
        check("[io]\n# nothing yet\n[io.ring]\ndepth = 256\n");
    }

    #[test]
    fn what_is_no_configuration_is_not_written_to() {
        assert!(edited("shards = ", &proposals()).is_err());
        assert!(edited("[shards]\nx = 1\n", &proposals()).is_err());
    }

    #[test]
    fn the_old_file_is_kept_and_comes_back() {
        let directory =
            std::env::temp_dir().join(format!("corelog-tune-write-{}", std::process::id()));
        drop(fs::remove_dir_all(&directory));
        fs::create_dir(&directory).unwrap();
        let (path, link) = (directory.join("node.toml"), directory.join("link.toml"));
        let old = "shards = 1 # one\n";
        fs::write(&path, old).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let text = |path: &Path| fs::read_to_string(path).unwrap();

        assert!(undo(&path).is_err(), "nothing to undo");
        let before = write(&link, &proposals()).unwrap().expect("it was changed");
        assert_eq!(text(&before), old);
        assert_eq!(write(&link, &proposals()).unwrap(), None, "it has them");
        assert_eq!(text(&before), old, "what an undo brings back stays");
        assert!(text(&path).contains("shards = 2 # one") && link.is_symlink());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);

        let undone = undo(&path).unwrap();
        assert_eq!(text(&path), old);
        assert!(text(&undone).contains("shards = 2"), "what was there is kept");
        assert!(!before.exists() && undo(&path).is_err());
        fs::write(&path, "shards = 0\n").unwrap();
        let wrong =
            Proposal { key: "advertise", value: Value::Word("nowhere"), why: String::new() };
        assert!(write(&path, &[wrong]).is_err(), "a file that serve refuses");
        assert_eq!(text(&path), "shards = 0\n");
        let left = fs::read_dir(&directory).unwrap().count();
        assert_eq!(left, 3, "nothing temporary is left");
        fs::remove_dir_all(&directory).unwrap();
    }
}
