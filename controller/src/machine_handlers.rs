//! What a machine agent may ask. The machine is the session's; a unit it names must be on that machine.

use crate::authority::{self, unauthorised};
use crate::outside::Outside;
use crate::session::Session;
use crate::store::Store;
use crate::tokens;
use crate::watches::MachineWatch;
use api::error::{ApiError, ErrorCode};
use api::machine_agent::{Fate, MachineApi};
use api::routes::Route;
use state::model::draft::{Draft, Reader, read};
use state::model::keys::{Model, Principal};
use state::model::{instance, machine, unit};
use state::names::Uuid;

impl<S: Store, O: Outside> Session<S, O> {
    fn machine(&self, route: Route) -> Result<(Model, Uuid), ApiError> {
        let (model, machine) = authority::machine(&self.principal, route)?;
        self.controller.presence.saw(machine, self.controller.outside.monotonic_ms());
        Ok((model, machine))
    }
}

/// What is known of a unit, as far as its machine is asked: of another machine's units nothing is (S15).
fn fate(reader: &dyn Reader, model: Model, machine: Uuid, unit: Uuid) -> Fate {
    match read(reader, &model.unit(unit)) {
        Some(doc) if doc.machine == machine => {
            Fate::Known(read(reader, &model.unit_life(unit)).expect("every unit has a life"))
        }
        Some(_) => Fate::Unknown,
        None if read(reader, &model.tombstone(unit)).is_some() => Fate::Tombstone,
        None => Fate::Unknown,
    }
}

impl<S: Store, O: Outside> MachineApi for Session<S, O> {
    type Watch = MachineWatch<S, O>;

    async fn watch_machine(&self) -> Result<MachineWatch<S, O>, ApiError> {
        let (model, machine) = self.machine(Route::WatchMachine)?;
        Ok(MachineWatch::open(self.controller.clone(), model, machine))
    }

    async fn fate(&self, unit: Uuid) -> Result<Fate, ApiError> {
        let (model, machine) = self.machine(Route::Fate)?;
        Ok(self.controller.read(move |reader| fate(reader, model, machine, unit)).await)
    }

    async fn set_token(&self, unit: Uuid, token: &str) -> Result<(), ApiError> {
        let (model, machine) = self.machine(Route::UnitToken)?;
        if !tokens::is_token(token) {
            return Err(ApiError::new(ErrorCode::Invalid, "a token is 64 digits of lower case hex"));
        }
        let token = token.to_owned();
        let set = self.controller.run(move |draft| {
            if draft.get(&model.unit(unit)).is_none_or(|doc| doc.machine != machine) {
                return Ok(false);
            }
            tokens::set(draft, unit, &Principal::Unit { model, unit }, &token);
            Ok(true)
        });
        if set.await?.answer { Ok(()) } else { Err(unauthorised()) }
    }

    async fn remove_unit(&self, unit: Uuid) -> Result<(), ApiError> {
        let (model, machine) = self.machine(Route::RemoveDeadUnit)?;
        match self.controller.read(move |reader| fate(reader, model, machine, unit)).await {
            Fate::Known(_) => {}
            Fate::Tombstone => return Ok(()),
            Fate::Unknown => return Err(unauthorised()),
        }
        self.controller.run(move |draft| unit::remove(draft, model, unit)).await?;
        self.controller.presence.forget(unit);
        Ok(())
    }

    async fn here(&self) -> Result<(), ApiError> {
        self.machine(Route::Here).map(|_| ())
    }

    async fn enrol(&self, token: &str, address: &str) -> Result<(), ApiError> {
        let now_ms = self.controller.outside.wall_ms();
        let (model, machine) = authority::invited(&self.principal, Route::Enrol, now_ms)?;
        if !tokens::is_token(token) {
            return Err(ApiError::new(ErrorCode::Invalid, "a token is 64 digits of lower case hex"));
        }
        if address.parse::<std::net::IpAddr>().is_err() {
            return Err(ApiError::new(ErrorCode::Invalid, "a machine's address is an IP address"));
        }
        let (sha256, address) = (host::digest::sha256(token.as_bytes()), address.to_owned());
        let invitation = self.carried.clone().ok_or_else(unauthorised)?;
        let enrol = move |draft: &mut Draft<'_>| {
            instance::enrol(draft, model, machine, &invitation, (&sha256, &address))
        };
        self.controller.run(enrol).await?;
        self.controller.presence.saw(machine, self.controller.outside.monotonic_ms());
        Ok(())
    }

    async fn machine_gone(&self) -> Result<(), ApiError> {
        let (model, machine) = self.machine(Route::MachineGone)?;
        self.controller.run(move |draft| instance::gone(draft, model, machine)).await?;
        self.controller.machine_left(model, machine).await;
        Ok(())
    }

    async fn machine_dead(&self) -> Result<(), ApiError> {
        let (model, machine) = self.machine(Route::MachineDead)?;
        self.controller.run(move |draft| machine::set_dead(draft, model, machine)).await?;
        Ok(())
    }
}
