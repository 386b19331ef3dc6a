//! The decision table of the machine agent: which units it deploys, starts, stops and recalls (spec F.2).
//!
//! [`plan`] compares the units that are assigned to the machine with the units that are deployed on it. A unit
//! that is missing from the assignment is never taken for dead without evidence (design 7). The machine agent
//! executes the steps and plans again after every change.

use crate::terms::assignment::{Assigned, Existence};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::RefusalReason;
use crate::terms::refusal::unit::UnitRefusal;
use std::collections::{BTreeMap, BTreeSet};

/// The evidence about a unit that is deployed on this machine but not assigned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The controller has a tombstone of this uuid, in a store generation that this agent has seen.
    Removed,
    /// The state in the unit's folder is final: the controller had accepted it before it was restored from a
    /// backup that is older than the unit. Or no agent ever started in the folder, because the store was restored
    /// to a moment before the unit was added (cargo sim 307 at a51c64d).
    Finished,
    /// The controller reports that the uuid is unknown, and the unit blocks something: another unit that is
    /// assigned to the machine has its name, or the machine waits only for this unit.
    Displaced,
    /// The controller refused to remove the unit because its agent has attached before: the agent must run the
    /// last hooks.
    WasAttached,
    /// No evidence: the unit was not found, the request was not authorised, or the unit is assigned to another
    /// machine.
    None,
}

/// Whether the machine is being removed and no unit is assigned to it.
///
/// 1. web/0 is deployed on machine 0.
/// 2. The controller is restored from a backup that does not contain web/0.
/// 3. Machine 0 is removed. It would remain Dying for ever, because no agent can remove a unit of which the
///    controller has no record.
///
/// The unit is therefore quarantined. If a newer backup is restored in time, the unit is deployed again.
pub fn is_dying_and_empty(life: Life, assigned: usize) -> bool {
    life != Life::Alive && assigned == 0
}

/// What a machine agent does when its machine is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineStep {
    /// Report that the machine is dead (spec E.5).
    ReportDead,
    /// Stop the machine agent: the machine is Dead.
    End,
}

/// The step of a machine with this life and number of assigned units; none while a folder of a unit is left. A machine
/// that was removed by force may be Dead before its units were recalled.
pub fn machine_step(life: Life, assigned: usize, has_folders: bool) -> Option<MachineStep> {
    match (life, assigned, has_folders) {
        (Life::Dying, 0, false) => Some(MachineStep::ReportDead),
        (Life::Dead, _, false) => Some(MachineStep::End),
        (Life::Alive | Life::Dying, _, false) | (_, _, true) => None,
    }
}

/// Weighs the evidence about a unit that is deployed on this machine but not assigned to it. A tombstone counts
/// more than the final state of the folder, which counts more than the need to free its name. `existence` is the
/// answer of the controller; without an answer there is no evidence. `is_blocking` is set if another unit needs the
/// name, or if the machine waits only for this unit.
pub fn evidence(existence: Option<Existence>, finished: bool, is_blocking: bool) -> Evidence {
    match (existence, finished, is_blocking) {
        (Some(Existence::Tombstone), _, _) => Evidence::Removed,
        (Some(Existence::Known(_) | Existence::Unknown), true, _) => Evidence::Finished,
        (Some(Existence::Unknown), false, true) => Evidence::Displaced,
        (Some(Existence::Known(_) | Existence::Unknown), false, _) | (None, _, _) => Evidence::None,
    }
}

/// Whether the controller refused to remove a unit because its agent has to run the last hooks
/// ([`Evidence::WasAttached`]). No other refusal is evidence of that: no agent is started only because a request was not
/// authorised.
pub fn shows_unfinished_agent(refusal: &RefusalReason) -> bool {
    matches!(refusal, RefusalReason::Unit(UnitRefusal::AgentNotFinished { .. }))
}

/// One thing to do. Every step is idempotent: a crash may interrupt it, and the next plan contains it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeployStep {
    /// Create the folder, store a token in it, start the agent.
    Deploy(Uuid),
    /// Check that the agent runs, and start it if it does not.
    EnsureRunning(Uuid),
    /// Stop the agent and delete the folder.
    Recall(Uuid),
    /// Report to the controller that nothing of the unit is left on this machine.
    ReportRemoved(Uuid),
    /// Report to the controller that no folder of a removed unit is left: it may delete the tombstone.
    ConfirmRecall(Uuid),
    /// Stop the agent and keep the folder under another name.
    ///
    /// 1. web/0 is deployed.
    /// 2. The controller is restored from an older backup that does not contain it.
    /// 3. A user adds another web/0, which is assigned to this machine.
    ///
    /// There is no proof that the first unit is dead, so its data is kept. But it must not block the new unit
    /// for ever, nor the removal of a machine ([`is_dying_and_empty`]).
    Quarantine(Uuid),
}

/// The steps from what is deployed to what is assigned, in order of uuids. Steps that free a name come first,
/// so that a new unit of that name is deployed in the same round.
pub fn plan(
    assigned: &BTreeMap<Uuid, Assigned>,
    deployed: &BTreeSet<Uuid>,
    evidence: &BTreeMap<Uuid, Evidence>,
) -> Vec<DeployStep> {
    let both: BTreeSet<Uuid> = assigned.keys().chain(deployed).copied().collect();
    let steps = both
        .into_iter()
        .flat_map(|unit| step(unit, assigned.get(&unit).map(|assigned| assigned.life), deployed, evidence));
    let (mut first, rest): (Vec<DeployStep>, Vec<DeployStep>) =
        steps.partition(|step| matches!(step, DeployStep::Quarantine(_) | DeployStep::Recall(_)));
    first.extend(rest);
    first
}

/// The confirmations for removed units of which no folder is left on this machine.
pub fn confirmations(recalls: &BTreeSet<Uuid>, deployed: &BTreeSet<Uuid>) -> Vec<DeployStep> {
    recalls.difference(deployed).map(|unit| DeployStep::ConfirmRecall(*unit)).collect()
}

/// The unit that a step recalls. None for every other step.
pub fn recalled(step: &DeployStep) -> Option<Uuid> {
    match step {
        DeployStep::Recall(unit) => Some(*unit),
        DeployStep::Deploy(_)
        | DeployStep::EnsureRunning(_)
        | DeployStep::ReportRemoved(_)
        | DeployStep::ConfirmRecall(_)
        | DeployStep::Quarantine(_) => None,
    }
}

/// The unit whose agent a step would start although its storage could not be provided again after a boot: its hooks would
/// find the storage empty. The step is planned again until the storage is there. None for every other step.
pub fn waits_for_storage(step: DeployStep, lacks_storage: impl Fn(Uuid) -> bool) -> Option<Uuid> {
    match step {
        DeployStep::Deploy(unit) | DeployStep::EnsureRunning(unit) => {
            Some(unit).filter(|unit| lacks_storage(*unit))
        }
        DeployStep::Recall(_)
        | DeployStep::ReportRemoved(_)
        | DeployStep::ConfirmRecall(_)
        | DeployStep::Quarantine(_) => None,
    }
}

fn step(
    unit: Uuid,
    life: Option<Life>,
    deployed: &BTreeSet<Uuid>,
    evidence: &BTreeMap<Uuid, Evidence>,
) -> Vec<DeployStep> {
    match (deployed.contains(&unit), life) {
        (false, Some(Life::Alive)) => vec![DeployStep::Deploy(unit)],
        // No agent is started only to be removed. The exception is a Dying unit that had attached and whose folder was
        // lost: its agent fetches the replica and runs the last hooks. A Dead unit has none to run, also if the
        // controller's answer is older than its death.
        (false, Some(Life::Dying)) if evidence.get(&unit) == Some(&Evidence::WasAttached) => {
            vec![DeployStep::Deploy(unit)]
        }
        (false, Some(Life::Dying | Life::Dead)) => vec![DeployStep::ReportRemoved(unit)],
        (false, None) => vec![],
        (true, Some(Life::Alive | Life::Dying)) => vec![DeployStep::EnsureRunning(unit)],
        (true, Some(Life::Dead)) => vec![DeployStep::Recall(unit), DeployStep::ReportRemoved(unit)],
        (true, None) => match evidence.get(&unit).unwrap_or(&Evidence::None) {
            Evidence::Removed | Evidence::Finished => vec![DeployStep::Recall(unit)],
            Evidence::Displaced => vec![DeployStep::Quarantine(unit)],
            Evidence::WasAttached | Evidence::None => vec![DeployStep::EnsureRunning(unit)],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::names::UnitName;

    fn assigned(unit: Uuid, life: Life) -> BTreeMap<Uuid, Assigned> {
        BTreeMap::from([(unit, Assigned { name: UnitName::new("web", 0), life })])
    }

    fn plan_one(deployed: bool, life: Option<Life>, evidence: Evidence) -> Vec<DeployStep> {
        let unit = Uuid(7);
        plan(
            &life.map(|life| assigned(unit, life)).unwrap_or_default(),
            &deployed.then_some(unit).into_iter().collect(),
            &BTreeMap::from([(unit, evidence)]),
        )
    }

    #[test]
    fn a_recall_is_confirmed_when_no_folder_of_the_unit_is_left() {
        let recalls = BTreeSet::from([Uuid(7), Uuid(8)]);
        let steps = confirmations(&recalls, &BTreeSet::from([Uuid(8), Uuid(9)]));
        assert_eq!(steps, [DeployStep::ConfirmRecall(Uuid(7))]);
    }

    #[test]
    fn only_steps_that_start_an_agent_wait_for_its_storage() {
        use DeployStep::{ConfirmRecall, Deploy, EnsureRunning, Quarantine, Recall, ReportRemoved};
        let waits = |step| [7, 8].map(|lacks| waits_for_storage(step, |unit| unit == Uuid(lacks)));
        for step in [Deploy(Uuid(7)), EnsureRunning(Uuid(7))] {
            assert_eq!(waits(step), [Some(Uuid(7)), None], "{step:?}");
        }
        for step in [Recall(Uuid(7)), ReportRemoved(Uuid(7)), ConfirmRecall(Uuid(7)), Quarantine(Uuid(7))] {
            assert_eq!(waits(step), [None, None], "{step:?}");
        }
    }

    #[test]
    fn the_table_is_that_of_the_spec() {
        use DeployStep::{Deploy, EnsureRunning, Recall, ReportRemoved};
        let unit = Uuid(7);
        let rows = [
            (false, Some(Life::Alive), vec![Deploy(unit)]),
            (false, Some(Life::Dying), vec![ReportRemoved(unit)]),
            (false, Some(Life::Dead), vec![ReportRemoved(unit)]),
            (false, None, vec![]),
            (true, Some(Life::Alive), vec![EnsureRunning(unit)]),
            (true, Some(Life::Dying), vec![EnsureRunning(unit)]),
            (true, Some(Life::Dead), vec![Recall(unit), ReportRemoved(unit)]),
        ];
        for (deployed, life, steps) in rows {
            assert_eq!(plan_one(deployed, life, Evidence::None), steps, "{deployed} {life:?}");
        }
    }

    #[test]
    fn a_dying_unit_that_had_attached_and_lost_its_folder_is_deployed_to_run_its_last_hooks() {
        assert_eq!(plan_one(false, Some(Life::Dying), Evidence::WasAttached), [DeployStep::Deploy(Uuid(7))]);
        assert_eq!(plan_one(false, Some(Life::Dying), Evidence::None), [DeployStep::ReportRemoved(Uuid(7))]);
        let dead = plan_one(false, Some(Life::Dead), Evidence::WasAttached);
        assert_eq!(dead, [DeployStep::ReportRemoved(Uuid(7))], "it was Dying when the controller answered");
        assert_eq!(plan_one(false, None, Evidence::WasAttached), []);
    }

    #[test]
    fn an_unknown_unit_is_quarantined_before_another_unit_of_its_name_is_deployed() {
        let assigned = assigned(Uuid(6), Life::Alive);
        let evidence = BTreeMap::from([(Uuid(7), Evidence::Displaced)]);
        let steps = plan(&assigned, &BTreeSet::from([Uuid(7)]), &evidence);
        assert_eq!(steps, [DeployStep::Quarantine(Uuid(7)), DeployStep::Deploy(Uuid(6))]);
        let evidence = BTreeMap::from([(Uuid(7), Evidence::Removed)]);
        let steps = plan(&assigned, &BTreeSet::from([Uuid(7)]), &evidence);
        assert_eq!(steps, [DeployStep::Recall(Uuid(7)), DeployStep::Deploy(Uuid(6))]);
    }

    #[test]
    fn only_a_dying_or_dead_machine_without_assigned_units_is_dying_and_empty() {
        let rows = [(Life::Alive, [false, false]), (Life::Dying, [true, false]), (Life::Dead, [true, false])];
        for (life, departing) in rows {
            assert_eq!([0, 1].map(|assigned| is_dying_and_empty(life, assigned)), departing, "{life:?}");
        }
    }

    #[test]
    fn an_empty_dying_machine_reports_itself_dead_and_a_dead_machine_without_folders_ends() {
        assert_eq!(machine_step(Life::Dying, 0, false), Some(MachineStep::ReportDead));
        assert_eq!(machine_step(Life::Dead, 0, false), Some(MachineStep::End));
        assert_eq!(machine_step(Life::Dead, 1, false), Some(MachineStep::End), "it was removed by force");
        let waits =
            [(Life::Alive, 0, false), (Life::Dying, 1, false), (Life::Dying, 0, true), (Life::Dead, 0, true)];
        for (life, assigned, has_folders) in waits {
            assert_eq!(machine_step(life, assigned, has_folders), None, "{life:?} {assigned} {has_folders}");
        }
    }

    #[test]
    fn a_tombstone_outweighs_final_state_which_outweighs_a_name_conflict() {
        let unknown = |finished, wanted| evidence(Some(Existence::Unknown), finished, wanted);
        assert_eq!(evidence(Some(Existence::Tombstone), true, true), Evidence::Removed);
        assert_eq!(unknown(true, true), Evidence::Finished);
        assert_eq!(unknown(false, true), Evidence::Displaced);
        assert_eq!(unknown(false, false), Evidence::None);
        let elsewhere = Some(Existence::Known(Life::Alive));
        assert_eq!(evidence(elsewhere, true, true), Evidence::Finished);
        assert_eq!(
            evidence(elsewhere, false, true),
            Evidence::None,
            "a unit that the controller has stored is removed normally"
        );
        assert_eq!(evidence(None, true, true), Evidence::None, "the controller did not answer");
    }

    #[test]
    fn absence_is_not_death() {
        assert_eq!(plan_one(true, None, Evidence::None), [DeployStep::EnsureRunning(Uuid(7))]);
        assert_eq!(plan_one(true, None, Evidence::Removed), [DeployStep::Recall(Uuid(7))]);
        assert_eq!(
            plan_one(true, None, Evidence::Finished),
            [DeployStep::Recall(Uuid(7))],
            "the state in its folder is final"
        );
        assert_eq!(
            plan_one(true, Some(Life::Alive), Evidence::Finished),
            [DeployStep::EnsureRunning(Uuid(7))],
            "an assigned unit is never recalled"
        );
    }
}
