//! What a person can do about a cause: one match over all duties, so that a new duty cannot lack its remedy.
//!
//! A remedy is a fact like the cause it belongs to; `api::text` prints it as a command or a sentence.

use crate::terms::cause::{Actor, Cause, Duty, Entity, Forced, Host, Silence};
use crate::terms::names::UnitName;

/// The command or the change that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: it happens by itself.
    Automatic,
    /// Nothing while `pintle up` runs; or remove the machine by force.
    AutomaticOrForce {
        machine: String,
    },
    StartController,
    RestoreLink,
    /// Start `pintle up`.
    StartSupervisor,
    /// Start the unit anew from its installation.
    StartFresh,
    /// Look whether the controller was restored from a backup.
    CheckStoreGeneration,
    /// See that the machine agent runs; none = that of the unit's own machine.
    CheckMachineAgent {
        machine: Option<String>,
    },
    /// Ask what this waits for.
    Explain(Entity),
    /// Refresh the application to another charm.
    Refresh {
        application: String,
    },
    /// Remove any other unit from the machine.
    RemoveAnyUnit {
        machine: String,
    },
    /// Repeat or skip the failed operation.
    ResolvedRequest {
        unit: UnitName,
    },
    /// Skip the failed operation, or refresh in spite of it.
    ResolveOrForceRefresh {
        unit: UnitName,
    },
    Integrate {
        application: String,
    },
    AddUnit {
        application: String,
    },
    ResumeRelation {
        relation: u32,
    },
    /// Read the log of an agent that does not attach.
    ReadAgentLog {
        unit: UnitName,
        machine: Option<String>,
    },
    /// Install `pintle-hook` beside `pintle-agent`.
    InstallHookTools,
    /// End the process of a unit agent that hangs; or remove the unit by force.
    RestartUnitAgent {
        unit: UnitName,
        machine: String,
        removable: bool,
    },
    /// The agent starts it as soon as it responds.
    AfterResponse,
    /// The agent starts it now.
    Imminent,
    /// Look at the process of a hook and its output.
    InspectHook {
        unit: UnitName,
        run: u64,
        machine: String,
    },
    /// Wait for the holder of the hook lock, or run hooks in parallel.
    RunHooksInParallel {
        holder: UnitName,
    },
    /// Remove it.
    Remove(Entity),
    /// Remove the machine by force.
    ForceRemoveMachine {
        machine: String,
    },
    /// It happens by itself; if the host of the machine is gone, force removes it within a minute.
    AutomaticUnlessGone {
        machine: String,
        forced: bool,
    },
    /// Destroy the model by force.
    DestroyByForce {
        model: String,
        forced: Forced,
    },
    /// The wait before force ends at this time; remove it with `--no-wait` to end it now.
    ForceAtOnce {
        wait_left_ms: Option<i64>,
    },
    /// Call the provider again now; by itself it is called at the given time.
    RetryProvisioning {
        machine: String,
        retry_ms: Option<i64>,
    },
    /// Run the enrolment command on the machine before the token expires, or create a new one.
    Enrol {
        machine: String,
        expires_ms: Option<i64>,
    },
    /// Start the machine agent again.
    RestartMachineAgent {
        machine: String,
        host: Host,
    },
}

impl Cause {
    /// What a person can do about it.
    pub fn remedy(&self) -> Remedy {
        match &self.duty {
            Duty::CompareState | Duty::SendView => Remedy::StartController,
            Duty::RestoreState => Remedy::StartFresh,
            Duty::AgreeOnStoreGeneration => Remedy::CheckStoreGeneration,
            Duty::AnswerRecord { .. }
            | Duty::FetchSettings { .. }
            | Duty::AnswerLeadershipClaim
            | Duty::Reconnect => Remedy::RestoreLink,

            Duty::ProvideEndpoint { application, .. } => Remedy::Refresh { application: application.clone() },
            Duty::RemoveSubordinate { unit, .. } => Remedy::Explain(Entity::Unit(unit.clone())),
            Duty::FreeUnitSlot { machine, .. } => Remedy::RemoveAnyUnit { machine: machine.clone() },
            Duty::Recover { .. } => self.of_unit(|unit| Remedy::ResolvedRequest { unit }),
            Duty::EndFailure { .. } => self.of_unit(|unit| Remedy::ResolveOrForceRefresh { unit }),
            Duty::Integrate => Remedy::Integrate { application: self.name() },
            Duty::AddPrincipalUnit { principal } => Remedy::AddUnit { application: principal.clone() },
            Duty::EnterScope { .. } => Remedy::Explain(self.entity.clone()),
            Duty::ResumeRequest { .. } => match &self.entity {
                Entity::Relation(name) => Remedy::ResumeRelation { relation: name.number },
                other => Remedy::Explain(other.clone()),
            },

            Duty::StartUnitAgent { machine: Some(machine) } => {
                Remedy::Explain(Entity::Machine(machine.clone()))
            }
            Duty::StartUnitAgent { machine: None } => {
                self.of_unit(|unit| Remedy::ReadAgentLog { unit, machine: None })
            }
            Duty::InstallHookTools => Remedy::InstallHookTools,
            Duty::Attach { machine } => {
                self.of_unit(|unit| Remedy::ReadAgentLog { unit, machine: Some(machine.clone()) })
            }
            Duty::Respond { machine, subordinate, .. } => self.of_unit(|unit| Remedy::RestartUnitAgent {
                unit,
                machine: machine.clone(),
                removable: !subordinate,
            }),
            Duty::Start { silent: true, .. } => Remedy::AfterResponse,
            Duty::Start { silent: false, .. } => Remedy::Imminent,
            Duty::Finish { run, machine, .. } => {
                self.of_unit(|unit| Remedy::InspectHook { unit, run: *run, machine: machine.clone() })
            }
            Duty::ReleaseHookLock { holder, .. } => Remedy::RunHooksInParallel { holder: holder.clone() },
            Duty::Reboot => Remedy::CheckMachineAgent { machine: self.machine_of_actor() },

            Duty::Remove | Duty::FreeCapacity { .. } => Remedy::Remove(self.entity.clone()),
            Duty::LeaveScopes { .. } | Duty::Terminate { .. } => match &self.last_error {
                Some(_) => self.of_unit(|unit| Remedy::ResolvedRequest { unit }),
                None => Remedy::Explain(self.entity.clone()),
            },
            Duty::Recall | Duty::RemoveUnstarted => {
                Remedy::CheckMachineAgent { machine: self.machine_of_actor() }
            }
            Duty::DeleteRelation => Remedy::Automatic,
            Duty::EmptyModel { force, .. } => Remedy::DestroyByForce { model: self.name(), forced: *force },
            Duty::ForceRemoval { wait_left_ms, .. } => Remedy::ForceAtOnce { wait_left_ms: *wait_left_ms },

            Duty::ReportDead => {
                self.of_provisioning(Remedy::CheckMachineAgent { machine: Some(self.name()) })
            }
            Duty::ReportUnstartedDead | Duty::ReleaseInstance => self.of_provisioning(Remedy::Automatic),
            Duty::Uninstall { forced } => {
                self.of_provisioning(Remedy::AutomaticUnlessGone { machine: self.name(), forced: *forced })
            }
            Duty::StartInstance { retry_ms } | Duty::TendInstance { retry_ms } => {
                Remedy::RetryProvisioning { machine: self.name(), retry_ms: Some(*retry_ms) }
            }
            Duty::CreateInstance => Remedy::AutomaticOrForce { machine: self.name() },
            Duty::RemoveUnits => Remedy::ForceRemoveMachine { machine: self.name() },
            Duty::Enrol { expires_ms } => Remedy::Enrol { machine: self.name(), expires_ms: *expires_ms },
            Duty::RunMachineAgent { agent: Silence::NotStarted, .. } => Remedy::StartSupervisor,
            Duty::RunMachineAgent { host, .. } => {
                Remedy::RestartMachineAgent { machine: self.name(), host: *host }
            }
        }
    }

    /// Once the provider has failed, it is called again before anything else.
    fn of_provisioning(&self, otherwise: Remedy) -> Remedy {
        match &self.last_error {
            Some(_) => Remedy::RetryProvisioning { machine: self.name(), retry_ms: None },
            None => otherwise,
        }
    }

    /// The remedy for a unit; only units have such a duty.
    fn of_unit(&self, remedy: impl FnOnce(UnitName) -> Remedy) -> Remedy {
        match &self.entity {
            Entity::Unit(name) => remedy(name.clone()),
            other => Remedy::Explain(other.clone()),
        }
    }

    /// The name of the entity without its kind.
    fn name(&self) -> String {
        match &self.entity {
            Entity::Unit(name) => name.to_string(),
            Entity::Relation(name) => name.ends.clone(),
            Entity::Application(name) | Entity::Machine(name) | Entity::Model(name) => name.clone(),
        }
    }

    fn machine_of_actor(&self) -> Option<String> {
        match &self.actor {
            Actor::MachineAgent(machine) => Some(machine.clone()),
            _ => None,
        }
    }
}
