//! Handlers of the provisioner's requests and reports.
//!
//! The provisioner runs outside of the controller. It lists the machines of a model, creates and terminates their
//! instances, and reports the results here (design 8).

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use crate::tokens;
use api::error::ApiError;
use api::{
    DesiredMachine, Existence, GetMachineExistence, Handle, ListMachines, RemoveDeadMachine, ReportInstance,
    ReportMachineAgentExits, SetMachineToken,
};
use state::documents::draft::Draft;
use state::documents::existence;
use state::lifecycle::machine;
use state::terms::health::MachineAgentExits;
use state::terms::names::Uuid;
use state::transitions::instance::{self, RecordedReport};
use state::views::desired_machines::desired_machines;

impl<S: Store, E: Environment> Handle<ListMachines> for Authorised<S, E> {
    async fn handle(&self, _: ListMachines) -> Result<Vec<DesiredMachine>, ApiError> {
        self.read(|reader, model| Ok(desired_machines(reader, model))).await
    }
}

impl<S: Store, E: Environment> Handle<ReportInstance> for Authorised<S, E> {
    async fn handle(&self, report: ReportInstance) -> Result<Uuid, ApiError> {
        let ReportInstance { machine: id, what } = report;
        let model = self.model().await?;
        let now_ms = self.controller.environment.wall_ms();
        loop {
            let what = what.clone();
            let transition = move |draft: &mut Draft<'_>| instance::record(draft, model, id, &what, now_ms);
            if let RecordedReport::Done(answer) = self.controller.run(transition).await?.answer {
                return Ok(answer);
            }
        }
    }
}

impl<S: Store, E: Environment> Handle<GetMachineExistence> for Authorised<S, E> {
    async fn handle(
        &self,
        GetMachineExistence { machine }: GetMachineExistence,
    ) -> Result<Existence, ApiError> {
        self.read(move |mut reader, model| Ok(existence::machine(&mut reader, model, machine))).await
    }
}

impl<S: Store, E: Environment> Handle<ReportMachineAgentExits> for Authorised<S, E> {
    async fn handle(
        &self,
        ReportMachineAgentExits { machine, exits }: ReportMachineAgentExits,
    ) -> Result<(), ApiError> {
        let found = self.read(move |mut reader, model| Ok(existence::machine(&mut reader, model, machine)));
        // of a machine that was removed since, nothing is shown
        if matches!(found.await?, Existence::Known(_)) {
            let now_ms = self.controller.environment.monotonic_ms();
            let exits = exits.map(MachineAgentExits::bounded);
            self.controller.presence.set_machine_agent_exits(machine, exits, now_ms);
        }
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<SetMachineToken> for Authorised<S, E> {
    async fn handle(&self, set: SetMachineToken) -> Result<(), ApiError> {
        let model = self.model().await?;
        let SetMachineToken { machine, token } = set;
        let sha256 = tokens::digest_of(&token)?;
        self.controller.run(move |draft| instance::set_token(draft, model, machine, &sha256)).await?;
        self.controller.presence.expect(machine, self.controller.environment.monotonic_ms());
        Ok(())
    }
}

impl<S: Store, E: Environment> Handle<RemoveDeadMachine> for Authorised<S, E> {
    async fn handle(&self, RemoveDeadMachine { machine }: RemoveDeadMachine) -> Result<(), ApiError> {
        let model = self.model().await?;
        self.controller.run(move |draft| machine::remove(draft, model, machine)).await?;
        self.controller.finish_machine_removal(model, machine).await;
        Ok(())
    }
}
