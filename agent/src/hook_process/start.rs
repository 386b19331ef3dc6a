//! Starts a run at a closed gate, and stores what a later agent needs meanwhile: the shim is a child of this process, or is
//! forked by the warm parent of the unit.

use super::gated_shim::{GatedShim, StartedShim};
use super::hand_off::{HandOff, NotHandedOff, ShimFiles, kill_forked};
use super::run_files::{RunFile, create_file};
use super::warm_dispatch::{Forked, launch_of};
use super::warm_parent::ForkRequest;
use super::{CharmRunner, SCRIPT, debug_session};
use crate::blocking;
use crate::clock::kernel_boot_id;
use crate::ports::CharmHost;
use hook_client::shim;
use host::file::with_path;
use state::unit::dispatch::{Dispatch, declares};
use state::unit::environment::{belongs_to_run, environment};
use state::unit::hook_context::{HookContext, HookTrigger, RunningCommands};
use state::unit::local::Run;
use state::unit::outcome::RunExit;
use state::unit::warm_dispatch::{PythonLaunch, keeps_parent};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the warm parent for the next run is started with.
pub(super) struct NextParent {
    launch: PythonLaunch,
    /// The variables of every run of the unit.
    variables: Vec<(String, String)>,
}

impl CharmRunner {
    /// The path of the program of a run: that of the hook or the action in the charm, or the script of commands.
    ///
    /// # Errors
    /// How the run ends if there is no program.
    pub(super) fn program_of(&self, run: &Run, context: &HookContext) -> Result<PathBuf, RunExit> {
        if self.declared().is_some_and(|charm| !declares(&charm, &context.trigger)) {
            return Err(RunExit::Missing);
        }
        let Some(path) = context.trigger.dispatch_path() else {
            return Ok(self.folder.new_run(run).join(SCRIPT));
        };
        match self.program(&path) {
            Dispatch::Run(program) => Ok(self.folder.charm().join(program)),
            Dispatch::Missing => Err(RunExit::Missing),
            Dispatch::Failed(why) => Err(RunExit::Failed(why)),
        }
    }

    /// Starts the shim at a closed gate, and stores what a later agent needs while the shim starts.
    pub(super) async fn start(
        &self,
        run: &Run,
        context: &HookContext,
        program: &Path,
    ) -> io::Result<GatedShim> {
        self.tools.as_ref().map_or(Ok(()), |tools| tools.restore())?;
        let run_folder = self.run_folders.create(&self.folder, run)?;
        if let HookTrigger::Commands(RunningCommands { script, .. }) = &context.trigger {
            let script = format!("#!/bin/bash\n{script}\n");
            create_file(&run_folder.join(SCRIPT), script.as_bytes(), 0o700)?;
        }
        let variables = environment(context, &self.machine_facts);
        let forked = self.start_forked(&run_folder, context, program, &variables).await?;
        let mut run_file = RunFile {
            operation: run.operation.clone(),
            reason: run.reason.clone(),
            position: run.position,
            context_digest: host::digest::sha256(context.id.as_bytes()),
            boot: kernel_boot_id(),
            handler: self.handler(run),
            warm: forked.is_some(),
            context: context.clone(),
        };
        run_file.context.id.clear();
        let (gated, written) = match forked {
            Some(forked) => (forked, run_file.write(&run_folder)),
            None => self.start_shim(&run_folder, run_file, context, program, variables).await?,
        };
        match written {
            Ok(()) => Ok(gated),
            Err(error) => {
                if let Err(fork) = gated.close_gate().await {
                    self.give_up_fork(fork).await;
                }
                Err(error)
            }
        }
    }

    /// Starts the shim as a child of this process, and writes the file of its run, beside the sync of the run's start.
    /// The second result is that of the file.
    async fn start_shim(
        &self,
        run_folder: &Path,
        run_file: RunFile,
        context: &HookContext,
        program: &Path,
        variables: Vec<(String, String)>,
    ) -> io::Result<(GatedShim, io::Result<()>)> {
        let program = debug_session::program(&self.folder, run_folder, context, program.to_path_buf());
        let lock = self.lock.borrow().upgrade().expect("the caller holds a hook lock");
        let (gate, opener) = io::pipe()?;
        let (on_machine, charm) = (context.trigger.runs_on_machine(), self.folder.charm());
        let hook_program = crate::installed_programs::hook_program();
        let mut command = Command::new(&hook_program);
        command
            .arg(shim::SHIM_ARGUMENT)
            .arg(run_folder)
            .arg(&program)
            .env_clear()
            .envs(variables)
            .current_dir(if on_machine { Path::new("/") } else { &charm })
            .stdin(Stdio::from(gate))
            .stdout(Stdio::from(lock.duplicate()?))
            .stderr(Stdio::null())
            .process_group(0);
        let (runtime, folder) = (tokio::runtime::Handle::current(), run_folder.to_path_buf());
        let (started, written) = blocking::beside(move || {
            let _runtime = runtime.enter();
            (tokio::process::Command::from(command).spawn(), run_file.write(&folder))
        })
        .await;
        let child =
            started.map_err(with_path(if hook_program.is_file() { &charm } else { &hook_program }))?;
        Ok((GatedShim { shim: StartedShim::Child(child), opener }, written))
    }

    /// Lets the warm parent fork the shim and the hook. None if there is no parent, or it refuses: nothing of the attempt can
    /// become a shim or a hook then.
    async fn start_forked(
        &self,
        run_folder: &Path,
        context: &HookContext,
        program: &Path,
        variables: &[(String, String)],
    ) -> io::Result<Option<GatedShim>> {
        let Some(warm) = self.warm.as_ref().filter(|warm| warm.has_parent()) else { return Ok(None) };
        let runs_charm = context.trigger.dispatch_path().is_some();
        let is_debugged = debug_session::concerns(&self.folder, context);
        if !context.model.warm_dispatch || !runs_charm || is_debugged {
            return Ok(None);
        }
        let Some(launch) = launch_of(&self.folder.charm(), program) else { return Ok(None) };
        let lock = self.lock.borrow().upgrade().expect("the caller holds a hook lock");
        let ((gate, opener), (socket, other_end)) = (io::pipe()?, UnixStream::pair()?);
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(socket)?;
        match warm.fork(&launch, &ForkRequest { run_folder, program, variables }, other_end.into()).await {
            Forked::Yes => {
                let hand_off = HandOff::start(socket, ShimFiles { gate, lock: lock.duplicate()? });
                Ok(Some(GatedShim { shim: StartedShim::Forked(hand_off), opener }))
            }
            Forked::No => Ok(None),
            Forked::Unknown => {
                drop(socket);
                kill_forked(&self.folder).await;
                Ok(None)
            }
        }
    }

    /// Ends the warm parent for good, and what it has forked that has not become a shim and a hook.
    pub(super) async fn give_up_fork(&self, fork: NotHandedOff) {
        if let Some(warm) = &self.warm {
            warm.give_up_fork(&fork);
        }
        fork.kill(&self.folder).await;
    }

    /// What the parent for the run after this one is started with. None if there will be none.
    pub(super) fn next_parent(&self, run: &Run, context: &HookContext) -> Option<NextParent> {
        let warm = self.warm.as_ref()?;
        if !context.model.warm_dispatch {
            warm.reset();
            return None;
        }
        if !keeps_parent(&context.trigger) {
            return None;
        }
        let launch = launch_of(&self.folder.charm(), &self.program_of(run, context).ok()?)?;
        let mut variables = environment(context, &self.machine_facts);
        variables.retain(|(name, _)| !belongs_to_run(name));
        Some(NextParent { launch, variables })
    }

    /// Starts the parent for the next run in the background, unless there is one.
    pub(super) fn start_next_parent(&self, next: Option<NextParent>) {
        if let (Some(warm), Some(NextParent { launch, variables })) = (&self.warm, next) {
            warm.prepare(&self.folder, launch, variables);
        }
    }
}
