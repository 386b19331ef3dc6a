//! Parses the output of strace into the file operations of the traced program.

use super::{Image, Inode, Op};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Inodes of files that the traced program creates are above this number, which no file system reaches.
const NEW_INODES: Inode = 1 << 48;

/// The system calls that are traced: all on paths and descriptors, those that may change files without either, and those
/// that start a process.
const TRACED: &str = "trace=%file,%desc,%process,sync,io_uring_setup,io_uring_enter,io_uring_register";
/// The system calls that change no file.
const READING: [&str; 29] = [
    "access",
    "close_range",
    "execve",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fgetxattr",
    "flock",
    "fstat",
    "fstatfs",
    "getcwd",
    "getdents64",
    "getxattr",
    "lgetxattr",
    "lstat",
    "newfstatat",
    "poll",
    "ppoll",
    "pread64",
    "preadv",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "stat",
    "statfs",
    "statx",
    "llistxattr",
];
/// The commands of `fcntl` that change no file and no descriptor.
const READING_FCNTL: [&str; 7] =
    ["F_GETFD", "F_SETFD", "F_GETFL", "F_SETLK", "F_SETLKW", "F_OFD_SETLK", "F_OFD_SETLKW"];

/// Runs `program` with `arguments` and returns its operations on `folder`. Panics if the program fails, if it makes
/// a system call on the folder that this parser does not support, or if it starts a thread that makes one.
pub fn trace(folder: &Path, program: &str, arguments: &[&str]) -> Vec<Op> {
    let start = Image::of(folder);
    let strace = ["-f", "-xx", "-y", "-s", "10000000", "-o", "/dev/stderr", "-e", TRACED];
    let run = Command::new("strace").args(strace).arg(program).args(arguments).output().expect("strace runs");
    let text = String::from_utf8(run.stderr).expect("strace writes text");
    assert!(run.status.success(), "{program} {arguments:?}: {}: {text}", run.status);
    let root = folder.canonicalize().expect("the folder exists").to_str().expect("text").to_owned();
    read(root, start, &text)
}

/// The operations in the output of strace, on the folder `root`, which has the content `image` at first.
fn read(root: String, image: Image, text: &str) -> Vec<Op> {
    let mut reader =
        Reader { root, process: None, files: BTreeMap::new(), image, ops: Vec::new(), inodes: NEW_INODES };
    for line in text.lines() {
        // the program may print lines, too
        if let Some((process, call)) = line.split_once(' ')
            && let Ok(process) = process.parse()
        {
            reader.line(process, call.trim_start());
        }
    }
    reader.ops
}

/// An open file: its inode, the offset of the next write, and whether it is open for appending.
struct Open {
    inode: Inode,
    offset: usize,
    append: bool,
}

struct Reader {
    root: String,
    /// The only process, or thread, that makes system calls on the folder.
    process: Option<u32>,
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
    fn path_at(&self, folder: &str, name: &str) -> Option<String> {
        let (_, folder) = descriptor(folder);
        let name = string(name);
        assert!(name.starts_with('/') || folder.starts_with('/'), "relative to an unknown folder: {name}");
        self.inside(if name.starts_with('/') { name } else { format!("{folder}/{name}") }.as_str())
    }

    /// Whether an argument is a path or a descriptor in the folder, or a path that may be there.
    fn is_affected(&self, arguments: &[&str]) -> bool {
        let is_affected = |argument: &&str| match argument.strip_prefix('"') {
            Some(text) => {
                let text = String::from_utf8(unhex(text.trim_matches('"'))).unwrap_or_default();
                self.inside(&text).is_some() || !text.starts_with('/')
            }
            None => self.inside(&descriptor(argument.trim_start_matches('[')).1).is_some(),
        };
        arguments.iter().any(is_affected)
    }

    fn line(&mut self, process: u32, line: &str) {
        let Some((call, rest)) = line.split_once('(') else { return };
        if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return;
        }
        let Some((arguments, result)) = rest.rsplit_once(" = ") else {
            // such as exit_group; the calls of two threads would be interrupted by each other
            assert!(!line.contains("unfinished"), "a call that is interrupted by another process: {line}");
            return;
        };
        if result.starts_with('-') || result.starts_with('?') {
            return;
        }
        let arguments = arguments.trim_end().trim_end_matches(')');
        let arguments: Vec<&str> = arguments.split(", ").collect();
        let only = *self.process.get_or_insert(process);
        assert!(only == process || !self.is_affected(&arguments), "a second process or thread: {line}");
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
            ("write", [file, bytes, _]) => return self.write(&descriptor(file).0, bytes, None, result),
            ("pwrite64", [file, bytes, _, offset]) => {
                let offset = offset.parse().expect("an offset");
                return self.write(&descriptor(file).0, bytes, Some(offset), result);
            }
            ("ftruncate", [file, length]) => self
                .files
                .get(&descriptor(file).0)
                .map(|open| Op::Truncate { inode: open.inode, length: length.parse().expect("a length") }),
            ("lseek", [file, ..]) if self.files.contains_key(&descriptor(file).0) => {
                let offset = result.split(' ').next().and_then(|text| text.parse().ok()).expect("an offset");
                self.files.get_mut(&descriptor(file).0).expect("looked for above").offset = offset;
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
            ("renameat", [from, a, to, b]) => self.rename(self.path_at(from, a), self.path_at(to, b), ""),
            ("renameat2", [from, a, to, b, flags]) => {
                self.rename(self.path_at(from, a), self.path_at(to, b), flags)
            }
            ("unlink" | "rmdir", [path]) => self.path(path).map(|path| Op::Remove { path }),
            ("unlinkat", [folder, name, _]) => self.path_at(folder, name).map(|path| Op::Remove { path }),
            ("mkdir", [path, mode]) => self.path(path).map(|path| Op::MakeFolder { path, mode: octal(mode) }),
            ("mkdirat", [folder, name, mode]) => {
                self.path_at(folder, name).map(|path| Op::MakeFolder { path, mode: octal(mode) })
            }
            ("symlink", [target, path]) => {
                self.path(path).map(|path| Op::Symlink { path, target: string(target) })
            }
            ("link", [from, to]) => self.link(self.path(from), self.path(to)),
            ("linkat", [from, a, to, b, _]) => self.link(self.path_at(from, a), self.path_at(to, b)),
            ("chmod", [path, mode]) => self.path(path).map(|path| Op::Mode { path, mode: octal(mode) }),
            ("fchmod", [file, mode]) => {
                self.inside(&descriptor(file).1).map(|path| Op::Mode { path, mode: octal(mode) })
            }
            (call, _) if READING.contains(&call) => None,
            ("fcntl", [_, command, ..]) if READING_FCNTL.contains(command) => None,
            ("ioctl", [_, "TCGETS", ..]) => None,
            // changes of a private mapping stay in memory
            ("mmap", [_, _, _, flags, ..]) if !flags.contains("MAP_SHARED") => None,
            _ => {
                assert!(!self.is_affected(&arguments), "unsupported system call: {line}");
                None
            }
        };
        if let Some(op) = op {
            self.record(op);
        }
    }

    fn path(&self, argument: &str) -> Option<String> {
        let path = string(argument);
        assert!(path.starts_with('/'), "relative to an unknown folder: {path}");
        self.inside(&path)
    }

    fn record(&mut self, op: Op) {
        self.image.apply(&op);
        self.ops.push(op);
    }

    fn open(&mut self, folder: &str, name: &str, flags: &str, mode: &[&str], result: &str) {
        let Some(path) = self.path_at(folder, name) else { return };
        let number = result.split('<').next().unwrap_or_default().to_owned();
        if flags.contains("O_DIRECTORY") || self.image.has_folder(&path) {
            return;
        }
        let inode = match self.image.inode(&path) {
            Some(inode) => {
                if flags.contains("O_TRUNC") {
                    self.record(Op::Truncate { inode, length: 0 });
                }
                inode
            }
            None => {
                assert!(flags.contains("O_CREAT"), "opened, but absent from the image: {path}");
                self.inodes += 1;
                let mode = mode.first().map_or(0o600, |mode| octal(mode)) & !0o022;
                self.record(Op::Create { path, inode: self.inodes, mode });
                self.inodes
            }
        };
        self.files.insert(number, Open { inode, offset: 0, append: flags.contains("O_APPEND") });
    }

    fn write(&mut self, number: &str, bytes: &str, offset: Option<usize>, result: &str) {
        let bytes = unhex(bytes.trim_matches('"'));
        let Some(open) = self.files.get_mut(number) else {
            if number == "1" {
                let text = String::from_utf8(bytes).expect("the program writes text");
                self.ops.extend(text.lines().map(|line| Op::Reported(line.to_owned())));
            }
            return;
        };
        assert_eq!(result.parse(), Ok(bytes.len()), "a part was written, or strace shows a part");
        let end = self.image.data.get(&open.inode).map_or(0, Vec::len);
        let from = offset.unwrap_or(if open.append { end } else { open.offset });
        if offset.is_none() {
            open.offset = from + bytes.len();
        }
        let op = Op::Write { inode: open.inode, at: from, bytes };
        self.record(op);
    }

    fn rename(&self, from: Option<String>, to: Option<String>, flags: &str) -> Option<Op> {
        match (from?, to?) {
            (first, second) if flags.contains("RENAME_EXCHANGE") => Some(Op::Exchange { first, second }),
            (from, to) => Some(Op::Rename { from, to }),
        }
    }

    fn link(&self, from: Option<String>, to: Option<String>) -> Option<Op> {
        Some(Op::HardLink { from: from?, to: to? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    /// The operations of a program whose system calls are `lines`. A text in braces is a path or content, which strace
    /// prints in hexadecimal digits; each line is of process 1, unless it begins with another number.
    fn ops(lines: &[&str]) -> Option<Vec<Op>> {
        let encoded = |line: &&str| {
            let mut parts = line.split(['{', '}']);
            let mut text = parts.next().unwrap_or_default().to_owned();
            while let (Some(inner), Some(rest)) = (parts.next(), parts.next()) {
                text += &(hex(inner) + rest);
            }
            if text.starts_with(|first: char| first.is_ascii_digit()) { text } else { format!("1 {text}") }
        };
        let text: Vec<String> = lines.iter().map(encoded).collect();
        catch_unwind(|| read("/unit".to_owned(), Image::default(), &text.join("\n"))).ok()
    }

    const CREATE: &str =
        r#"openat(AT_FDCWD<{/}>, "{/unit/a}", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) = 3<{/unit/a}>"#;

    #[test]
    fn calls_that_change_the_folder_become_operations_and_others_none() {
        let found = ops(&[
            r#"execve("{/bin/x}", ["{x}"], 0x7f /* 9 vars */) = 0"#,
            CREATE,
            r#"newfstatat(AT_FDCWD<{/}>, "{/unit/a}", {}, 0) = 0"#,
            r#"write(3<{/unit/a}>, "{abc}", 3) = 3"#,
            "fsync(3<{/unit/a}>)                     = 0",
            r#"writev(4<{/elsewhere}>, [{iov_base="{abc}", iov_len=3}], 1) = 3"#,
            r#"rename("{/unit/a}", "{/unit/b}") = -1 EACCES (Permission denied)"#,
            r#"write(1<{pipe:[7]}>, "{done}", 4) = 4"#,
            "exit_group(0)                           = ?",
            "+++ exited with 0 +++",
        ]);
        let create = Op::Create { path: "a".to_owned(), inode: NEW_INODES + 1, mode: 0o600 };
        let write = Op::Write { inode: NEW_INODES + 1, at: 0, bytes: b"abc".to_vec() };
        let sync = Op::SyncFile(NEW_INODES + 1);
        assert_eq!(found, Some(vec![create, write, sync, Op::Reported("done".to_owned())]));
    }

    /// Without this, images would be judged that lack what the program has written.
    #[test]
    fn a_call_that_is_not_supported_or_not_complete_is_no_operation_that_is_left_out() {
        for call in [
            r#"writev(3<{/unit/a}>, [{iov_base="{abc}", iov_len=3}], 1) = 3"#,
            r#"pwritev(3<{/unit/a}>, [{iov_base="{abc}", iov_len=3}], 1, 0) = 3"#,
            r#"write(3<{/unit/a}>, "{abc}", 3) = 2"#,
            r#"truncate("{/unit/a}", 0) = 0"#,
            r#"creat("{/unit/b}", 0600) = 4<{/unit/b}>"#,
            r#"open("{/unit/b}", O_WRONLY|O_CREAT, 0600) = 4<{/unit/b}>"#,
            "dup2(3<{/unit/a}>, 4) = 4<{/unit/a}>",
            "dup3(3<{/unit/a}>, 4, O_CLOEXEC) = 4<{/unit/a}>",
            "fcntl(3<{/unit/a}>, F_DUPFD_CLOEXEC, 3) = 4<{/unit/a}>",
            "ioctl(3<{/unit/a}>, FICLONE, 4<{/elsewhere}>) = 0",
            r#"setxattr("{/unit/a}", "{user.x}", "{1}", 1, 0) = 0"#,
            r#"fchmodat2(AT_FDCWD<{/}>, "{/unit/a}", 0600, 0) = 0"#,
            "io_uring_register(4<{anon_inode:[io_uring]}>, IORING_REGISTER_FILES, [3<{/unit/a}>], 1) = 0",
            "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<{/unit/a}>, 0) = 0x7f",
            r#"rename("{a}", "{b}") = 0"#,
            r#"chdir("{/unit}") = 0"#,
            r#"2 unlink("{/unit/a}") = 0"#,
            r#"write(3<{/unit/a}>, "{abc}", 3 <unfinished ...>"#,
        ] {
            assert_eq!(ops(&[CREATE, call]), None, "{call}");
        }
        assert_eq!(ops(&[CREATE, "2 futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 0"]).map(|ops| ops.len()), Some(1));
    }
}
