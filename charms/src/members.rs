//! What an archive claims to hold, checked before anything of it is trusted: names, kinds, limits, and that its two
//! tables of contents agree (spec/security.md S22 to S24).

use crate::archive::{MEMBERS_MAX, UNPACKED_BYTES_MAX};
use crate::names::{self, Kind};
use crate::problem::Problem;
use std::io::{Cursor, Read};
use zip::ZipArchive;

/// Most bytes unpacked for each byte of the archive: text compresses ten times, a bomb a thousand times.
const RATIO_MAX: u64 = 200;
/// Below this size unpacked a high ratio is a file of zeros, not a bomb.
const RATIO_FROM_BYTES: u64 = 4 << 20;
/// Longest target of a link: Linux's PATH_MAX.
const TARGET_BYTES_MAX: u64 = 4096;

/// An archive in memory.
pub type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// One member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the archive.
    pub index: usize,
    /// Path below the charm's folder, without a closing slash.
    pub path: String,
    pub kind: Kind,
    /// Unpacked size as claimed; reading stops there.
    pub size: u64,
}

/// Opens an archive and lists its members; all that is unsafe is reported. `name` is what the archive is called in
/// problems.
pub fn list<'a>(name: &str, bytes: &'a [u8]) -> Result<(Archive<'a>, Vec<Member>), Vec<Problem>> {
    let whole = |text: String| vec![Problem::new(name, "", text)];
    let mut zip = ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| whole(format!("is not a zip archive ({error})")))?;
    if zip.len() > MEMBERS_MAX {
        return Err(whole(format!("has {} members, more than {MEMBERS_MAX}", zip.len())));
    }
    // A reader that goes by the other table of contents would see another charm: refused before anything else.
    zip.validate_header_consistency().map_err(|error| whole(format!("contradicts itself: {error}")))?;
    let (mut members, mut problems) = (Vec::new(), Vec::new());
    for index in 0..zip.len() {
        match member(&mut zip, index) {
            Ok(member) => members.push(member),
            Err((path, text)) => problems.push(Problem::new(name, &path, text)),
        }
    }
    let all = members.iter().map(|member| (member.path.as_str(), &member.kind));
    problems.extend(names::check_all(all).into_iter().map(|(path, text)| Problem::new(name, &path, text)));
    let total = members.iter().fold(0u64, |total, member| total.saturating_add(member.size));
    if let Some(text) = too_large(total, bytes.len() as u64) {
        problems.push(Problem::new(name, "", text));
    }
    if problems.is_empty() { Ok((zip, members)) } else { Err(problems) }
}

/// Why `unpacked` bytes are too many for an archive of `packed` bytes.
pub fn too_large(unpacked: u64, packed: u64) -> Option<String> {
    if unpacked > UNPACKED_BYTES_MAX {
        return Some("unpacks to more than 512 MiB".to_owned());
    }
    let bomb = unpacked > RATIO_FROM_BYTES && unpacked / RATIO_MAX > packed;
    bomb.then(|| format!("unpacks to more than {RATIO_MAX} times its size"))
}

/// One member, or its path and what is wrong with it.
fn member(zip: &mut Archive, index: usize) -> Result<Member, (String, String)> {
    let numbered = |text: String| (format!("member {index}"), text);
    let mut file = zip.by_index(index).map_err(|error| numbered(format!("cannot be read: {error}")))?;
    // Only one reading of a name: bytes that are not UTF-8 mean different things to different readers.
    let raw =
        std::str::from_utf8(file.name_raw()).map_err(|_| numbered("its name is not UTF-8".to_owned()))?;
    let path = raw.strip_suffix('/').unwrap_or(raw).to_owned();
    let is_folder = raw.ends_with('/');
    let wrong = |text: &str| Err((path.clone(), text.to_owned()));
    if file.encrypted() {
        return wrong("is encrypted");
    }
    const KIND: u32 = 0o170_000;
    let mode = file.unix_mode().unwrap_or(0o100_644);
    let kind = match mode & KIND {
        0 | 0o100_000 | 0o040_000 if is_folder => Kind::Folder,
        _ if is_folder => return wrong("is a folder by its name and something else by its mode"),
        0 | 0o100_000 => Kind::File { executable: mode & 0o100 != 0 },
        0o120_000 if file.size() > TARGET_BYTES_MAX => return wrong("is a link with a bad target"),
        0o120_000 => {
            let mut target = String::new();
            match file.by_ref().take(TARGET_BYTES_MAX + 1).read_to_string(&mut target) {
                Ok(_) => Kind::Link(target),
                Err(_) => return wrong("is a link with a bad target"),
            }
        }
        _ => return wrong("is neither a file nor a folder nor a link"),
    };
    let size = file.size();
    Ok(Member { index, path, kind, size })
}

/// The content of one member as text; for the few small files that are read before unpacking.
pub fn text(zip: &mut Archive, member: &Member, bytes_max: u64) -> Result<String, String> {
    if member.size > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    let mut text = String::new();
    let file = zip.by_index(member.index).map_err(|error| format!("cannot be read: {error}"))?;
    file.take(bytes_max).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(text)
}
