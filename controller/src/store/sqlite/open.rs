//! Opening a store's folder: the lock, the tables, and which history goes on there.

use crate::store::sqlite::{STATEMENTS, newest_revision};
use crate::store::{CHANGES_KEPT, Position};
use host::lock::LockHeld;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use state::documents::draft::Revision;
use state::terms::names::Uuid;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The version of the tables below and of the documents in them, in SQLite's `user_version`. A store of another
/// version is not opened (ARCHITECTURE.md, Compatibility).
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

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of the history that begins if the store is new or was restored. Made by the entropy port.
    pub new_generation: Uuid,
    /// The operator says that this is a restored copy: begins a new history even if nothing shows it.
    pub restored: bool,
    /// Revisions the change log keeps, at least 1.
    pub changes_kept: u64,
    /// Size limit in SQLite pages of 4 KiB; none: the disk is the limit.
    pub pages_max: Option<u32>,
}

impl Options {
    pub fn new(new_generation: Uuid) -> Options {
        Options { new_generation, restored: false, changes_kept: CHANGES_KEPT, pages_max: None }
    }
}

/// Why a store was not opened. It was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the store in {} is in use by {holder}", folder.display())]
    InUse { folder: PathBuf, holder: String },
    #[error(
        "cannot open {}: its store version is {found}, and this controller uses version {VERSION}; nothing was changed\n\
         hint: run the controller of the version that wrote it", file.display()
    )]
    OtherVersion { file: PathBuf, found: i64 },
    #[error("cannot open the store in {}: {why}", folder.display())]
    Failed { folder: PathBuf, why: String },
}

/// A store's folder, locked and ready.
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

/// The lock on `store.lock`.
pub(super) struct Lock(host::lock::Lock);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.release(); // the end of the process releases it as well
    }
}

/// Takes the lock and writes this process into the file.
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

/// The version of an existing database if it is not ours; writes nothing of its own. Version 0 is a database whose
/// tables were not made yet.
fn other_version(file: &Path) -> rusqlite::Result<Option<i64>> {
    if !file.exists() {
        return Ok(None);
    }
    let version = |flags| {
        let connection = Connection::open_with_flags(file, flags)?;
        connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    };
    let version = match version(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // a start that died while it made the database: what it left is undone by whoever may write
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

/// The history this store continues, and how far it has come. A new one begins if the store is new, if the operator
/// says it was restored, or if `store_generation.yaml` knows a later revision or another history than the database.
fn resolve_generation(
    connection: &Connection,
    folder: &Path,
    options: &Options,
) -> Result<(Uuid, Revision), Box<dyn std::error::Error>> {
    let newest = newest_revision(connection)?;
    let known: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = 'history'", [], |row| row.get(0))
        .optional()?;
    let known = known.map(|text| text.parse::<Uuid>().map_err(|e| e.to_string())).transpose()?;
    let seen = GenerationFile::load(folder);
    let continued = known.filter(|known| {
        !options.restored
            && seen.is_none_or(|seen| seen.store_generation == *known && seen.revision <= newest)
    });
    if let Some(store_generation) = continued {
        return Ok((store_generation, newest));
    }
    let store_generation = options.new_generation;
    connection
        .execute("INSERT OR REPLACE INTO meta VALUES ('history', ?1)", [store_generation.to_string()])?;
    Ok((store_generation, newest))
}

/// `store_generation.yaml`: the history and a revision it is known to have reached. Never synced after its creation: one that
/// lags behind only notices less.
pub(super) struct GenerationFile {
    file: File,
    store_generation: Uuid,
}

impl GenerationFile {
    /// What the last process left. Unreadable is as good as absent.
    fn load(folder: &Path) -> Option<Position> {
        let text = std::fs::read_to_string(folder.join("history.yaml")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let store_generation = field("history:")?.parse().ok()?;
        Some(Position { store_generation, revision: field("revision:")?.parse().ok()? })
    }

    /// Replaces the file whole and synced, together with the database's own entry in the folder.
    fn create(folder: &Path, store_generation: Uuid, revision: Revision) -> std::io::Result<GenerationFile> {
        let path = folder.join("history.yaml");
        host::file::write_atomic(&path, text(store_generation, revision).as_bytes())?;
        Ok(GenerationFile { file: OpenOptions::new().write(true).open(path)?, store_generation })
    }

    /// Writes in place: the text always has the same length.
    pub(super) fn note(&self, revision: Revision) -> std::io::Result<()> {
        self.file.write_all_at(text(self.store_generation, revision).as_bytes(), 0)
    }
}

fn text(generation: Uuid, revision: Revision) -> String {
    format!(
        "# A database that is behind this was restored from an older copy.\n\
         history: {generation}\nrevision: {revision:<20}\n"
    )
}
