//! Lists the members of an archive and checks them before any of them is trusted (spec/security.md S22 to S24).
//!
//! The checks cover names, file types, sizes, and that the local headers agree with the central directory. Called by
//! `read` before an archive is uploaded, and by `unpack` before one is unpacked.

use crate::archive::{FILES_MAX, UNPACKED_BYTES_MAX};
use crate::problem::Problem;
use crate::safe_paths::{self, MemberKind};
use std::io::{Cursor, Read};
use zip::ZipArchive;

/// Largest ratio of unpacked to packed bytes: text compresses to a tenth, a zip bomb to a thousandth.
const RATIO_MAX: u64 = 200;
/// The ratio is not checked below this unpacked size in bytes: a small archive with a high ratio is a file of zeros.
const RATIO_CHECKED_FROM_BYTES: u64 = 4 << 20;
/// Longest target of a link in bytes: PATH_MAX of Linux.
const TARGET_BYTES_MAX: u64 = 4096;

/// A zip archive in memory.
pub type ZipReader<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// One member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its index in the archive.
    pub index: usize,
    /// Path below the charm's folder, without a closing slash.
    pub path: String,
    /// File, link or folder.
    pub kind: MemberKind,
    /// The permissions that a file is unpacked with: those of the archive, at least 0600 and at most 0755.
    pub mode: u32,
    /// Unpacked size in bytes as the header declares it. Reading stops there.
    pub size: u64,
}

/// Opens the archive `bytes` and lists its members. `name` identifies the archive in problems.
///
/// # Errors
/// Everything that is unsafe or damaged.
pub fn list<'a>(name: &str, bytes: &'a [u8]) -> Result<(ZipReader<'a>, Vec<Member>), Vec<Problem>> {
    let problem = |text: String| vec![Problem::new(name, "", text)];
    let mut zip = ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| problem(format!("is not a zip archive ({error})")))?;
    if zip.len() > FILES_MAX {
        return Err(problem(format!("has {} members; the limit is {FILES_MAX}", zip.len())));
    }
    // A reader that trusts the local headers would see another charm than one that trusts the central directory.
    zip.validate_header_consistency()
        .map_err(|error| problem(format!("has inconsistent headers: {error}")))?;
    let (mut members, mut problems) = (Vec::new(), Vec::new());
    for index in 0..zip.len() {
        match read_member(&mut zip, index) {
            Ok(member) => members.push(member),
            Err((path, text)) => problems.push(Problem::new(name, &path, text)),
        }
    }
    let all = members.iter().map(|member| (member.path.as_str(), &member.kind));
    problems
        .extend(safe_paths::check_all(all).into_iter().map(|(path, text)| Problem::new(name, &path, text)));
    let total = members.iter().fold(0u64, |total, member| total.saturating_add(member.size));
    if let Some(text) = oversize_reason(total, bytes.len() as u64) {
        problems.push(Problem::new(name, "", text));
    }
    if problems.is_empty() { Ok((zip, members)) } else { Err(problems) }
}

/// Why `unpacked` bytes are too many for an archive of `packed` bytes; `None` if they are not.
fn oversize_reason(unpacked: u64, packed: u64) -> Option<String> {
    if unpacked > UNPACKED_BYTES_MAX {
        return Some("unpacks to more than 512 MiB".to_owned());
    }
    let is_bomb = unpacked > RATIO_CHECKED_FROM_BYTES && unpacked / RATIO_MAX > packed;
    is_bomb.then(|| format!("unpacks to more than {RATIO_MAX} times its size"))
}

/// Reads the header of one member. The error is the path of the member and its problem.
fn read_member(zip: &mut ZipReader, index: usize) -> Result<Member, (String, String)> {
    let numbered = |text: String| (format!("member {index}"), text);
    let mut file = zip.by_index(index).map_err(|error| numbered(format!("cannot be read: {error}")))?;
    // A name that is not UTF-8 means different things to different readers.
    let raw =
        std::str::from_utf8(file.name_raw()).map_err(|_| numbered("its name is not UTF-8".to_owned()))?;
    let path = raw.strip_suffix('/').unwrap_or(raw).to_owned();
    let is_folder = raw.ends_with('/');
    let refuse = |text: &str| Err((path.clone(), text.to_owned()));
    if file.encrypted() {
        return refuse("is encrypted");
    }
    const FILE_TYPE_MASK: u32 = 0o170_000;
    let mode = file.unix_mode().unwrap_or(0o100_644);
    let kind = match mode & FILE_TYPE_MASK {
        0 | 0o100_000 | 0o040_000 if is_folder => MemberKind::Folder,
        _ if is_folder => return refuse("has the name of a folder but the mode of another file type"),
        0 | 0o100_000 => MemberKind::File { executable: mode & 0o100 != 0 },
        0o120_000 if file.size() > TARGET_BYTES_MAX => return refuse("is a link with an invalid target"),
        0o120_000 => {
            let mut target = String::new();
            match file.by_ref().take(TARGET_BYTES_MAX + 1).read_to_string(&mut target) {
                Ok(_) => MemberKind::Link(target),
                Err(_) => return refuse("is a link with an invalid target"),
            }
        }
        _ => return refuse("is not a file, folder or link"),
    };
    let permissions = match mode & 0o777 {
        0 => 0o644, // written without permissions
        permissions => permissions & 0o755 | 0o600,
    };
    let size = file.size();
    Ok(Member { index, path, kind, mode: permissions, size })
}

/// Reads one member as text. Only the few small files that are read before unpacking are read this way.
///
/// # Errors
/// Why the member cannot be read: it is larger than `bytes_max`, damaged, or not UTF-8.
pub fn text(zip: &mut ZipReader, member: &Member, bytes_max: u64) -> Result<String, String> {
    if member.size > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    let mut text = String::new();
    let file = zip.by_index(member.index).map_err(|error| format!("cannot be read: {error}"))?;
    file.take(bytes_max).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(text)
}
