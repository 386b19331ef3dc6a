//! Whether a model is settled: no unit has anything to do, and no application or unit is being removed (spec/clients.md
//! 2.3).
//!
//! A pure function of the shown statuses, because `wait --settled` and `status` have nothing else. It relies on
//! [`unit`](super::unit): a unit with an agent is shown as idle only if the agent would start nothing after it has received
//! every change of the model.

use crate::terms::life::Life;
use crate::terms::names::UnitName;
use crate::terms::status::{AgentStatus, WorkloadStatus};
use crate::terms::status_message::StatusMessage;

/// How far a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitProgress {
    /// It has nothing to do.
    Settled,
    /// Its last run has failed: a retry or a person must act.
    Failed,
    /// It has something to do, or is being removed.
    Busy,
    /// It is on a machine that a person has to enrol first.
    AwaitsEnrolment,
}

impl UnitProgress {
    /// The progress of a unit with this effective life and these statuses, on a machine with this one.
    pub fn of_unit_on(
        machine: Option<&StatusMessage>,
        life: Life,
        workload: WorkloadStatus,
        agent: AgentStatus,
    ) -> UnitProgress {
        match UnitProgress::of(life, workload, agent) {
            UnitProgress::Busy if machine == Some(&StatusMessage::NotEnrolled) => {
                UnitProgress::AwaitsEnrolment
            }
            progress => progress,
        }
    }

    /// The progress of a unit with this effective life and these statuses, whatever its machine waits for.
    pub fn of(life: Life, workload: WorkloadStatus, agent: AgentStatus) -> UnitProgress {
        match (workload, agent) {
            // the removal of a unit in error continues only after the error is resolved
            (WorkloadStatus::Error, AgentStatus::Idle) => UnitProgress::Failed,
            (_, AgentStatus::Idle) if life.is_alive() => UnitProgress::Settled,
            _ => UnitProgress::Busy,
        }
    }
}

/// What is left to do in a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelProgress {
    /// The units that are busy.
    pub busy: Vec<UnitName>,
    /// The applications that are being removed.
    pub ending: Vec<String>,
    /// The machines that are being removed, except those that wait for a unit that has failed.
    pub ending_machines: Vec<String>,
    /// The units that have failed.
    pub failed: Vec<UnitName>,
    /// The units whose machine a person has to enrol.
    pub unenrolled: Vec<UnitName>,
}

/// A machine, as far as the progress of its model depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineProgress {
    /// Its life.
    pub life: Life,
    /// Whether a unit on it has failed: its removal continues only after that.
    pub has_failed_unit: bool,
}

impl ModelProgress {
    /// The progress of a model with these applications, machines and units.
    pub fn of<'a>(
        applications: impl IntoIterator<Item = (&'a String, Life)>,
        machines: impl IntoIterator<Item = (&'a String, MachineProgress)>,
        units: impl IntoIterator<Item = (&'a UnitName, UnitProgress)>,
    ) -> ModelProgress {
        let ending = applications.into_iter().filter(|(_, life)| !life.is_alive());
        let ending = ending.map(|(name, _)| name.clone()).collect();
        let machines = machines.into_iter();
        let ending_machines =
            machines.filter(|(_, machine)| !machine.life.is_alive() && !machine.has_failed_unit);
        let ending_machines = ending_machines.map(|(name, _)| name.clone()).collect();
        let mut progress = ModelProgress { ending, ending_machines, ..ModelProgress::default() };
        for (name, unit) in units {
            match unit {
                UnitProgress::Settled => {}
                UnitProgress::Failed => progress.failed.push(name.clone()),
                UnitProgress::Busy => progress.busy.push(name.clone()),
                UnitProgress::AwaitsEnrolment => progress.unenrolled.push(name.clone()),
            }
        }
        progress
    }

    /// Whether no unit has anything to do and no application or unit is being removed. Units may have failed, or wait for a
    /// machine that a person has to enrol.
    pub fn is_settled(&self) -> bool {
        self.busy.is_empty() && self.ending.is_empty() && self.ending_machines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_idle_alive_unit_is_settled() {
        let progress = |life, agent| UnitProgress::of(life, WorkloadStatus::Active, agent);
        assert_eq!(progress(Life::Alive, AgentStatus::Idle), UnitProgress::Settled);
        for life in [Life::Dying, Life::Dead] {
            assert_eq!(progress(life, AgentStatus::Idle), UnitProgress::Busy, "{life}");
        }
        let others = [
            AgentStatus::Allocating,
            AgentStatus::Executing,
            AgentStatus::Rebooting,
            AgentStatus::Failed,
            AgentStatus::Lost,
        ];
        for agent in others {
            assert_eq!(progress(Life::Alive, agent), UnitProgress::Busy, "{agent:?}");
        }
    }

    #[test]
    fn a_unit_in_error_has_failed_unless_its_agent_does_something() {
        let progress = |life, agent| UnitProgress::of(life, WorkloadStatus::Error, agent);
        assert_eq!(progress(Life::Alive, AgentStatus::Idle), UnitProgress::Failed);
        assert_eq!(progress(Life::Dying, AgentStatus::Idle), UnitProgress::Failed);
        assert_eq!(progress(Life::Alive, AgentStatus::Executing), UnitProgress::Busy);
    }

    #[test]
    fn a_unit_on_a_machine_that_nobody_has_enrolled_waits_for_a_person() {
        let progress = |message: Option<&StatusMessage>, agent| {
            UnitProgress::of_unit_on(message, Life::Alive, WorkloadStatus::Waiting, agent)
        };
        let (not_enrolled, other) =
            (Some(&StatusMessage::NotEnrolled), Some(&StatusMessage::AgentNotReported));
        assert_eq!(progress(not_enrolled, AgentStatus::Allocating), UnitProgress::AwaitsEnrolment);
        assert_eq!(progress(not_enrolled, AgentStatus::Idle), UnitProgress::Settled, "a fake one");
        assert_eq!(progress(other, AgentStatus::Allocating), UnitProgress::Busy);
        assert_eq!(progress(None, AgentStatus::Allocating), UnitProgress::Busy);
        let web = UnitName::new("web", 0);
        let model = ModelProgress::of([], [], [(&web, UnitProgress::AwaitsEnrolment)]);
        assert!(model.is_settled() && model.unenrolled == [web]);
    }

    #[test]
    fn a_model_is_settled_when_only_failed_units_are_left() {
        let (web, db, log) = (UnitName::new("web", 0), UnitName::new("db", 0), UnitName::new("log", 0));
        let (alive, ending) = ("web".to_owned(), "db".to_owned());
        let units = [(&web, UnitProgress::Busy), (&db, UnitProgress::Failed), (&log, UnitProgress::Settled)];
        let progress = ModelProgress::of([(&alive, Life::Alive), (&ending, Life::Dying)], [], units);
        let expected = ModelProgress {
            busy: vec![web.clone()],
            ending: vec![ending.clone()],
            ending_machines: Vec::new(),
            failed: vec![db.clone()],
            unenrolled: Vec::new(),
        };
        assert_eq!(progress, expected);
        assert!(!progress.is_settled());
        let busy = ModelProgress::of([(&alive, Life::Alive)], [], units);
        assert!(!busy.is_settled(), "a unit is busy");
        let removed = ModelProgress::of([(&ending, Life::Dead)], [], [(&log, UnitProgress::Settled)]);
        assert!(!removed.is_settled(), "an application is being removed");
        assert!(ModelProgress::of([(&alive, Life::Alive)], [], units[1..].iter().copied()).is_settled());
    }

    #[test]
    fn a_machine_is_waited_for_until_it_is_removed_unless_a_failed_unit_is_on_it() {
        let name = "8".to_owned();
        let of = |life, has_failed_unit| {
            ModelProgress::of([], [(&name, MachineProgress { life, has_failed_unit })], [])
        };
        assert!(of(Life::Alive, false).is_settled());
        for life in [Life::Dying, Life::Dead] {
            assert_eq!(of(life, false).ending_machines.concat(), name);
            assert!(!of(life, false).is_settled());
            assert!(of(life, true).is_settled(), "only a person lets it continue");
        }
    }
}
