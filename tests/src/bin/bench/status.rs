//! Measures the time of `pintle status --format json` from start to exit, in models of two sizes. Every unit has a
//! machine of its own and an agent that has run its first hooks.
//!
//! The floor is the smallest command that sends a request to the controller: it starts, connects and exits. A change of
//! the model precedes each `status`, so that no response is a cached one.

use super::filled_model::{BenchController, MODEL, fill};
use super::{at, model_with_application, report};
use controller::host_environment::HostEnvironment;
use controller::installation::Installation;
use controller::store::sqlite::{Options, Sqlite};
use controller::{Controller, Environment, server};
use state::documents::prelude::StatusDoc;
use state::terms::names::Uuid;
use state::terms::status::WorkloadStatus;
use state::terms::status_message::StatusMessage;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tests::host;
use tokio::net::TcpListener;

/// The numbers of units of the two models.
const SIZES: [u32; 2] = [1_000, 10_000];
const ROUNDS: usize = 15;

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
    let agents = fill(&model_with_application(&store, &installation.archives()).await, units).await;
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
