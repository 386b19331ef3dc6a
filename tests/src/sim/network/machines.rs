//! The link of a machine agent to the simulated controller: requests, and a watch that may break or whose events may be
//! lost.

use super::{Direction, SimCaller, SimNetwork, StreamBreak, no_response, unreachable_error};
use crate::sim::identities::token;
use crate::sim::mutants::Mutant;
use api::error::ApiError;
use api::{
    ConfirmRecall, Enrol, GetUnitExistence, Handle, MachineWatchEvent, PresenceResponse, RemoveDeadUnit,
    ReportDiskUsage, ReportMachineDead, ReportObstructedRecalls, ReportPresence, ReportStorage,
    ReportUninstalled, ReportUnitHealth, Request, SetUnitToken, Stream, Watch, WatchMachine,
};
use state::documents::prelude::{Model, TokenHolder};
use state::terms::names::Uuid;
use std::future::pending;

/// The link of one machine agent to the controller.
#[derive(Clone)]
pub struct MachineLink {
    network: SimNetwork,
    principal: TokenHolder,
    machine: Uuid,
    /// The token of the machine. The controller authenticates it, because a restored store may not contain the
    /// machine.
    token: String,
}

impl MachineLink {
    pub fn new(network: SimNetwork, model: Model, machine: Uuid) -> MachineLink {
        let principal = TokenHolder::Machine { model, machine };
        MachineLink { network, principal, machine, token: token(machine) }
    }

    /// Sends a request. A failure is a line of the trace.
    async fn request<R: Request + Clone>(&self, request: R) -> Result<R::Response, ApiError>
    where
        SimCaller: Handle<R>,
    {
        self.send(request).await.inspect_err(|error| self.trace_error::<R>(error))
    }

    fn trace_error<R>(&self, error: &ApiError) {
        let name = std::any::type_name::<R>().rsplit("::").next().unwrap_or_default();
        self.network.world.trace(|| format!("machine {}: {name}: {error}", self.machine));
    }

    async fn send<R: Request + Clone>(&self, request: R) -> Result<R::Response, ApiError>
    where
        SimCaller: Handle<R>,
    {
        let world = &self.network.world;
        world.pause().await;
        if self.network.is_cut_off(self.machine, Direction::ToController) {
            return Err(no_response(world).await);
        }
        let authenticated = |caller: SimCaller| {
            let request = request.clone();
            async move { caller.controller.authenticate(&self.token).await?.handle(request).await }
        };
        let response = self.network.request(authenticated, self.principal.clone()).await;
        world.pause().await;
        if self.network.is_cut_off(self.machine, Direction::FromController) {
            return Err(no_response(world).await);
        }
        response.unwrap_or_else(|| Err(unreachable_error("no response")))
    }
}

impl Watch<WatchMachine> for MachineLink {
    type Stream = SimMachineStream;

    async fn watch(&self, watch: WatchMachine) -> Result<SimMachineStream, ApiError> {
        let network = &self.network;
        network.world.pause().await;
        if Direction::ALL.iter().any(|direction| network.is_cut_off(self.machine, *direction)) {
            return Err(no_response(&network.world).await);
        }
        let until = StreamBreak::random(network, network.controller_restarts());
        let caller = network.caller(self.principal.clone());
        let opened = async { caller.controller.authenticate(&self.token).await?.watch(watch).await };
        let inner = opened.await.inspect_err(|error| self.trace_error::<WatchMachine>(error))?;
        network.world.trace(|| format!("machine {}: watches its view", self.machine));
        Ok(SimMachineStream { link: self.clone(), inner, until, arrived: None })
    }
}

/// Requests that are forwarded without changes.
macro_rules! forward {
    ($($request:ident)*) => {$(
        impl Handle<$request> for MachineLink {
            async fn handle(&self, request: $request) -> Result<<$request as Request>::Response, ApiError> {
                self.request(request).await
            }
        }
    )*};
}

forward! { GetUnitExistence RemoveDeadUnit ConfirmRecall ReportUninstalled ReportMachineDead ReportUnitHealth ReportDiskUsage ReportObstructedRecalls ReportStorage }

impl Handle<SetUnitToken> for MachineLink {
    async fn handle(&self, set: SetUnitToken) -> Result<(), ApiError> {
        if self.network.world.profile().has(Mutant::TokenIsNotSentToController) {
            return Ok(());
        }
        self.request(set).await
    }
}

impl Handle<ReportPresence> for MachineLink {
    /// Reports presence only in schedules in which operators request `why`.
    async fn handle(&self, report: ReportPresence) -> Result<PresenceResponse, ApiError> {
        if self.network.world.profile().obstructed == 0 {
            return pending().await;
        }
        self.request(report).await
    }
}

impl Handle<Enrol> for MachineLink {
    async fn handle(&self, _: Enrol) -> Result<(), ApiError> {
        unreachable!("no machine is provisioned manually here")
    }
}

/// The events of one watch, until it breaks.
pub struct SimMachineStream {
    link: MachineLink,
    inner: <SimCaller as Watch<WatchMachine>>::Stream,
    until: StreamBreak,
    /// An event that has arrived and is not returned yet: the caller may drop the future of `next` in between.
    arrived: Option<MachineWatchEvent>,
}

impl Stream for SimMachineStream {
    type Item = MachineWatchEvent;

    async fn next(&mut self) -> Result<MachineWatchEvent, ApiError> {
        let (network, world) = (&self.link.network, &self.link.network.world);
        if self.arrived.is_none() {
            self.arrived = Some(self.until.or_break(network, self.inner.next()).await??);
        }
        world.pause().await;
        if network.is_cut_off(self.link.machine, Direction::FromController) {
            return pending().await;
        }
        Ok(self.arrived.take().expect("an event was stored above"))
    }
}
