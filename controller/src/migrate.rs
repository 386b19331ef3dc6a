//! `pintle-controller migrate`: moves the documents of a controller that is not running to the other engine of the store.
//!
//! Nothing of the old store is changed before the switch, which is one exchange of two folders: a process that dies at any
//! point leaves either the old store or the complete new one in use. The old one is kept under a name that no start opens.
//!
//! ```text
//! controller/store/           the store in use
//! controller/store.next/      the new one while it is prepared; the next migration deletes it
//! controller/store.old-NAME/  the one that the last migration from engine NAME has left
//! ```
//!
//! 1. The documents are verified, copied in batches, read again and compared. So are the charm archives and the files of
//!    resources, by their digests: etcd keeps them (`store::files`), and with a database they are in the data folder.
//! 2. `store.next` gets the name `store.old-NAME`; an older folder of that name is deleted.
//! 3. `store` and `store.old-NAME` are exchanged.
//!
//! A store in etcd is not open to others in the meantime: it is a [`Migration::Candidate`](crate::store::etcd::Migration)
//! until its data folder opens it, and `Left` after the system has left it. A store that was changed after it was read is
//! not left: the exchange is undone. The new store has a file with the store in etcd that is to be marked as left (`LeftStore`), so that the next
//! start does it if the migration has died between the exchange and the mark. Revisions of the engines differ, so the new store has a new store
//! generation, and agents report again what it could lack, as after a restore (design 4). Called by `program`.

mod files;
mod large_bags;

use self::files::{fetch_files, put_files};
use crate::check::{examine, type_errors, violated_invariants};
use crate::environment::uuid_v4;
use crate::etcd_arguments::{self, EtcdArguments, file_of, lock};
use crate::installation::{Installation, StorePlace};
use crate::required_file::{FROM_A_BACKUP, read_yaml, write_yaml};
use crate::store::etcd::{self, Etcd, EtcdCopy, OpenError, leave, newest_change, prepare_to_leave};
use crate::store::files::StoreFiles;
use crate::store::sqlite::{self, DATABASE, Sqlite};
use crate::store::{ApplyError, Store as _};
use anyhow::{Context, Result, bail};
use api::data_folder::MIGRATION_LOCK;
use api::etcd_file::{ETCD_FILE, EtcdConnection, EtcdFile};
use host::file::{create_private_folder, exchange_folders, exists, ignore_not_found, sync_folder};
use state::documents::draft::{Reader, Revision, StoredDocument, Transaction};
use state::terms::names::Uuid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The documents of one batch, some 200 KiB: as many as in a page of a list.
const BATCH_DOCUMENTS: usize = 200;
/// The bytes of the documents of one batch, unless it is a single one. With keys and prefix this is less than what etcd
/// accepts in one transaction (1.5 MiB).
const BATCH_BYTES: usize = 1 << 20;
/// How long a start waits for an etcd that a migration has left: etcd answers in milliseconds if it can be used.
const LEFT_STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// The findings that the error of a damaged store names.
const FINDINGS_SHOWN: usize = 3;

/// The arguments of `migrate`.
#[derive(clap::Args)]
pub struct MigrateArguments {
    /// The data folder
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The new store: etcd://HOST[:PORT],HOST[:PORT],..., whose prefix and certificates the flags below state; or sqlite,
    /// a database in the data folder
    #[arg(long, value_name = "STORE")]
    to: String,
    #[command(flatten)]
    etcd: EtcdArguments,
}

/// Where documents are migrated to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A database in the data folder; how the store that is left is reached.
    Sqlite(EtcdConnection),
    /// A prefix of etcd.
    Etcd(EtcdConnection),
}

/// The points of a migration between which a crash differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The new store has its first documents.
    PartlyCopied,
    /// The new store is complete and verified.
    Copied,
    /// The old store in etcd is ready to be left.
    Marked,
    /// The new store has the name that the old one will have.
    Renamed,
    /// The new store is in use.
    Switched,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Step; 5] =
        [Step::PartlyCopied, Step::Copied, Step::Marked, Step::Renamed, Step::Switched];
}

/// What a migration has done.
#[derive(Debug)]
pub struct Migrated {
    /// The number of documents.
    pub documents: usize,
    /// The folder of the old store.
    pub old: PathBuf,
}

/// Runs the command and prints its result. Returns the exit code: 0 if the new store is in use, 1 if the old one is.
pub fn run(arguments: &MigrateArguments) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let migrated = runtime.context("cannot start").and_then(|runtime| {
        runtime.block_on(async {
            let target = target(arguments)?;
            let migrated = migrate(&arguments.data, &target, &|_| true).await?;
            println!("{}", report(&migrated, &arguments.data, &target));
            Ok(())
        })
    });
    match migrated {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ERROR cannot migrate the store: {error:#}");
            1
        }
    }
}

fn report(migrated: &Migrated, data: &Path, target: &Target) -> String {
    let (documents, old, data) = (migrated.documents, migrated.old.display(), data.display());
    let keys = match target {
        Target::Etcd(_) => String::new(),
        Target::Sqlite(left) => {
            let prefix = left.prefix.trim_end_matches('/');
            format!(
                " and the keys in etcd (etcdctl del --prefix {prefix}/m/; etcdctl del --prefix {prefix}/d/; \
                 etcdctl del --prefix {prefix}/b/)"
            )
        }
    };
    format!(
        "migrated {documents} documents; the next start uses them: pintle --data {data} up\n\
         the old store is kept in {old}; once the system runs with the new one, delete that folder{keys}"
    )
}

/// Returns where the documents are to be migrated to.
fn target(arguments: &MigrateArguments) -> Result<Target> {
    if arguments.to != "sqlite" {
        return arguments.etcd.connection_to(&arguments.to).map(Target::Etcd);
    }
    let source = arguments.etcd.connection(&arguments.data)?;
    let source =
        source.with_context(|| format!("the models of {} are not in etcd", arguments.data.display()));
    source.map(Target::Sqlite)
}

/// Moves the documents of a data folder to the target. `continues` is asked after each step; if it returns false, the
/// migration ends there as a process that dies.
///
/// # Errors
/// If the migration is refused or fails: the old store stays in use.
pub async fn migrate(data: &Path, target: &Target, continues: &dyn Fn(Step) -> bool) -> Result<Migrated> {
    let reached = |step: Step| match continues(step) {
        true => Ok(()),
        false => bail!("stopped after {step:?}"),
    };
    let is_in_etcd = exists(&data.join(ETCD_FILE))?;
    let store = Installation::store_in(data);
    let (place, old_name) = match (target, is_in_etcd) {
        (Target::Etcd(_), true) => bail!(
            "the models of {} are in etcd already\nhint: to another etcd: migrate --to sqlite first",
            data.display()
        ),
        (Target::Sqlite(_), false) => bail!("the models of {} are not in etcd", data.display()),
        (Target::Etcd(_), false) if !exists(&store.join(DATABASE))? => {
            bail!("{} has no store", data.display())
        }
        (Target::Etcd(_), false) => (StorePlace::Folder, "sqlite"),
        (Target::Sqlite(_), true) => (StorePlace::Etcd, "etcd"),
    };
    require_own(&store)?;
    let _lock = lock(&store, MIGRATION_LOCK)
        .map_err(|error| error.context("stop the controller first (pintle down)"))?;
    let installation = Installation::open_with_store(data, false, place)?;
    let (documents, left) = match target {
        Target::Etcd(_) => (documents_of_sqlite(data)?, None),
        Target::Sqlite(source) => {
            let left = LeftStore::of(source, data, installation.controller())?;
            let EtcdContent { documents, files, newest } =
                documents_of_etcd(source, data, &installation).await?;
            (documents, Some((left, newest, files)))
        }
    };
    let beside = |name: &str| store.with_file_name(name);
    let (next, old) = (beside("store.next"), beside(&format!("store.old-{old_name}")));
    remove_folder(&next)?;
    create_private_folder(&next).with_context(|| format!("cannot create {}", next.display()))?;
    let partly = || reached(Step::PartlyCopied);
    match target {
        Target::Etcd(connection) => {
            copy_to_etcd(connection, &documents, &installation, &next, &partly).await?
        }
        Target::Sqlite(_) => copy_to_sqlite(&documents, &next, &partly).await?,
    }
    if let Some((left, _, files)) = &left {
        fetch_files(files, &documents, data).await?;
        left.write(&next)?;
    }
    sync_folder(&next)?;
    // A start that comes between the exchange and the end of this process finds the store in use.
    let _next_lock = lock(&next, MIGRATION_LOCK)?;
    reached(Step::Copied)?;
    if let Some((left, newest, _)) = &left {
        prepare_to_leave(&left.options, left.file.store_generation, *newest).await?;
    }
    reached(Step::Marked)?;
    remove_folder(&old)?;
    std::fs::rename(&next, &old).with_context(|| format!("cannot rename {}", next.display()))?;
    reached(Step::Renamed)?;
    exchange_folders(&store, &old)
        .with_context(|| format!("cannot exchange {} and {}", store.display(), old.display()))?;
    reached(Step::Switched)?;
    if let Some((left, _, _)) = left
        && let Err(error) = left.complete(data).await
    {
        if matches!(error.downcast_ref(), Some(OpenError::ChangedByOther)) {
            // what the other controller has committed is in the old store only
            exchange_folders(&store, &old)
                .with_context(|| format!("cannot exchange {} and {}", store.display(), old.display()))?;
            return Err(error);
        }
        eprintln!("WARNING {error:#}\nhint: the next start repeats it");
    }
    Ok(Migrated { documents: documents.len(), old })
}

/// Refuses the store of another user, who could not open the one that this process makes.
fn require_own(store: &Path) -> Result<()> {
    let owner = std::fs::metadata(store).with_context(|| store.display().to_string())?.uid();
    if owner != nix::unistd::geteuid().as_raw() {
        bail!(
            "{} belongs to another user\nhint: run it as the user with the number {owner}",
            store.display()
        );
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<()> {
    let removed = ignore_not_found(std::fs::remove_dir_all(folder));
    removed.map(drop).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Refuses a store with findings.
fn require_sound(findings: &[String], hint: &str) -> Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let shown = findings.iter().take(FINDINGS_SHOWN).cloned().collect::<Vec<_>>().join("; ");
    bail!("the store has {} findings: {shown}\nhint: {hint}", findings.len())
}

/// Reads and verifies the documents of the database, whose lock is held.
fn documents_of_sqlite(data: &Path) -> Result<Vec<StoredDocument>> {
    let (mut report, inspection) = examine(data).map_err(anyhow::Error::msg)?;
    report.findings.extend(report.note); // a start would refuse the store
    let hint = format!("repair the store first; to verify it: pintle-controller check {}", data.display());
    require_sound(&report.findings, &hint)?;
    large_bags::refuse(&inspection)?;
    Ok(inspection.documents.into_values().collect())
}

/// A store in etcd that a migration to a database leaves.
struct LeftStore {
    options: etcd::Options,
    file: EtcdFile,
}

impl LeftStore {
    /// The file in the folder of the new store, until the old one is marked as left. It has the form of `etcd.yaml`.
    const FILE: &str = "left-etcd.yaml";

    fn of(source: &EtcdConnection, data: &Path, installation: Uuid) -> Result<LeftStore> {
        let recorded = etcd_arguments::recorded(data)?.context("etcd.yaml is missing")?;
        Ok(LeftStore {
            options: etcd_arguments::options(source, installation)?,
            file: file_of(recorded, source),
        })
    }

    fn write(&self, store: &Path) -> Result<()> {
        write_yaml(&store.join(LeftStore::FILE), &self.file)
    }

    /// Marks the store as left, then deletes the file.
    async fn complete(&self, data: &Path) -> Result<()> {
        let marked = leave(&self.options, self.file.store_generation).await;
        marked.context("cannot mark the old store in etcd as left")?;
        let file = Installation::store_in(data).join(LeftStore::FILE);
        let removed = ignore_not_found(std::fs::remove_file(&file));
        removed.map(drop).with_context(|| format!("cannot delete {}", file.display()))
    }
}

/// A migration has died before it marked the old store in etcd as left, and another controller has opened that store since.
#[derive(Debug, thiserror::Error)]
#[error(
    "another controller has opened the store in etcd that this data folder has left\n\
     hint: stop that controller; then delete {file} to use the database, or put the folder store.old-etcd back in the \
     place of store to use that store"
)]
pub struct LeftStoreInUse {
    /// The file that states how that etcd is reached.
    pub file: String,
}

/// Completes a migration to a database that has died after the exchange, at a start whose store that is, before it is opened:
/// two controllers could otherwise change their models differently. An etcd that cannot be used, which may not exist any
/// more, prevents no start.
///
/// # Errors
/// If another controller has opened the old store since: a person has to decide which store is used.
pub async fn complete_at_start(data: &Path, installation: Uuid) -> Result<()> {
    let completed = tokio::time::timeout(LEFT_STORE_TIMEOUT, complete(data, installation)).await;
    let Err(error) = completed.unwrap_or_else(|_| bail!("the old store in etcd does not answer")) else {
        return Ok(());
    };
    let file = Installation::store_in(data).join(LeftStore::FILE).display().to_string();
    if matches!(error.downcast_ref(), Some(OpenError::ChangedByOther)) {
        return Err(LeftStoreInUse { file }.into());
    }
    tracing::warn!(
        "{error:#}; the next start repeats it, unless {file} is deleted because that etcd is gone"
    );
    Ok(())
}

/// Completes a migration to a database that has died after the exchange: marks the old store in etcd as left. Nothing to do
/// if there was none.
///
/// # Errors
/// If etcd cannot be used, or another controller has opened the old store since.
pub async fn complete(data: &Path, installation: Uuid) -> Result<()> {
    let file = Installation::store_in(data).join(LeftStore::FILE);
    let Some(file) = read_yaml::<EtcdFile>(&file, FROM_A_BACKUP)? else { return Ok(()) };
    let connection = file.connection.as_ref().context("left-etcd.yaml does not state how etcd is reached")?;
    LeftStore { options: etcd_arguments::options(connection, installation)?, file }.complete(data).await
}

/// What a store in etcd has.
struct EtcdContent {
    documents: Vec<StoredDocument>,
    files: StoreFiles,
    /// The revision of the last change that the documents contain.
    newest: Revision,
}

/// Reads and verifies the documents in etcd.
async fn documents_of_etcd(
    source: &EtcdConnection,
    data: &Path,
    installation: &Installation,
) -> Result<EtcdContent> {
    let options = etcd::Options {
        recorded: etcd_arguments::recorded(data)?,
        ..etcd_arguments::options(source, installation.controller())?
    };
    let store = Etcd::open(options.clone()).await?;
    require_alone(&store)?;
    let newest = newest_change(&options).await?;
    store.confirmed_newest().await; // what is read next has this change
    let view = |reader: &dyn Reader| (reader.scan("", "", usize::MAX), violated_invariants(reader));
    let ((documents, violations), damaged) = store.read_available(view).await;
    let findings: Vec<String> = damaged
        .into_iter()
        .map(|key| format!("{key}: damaged"))
        .chain(type_errors(documents.iter()))
        .chain(violations)
        .collect();
    require_sound(&findings, "repair the store first")?;
    let files = store.files().context("etcd keeps files")?;
    Ok(EtcdContent { documents, files, newest })
}

/// Refuses a store that other controllers serve: they would go on with it. What the one of this data folder has stated has
/// ended when the store was opened.
pub(crate) fn require_alone(store: &Etcd) -> Result<()> {
    let others = store.statements().map_or_else(Vec::new, |statements| statements.others());
    let others: Vec<String> = others.into_iter().map(|other| other.address).collect();
    if others.is_empty() {
        return Ok(());
    }
    bail!(
        "other controllers use this store: {}\n\
         hint: stop them first; one that was killed is named for another 30 seconds",
        others.join(", ")
    )
}

/// Splits documents into batches.
fn batches(documents: &[StoredDocument]) -> Vec<&[StoredDocument]> {
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, stored) in documents.iter().enumerate() {
        let more = stored.key.len() + stored.value.len();
        if index > start && (index - start == BATCH_DOCUMENTS || bytes + more > BATCH_BYTES) {
            batches.push(&documents[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += more;
    }
    batches.extend(Some(&documents[start..]).filter(|last| !last.is_empty()));
    batches
}

fn require_equal(difference: Option<String>) -> Result<()> {
    difference.map_or(Ok(()), |key| bail!("the copy differs from the store: {key}"))
}

async fn copy_to_etcd(
    connection: &EtcdConnection,
    documents: &[StoredDocument],
    installation: &Installation,
    next: &Path,
    partly: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let options = etcd_arguments::options(connection, installation.controller())?;
    let copy = EtcdCopy::start(&options).await?;
    for batch in batches(documents) {
        copy.write(batch).await?;
        partly()?;
    }
    require_equal(copy.difference(documents).await?)?;
    put_files(&(Arc::new(copy.files()) as StoreFiles), documents, &next.with_file_name("archives")).await?;
    let file = next.join(Path::new(ETCD_FILE).file_name().context("a file")?);
    write_yaml(&file, &file_of(copy.recorded().await?, connection))
}

async fn copy_to_sqlite(
    documents: &[StoredDocument],
    next: &Path,
    partly: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let options = sqlite::Options::new(uuid_v4(host::random::random_u128()));
    let store = Sqlite::open(next, options)?;
    for batch in batches(documents) {
        let writes = batch.iter().map(|stored| (stored.key.clone(), Some(stored.value.clone()))).collect();
        match store.apply(Transaction { writes, ..Transaction::default() }).await {
            Ok(_) => partly()?,
            Err(ApplyError::Failed(error)) => return Err(error.into()),
            Err(ApplyError::Conflict(conflict)) => bail!("another process has changed {}", conflict.0),
        }
    }
    let copied = store.read(|reader| reader.scan("", "", usize::MAX)).await;
    let is_equal =
        |(one, other): &(&StoredDocument, &StoredDocument)| one.key == other.key && one.value == other.value;
    let different =
        documents.iter().zip(&copied).find(|pair| !is_equal(pair)).map(|(one, _)| one.key.clone());
    let missing = || (documents.len() != copied.len()).then(|| "the number of documents".to_owned());
    require_equal(different.or_else(missing))
}
