//! Plans what a provisioner does about the machines of a model (spec F.3).
//!
//! [`plan`] compares the machines that the controller has with the instances that the provider lists. Executed
//! again from the start after any crash, it creates one instance per machine and leaks none.
//!
//! How exactly one instance is created although the provisioner may crash at any point (scenario 183):
//! 1. A nonce is stored for the machine. A nonce that is stored already remains.
//! 2. The provider creates the instance under that nonce. If an instance with the nonce exists, the provider
//!    completes it instead of creating another one.
//! 3. The instance is recorded. If the provisioner crashes before that, the next plan finds the instance and
//!    records it.

use crate::charm::Base;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who creates and terminates the instance of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InstanceOwner {
    /// The provisioner.
    #[default]
    Provisioner,
    /// A person, who provisioned the machine manually: its agent uninstalls itself and reports that.
    Manual,
}

/// A machine as the controller has stored it: what its provisioner plans with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DesiredMachine {
    /// The uuid of the machine.
    pub uuid: Uuid,
    /// The name of the machine.
    pub name: String,
    /// The address of its units.
    pub address: String,
    /// The life of the machine.
    pub life: Life,
    /// Who creates and terminates the instance.
    pub owner: InstanceOwner,
    /// The nonce under which the instance is or was created; none if no creation was recorded.
    pub nonce: Option<Uuid>,
    /// The provider's name for the instance; none if no instance was recorded.
    pub instance_id: Option<String>,
    /// The operating system that the user requested; none for that of the provider.
    pub requested_base: Option<Base>,
    /// Whether the instance is kept when the machine is removed (`--keep-instance`).
    pub keep_instance: bool,
    /// Whether the machine agent has been uninstalled, or is no longer expected to be.
    pub agent_uninstalled: bool,
    /// Whether units are assigned to the machine.
    pub has_units: bool,
    /// Whether the machine is Dying and one of these units can be removed only by its agent, which runs the last hooks.
    pub needs_unit_agent: bool,
    /// After a failure: the time before which no step is planned, in milliseconds of the wall clock.
    pub retry_at_ms: Option<i64>,
}

impl DesiredMachine {
    /// Whether the instance is recorded with this address, and no provisioning error is. An instance that runs and is not
    /// recorded like this is reported again: the controller was restored from a backup.
    pub fn is_recorded_at(&self, address: &str) -> bool {
        self.instance_id.is_some() && !self.has_failed() && self.address == address
    }

    /// Whether the last step of the machine has failed. The error is cleared only once the machine runs.
    pub fn has_failed(&self) -> bool {
        self.retry_at_ms.is_some()
    }

    /// Whether a created instance is recorded before its agent runs: it has another address than is recorded, which
    /// units must not be shown any more.
    pub fn records_start_before_it_runs(&self, address: &str) -> bool {
        !self.has_failed() && !self.is_recorded_at(address)
    }

    /// Whether a step may be taken now. If the clock was set back, a retry that is further away than the longest delay is
    /// due as well.
    pub fn is_retry_due(&self, now_ms: i64) -> bool {
        self.retry_at_ms.is_none_or(|retry_ms| is_due(retry_ms, now_ms))
    }
}

/// The time of the next retry after `now_ms`; none if no machine waits for one.
pub fn next_retry_ms(machines: &BTreeMap<Uuid, DesiredMachine>, now_ms: i64) -> Option<i64> {
    machines.values().filter_map(|machine| machine.retry_at_ms).filter(|retry_ms| *retry_ms > now_ms).min()
}

/// An instance that the provider lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedInstance {
    /// The nonce under which it was created.
    pub nonce: Uuid,
    /// Whether its machine was removed or is unknown, if its machine is not in the model.
    pub unclaimed: UnclaimedKind,
}

/// Why no machine of the model claims an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnclaimedKind {
    /// The machine was removed, in a known store generation.
    Removed,
    /// The controller has no record of the machine.
    Unknown,
}

/// Which instances without a machine are terminated: the model setting `provisioner-harvest-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HarvestMode {
    /// None of them.
    None,
    /// Those whose machine is unknown.
    Unknown,
    /// Those whose machine was removed. The absence of a machine alone is not proof of its removal.
    #[default]
    Destroyed,
    /// All of them.
    All,
}

impl HarvestMode {
    /// The harvest mode of a model with this value of the setting; the default if there is none.
    pub fn of_setting(text: Option<&str>) -> HarvestMode {
        text.and_then(HarvestMode::parse).unwrap_or_default()
    }

    /// Parses the value of the model setting; none if it is not a harvest mode.
    pub fn parse(text: &str) -> Option<HarvestMode> {
        match text {
            "none" => Some(HarvestMode::None),
            "unknown" => Some(HarvestMode::Unknown),
            "destroyed" => Some(HarvestMode::Destroyed),
            "all" => Some(HarvestMode::All),
            _ => None,
        }
    }

    /// Whether an instance of this kind is terminated.
    fn includes(self, unclaimed: UnclaimedKind) -> bool {
        match unclaimed {
            UnclaimedKind::Removed => matches!(self, HarvestMode::Destroyed | HarvestMode::All),
            UnclaimedKind::Unknown => matches!(self, HarvestMode::Unknown | HarvestMode::All),
        }
    }
}

/// One thing to do. Every step is idempotent: a crash may interrupt it, and the next plan contains it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProvisionStep {
    /// Store a nonce if there is none, create the instance, record it.
    Start(Uuid),
    /// The instance exists: check that it is recorded and that it runs.
    EnsureRunning(Uuid),
    /// Terminate the instance and delete its content.
    Terminate(Uuid),
    /// Release the instance to its user: from now on the provider does not list it.
    HandOver(Uuid),
    /// No instance was created and none will be: report that the machine is Dead.
    SetDead(Uuid),
    /// Remove the record of a Dead machine that has no instance.
    Remove(Uuid),
}

impl ProvisionStep {
    /// The machine that the step concerns.
    pub fn machine(self) -> Uuid {
        match self {
            ProvisionStep::Start(id) | ProvisionStep::EnsureRunning(id) | ProvisionStep::Terminate(id) => id,
            ProvisionStep::HandOver(id) | ProvisionStep::SetDead(id) | ProvisionStep::Remove(id) => id,
        }
    }
}

/// The steps to take, in order of uuids. A machine whose last step failed has no steps until its retry is due.
pub fn plan(
    wanted: &BTreeMap<Uuid, DesiredMachine>,
    found: &BTreeMap<Uuid, ListedInstance>,
    harvest: HarvestMode,
    now_ms: i64,
) -> Vec<ProvisionStep> {
    let mut steps = Vec::new();
    for (id, machine) in wanted {
        if machine.is_retry_due(now_ms) {
            steps.extend(step(*id, machine, found.get(id)));
        }
    }
    let unclaimed = found
        .iter()
        .filter(|(id, instance)| !wanted.contains_key(id) && harvest.includes(instance.unclaimed));
    steps.extend(unclaimed.map(|(id, _)| ProvisionStep::Terminate(*id)));
    steps
}

fn is_due(retry_ms: i64, now_ms: i64) -> bool {
    retry_ms <= now_ms || retry_ms > now_ms.saturating_add(PROVIDER_RETRY_MAX_MS)
}

fn step(id: Uuid, machine: &DesiredMachine, found: Option<&ListedInstance>) -> Vec<ProvisionStep> {
    if machine.owner == InstanceOwner::Manual {
        return match (machine.life, machine.instance_id.is_some()) {
            (Life::Dying, false) => vec![ProvisionStep::SetDead(id)],
            (Life::Dead, false) => vec![ProvisionStep::Remove(id)],
            // The machine agent uninstalls itself, and the controller removes the record with that report.
            (Life::Alive, _) | (Life::Dying | Life::Dead, true) => vec![],
        };
    }
    // A different recorded nonce proves that the instance is foreign. A missing nonce does not: a restored store may
    // lack the record of the start.
    let is_foreign = found.is_some_and(|found| machine.nonce.is_some_and(|recorded| found.nonce != recorded));
    match (machine.life, found) {
        // Another store generation started the instance under this machine's name: it is terminated first.
        (Life::Alive | Life::Dying, Some(_)) if is_foreign => vec![ProvisionStep::Terminate(id)],
        // No start was recorded and none will be: no unit needs the instance (scenario 184).
        (Life::Dying, Some(_)) if machine.nonce.is_none() && !machine.has_units => {
            vec![ProvisionStep::Terminate(id)]
        }
        (Life::Alive, None) => vec![ProvisionStep::Start(id)],
        (Life::Alive | Life::Dying, Some(_)) => vec![ProvisionStep::EnsureRunning(id)],
        // The instance was lost: its units run their last hooks on a new one, from the replicas of their state. The
        // record of the start may be missing: 1. The instance starts and its unit attaches before the start is
        // recorded. 2. The store is restored to that moment. 3. The instance belongs to another generation and is
        // terminated (cargo sim 51234511).
        (Life::Dying, None)
            if machine.has_units && (machine.instance_id.is_some() || machine.needs_unit_agent) =>
        {
            vec![ProvisionStep::Start(id)]
        }
        (Life::Dying, None) => vec![ProvisionStep::SetDead(id)],
        // The instance runs until its agent has uninstalled itself and reported that. The record remains until the
        // instance is handed over, because an instance without a machine is harvested. The same holds for an instance
        // that is not listed yet (cargo sim 57006733).
        (Life::Dead, Some(_)) if machine.keep_instance && !is_foreign && !machine.agent_uninstalled => {
            vec![ProvisionStep::EnsureRunning(id)]
        }
        (Life::Dead, _) if machine.keep_instance && !is_foreign => {
            vec![ProvisionStep::HandOver(id), ProvisionStep::Remove(id)]
        }
        (Life::Dead, None) if machine.nonce.is_none() => vec![ProvisionStep::Remove(id)],
        // An instance that is not listed is terminated as well: 1. An instance is created, which the provider lists
        // only seconds later. 2. By then the machine is Dead and its model is removed: nothing would list the instances
        // again (cargo sim 51023754).
        (Life::Dead, _) => vec![ProvisionStep::Terminate(id), ProvisionStep::Remove(id)],
    }
}

/// The delay between the first failure and the first retry.
const PROVIDER_RETRY_FIRST_MS: i64 = 5_000;
/// The longest delay. 5 s doubled six times is 320 s: from then on there is a retry every 5 minutes.
const PROVIDER_RETRY_MAX_MS: i64 = 300_000;

/// The delay before the retry after the n-th failure in a row; n begins at 1.
pub fn retry_after_ms(failures: u32) -> i64 {
    let doubled = PROVIDER_RETRY_FIRST_MS.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(PROVIDER_RETRY_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProvisionStep::{EnsureRunning, HandOver, Remove, SetDead, Start, Terminate};

    const ID: Uuid = Uuid(7);
    const NONCE: Uuid = Uuid(70);

    fn machine(life: Life) -> DesiredMachine {
        DesiredMachine { uuid: ID, life, ..DesiredMachine::default() }
    }

    fn recorded() -> Option<String> {
        Some("nspawn-0".to_owned())
    }

    fn instance(nonce: Uuid) -> ListedInstance {
        ListedInstance { nonce, unclaimed: UnclaimedKind::Unknown }
    }

    fn plan_one(machine: &DesiredMachine, found: Option<ListedInstance>) -> Vec<ProvisionStep> {
        let found = found.map(|found| (ID, found)).into_iter().collect();
        plan(&BTreeMap::from([(ID, machine.clone())]), &found, HarvestMode::default(), 0)
    }

    #[test]
    fn scenario_183_one_instance_is_created_wherever_the_provisioner_crashes() {
        let mut wanted = machine(Life::Alive);
        assert_eq!(plan_one(&wanted, None), [Start(ID)]);
        wanted.nonce = Some(NONCE); // crashed after the nonce was recorded
        assert_eq!(plan_one(&wanted, None), [Start(ID)]);
        // crashed after the instance was created, then after it was recorded
        assert_eq!(plan_one(&wanted, Some(instance(NONCE))), [EnsureRunning(ID)]);
        wanted.instance_id = recorded();
        assert_eq!(plan_one(&wanted, Some(instance(NONCE))), [EnsureRunning(ID)]);
    }

    #[test]
    fn scenario_184_a_dying_machine_without_instance_is_dead_and_removed_and_never_started() {
        for nonce in [None, Some(NONCE)] {
            assert_eq!(plan_one(&DesiredMachine { nonce, ..machine(Life::Dying) }, None), [SetDead(ID)]);
        }
        assert_eq!(plan_one(&machine(Life::Dead), None), [Remove(ID)]);
    }

    #[test]
    fn an_instance_that_may_exist_is_terminated_before_the_record_is_removed_although_it_is_not_listed() {
        let wanted = DesiredMachine { nonce: Some(NONCE), ..machine(Life::Dead) };
        assert_eq!(plan_one(&wanted, None), [Terminate(ID), Remove(ID)]);
    }

    #[test]
    fn a_kept_instance_is_handed_over_once_its_agent_is_uninstalled() {
        let wanted = |life| DesiredMachine {
            nonce: Some(NONCE),
            instance_id: recorded(),
            keep_instance: true,
            ..machine(life)
        };
        let found = Some(instance(NONCE));
        for life in [Life::Alive, Life::Dying, Life::Dead] {
            assert_eq!(
                plan_one(&wanted(life), found),
                [EnsureRunning(ID)],
                "its agent is not uninstalled yet, or has not reported it"
            );
        }
        let left = DesiredMachine { agent_uninstalled: true, ..wanted(Life::Dead) };
        assert_eq!(plan_one(&left, found), [HandOver(ID), Remove(ID)]);
        for unlisted in [left.clone(), wanted(Life::Dead)] {
            assert_eq!(plan_one(&unlisted, None), [HandOver(ID), Remove(ID)], "lost, or not listed yet");
        }
        let others = Some(instance(Uuid(71)));
        assert_eq!(plan_one(&left, others), [Terminate(ID), Remove(ID)], "not the instance that is kept");
    }

    #[test]
    fn an_unrecorded_instance_of_a_dying_machine_is_terminated_unless_units_need_it() {
        let dying = machine(Life::Dying);
        assert_eq!(plan_one(&dying, Some(instance(NONCE))), [Terminate(ID)]);
        assert_eq!(
            plan_one(&DesiredMachine { has_units: true, ..dying }, Some(instance(NONCE))),
            [EnsureRunning(ID)]
        );
    }

    #[test]
    fn a_dying_machine_whose_instance_was_lost_gets_another_for_the_last_hooks_of_its_units() {
        let lost = DesiredMachine {
            nonce: Some(NONCE),
            instance_id: recorded(),
            has_units: true,
            ..machine(Life::Dying)
        };
        assert_eq!(plan_one(&lost, None), [Start(ID)]);
        assert_eq!(plan_one(&DesiredMachine { has_units: false, ..lost.clone() }, None), [SetDead(ID)]);
        let forgotten = DesiredMachine { instance_id: None, ..lost };
        assert_eq!(plan_one(&forgotten, None), [SetDead(ID)], "no unit has attached there");
        assert_eq!(plan_one(&DesiredMachine { needs_unit_agent: true, ..forgotten }, None), [Start(ID)]);
    }

    #[test]
    fn the_instance_of_a_dead_machine_is_terminated_before_its_record_is_removed() {
        let wanted = DesiredMachine { nonce: Some(NONCE), instance_id: recorded(), ..machine(Life::Dead) };
        assert_eq!(plan_one(&wanted, Some(instance(NONCE))), [Terminate(ID), Remove(ID)]);
    }

    #[test]
    fn a_start_is_recorded_before_it_runs_unless_it_is_recorded_or_has_failed() {
        let address = |address: &str| DesiredMachine {
            instance_id: recorded(),
            address: address.to_owned(),
            ..machine(Life::Alive)
        };
        let failed = DesiredMachine { retry_at_ms: Some(9), ..address("10.0.0.1") };
        let created = DesiredMachine { instance_id: None, ..address("10.0.0.1") };
        let of = |machine: &DesiredMachine| {
            (machine.is_recorded_at("10.0.0.1"), machine.records_start_before_it_runs("10.0.0.1"))
        };
        assert_eq!(of(&address("10.0.0.1")), (true, false));
        assert_eq!(of(&address("10.0.0.2")), (false, true));
        assert_eq!(of(&created), (false, true));
        assert_eq!(of(&failed), (false, false), "the error is cleared only once the machine runs");
    }

    #[test]
    fn the_next_retry_is_the_first_that_is_not_due_yet() {
        let waiting = |retry_ms| DesiredMachine { retry_at_ms: retry_ms, ..machine(Life::Alive) };
        let machines: BTreeMap<Uuid, DesiredMachine> = [None, Some(5), Some(9), Some(7)]
            .into_iter()
            .zip(1..)
            .map(|(ms, id)| (Uuid(id), waiting(ms)))
            .collect();
        assert_eq!(next_retry_ms(&machines, 5), Some(7));
        assert_eq!(next_retry_ms(&machines, 9), None);
    }

    #[test]
    fn an_instance_with_another_nonce_is_terminated_first() {
        let wanted = DesiredMachine { nonce: Some(NONCE), ..machine(Life::Alive) };
        assert_eq!(plan_one(&wanted, Some(instance(Uuid(71)))), [Terminate(ID)]);
    }

    #[test]
    fn an_instance_is_kept_if_the_store_has_no_nonce() {
        // the controller was restored from a backup that is older than the start
        for life in [Life::Alive, Life::Dying] {
            let wanted = DesiredMachine { has_units: true, ..machine(life) };
            assert_eq!(plan_one(&wanted, Some(instance(NONCE))), [EnsureRunning(ID)], "{life:?}");
        }
    }

    #[test]
    fn the_harvest_mode_selects_which_unclaimed_instances_are_terminated() {
        let found = BTreeMap::from([
            (Uuid(1), ListedInstance { nonce: NONCE, unclaimed: UnclaimedKind::Removed }),
            (Uuid(2), ListedInstance { nonce: NONCE, unclaimed: UnclaimedKind::Unknown }),
        ]);
        let terminated = |mode: &str| plan(&BTreeMap::new(), &found, HarvestMode::parse(mode).unwrap(), 0);
        assert_eq!(terminated("none"), []);
        assert_eq!(terminated("destroyed"), [Terminate(Uuid(1))]);
        assert_eq!(terminated("unknown"), [Terminate(Uuid(2))]);
        assert_eq!(terminated("all"), [Terminate(Uuid(1)), Terminate(Uuid(2))]);
        assert_eq!(HarvestMode::default(), HarvestMode::Destroyed);
        assert_eq!(HarvestMode::parse("some"), None);
    }

    #[test]
    fn a_manually_provisioned_machine_is_removed_by_its_own_agent() {
        let manual = |life, started| DesiredMachine {
            owner: InstanceOwner::Manual,
            instance_id: recorded().filter(|_| started),
            ..machine(life)
        };
        assert_eq!(plan_one(&manual(Life::Alive, false), None), []);
        assert_eq!(plan_one(&manual(Life::Dying, true), None), []);
        assert_eq!(plan_one(&manual(Life::Dead, true), None), []);
        assert_eq!(plan_one(&manual(Life::Dying, false), None), [SetDead(ID)], "the machine never enrolled");
        assert_eq!(plan_one(&manual(Life::Dead, false), None), [Remove(ID)]);
    }

    #[test]
    fn a_failed_step_waits_until_its_retry_is_due() {
        let wanted = DesiredMachine { retry_at_ms: Some(1_000), ..machine(Life::Alive) };
        let at = |now_ms| {
            plan(&BTreeMap::from([(ID, wanted.clone())]), &BTreeMap::new(), HarvestMode::None, now_ms)
        };
        assert_eq!(at(999), []);
        assert_eq!(at(1_000), [Start(ID)]);
        assert_eq!(at(1_000 - 300_000), [], "the longest delay");
        assert_eq!(at(1_000 - 300_001), [Start(ID)], "the clock was set back");
        let pauses: Vec<i64> = (1..=8).map(|failures| retry_after_ms(failures) / 1_000).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(retry_after_ms(u32::MAX), 300_000);
    }
}
