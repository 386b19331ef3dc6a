//! Facts that only the running process of a unit agent needs: the view, the session, the lease, the run in progress,
//! its reports, and since when they are so.
//!
//! They are lost when the process ends, except the view, of which the unit's folder has a copy. Everything that must
//! survive is in the stored state.

use crate::outage::Outage;
use state::agents::lease::{ClockReading, Lease};
use state::terms::activity::Activity;
use state::terms::position::Position;
use state::terms::refusal::RefusalReason;
use state::unit::pending_reports::PendingReports;
use state::unit::snapshot::Snapshot;
use std::sync::Arc;

/// The run in progress, as it is reported to the controller.
#[derive(Clone, Debug)]
pub(super) struct ReportedRun {
    pub(super) run: u64,
    pub(super) activity: Activity,
    pub(super) since_ms: u64,
}

/// Facts that only this process needs; they are lost when it ends.
#[derive(Debug, Default)]
pub(super) struct VolatileState {
    /// The current view.
    pub(super) view: Option<Arc<Snapshot>>,
    /// The epoch of the open session.
    pub(super) epoch: Option<u64>,
    /// The position of the store when this session was opened. The stored state may depend on anything up to it: in
    /// an older, cached view everything newer would look deleted.
    pub(super) attached_at: Option<Position>,
    /// When the view was last known to be current: a message of the watch was received, or the claim was sent whose response
    /// has confirmed the view.
    pub(super) last_contact_ms: Option<u64>,
    pub(super) outage: Outage,
    pub(super) lease: Option<Lease>,
    /// Whether a claim was answered, so that it is known whether this unit leads.
    pub(super) is_leader_known: bool,
    /// Whether it is certain that no process of the started run is left: the run of an earlier agent was searched for, or
    /// the run of this one has ended.
    pub(super) no_run_process: bool,
    /// When the last run of this process ended, since the boot; before the first one, when this process started.
    pub(super) last_end_ms: u64,
    /// How far the clock of the model was advanced when the last run of this process ended; none until a view shows it.
    pub(super) last_end_advanced_ms: Option<u64>,
    /// When this process started, since the boot.
    pub(super) agent_start_ms: u64,
    /// The run in progress.
    pub(super) executing: Option<ReportedRun>,
    /// Since when attaching is refused because another session is open.
    pub(super) attach_refused_since_ms: Option<u64>,
    /// What the run in progress has reported and the controller has not acknowledged.
    pub(super) pending_reports: PendingReports,
    /// The last record that the controller has refused, and why.
    pub(super) last_refusal: Option<(u64, RefusalReason)>,
    /// The activity that the controller last acknowledged.
    pub(super) acknowledged_activity: Option<Activity>,
    /// The link was down since the activity was sent: a restarted controller does not have it, so it is sent
    /// again.
    pub(super) resend_activity: bool,
}

impl VolatileState {
    /// The generation of the lease, while it is valid.
    pub(super) fn leader_generation(&self, now: ClockReading) -> Option<u64> {
        self.lease.filter(|lease| lease.is_valid(now)).map(|lease| lease.granted.generation)
    }

    /// How long no run has ended, by the clock of the model, which can be advanced.
    pub(super) fn idle_ms(&self, since_boot_ms: u64) -> u64 {
        let advanced_ms = self.view.as_ref().map(|view| view.model.advanced_ms);
        let advanced_ms =
            advanced_ms.zip(self.last_end_advanced_ms).map_or(0, |(now, then)| now.saturating_sub(then));
        since_boot_ms.saturating_sub(self.last_end_ms).saturating_add(advanced_ms)
    }

    /// Records that a run has ended, or that this process has started.
    pub(super) fn set_last_end(&mut self, since_boot_ms: u64) {
        self.last_end_ms = since_boot_ms;
        self.last_end_advanced_ms = self.view.as_ref().map(|view| view.model.advanced_ms);
    }

    /// Replaces the view.
    pub(super) fn set_view(&mut self, view: Arc<Snapshot>) {
        self.last_end_advanced_ms.get_or_insert(view.model.advanced_ms);
        self.view = Some(view);
    }

    /// Records that the controller was reachable at this time, and its view current.
    pub(super) fn record_contact(&mut self, at_ms: u64) {
        self.last_contact_ms = self.last_contact_ms.max(Some(at_ms));
    }

    /// Records that the view is current up to a later position.
    pub(super) fn advance_position(&mut self, position: Position) {
        if let Some(view) =
            self.view.as_mut().filter(|view| view.position.store_generation == position.store_generation)
            && view.position.revision < position.revision
        {
            Arc::make_mut(view).position = position;
        }
    }

    /// Whether the view is at least as new as what the stored state may depend on.
    pub(super) fn is_current(&self) -> bool {
        match (&self.view, self.attached_at) {
            (Some(view), Some(at)) => {
                view.position.store_generation == at.store_generation && view.position.revision >= at.revision
            }
            (None, _) | (_, None) => false,
        }
    }

    /// Whether no unit leads, so that a claim before the next renewal is useful: neither does the view show a leader,
    /// nor does this unit hold a lease that is not in the view yet.
    pub(super) fn is_leadership_free(&self) -> bool {
        self.lease.is_none() && self.view.as_ref().is_some_and(|view| view.leader.is_none())
    }

    /// Drops the lease if the view shows a later grant.
    pub(super) fn drop_superseded_lease(&mut self, view: &Snapshot) {
        self.lease.take_if(|lease| lease.is_superseded(view));
    }
}
