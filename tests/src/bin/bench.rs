//! `cargo bench-system`: measures the time from one unit's hook to the hook of another unit, compared with the least
//! time that this disk and this kernel allow (the floor); the cost of 50 idle unit agents; the time of adding 1,000
//! units; the time of `status` with 1,000 and with 10,000 units; what a person waits for: models, deployments, and an
//! edit in `dev`; and the start of a Python charm with and without a warm parent. With an argument, only that part is
//! measured; `slopes` is measured only then.
//!
//! `cargo bench-system agents` prints how long 100, 250 and 500 unit agents take to start. It needs 1 GB of memory and
//! several minutes.

#[path = "bench/agents.rs"]
mod agents;
#[path = "bench/events.rs"]
mod events;
#[path = "bench/filled_model.rs"]
mod filled_model;
#[path = "bench/person.rs"]
mod person;
#[path = "bench/slopes.rs"]
mod slopes;
#[path = "bench/status.rs"]
mod status;
#[path = "bench/warm.rs"]
mod warm;

use api::{AddUnits, Deploy, Ends, Handle, InModel, Integrate};
use controller::host_environment::HostEnvironment;
use controller::store::Store;
use controller::store::sqlite::{Options, Sqlite};
use controller::{AuthenticatedCaller, Controller};
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::draft::{Transaction, WRITES_MAX};
use state::documents::prelude::{TokenHolder, UserRole};
use state::lifecycle::{archive, model};
use state::terms::names::Uuid;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::host::Host;

/// The administrator of a controller in this process.
type Admin = AuthenticatedCaller<Sqlite, HostEnvironment>;

const ROUNDS: usize = 300;
/// Units that are added in one round.
const ADDED_UNITS: u32 = 1_000;
const ADDED_ROUNDS: usize = 9;

/// Writes a charm folder with this dispatch script.
fn charm(dir: &Path, name: &str, endpoint: &str, body: &str) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).expect("it is our folder");
    let metadata = format!("name: {name}\nsummary: bench\ndescription: bench\n{endpoint}\n");
    fs::write(folder.join("metadata.yaml"), metadata).expect("it is our folder");
    fs::write(folder.join("actions.yaml"), "set:\n  description: set\n").expect("it is our folder");
    let dispatch = folder.join("dispatch");
    fs::write(&dispatch, format!("#!/bin/bash\n{body}\n")).expect("it is our folder");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&dispatch, executable).expect("it is our file");
    folder
}

fn main() {
    let dir = std::env::temp_dir().join(format!("pintle-bench-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("there is room for a bench");
    let idle = charm(&dir, "idle", "", "[ $JUJU_DISPATCH_PATH != hooks/start ] || status-set active");
    match std::env::args().nth(1).as_deref() {
        None => {
            added_units(&dir);
            relation_set(&dir);
            events::settings(&dir);
            agents::idle(&dir, &idle);
            status::bench(&dir);
            person::bench(&dir);
            warm::bench(&dir);
        }
        Some("add-unit") => added_units(&dir),
        Some("agents") => agents::many(&dir, &idle),
        Some("events") => events::settings(&dir),
        Some("person") => person::bench(&dir),
        Some("slopes") => slopes::bench(&dir),
        Some("status") => status::bench(&dir),
        Some("warm") => warm::bench(&dir),
        Some(other) => panic!("no bench is named {other}"),
    }
    fs::remove_dir_all(&dir).expect("it is our folder");
}

/// Prints the time from a `relation-set` to the start of the hook of the other unit.
fn relation_set(dir: &Path) {
    let (set, seen) = (dir.join("set"), dir.join("seen"));
    let provider_script = format!(
        "case $JUJU_DISPATCH_PATH in actions/set)\n\
         for id in $(relation-ids out); do relation-set -r $id n=$EPOCHREALTIME; done\n\
         echo $EPOCHREALTIME >> {} ;; esac",
        set.display()
    );
    let requirer_script = format!(
        "now=$EPOCHREALTIME; case $JUJU_DISPATCH_PATH in *-relation-changed) echo $now >> {} ;; esac",
        seen.display()
    );
    let provider = charm(dir, "provider", "provides: {out: {interface: bench}}", &provider_script);
    let requirer = charm(dir, "requirer", "requires: {in: {interface: bench}}", &requirer_script);
    let host = Host::up(&dir.join("data"));
    for folder in [&provider, &requirer] {
        host.ok(&["deploy", folder.to_str().expect("text")]);
    }
    host.ok(&["integrate", "provider", "requirer"]);
    host.until("both are related", |_| (stamps(&seen).len() == 1).then_some(()));
    let (mut latencies, mut floors) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        host.ok(&["run", "provider/0", "set"]);
        host.until("the other side ran", |_| (stamps(&seen).len() == round + 2).then_some(()));
        let (set, seen) = (stamps(&set)[round], stamps(&seen)[round + 1]);
        latencies.push((seen - set) * 1000.0);
        floors.push(floor(dir).as_secs_f64() * 1000.0);
    }
    report("relation-set to relation-changed", &mut latencies);
    report("three fdatasyncs and a spawn", &mut floors);
    println!(
        "ratio p50 {:.2}, p99 {:.2}",
        at(&latencies, 50) / at(&floors, 50),
        at(&latencies, 99) / at(&floors, 99)
    );
}

/// Prints the time of adding units to an application on a controller's store, without HTTP and without machines, in one
/// request and in one request for each unit. The floor is the time of writing the same documents to another store, with
/// the largest allowed number of documents in each transaction.
fn added_units(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut together, mut single, mut floors, mut commits) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 0..ADDED_ROUNDS {
        let folder = |name: &str| {
            let folder = dir.join(format!("{name}-{round}"));
            fs::create_dir_all(&folder).expect("it is our folder");
            folder
        };
        runtime.block_on(async {
            let store = open(&folder("together"));
            let admin = model_with_application(&store, &folder("archives")).await;
            let before = store.newest_revision();
            together.push(add(&admin, ADDED_UNITS, 1).await);
            commits = store.newest_revision() - before;

            let documents = store.read(move |reader| reader.scan("", "", usize::MAX)).await;
            let written = documents.into_iter().filter(|stored| stored.revision > before);
            let writes: Vec<_> = written.map(|stored| (stored.key, Some(stored.value))).collect();
            let raw = open(&folder("raw"));
            let begin = Instant::now();
            for writes in writes.chunks(WRITES_MAX) {
                let transaction =
                    Transaction { writes: writes.iter().cloned().collect(), ..Transaction::default() };
                raw.apply(transaction).await.expect("there is room");
            }
            floors.push(begin.elapsed().as_secs_f64() * 1000.0);

            let admin = model_with_application(&open(&folder("single")), &folder("archives")).await;
            single.push(add(&admin, 1, ADDED_UNITS).await);
        });
    }
    report(&format!("{ADDED_UNITS} units in one request, {commits} transactions"), &mut together);
    report(&format!("{ADDED_UNITS} requests for a unit each"), &mut single);
    report("the same documents written directly, 100 in each transaction", &mut floors);
    println!(
        "ratio p50 {:.2}; in single requests {:.2}",
        at(&together, 50) / at(&floors, 50),
        at(&single, 50) / at(&floors, 50)
    );
}

/// Returns the milliseconds of `requests` that add `units` each.
async fn add(admin: &Admin, units: u32, requests: u32) -> f64 {
    let begin = Instant::now();
    for _ in 0..requests {
        let add = AddUnits { attach_storage: Vec::new(), application: "bench".to_owned(), units, to: None };
        admin.handle(add).await.expect("they are added");
    }
    begin.elapsed().as_secs_f64() * 1000.0
}

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(folder, Options::new(Uuid(1))).expect("a new store")
}

/// The administrator of a new controller with an application that has no units.
async fn model_with_application(store: &Sqlite, archives: &Path) -> Admin {
    let charm = Charm { name: "bench".to_owned(), ..Charm::default() };
    let admin = new_model(store, archives, &[charm]).await;
    deploy(&admin, "bench").await;
    admin
}

/// The administrator of a new controller with two related applications that have no units.
async fn related_model(store: &Sqlite, archives: &Path) -> Admin {
    let charm = |name: &str, endpoint: &str, role| {
        let endpoint = Endpoint {
            name: endpoint.to_owned(),
            role,
            interface: "bench".to_owned(),
            scope: Scope::Global,
            limit: None,
            optional: false,
        };
        let endpoints = [(endpoint.name.clone(), endpoint)].into();
        Charm { name: name.to_owned(), endpoints, ..Charm::default() }
    };
    let charms = [charm("bench", "out", Role::Provider), charm("edge", "in", Role::Requirer)];
    let admin = new_model(store, archives, &charms).await;
    for charm in &charms {
        deploy(&admin, &charm.name).await;
    }
    admin.handle(Integrate(Ends { a: "bench".to_owned(), b: "edge".to_owned() })).await.expect("they match");
    admin
}

/// The administrator of a new controller with these charms.
async fn new_model(store: &Sqlite, archives: &Path, charms: &[Charm]) -> Admin {
    let environment = HostEnvironment::new(archives.to_owned()).expect("it is our folder");
    let controller = Controller::new(store.clone(), environment, Uuid(2));
    let charms = charms.to_vec();
    let made = controller.run(move |draft| {
        model::create(draft, Uuid(3), "bench", 1)?;
        charms.iter().for_each(|charm| archive::register(draft, &charm.name, Some(charm.clone()), 1));
        Ok(())
    });
    made.await.expect("a new store");
    let principal = TokenHolder::User { name: "bench".to_owned(), role: UserRole::Admin };
    controller.caller(principal).in_model("bench")
}

/// Deploys an application without units.
async fn deploy(admin: &Admin, charm: &str) {
    let deploy = Deploy { sha256: charm.to_owned(), ..Deploy::default() };
    admin.handle(deploy).await.expect("it is deployed");
}

fn stamps(file: &Path) -> Vec<f64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.replace(',', ".").parse().ok()).collect()
}

/// Measures the cost of the same event without any program of Pintle: three serial durable writes and the start of the
/// same shell.
fn floor(dir: &Path) -> Duration {
    let mut file =
        File::options().append(true).create(true).open(dir.join("floor")).expect("it is our folder");
    let begin = Instant::now();
    for _ in 0..3 {
        file.write_all(&[b'x'; 512]).expect("there is room");
        file.sync_data().expect("the disk syncs");
    }
    let status = Command::new("/bin/bash").args(["-c", ":"]).status().expect("there is a shell");
    assert!(status.success());
    begin.elapsed()
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn report(what: &str, values: &mut [f64]) {
    values.sort_by(f64::total_cmp);
    println!("{what}: p50 {:.2} ms, p99 {:.2} ms over {}", at(values, 50), at(values, 99), values.len());
}
