//! What the machine agent reports concurrently with its watch: its presence, the health of the unit agents, and the recalls
//! that are obstructed.
//!
//! Called by the loop of the machine agent. A report that is lost is repeated by the next call.

use super::MachineAgent;
use crate::ports::{AuthorizedKeys, Clock, Deployments, StorageHost};
use api::{MachineAgentRequests, ReportObstructedRecalls, ReportPresence, ReportUnitHealth};
use state::terms::health::UnitHealth;
use std::convert::Infallible;

impl<A: MachineAgentRequests, D: Deployments + StorageHost + AuthorizedKeys, C: Clock> MachineAgent<A, D, C> {
    /// Reports presence and health, concurrently with the watch. The controller reports this agent as late when its presence
    /// is overdue by [`api::EXAMINATION_INTERVAL_MS`].
    pub(super) async fn report_presence(&self) -> Infallible {
        let mut due_ms = 0;
        loop {
            let now_ms = self.clock.since_boot_ms();
            // a report that is lost is repeated soon, and an outage ends the watch
            if now_ms >= due_ms
                && let Ok(response) = self.api.handle(ReportPresence { view: self.contact.view() }).await
            {
                due_ms = now_ms + api::PRESENCE_INTERVAL_MS;
                if response.current_to.is_some() {
                    self.contact.note_current(now_ms);
                }
            }
            self.report_health().await;
            self.report_obstructed_recalls().await;
            self.clock.sleep_until(now_ms + api::EXAMINATION_INTERVAL_MS).await;
        }
    }

    /// Reports what has changed in the health of the unit agents. A report that is lost is repeated with the next one.
    pub(super) async fn report_health(&self) {
        // Two concurrent reports could arrive in the other order. The one that is being sent is followed by another soon.
        let Ok(_turn) = self.health_report.try_lock() else { return };
        let mut found = self.failed_deployments.borrow().clone();
        // what prevents the listing is logged when the plan is applied
        for (unit, folder) in self.deployments.deployed().unwrap_or_default() {
            found.insert(unit, self.deployments.health(unit, &folder));
        }
        {
            let reported = self.reported_health.borrow();
            found.retain(|unit, health| reported.get(unit).unwrap_or(&UnitHealth::default()) != health);
        }
        if !found.is_empty() && self.api.handle(ReportUnitHealth { units: found.clone() }).await.is_ok() {
            self.reported_health.borrow_mut().extend(found);
        }
    }

    /// Reports which recalls are obstructed, if that has changed. A report that is lost is repeated with the next one.
    pub(super) async fn report_obstructed_recalls(&self) {
        let Ok(_turn) = self.recall_report.try_lock() else { return };
        let unreported = self.obstructed.borrow().unreported();
        if let Some(recalls) = unreported
            && self.api.handle(ReportObstructedRecalls { recalls: recalls.clone() }).await.is_ok()
        {
            self.obstructed.borrow_mut().set_reported(recalls);
        }
    }
}
