//! Packs a list of files into a `.charm` archive.
//!
//! The archive is reproducible: the same content gives the same bytes, so that deploying an unchanged folder again
//! deploys the revision that the controller already has. Called by `read`.

use crate::folder::{CharmFileList, Content, FileEntry};
use std::io::{self, Cursor, Write};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// Largest archive, and largest sum of the unpacked sizes of its members, in bytes (spec/security.md S23).
pub const UNPACKED_BYTES_MAX: u64 = 512 << 20;
/// Largest number of members of an archive (spec/security.md S23).
pub const FILES_MAX: usize = 100_000;

/// Packs `files` and returns the bytes of the archive.
///
/// # Errors
/// A file cannot be read, or the files exceed `FILES_MAX` or `UNPACKED_BYTES_MAX`.
pub fn pack(files: &CharmFileList) -> io::Result<Vec<u8>> {
    if files.len() > FILES_MAX {
        return Err(io::Error::other(format!(
            "the charm has {} files; the limit is {FILES_MAX}",
            files.len()
        )));
    }
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut total = 0;
    // Without a time every member gets the first day of the zip format, so that the bytes depend on content only.
    let plain = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (path, entry) in files {
        match entry {
            FileEntry::EmptyFolder => zip.add_directory(path.as_str(), plain.unix_permissions(0o755))?,
            FileEntry::Link(target) => zip.add_symlink(path.as_str(), target.as_str(), plain)?,
            FileEntry::File { content, executable } => {
                let bytes = content.read().map_err(|error| match content {
                    Content::Disk(on_disk) => io::Error::other(format!("{}: {error}", on_disk.display())),
                    Content::Bytes(_) => error,
                })?;
                total += bytes.len() as u64;
                if total > UNPACKED_BYTES_MAX {
                    return Err(io::Error::other(format!(
                        "{path}: the charm exceeds 512 MiB with this file"
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
