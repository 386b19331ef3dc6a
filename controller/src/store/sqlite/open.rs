//! Opens a store's folder: takes the lock, creates the tables, and determines the store generation.
//!
//! A store is changed only after its version was checked: a database of another version is left untouched. Called by
//! [`super::Sqlite::open`].

use crate::store::sqlite::reads::{STATEMENTS, newest_revision};
use crate::store::{CHANGES_KEPT, Position};
use host::lock::LockHeld;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use state::documents::draft::Revision;
use state::terms::names::Uuid;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The version of the tables and of their documents, stored as SQLite's `user_version`. A store of another version is
/// not opened (ARCHITECTURE.md, Compatibility).
pub const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE documents (
        key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE changes (
        revision INTEGER NOT NULL, key TEXT NOT NULL, value TEXT,
        revision_before INTEGER, value_before TEXT,
        PRIMARY KEY (revision, key)) WITHOUT ROWID;
    PRAGMA user_version = 1;";

/// The options for opening a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store generation to use if the store is new or was restored: a random uuid.
    pub new_generation: Uuid,
    /// The operator states that the store was restored from a backup: a new generation starts even if this cannot be
    /// detected.
    pub restored: bool,
    /// The number of revisions in the change log, at least 1.
    pub changes_kept: u64,
    /// The maximum size in SQLite pages of 4 KiB; none if only the disk is the limit.
    pub pages_max: Option<u32>,
}

impl Options {
    /// The default options.
    pub fn new(new_generation: Uuid) -> Options {
        Options { new_generation, restored: false, changes_kept: CHANGES_KEPT, pages_max: None }
    }
}

/// Why a store was not opened. Its contents were not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store open.
    #[error("cannot open the store in {}: it is in use by {holder}", folder.display())]
    InUse { folder: PathBuf, holder: String },
    /// The store was written by another version of the controller.
    #[error(
        "cannot open {}: its store version is {found}, and this controller uses version {VERSION}; nothing was changed\n\
         hint: run the controller of the version that wrote it", file.display()
    )]
    OtherVersion { file: PathBuf, found: i64 },
    /// The folder or the database cannot be used.
    #[error("cannot open the store in {}: {why}", folder.display())]
    Failed { folder: PathBuf, why: String },
}

/// A store's folder that is locked and ready for use.
pub(super) struct OpenStore {
    pub lock: Lock,
    pub file: PathBuf,
    pub connection: Connection,
    pub sidecar: GenerationFile,
    pub store_generation: Uuid,
    pub newest: Revision,
}

pub(super) fn open(folder: &Path, options: &Options) -> Result<OpenStore, OpenError> {
    let failed = |why: String| OpenError::Failed { folder: folder.to_owned(), why };
    let lock = lock(folder)?;
    let file = folder.join("store.sqlite");
    if let Some(found) = other_version(&file).map_err(|e| failed(e.to_string()))? {
        return Err(OpenError::OtherVersion { file, found });
    }
    let connection = connect(&file, options).map_err(|e| failed(e.to_string()))?;
    let (store_generation, newest) =
        resolve_generation(&connection, folder, options).map_err(|e| failed(e.to_string()))?;
    let sidecar =
        GenerationFile::create(folder, store_generation, newest).map_err(|e| failed(e.to_string()))?;
    Ok(OpenStore { lock, file, connection, sidecar, store_generation, newest })
}

/// The lock on `store.lock`, released on drop.
pub(super) struct Lock(host::lock::Lock);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.release(); // on failure, the exit of the process releases it
    }
}

/// Takes the lock and writes the id of this process into the file.
fn lock(folder: &Path) -> Result<Lock, OpenError> {
    match host::lock::Lock::take(&folder.join("store.lock"), &format!("process {}", std::process::id())) {
        Ok(Ok(lock)) => Ok(Lock(lock)),
        Ok(Err(LockHeld(holder))) => {
            let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
            Err(OpenError::InUse { folder: folder.to_owned(), holder })
        }
        Err(error) => Err(OpenError::Failed { folder: folder.to_owned(), why: error.to_string() }),
    }
}

/// Returns the version of an existing database if it differs from [`VERSION`], without changing it. Version 0 is a
/// database without tables.
fn other_version(file: &Path) -> rusqlite::Result<Option<i64>> {
    if !file.exists() {
        return Ok(None);
    }
    let version = |flags| {
        let connection = Connection::open_with_flags(file, flags)?;
        connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    };
    let version = match version(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // A process died while it created the database: only a connection that may write can roll that back.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            version(OpenFlags::SQLITE_OPEN_READ_WRITE)?
        }
        other => other?,
    };
    Ok(Some(version).filter(|version| ![0, VERSION].contains(version)))
}

fn connect(file: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?; // a commit must not depend on a free descriptor
    if let Some(pages) = options.pages_max {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        transaction.execute_batch(TABLES)?;
    }
    transaction.commit()?;
    Ok(connection)
}

/// Returns the store generation and the newest revision. A new generation starts if the store is new, if the operator
/// states that it was restored, or if `history.yaml` has a later revision or another generation than the database.
fn resolve_generation(
    connection: &Connection,
    folder: &Path,
    options: &Options,
) -> Result<(Uuid, Revision), Box<dyn std::error::Error>> {
    let newest = newest_revision(connection)?;
    let stored: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = 'history'", [], |row| row.get(0))
        .optional()?;
    let stored = stored.map(|text| text.parse::<Uuid>().map_err(|e| e.to_string())).transpose()?;
    let file = GenerationFile::load(folder);
    let continued = stored.filter(|stored| {
        !options.restored
            && file.is_none_or(|file| file.store_generation == *stored && file.revision <= newest)
    });
    if let Some(store_generation) = continued {
        return Ok((store_generation, newest));
    }
    let store_generation = options.new_generation;
    connection
        .execute("INSERT OR REPLACE INTO meta VALUES ('history', ?1)", [store_generation.to_string()])?;
    Ok((store_generation, newest))
}

/// The file `history.yaml`: the store generation and a revision that it has reached. It is synced only when it is
/// created: if the file lags behind, it may fail to detect a restored backup, but it never reports one falsely.
pub(super) struct GenerationFile {
    file: File,
    store_generation: Uuid,
}

impl GenerationFile {
    /// Reads the file that the previous process left; none if it is absent or unreadable.
    fn load(folder: &Path) -> Option<Position> {
        let text = std::fs::read_to_string(folder.join("history.yaml")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let store_generation = field("history:")?.parse().ok()?;
        Some(Position { store_generation, revision: field("revision:")?.parse().ok()? })
    }

    /// Replaces the file atomically and syncs the folder, which also makes the database's directory entry durable.
    fn create(folder: &Path, store_generation: Uuid, revision: Revision) -> std::io::Result<GenerationFile> {
        let path = folder.join("history.yaml");
        host::file::write_atomic(&path, text(store_generation, revision).as_bytes())?;
        Ok(GenerationFile { file: OpenOptions::new().write(true).open(path)?, store_generation })
    }

    /// Records a revision. The file is overwritten in place, since its text always has the same length.
    pub(super) fn note(&self, revision: Revision) -> std::io::Result<()> {
        self.file.write_all_at(text(self.store_generation, revision).as_bytes(), 0)
    }
}

fn text(generation: Uuid, revision: Revision) -> String {
    format!(
        "# A database with an older revision than this was restored from a backup.\n\
         history: {generation}\nrevision: {revision:<20}\n"
    )
}
