//! The machine supervisor: runs the provisioner with this host's clock and the configured provider.
//!
//! Called by `supervise`. The provisioner's loop is started again whenever it fails, for example while the controller
//! restarts: with growing pauses, and each error is logged once until the provisioner has completed rounds for some time.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::session::{client, read_client_file};
use crate::supervisor::provider::AnyProvider;
use crate::supervisor::provisioner::{Provisioner, ProvisionerEnvironment};
use crate::times::now_ms;
use api::ClientFile;
use host::backoff::Backoff;
use host::process::Process;
use state::terms::names::Uuid;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Pauses after errors. The first is short because the controller may be starting; the longest is that of agents.
const RETRY_BACKOFF: Backoff = Backoff::new(250, 5_000);

/// How long the provisioner runs before a round that it completes ends an outage: the first round of each attempt does
/// not wait for a change, and says nothing about the requests after it.
const RECOVERY_TIME: Duration = Duration::from_secs(10);

/// The number of errors that are logged until a round is complete. There are few kinds of errors, but their texts may
/// contain numbers and differ.
const ERRORS_MAX: usize = 8;

/// Provisions the machines of one data folder.
pub struct MachineSupervisor {
    dir: DataDir,
    provisioner: Provisioner<AnyProvider, ProvisionerHost>,
    /// The host part of the controller's address for machines; `None` if it is the same as for operators.
    controller: Option<String>,
}

impl MachineSupervisor {
    /// A supervisor for the machines of `dir`.
    pub fn new(dir: DataDir, provider: AnyProvider, controller: Option<String>) -> MachineSupervisor {
        MachineSupervisor { dir, provisioner: Provisioner::new(provider, ProvisionerHost), controller }
    }

    /// Provisions machines until the future is dropped.
    pub async fn follow(&mut self) {
        let mut failures = Failures::default();
        loop {
            let started = Instant::now();
            let Err(failure) = self.follow_once().await;
            let has_completed_round = self.provisioner.take_completed_round();
            let is_recovered = has_completed_round && started.elapsed() >= RECOVERY_TIME;
            if let Some(line) = failures.record(failure.message, is_recovered) {
                tracing::warn!("{line}");
            }
            sleep(failures.pause()).await;
        }
    }

    async fn follow_once(&mut self) -> Result<Infallible, CommandError> {
        let missing = || CommandError::new("the client file does not exist yet");
        let file = read_client_file(&self.dir)?.ok_or_else(missing)?;
        let client = client(&file)?;
        let file = match &self.controller {
            Some(host) => as_reached_at(host, file),
            None => file,
        };
        self.provisioner.follow(&client, &file).await
    }

    /// Ends supervision: no machine is started again. Returns the running child processes, which the caller must
    /// stop.
    pub fn release(self) -> Vec<Process> {
        self.provisioner.provider.release()
    }
}

/// The file for machines that reach this host at another address than the loopback interface.
fn as_reached_at(host: &str, mut file: ClientFile) -> ClientFile {
    let at = |address: &String| format!("{host}:{}", address.rsplit(':').next().unwrap_or_default());
    let is_local = |address: &String| address.parse().is_ok_and(|it: SocketAddr| it.ip().is_loopback());
    file.controller = at(&file.controller);
    file.other_controllers.iter_mut().filter(|it| is_local(it)).for_each(|other| *other = at(other));
    file
}

/// The failures of one outage: which of them are logged, and the pause after each.
struct Failures {
    backoff: Backoff,
    errors: Vec<String>,
}

impl Default for Failures {
    fn default() -> Failures {
        Failures { backoff: RETRY_BACKOFF, errors: Vec::new() }
    }
}

impl Failures {
    /// Records a failure. Returns a line for the log if the error is new in this outage. `is_recovered`: whether an outage has
    /// ended since the failure before.
    fn record(&mut self, message: String, is_recovered: bool) -> Option<String> {
        if is_recovered {
            *self = Failures::default();
        }
        if self.errors.len() >= ERRORS_MAX || self.errors.contains(&message) {
            return None;
        }
        let line = format!("cannot provision machines, retrying: {message}");
        self.errors.push(message);
        Some(line)
    }

    /// The pause before the next attempt.
    fn pause(&mut self) -> Duration {
        let pause = Duration::from_millis(self.backoff.delay_ms());
        self.backoff.increase();
        pause
    }
}

/// The clock, the randomness and the log of this host.
struct ProvisionerHost;

impl ProvisionerEnvironment for ProvisionerHost {
    fn wall_ms(&self) -> i64 {
        now_ms()
    }
    async fn sleep(&self, pause: Duration) {
        sleep(pause).await;
    }
    fn random_uuid(&self) -> Uuid {
        Uuid(host::random::random_u128())
    }
    fn log(&self, line: &str) {
        tracing::info!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::agent_file::client_file;

    #[test]
    fn each_error_is_logged_once_until_a_round_is_complete_and_the_pauses_grow() {
        let mut failures = Failures::default();
        let mut pauses_ms = Vec::new();
        let mut lines = 0;
        for n in 0..100 {
            let message = if n % 2 == 0 { "refused" } else { "no client file" };
            lines += usize::from(failures.record(message.to_owned(), false).is_some());
            pauses_ms.push(failures.pause().as_millis());
        }
        assert_eq!(lines, 2, "two errors alternate");
        assert_eq!(pauses_ms[..6], [250, 500, 1_000, 2_000, 4_000, 5_000]);
        let line = failures.record("refused".to_owned(), true);
        assert!(line.is_some_and(|line| line.contains("refused")), "another outage");
        assert_eq!(failures.pause().as_millis(), 250);
    }

    #[test]
    fn machines_reach_all_controllers_of_this_host_at_its_address_for_them() {
        let file = ClientFile {
            other_controllers: vec!["127.0.0.1:2".to_owned(), "192.0.2.1:3".to_owned()],
            ..client_file("127.0.0.1:1")
        };
        let reached = as_reached_at("10.0.0.1", file);
        assert_eq!(reached.controller, "10.0.0.1:1");
        assert_eq!(reached.other_controllers, ["10.0.0.1:2", "192.0.2.1:3"]);
    }

    #[test]
    fn errors_with_ever_changing_texts_do_not_fill_the_log() {
        let mut failures = Failures::default();
        let lines = (0..100).filter_map(|n| failures.record(n.to_string(), false)).count();
        assert_eq!(lines, ERRORS_MAX);
    }
}
