//! `supervise`: the process behind `up`. Internal.

use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::supervisor::daemon::{Program, SupervisedProcess};
use crate::supervisor::machines::Machines;
use crate::supervisor::provider::local::Local;
use crate::supervisor::provider::nspawn::{self, Nspawn};
use crate::supervisor::provider::{Chosen, Kind};
use crate::supervisor::settings::Settings;
use crate::supervisor::{lock, stop};
use clap::Args;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
pub struct Supervise {}

/// Runs until SIGTERM, then ends all it started.
pub async fn run(dir: &DataDir) -> Result<(), Failure> {
    // A session of its own: the terminal's signals and its end do not reach it. Refused only to a group's leader,
    // which is detached already.
    let _ = nix::unistd::setsid();
    let broken = |error: std::io::Error| Failure::new(format!("cannot catch signals: {error}"));
    let mut end = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let _held = lock::hold(dir)?;
    let (controller, agent) = (program("pintle-controller")?, program("pintle-agent")?);
    // every unit's agent needs it, beside its own program
    program("pintle-hook")?;

    // Left by a supervisor that was killed; two controllers on one store would be refused.
    stop::stop_orphans(dir).await;
    let settings = Settings::read(dir)?;
    let (provider, gateway) = match settings.provider {
        Kind::Local => (Chosen::Local(Local::new(dir.clone(), agent)), None),
        Kind::Nspawn => {
            let base = settings.base.unwrap_or_else(|| nspawn::default_base(dir));
            let nspawn = Nspawn::open(dir.clone(), agent, base)?;
            let gateway = nspawn.gateway();
            (Chosen::Nspawn(nspawn), Some(gateway))
        }
    };
    let mut arguments = vec!["--data".to_owned(), dir.path().display().to_string()];
    for also in gateway.iter().cloned().chain(settings.listen.map(|address| address.to_string())) {
        arguments.extend(["--also".to_owned(), also]);
    }
    let controller = SupervisedProcess::start(Program {
        path: controller,
        arguments,
        log: dir.log("controller"),
        pid_file: Some(dir.controller_pid()),
    });
    let mut machines = Machines::new(dir.clone(), provider, gateway);
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
        () = machines.follow() => {}
    }
    let agents = machines.release();
    let halted = nspawn::halt_all(dir).await;
    // The controller is released but goes on until the agents have ended: it is found by its pid file.
    controller.release();
    let left = stop::below(dir, agents).await.left;
    match left.first() {
        None => halted.map(drop),
        Some(process) => Err(Failure::new(format!("process {} does not end", process.pid))),
    }
}

/// A program of Pintle: beside this one.
fn program(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let path = own.with_file_name(name);
    if path.exists() {
        return Ok(path);
    }
    Err(Failure::new(format!("{} is missing", path.display()))
        .hint("all programs of Pintle lie in one folder"))
}
