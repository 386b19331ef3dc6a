//! Handlers of the requests of machine agents.
//!
//! The machine is always the one of the session (S14). A unit that a request names must be assigned to that machine;
//! for other units the responses are the same as for units that do not exist (S15). Every request counts as a
//! heartbeat.

use crate::authorisation::{self, unauthorised};
use crate::environment::Environment;
use crate::session::Authorised;
use crate::store::Store;
use crate::tokens;
use crate::watches::MachineStream;
use api::error::{ApiError, ErrorCode};
use api::{
    ConfirmRecall, Enrol, Existence, GetUnitExistence, Handle, RemoveDeadUnit, ReportMachineDead,
    ReportObstructedRecalls, ReportPresence, ReportUninstalled, ReportUnitHealth, SetUnitToken, Watch,
    WatchMachine,
};
use state::documents::draft::{Draft, Reader, read, read_all};
use state::documents::prelude::{Model, TokenHolder, last_id};
use state::documents::token;
use state::lifecycle::{machine, unit};
use state::operations::{instance, tombstone_retention};
use state::terms::health::bounded_line;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// The most obstructed recalls that are kept of one machine: more than the 24 units of a machine, all of whose folders
/// may be set aside at the same time. Users act on the first ones.
const OBSTRUCTED_RECALLS_MAX: usize = 40;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Returns the calling machine and records its heartbeat.
    fn machine(&self) -> Result<(Model, Uuid), ApiError> {
        let (model, machine) = authorisation::machine(&self.principal)?;
        self.controller.presence.heartbeat(machine, self.controller.environment.monotonic_ms());
        Ok((model, machine))
    }
}

/// Returns whether a unit exists, from the point of view of a machine: units of other machines are unknown (S15).
fn existence(reader: &dyn Reader, model: Model, machine: Uuid, unit: Uuid) -> Existence {
    match read(reader, &model.unit(unit)) {
        Some(doc) if doc.machine == machine => {
            read(reader, &model.unit_life(unit)).map_or(Existence::Unknown, Existence::Known)
        }
        Some(_) => Existence::Unknown,
        None if read(reader, &model.tombstone(unit)).is_some() => Existence::Tombstone,
        None => Existence::Unknown,
    }
}

impl<S: Store, E: Environment> Handle<GetUnitExistence> for Authorised<S, E> {
    async fn handle(&self, GetUnitExistence { unit }: GetUnitExistence) -> Result<Existence, ApiError> {
        let (model, machine) = self.machine()?;
        Ok(self.controller.read(move |reader| existence(reader, model, machine, unit)).await)
    }
}

impl<S: Store, E: Environment> Handle<SetUnitToken> for Authorised<S, E> {
    async fn handle(&self, set: SetUnitToken) -> Result<(), ApiError> {
        let (model, machine) = self.machine()?;
        let SetUnitToken { unit, token } = set;
        let sha256 = tokens::digest_of(&token)?;
        let set = self.controller.run(move |draft| {
            if draft.get(&model.unit(unit)).is_none_or(|doc| doc.machine != machine) {
                return Ok(false);
            }
            token::set(draft, unit, &TokenHolder::Unit { model, unit }, &sha256);
            Ok(true)
        });
        if set.await?.answer { Ok(()) } else { Err(unauthorised()) }
    }
}

impl<S: Store, E: Environment> Handle<RemoveDeadUnit> for Authorised<S, E> {
    async fn handle(&self, RemoveDeadUnit { unit }: RemoveDeadUnit) -> Result<(), ApiError> {
        let (model, machine) = self.machine()?;
        match self.controller.read(move |reader| existence(reader, model, machine, unit)).await {
            Existence::Known(_) => {}
            Existence::Tombstone => return Ok(()),
            Existence::Unknown => return Err(unauthorised()),
        }
        let now_ms = self.controller.environment.wall_ms();
        self.controller.run(move |draft| unit::remove(draft, model, unit, now_ms)).await?;
        self.controller.presence.forget(unit);
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ConfirmRecall> for Authorised<S, E> {
    async fn handle(&self, ConfirmRecall { unit }: ConfirmRecall) -> Result<(), ApiError> {
        let (model, machine) = self.machine()?;
        let transition = move |draft: &mut Draft<'_>| {
            tombstone_retention::confirm_recall(draft, model, machine, unit);
            Ok(())
        };
        self.controller.run(transition).await?;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportPresence> for Authorised<S, E> {
    async fn handle(&self, _: ReportPresence) -> Result<(), ApiError> {
        self.machine().map(|_| ())
    }
}

impl<S: Store, E: Environment> Handle<ReportUnitHealth> for Authorised<S, E> {
    async fn handle(&self, ReportUnitHealth { mut units }: ReportUnitHealth) -> Result<(), ApiError> {
        let (model, machine) = self.machine()?;
        let own = self.controller.read(move |reader| {
            let is_own =
                |unit: &Uuid| read(reader, &model.unit(*unit)).is_some_and(|doc| doc.machine == machine);
            units.retain(|unit, _| is_own(unit));
            units
        });
        let now_ms = self.controller.environment.monotonic_ms();
        for (unit, health) in own.await {
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
        let (model, machine) = self.machine()?;
        let own = self.controller.read(move |reader| {
            recalls.retain(|unit, _| read(reader, &model.recall(machine, *unit)).is_some());
            recalls
        });
        let own = own.await.into_iter().take(OBSTRUCTED_RECALLS_MAX);
        let own = own.map(|(unit, why)| (unit, bounded_line(&why))).collect();
        self.controller.presence.set_obstructed_recalls(machine, own);
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportMachineDead> for Authorised<S, E> {
    async fn handle(&self, _: ReportMachineDead) -> Result<(), ApiError> {
        let (model, machine) = self.machine()?;
        self.controller.run(move |draft| machine::set_dead(draft, model, machine)).await?;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<ReportUninstalled> for Authorised<S, E> {
    async fn handle(&self, _: ReportUninstalled) -> Result<(), ApiError> {
        if let TokenHolder::RemovedMachine { machine, .. } = self.principal {
            let ended = self.controller.run(move |draft| {
                token::end_retired(draft, &[machine]);
                Ok(())
            });
            return ended.await.map(drop);
        }
        let (model, machine) = self.machine()?;
        self.controller.run(move |draft| instance::record_agent_uninstalled(draft, model, machine)).await?;
        self.controller.finish_machine_removal(model, machine).await;
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<Enrol> for Authorised<S, E> {
    async fn handle(&self, enrol: Enrol) -> Result<(), ApiError> {
        let now_ms = self.controller.environment.wall_ms();
        let (model, machine) = authorisation::enrolling(&self.principal, now_ms)?;
        let Enrol { token, address, base } = enrol;
        let sha256 = tokens::digest_of(&token)?;
        if address.parse::<std::net::IpAddr>().is_err() {
            return Err(ApiError::new(
                ErrorCode::Invalid,
                format!("invalid machine address {address:?}: expected an IP address"),
            ));
        }
        let enrolment_sha256 = self.token_sha256.clone().ok_or_else(unauthorised)?;
        let enrol = move |draft: &mut Draft<'_>| {
            instance::enrol(draft, model, machine, &enrolment_sha256, &sha256, &address)?;
            instance::record_base(draft, model, machine, base.clone());
            Ok(())
        };
        self.controller.run(enrol).await?;
        self.controller.presence.heartbeat(machine, self.controller.environment.monotonic_ms());
        Ok(())
    }
}

impl<S: Store, E: Environment> Watch<WatchMachine> for Authorised<S, E> {
    type Stream = MachineStream<S, E>;

    async fn watch(&self, _: WatchMachine) -> Result<MachineStream<S, E>, ApiError> {
        let (model, machine) = self.machine()?;
        let units = self.controller.read(move |reader| read_all::<()>(reader, &model.machine_units(machine)));
        let now_ms = self.controller.environment.monotonic_ms();
        for unit in units.await.iter().filter_map(|(key, ())| last_id(key)) {
            self.controller.presence.set_health(unit, None, now_ms);
        }
        self.controller.presence.set_obstructed_recalls(machine, BTreeMap::new());
        Ok(MachineStream::open(self.controller.clone(), model, machine))
    }
}
