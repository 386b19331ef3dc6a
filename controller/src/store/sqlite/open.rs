//! Opens a store's folder: takes the lock, creates the tables, and determines the store generation.
//!
//! Whether a store may be opened is decided before anything is changed (`accept`), and `pintle-controller check` reports
//! the same refusals ([`refusals`]): a database of another version is left untouched, and one that is not that of the
//! recorded store generation, or is older than it, is never treated as new. It is refused until an operator states that a
//! new store generation starts (design 8). Called by [`super::Sqlite::open`].

use super::damaged_documents::DamagedDocuments;
use super::generation_file::{DatabaseFile, GenerationFile};
use super::reads::{STATEMENTS, is_damage, newest_revision};
use crate::store::{CHANGES_BYTES_MAX, CHANGES_KEPT};
use api::etcd_file::ETCD_FILE;
use host::file::exists;
use host::lock::LockHeld;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use state::documents::draft::Revision;
use state::terms::names::Uuid;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The version of the tables and of their documents, stored as SQLite's `user_version`. A store of another version is
/// not opened (ARCHITECTURE.md, Compatibility).
pub const VERSION: i64 = 1;
/// SQLite's default.
const PAGE_BYTES: u64 = 4096;
/// The file of the database.
pub const DATABASE: &str = "store.sqlite";
/// The file that the process with the open store locks.
pub const LOCK: &str = "store.lock";
const TABLES: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE documents (
        key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value TEXT NOT NULL,
        checksum INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE changes (
        revision INTEGER NOT NULL, key TEXT NOT NULL, value TEXT,
        revision_before INTEGER, value_before TEXT, checksum INTEGER,
        PRIMARY KEY (revision, key)) WITHOUT ROWID;
    PRAGMA user_version = 1;";

/// The options for opening a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store generation to use if the store is new or was restored: a random uuid.
    pub new_generation: Uuid,
    /// The operator states that the store was restored from a backup, or starts empty: a new generation starts. Without
    /// this, a database that is missing, empty, of another generation or older than the recorded revision is refused.
    pub restored: bool,
    /// The number of revisions in the change log, at least 1.
    pub changes_kept: u64,
    /// The number of bytes in the change log; at least the newest commit is kept.
    pub changes_bytes_max: u64,
    /// The maximum size in SQLite pages of 4 KiB; none if only the disk is the limit.
    pub pages_max: Option<u32>,
}

impl Options {
    /// The default options.
    pub fn new(new_generation: Uuid) -> Options {
        Options {
            new_generation,
            restored: false,
            changes_kept: CHANGES_KEPT,
            changes_bytes_max: CHANGES_BYTES_MAX,
            pages_max: None,
        }
    }
}

/// Why a store was not opened. A database that was refused is not changed by the attempt.
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
    /// The database is not the one of the recorded store generation, or its file is damaged as a whole.
    #[error(
        "cannot open {}: {why}; put the right file back, or start a new store generation without it: move it away, \
         put a backup in its place if there is one, and run pintle up --restored", file.display()
    )]
    NotTheStore { file: PathBuf, why: String },
    /// The database is of the recorded store generation, and lacks its newest commits.
    #[error(
        "cannot open {}: it is an older copy: it has revision {found}, but revision {reached} was reached; put the \
         right file back, with its store.sqlite-wal if there is one, or start a new store generation from this copy: \
         pintle up --restored", file.display()
    )]
    OlderCopy { file: PathBuf, found: Revision, reached: Revision },
    /// The database and the recorded store generation were copied into this folder together.
    #[error(
        "cannot open {}: it was copied into its folder, as a restored backup is, and may lack the newest commits; start \
         a new store generation from it: pintle up --restored", file.display()
    )]
    CopiedIntoPlace { file: PathBuf },
    /// The file of the database is also that of another folder.
    #[error(
        "cannot open {0}: the file has {names} names (hard links), so that another folder shares its content; give this \
         folder a copy of its own: cp {0} {0}.copy && mv {0}.copy {0}", file.display()
    )]
    Shared { file: PathBuf, names: u64 },
    /// The documents are in etcd: a migration has exchanged the folder while this process started, or the file is left of
    /// another controller.
    #[error(
        "cannot open {}: {} states that the models are in etcd\n\
         hint: if they are, start it again; if they are in the database, delete that file", file.display(), record.display()
    )]
    InEtcd { file: PathBuf, record: PathBuf },
    /// The folder or the database cannot be used.
    #[error("cannot open the store in {}: {why}", folder.display())]
    Failed { folder: PathBuf, why: String },
}

impl OpenError {
    /// Whether the store stays closed until an operator acts.
    pub fn needs_operator(&self) -> bool {
        match self {
            OpenError::OtherVersion { .. }
            | OpenError::NotTheStore { .. }
            | OpenError::OlderCopy { .. }
            | OpenError::Shared { .. }
            | OpenError::CopiedIntoPlace { .. } => true,
            // the next start finds out where the models are
            OpenError::InEtcd { .. } | OpenError::InUse { .. } | OpenError::Failed { .. } => false,
        }
    }
}

/// A store's folder that is locked and ready for use.
pub(super) struct OpenStore {
    pub lock: Lock,
    pub file: PathBuf,
    pub database_file: DatabaseFile,
    pub connection: Connection,
    pub generation_file: GenerationFile,
    pub store_generation: Uuid,
    pub newest: Revision,
    pub damaged_documents: DamagedDocuments,
}

pub(super) fn open(folder: &Path, options: &Options) -> Result<OpenStore, OpenError> {
    let failed = |why: String| OpenError::Failed { folder: folder.to_owned(), why };
    let lock = lock(folder)?;
    let file = folder.join(DATABASE);
    // 1. A start finds the models in a database. 2. A migration exchanges the folder for one without. 3. The start has the
    //    lock, and would create an empty database.
    let record = folder.join(Path::new(ETCD_FILE).file_name().unwrap_or_default());
    if exists(&record).map_err(|error| failed(error.to_string()))? {
        return Err(OpenError::InEtcd { file, record });
    }
    require_one_name(&file)?;
    let Accepted { continued, is_recorded, newest, damaged_documents } =
        accept(folder, &file, options.restored)?;
    let unreadable = |error: rusqlite::Error| match is_damage(&error) && is_recorded {
        true => OpenError::NotTheStore { file: file.clone(), why: damaged(&error) },
        false => failed(error.to_string()),
    };
    let connection = connect(&file, options).map_err(unreadable)?;
    let store_generation = continued.unwrap_or(options.new_generation);
    if continued.is_none() {
        if GenerationFile::load(folder).is_some() {
            GenerationFile::record_start(folder, store_generation)
                .map_err(|error| failed(error.to_string()))?;
        }
        start_generation(&connection, store_generation).map_err(unreadable)?;
    }
    let generation_file =
        GenerationFile::create(folder, store_generation, newest).map_err(|e| failed(e.to_string()))?;
    let database_file = DatabaseFile::of(&file).map_err(|error| failed(error.to_string()))?;
    Ok(OpenStore {
        lock,
        file,
        database_file,
        connection,
        generation_file,
        store_generation,
        newest,
        damaged_documents,
    })
}

/// A store that may be opened.
struct Accepted {
    /// The store generation that is continued; none if a new one starts.
    continued: Option<Uuid>,
    /// Whether there is a `generation.yaml`.
    is_recorded: bool,
    newest: Revision,
    damaged_documents: DamagedDocuments,
}

/// Every reason for which [`open`] refuses the store in a folder, now or after the first reason was removed. `readable` is
/// a copy of its database, because SQLite writes beside a database that it reads. `is_copy`: only a start that is
/// `restored` would open it.
pub(super) fn refusals(folder: &Path, readable: &Path, is_copy: bool) -> Vec<OpenError> {
    let starts = if is_copy { &[true][..] } else { &[false, true] };
    let accepted = starts.iter().map(|restored| accept(folder, readable, *restored).err());
    let all = [require_one_name(&folder.join(DATABASE)).err()].into_iter().chain(accepted).flatten();
    let mut refusals: Vec<OpenError> = Vec::new();
    for refusal in all {
        if !refusals.iter().any(|other| other.to_string() == refusal.to_string()) {
            refusals.push(refusal);
        }
    }
    refusals
}

/// Refuses a database that is also that of another folder.
fn require_one_name(file: &Path) -> Result<(), OpenError> {
    match std::fs::metadata(file).map(|found| found.nlink()) {
        Ok(names) if names > 1 => Err(OpenError::Shared { file: file.to_owned(), names }),
        Ok(_) | Err(_) => Ok(()), // SQLite gives the reason
    }
}

/// Decides whether the store in a folder may be opened, and changes nothing. `readable` is its database, or a copy of it.
fn accept(folder: &Path, readable: &Path, restored: bool) -> Result<Accepted, OpenError> {
    let failed = |why: String| OpenError::Failed { folder: folder.to_owned(), why };
    let file = folder.join(DATABASE);
    let recorded = GenerationFile::load(folder);
    let is_recorded = exists(&GenerationFile::path(folder)).map_err(|error| failed(error.to_string()))?;
    let refused = |why: String| OpenError::NotTheStore { file: file.clone(), why };
    let unreadable = |error: rusqlite::Error| match is_damage(&error) && is_recorded {
        true => refused(damaged(&error)),
        false => failed(error.to_string()),
    };
    if is_recorded && !restored {
        why_incomplete(&file).map_or(Ok(()), |why| Err(refused(why.to_owned())))?;
    }
    if let Some(found) = read_only(readable, other_version).map_err(unreadable)?.flatten() {
        return Err(OpenError::OtherVersion { file, found });
    }
    // A database that is refused must not be changed, not even by a checkpoint: it may be the only copy.
    let identity = read_only(readable, identity).map_err(unreadable)?.unwrap_or(Ok(Identity::default()));
    let Identity { stored, newest } = identity.map_err(|why| refused(damaged(&why)))?;
    let continued = match (stored, recorded) {
        _ if restored => None,
        (None, None) if !is_recorded => None,
        (None, _) => return Err(refused("it contains no store".to_owned())),
        // A process died when it had made the database of a new store and not yet this file.
        (Some(stored), None) if newest == 0 => Some(stored),
        (Some(_), None) => {
            let name = "generation.yaml, which records its newest revision, is missing or damaged: it may be an older copy";
            return Err(refused(name.to_owned()));
        }
        (Some(stored), Some(at)) if at.store_generation == stored && at.revision > newest => {
            return Err(OpenError::OlderCopy { file, found: newest, reached: at.revision });
        }
        (Some(stored), Some(at)) if at.store_generation == stored && GenerationFile::is_copied(folder) => {
            return Err(OpenError::CopiedIntoPlace { file });
        }
        (Some(stored), Some(at)) if at.store_generation == stored => Some(stored),
        // A process that was started with `--restored` died before it replaced `generation.yaml`.
        (Some(stored), Some(_)) if GenerationFile::starting(folder) == Some(stored) => Some(stored),
        (Some(stored), Some(at)) => {
            let recorded = at.store_generation;
            return Err(refused(format!("it is of store generation {stored}, but {recorded} is recorded")));
        }
    };
    let damaged_documents = match stored {
        None => DamagedDocuments::default(), // a database without tables
        Some(_) => read_only(readable, examine)
            .map_err(unreadable)?
            .unwrap_or_else(|| Ok(DamagedDocuments::default()))
            .map_err(|why| refused(damaged(&why)))?,
    };
    Ok(Accepted { continued, is_recorded, newest, damaged_documents })
}

fn damaged(why: &dyn std::fmt::Display) -> String {
    format!("it is damaged ({why})")
}

/// Returns why a file cannot be a complete database; none if it may be one.
pub(super) fn why_incomplete(file: &Path) -> Option<&'static str> {
    let length = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.len());
    match length(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some("it is missing"),
        Err(_) => None, // SQLite gives the reason
        Ok(0) => Some("it is empty"),
        Ok(bytes) => {
            // With a WAL, a checkpoint may have been interrupted; it is repeated.
            let wal = length(&file.with_extension("sqlite-wal")).unwrap_or(0);
            (wal == 0 && bytes % PAGE_BYTES != 0).then_some("it is truncated")
        }
    }
}

/// Returns the damaged documents, or why the database is damaged as a whole.
fn examine(connection: &Connection) -> rusqlite::Result<Result<DamagedDocuments, String>> {
    Ok(match structural_fault(connection)? {
        Some(why) => Err(why),
        None => DamagedDocuments::find(connection),
    })
}

/// Returns the first fault in the structure of the database; none if it is sound. The contents of rows are not checked.
/// A write into a damaged structure would damage it further.
fn structural_fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let first: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((first != "ok").then(|| first.replace('\n', "; ")))
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
    match host::lock::Lock::take(&folder.join(LOCK), &format!("process {}", std::process::id())) {
        Ok(Ok(lock)) => Ok(Lock(lock)),
        Ok(Err(LockHeld(holder))) => {
            let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
            Err(OpenError::InUse { folder: folder.to_owned(), holder })
        }
        Err(error) => Err(OpenError::Failed { folder: folder.to_owned(), why: error.to_string() }),
    }
}

/// Reads an existing database without changing it; none if there is no file.
fn read_only<T>(
    file: &Path,
    read: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    if matches!(exists(file), Ok(false)) {
        return Ok(None); // the database names another error
    }
    let with = |flags| read(&Connection::open_with_flags(file, flags)?);
    match with(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // A process died while it created the database: only a connection that may write can roll that back.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            with(OpenFlags::SQLITE_OPEN_READ_WRITE).map(Some)
        }
        other => other.map(Some),
    }
}

/// Returns the version of a database.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Returns the version of a database if it differs from [`VERSION`]. Version 0 is a database without tables.
fn other_version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    Ok(Some(version(connection)?).filter(|version| ![0, VERSION].contains(version)))
}

/// The store generation of a database, and its newest revision.
#[derive(Default)]
struct Identity {
    stored: Option<Uuid>,
    newest: Revision,
}

/// Reads the identity of a database of [`VERSION`]; it is empty for a database without tables.
fn identity(connection: &Connection) -> rusqlite::Result<Result<Identity, String>> {
    if version(connection)? == 0 {
        return Ok(Ok(Identity::default()));
    }
    let newest = newest_revision(connection)?;
    Ok(generation(connection).map(|stored| Identity { stored, newest }))
}

fn connect(file: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Takes effect in a new database only. The writer gives free pages back to the disk.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?; // a commit must not depend on a free descriptor
    if let Some(pages) = options.pages_max {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
    if version(&transaction)? == 0 {
        transaction.execute_batch(TABLES)?;
    }
    transaction.commit()?;
    Ok(connection)
}

/// The name of the store generation in the table `meta`.
const STORE_GENERATION: &str = "store_generation";

/// Reads the store generation from the database.
fn generation(connection: &Connection) -> Result<Option<Uuid>, String> {
    let query = "SELECT value FROM meta WHERE name = ?1";
    let stored = connection.query_row(query, [STORE_GENERATION], |row| row.get(0));
    let stored: Option<String> = stored.optional().map_err(|error| error.to_string())?;
    stored.map(|text| text.parse().map_err(|_| format!("{text:?} is no store generation"))).transpose()
}

/// Starts a new store generation.
fn start_generation(connection: &Connection, new: Uuid) -> rusqlite::Result<()> {
    connection
        .execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", [STORE_GENERATION, &new.to_string()])?;
    Ok(())
}
