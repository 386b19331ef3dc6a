//! Explains a machine: its blockers, its provider, and the actor that must start its agent.

use super::Explainer;
use crate::hook_lock;
use crate::status::{self, MachineAgent};
use api::{EntityState, HookLock, Why};
use state::documents::blockers::EntityId;
use state::documents::draft::{read, read_all};
use state::documents::refusal::Refusal;
use state::documents::waiting;
use state::lifecycle::machine;
use state::terms::cause::{Actor, Cause, Duty, Entity, Silence};
use state::terms::life::Life;
use state::terms::names::Uuid;

impl Explainer<'_> {
    pub(super) fn machine(&self, name: &str) -> Result<Why, Refusal> {
        let id = machine::find(&mut { self.reader }, self.model, name)?;
        let life = read(self.reader, &self.model.machine_life(id)).unwrap_or(Life::Dead);
        let mut causes = self.blockers(EntityId::Machine(id));
        causes.extend(self.machine_agent(id));
        if causes.iter().all(|cause| cause.last_error.is_none()) {
            causes.extend(waiting::provisioning(self.reader, self.model, id, name, false));
        }
        if life == Life::Dying {
            let missing_instance = waiting::missing_instance(self.reader, self.model, id);
            causes.extend(missing_instance.map(|cause| self.pending_since().with_since(cause)));
        }
        // Only the provider removes a Dead machine, unless its instance is kept (cargo sim 58).
        let is_instance_kept =
            || read(self.reader, &self.model.machine(id)).is_some_and(|doc| doc.manual || doc.keep_instance);
        let entity = Entity::Machine(name.to_owned());
        let forced = self.forced(id, entity.clone());
        causes.extend(forced.filter(|_| life != Life::Dead || is_instance_kept()));
        Ok(Why { entity, life, now: self.machine_now(id), causes, more: false })
    }

    fn machine_now(&self, id: Uuid) -> EntityState {
        let units = read_all::<()>(self.reader, &self.model.machine_units(id)).len();
        let held = hook_lock::holder(self.reader, self.model, self.presence, id);
        let hook_lock = held.map(|(holder, executing)| HookLock {
            holder,
            running: executing.activity.clone(),
            waiters: hook_lock::waiters(self.reader, self.model, self.presence, id),
        });
        EntityState::Machine { units, hook_lock }
    }

    /// Returns the cause for a machine whose agent was present and is silent now.
    pub(super) fn silent_machine_agent(&self, id: Uuid) -> Option<Cause> {
        let agent = status::machine_agent(self.reader, self.model, self.presence, id);
        let is_silent = matches!(agent, MachineAgent::Late | MachineAgent::Lost);
        self.machine_agent(id).filter(|_| is_silent)
    }

    /// Returns the cause for a machine whose agent does not report; none if the machine is Dead.
    pub(super) fn machine_agent(&self, id: Uuid) -> Option<Cause> {
        let doc = read(self.reader, &self.model.machine(id))?;
        let life = read(self.reader, &self.model.machine_life(id)).filter(|life| *life != Life::Dead)?;
        let silent = |agent| {
            let (actor, host) = waiting::host(self.reader, self.model, id, &doc);
            let duty = Duty::RunMachineAgent { agent, host };
            let cause = Cause::new(Entity::Machine(doc.name.clone()), duty, actor);
            Some(cause.since(self.presence.last_heartbeat_ms(id)))
        };
        match status::machine_agent(self.reader, self.model, self.presence, id) {
            MachineAgent::Present if self.presence.has_reported(id) => None,
            MachineAgent::Present => silent(Silence::NotReported),
            MachineAgent::Late => silent(Silence::Late),
            MachineAgent::Lost => silent(Silence::Lost),
            MachineAgent::Failed => {
                let is_alive = life == Life::Alive;
                waiting::provisioning(self.reader, self.model, id, &doc.name, is_alive)
            }
            // the agent of a machine that is being removed is no longer started
            MachineAgent::Pending if life != Life::Alive => None,
            MachineAgent::Pending if doc.manual => waiting::enrolment(self.reader, self.model, id),
            MachineAgent::Pending => {
                let (_, host) = waiting::host(self.reader, self.model, id, &doc);
                let duty = Duty::RunMachineAgent { agent: Silence::NotStarted, host };
                let cause = Cause::new(Entity::Machine(doc.name.clone()), duty, Actor::Supervisor);
                Some(cause.since(doc.created_ms))
            }
        }
    }
}
