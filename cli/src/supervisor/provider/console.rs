//! Records the output of a container in a log of bounded size.
//!
//! Root in a container can write to its console without end. The container therefore has a pipe, never a file of this
//! host, and the supervisor copies from the pipe to the log, which is rotated like the log of a daemon
//! (`host::log_file`). When the supervisor ends, the container keeps running and its output is no longer recorded.

use host::log_file;
use std::io::{self, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

/// The bytes that are copied at once: the size of a pipe.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Returns the write end of a pipe whose content is appended to `log`, and the task that appends it: it ends when all
/// write ends are closed.
///
/// # Errors
/// If no pipe can be created.
pub fn record(log: &Path) -> io::Result<(PipeWriter, JoinHandle<()>)> {
    let (reader, writer) = io::pipe()?;
    let receiver = Receiver::from_owned_fd(OwnedFd::from(reader))?;
    Ok((writer, tokio::spawn(append_all(receiver, log.to_owned()))))
}

async fn append_all(mut output: Receiver, log: PathBuf) {
    let mut chunk = vec![0; CHUNK_BYTES_MAX];
    while let Ok(bytes @ 1..) = output.read(&mut chunk).await {
        // Output that cannot be written is dropped: a container must not wait for the disk of this host.
        log_file::open(&log).and_then(|mut log| log.write_all(&chunk[..bytes])).ok();
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::machine_folder::CONSOLE_LOG;
    use host::log_file::LOG_FILE_BYTES_MAX;
    use std::fs;

    /// Writes this number of lines to the console and waits until they are recorded.
    async fn write_lines(log: &Path, lines: usize) {
        let (mut console, recording) = record(log).expect("a pipe");
        let writing = std::thread::spawn(move || {
            (0..lines).try_for_each(|line| writeln!(console, "{line} {}", "x".repeat(1_000)))
        });
        // it ends when the thread has closed the console
        recording.await.expect("recorded");
        assert!(writing.join().is_ok_and(|written| written.is_ok()), "the console accepts all");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_console_that_is_flooded_keeps_its_newest_output_within_the_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join(CONSOLE_LOG);
        write_lines(&log, 8_000).await;
        let sizes = fs::read_dir(folder.path()).expect("there").flatten();
        let bytes: u64 = sizes.map(|file| file.metadata().expect("there").len()).sum();
        let bound = 2 * (LOG_FILE_BYTES_MAX + CHUNK_BYTES_MAX as u64);
        assert!(bytes <= bound, "{bytes}");
        assert!(fs::read_to_string(&log).expect("there").contains("\n7999 x"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_container_does_not_wait_for_a_log_that_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        write_lines(&folder.path().join("missing/console.log"), 500).await;
    }
}
