//! Parses the output of strace into the file operations of the traced program.

use super::{Image, Inode, Op};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// An inode of a file that the traced program makes: above all that a file system hands out.
const NEW_INODES: Inode = 1 << 48;

/// Runs `program` with `arguments` and answers what it did to `folder`. Panics if the program fails, or does
/// something to the folder that is not understood.
pub fn trace(folder: &Path, program: &str, arguments: &[&str]) -> Vec<Op> {
    let start = Image::of(folder);
    let calls = "trace=openat,openat2,close,write,pwrite64,ftruncate,fsync,fdatasync,syncfs,rename,renameat,renameat2,\
                 unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,\
                 copy_file_range,sendfile,ioctl,fallocate,lseek,dup,fcntl";
    let strace = ["-xx", "-y", "-s", "10000000", "-o", "/dev/stderr", "-e", calls];
    let run = Command::new("strace").args(strace).arg(program).args(arguments).output().expect("strace runs");
    let text = String::from_utf8(run.stderr).expect("strace writes text");
    assert!(run.status.success(), "{program} {arguments:?}: {}: {text}", run.status);
    let root = folder.canonicalize().expect("the folder exists").to_str().expect("text").to_owned();
    let mut reader =
        Reader { root, files: BTreeMap::new(), image: start, ops: Vec::new(), inodes: NEW_INODES };
    for line in text.lines() {
        reader.line(line);
    }
    reader.ops
}

/// An open file: which, where it is written next, and whether at the end.
struct Open {
    inode: Inode,
    at: usize,
    append: bool,
}

struct Reader {
    root: String,
    files: BTreeMap<String, Open>,
    /// The folder as the program sees it.
    image: Image,
    ops: Vec<Op>,
    inodes: Inode,
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|two| u8::from_str_radix(&two[..2], 16).expect("two digits")).collect()
}

fn string(argument: &str) -> String {
    let inner = argument.trim_matches('"');
    String::from_utf8(unhex(inner)).expect("paths are text")
}

/// `3<\x2f...>`: the number and the path.
fn descriptor(argument: &str) -> (String, String) {
    let (number, path) = argument.split_once('<').unwrap_or((argument, ""));
    (number.to_owned(), String::from_utf8(unhex(path)).unwrap_or_default())
}

fn octal(argument: &str) -> u32 {
    u32::from_str_radix(argument, 8).expect("a mode is octal")
}

impl Reader {
    /// A path below the folder, relative to it.
    fn inside(&self, path: &str) -> Option<String> {
        if path == self.root {
            return Some(String::new());
        }
        path.strip_prefix(&self.root)?.strip_prefix('/').map(str::to_owned)
    }

    /// The path of a call with a folder's descriptor and a name.
    fn at(&self, folder: &str, name: &str) -> Option<String> {
        let (_, folder) = descriptor(folder);
        let name = string(name);
        self.inside(if name.starts_with('/') { name } else { format!("{folder}/{name}") }.as_str())
    }

    fn line(&mut self, line: &str) {
        let Some((call, rest)) = line.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        if result.starts_with('-') || result.starts_with('?') {
            return;
        }
        let arguments = arguments.trim_end().trim_end_matches(')');
        let arguments: Vec<&str> = arguments.split(", ").collect();
        let op = match (call, &arguments[..]) {
            ("openat", [folder, name, flags, mode @ ..]) => {
                return self.open(folder, name, flags, mode, result);
            }
            ("openat2", [folder, name, flags, mode, ..]) => {
                let mode = mode.strip_prefix("mode=").map(|mode| mode.trim_end_matches('}'));
                return self.open(folder, name, flags, mode.as_slice(), result);
            }
            ("close", [file]) => {
                self.files.remove(&descriptor(file).0);
                None
            }
            ("write", [file, bytes, _]) => return self.write(&descriptor(file).0, bytes, None),
            ("pwrite64", [file, bytes, _, at]) => {
                return self.write(&descriptor(file).0, bytes, Some(at.parse().expect("an offset")));
            }
            ("ftruncate", [file, length]) => self
                .files
                .get(&descriptor(file).0)
                .map(|open| Op::Truncate { inode: open.inode, length: length.parse().expect("a length") }),
            ("lseek", [file, ..]) if self.files.contains_key(&descriptor(file).0) => {
                let at = result.split(' ').next().and_then(|at| at.parse().ok()).expect("an offset");
                self.files.get_mut(&descriptor(file).0).expect("looked for above").at = at;
                None
            }
            ("fsync" | "fdatasync", [file]) => {
                let (number, path) = descriptor(file);
                match self.files.get(&number) {
                    Some(open) => Some(Op::SyncFile(open.inode)),
                    None => self.inside(&path).map(Op::SyncFolder),
                }
            }
            ("syncfs", [_]) => Some(Op::SyncAll),
            ("rename", [from, to]) => self.rename(self.path(from), self.path(to), ""),
            ("renameat", [from, a, to, b]) => self.rename(self.at(from, a), self.at(to, b), ""),
            ("renameat2", [from, a, to, b, flags]) => self.rename(self.at(from, a), self.at(to, b), flags),
            ("unlink" | "rmdir", [path]) => self.path(path).map(|path| Op::Remove { path }),
            ("unlinkat", [folder, name, _]) => self.at(folder, name).map(|path| Op::Remove { path }),
            ("mkdir", [path, mode]) => self.path(path).map(|path| Op::MakeFolder { path, mode: octal(mode) }),
            ("mkdirat", [folder, name, mode]) => {
                self.at(folder, name).map(|path| Op::MakeFolder { path, mode: octal(mode) })
            }
            ("symlink", [target, path]) => {
                self.path(path).map(|path| Op::Symlink { path, target: string(target) })
            }
            ("link", [from, to]) => self.link(self.path(from), self.path(to)),
            ("linkat", [from, a, to, b, _]) => self.link(self.at(from, a), self.at(to, b)),
            ("chmod", [path, mode]) => self.path(path).map(|path| Op::Mode { path, mode: octal(mode) }),
            ("fchmod", [file, mode]) => {
                self.inside(&descriptor(file).1).map(|path| Op::Mode { path, mode: octal(mode) })
            }
            ("copy_file_range" | "sendfile" | "fallocate" | "symlinkat" | "fchmodat" | "dup", _)
            | ("ioctl" | "fcntl", [_, "FICLONE" | "F_DUPFD" | "F_DUPFD_CLOEXEC", ..]) => {
                let ours = arguments.iter().any(|argument| self.inside(&descriptor(argument).1).is_some());
                assert!(!ours, "not understood: {line}");
                None
            }
            _ => None,
        };
        if let Some(op) = op {
            self.done(op);
        }
    }

    fn path(&self, argument: &str) -> Option<String> {
        self.inside(&string(argument))
    }

    fn done(&mut self, op: Op) {
        self.image.apply(&op);
        self.ops.push(op);
    }

    fn open(&mut self, folder: &str, name: &str, flags: &str, mode: &[&str], result: &str) {
        let Some(path) = self.at(folder, name) else { return };
        let number = result.split('<').next().unwrap_or_default().to_owned();
        if flags.contains("O_DIRECTORY") || self.image.has_folder(&path) {
            return;
        }
        let inode = match self.image.inode(&path) {
            Some(inode) => {
                if flags.contains("O_TRUNC") {
                    self.done(Op::Truncate { inode, length: 0 });
                }
                inode
            }
            None => {
                assert!(flags.contains("O_CREAT"), "opened and not known to be there: {path}");
                self.inodes += 1;
                let mode = mode.first().map_or(0o600, |mode| octal(mode)) & !0o022;
                self.done(Op::Create { path, inode: self.inodes, mode });
                self.inodes
            }
        };
        self.files.insert(number, Open { inode, at: 0, append: flags.contains("O_APPEND") });
    }

    fn write(&mut self, number: &str, bytes: &str, at: Option<usize>) {
        let bytes = unhex(bytes.trim_matches('"'));
        let Some(open) = self.files.get_mut(number) else {
            if number == "1" {
                let text = String::from_utf8(bytes).expect("the program says text");
                self.ops.extend(text.lines().map(|line| Op::Reported(line.to_owned())));
            }
            return;
        };
        let end = self.image.data.get(&open.inode).map_or(0, Vec::len);
        let from = at.unwrap_or(if open.append { end } else { open.at });
        if at.is_none() {
            open.at = from + bytes.len();
        }
        let op = Op::Write { inode: open.inode, at: from, bytes };
        self.done(op);
    }

    fn rename(&self, from: Option<String>, to: Option<String>, flags: &str) -> Option<Op> {
        match (from?, to?) {
            (one, other) if flags.contains("RENAME_EXCHANGE") => Some(Op::Exchange { one, other }),
            (from, to) => Some(Op::Rename { from, to }),
        }
    }

    fn link(&self, from: Option<String>, to: Option<String>) -> Option<Op> {
        Some(Op::HardLink { from: from?, to: to? })
    }
}
