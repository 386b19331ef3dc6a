//! A machine agent's way to the controller: by what people use too, and a stream that may break or fall silent.

use super::{ANSWER_MS, SimSession, Until, Way, Wire, unreachable};
use crate::sim::mutants::Mutant;
use crate::sim::provider::token;
use api::WATCH_SILENCE_MS;
use api::error::ApiError;
use api::machine_agent::{Fate, MachineApi, MachineShown, MachineWatch};
use state::model::keys::{Model, Principal};
use state::names::Uuid;
use std::future::{Future, pending};

#[derive(Clone)]
pub struct MachineLink {
    wire: Wire,
    principal: Principal,
    machine: Uuid,
    /// Whom the machine is taken for is the controller's to say: a store that was restored may not know it.
    token: String,
}

impl MachineLink {
    pub fn new(wire: Wire, model: Model, machine: Uuid) -> MachineLink {
        let principal = Principal::Machine { model, machine };
        MachineLink { wire, principal, machine, token: token(machine) }
    }

    async fn ask<T, F>(&self, ask: impl Fn(SimSession) -> F) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        let world = &self.wire.world;
        world.pause().await;
        if self.wire.is_cut_off(self.machine, Way::ToController) {
            world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        let authenticated = |anybody: SimSession| {
            let ask = &ask;
            async move { ask(anybody.controller.session(&self.token).await?).await }
        };
        let answer = self.wire.ask(authenticated, self.principal.clone()).await;
        world.pause().await;
        if self.wire.is_cut_off(self.machine, Way::FromController) {
            world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        answer.unwrap_or_else(|| Err(unreachable("no answer")))
    }
}

impl MachineApi for MachineLink {
    type Watch = SimMachineWatch;

    async fn watch_machine(&self) -> Result<SimMachineWatch, ApiError> {
        let wire = &self.wire;
        wire.world.pause().await;
        if Way::ALL.iter().any(|way| wire.is_cut_off(self.machine, *way)) {
            wire.world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        let until = Until::drawn(wire, wire.generation());
        let anybody = wire.session(self.principal.clone());
        let inner = anybody.controller.session(&self.token).await?.watch_machine().await?;
        Ok(SimMachineWatch { link: self.clone(), inner, until, arrived: None })
    }

    async fn fate(&self, unit: Uuid) -> Result<Fate, ApiError> {
        self.ask(|session| async move { session.fate(unit).await }).await
    }

    async fn set_token(&self, unit: Uuid, token: &str) -> Result<(), ApiError> {
        if self.wire.world.mix().has(Mutant::TokenIsSetOnOneSide) {
            return Ok(());
        }
        self.ask(|session| async move { session.set_token(unit, token).await }).await
    }

    async fn remove_unit(&self, unit: Uuid) -> Result<(), ApiError> {
        self.ask(|session| async move { MachineApi::remove_unit(&session, unit).await }).await
    }

    /// In those runs in which somebody asks who is here.
    async fn here(&self) -> Result<(), ApiError> {
        if self.wire.world.mix().stuck == 0 {
            return pending().await;
        }
        self.ask(|session| async move { session.here().await }).await
    }

    async fn enrol(&self, _: &str, _: &str) -> Result<(), ApiError> {
        unreachable!("no person brings a machine here")
    }

    async fn machine_gone(&self) -> Result<(), ApiError> {
        self.ask(|session| async move { session.machine_gone().await }).await
    }

    async fn machine_dead(&self) -> Result<(), ApiError> {
        self.ask(|session| async move { session.machine_dead().await }).await
    }
}

pub struct SimMachineWatch {
    link: MachineLink,
    inner: <SimSession as MachineApi>::Watch,
    until: Until,
    /// On its way: who waits for it may look at something else first.
    arrived: Option<MachineShown>,
}

impl MachineWatch for SimMachineWatch {
    async fn next(&mut self) -> Result<MachineShown, ApiError> {
        let (wire, world) = (&self.link.wire, &self.link.wire.world);
        if self.arrived.is_none() {
            self.arrived = Some(self.until.unless(wire, self.inner.next()).await??);
        }
        world.pause().await;
        if wire.is_cut_off(self.link.machine, Way::FromController) {
            world.sleep(WATCH_SILENCE_MS).await;
            return Err(unreachable("silence"));
        }
        Ok(self.arrived.take().expect("it has arrived"))
    }
}
