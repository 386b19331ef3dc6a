//! Remedies: what a person can do about a cause.
//!
//! One match covers all duties, so that a new duty cannot lack a remedy. A remedy is data like the cause it
//! belongs to; `api::text` prints it as a command or a sentence.

use crate::terms::cause::{Actor, Cause, Duty, Entity, Host, Silence};
use crate::terms::force::{Force, ForcePhase};
use crate::terms::health::Fault;
use crate::terms::names::UnitName;
use crate::terms::storage::StorageId;
use crate::terms::write_failure::WriteFailure;

/// The command or the change that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: the duty is done without a person.
    Automatic,
    /// Nothing while `pintle up` runs. Otherwise remove the machine by force.
    AutomaticOrForce {
        /// The machine.
        machine: String,
    },
    /// Start the controller.
    StartController,
    /// Restore the connection between the unit agent and the controller.
    RestoreLink,
    /// Start `pintle up`.
    StartSupervisor,
    /// Start the unit again from its installation.
    StartFresh,
    /// Check whether the controller was restored from a backup.
    CheckStoreGeneration,
    /// Let the store write again.
    MakeStoreWritable(WriteFailure),
    /// Raise the limit of open files of the controller, on which that of its connections depends.
    RaiseConnectionLimit,
    /// List what is damaged in the store, and restore it from a backup.
    RestoreStore,
    /// Put the file with the keys of secrets back, and start the controller again.
    RestoreSecretKeys {
        /// The file.
        file: String,
    },
    /// Upload the file again, or put it back.
    UploadFile {
        /// The application whose charm or resource it is.
        application: String,
        /// The digest of the file.
        sha256: String,
    },
    /// Check that the machine agent runs.
    CheckMachineAgent {
        /// The machine; none for the unit's own machine.
        machine: Option<String>,
    },
    /// Run `pintle why` for this entity.
    Explain(Entity),
    /// Refresh the application to another charm.
    Refresh {
        /// The application.
        application: String,
    },
    /// Remove any other unit from the machine.
    RemoveAnyUnit {
        /// The full machine.
        machine: String,
    },
    /// Repeat or skip the failed operation.
    ResolveUnit {
        /// The failed unit.
        unit: UnitName,
    },
    /// Skip the failed operation, or refresh in spite of it.
    ResolveOrForceRefresh {
        /// The failed unit.
        unit: UnitName,
    },
    /// Integrate the application with one that has units.
    Integrate {
        /// The subordinate application.
        application: String,
    },
    /// Add a unit to the application.
    AddUnit {
        /// The principal application.
        application: String,
    },
    /// Resume the suspended relation.
    ResumeRelation {
        /// The number of the relation.
        relation: u32,
    },
    /// Read the log of an agent that does not attach.
    ReadAgentLog {
        /// The unit.
        unit: UnitName,
        /// The unit's machine, if its name is known.
        machine: Option<String>,
    },
    /// Install `pintle-hook` beside `pintle-agent`.
    InstallHookTools,
    /// Kill the process of a unit agent that does not respond; or remove the unit by force.
    KillUnitAgent {
        /// The unit.
        unit: UnitName,
        /// The unit's machine.
        machine: String,
        /// Whether a person can remove the unit; a subordinate is removed with its principal only.
        removable: bool,
    },
    /// Remove what prevents a unit agent from continuing.
    ClearFault {
        /// What prevents it.
        fault: Fault,
        /// The unit.
        unit: UnitName,
        /// The unit's machine, if its name is known.
        machine: Option<String>,
    },
    /// Read the damaged files that were set aside, and delete them.
    DeleteSetAside {
        /// The unit.
        unit: UnitName,
        /// The unit's machine, if its name is known.
        machine: Option<String>,
    },
    /// Mend what the error names: the machine agent tries again. If that cannot be mended, remove the unit.
    MendStorage {
        /// The unit that waits.
        unit: UnitName,
    },
    /// Find out what delays the reboot of the machine, or reboot it by hand.
    RebootMachine {
        /// The machine, if its name is known.
        machine: Option<String>,
    },
    /// Nothing: the agent starts the activity as soon as it responds.
    AfterResponse,
    /// Nothing: the agent starts the activity now.
    Imminent,
    /// Inspect the process of a hook and its output.
    InspectHook {
        /// The unit.
        unit: UnitName,
        /// The number of the run.
        run: u64,
        /// The unit's machine.
        machine: String,
    },
    /// Exit the shell of a debug session, or end the session from elsewhere.
    ExitDebugSession {
        /// The unit.
        unit: UnitName,
    },
    /// End this process on the machine.
    EndProcess {
        /// Its process id.
        pid: u32,
    },
    /// Remove these instances of storage, or attach them to a new unit.
    RemoveStorage {
        /// The instances.
        storage: Vec<StorageId>,
    },
    /// Wait for the holder of the hook lock, or let the machine run hooks in parallel.
    RunHooksInParallel {
        /// The unit that holds the lock.
        holder: UnitName,
    },
    /// Wait for the action of the same execution group that runs on the machine.
    AwaitExecutionGroup {
        /// The unit that runs it.
        holder: UnitName,
    },
    /// Remove this entity.
    Remove(Entity),
    /// Remove the machine by force.
    ForceRemoveMachine {
        /// The machine.
        machine: String,
    },
    /// Nothing. If the host of the machine no longer exists, force removes the machine within a minute.
    AutomaticUnlessLost {
        /// The machine.
        machine: String,
        /// Whether force has been requested already.
        forced: bool,
    },
    /// Destroy the model by force.
    DestroyByForce {
        /// The model.
        model: String,
        /// Whether it is destroyed by force already.
        forced: Force,
    },
    /// Wait until force begins, or remove the entity with `--no-wait` to begin now.
    ForceAtOnce {
        /// What is removed.
        entity: Entity,
        /// Whether force has started.
        phase: ForcePhase,
    },
    /// Call the provider again now, instead of waiting for the retry.
    RetryProvisioning {
        /// The machine.
        machine: String,
        /// When the provider is called again, in milliseconds of the wall clock, if the time is known.
        retry_ms: Option<i64>,
    },
    /// Run the enrolment command on the machine before the token expires, or create a new one.
    Enrol {
        /// The machine.
        machine: String,
        /// When the token expires, in milliseconds of the wall clock; none if no token is valid.
        expires_ms: Option<i64>,
    },
    /// Delete the folder of a removed unit, or move it out of the machine's folder.
    DeleteFolder,
    /// Start the machine agent again.
    RestartMachineAgent {
        /// The machine.
        machine: String,
        /// What the agent runs on.
        host: Host,
    },
}

impl Cause {
    /// What a person can do about this cause.
    pub fn remedy(&self) -> Remedy {
        match &self.duty {
            Duty::CompareState | Duty::SendView => Remedy::StartController,
            Duty::RestoreState => Remedy::StartFresh,
            Duty::AgreeOnStoreGeneration => Remedy::CheckStoreGeneration,
            Duty::AnswerRecord { .. }
            | Duty::FetchSettings { .. }
            | Duty::FetchCharm { .. }
            | Duty::AnswerLeadershipClaim
            | Duty::Reconnect => Remedy::RestoreLink,

            Duty::ProvideEndpoint { application, .. } => Remedy::Refresh { application: application.clone() },
            Duty::RemoveSubordinate { unit, .. } => Remedy::Explain(Entity::Unit(unit.clone())),
            Duty::FreeUnitSlot { machine, .. } => Remedy::RemoveAnyUnit { machine: machine.clone() },
            Duty::Recover { .. } => self.unit_remedy(|unit| Remedy::ResolveUnit { unit }),
            Duty::EndFailure { .. } => self.unit_remedy(|unit| Remedy::ResolveOrForceRefresh { unit }),
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
                self.unit_remedy(|unit| Remedy::ReadAgentLog { unit, machine: None })
            }
            Duty::InstallHookTools => Remedy::InstallHookTools,
            Duty::AcceptRequests => Remedy::Explain(self.entity.clone()),
            Duty::AllowConnections { .. } => Remedy::RaiseConnectionLimit,
            Duty::AcceptChanges(failure) => Remedy::MakeStoreWritable(failure.clone()),
            Duty::RestoreDocument { .. } => Remedy::RestoreStore,
            Duty::RestoreSecretKeys { file } => Remedy::RestoreSecretKeys { file: file.clone() },
            Duty::RestoreFile { application, sha256 } => {
                Remedy::UploadFile { application: application.clone(), sha256: sha256.clone() }
            }
            Duty::Attach { machine } => {
                self.unit_remedy(|unit| Remedy::ReadAgentLog { unit, machine: Some(machine.clone()) })
            }
            Duty::Respond { machine, subordinate, .. } => self.unit_remedy(|unit| Remedy::KillUnitAgent {
                unit,
                machine: machine.clone(),
                removable: !subordinate,
            }),
            Duty::Start { silent: true, .. } => Remedy::AfterResponse,
            Duty::Start { silent: false, .. } => Remedy::Imminent,
            Duty::Finish { run, machine, .. } => {
                self.unit_remedy(|unit| Remedy::InspectHook { unit, run: *run, machine: machine.clone() })
            }
            Duty::EndDebugSession { .. } => self.unit_remedy(|unit| Remedy::ExitDebugSession { unit }),
            Duty::RemoveStorage { storage } => Remedy::RemoveStorage { storage: storage.clone() },
            Duty::ReleaseHookLock { group: None, holder, .. } => {
                Remedy::RunHooksInParallel { holder: holder.clone() }
            }
            Duty::ReleaseHookLock { group: Some(_), holder, .. } => {
                Remedy::AwaitExecutionGroup { holder: holder.clone() }
            }
            Duty::EndLockHolder { holder, .. } => Remedy::EndProcess { pid: holder.pid },
            Duty::RestartUnitAgent { machine, .. } => {
                self.unit_remedy(|unit| Remedy::ReadAgentLog { unit, machine: machine.clone() })
            }
            Duty::ClearFault { fault, machine } => {
                self.unit_remedy(|unit| Remedy::ClearFault { fault: *fault, unit, machine: machine.clone() })
            }
            Duty::InspectSetAside { machine, .. } => {
                self.unit_remedy(|unit| Remedy::DeleteSetAside { unit, machine: machine.clone() })
            }
            Duty::ProvideStorage { .. } if self.last_error.is_some() => {
                self.unit_remedy(|unit| Remedy::MendStorage { unit })
            }
            Duty::ProvideStorage { .. } => Remedy::CheckMachineAgent { machine: self.machine_of_actor() },
            Duty::Reboot => Remedy::CheckMachineAgent { machine: self.machine_of_actor() },
            Duty::RebootByHand { machine } => Remedy::RebootMachine { machine: machine.clone() },

            Duty::Remove | Duty::FreeCapacity { .. } => Remedy::Remove(self.entity.clone()),
            Duty::LeaveScopes { .. } | Duty::Terminate { .. } => match &self.last_error {
                Some(_) => self.unit_remedy(|unit| Remedy::ResolveUnit { unit }),
                None => Remedy::Explain(self.entity.clone()),
            },
            Duty::Recall | Duty::RemoveUnstarted => {
                Remedy::CheckMachineAgent { machine: self.machine_of_actor() }
            }
            Duty::DeleteRelation => Remedy::Automatic,
            Duty::EmptyModel { force, .. } => Remedy::DestroyByForce { model: self.name(), forced: *force },
            Duty::ForceRemoval { phase, .. } => {
                Remedy::ForceAtOnce { entity: self.entity.clone(), phase: *phase }
            }

            // what prevents its agent is a cause of its own
            Duty::ReportDead => {
                self.provisioning_remedy(Remedy::AutomaticUnlessLost { machine: self.name(), forced: false })
            }
            Duty::ReportUnstartedDead | Duty::ReleaseInstance => self.provisioning_remedy(Remedy::Automatic),
            Duty::Uninstall { forced } => self
                .provisioning_remedy(Remedy::AutomaticUnlessLost { machine: self.name(), forced: *forced }),
            Duty::StartInstance { retry_ms } | Duty::ReachInstance { retry_ms } => {
                Remedy::RetryProvisioning { machine: self.name(), retry_ms: Some(*retry_ms) }
            }
            Duty::CreateInstance => Remedy::AutomaticOrForce { machine: self.name() },
            Duty::RemoveUnits => Remedy::ForceRemoveMachine { machine: self.name() },
            Duty::Enrol { expires_ms } => Remedy::Enrol { machine: self.name(), expires_ms: *expires_ms },
            Duty::DeleteFolder { .. } => Remedy::DeleteFolder,
            Duty::RunMachineAgent { silence: Silence::NotStarted, .. } => Remedy::StartSupervisor,
            Duty::RunMachineAgent { host, .. } => {
                Remedy::RestartMachineAgent { machine: self.name(), host: *host }
            }
        }
    }

    /// The remedy of a duty that depends on the provider: after a failure, the provider has to be called again
    /// before anything else can help.
    fn provisioning_remedy(&self, otherwise: Remedy) -> Remedy {
        match &self.last_error {
            Some(_) => Remedy::RetryProvisioning { machine: self.name(), retry_ms: None },
            None => otherwise,
        }
    }

    /// The remedy for a unit. Only units have such a duty; for any other entity, the remedy is to run `pintle
    /// why`.
    fn unit_remedy(&self, remedy: impl FnOnce(UnitName) -> Remedy) -> Remedy {
        match &self.entity {
            Entity::Unit(name) => remedy(name.clone()),
            other => Remedy::Explain(other.clone()),
        }
    }

    /// The name of the entity without its kind.
    fn name(&self) -> String {
        match &self.entity {
            Entity::Unit(name) => name.to_string(),
            Entity::Relation(name) => name.ends.to_string(),
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
