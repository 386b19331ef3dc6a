//! Handlers of the provisioner's requests and reports.
//!
//! The provisioner runs outside of the controller. It lists the machines of a model, creates and terminates their
//! instances, and reports the results here (design 8).

use crate::environment::Environment;
use crate::session::Authorised;
use crate::store::Store;
use crate::tokens;
use api::error::ApiError;
use api::{
    Existence, GetMachineExistence, Handle, ListMachines, MachineInfo, RemoveDeadMachine, ReportInstance,
    SetMachineToken,
};
use state::documents::draft::{Draft, read, read_all};
use state::documents::existence;
use state::documents::prelude::{Kind, MachineDoc, last_id};
use state::lifecycle::machine;
use state::operations::instance::{self, Progress};
use state::terms::life::Life;
use state::terms::names::Uuid;

impl<S: Store, E: Environment> Handle<ListMachines> for Authorised<S, E> {
    async fn handle(&self, _: ListMachines) -> Result<Vec<MachineInfo>, ApiError> {
        let machines = self.view(|reader, model| {
            let all = read_all(reader, &model.prefix(Kind::Machine));
            let machine = |(key, doc): (String, MachineDoc)| {
                let uuid = last_id(&key)?;
                let life = read(reader, &model.machine_life(uuid))?;
                let instance = read(reader, &model.machine_instance(uuid));
                Some(MachineInfo {
                    uuid,
                    name: doc.name,
                    address: doc.address,
                    life,
                    manual: doc.manual,
                    keep_instance: doc.keep_instance,
                    agent_uninstalled: doc.agent_uninstalled,
                    has_units: !reader.scan(&model.machine_units(uuid), "", 1).is_empty(),
                    has_attached_unit: life == Life::Dying && machine::needs_unit_agent(reader, model, uuid),
                    nonce: instance.as_ref().map(|instance| instance.nonce),
                    base: instance.as_ref().and_then(|instance| instance.base.clone()),
                    instance_id: instance.and_then(|instance| instance.id),
                    requested_base: doc.requested_base,
                    retry_ms: read(reader, &model.machine_provisioning_error(uuid))
                        .map(|error| error.retry_ms),
                })
            };
            Ok(all.into_iter().filter_map(machine).collect())
        });
        machines.await
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
            if let Progress::Done(answer) = self.controller.run(transition).await?.answer {
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
        self.view(move |mut reader, model| Ok(existence::machine(&mut reader, model, machine))).await
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
