//! The process of a controller on a scratch folder: starts it, kills it as a crash does, and measures it.

use crate::process_usage;
use anyhow::{Context, Result, bail};
use api::client::{Client, ControllerConnection};
use api::{ClientFile, GetAbout, Handle};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time until the controller answers. The store of 10,000 units opens within a second.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval of the requests to a controller that is starting.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A controller that runs. Dropping it kills the process.
pub struct ControllerProcess {
    program: PathBuf,
    data: PathBuf,
    child: Child,
}

impl ControllerProcess {
    /// Starts the program of a controller on a data folder. Its log is `DIR/log/controller.log`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(program: &Path, data: &Path) -> Result<ControllerProcess> {
        let child = spawn(program, data)?;
        Ok(ControllerProcess { program: program.to_owned(), data: data.to_owned(), child })
    }

    /// Kills the process with SIGKILL, and waits until it has ended.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts the process again after it has ended.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.program, &self.data)?;
        Ok(())
    }

    /// Ends the process with SIGTERM, so that the store is closed.
    ///
    /// # Errors
    /// If it cannot be stopped.
    pub fn stop(&mut self) -> Result<()> {
        kill(Pid::from_raw(self.pid()), Signal::SIGTERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until the controller answers. Returns the connection of its first user.
    ///
    /// # Errors
    /// If it ends, or does not answer in time.
    pub async fn connection(&mut self) -> Result<ControllerConnection> {
        let end = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(connection) = self.client_file()
                && Client::user(&connection)?.handle(GetAbout).await.is_ok()
            {
                return Ok(connection);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the controller ended: {status}; its log is {}", log(&self.data).display());
            }
            if Instant::now() > end {
                bail!("the controller does not answer; its log is {}", log(&self.data).display());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn client_file(&self) -> Option<ControllerConnection> {
        let text = fs::read_to_string(self.data.join(ClientFile::FILE)).ok()?;
        let file: ClientFile = charms::yaml::from_str(&text).ok()?;
        Some(ControllerConnection::from(&file))
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The resident memory of the process, in MB of 1,000,000 bytes.
    pub fn memory_mb(&self) -> f64 {
        process_usage::memory_mb(self.pid()).0
    }

    /// The CPU time that the process has used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        process_usage::cpu_seconds(self.pid())
    }
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        self.kill().ok(); // an error: it has ended
    }
}

fn log(data: &Path) -> PathBuf {
    data.join("log/controller.log")
}

fn spawn(program: &Path, data: &Path) -> Result<Child> {
    fs::create_dir_all(data.join("log"))?;
    let log = File::options().append(true).create(true).open(log(data))?;
    let mut command = Command::new(program);
    command.arg("--data").arg(data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().with_context(|| format!("cannot start {}: build it first", program.display()))
}
