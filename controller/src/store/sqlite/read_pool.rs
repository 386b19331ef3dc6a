//! The threads that read from the database, each with its connection (`reads`).
//!
//! They are started when the store is opened, because a thread that is started later may be refused (`ulimit -u`),
//! which would end the process. Used by [`super::Sqlite`].

use super::damaged_documents::DamagedDocuments;
use super::reads::{CHANGE_LOG, ConnectionReader, STATEMENTS, is_damage, newest_revision};
use crate::store::unavailable::{self, Unavailable};
use api::text::fault::not_started;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use state::documents::draft::Revision;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use tokio::sync::{Semaphore, oneshot};

/// Reading connections: twice the cores of a small machine; more would only wait for each other.
const READERS: usize = 4;

type Work = Box<dyn FnOnce(&Connection) + Send>;

/// The reading threads.
pub(super) struct ReadPool {
    /// None while closing.
    work: Option<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
    permits: Arc<Semaphore>,
    damaged_documents: Arc<DamagedDocuments>,
}

impl ReadPool {
    /// Opens all files that reads need, because later reads must not depend on a free descriptor, and starts the
    /// threads. A connection opens the WAL with its first read, and a file for sorting only if it does not sort in
    /// memory.
    pub(super) fn open(file: &Path, damaged_documents: Arc<DamagedDocuments>) -> Result<ReadPool, String> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            newest_revision(&connection)?;
            Ok(connection)
        };
        let connections = (0..READERS).map(|_| open()).collect::<Result<Vec<_>, _>>();
        let pool =
            ReadPool::with_connections(connections.map_err(|error| error.to_string())?, damaged_documents);
        pool.map_err(|error| format!("cannot start a thread: {}", not_started(&error)))
    }

    fn with_connections(
        connections: Vec<Connection>,
        damaged_documents: Arc<DamagedDocuments>,
    ) -> io::Result<ReadPool> {
        let permits = Arc::new(Semaphore::new(connections.len()));
        let (work, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let start = |connection: Connection| {
            let waiting = waiting.clone();
            Builder::new().name("reader".to_owned()).spawn(move || serve(&connection, &waiting))
        };
        let threads = connections.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(ReadPool { work: Some(work), threads, permits, damaged_documents })
    }

    /// Waits for the reads that have started, and closes the connections.
    pub(super) fn close(&mut self) {
        self.work = None;
        // A read that holds the last handle is dropped by its thread, which cannot wait for itself.
        for thread in self.threads.drain(..).filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join(); // an error is a panic, which its caller has already received
        }
    }

    /// Runs a read in one read transaction, on one of the threads. Also returns the damaged documents that it read. If
    /// the call is dropped, the read still completes. If SQLite cannot start the read, the request ends; without a
    /// request, and in a stream that waits for a file to be opened, it is tried again ([`unavailable::retry`]).
    pub(super) async fn read<T, F>(&self, mut read: F) -> (T, Vec<String>)
    where
        T: Send + 'static,
        F: FnOnce(&ConnectionReader<'_>) -> T + Send + 'static,
    {
        loop {
            let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
            let damaged_documents = self.damaged_documents.clone();
            let (reply, replied) = oneshot::channel();
            let work: Work = Box::new(move |connection| {
                let result = match begin(connection) {
                    Err(error) => Err((read, error)),
                    Ok((transaction, revision)) => {
                        let reader = ConnectionReader::new(&transaction, revision, &damaged_documents);
                        let value = read(&reader);
                        Ok((value, reader.damaged()))
                    }
                };
                drop(permit);
                let _ = reply.send(result); // an error means that the call was dropped
            });
            self.work.as_ref().and_then(|threads| threads.send(work).ok()).expect("the store is open");
            match replied.await.expect("a read does not panic") {
                Ok(read) => return read,
                Err((returned, error)) => {
                    read = returned;
                    let failure = match is_damage(&error) {
                        true => {
                            self.damaged_documents.log(CHANGE_LOG, &error.to_string());
                            Unavailable::Damaged(vec![CHANGE_LOG.to_owned()])
                        }
                        // A file cannot be opened, or another error that may be temporary.
                        false => Unavailable::CannotOpen(error.to_string()),
                    };
                    unavailable::retry(failure).await;
                }
            }
        }
    }
}

/// Executes reads until the store is closed.
fn serve(connection: &Connection, waiting: &Mutex<Receiver<Work>>) {
    loop {
        let next = waiting.lock().expect("no holder panics").recv();
        match next {
            Ok(work) => work(connection),
            Err(_) => return,
        }
    }
}

/// Begins a read transaction. The read of the newest revision fixes its snapshot.
fn begin(connection: &Connection) -> rusqlite::Result<(Transaction<'_>, Revision)> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
    let revision = newest_revision(&transaction)?;
    Ok((transaction, revision))
}

#[cfg(test)]
mod tests {
    use super::super::DATABASE;
    use super::*;
    use std::fs;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::Context;
    use std::time::Duration;

    #[tokio::test]
    async fn a_request_ends_if_a_file_cannot_be_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(DATABASE);
        let writer = Connection::open(&file).expect("a database");
        writer.pragma_update(None, "journal_mode", "WAL").expect("a local disk");
        writer.execute_batch("CREATE TABLE changes (revision INTEGER)").expect("a new database");
        let reader = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("it exists");
        let readers = ReadPool::with_connections(vec![reader], Arc::default()).expect("a thread");
        // The first read opens the WAL. A folder in its place cannot be opened; the rename that ends this is atomic.
        let (wal, aside) = (folder.path().join("store.sqlite-wal"), folder.path().join("aside"));
        fs::rename(&wal, &aside).expect("it exists");
        std::os::unix::fs::symlink(folder.path(), &wal).expect("the name is free");
        let error = unavailable::catch(readers.read(|reader| reader.revision)).await.expect_err("a folder");
        assert!(matches!(error, Unavailable::CannotOpen(_)), "{error}");
        fs::rename(&aside, &wal).expect("it exists");
        assert_eq!(readers.read(|reader| reader.revision).await, (0, vec![]));
    }

    /// The janitor and the revocation of tokens have no request that could fail: one error of the disk must not stop
    /// them for ever.
    #[tokio::test]
    async fn a_read_without_a_request_is_retried_until_the_disk_has_recovered() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(DATABASE);
        let writer = Connection::open(&file).expect("a database");
        writer.execute_batch("CREATE TABLE changes (revision INTEGER)").expect("a new database");
        let reader = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("it exists");
        let readers = ReadPool::with_connections(vec![reader], Arc::default()).expect("a thread");
        let intact = fs::read(&file).expect("it exists");
        fs::write(&file, vec![b'x'; intact.len()]).expect("it can be written");
        let error = unavailable::catch(readers.read(|reader| reader.revision)).await.expect_err("damaged");
        assert!(matches!(error, Unavailable::Damaged(_)), "{error}");
        let reading = async {
            let (value, damaged) = readers.read(|reader| reader.revision).await;
            assert_eq!((value, damaged), (0, vec![]));
        };
        let mut reading = pin!(reading);
        for _ in 0..2 {
            let attempt = Arc::new(Attempt::default());
            let waker = attempt.clone().into();
            assert!(reading.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            // the first has failed; the second is due
            let tried = tokio::time::timeout(Duration::from_secs(20), attempt.0.notified());
            tried.await.expect("it is tried again");
        }
        fs::write(&file, intact).expect("it can be written");
        reading.await;
    }

    #[derive(Default)]
    struct Attempt(tokio::sync::Notify);

    impl std::task::Wake for Attempt {
        fn wake(self: Arc<Self>) {
            self.0.notify_one();
        }
    }
}
