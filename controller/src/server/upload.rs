//! Receives charm archives and the files of resources into files, so that an upload needs little memory.
//!
//! An upload that is slower than a minimum rate is ended, and the uploads of one user at the same time are bounded, so
//! that stalled uploads of one user do not delay those of others. A further one waits some seconds, then it is refused.
//! The file is in the folder of the archives, and is removed unless the upload is stored. Called by `server` after the
//! caller was authorised.

use super::budget::{Budget, Permit, Share, Shares};
use super::minimum_rate::Transfer;
use crate::disk_threads::DiskThreads;
use crate::environment::Environment;
use api::ARCHIVE_BYTES_MAX;
use api::error::{ApiError, ErrorCode};
use axum::body::Body;
use axum::extract::Request;
use host::file::create_private_folder_in;
use hyper::body::Body as _;
use state::documents::prelude::TokenHolder;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Uploads of one user at the same time; the next one waits.
const UPLOADS_PER_USER_MAX: u32 = 2;
/// Uploads of all users at the same time: 8 GiB of unverified archives of 512 MiB each, and one descriptor each of the
/// reserve in `connection_limits`.
const UPLOADS_MAX: u32 = 16;
/// The bytes that are collected before they are written: 1 MiB for each of 16 uploads.
const WRITE_BYTES: usize = 1 << 20;

/// Returns the slots of uploads, all of them free. No route lets an agent upload.
pub fn slots() -> Budget {
    let users = Share { each: UPLOADS_PER_USER_MAX, all: UPLOADS_MAX };
    let agents = Share { each: 1, all: 1 };
    Budget::new(Shares { users, machines: agents, units: agents })
}

/// Waits until another upload of this caller may be received.
///
/// # Errors
/// If none may be received in time.
pub async fn slot(slots: &Budget, caller: &TokenHolder) -> Result<Permit, ApiError> {
    slots.acquire_in_time(caller, 1, "cannot receive the upload: too many uploads are being received").await
}

/// An upload that was received: a charm archive or the file of a resource. Its file is removed on drop, if it is still
/// there.
pub struct Received(PathBuf);

impl Received {
    /// Returns the file of the upload.
    pub fn file(&self) -> &Path {
        &self.0
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok(); // it was stored under another name, or was never created
    }
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
    let body = request.into_body();
    if body.size_hint().lower() > ARCHIVE_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let received = Received(folder.join(format!(".upload.{:032x}", environment.random())));
    receive_into(received.file(), &disk, body).await?;
    Ok(received)
}

/// Receives a body into a new file.
async fn receive_into(file: &Path, disk: &DiskThreads, body: Body) -> Result<(), ApiError> {
    let path = file.to_owned();
    let mut file = disk.run(move || create(&path)).await.map_err(not_written)?;
    let (mut body, mut transfer, mut buffer) = (body.into_data_stream(), Transfer::default(), Vec::new());
    while let Some(data) = transfer.receive(&mut body).await? {
        if transfer.bytes() > ARCHIVE_BYTES_MAX as u64 {
            return Err(too_large());
        }
        buffer.extend_from_slice(&data);
        if buffer.len() >= WRITE_BYTES {
            (file, buffer) = disk.run(move || write(file, buffer)).await.map_err(not_written)?;
        }
    }
    // The disk may need many seconds for all that was received.
    let finish = move || write(file, buffer).and_then(|(file, _)| file.sync_all());
    disk.run_on_whole_file(finish).await.map_err(not_written)
}

/// Creates the file of an upload, and its folder if a person has deleted it. Nothing is created where the folder above it was.
fn create(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let folder = path.parent().unwrap_or(path);
    let created = match (open(), folder.parent(), folder.file_name()) {
        (Err(error), Some(above), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!("{} was deleted: creating it again", folder.display());
            create_private_folder_in(above, name).and_then(|()| open())
        }
        (opened, _, _) => opened,
    };
    created.map_err(named)
}

fn write(mut file: File, mut buffer: Vec<u8>) -> io::Result<(File, Vec<u8>)> {
    file.write_all(&buffer)?;
    buffer.clear();
    Ok((file, buffer))
}

fn too_large() -> ApiError {
    let text = format!("cannot receive the upload: it is larger than {ARCHIVE_BYTES_MAX} bytes");
    ApiError::new(ErrorCode::Invalid, text)
}

fn not_written(error: io::Error) -> ApiError {
    let full = host::file::is_disk_full(&error);
    let error = ApiError::new(ErrorCode::Unavailable, format!("cannot receive the upload: {error}"));
    if full { error.hint("free disk space on the controller's host, then try again") } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::budget::WAIT_MAX;
    use crate::server::minimum_rate::LATE_MAX;
    use axum::body::Bytes;
    use state::documents::prelude::UserRole;
    use std::convert::Infallible;
    use std::pin::pin;
    use std::sync::Mutex;
    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    #[tokio::test(start_paused = true)]
    async fn an_upload_waits_for_the_others_for_some_seconds() {
        let (slots, started) = (slots(), Instant::now());
        let user = |n: u32| TokenHolder::User { name: format!("user-{n}"), role: UserRole::Write };
        let of_one = [slot(&slots, &user(0)).await, slot(&slots, &user(0)).await];
        assert!(of_one.iter().all(Result::is_ok));
        let third = timeout(10 * WAIT_MAX, slot(&slots, &user(0))).await;
        assert!(third.expect("the wait is bounded").is_err_and(|error| error.is_transient()));
        assert_eq!(started.elapsed(), WAIT_MAX);

        let mut others = Vec::new();
        for n in 2..UPLOADS_MAX {
            others.push(slot(&slots, &user(n)).await.expect("others have room"));
        }
        let beyond = timeout(10 * WAIT_MAX, slot(&slots, &user(1))).await;
        assert!(beyond.expect("the wait is bounded").is_err_and(|error| error.is_transient()));
    }

    #[tokio::test]
    async fn the_sync_of_an_upload_leaves_threads_for_short_work() {
        let (disk, folder) = (DiskThreads::start().expect("threads"), tempfile::tempdir().expect("a folder"));
        let file = folder.path().join("upload");
        let whole_files = disk.occupy_whole_files();
        let mut upload = pin!(receive_into(&file, &disk, Body::from(vec![7; WRITE_BYTES])));
        for _ in 0..100 {
            tokio::select! {
                biased;
                _ = &mut upload => panic!("the sync does not wait for other work on whole files"),
                () = disk.run(|| {}) => {}
            }
        }
        drop(whole_files);
        upload.await.expect("it is stored");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_disk_does_not_make_an_upload_slow() {
        let (disk, folder) = (DiskThreads::start().expect("threads"), tempfile::tempdir().expect("a folder"));
        let file = folder.path().join("upload");
        let (blocked, mut disk_is_blocked) = oneshot::channel();
        let (blocked, of_body) = (Mutex::new(Some(blocked)), disk.clone());
        // The disk is blocked when the first piece is written. The second one arrives a moment after it was awaited.
        let pieces = futures::stream::unfold((0, blocked), move |(n, blocked)| {
            let disk = of_body.clone();
            async move {
                if n == 0 {
                    let blocked = blocked.lock().expect("no holder panics").take().expect("the first piece");
                    blocked.send(disk.occupy_all()).expect("the test waits for it");
                } else {
                    tokio::task::yield_now().await;
                }
                let piece = Bytes::from(vec![7; WRITE_BYTES]);
                (n < 2).then_some((Ok::<_, Infallible>(piece), (n + 1, blocked)))
            }
        });
        let mut upload = pin!(receive_into(&file, &disk, Body::from_stream(pieces)));
        let threads = tokio::select! {
            biased;
            _ = &mut upload => panic!("the disk is blocked"),
            threads = &mut disk_is_blocked => threads.expect("the first piece was sent"),
        };
        tokio::time::advance(10 * LATE_MAX).await;
        drop(threads);
        upload.await.expect("it is stored");
        assert_eq!(std::fs::metadata(&file).expect("it is stored").len(), 2 * WRITE_BYTES as u64);
    }
}
