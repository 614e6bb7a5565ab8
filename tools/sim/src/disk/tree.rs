//! The names of the simulated disk: directories as a process sees them and as a crash leaves them.
//!
//! Owns nodes, directories and the name changes that no directory sync covers yet. At a crash any subset of those is lost,
//! under two rules: a rename is atomic, and changes of one name keep their order. It never touches the bytes of a file.

use std::collections::{BTreeMap, BTreeSet};

use commitlog::{DiskError, DiskResult, EntryKind};

use super::image::{FileImage, Mood};
use crate::prng::Prng;

/// A file or directory, whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(usize);

/// The root directory.
pub(super) const ROOT: NodeId = NodeId(0);

#[derive(Debug)]
pub(super) enum Node {
    File(FileImage),
    Directory(Directory),
    /// Unreachable since a crash.
    Gone,
}

#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) visible: BTreeMap<String, NodeId>,
    durable: BTreeMap<String, NodeId>,
}

/// One name in one directory.
type Slot = (NodeId, String);

/// A change of names that no directory sync covers yet.
#[derive(Debug)]
struct NameChange {
    /// What each slot holds afterwards; two slots for a rename.
    slots: Vec<(Slot, Option<NodeId>)>,
    /// Directories of a rename that were synced since.
    synced: BTreeSet<NodeId>,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    pending: Vec<NameChange>,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::Directory(Directory::default())], pending: Vec::new() }
    }

    pub(super) fn file(&mut self, id: NodeId) -> &mut FileImage {
        match &mut self.nodes[id.0] {
            Node::File(image) => image,
            other => panic!("a file handle to {other:?}: the simulator lost count"),
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Follows `path` from the root.
    pub(super) fn find(&self, path: &str) -> DiskResult<NodeId> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = *self.directory(at)?.visible.get(name).ok_or(DiskError::NotFound)?;
        }
        Ok(at)
    }

    pub(super) fn directory(&self, id: NodeId) -> DiskResult<&Directory> {
        match &self.nodes[id.0] {
            Node::Directory(directory) => Ok(directory),
            _ => Err(DiskError::NotADirectory),
        }
    }

    /// Whether a crash now would leave a directory, and every name in it, as it is.
    pub(super) fn names_last(&self, path: &str) -> bool {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Ok(directory) = self.directory(at) else { return false };
            let Some(next) = directory.visible.get(name) else { return false };
            if directory.durable.get(name) != Some(next) {
                return false;
            }
            at = *next;
        }
        self.directory(at).is_ok_and(|directory| directory.visible == directory.durable)
    }

    /// The directory that holds `path`, and the last component.
    fn slot(&self, path: &str) -> DiskResult<Slot> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(parent)?;
        self.directory(parent)?;
        Ok((parent, name.to_owned()))
    }

    /// Makes a name for a new, empty node.
    pub(super) fn create(&mut self, path: &str, node: Node) -> DiskResult<NodeId> {
        let slot = self.slot(path)?;
        if self.directory(slot.0)?.visible.contains_key(&slot.1) {
            return Err(DiskError::AlreadyExists);
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(node);
        self.change(vec![(slot, Some(id))]);
        Ok(id)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> DiskResult<()> {
        let (source, target) = (self.slot(from)?, self.slot(to)?);
        let id = self.find(from)?;
        let existing = self.directory(target.0)?.visible.get(&target.1).copied();
        let is_file = matches!(self.nodes[id.0], Node::File(_));
        match existing {
            Some(other) if other == id => return Ok(()),
            Some(other) if is_file && matches!(self.nodes[other.0], Node::File(_)) => {}
            Some(_) => return Err(DiskError::AlreadyExists),
            None => {}
        }
        if !is_file && format!("{to}/").starts_with(&format!("{from}/")) {
            return Err(DiskError::Io { errno: EINVAL });
        }
        self.change(vec![(source, None), (target, Some(id))]);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &str) -> DiskResult<()> {
        let id = self.find(path)?;
        if !matches!(self.nodes[id.0], Node::File(_)) {
            return Err(DiskError::NotAFile { found: EntryKind::Directory });
        }
        let slot = self.slot(path)?;
        self.change(vec![(slot, None)]);
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &str) -> DiskResult<()> {
        let id = self.find(path)?;
        if !self.directory(id)?.visible.is_empty() {
            return Err(DiskError::Io { errno: ENOTEMPTY });
        }
        let slot = self.slot(path)?;
        self.change(vec![(slot, None)]);
        Ok(())
    }

    fn change(&mut self, slots: Vec<(Slot, Option<NodeId>)>) {
        for ((directory, name), to) in &slots {
            self.set_visible(*directory, name, *to);
        }
        self.pending.push(NameChange { slots, synced: BTreeSet::new() });
    }

    fn set_visible(&mut self, directory: NodeId, name: &str, to: Option<NodeId>) {
        if let Node::Directory(directory) = &mut self.nodes[directory.0] {
            set(&mut directory.visible, name, to);
        }
    }

    fn set_durable(&mut self, change: &NameChange) {
        for ((directory, name), to) in &change.slots {
            if let Node::Directory(directory) = &mut self.nodes[directory.0] {
                set(&mut directory.durable, name, *to);
            }
        }
    }

    /// Makes the changes of one directory's names lasting. A rename between two directories is sure to last once both are
    /// synced; after one it may last or not, wholly, but never so that a later, synced change of the same name is undone.
    pub(super) fn sync(&mut self, directory: NodeId, prng: &mut Prng) {
        let mut is_wanted: Vec<bool> = Vec::with_capacity(self.pending.len());
        for change in &mut self.pending {
            let touches = change.slots.iter().any(|((at, _), _)| *at == directory);
            if touches {
                change.synced.insert(directory);
            }
            let is_whole = change.slots.iter().all(|((at, _), _)| change.synced.contains(at));
            is_wanted.push(touches && (is_whole || prng.coin()));
        }
        keep_order_of_names(&self.pending, &mut is_wanted);
        for (change, is_lasting) in std::mem::take(&mut self.pending).into_iter().zip(is_wanted) {
            if is_lasting {
                self.set_durable(&change);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// The machine dies. Returns the sectors that torn writes lost.
    pub(super) fn crash(&mut self, mood: Mood, prng: &mut Prng) -> u64 {
        let mut is_kept: Vec<bool> = (0..self.pending.len())
            .map(|_| match mood {
                Mood::LoseAll => false,
                Mood::KeepAll => true,
                Mood::Mixed => prng.coin(),
            })
            .collect();
        keep_order_of_names(&self.pending, &mut is_kept);
        for (change, is_lasting) in std::mem::take(&mut self.pending).into_iter().zip(is_kept) {
            if is_lasting {
                self.set_durable(&change);
            }
        }
        let reachable = self.reach();
        let mut torn = 0;
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !reachable.contains(&NodeId(index)) {
                *node = Node::Gone;
            }
            match node {
                Node::File(image) => torn += image.crash(mood, prng),
                Node::Directory(directory) => directory.visible = directory.durable.clone(),
                Node::Gone => {}
            }
        }
        torn
    }

    /// The process ends and the machine goes on.
    pub(super) fn restart(&mut self, prng: &mut Prng) {
        for node in &mut self.nodes {
            if let Node::File(image) = node {
                image.restart(prng);
            }
        }
    }

    fn reach(&self) -> BTreeSet<NodeId> {
        let mut reached = BTreeSet::from([ROOT]);
        let mut todo = vec![ROOT];
        while let Some(at) = todo.pop() {
            if let Node::Directory(directory) = &self.nodes[at.0] {
                todo.extend(directory.durable.values().filter(|id| reached.insert(**id)));
            }
        }
        reached
    }

    /// Bytes of every file that a visible name or an open handle may still reach: what counts against the capacity.
    pub(super) fn used_bytes(&self) -> u64 {
        self.nodes
            .iter()
            .map(|node| match node {
                Node::File(image) => image.len().max(image.durable_len()) as u64,
                _ => 0,
            })
            .sum()
    }

    /// Frees the bytes of files that have no name any more and no handle.
    pub(super) fn forget_unnamed(&mut self, is_open: impl Fn(NodeId) -> bool) {
        let mut named = self.reach();
        let mut todo = vec![ROOT];
        let mut seen = BTreeSet::from([ROOT]);
        while let Some(at) = todo.pop() {
            named.insert(at);
            if let Node::Directory(directory) = &self.nodes[at.0] {
                todo.extend(directory.visible.values().filter(|id| seen.insert(**id)));
            }
        }
        for change in &self.pending {
            named.extend(change.slots.iter().filter_map(|(_, to)| *to));
        }
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let id = NodeId(index);
            if matches!(node, Node::File(_)) && !named.contains(&id) && !is_open(id) {
                *node = Node::Gone;
            }
        }
    }
}

/// Keeps, with each kept change, every earlier change of the same names.
fn keep_order_of_names(changes: &[NameChange], is_kept: &mut [bool]) {
    let mut held: BTreeSet<&Slot> = BTreeSet::new();
    for (change, kept) in changes.iter().zip(is_kept.iter_mut()).rev() {
        *kept |= change.slots.iter().any(|(slot, _)| held.contains(slot));
        if *kept {
            held.extend(change.slots.iter().map(|(slot, _)| slot));
        }
    }
}

fn set(names: &mut BTreeMap<String, NodeId>, name: &str, to: Option<NodeId>) {
    match to {
        Some(id) => {
            names.insert(name.to_owned(), id);
        }
        None => {
            names.remove(name);
        }
    }
}

/// Linux's numbers, as the real disk reports them.
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;
