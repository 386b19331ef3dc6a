//! Receives charm archives and the files of resources into files, so that an upload needs little memory.
//!
//! An upload that is slower than a minimum rate is ended, and the uploads of one user at the same time are bounded, so
//! that stalled uploads of one user do not delay those of others. The file is in the folder of the archives, and is
//! removed unless the archive is stored. Called by `server` after the caller was authorised.

use super::budget::Budget;
use crate::disk_threads::DiskThreads;
use crate::environment::Environment;
use api::ARCHIVE_BYTES_MAX;
use api::error::{ApiError, ErrorCode};
use axum::body::Bytes;
use axum::extract::Request;
use hyper::body::Body as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// Uploads of one user at the same time; the next one waits.
const UPLOADS_PER_USER_MAX: u32 = 2;
/// Uploads of all users at the same time: 8 GiB of unverified archives of 512 MiB each, and one descriptor each of the
/// reserve in `admission`.
const UPLOADS_MAX: u32 = 16;
/// The minimum rate of an upload on average, and of what is sent, in bytes per second: a slow mobile link.
pub(super) const RATE_MIN: u64 = 64 << 10;
/// How far an upload may fall behind the minimum rate: a stall of ten seconds is tolerated.
pub(super) const LATE_MAX: Duration = Duration::from_secs(10);
/// The time limit for a whole upload: 512 MiB at 1 MiB/s. Clients wait as long.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(512);
/// The bytes that are collected before they are written: 1 MiB for each of 16 uploads.
const WRITE_BYTES: usize = 1 << 20;

/// Returns the slots of uploads, all of them free.
pub fn slots() -> Budget {
    Budget::new(UPLOADS_PER_USER_MAX, UPLOADS_MAX)
}

/// An archive that was received. Its file is removed on drop, if it is still there.
pub struct Received(PathBuf);

impl Received {
    /// Returns the file of the archive.
    pub fn file(&self) -> &Path {
        &self.0
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok(); // it was stored under another name, or was never created
    }
}

/// Returns the time after the start of a transfer at which more than these bytes must have been transferred.
pub(super) fn deadline(received: u64) -> Duration {
    (LATE_MAX + Duration::from_secs(received / RATE_MIN)).min(UPLOAD_TIMEOUT)
}

/// Receives the body of a request into a file. The content is durable when this returns.
///
/// # Errors
/// If the body is too large or too slow, ends early, or cannot be stored.
pub async fn receive(environment: &impl Environment, request: Request) -> Result<Received, ApiError> {
    let Some((folder, disk)) = environment.receiving_folder() else {
        return Err(ApiError::new(
            ErrorCode::Unavailable,
            "cannot receive an upload: there is no folder for it",
        ));
    };
    let mut body = request.into_body();
    if body.size_hint().lower() > ARCHIVE_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let received = Received(folder.join(format!(".upload.{:032x}", environment.random())));
    let path = received.0.clone();
    let create = move || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = blocking(&disk, create).await?;
    let (started, mut bytes, mut buffer) = (Instant::now(), 0_u64, Vec::new());
    loop {
        let next = tokio::time::timeout_at(started + deadline(bytes), next_data(&mut body)).await;
        let data = next.map_err(|_| too_slow())??;
        bytes += data.as_ref().map_or(0, |data| data.len() as u64);
        if bytes > ARCHIVE_BYTES_MAX as u64 {
            return Err(too_large());
        }
        buffer.extend_from_slice(data.as_deref().unwrap_or_default());
        if buffer.len() >= WRITE_BYTES || data.is_none() {
            (file, buffer) = blocking(&disk, move || write(file, buffer)).await?;
        }
        if data.is_none() {
            blocking(&disk, move || file.sync_all()).await?;
            return Ok(received);
        }
    }
}

fn write(mut file: File, mut buffer: Vec<u8>) -> io::Result<(File, Vec<u8>)> {
    file.write_all(&buffer)?;
    buffer.clear();
    Ok((file, buffer))
}

/// Returns the next data of a body; none at its end.
async fn next_data(body: &mut axum::body::Body) -> Result<Option<Bytes>, ApiError> {
    loop {
        match std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(_)) => {
                return Err(ApiError::new(ErrorCode::Invalid, "cannot receive the upload: it is incomplete"));
            }
        }
    }
}

fn too_large() -> ApiError {
    let text = format!("cannot receive the upload: it is larger than {ARCHIVE_BYTES_MAX} bytes");
    ApiError::new(ErrorCode::Invalid, text)
}

fn too_slow() -> ApiError {
    let text = format!("cannot receive the upload: it arrives more slowly than {} KiB/s", RATE_MIN >> 10);
    ApiError::new(ErrorCode::Unavailable, text).hint("check the network between this host and the controller")
}

/// Runs disk work on a thread that may block.
async fn blocking<T: Send + 'static>(
    disk: &DiskThreads,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    disk.run(work).await.map_err(|error| {
        let full = host::file::is_disk_full(&error);
        let error = ApiError::new(ErrorCode::Unavailable, format!("cannot receive the upload: {error}"));
        if full { error.hint("free disk space on the controller's host, then try again") } else { error }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_upload_has_ten_seconds_and_none_has_more_than_the_client() {
        assert_eq!(deadline(0), LATE_MAX);
        assert_eq!(deadline(RATE_MIN * 5), LATE_MAX + Duration::from_secs(5));
        assert_eq!(deadline(ARCHIVE_BYTES_MAX as u64), UPLOAD_TIMEOUT);
    }
}
