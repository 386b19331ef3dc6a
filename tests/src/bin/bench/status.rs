//! Measures the time of `pintle status --format json` from start to exit, in models of two sizes. Every unit has a
//! machine of its own and an agent that has run its first hooks.
//!
//! The floor is the smallest command that sends a request to the controller: it starts, connects and exits. A change of
//! the model precedes each `status`, so that no response is a cached one.

use super::{at, model_with_application, report};
use api::{AddUnits, Attach, Commit, Handle};
use controller::host_environment::HostEnvironment;
use controller::installation::Installation;
use controller::store::sqlite::{Options, Sqlite};
use controller::{Controller, Environment, server};
use state::documents::draft::{read, read_all};
use state::documents::prelude::{Kind, Model, ReplicaDoc, StatusDoc, TokenHolder, UnitDoc, last_id};
use state::status::unit::next_act;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{CharmRef, Operation};
use state::terms::status::WorkloadStatus;
use state::terms::status_message::StatusMessage;
use state::unit::record::{Outcome, Record};
use state::unit::resolve::Act;
use state::unit::writes::Writes;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tests::host;
use tokio::net::TcpListener;

type BenchController = Controller<Sqlite, HostEnvironment>;

/// The model of [`model_with_application`].
const MODEL: Model = Model(Uuid(3));
/// The numbers of units of the two models.
const SIZES: [u32; 2] = [1_000, 10_000];
const ROUNDS: usize = 15;
/// Units whose documents one transaction copies: three each.
const COPIED_PER_TRANSACTION: usize = 30;

/// Prints the times of both sizes and their ratio.
pub fn bench(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let medians = SIZES.map(|units| {
        let data = dir.join(format!("status-{units}"));
        fs::create_dir_all(&data).expect("it is our folder");
        runtime.block_on(of_model(&data, units))
    });
    println!("{} units take {:.1} times as long as {}", SIZES[1], medians[1] / medians[0], SIZES[0]);
}

/// Returns the median time of `status`, in milliseconds.
async fn of_model(data: &Path, units: u32) -> f64 {
    let mut installation = Installation::open(data, false).expect("a new installation");
    let store = Sqlite::open(&installation.store(), Options::new(Uuid(1))).expect("a new store");
    let agents = add_running_units(&store, &installation, units).await;
    let environment = HostEnvironment::new(installation.archives()).expect("it is our folder");
    let controller = Controller::new(store, environment, installation.controller());
    let now_ms = controller.environment.monotonic_ms();
    agents.iter().for_each(|unit| controller.presence.record_request(*unit, now_ms));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    installation.store_address(listener.local_addr().expect("it is bound")).expect("it is our folder");
    installation.create_first_user(&controller).await.expect("a new store");
    let acceptor = server::acceptor(&installation.certificate, &installation.key).expect("its own");
    tokio::spawn(server::serve(controller.clone(), vec![listener], acceptor, std::future::pending()));

    let show = ["status", "--format", "json", "-m", "bench"];
    println!("{units} units, the first status after a start: {:.1} ms", command(data, &show).await);
    let (mut times, mut floors) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        set_status(&controller, agents[round * agents.len() / ROUNDS], round).await;
        times.push(command(data, &show).await);
        floors.push(command(data, &["models"]).await);
    }
    report(&format!("status --format json of {units} units"), &mut times);
    report("the smallest command (models)", &mut floors);
    at(&times, 50)
}

/// Runs `pintle` until it ends. Returns the milliseconds.
async fn command(data: &Path, words: &[&str]) -> f64 {
    let mut command = Command::new(host::programs().join("pintle"));
    command.args(words).arg("--data").arg(data).stdout(Stdio::null());
    let begin = Instant::now();
    let ran = tokio::process::Command::from(command).status().await;
    assert!(ran.expect("pintle was built: cargo build --release --workspace").success());
    begin.elapsed().as_secs_f64() * 1000.0
}

/// Sets the workload status of a unit.
async fn set_status(controller: &BenchController, unit: Uuid, round: usize) {
    let written = controller.run(move |draft| {
        let message = StatusMessage::OfCharm(format!("round {round}"));
        let status = StatusDoc { status: WorkloadStatus::Active, message, ..StatusDoc::default() };
        draft.put(&MODEL.unit_status(unit), &status);
        Ok(())
    });
    written.await.expect("there is room");
}

/// Creates a model with units. The agent of the first unit runs its first hooks; the other units get copies of its
/// documents.
async fn add_running_units(store: &Sqlite, installation: &Installation, units: u32) -> Vec<Uuid> {
    let admin = model_with_application(store, &installation.archives()).await;
    let add =
        |units| AddUnits { attach_storage: Vec::new(), application: "bench".to_owned(), units, to: None };
    admin.handle(add(1)).await.expect("it is added");
    let first = run_first_hooks(&admin.controller).await;
    for missing in (1..units).rev().step_by(1_000) {
        admin.handle(add(missing.min(1_000))).await.expect("they are added");
    }
    let all = names(&admin.controller).await;
    assert_eq!(all.len(), units as usize);
    let copied = admin.controller.read(move |reader| {
        let session = read(reader, &MODEL.session(first)).expect("it is attached");
        let agent_status = read(reader, &MODEL.agent_status(first)).expect("it has one");
        (read(reader, &MODEL.replica(first)).expect("it has run"), session, agent_status)
    });
    let (replica, session, agent_status) = copied.await;
    for chunk in all.chunks(COPIED_PER_TRANSACTION) {
        let (chunk, replica) = (chunk.to_vec(), replica.clone());
        let (session, agent_status) = (session.clone(), agent_status.clone());
        let written = admin.controller.run(move |draft| {
            for (id, name) in &chunk {
                let mut own: ReplicaDoc = replica.clone();
                (own.local.unit, own.local.name) = (*id, name.clone());
                draft.put(&MODEL.replica(*id), &own);
                draft.put(&MODEL.session(*id), &session);
                draft.put(&MODEL.agent_status(*id), &agent_status);
            }
            Ok(())
        });
        written.await.expect("there is room");
    }
    all.into_iter().map(|(id, _)| id).collect()
}

async fn names(controller: &BenchController) -> Vec<(Uuid, UnitName)> {
    let named = |(key, doc): (String, UnitDoc)| Some((last_id(&key)?, doc.name));
    controller
        .read(move |reader| {
            read_all(reader, &MODEL.prefix(Kind::Unit)).into_iter().filter_map(named).collect()
        })
        .await
}

/// Acts as the agent of the only unit until it is idle. Returns the unit.
async fn run_first_hooks(controller: &std::sync::Arc<BenchController>) -> Uuid {
    let (unit, _) = names(controller).await.remove(0);
    let agent = controller.caller(TokenHolder::Unit { model: MODEL, unit });
    let attach = Attach { nonce: Uuid(4), epoch: 0, store_generation: None, teardown_started: false };
    let epoch = agent.handle(attach).await.expect("it is the first").answer.epoch;
    let charm = CharmRef {
        url: "local:bench-0".to_owned(),
        sha256: "bench".to_owned(),
        revision: 0,
        endpoints: BTreeSet::new(),
        resources: String::new(),
    };
    let (mut operation, mut sequence, mut previous_digest) =
        (Operation::InstallCharm(charm), 0, String::new());
    loop {
        sequence += 1;
        let record = Record {
            sequence,
            previous_digest: std::mem::take(&mut previous_digest),
            run: sequence,
            operation,
            outcome: Outcome::Ok,
            episode: None,
            leader_generation: None,
            reboot: None,
            resync_local: None,
            writes: Writes::default(),
            hook_log: None,
            reports: Vec::new(),
            at_ms: 5,
        };
        previous_digest = record.digest();
        agent.handle(Commit { epoch, record }).await.expect("it is the next one");
        let next = controller.read(move |reader| next_act(reader, MODEL, unit)).await;
        let Some(Act::Start(run)) = next else { return unit };
        operation = run.operation;
    }
}
