//! A charm archive or the file of a resource that is read in pieces, so that sending it takes little memory.
//!
//! The digest is verified while the file is read. The last piece is returned only if the digest is the expected one, so
//! that a damaged file is never received completely; the receiver verifies the digest, too. The file is open only while a
//! piece is read, so that a slow receiver holds no descriptor.

use crate::disk_threads::DiskThreads;
use host::digest::Hash;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
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

/// A file of which pieces are read.
pub struct ArchiveFile {
    /// None while a piece is being read, and after an error.
    reader: Option<PieceReader>,
    left: u64,
    disk: DiskThreads,
}

struct PieceReader {
    file: PathBuf,
    offset: u64,
    hash: Hash,
    sha256: String,
    damaged: DamagedFiles,
}

impl ArchiveFile {
    /// Returns the file of this digest; nothing has been read of it. It is added to `damaged` if it is.
    ///
    /// # Errors
    /// If it cannot be opened, or its size cannot be read.
    pub fn new(
        file: &Path,
        sha256: String,
        damaged: DamagedFiles,
        disk: DiskThreads,
    ) -> io::Result<ArchiveFile> {
        let left = File::open(file)?.metadata()?.len();
        let reader = PieceReader { file: file.to_owned(), offset: 0, hash: Hash::default(), sha256, damaged };
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
        File::open(&self.file)?.read_exact_at(&mut piece, self.offset)?;
        self.offset += bytes as u64;
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
    use std::fs;
    use tempfile::NamedTempFile;

    fn stored(content: &[u8]) -> NamedTempFile {
        let file = NamedTempFile::new().expect("a file");
        fs::write(file.path(), content).expect("written");
        file
    }

    fn opened(file: &NamedTempFile, digest: String, damaged: DamagedFiles) -> ArchiveFile {
        let disk = DiskThreads::start().expect("threads");
        ArchiveFile::new(file.path(), digest, damaged, disk).expect("it has a size")
    }

    #[tokio::test]
    async fn a_file_is_read_in_pieces() {
        let content: Vec<u8> = (0..3 * PIECE_BYTES + 1).map(|n| (n / PIECE_BYTES) as u8).collect();
        let stored = stored(&content);
        let mut file = opened(&stored, sha256(&content), DamagedFiles::default());
        assert_eq!(file.left(), content.len() as u64);
        let mut pieces = Vec::new();
        while let Some(piece) = file.next_piece().await.expect("it is intact") {
            pieces.push(piece);
        }
        assert_eq!(
            pieces.iter().map(Vec::len).collect::<Vec<_>>(),
            [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 1]
        );
        assert_eq!(pieces.concat(), content);
    }

    #[tokio::test]
    async fn a_file_is_open_only_while_a_piece_is_read() {
        let content = vec![7; 2 * PIECE_BYTES];
        let stored = stored(&content);
        let mut file = opened(&stored, sha256(&content), DamagedFiles::default());
        assert!(file.next_piece().await.expect("it is readable").is_some());
        drop(stored);
        let absent = file.next_piece().await.expect_err("the file was deleted");
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn the_last_piece_of_a_damaged_file_is_not_returned() {
        let stored = stored(&vec![7; 2 * PIECE_BYTES]);
        let damaged = DamagedFiles::default();
        let mut file = opened(&stored, sha256(b"other"), damaged.clone());
        assert!(file.next_piece().await.expect("not known yet").is_some());
        let error = file.next_piece().await.expect_err("another digest");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        file.next_piece().await.expect_err("it stays damaged");
        assert!(damaged.contains(&sha256(b"other")), "the next request is refused at once");
    }
}
