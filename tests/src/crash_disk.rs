//! A model of power loss: derives, from the system calls of a program, every folder that a crash could leave.
//!
//! The real program runs on a real folder under strace, and its calls become [`Op`]s. A crash after any of them keeps
//! every operation that a sync has covered, and any subset of the others: file data in pieces of 512 bytes, the last
//! piece cut at any byte, and each directory entry separately. File systems in use guarantee more, so a property that
//! holds here holds on them.

mod trace;

pub use trace::trace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The size in bytes of the pieces in which writes reach the disk.
const PIECE: usize = 512;
/// Up to this many unsynced pieces and entries every subset is tried: 2^10 = 1,024.
const ALL_SUBSETS_MAX: usize = 10;
/// Beyond it: none, all, each one missing, each one alone, and this many random subsets.
const SAMPLES: usize = 64;

pub type Inode = usize;

/// The effect of one system call. Paths are relative to the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create {
        path: String,
        inode: Inode,
        mode: u32,
    },
    MakeFolder {
        path: String,
        mode: u32,
    },
    Symlink {
        path: String,
        target: String,
    },
    HardLink {
        from: String,
        to: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Exchange {
        first: String,
        second: String,
    },
    Remove {
        path: String,
    },
    Mode {
        path: String,
        mode: u32,
    },
    Write {
        inode: Inode,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: Inode,
        length: usize,
    },
    SyncFile(Inode),
    SyncFolder(String),
    SyncAll,
    /// The program reported that something is durable: it must survive.
    Reported(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Folder(u32),
    Link(String),
    File(Inode, u32),
}

/// The complete content of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    nodes: BTreeMap<String, Node>,
    data: BTreeMap<Inode, Vec<u8>>,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Image {
    /// Reads the current content of `folder`.
    pub fn of(folder: &Path) -> Image {
        let mut image = Image::default();
        image.read(folder, "");
        image
    }

    fn read(&mut self, root: &Path, prefix: &str) {
        for entry in fs::read_dir(root.join(prefix)).expect("a folder").flatten() {
            let name = entry.file_name().into_string().expect("names are text");
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let found = entry.metadata().expect("the file exists");
            let mode = found.permissions().mode() & 0o7777;
            let node = if found.is_dir() {
                Node::Folder(mode)
            } else if found.is_symlink() {
                let target = fs::read_link(entry.path()).expect("a link");
                Node::Link(target.to_str().expect("names are text").to_owned())
            } else {
                let inode = std::os::unix::fs::MetadataExt::ino(&found) as Inode;
                self.data.insert(inode, fs::read(entry.path()).expect("readable"));
                Node::File(inode, mode)
            };
            let is_folder = matches!(node, Node::Folder(_));
            self.nodes.insert(path.clone(), node);
            if is_folder {
                self.read(root, &path);
            }
        }
    }

    /// Returns the inode of the file at `path`, which the trace opens.
    pub fn inode(&self, path: &str) -> Option<Inode> {
        match self.nodes.get(path)? {
            Node::File(inode, _) => Some(*inode),
            Node::Folder(_) | Node::Link(_) => None,
        }
    }

    /// Writes this content into `folder`, which must be empty.
    pub fn write(&self, folder: &Path) {
        let mut first = BTreeMap::new();
        for (path, node) in &self.nodes {
            let at = folder.join(path);
            match node {
                Node::Folder(mode) => {
                    fs::create_dir(&at).expect("a free name");
                    fs::set_permissions(&at, fs::Permissions::from_mode(mode | 0o700)).expect("ours");
                }
                Node::Link(target) => std::os::unix::fs::symlink(target, &at).expect("a free name"),
                Node::File(inode, mode) => match first.get(inode) {
                    Some(other) => fs::hard_link(other, &at).expect("a free name"),
                    None => {
                        fs::write(&at, self.data.get(inode).map_or(&[][..], |data| data))
                            .expect("a free name");
                        fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).expect("ours");
                        first.insert(*inode, at);
                    }
                },
            }
        }
    }

    fn has_folder(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.nodes.get(path), Some(Node::Folder(_)))
    }

    /// Removes a name and everything below it, and returns them.
    fn take(&mut self, path: &str) -> Vec<(String, Node)> {
        let below = format!("{path}/");
        let is_in = |name: &String| name == path || name.starts_with(&below);
        let names: Vec<String> = self.nodes.keys().filter(|name| is_in(name)).cloned().collect();
        names.into_iter().filter_map(|name| self.nodes.remove_entry(&name)).collect()
    }

    fn give(&mut self, taken: Vec<(String, Node)>, from: &str, to: &str) {
        self.nodes
            .extend(taken.into_iter().map(|(name, node)| (format!("{to}{}", &name[from.len()..]), node)));
    }

    /// Applies an operation. Does nothing if its folder was lost.
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { path, inode, mode } => self.put(path, Node::File(*inode, *mode)),
            Op::MakeFolder { path, mode } => self.put(path, Node::Folder(*mode)),
            Op::Symlink { path, target } => self.put(path, Node::Link(target.clone())),
            Op::HardLink { from, to } => {
                if let Some(node) = self.nodes.get(from).cloned() {
                    self.put(to, node);
                }
            }
            Op::Rename { from, to } => {
                if self.nodes.contains_key(from) && self.has_folder(parent(to)) {
                    let taken = self.take(from);
                    self.take(to);
                    self.give(taken, from, to);
                }
            }
            Op::Exchange { first, second } => {
                if self.nodes.contains_key(first) && self.nodes.contains_key(second) {
                    let (of_first, of_second) = (self.take(first), self.take(second));
                    self.give(of_first, first, second);
                    self.give(of_second, second, first);
                }
            }
            Op::Remove { path } => drop(self.take(path)),
            Op::Mode { path, mode } => match self.nodes.get_mut(path) {
                Some(Node::Folder(of) | Node::File(_, of)) => *of = *mode,
                Some(Node::Link(_)) | None => {}
            },
            Op::Write { inode, at, bytes } => {
                let data = self.data.entry(*inode).or_default();
                data.resize(data.len().max(at + bytes.len()), 0);
                data[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Op::Truncate { inode, length } => self.data.entry(*inode).or_default().resize(*length, 0),
            Op::SyncFile(_) | Op::SyncFolder(_) | Op::SyncAll | Op::Reported(_) => {}
        }
    }

    fn put(&mut self, path: &str, node: Node) {
        if self.has_folder(parent(path)) && !matches!(self.nodes.get(path), Some(Node::Folder(_))) {
            self.nodes.insert(path.to_owned(), node);
        }
    }
}

/// Returns whether `sync` makes `op` durable.
fn covers(sync: &Op, op: &Op) -> bool {
    let in_folder = |folder: &str, paths: &[&str]| paths.iter().all(|path| parent(path) == folder);
    match (sync, op) {
        (Op::SyncAll, _) => true,
        (Op::SyncFile(file), Op::Write { inode, .. } | Op::Truncate { inode, .. }) => file == inode,
        (Op::SyncFolder(folder), Op::Create { path, .. } | Op::MakeFolder { path, .. }) => {
            in_folder(folder, &[path])
        }
        (Op::SyncFolder(folder), Op::Symlink { path, .. } | Op::Remove { path } | Op::Mode { path, .. }) => {
            in_folder(folder, &[path])
        }
        (Op::SyncFolder(folder), Op::HardLink { to, .. }) => in_folder(folder, &[to]),
        (Op::SyncFolder(folder), Op::Rename { from, to }) => in_folder(folder, &[from, to]),
        (Op::SyncFolder(folder), Op::Exchange { first, second }) => in_folder(folder, &[first, second]),
        _ => false,
    }
}

/// Splits a write into the pieces that reach the disk separately. Returns any other operation unchanged.
fn pieces(op: &Op) -> Vec<Op> {
    let Op::Write { inode, at, bytes } = op else { return vec![op.clone()] };
    let (mut from, mut found) = (*at, Vec::new());
    while from < at + bytes.len() {
        let until = ((from / PIECE + 1) * PIECE).min(at + bytes.len());
        found.push(Op::Write { inode: *inode, at: from, bytes: bytes[from - at..until - at].to_vec() });
        from = until;
    }
    found
}

/// Returns subsets of `count` items, each as one flag per item.
fn subsets(count: usize, seed: u64) -> Vec<Vec<bool>> {
    if count <= ALL_SUBSETS_MAX {
        return (0..1usize << count).map(|set| (0..count).map(|n| set >> n & 1 == 1).collect()).collect();
    }
    let mut found = vec![vec![false; count], vec![true; count]];
    for one in 0..count {
        found.push((0..count).map(|n| n != one).collect());
        found.push((0..count).map(|n| n == one).collect());
    }
    let mut random = seed | 1;
    for _ in 0..SAMPLES {
        let mut random_bit = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random >> 40 & 1 == 1
        };
        found.push((0..count).map(|_| random_bit()).collect());
    }
    found
}

/// Calls `judge` once for every folder that a crash during `ops` can leave, starting with `start`. Also passes the
/// reports that the program had printed by then.
pub fn crashes(start: &Image, ops: &[Op], mut judge: impl FnMut(&Image, &[&str])) {
    let mut reported: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for crash in 0..=ops.len() {
        if let Some(Op::Reported(text)) = crash.checked_sub(1).map(|last| &ops[last]) {
            reported.push(text);
            seen.clear();
        }
        let done = &ops[..crash];
        let is_durable = |n: usize| done[n..].iter().any(|later| covers(later, &done[n]));
        let parts: Vec<(bool, Op)> = (0..crash)
            .flat_map(|n| pieces(&done[n]).into_iter().map(move |piece| (n, piece)))
            .map(|(n, piece)| (is_durable(n), piece))
            .collect();
        let pending = parts.iter().filter(|(durable, op)| !durable && !is_sync(op)).count();
        for subset in subsets(pending, crash as u64) {
            let mut image = start.clone();
            let mut chosen = subset.iter();
            for (durable, op) in &parts {
                if *durable || is_sync(op) || *chosen.next().expect("one for each that is pending") {
                    image.apply(op);
                }
            }
            if seen.insert(image.clone()) {
                judge(&image, &reported);
            }
        }
        // the write in progress, cut at every byte
        if let Some((Op::Write { inode, at, bytes }, before)) = done.split_last() {
            let mut image = start.clone();
            before.iter().for_each(|op| image.apply(op));
            // one cut in each piece is enough within the reserve of the journal, which consists of newlines
            let is_reserve = |at: usize| !at.is_multiple_of(PIECE) && bytes[at - 1..].starts_with(b"\n\n");
            for length in (0..bytes.len()).filter(|length| !is_reserve(*length)) {
                let mut image = image.clone();
                image.apply(&Op::Write { inode: *inode, at: *at, bytes: bytes[..length].to_vec() });
                if seen.insert(image.clone()) {
                    judge(&image, &reported);
                }
            }
        }
    }
}

fn is_sync(op: &Op) -> bool {
    matches!(op, Op::SyncFile(_) | Op::SyncFolder(_) | Op::SyncAll | Op::Reported(_))
}
