//! Implements the port [`CharmHost`] for real agents: the charm's folder, and the runs of its hooks.
//!
//! No other module of `hook_process` uses this one, so that starting a run and re-attaching to a run do not depend on
//! each other.

use super::gated_shim::RunningShim;
use super::remaining_processes::{end_processes, kill_remaining_processes, stop_for_reboot};
use super::run_files::read_outcome;
use super::{CharmRunner, GatedShim, InstalledCharmFile, delete_unmasked_output, resources};
use crate::fault;
use crate::hook_session::{CallsFile, HookSession};
use crate::network_device;
use crate::ports::{CharmHost, HookHost};
use crate::reboot_request;
use crate::tool_socket::ContextState;
use hook_client::shim;
use host::file::is_disk_full;
use host::lock::Lock;
use state::charm::Charm;
use state::terms::operation::CharmRef;
use state::terms::required_file::RequiredFile;
use state::terms::run_lock::RunLock;
use state::unit::hook_context::HookContext;
use state::unit::local::Run;
use state::unit::networks::AddressDevice;
use state::unit::outcome::{HookResult, RunExit};
use state::unit::record::RunReport;
use state::unit::required_files::RequiredFiles;
use std::cell::Cell;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The interval between two attempts to start a shim on a full disk.
const DISK_FULL_RETRY: Duration = Duration::from_millis(shim::DISK_FULL_RETRY_MS as u64);

impl CharmRunner {
    /// Starts the shim of a run. Retries while the disk is full, which is not a failure of the charm.
    ///
    /// # Errors
    /// How the run ends without a process.
    async fn start_on_free_disk(&self, run: &Run, context: &HookContext) -> Result<GatedShim, RunExit> {
        let program = self.program_of(run, context)?;
        loop {
            match self.start(run, context, &program).await {
                Ok(gated) => return Ok(gated),
                Err(error) if is_disk_full(&error) => {
                    tracing::error!(
                        "cannot start {}: {error}; retrying until there is free disk space",
                        run.operation
                    );
                    tokio::time::sleep(DISK_FULL_RETRY).await;
                }
                Err(error) => {
                    let text = fault::with_setting(&error);
                    return Err(RunExit::Failed(format!("cannot start the hook: {text}").into()));
                }
            }
        }
    }
}

impl CharmRunner {
    /// Lets the hook run whose shim waits at its gate, or is started now.
    ///
    /// # Errors
    /// How the run ends without a process.
    async fn open_gate(
        &self,
        run: &Run,
        context: &HookContext,
        gated: Option<GatedShim>,
    ) -> Result<RunningShim, RunExit> {
        let mut waiting = match gated {
            Some(gated) => gated,
            None => self.start_on_free_disk(run, context).await?,
        };
        loop {
            match waiting.open_gate().await {
                Ok(shim) => return Ok(shim),
                // there is no warm parent from now on, so this happens once
                Err(fork) => self.give_up_fork(fork).await,
            }
            waiting = self.start_on_free_disk(run, context).await?;
        }
    }
}

impl CharmHost for CharmRunner {
    type Lock = Rc<Lock>;

    async fn lock(&self, lock: &RunLock) -> Rc<Lock> {
        self.acquire_lock(lock).await
    }

    fn declared(&self) -> Option<Arc<Charm>> {
        // a charm of which the folder was deleted is fetched again
        self.declared.borrow().clone().filter(|_| self.folder.charm().is_dir())
    }

    fn device(&self, address: &str) -> Option<AddressDevice> {
        network_device::with_address(address)
    }

    fn required_files(&self) -> RequiredFiles {
        let charm = self.folder.charm();
        // a link that leads nowhere was unpacked like this
        let exists = |program: &RequiredFile| fs::symlink_metadata(charm.join(program.path())).is_ok();
        let unpacked = self.unpacked.borrow().clone();
        RequiredFiles { existing: unpacked.iter().copied().filter(exists).collect(), unpacked }
    }

    async fn is_installed(&self, charm: &CharmRef) -> bool {
        let same = InstalledCharmFile::read(&self.folder).is_some_and(|known| known.sha256 == charm.sha256);
        same && charms::verify(&self.folder.charm()).is_some_and(|differing| differing.is_empty())
    }

    async fn install(&self, charm: &CharmRef, archive: Vec<u8>) -> Result<(), String> {
        // checked before the first byte is interpreted (S21)
        let sha256 = host::digest::sha256(&archive);
        if sha256 != charm.sha256 {
            return Err(format!(
                "charm archive of {} corrupted: expected sha256 {}, got {sha256}",
                charm.url, charm.sha256
            ));
        }
        let options = charms::ReadOptions { cache: self.folder.file("cache"), force: true };
        let read = charms::read::read_archive(&charm.url, archive, &options);
        let source =
            read.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let installed = charms::install(&source.archive, &charm.sha256, &self.folder.charm(), charm.revision);
        let installed = installed.map_err(|error| error.to_string())?;
        for name in installed.renamed_files {
            tracing::warn!(
                "{name} in the charm folder was replaced by the file of the new revision; the old file was moved to \
                 {name}.juju-orig"
            );
        }
        let declared = InstalledCharmFile { sha256: charm.sha256.clone(), charm: source.charm };
        declared.write(&self.folder).map_err(|error| error.to_string())?;
        resources::delete_undeclared(self.folder.root(), &declared.charm);
        if let Some(warm) = &self.warm {
            warm.reset();
        }
        *self.unpacked.borrow_mut() = super::unpacked_files(&self.folder);
        *self.declared.borrow_mut() = Some(Arc::new(declared.charm));
        Ok(())
    }

    type Gated = GatedShim;

    async fn start_gated(&self, run: &Run, context: &HookContext) -> Option<GatedShim> {
        let program = self.program_of(run, context).ok()?;
        self.start(run, context, &program).await.ok()
    }

    async fn run(
        &self,
        run: &Run,
        context: HookContext,
        gated: Option<GatedShim>,
        hook_host: &impl HookHost,
    ) -> HookResult {
        // the hook may change the charm's folder
        let handler = self.handler(run);
        let mut shim = match self.open_gate(run, &context, gated).await {
            Ok(shim) => shim,
            Err(exit) => {
                let files = Some(self.required_files());
                return HookResult { files, ..HookResult::without_writes(exit) };
            }
        };
        self.run_folders.delete_expired(&self.folder, &self.finished_runs.take(), run.number);
        let next_parent = self.next_parent(run, &context);
        let run_folder = self.folder.started_run(run);
        let digest = host::digest::sha256(context.id.as_bytes());
        let (on_report, is_leader) =
            (|report: &RunReport| hook_host.report(report), || hook_host.is_leader());
        let mut session =
            HookSession::new(context, digest, CallsFile::open(&run_folder), &on_report, &is_leader);
        self.serve_tools(run.number, &mut session, hook_host, async {
            shim.wait().await;
        })
        .await;
        if session.requests_reboot() {
            tokio::join!(stop_for_reboot(&run_folder), shim.wait());
        }
        if read_outcome(&run_folder).is_none() {
            tracing::warn!("the shim of run {} ended without an outcome", run.number);
            kill_remaining_processes(&run_folder).await;
        }
        let result = self.finish(run, session, handler);
        self.start_next_parent(next_parent);
        result
    }

    async fn reattach(&self, run: &Run, hook_host: &impl HookHost) -> Option<HookResult> {
        let result = self.reattach_run(run, hook_host).await;
        if result.is_none() {
            delete_unmasked_output(&self.folder.started_run(run));
        }
        self.context_state.send_replace(ContextState::Closed);
        result
    }

    async fn stop(&self, run: &Run, has_run_ended: &Cell<bool>) {
        end_processes(&self.folder.started_run(run), has_run_ended).await;
    }

    async fn reboot(&self, boot: &str) {
        if let Err(error) = reboot_request::request(&self.folder.machine(), boot) {
            tracing::error!("cannot request a reboot of the machine: {error}");
        }
    }
}
