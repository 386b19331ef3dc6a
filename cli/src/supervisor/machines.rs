//! The machine supervisor: runs the provisioner with this host's clock and the configured provider.
//!
//! Called by `supervise`. The provisioner's loop is started again whenever it fails, for example while the controller
//! restarts.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::session::{client, read_client_file};
use crate::supervisor::provider::AnyProvider;
use crate::supervisor::provisioner::{Provisioner, ProvisionerEnvironment};
use api::ClientFile;
use host::process::Process;
use state::terms::names::Uuid;
use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

/// Pause after an error, because the controller may be starting.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

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
        MachineSupervisor {
            dir,
            provisioner: Provisioner { provider, environment: ProvisionerHost },
            controller,
        }
    }

    /// Provisions machines until the future is dropped.
    pub async fn follow(&mut self) {
        let mut last = String::new();
        loop {
            let Err(failure) = self.follow_once().await;
            // The error is logged once per outage, not once per attempt.
            if failure.message != last {
                tracing::warn!("machines: {}", failure.message);
                last = failure.message;
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn follow_once(&mut self) -> Result<Infallible, CommandError> {
        let missing = || CommandError::new("the client file does not exist yet");
        let file = read_client_file(&self.dir)?.ok_or_else(missing)?;
        let client = client(&file)?;
        let port = file.controller.rsplit(':').next().unwrap_or_default();
        let controller = self.controller.as_ref().map(|host| format!("{host}:{port}"));
        let file = ClientFile { controller: controller.unwrap_or(file.controller.clone()), ..file };
        self.provisioner.follow(&client, &file).await
    }

    /// Ends supervision: no machine is started again. Returns the running child processes, which the caller must
    /// stop.
    pub fn release(self) -> Vec<Process> {
        self.provisioner.provider.release()
    }
}

/// The clock, the randomness and the log of this host.
struct ProvisionerHost;

impl ProvisionerEnvironment for ProvisionerHost {
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
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
