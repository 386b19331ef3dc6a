//! The machine agent's loop, by tokio's own clock.

use agent::config::{Config, Kind};
use agent::deployer::Deployer;
use agent::machiner::Machiner;
use agent::service::Services;
use api::HEARTBEAT_MS;
use api::error::{ApiError, ErrorCode};
use api::machine::{Fate, MachineApi, MachineShown, MachineWatch};
use state::names::Uuid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A controller that shows nothing, and takes no sign of life.
#[derive(Clone, Default)]
struct Quiet {
    here: Arc<AtomicU32>,
    watches: Arc<AtomicU32>,
}

struct Nothing;

impl MachineWatch for Nothing {
    async fn next(&mut self) -> Result<MachineShown, ApiError> {
        std::future::pending().await
    }
}

impl MachineApi for Quiet {
    type Watch = Nothing;
    async fn watch_machine(&self) -> Result<Nothing, ApiError> {
        self.watches.fetch_add(1, Ordering::Relaxed);
        Ok(Nothing)
    }
    async fn here(&self) -> Result<(), ApiError> {
        self.here.fetch_add(1, Ordering::Relaxed);
        Err(ApiError::new(ErrorCode::Unreachable, "it was lost on the way"))
    }
    async fn fate(&self, _: Uuid) -> Result<Fate, ApiError> {
        unreachable!("nothing is deployed")
    }
    async fn set_token(&self, _: Uuid, _: &str) -> Result<(), ApiError> {
        unreachable!("nothing is deployed")
    }
    async fn remove_unit(&self, _: Uuid) -> Result<(), ApiError> {
        unreachable!("nothing is deployed")
    }
    async fn enrol(&self, _: &str, _: &str) -> Result<(), ApiError> {
        unreachable!("it has a token")
    }
    async fn machine_gone(&self) -> Result<(), ApiError> {
        unreachable!("it is alive")
    }
    async fn machine_dead(&self) -> Result<(), ApiError> {
        unreachable!("nothing was shown")
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_agent_says_that_it_is_here_at_every_heartbeat_though_it_is_shown_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config {
        kind: Kind::Machine,
        uuid: Uuid(1),
        name: "0".to_owned(),
        model: Uuid(2),
        controllers: Vec::new(),
        server_name: String::new(),
        ca: String::new(),
        token: String::new(),
        machine: String::new(),
    };
    let quiet = Quiet::default();
    let machiner =
        Machiner::new(quiet.clone(), Deployer::new(folder.path().to_path_buf(), config, Services::Children));
    let minute = Duration::from_millis(12 * HEARTBEAT_MS - 1);
    assert!(tokio::time::timeout(minute, machiner.run()).await.is_err(), "it goes on");
    assert_eq!(quiet.here.load(Ordering::Relaxed), 12);
    assert_eq!(quiet.watches.load(Ordering::Relaxed), 1, "a lost sign of life is no outage");
}
