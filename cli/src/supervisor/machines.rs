//! The machines of a data folder: the provisioner's loop with this host's time and the chosen provider, begun again
//! whenever it fails.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::session::{client, read_client_file};
use crate::supervisor::provider::AnyProvider;
use crate::supervisor::provisioner::{ProvisionerEnvironment, Provisioner};
use api::ClientFile;
use host::process::Process;
use state::terms::names::Uuid;
use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

/// After a failure: the controller may be starting.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The machines of one data folder.
pub struct MachineSupervisor {
    dir: DataDir,
    provisioner: Provisioner<AnyProvider, ProvisionerHost>,
    /// The controller's address as machines reach it; none = as people do.
    controller: Option<String>,
}

impl MachineSupervisor {
    pub fn new(dir: DataDir, provider: AnyProvider, controller: Option<String>) -> MachineSupervisor {
        MachineSupervisor { dir, provisioner: Provisioner { provider, environment: ProvisionerHost }, controller }
    }

    /// Follows the controller for ever.
    pub async fn follow(&mut self) {
        let mut last = String::new();
        loop {
            let Err(failure) = self.follow_once().await;
            // Said once an outage, not once a try.
            if failure.message != last {
                eprintln!("machines: {}", failure.message);
                last = failure.message;
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn follow_once(&mut self) -> Result<Infallible, CommandError> {
        let file = read_client_file(&self.dir)?.ok_or_else(|| CommandError::new("no controller yet"))?;
        let client = client(&file)?;
        let port = file.controller.rsplit(':').next().unwrap_or_default();
        let controller = self.controller.as_ref().map(|host| format!("{host}:{port}"));
        let file = ClientFile { controller: controller.unwrap_or(file.controller.clone()), ..file };
        self.provisioner.follow(&client, &file).await
    }

    /// Lets go of all machines: none is started again. Answers the children that run, which the caller stops.
    pub fn release(self) -> Vec<Process> {
        self.provisioner.provider.release()
    }
}

/// This host's.
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
        Uuid(host::random::bits())
    }
    fn log(&self, line: &str) {
        eprintln!("{line}");
    }
}
