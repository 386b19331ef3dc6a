//! Continues a run that an earlier agent started and whose shim may still be running (design 12).
//!
//! The result is the one the earlier agent would have stored: the hook session is recovered from the recorded tool calls
//! first. If a call would be answered differently, the processes of the run are killed and the run counts as
//! interrupted: `state::unit::retry` starts a hook again and records an action or commands as failed.
//!
//! Called by the unit agent through `CharmHost::reattach`.

use crate::clock::kernel_boot_id;
use crate::hook_process::CharmRunner;
use crate::hook_process::remaining_processes::PROCESS_POLL_INTERVAL;
use crate::hook_process::remaining_processes::{kill_remaining_processes, stop_for_reboot};
use crate::hook_process::run_files::{read_outcome, read_run_file};
use crate::hook_session::{CallsFile, HookSession};
use crate::ports::HookHost;
use crate::run_lock_files;
use hook_client::shim;
use host::process::Process;
use state::terms::operation::Operation;
use state::terms::run_lock::RunLock;
use state::unit::local::Run;
use state::unit::outcome::HookResult;
use state::unit::record::RunReport;
use std::pin::pin;

impl CharmRunner {
    /// See [`CharmHost::reattach`](crate::ports::CharmHost::reattach).
    pub(super) async fn reattach_run(&self, run: &Run, hook_host: &impl HookHost) -> Option<HookResult> {
        let run_folder = self.folder.started_run(run);
        // A shim holds its lock from before its pid file exists until it ends:
        // 1. The shim was started, and the agent died before the shim wrote a file: only the lock shows the
        //    shim.
        // 2. Therefore, without a pid file, each lock that it can hold is acquired once, and the files are read again:
        //    if there is still nothing, there is no shim.
        let mut run_file = read_run_file(&run_folder);
        if run_file.as_ref().is_some_and(|run_file| run_file.boot != kernel_boot_id()) {
            // after another boot no process of the run exists, and of its unsynced files a power failure may have
            // preserved only the outcome
            return None;
        }
        let (mut free, mut is_free) = (pin!(self.each_lock_is_free(run)), false);
        loop {
            if read_outcome(&run_folder).is_some() {
                break;
            }
            if let Some(shim) = Process::read(&run_folder.join(shim::SHIM_PID)) {
                if shim.is_alive() {
                    break;
                }
                if read_outcome(&run_folder).is_none() {
                    kill_remaining_processes(&run_folder).await;
                }
                break;
            }
            if is_free {
                return None;
            }
            // the shim may hold its lock and not have written its pid file; its tools wait for this agent
            tokio::select! {
                () = &mut free => is_free = true,
                () = tokio::time::sleep(PROCESS_POLL_INTERVAL) => {}
            }
        }
        let Some(run_file) = run_file.take().or_else(|| read_run_file(&run_folder)) else {
            // without its context the tools cannot be answered, and the hook's writes are unknown
            kill_remaining_processes(&run_folder).await;
            return None;
        };
        let (on_report, is_leader) =
            (|report: &RunReport| hook_host.report(report), || hook_host.is_leader());
        let mut session = HookSession::new(
            run_file.context,
            run_file.context_digest,
            CallsFile::open(&run_folder),
            &on_report,
            &is_leader,
        );
        if !CallsFile::read(&run_folder).is_some_and(|calls| session.recover(&calls)) {
            kill_remaining_processes(&run_folder).await;
            return None;
        }
        let shim = Process::read(&run_folder.join(shim::SHIM_PID));
        self.serve_tools(run.number, &mut session, hook_host, async {
            while read_outcome(&run_folder).is_none() && shim.is_some_and(|shim| shim.is_alive()) {
                tokio::time::sleep(PROCESS_POLL_INTERVAL).await;
            }
        })
        .await;
        // the last tool call of the hook was juju-reboot --now: the run ends here, even if a crash had already ended its
        // processes
        let requests_reboot = session.requests_reboot();
        if requests_reboot {
            stop_for_reboot(&run_folder).await;
        } else if read_outcome(&run_folder).is_none() {
            kill_remaining_processes(&run_folder).await;
        }
        (requests_reboot || read_outcome(&run_folder).is_some())
            .then(|| self.finish(run, session, run_file.handler))
    }

    /// Waits until each lock that the shim of this run can hold has been free once: which one it holds depends on the model's
    /// setting and on the charm when the run started. They are not held together: other units would wait as long as an
    /// action of a group runs. Never completes if the locks of the execution groups cannot be listed.
    async fn each_lock_is_free(&self, run: &Run) {
        for lock in [RunLock::Unit, RunLock::Machine] {
            drop(self.acquire_lock(&lock).await);
        }
        if let Operation::Action { .. } = run.operation {
            let Ok(groups) = run_lock_files::group_files(&self.folder.machine()) else {
                return std::future::pending().await;
            };
            for file in groups {
                drop(self.acquire_lock_file(&file).await);
            }
        }
    }
}
