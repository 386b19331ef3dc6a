//! A machine agent's way to the controller: by what people use too, and a stream that may break or fall silent.

use super::{ANSWER_MS, SimSession, StreamBreak, Way, Wire, unreachable};
use crate::sim::mutants::Mutant;
use crate::sim::provider::token;
use api::WATCH_SILENCE_MS;
use api::error::ApiError;
use api::{
    Enrol, Handle, MachineWatchEvent, RemoveDeadUnit, ReportMachineDead, ReportPresence, ReportUninstalled,
    Request, SetUnitToken, Stream, UnitFate, Watch, WatchMachine,
};
use state::documents::keys::{Model, TokenHolder};
use state::terms::names::Uuid;
use std::future::pending;

#[derive(Clone)]
pub struct MachineLink {
    wire: Wire,
    principal: TokenHolder,
    machine: Uuid,
    /// Whom the machine is taken for is the controller's to say: a store that was restored may not know it.
    token: String,
}

impl MachineLink {
    pub fn new(wire: Wire, model: Model, machine: Uuid) -> MachineLink {
        let principal = TokenHolder::Machine { model, machine };
        MachineLink { wire, principal, machine, token: token(machine) }
    }

    async fn ask<R: Request + Clone>(&self, request: R) -> Result<R::Answer, ApiError>
    where
        SimSession: Handle<R>,
    {
        let world = &self.wire.world;
        world.pause().await;
        if self.wire.is_cut_off(self.machine, Way::ToController) {
            world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        let authenticated = |anybody: SimSession| {
            let request = request.clone();
            async move { anybody.controller.session(&self.token).await?.handle(request).await }
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

impl Watch<WatchMachine> for MachineLink {
    type Stream = SimMachineStream;

    async fn watch(&self, watch: WatchMachine) -> Result<SimMachineStream, ApiError> {
        let wire = &self.wire;
        wire.world.pause().await;
        if Way::ALL.iter().any(|way| wire.is_cut_off(self.machine, *way)) {
            wire.world.sleep(ANSWER_MS).await;
            return Err(unreachable("no answer"));
        }
        let until = StreamBreak::drawn(wire, wire.generation());
        let anybody = wire.session(self.principal.clone());
        let inner = anybody.controller.session(&self.token).await?.watch(watch).await?;
        Ok(SimMachineStream { link: self.clone(), inner, until, arrived: None })
    }
}

/// Requests that are only carried.
macro_rules! carried {
    ($($request:ident)*) => {$(
        impl Handle<$request> for MachineLink {
            async fn handle(&self, request: $request) -> Result<<$request as Request>::Answer, ApiError> {
                self.ask(request).await
            }
        }
    )*};
}

carried! { UnitFate RemoveDeadUnit ReportUninstalled ReportMachineDead }

impl Handle<SetUnitToken> for MachineLink {
    async fn handle(&self, set: SetUnitToken) -> Result<(), ApiError> {
        if self.wire.world.mix().has(Mutant::TokenIsNotSentToController) {
            return Ok(());
        }
        self.ask(set).await
    }
}

impl Handle<ReportPresence> for MachineLink {
    /// In those runs in which somebody asks who is here.
    async fn handle(&self, report: ReportPresence) -> Result<(), ApiError> {
        if self.wire.world.mix().stuck == 0 {
            return pending().await;
        }
        self.ask(report).await
    }
}

impl Handle<Enrol> for MachineLink {
    async fn handle(&self, _: Enrol) -> Result<(), ApiError> {
        unreachable!("no machine is provisioned manually here")
    }
}

pub struct SimMachineStream {
    link: MachineLink,
    inner: <SimSession as Watch<WatchMachine>>::Stream,
    until: StreamBreak,
    /// On its way: who waits for it may look at something else first.
    arrived: Option<MachineWatchEvent>,
}

impl Stream for SimMachineStream {
    type Item = MachineWatchEvent;

    async fn next(&mut self) -> Result<MachineWatchEvent, ApiError> {
        let (wire, world) = (&self.link.wire, &self.link.wire.world);
        if self.arrived.is_none() {
            self.arrived = Some(self.until.or_break(wire, self.inner.next()).await??);
        }
        world.pause().await;
        if wire.is_cut_off(self.link.machine, Way::FromController) {
            world.sleep(WATCH_SILENCE_MS).await;
            return Err(unreachable("silence"));
        }
        Ok(self.arrived.take().expect("it has arrived"))
    }
}
