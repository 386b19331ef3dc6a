//! Handlers of the requests of machine agents.
//!
//! The machine is always the one of the caller's token (S14). A unit that a request names must be assigned to that machine;
//! for other units the responses are the same as for units that do not exist (S15). Every request is a sign of life of the
//! agent (`presence`), except a `ReportUninstalled` with the token of a machine that was removed.

use crate::authorisation::{self, unauthorised};
use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use crate::tokens;
use crate::watches::MachineStream;
use api::error::ApiError;
use api::{
    ConfirmRecall, Enrol, Existence, GetUnitExistence, Handle, PresenceResponse, RemoveDeadUnit,
    ReportMachineDead, ReportObstructedRecalls, ReportPresence, ReportStorage, ReportUninstalled,
    ReportUnitHealth, SetUnitToken, Watch, WatchMachine,
};
use state::agents::reported_time::ReportedTimeBounds;
use state::agents::session;
use state::documents::draft::{Draft, read_all};
use state::documents::prelude::{Model, TokenHolder, last_id};
use state::documents::token;
use state::lifecycle::machine;
use state::lifecycle::storage::{self, ReportedStorage};
use state::status::shared_presence::BootChange;
use state::terms::health::bounded_line;
use state::terms::names::Uuid;
use state::transitions::instance::Enrolment;
use state::transitions::{assigned_units, instance, tombstone_retention};
use std::collections::BTreeMap;

/// The most obstructed recalls that are kept of one machine: more than the 24 units of a machine, all of whose folders
/// may wait for their quarantine at the same time. Users act on the first ones.
const OBSTRUCTED_RECALLS_MAX: usize = 40;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Returns the calling machine, and records that its agent has sent a request.
    ///
    /// # Errors
    /// If the token is not that of a machine.
    pub(super) fn authenticate_machine(&self) -> Result<(Model, Uuid), ApiError> {
        let (model, machine) = authorisation::machine(&self.principal)?;
        self.controller.presence.record_request(machine, self.controller.environment.monotonic_ms());
        Ok((model, machine))
    }

    /// Returns what the calling machine reports about the units that are assigned to it. They are looked up in the report,
    /// because an agent may report any number of units.
    pub(super) async fn reports_of_assigned_units<T: Send + 'static>(
        &self,
        mut reports: BTreeMap<Uuid, T>,
    ) -> Result<Vec<(Uuid, T)>, ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let of_assigned = self.controller.read(move |reader| {
            let assigned = assigned_units::ids(reader, model, machine).into_iter();
            assigned.filter_map(|unit| reports.remove_entry(&unit)).collect()
        });
        Ok(of_assigned.await)
    }
}

impl<S: Store, E: Environment> Handle<GetUnitExistence> for Authorised<S, E> {
    async fn handle(&self, GetUnitExistence { unit }: GetUnitExistence) -> Result<Existence, ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let existence = self
            .controller
            .read(move |mut reader| assigned_units::existence(&mut reader, model, machine, unit));
        Ok(existence.await)
    }
}

impl<S: Store, E: Environment> Handle<SetUnitToken> for Authorised<S, E> {
    async fn handle(&self, set: SetUnitToken) -> Result<(), ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let SetUnitToken { unit, token } = set;
        let sha256 = tokens::digest_of(&token)?;
        let transition =
            move |draft: &mut Draft<'_>| assigned_units::set_token(draft, model, machine, unit, &sha256);
        self.controller.run(transition).await?;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<RemoveDeadUnit> for Authorised<S, E> {
    async fn handle(&self, RemoveDeadUnit { unit }: RemoveDeadUnit) -> Result<(), ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let now_ms = self.controller.environment.wall_ms();
        let transition =
            move |draft: &mut Draft<'_>| assigned_units::remove(draft, model, machine, unit, now_ms);
        self.controller.run(transition).await?;
        self.controller.presence.forget(unit);
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ConfirmRecall> for Authorised<S, E> {
    async fn handle(&self, ConfirmRecall { unit }: ConfirmRecall) -> Result<(), ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let transition = move |draft: &mut Draft<'_>| {
            tombstone_retention::confirm_recall(draft, model, machine, unit);
            Ok(())
        };
        self.controller.run(transition).await?;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportPresence> for Authorised<S, E> {
    async fn handle(&self, report: ReportPresence) -> Result<PresenceResponse, ApiError> {
        let (_, machine) = self.authenticate_machine()?;
        let ReportPresence { view, boot } = report;
        session::require_boot(&boot)?;
        if self.controller.presence.is_new_boot(machine, &boot) {
            self.controller.state_boots(machine, BootChange::Reported(boot)).await?;
        }
        Ok(PresenceResponse { current_to: self.controller.confirm_view(machine, view).await })
    }
}

impl<S: Store, E: Environment> Handle<ReportUnitHealth> for Authorised<S, E> {
    async fn handle(&self, ReportUnitHealth { units }: ReportUnitHealth) -> Result<(), ApiError> {
        let (model, _) = self.authenticate_machine()?;
        let (wall_ms, now_ms) =
            (self.controller.environment.wall_ms(), self.controller.environment.monotonic_ms());
        let reports = self.reports_of_assigned_units(units).await?;
        let bounded = self.controller.read(move |reader| {
            let bounded = |(unit, health)| {
                (unit, ReportedTimeBounds::of_unit(reader, model, unit, wall_ms).health(health))
            };
            reports.into_iter().map(bounded).collect::<Vec<_>>()
        });
        for (unit, health) in bounded.await {
            self.controller.presence.set_health(unit, Some(health.bounded()), now_ms);
        }
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportObstructedRecalls> for Authorised<S, E> {
    async fn handle(
        &self,
        ReportObstructedRecalls { mut recalls }: ReportObstructedRecalls,
    ) -> Result<(), ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let pending_recalls = self.controller.read(move |reader| {
            let pending = read_all::<()>(reader, &model.recalls(machine));
            let units = pending.iter().filter_map(|(key, ())| last_id(key));
            units.filter_map(|unit| recalls.remove_entry(&unit)).collect::<Vec<_>>()
        });
        let obstructed = pending_recalls.await.into_iter().take(OBSTRUCTED_RECALLS_MAX);
        let obstructed = obstructed.map(|(unit, why)| (unit, bounded_line(&why))).collect();
        self.controller.presence.set_obstructed_recalls(machine, obstructed);
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportStorage> for Authorised<S, E> {
    async fn handle(&self, reported: ReportStorage) -> Result<(), ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let now_ms = self.controller.environment.wall_ms();
        let transition = move |draft: &mut Draft<'_>| {
            let ReportStorage { id, instance, report } = reported.clone();
            let reported = ReportedStorage { id: &id, instance, report };
            storage::record_report(draft, model, machine, reported, now_ms)
        };
        self.controller.run(transition).await?;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportMachineDead> for Authorised<S, E> {
    async fn handle(&self, _: ReportMachineDead) -> Result<(), ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        self.controller.run(move |draft| machine::set_dead(draft, model, machine)).await?;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportUninstalled> for Authorised<S, E> {
    async fn handle(&self, _: ReportUninstalled) -> Result<(), ApiError> {
        if let TokenHolder::RemovedMachine { machine, .. } = self.principal {
            let deleted = self.controller.run(move |draft| {
                token::delete_retired(draft, &[machine]);
                Ok(())
            });
            return deleted.await.map(drop);
        }
        let (model, machine) = self.authenticate_machine()?;
        self.controller.run(move |draft| instance::record_agent_uninstalled(draft, model, machine)).await?;
        self.controller.finish_machine_removal(model, machine).await;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<Enrol> for Authorised<S, E> {
    async fn handle(&self, enrol: Enrol) -> Result<(), ApiError> {
        let now_ms = self.controller.environment.wall_ms();
        let (model, machine) = authorisation::enrolling(&self.principal, now_ms)?;
        let Enrol { token, address, base, hardware } = enrol;
        let enrolment = Enrolment {
            enrolment_token: self.token_sha256.clone().ok_or_else(unauthorised)?,
            token: tokens::digest_of(&token)?,
            address,
            base,
            hardware,
        };
        self.controller.run(move |draft| instance::enrol(draft, model, machine, &enrolment, now_ms)).await?;
        self.controller.presence.record_request(machine, self.controller.environment.monotonic_ms());
        Ok(())
    }
}

impl<S: Store, E: Environment> Watch<WatchMachine> for Authorised<S, E> {
    type Stream = MachineStream<S, E>;

    async fn watch(&self, _: WatchMachine) -> Result<MachineStream<S, E>, ApiError> {
        let (model, machine) = self.authenticate_machine()?;
        let units = self.controller.read(move |reader| assigned_units::ids(reader, model, machine));
        let now_ms = self.controller.environment.monotonic_ms();
        for unit in units.await {
            self.controller.presence.set_health(unit, None, now_ms);
        }
        self.controller.presence.set_obstructed_recalls(machine, BTreeMap::new());
        Ok(MachineStream::open(self.controller.clone(), model, machine))
    }
}
