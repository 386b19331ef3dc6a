//! A charm archive or the file of a resource that is read in pieces, so that sending it takes little memory.
//!
//! The digest is verified while the file is read. The last piece is returned only if the digest is the expected one, so
//! that a damaged file is never received completely; the receiver verifies the digest, too.

use crate::disk_threads::DiskThreads;
use host::digest::Hash;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of one piece: a read of it takes some microseconds.
pub const PIECE_BYTES: usize = 64 << 10;

/// The digests of files that were found to be damaged when they were read, and were not stored again since then.
#[derive(Clone, Default)]
pub struct DamagedFiles(Arc<Mutex<BTreeSet<String>>>);

impl DamagedFiles {
    /// Whether the file of this digest was found to be damaged.
    pub fn contains(&self, sha256: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(sha256)
    }

    fn insert(&self, sha256: &str) {
        tracing::error!("the file {sha256} of the archives is damaged");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(sha256.to_owned());
    }

    /// Records that the file of this digest was stored again.
    pub fn remove(&self, sha256: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(sha256);
    }
}

/// An open file of which pieces are read.
pub struct ArchiveFile {
    /// None while a piece is being read, and after an error.
    reader: Option<PieceReader>,
    left: u64,
    disk: DiskThreads,
}

struct PieceReader {
    file: File,
    hash: Hash,
    sha256: String,
    damaged: DamagedFiles,
}

impl ArchiveFile {
    /// Returns the file of this digest; nothing has been read of it. It is added to `damaged` if it is.
    ///
    /// # Errors
    /// If its size cannot be read.
    pub fn new(
        file: File,
        sha256: String,
        damaged: DamagedFiles,
        disk: DiskThreads,
    ) -> io::Result<ArchiveFile> {
        let left = file.metadata()?.len();
        let reader = PieceReader { file, hash: Hash::default(), sha256, damaged };
        Ok(ArchiveFile { reader: Some(reader), left, disk })
    }

    /// The bytes that were not read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reads the next piece; none at the end.
    ///
    /// # Errors
    /// If the file cannot be read, or has another digest.
    pub async fn next_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(bytes) = usize::try_from(self.left).ok().map(|left| left.min(PIECE_BYTES)) else {
            return Err(damaged());
        };
        if bytes == 0 {
            return Ok(None);
        }
        let mut reader = self.reader.take().ok_or_else(damaged)?;
        let is_last = self.left == bytes as u64;
        let read = move || reader.next_piece(bytes, is_last).map(|piece| (reader, piece));
        let (reader, piece) = self.disk.run(read).await?;
        (self.reader, self.left) = (Some(reader), self.left - piece.len() as u64);
        Ok(Some(piece))
    }
}

impl PieceReader {
    fn next_piece(&mut self, bytes: usize, is_last: bool) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; bytes];
        self.file.read_exact(&mut piece)?;
        self.hash.update(&piece);
        if is_last && std::mem::take(&mut self.hash).finish() != self.sha256 {
            self.damaged.insert(&self.sha256);
            return Err(damaged());
        }
        Ok(piece)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::digest::sha256;
    use std::io::{Seek, Write};

    fn opened(file: File, digest: String, damaged: DamagedFiles) -> io::Result<ArchiveFile> {
        ArchiveFile::new(file, digest, damaged, DiskThreads::start().expect("threads"))
    }

    fn stored(content: &[u8], digest: String) -> (ArchiveFile, File) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        file.rewind().expect("a file");
        let position = file.try_clone().expect("a descriptor");
        (opened(file, digest, DamagedFiles::default()).expect("it has a size"), position)
    }

    #[tokio::test]
    async fn a_file_is_read_only_as_far_as_it_was_asked_for() {
        let content = vec![7; 3 * PIECE_BYTES + 1];
        let (mut file, mut position) = stored(&content, sha256(&content));
        assert_eq!(file.left(), content.len() as u64);
        let first = file.next_piece().await.expect("it is readable").expect("not the end");
        assert_eq!(
            (first.len(), position.stream_position().expect("a file")),
            (PIECE_BYTES, PIECE_BYTES as u64)
        );
        let mut rest = first;
        while let Some(piece) = file.next_piece().await.expect("it is intact") {
            rest.extend_from_slice(&piece);
        }
        assert_eq!(rest, content);
    }

    #[tokio::test]
    async fn the_last_piece_of_a_damaged_file_is_not_returned() {
        let content = vec![7; 2 * PIECE_BYTES];
        let (mut file, _) = stored(&content, sha256(b"other"));
        assert!(file.next_piece().await.expect("not known yet").is_some());
        let damaged = file.next_piece().await.expect_err("another digest");
        assert_eq!(damaged.kind(), io::ErrorKind::InvalidData);
        file.next_piece().await.expect_err("it stays damaged");
        let (_, mut file) = stored(&content, String::new());
        let damaged = DamagedFiles::default();
        file.rewind().expect("a file");
        let mut file = opened(file, sha256(b"other"), damaged.clone()).expect("it has a size");
        for _ in 0..content.len() / PIECE_BYTES {
            file.next_piece().await.ok();
        }
        assert!(damaged.contains(&sha256(b"other")), "the next request is refused at once");
    }
}
