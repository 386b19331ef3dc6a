//! Migrations of a data folder between the engines: a crash between any two steps, and what is refused.

use super::*;
use api::etcd_file::{ETCD_FILE, EtcdConnection, EtcdFile};
use controller::environment::uuid_v4;
use controller::installation::{Installation, StorePlace};
use controller::migrate::{LeftStoreInUse, Step, Target, complete_at_start, migrate};
use controller::store::etcd::{OpenError, RecordedStore};
use controller::store::sqlite::{self, Sqlite};
use state::documents::draft::Reader;
use std::path::Path;
use tempfile::TempDir;
use test_support::etcd_cluster::ServerTls;

/// With some four documents each, more than one batch of a migration.
const MODELS: u128 = 80;

fn random() -> Uuid {
    uuid_v4(host::random::random_u128())
}

/// A data folder whose controller has served.
async fn served() -> TempDir {
    let data = tempfile::tempdir().expect("a folder");
    let mut installation = Installation::open(data.path(), false).expect("a new controller");
    let store = Sqlite::open(&installation.store(), sqlite::Options::new(random())).expect("opens");
    for number in 0..MODELS {
        create_model(&store, number).await;
    }
    installation.store_address("127.0.0.1:17070".parse().expect("an address")).expect("stored");
    data
}

async fn create_model(store: &impl Store, number: u128) {
    let create = move |draft: &mut Draft<'_>| {
        state::lifecycle::model::create(draft, Uuid(number + 1), &format!("m{number}"), 0).map(drop)
    };
    store.run(create).await.expect("commits");
}

/// The documents without their revisions.
type Contents = Vec<(String, String)>;

fn contents(reader: &dyn Reader) -> Contents {
    let stored = reader.scan("", "", usize::MAX).into_iter();
    stored.map(|stored| (stored.key, stored.value.to_string())).collect()
}

fn connection(cluster: &EtcdCluster) -> EtcdConnection {
    EtcdConnection {
        address: format!("etcd://{}", cluster.addresses().join(",")),
        prefix: format!("/migration/{}", random()),
        ca: None,
        certificate: None,
        key: None,
    }
}

/// Opens the store that is in use as a start of the controller does. Returns where it is, its store generation and its
/// documents.
async fn in_use(data: &Path) -> (StorePlace, Uuid, Contents) {
    match open_etcd(data).await {
        Some(store) => {
            let store = store.expect("opens");
            (StorePlace::Etcd, store.store_generation(), store.read(contents).await)
        }
        None => {
            let installation = Installation::open(data, false).expect("complete");
            let store =
                Sqlite::open(&installation.store(), sqlite::Options::new(random())).expect("it is accepted");
            (StorePlace::Folder, store.store_generation(), store.read(contents).await)
        }
    }
}

/// Opens the store in etcd that the folder records; none if it records none.
async fn open_etcd(data: &Path) -> Option<Result<Etcd, OpenError>> {
    let text = std::fs::read_to_string(data.join(ETCD_FILE)).ok()?;
    let installation =
        Installation::open_with_store(data, false, StorePlace::Etcd).expect("complete").controller();
    let file: EtcdFile = charms::yaml::from_str(&text).expect("intact");
    Some(Etcd::open(options_of(&file, installation)).await)
}

fn options_of(file: &EtcdFile, installation: Uuid) -> Options {
    let connection = file.connection.clone().expect("it is recorded");
    let addresses = controller::store::etcd::parse_address(&connection.address).expect("valid");
    let EtcdFile { cluster, store_generation, revision, handle, .. } = file.clone();
    Options {
        prefix: connection.prefix,
        recorded: Some(RecordedStore { cluster, store_generation, revision, handle }),
        ..Options::new(addresses, installation, random(), random())
    }
}

/// A crash after each step leaves the old store or the complete new one in use, and the next migration completes.
#[tokio::test]
async fn a_crash_after_any_step_leaves_the_old_store_or_the_new_one_in_use() {
    let cluster = EtcdCluster::shared();
    for crash in Step::ALL {
        let data = served().await;
        let data = data.path();
        let connection = connection(&cluster);
        let (_, first_generation, documents) = in_use(data).await;
        assert!(documents.len() > 200, "more than one batch: {}", documents.len());
        let mut generations = vec![first_generation];
        for target in [Target::Etcd(connection.clone()), Target::Sqlite(connection)] {
            let (before, after) = match &target {
                Target::Etcd(_) => (StorePlace::Folder, StorePlace::Etcd),
                Target::Sqlite(_) => (StorePlace::Etcd, StorePlace::Folder),
            };
            migrate(data, &target, &|step| step != crash).await.expect_err("it dies");
            let (place, generation, found) = in_use(data).await;
            assert!(found == documents, "{crash:?} {target:?}");
            match crash {
                Step::Switched => assert_eq!(place, after),
                _ => {
                    assert_eq!((place, Some(&generation)), (before, generations.last()), "{crash:?}");
                    migrate(data, &target, &|_| true).await.expect("nothing of the crash prevents it");
                    let (place, _, found) = in_use(data).await;
                    assert!(place == after && found == documents, "{crash:?} {target:?}");
                }
            }
            let generation = in_use(data).await.1;
            assert!(!generations.contains(&generation), "a new store generation");
            generations.push(generation);
        }
    }
}

/// What a data folder records about its store in etcd.
fn etcd_file(data: &Path) -> EtcdFile {
    let text = std::fs::read_to_string(data.join(ETCD_FILE)).expect("readable");
    charms::yaml::from_str(&text).expect("intact")
}

/// Charm archives and files of resources follow the documents. One that the new store would lack prevents the migration.
#[tokio::test]
async fn the_files_are_moved_both_ways() {
    let cluster = EtcdCluster::shared();
    let data = served().await;
    let data = data.path();
    let archives = Installation::archives_in(data);
    std::fs::create_dir_all(&archives).expect("made");
    let content = vec![7; 3 << 20];
    let digest = host::digest::sha256(&content);
    {
        let installation = Installation::open(data, false).expect("complete");
        let store = Sqlite::open(&installation.store(), sqlite::Options::new(random())).expect("opens");
        let sha256 = digest.clone();
        let register = move |draft: &mut Draft<'_>| {
            state::lifecycle::archive::register(draft, &sha256, None, 3 << 20);
            Ok::<_, ()>(())
        };
        store.run(register).await.expect("commits");
    }
    let connection = connection(&cluster);
    let to = [Target::Etcd(connection.clone()), Target::Sqlite(connection)];
    std::fs::write(archives.join(&digest), b"damaged").expect("written");
    migrate(data, &to[0], &|_| true).await.expect_err("it is damaged");
    std::fs::write(archives.join(&digest), &content).expect("written");
    migrate(data, &to[0], &|_| true).await.expect("migrated");
    let opened =
        || async { open_etcd(data).await.expect("recorded").expect("opens").files().expect("in etcd") };
    let listed = opened().await.list().await.expect("listed");
    assert!(listed.len() == 1 && listed[&digest].is_complete);
    std::fs::write(archives.join(&digest), b"damaged").expect("written");
    assert!(opened().await.delete(&digest, listed[&digest].revision).await.expect("answered"));
    migrate(data, &to[1], &|_| true).await.expect_err("neither has it");
    let repaired = data.join("repaired");
    std::fs::write(&repaired, &content).expect("written");
    let disk = controller::DiskThreads::start().expect("threads");
    opened().await.put(&digest, &repaired, &disk).await.expect("stored");
    migrate(data, &to[1], &|_| true).await.expect("migrated");
    assert!(std::fs::read(archives.join(&digest)).expect("it is back") == content);
    assert_eq!(std::fs::read_dir(&archives).expect("readable").count(), 1, "nothing else");
}

/// What is changed after a migration is what the next one moves, also to a prefix that was used before; documents that
/// were deleted meanwhile do not come back.
#[tokio::test]
async fn a_prefix_that_was_left_is_used_again_and_a_backup_of_its_folder_does_not_open_it() {
    let cluster = EtcdCluster::shared();
    let data = served().await;
    let data = data.path();
    let connection = connection(&cluster);
    migrate(data, &Target::Etcd(connection.clone()), &|_| true).await.expect("migrated");
    let store = open_etcd(data).await.expect("recorded").expect("opens");
    create_model(&store, MODELS).await;
    let backup = etcd_file(data);
    drop(store);
    migrate(data, &Target::Sqlite(connection.clone()), &|_| true).await.expect("migrated");
    assert!(data.join("controller/store.old-etcd").exists());
    let installation = Installation::open(data, false).expect("complete");
    let error = Etcd::open(options_of(&backup, installation.controller())).await.err().expect("refused");
    assert!(matches!(error, OpenError::NotInUse { .. }), "{error}");
    let store = Sqlite::open(&installation.store(), sqlite::Options::new(random())).expect("opens");
    let name = format!("m{MODELS}");
    let keys = store.read(contents).await.into_iter().filter(|(key, _)| key.ends_with(&name));
    let keys: Vec<String> = keys.map(|(key, _)| key).collect();
    assert!(!keys.is_empty());
    let writes = keys.iter().map(|key| (key.clone(), None)).collect();
    let delete = state::documents::draft::Transaction { writes, ..Default::default() };
    store.apply(delete).await.expect("deleted");
    let documents = store.read(contents).await;
    drop(store);
    // The model without its name violates no rule that a migration verifies.
    migrate(data, &Target::Etcd(connection), &|_| true).await.expect("migrated");
    let (place, _, found) = in_use(data).await;
    assert!(place == StorePlace::Etcd && found == documents);
}

/// 1. A migration to a database dies after the exchange of the folders. 2. A backup of the folder from before it would open the
///    old store in etcd. 3. The next start marks it as left.
#[tokio::test]
async fn a_start_completes_a_migration_that_died_before_it_marked_the_old_store() {
    let cluster = EtcdCluster::shared();
    let data = served().await;
    let data = data.path();
    let connection = connection(&cluster);
    migrate(data, &Target::Etcd(connection.clone()), &|_| true).await.expect("migrated");
    drop(open_etcd(data).await.expect("recorded").expect("opens"));
    let backup = etcd_file(data);
    let dies = |step| step != Step::Switched;
    migrate(data, &Target::Sqlite(connection.clone()), &dies).await.expect_err("it dies");
    let installation = Installation::open(data, false).expect("complete").controller();
    for _ in 0..2 {
        complete_at_start(data, installation).await.expect("etcd can be used");
        let error = Etcd::open(options_of(&backup, installation)).await.err().expect("refused");
        assert!(matches!(error, OpenError::NotInUse { .. }), "{error}");
    }
    let others = std::fs::read_dir(Installation::store_in(data)).expect("readable");
    let names = others.map(|entry| entry.expect("an entry").file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().contains("etcd")).count(), 0);
}

/// What the controller of the data folder itself has stated ends with a migration: its lease has not ended yet. Another
/// one at the same address, such as that of all its interfaces, serves.
#[tokio::test]
async fn a_store_that_another_controller_serves_is_not_migrated() {
    let cluster = EtcdCluster::shared();
    let data = served().await;
    let data = data.path();
    let connection = connection(&cluster);
    migrate(data, &Target::Etcd(connection.clone()), &|_| true).await.expect("migrated");
    let address = "0.0.0.0:17070";
    let mut own = Installation::open_with_store(data, false, StorePlace::Etcd).expect("complete");
    own.store_address(address.parse().expect("valid")).expect("stored");
    let serve = async || {
        let store = open_etcd(data).await.expect("recorded").expect("opens");
        store.statements().expect("etcd keeps them").renew(address).await.expect("etcd runs");
        store.handle().to_owned()
    };
    let handle = serve().await;
    let refused = migrate(data, &Target::Sqlite(connection.clone()), &|_| true).await.expect_err("refused");
    assert!(format!("{refused:#}").contains(address), "{refused:#}");
    assert_eq!(in_use(data).await.0, StorePlace::Etcd);
    let key = format!("{}/m/controller/{handle}", connection.prefix);
    assert!(cluster.etcdctl(&["lease", "revoke", &cluster.lease(&key).0]));
    let recorded = EtcdFile { handle: Some(serve().await), ..etcd_file(data) };
    let text = charms::yaml::to_string(&recorded).expect("plain data");
    std::fs::write(data.join(ETCD_FILE), text).expect("written");
    migrate(data, &Target::Sqlite(connection.clone()), &|_| true).await.expect("migrated");
}

/// 1. A migration to a database dies before it has marked the old store. 2. A controller in a copy of the data folder opens the
///    old store. 3. The next start of the first one would serve other models beside it.
#[tokio::test]
async fn a_start_is_refused_if_another_controller_has_opened_the_store_that_was_left() {
    let cluster = EtcdCluster::shared();
    let data = served().await;
    let data = data.path();
    let connection = connection(&cluster);
    migrate(data, &Target::Etcd(connection.clone()), &|_| true).await.expect("migrated");
    drop(open_etcd(data).await.expect("recorded").expect("opens"));
    let copy = etcd_file(data);
    let dies = |step| step != Step::Switched;
    migrate(data, &Target::Sqlite(connection.clone()), &dies).await.expect_err("it dies");
    let installation = Installation::open(data, false).expect("complete").controller();
    drop(Etcd::open(options_of(&copy, installation)).await.expect("it is a copy of the folder"));
    let left = Installation::store_in(data).join("left-etcd.yaml");
    for _ in 0..2 {
        let error = complete_at_start(data, installation).await.expect_err("refused");
        let refused: &LeftStoreInUse = error.downcast_ref().expect("a person decides");
        assert_eq!(Path::new(&refused.file), left);
    }
    let unused = EtcdFile {
        connection: Some(EtcdConnection { address: "etcd://127.0.0.1:9".to_owned(), ..connection }),
        ..copy
    };
    let text = charms::yaml::to_string(&unused).expect("plain data");
    std::fs::write(&left, text).expect("written");
    complete_at_start(data, installation).await.expect("an etcd that is gone prevents no start");
    std::fs::remove_file(&left).expect("it is kept for the next start");
    complete_at_start(data, installation).await.expect("nothing is left to do");
}

/// A controller in a copy of the data folder, on another host, uses the store while it is migrated: what it commits is not
/// in the new store. It commits before the old store is prepared to be left, or opens it after that.
#[tokio::test]
async fn a_commit_of_another_controller_during_a_migration_is_noticed() {
    let cluster = EtcdCluster::shared();
    for at in [Step::PartlyCopied, Step::Marked] {
        let data = served().await;
        let data = data.path();
        let connection = connection(&cluster);
        migrate(data, &Target::Etcd(connection.clone()), &|_| true).await.expect("migrated");
        drop(open_etcd(data).await.expect("recorded").expect("opens"));
        let copy = etcd_file(data);
        let installation =
            Installation::open_with_store(data, false, StorePlace::Etcd).expect("complete").controller();
        let has_committed = std::cell::Cell::new(false);
        let commits = |step| {
            if step == at && !has_committed.replace(true) {
                let options = options_of(&copy, installation);
                std::thread::scope(|scope| {
                    let committed = scope.spawn(|| {
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                        runtime.expect("a runtime").block_on(async {
                            let store = Etcd::open(options).await.expect("opens");
                            create_model(&store, MODELS).await;
                        });
                    });
                    committed.join().expect("it commits");
                });
            }
            true
        };
        let migrated = migrate(data, &Target::Sqlite(connection), &commits).await;
        assert!(migrated.is_err(), "{at:?}");
        let documents = in_use(data).await.2;
        let has_model = documents.iter().any(|(key, _)| key.ends_with(&format!("m{MODELS}")));
        assert!(has_model, "{at:?}: the store that has it stays in use");
    }
}

/// The certificates that a migration is given are recorded for the next start, and for the migration back.
#[tokio::test]
async fn a_store_with_tls_is_migrated_with_the_certificates_that_are_recorded() {
    let (ca, certificate, key) = super::refused::certificates(false);
    let server = ServerTls { certificate: certificate.clone(), key: key.clone(), client_ca: ca.clone() };
    let cluster = EtcdCluster::start_members(1, &["--max-txn-ops=2048"], Some(&server));
    let files = tempfile::tempdir().expect("a folder");
    let [ca, certificate, key] =
        [("ca", ca), ("certificate", certificate), ("key", key)].map(|(name, pem)| {
            let file = files.path().join(name);
            std::fs::write(&file, pem).expect("written");
            Some(file)
        });
    let with_tls = EtcdConnection { ca, certificate, key, ..connection(&cluster) };
    let data = served().await;
    let data = data.path();
    let documents = in_use(data).await.2;
    let without_key = EtcdConnection { certificate: None, key: None, ..with_tls.clone() };
    migrate(data, &Target::Etcd(without_key), &|_| true).await.expect_err("etcd requires a certificate");
    migrate(data, &Target::Etcd(with_tls.clone()), &|_| true).await.expect("migrated");
    let text = std::fs::read_to_string(data.join(ETCD_FILE)).expect("readable");
    let file: EtcdFile = charms::yaml::from_str(&text).expect("intact");
    let recorded = file.connection.expect("recorded");
    assert_eq!(recorded, with_tls);
    migrate(data, &Target::Sqlite(recorded), &|_| true).await.expect("migrated back");
    assert!(in_use(data).await.2 == documents);
}

#[tokio::test]
async fn what_cannot_be_migrated_is_refused_and_the_store_stays_in_use() {
    let cluster = EtcdCluster::shared();
    let data = served().await;
    let data = data.path();
    let documents = in_use(data).await.2;
    let refused = async |target: &Target| migrate(data, target, &|_| true).await.expect_err("refused");

    let taken = connection(&cluster);
    assert!(cluster.etcdctl(&["put", &format!("{}/x", taken.prefix), "1"]));
    let error = refused(&Target::Etcd(taken)).await;
    assert!(matches!(error.downcast_ref(), Some(OpenError::PrefixInUse { .. })), "{error:#}");

    let other = connection(&cluster);
    let another_system = served().await;
    migrate(another_system.path(), &Target::Etcd(other.clone()), &|_| true).await.expect("migrated");
    let error = refused(&Target::Etcd(other)).await;
    assert!(matches!(error.downcast_ref(), Some(OpenError::PrefixInUse { .. })), "{error:#}");

    // A copy of this data folder has its own store there.
    let own = connection(&cluster);
    let copy = tempfile::tempdir().expect("a folder");
    let status = std::process::Command::new("cp").arg("-a").arg(data.join(".")).arg(copy.path()).status();
    assert!(status.is_ok_and(|status| status.success()));
    std::fs::remove_file(copy.path().join("controller/store/generation.yaml")).expect("it exists");
    let copied = copy.path().join("controller/store");
    drop(
        Sqlite::open(&copied, sqlite::Options { restored: true, ..sqlite::Options::new(random()) })
            .expect("opens"),
    );
    migrate(copy.path(), &Target::Etcd(own.clone()), &|_| true).await.expect("migrated");
    in_use(copy.path()).await;
    let error = refused(&Target::Etcd(own)).await;
    assert!(matches!(error.downcast_ref(), Some(OpenError::PrefixInUse { .. })), "{error:#}");

    let free = connection(&cluster);
    let unreachable = EtcdConnection { address: "etcd://127.0.0.1:1".to_owned(), ..free.clone() };
    let error = refused(&Target::Etcd(unreachable)).await;
    assert!(matches!(error.downcast_ref(), Some(OpenError::Outage(_))), "{error:#}");
    refused(&Target::Sqlite(free.clone())).await; // the same engine

    let store = Installation::store_in(data);
    let running = Sqlite::open(&store, sqlite::Options::new(random())).expect("opens");
    let error = refused(&Target::Etcd(free.clone())).await;
    assert!(format!("{error:#}").contains("pintle down"), "{error:#}");
    drop(running);
    assert!(in_use(data).await.2 == documents);

    let database = rusqlite::Connection::open(store.join(sqlite::DATABASE)).expect("a database");
    let damage = "UPDATE documents SET value = '\"Dying\"' WHERE key LIKE '%00050/model-life'";
    assert_eq!(database.execute(damage, []), Ok(1));
    drop(database);
    let error = refused(&Target::Etcd(free)).await;
    assert!(format!("{error:#}").contains("pintle-controller check"), "{error:#}");
}
