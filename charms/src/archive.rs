//! Packing: a list of files into a `.charm` archive. The same content gives the same bytes, so an unchanged folder
//! deploys as the revision that is already there.

use crate::folder::{Content, Entry, Files};
use std::io::{self, Cursor, Write};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// Largest archive and largest sum of what is in it, in bytes (spec/security.md S23).
pub const UNPACKED_BYTES_MAX: u64 = 512 << 20;
/// Most files in an archive (spec/security.md S23).
pub const MEMBERS_MAX: usize = 100_000;

/// The bytes of the archive. The error is about reading a file, or a folder too large to be a charm.
pub fn pack(files: &Files) -> io::Result<Vec<u8>> {
    if files.len() > MEMBERS_MAX {
        return Err(io::Error::other(format!(
            "{} files are more than a charm may have ({MEMBERS_MAX})",
            files.len()
        )));
    }
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut total = 0;
    // Options without a time: every member bears the zip format's first day.
    let plain = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (path, entry) in files {
        match entry {
            Entry::Link(target) => zip.add_symlink(path.as_str(), target.as_str(), plain)?,
            Entry::File { content, executable } => {
                let bytes = content.read().map_err(|error| match content {
                    Content::Disk(on_disk) => io::Error::other(format!("{}: {error}", on_disk.display())),
                    Content::Bytes(_) => error,
                })?;
                total += bytes.len() as u64;
                if total > UNPACKED_BYTES_MAX {
                    return Err(io::Error::other(format!(
                        "{path}: with it the charm is larger than 512 MiB"
                    )));
                }
                zip.start_file(
                    path.as_str(),
                    plain.unix_permissions(if *executable { 0o755 } else { 0o644 }),
                )?;
                zip.write_all(&bytes)?;
            }
        }
    }
    Ok(zip.finish()?.into_inner())
}
