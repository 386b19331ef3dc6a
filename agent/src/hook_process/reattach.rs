//! A run that was found begun: an agent that is gone started it, and its shim goes on without one (design 12).

use crate::clock::kernel_boot;
use crate::hook_process::leftovers::{end_leftovers, stop_for_reboot};
use crate::hook_process::{ADOPTED_LOOK, HostCharms, read_kept, read_outcome};
use crate::ports::{Charms, Ending, HookHost};
use crate::shim;
use crate::tool_calls::{CallsFile, HookSession};
use host::lock::Lock;
use host::process::Process;
use state::unit::local::Run;
use state::unit::record::Said;
use std::rc::Rc;

impl HostCharms {
    pub(super) async fn reattach(&self, run: &Run, outward: &impl HookHost) -> Option<Ending> {
        let at = self.folder.run(run.number);
        // A shim holds the machine's hook lock from before it is known here until it ends:
        // 1. the shim was started and the agent died before anything was written: only the lock tells;
        // 2. so without a trace of it, the lock is taken, and looked again: nothing then means there is none.
        let mut kept = read_kept(&at);
        if kept.as_ref().is_some_and(|kept| kept.boot != kernel_boot()) {
            // nothing of it runs, and of its unsynced files the power cut may have kept the outcome alone
            return None;
        }
        let mut lock = None;
        loop {
            if read_outcome(&at).is_some() {
                break;
            }
            if let Some(shim) = Process::read(&at.join(shim::SHIM_PID)) {
                if shim.is_alive() {
                    break;
                }
                if read_outcome(&at).is_none() {
                    end_leftovers(&at).await;
                }
                break;
            }
            if lock.is_some() {
                return None;
            }
            // the shim may hold the lock and not have said yet that it is there: its tools wait for us
            tokio::select! {
                taken = self.both_locks() => lock = Some(taken),
                () = tokio::time::sleep(ADOPTED_LOOK) => {}
            }
        }
        drop(lock);
        let Some(kept) = kept.take().or_else(|| read_kept(&at)) else {
            // its context cannot be read: its tools cannot be answered and its writes are not known
            end_leftovers(&at).await;
            return None;
        };
        let (said, leads) = (|said: &Said| outward.said(said), || outward.leads());
        let mut conversation =
            HookSession::new(kept.context, kept.context_digest, CallsFile::open(&at), &said, &leads);
        if !CallsFile::read(&at).is_some_and(|calls| conversation.replay(&calls)) {
            end_leftovers(&at).await;
            return None;
        }
        let shim = Process::read(&at.join(shim::SHIM_PID));
        self.serve_tools(&mut conversation, outward, async {
            while read_outcome(&at).is_none() && shim.is_some_and(|shim| shim.is_alive()) {
                tokio::time::sleep(ADOPTED_LOOK).await;
            }
        })
        .await;
        // ended by us or by a crash: asked for or not, what it asked for last stands
        let ends_boot = conversation.ends_boot();
        if ends_boot {
            stop_for_reboot(&at).await;
        } else if read_outcome(&at).is_none() {
            end_leftovers(&at).await;
        }
        (ends_boot || read_outcome(&at).is_some()).then(|| self.ending(run, conversation))
    }

    /// The machine's and the unit's own: whichever a shim of ours may hold, by the model's setting when it began.
    async fn both_locks(&self) -> (Rc<Lock>, Rc<Lock>) {
        (self.lock(false).await, self.lock(true).await)
    }
}
