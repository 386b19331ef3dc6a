//! What a provider does about the machines of a model (spec F.3): a plan from what the controller wants and what the
//! provider has. Executed again from the start after any crash, it starts a machine once and leaves nothing behind.
//!
//! How a machine is started once, though the provisioner dies in between (scenario 183):
//! 1. A nonce is recorded for the machine. One that is recorded already stays.
//! 2. The provider makes the instance under that nonce; one that is there under it is finished, not made again.
//! 3. What was made is recorded. A crash before that: the next plan finds the instance, and records it.

use crate::terms::life::Life;
use crate::terms::names::Uuid;
use std::collections::BTreeMap;

/// Who makes instances, and takes them away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// This provisioner.
    #[default]
    Own,
    /// A person, who brought the machine: its agent takes itself away, and says so.
    Person,
}

/// A machine as the controller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesiredMachine {
    pub life: Life,
    pub owner: Owner,
    /// The nonce of the instance that is to be, or was, started.
    pub nonce: Option<Uuid>,
    /// An instance was recorded.
    pub started: bool,
    /// That one stays when the machine goes.
    pub kept: bool,
    /// Nobody waits for the agent on it any more.
    pub left: bool,
    /// Units are assigned to it.
    pub occupied: bool,
    /// One of them has lived: it ends only where there is an agent for it.
    pub lived: bool,
    /// Something failed: not tried again before this time.
    pub retry_ms: Option<i64>,
}

/// An instance that the provider has, by its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The nonce it was made under.
    pub nonce: Uuid,
    /// What the controller knows of its machine, when that is not among those wanted.
    pub fate: Fate,
}

/// What is known of the machine of an instance that is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was removed, in a known history.
    Removed,
    /// Nothing is known of it.
    Unknown,
}

/// Which instances that no machine wants are taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HarvestMode {
    None,
    /// Those nothing is known of.
    Unknown,
    /// Those of machines that were removed: absence alone is not death.
    #[default]
    Destroyed,
    All,
}

impl HarvestMode {
    /// As the model setting names it.
    pub fn parse(text: &str) -> Option<HarvestMode> {
        match text {
            "none" => Some(HarvestMode::None),
            "unknown" => Some(HarvestMode::Unknown),
            "destroyed" => Some(HarvestMode::Destroyed),
            "all" => Some(HarvestMode::All),
            _ => None,
        }
    }

    fn takes(self, fate: Fate) -> bool {
        match fate {
            Fate::Removed => matches!(self, HarvestMode::Destroyed | HarvestMode::All),
            Fate::Unknown => matches!(self, HarvestMode::Unknown | HarvestMode::All),
        }
    }
}

/// One thing to do; each may be repeated, and any may be cut off by a crash and done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Record a nonce if there is none, make the instance, record it.
    Start(Uuid),
    /// The instance is there: see that it is recorded, and that it runs.
    Keep(Uuid),
    /// Take the instance away, with all that is in it.
    Stop(Uuid),
    /// The instance is its user's from here on: it is not found any more.
    HandOver(Uuid),
    /// No instance was made and none will be: say that the machine is Dead.
    SetDead(Uuid),
    /// Remove the record of a Dead machine that has no instance.
    Remove(Uuid),
}

impl Step {
    /// Whom it is about.
    pub fn machine(self) -> Uuid {
        match self {
            Step::Start(id) | Step::Keep(id) | Step::Stop(id) => id,
            Step::HandOver(id) | Step::SetDead(id) | Step::Remove(id) => id,
        }
    }
}

/// What to do, in order of uuids. A machine whose last step failed waits for its time.
pub fn plan(
    wanted: &BTreeMap<Uuid, DesiredMachine>,
    found: &BTreeMap<Uuid, Found>,
    harvest: HarvestMode,
    now_ms: i64,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (id, machine) in wanted {
        if machine.retry_ms.is_none_or(|retry_ms| is_due(retry_ms, now_ms)) {
            steps.extend(step(*id, machine, found.get(id)));
        }
    }
    let nobodys = found.iter().filter(|(id, one)| !wanted.contains_key(id) && harvest.takes(one.fate));
    steps.extend(nobodys.map(|(id, _)| Step::Stop(*id)));
    steps
}

/// The time has come, or the clock was put back: no step waits longer than the longest pause.
fn is_due(retry_ms: i64, now_ms: i64) -> bool {
    retry_ms <= now_ms || retry_ms > now_ms.saturating_add(RETRY_MAX_MS)
}

fn step(id: Uuid, machine: &DesiredMachine, found: Option<&Found>) -> Vec<Step> {
    if machine.owner == Owner::Person {
        return match (machine.life, machine.started) {
            (Life::Dying, false) => vec![Step::SetDead(id)],
            (Life::Dead, false) => vec![Step::Remove(id)],
            // its agent takes itself away, and the record goes with that
            (Life::Alive, _) | (Life::Dying | Life::Dead, true) => vec![],
        };
    }
    // Another recorded nonce is evidence; that none is recorded is not: a restored store may not know of the start.
    let other = found.is_some_and(|found| machine.nonce.is_some_and(|recorded| found.nonce != recorded));
    match (machine.life, found) {
        // one that another controller's history started under this machine's name: it goes first
        (Life::Alive | Life::Dying, Some(_)) if other => vec![Step::Stop(id)],
        // no start was recorded, and none will be: it has nothing to end on it (scenario 184)
        (Life::Dying, Some(_)) if machine.nonce.is_none() && !machine.occupied => vec![Step::Stop(id)],
        (Life::Alive, None) => vec![Step::Start(id)],
        (Life::Alive | Life::Dying, Some(_)) => vec![Step::Keep(id)],
        // An instance that was lost: its units come to their end on another, out of what the controller knows of them.
        // That it was started may be forgotten: 1. it is, and its unit attaches, before the start is recorded. 2. The
        // store is restored to then. 3. The instance is another one's, and goes (cargo sim 51234511).
        (Life::Dying, None) if machine.occupied && (machine.started || machine.lived) => {
            vec![Step::Start(id)]
        }
        (Life::Dying, None) => vec![Step::SetDead(id)],
        // It runs until its agent has taken itself away and said so. The record stays until it is handed over: an
        // instance whose machine is gone is harvested. So is one that is not listed yet (cargo sim 57006733).
        (Life::Dead, Some(_)) if machine.kept && !other && !machine.left => vec![Step::Keep(id)],
        (Life::Dead, _) if machine.kept && !other => vec![Step::HandOver(id), Step::Remove(id)],
        (Life::Dead, None) if machine.nonce.is_none() => vec![Step::Remove(id)],
        // One that is not listed goes too: 1. an instance is made, which the provider lists seconds later only. 2. The
        // machine is Dead by then, and the model with it: nobody would look again (cargo sim 51023754).
        (Life::Dead, _) => vec![Step::Stop(id), Step::Remove(id)],
    }
}

/// Between the first failure and the next try.
const RETRY_FIRST_MS: i64 = 5_000;
/// 5 s doubled six times is 320 s: from then on a try every 5 minutes.
const RETRY_MAX_MS: i64 = 300_000;

/// How long after its n-th failure in a row a step is tried again; n begins at 1.
pub fn retry_after_ms(failures: u32) -> i64 {
    let doubled = RETRY_FIRST_MS.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(RETRY_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Step::{HandOver, Keep, Remove, SetDead, Start, Stop};

    const ID: Uuid = Uuid(7);
    const NONCE: Uuid = Uuid(70);

    fn machine(life: Life) -> DesiredMachine {
        DesiredMachine {
            life,
            owner: Owner::Own,
            nonce: None,
            started: false,
            kept: false,
            left: false,
            occupied: false,
            lived: false,
            retry_ms: None,
        }
    }

    fn instance(nonce: Uuid) -> Found {
        Found { nonce, fate: Fate::Unknown }
    }

    fn planned(machine: DesiredMachine, found: Option<Found>) -> Vec<Step> {
        let found = found.map(|found| (ID, found)).into_iter().collect();
        plan(&BTreeMap::from([(ID, machine)]), &found, HarvestMode::default(), 0)
    }

    #[test]
    fn scenario_183_a_machine_is_started_once_wherever_its_provisioner_dies() {
        let mut wanted = machine(Life::Alive);
        assert_eq!(planned(wanted, None), [Start(ID)]);
        wanted.nonce = Some(NONCE); // died after it was recorded
        assert_eq!(planned(wanted, None), [Start(ID)]);
        // died after the instance was made, then after it was recorded
        assert_eq!(planned(wanted, Some(instance(NONCE))), [Keep(ID)]);
        wanted.started = true;
        assert_eq!(planned(wanted, Some(instance(NONCE))), [Keep(ID)]);
    }

    #[test]
    fn scenario_184_a_dying_machine_without_instance_is_dead_and_removed_and_never_started() {
        for nonce in [None, Some(NONCE)] {
            assert_eq!(planned(DesiredMachine { nonce, ..machine(Life::Dying) }, None), [SetDead(ID)]);
        }
        assert_eq!(planned(machine(Life::Dead), None), [Remove(ID)]);
    }

    #[test]
    fn an_instance_that_may_have_been_made_goes_before_the_record_though_it_is_not_listed() {
        let wanted = DesiredMachine { nonce: Some(NONCE), ..machine(Life::Dead) };
        assert_eq!(planned(wanted, None), [Stop(ID), Remove(ID)]);
    }

    #[test]
    fn a_kept_instance_is_handed_over_once_its_agent_is_gone() {
        let wanted = |life| DesiredMachine { nonce: Some(NONCE), started: true, kept: true, ..machine(life) };
        let found = Some(instance(NONCE));
        for life in [Life::Alive, Life::Dying, Life::Dead] {
            assert_eq!(
                planned(wanted(life), found),
                [Keep(ID)],
                "its agent has its end before it, or to say"
            );
        }
        let left = DesiredMachine { left: true, ..wanted(Life::Dead) };
        assert_eq!(planned(left, found), [HandOver(ID), Remove(ID)]);
        for unlisted in [left, wanted(Life::Dead)] {
            assert_eq!(planned(unlisted, None), [HandOver(ID), Remove(ID)], "lost, or not listed yet");
        }
        let others = Some(instance(Uuid(71)));
        assert_eq!(planned(left, others), [Stop(ID), Remove(ID)], "not the one that is kept");
    }

    #[test]
    fn an_unrecorded_instance_of_a_dying_machine_goes_unless_units_are_to_end_on_it() {
        let dying = machine(Life::Dying);
        assert_eq!(planned(dying, Some(instance(NONCE))), [Stop(ID)]);
        assert_eq!(planned(DesiredMachine { occupied: true, ..dying }, Some(instance(NONCE))), [Keep(ID)]);
    }

    #[test]
    fn a_dying_machine_whose_instance_was_lost_gets_another_for_its_units_to_end_on() {
        let lost =
            DesiredMachine { nonce: Some(NONCE), started: true, occupied: true, ..machine(Life::Dying) };
        assert_eq!(planned(lost, None), [Start(ID)]);
        assert_eq!(planned(DesiredMachine { occupied: false, ..lost }, None), [SetDead(ID)]);
        let forgotten = DesiredMachine { started: false, ..lost };
        assert_eq!(planned(forgotten, None), [SetDead(ID)], "nobody has lived there");
        assert_eq!(planned(DesiredMachine { lived: true, ..forgotten }, None), [Start(ID)]);
    }

    #[test]
    fn a_dead_machines_instance_goes_before_its_record() {
        let wanted = DesiredMachine { nonce: Some(NONCE), started: true, ..machine(Life::Dead) };
        assert_eq!(planned(wanted, Some(instance(NONCE))), [Stop(ID), Remove(ID)]);
    }

    #[test]
    fn an_instance_of_another_start_makes_way() {
        let wanted = DesiredMachine { nonce: Some(NONCE), ..machine(Life::Alive) };
        assert_eq!(planned(wanted, Some(instance(Uuid(71)))), [Stop(ID)]);
    }

    #[test]
    fn an_instance_is_kept_that_a_store_without_its_nonce_finds() {
        // the controller was restored from a copy that is older than the start
        for life in [Life::Alive, Life::Dying] {
            let wanted = DesiredMachine { occupied: true, ..machine(life) };
            assert_eq!(planned(wanted, Some(instance(NONCE))), [Keep(ID)], "{life:?}");
        }
    }

    #[test]
    fn instances_that_no_machine_wants_are_taken_by_the_harvest_mode() {
        let found = BTreeMap::from([
            (Uuid(1), Found { nonce: NONCE, fate: Fate::Removed }),
            (Uuid(2), Found { nonce: NONCE, fate: Fate::Unknown }),
        ]);
        let taken = |mode: &str| plan(&BTreeMap::new(), &found, HarvestMode::parse(mode).unwrap(), 0);
        assert_eq!(taken("none"), []);
        assert_eq!(taken("destroyed"), [Stop(Uuid(1))]);
        assert_eq!(taken("unknown"), [Stop(Uuid(2))]);
        assert_eq!(taken("all"), [Stop(Uuid(1)), Stop(Uuid(2))]);
        assert_eq!(HarvestMode::default(), HarvestMode::Destroyed);
        assert_eq!(HarvestMode::parse("some"), None);
    }

    #[test]
    fn a_machine_that_a_person_brought_ends_by_its_own_agent() {
        let brought = |life, started| DesiredMachine { owner: Owner::Person, started, ..machine(life) };
        assert_eq!(planned(brought(Life::Alive, false), None), []);
        assert_eq!(planned(brought(Life::Dying, true), None), []);
        assert_eq!(planned(brought(Life::Dead, true), None), []);
        assert_eq!(planned(brought(Life::Dying, false), None), [SetDead(ID)], "nobody ever came");
        assert_eq!(planned(brought(Life::Dead, false), None), [Remove(ID)]);
    }

    #[test]
    fn what_failed_waits_for_its_time() {
        let wanted = DesiredMachine { retry_ms: Some(1_000), ..machine(Life::Alive) };
        let at = |now_ms| plan(&BTreeMap::from([(ID, wanted)]), &BTreeMap::new(), HarvestMode::None, now_ms);
        assert_eq!(at(999), []);
        assert_eq!(at(1_000), [Start(ID)]);
        assert_eq!(at(1_000 - 300_000), [], "the longest pause");
        assert_eq!(at(1_000 - 300_001), [Start(ID)], "the clock was put back");
        let pauses: Vec<i64> = (1..=8).map(|failures| retry_after_ms(failures) / 1_000).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(retry_after_ms(u32::MAX), 300_000);
    }
}
