//! The deployer's whole decision table (spec F.2, with absence never taken for death, design 7).

use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::views::view::Fate;
use std::collections::{BTreeMap, BTreeSet};

/// What the controller says of a unit that is deployed here but not assigned here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A tombstone of this uuid in a known history.
    Removed,
    /// The unit's own folder says that it is finished, which the controller had agreed to: a store restored from a
    /// copy older than the unit knows nothing of it. Or no agent ever began in it: the store was restored before the
    /// controller heard of it (cargo sim 307 at a51c64d).
    Finished,
    /// The controller, asked, does not know it, and it stands in the way: another unit that is assigned here has its
    /// name, or the machine waits for nothing else to go.
    Displaced,
    /// The controller refused its removal: it has lived, and must end properly.
    WasAttached,
    /// Not found, not authorised, assigned elsewhere: no evidence.
    None,
}

/// Nothing that the controller knows of is to run on a machine that goes away. 1. web/0 is deployed on machine 0. 2. The
/// controller is restored from a copy that knows nothing of web/0. 3. Machine 0 is removed. It would be Dying for ever:
/// nobody ends a unit that nobody knows. Set aside, it is taken back if the right copy is restored in time.
pub fn is_leaving(life: Life, assigned: usize) -> bool {
    life != Life::Alive && assigned == 0
}

/// What is to be believed of a unit that is deployed here but not assigned here: the controller's word that it was
/// removed before the folder's own, and that before its standing in the way. `told` is the controller's answer, if it
/// gave one; without it nothing is.
pub fn evidence(told: Option<Fate>, finished: bool, in_the_way: bool) -> Evidence {
    match (told, finished, in_the_way) {
        (Some(Fate::Tombstone), _, _) => Evidence::Removed,
        (Some(Fate::Known(_) | Fate::Unknown), true, _) => Evidence::Finished,
        (Some(Fate::Unknown), false, true) => Evidence::Displaced,
        (Some(Fate::Known(_) | Fate::Unknown), false, _) | (None, _, _) => Evidence::None,
    }
}

/// One thing to do; each may be repeated, and any may be cut off by a crash and done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Make the folder, give it a token, start the agent.
    Deploy(Uuid),
    /// See that its agent runs.
    Keep(Uuid),
    /// Stop the agent, forget the folder.
    Recall(Uuid),
    /// Tell the controller that nothing of the unit is here.
    Remove(Uuid),
    /// Stop the agent, keep the folder under another name. 1. web/0 is deployed. 2. The controller is restored from an
    /// older copy, and knows nothing of it. 3. It makes another web/0, to run here. Nothing says that the first is
    /// dead, so nothing of it is deleted; nor may it keep the other one out for ever, or a machine from going
    /// ([`is_leaving`]).
    SetAside(Uuid),
}

/// What to do about the difference, in order of uuids; what makes room comes first, so that a unit is deployed in the
/// round in which another one leaves its name.
pub fn plan(
    assigned: &BTreeMap<Uuid, Life>,
    deployed: &BTreeSet<Uuid>,
    evidence: &BTreeMap<Uuid, Evidence>,
) -> Vec<Step> {
    let both: BTreeSet<Uuid> = assigned.keys().chain(deployed).copied().collect();
    let steps = both.into_iter().flat_map(|unit| step(unit, assigned.get(&unit), deployed, evidence));
    let (mut room, rest): (Vec<Step>, Vec<Step>) =
        steps.partition(|step| matches!(step, Step::SetAside(_) | Step::Recall(_)));
    room.extend(rest);
    room
}

fn step(
    unit: Uuid,
    life: Option<&Life>,
    deployed: &BTreeSet<Uuid>,
    evidence: &BTreeMap<Uuid, Evidence>,
) -> Vec<Step> {
    match (deployed.contains(&unit), life) {
        (false, Some(Life::Alive)) => vec![Step::Deploy(unit)],
        // no agent is started only to die; a unit that lived and whose folder is gone takes the replica and ends
        (false, Some(Life::Dying | Life::Dead)) => match evidence.get(&unit) {
            Some(Evidence::WasAttached) => vec![Step::Deploy(unit)],
            Some(Evidence::Removed | Evidence::Finished | Evidence::Displaced | Evidence::None) | None => {
                vec![Step::Remove(unit)]
            }
        },
        (false, None) => vec![],
        (true, Some(Life::Alive | Life::Dying)) => vec![Step::Keep(unit)],
        (true, Some(Life::Dead)) => vec![Step::Recall(unit), Step::Remove(unit)],
        (true, None) => match evidence.get(&unit).unwrap_or(&Evidence::None) {
            Evidence::Removed | Evidence::Finished => vec![Step::Recall(unit)],
            Evidence::Displaced => vec![Step::SetAside(unit)],
            Evidence::WasAttached | Evidence::None => vec![Step::Keep(unit)],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(deployed: bool, life: Option<Life>, evidence: Evidence) -> Vec<Step> {
        let unit = Uuid(7);
        plan(
            &life.map(|life| (unit, life)).into_iter().collect(),
            &deployed.then_some(unit).into_iter().collect(),
            &BTreeMap::from([(unit, evidence)]),
        )
    }

    #[test]
    fn the_table_is_that_of_the_spec() {
        use Step::{Deploy, Keep, Recall, Remove};
        let unit = Uuid(7);
        let rows = [
            (false, Some(Life::Alive), vec![Deploy(unit)]),
            (false, Some(Life::Dying), vec![Remove(unit)]),
            (false, Some(Life::Dead), vec![Remove(unit)]),
            (false, None, vec![]),
            (true, Some(Life::Alive), vec![Keep(unit)]),
            (true, Some(Life::Dying), vec![Keep(unit)]),
            (true, Some(Life::Dead), vec![Recall(unit), Remove(unit)]),
        ];
        for (deployed, life, steps) in rows {
            assert_eq!(planned(deployed, life, Evidence::None), steps, "{deployed} {life:?}");
        }
    }

    #[test]
    fn a_dying_unit_that_lived_and_lost_its_folder_is_deployed_to_end_properly() {
        assert_eq!(planned(false, Some(Life::Dying), Evidence::WasAttached), [Step::Deploy(Uuid(7))]);
        assert_eq!(planned(false, Some(Life::Dying), Evidence::None), [Step::Remove(Uuid(7))]);
        assert_eq!(planned(false, None, Evidence::WasAttached), []);
    }

    #[test]
    fn an_unknown_folder_makes_room_for_another_unit_of_its_name() {
        let assigned = BTreeMap::from([(Uuid(6), Life::Alive)]);
        let evidence = BTreeMap::from([(Uuid(7), Evidence::Displaced)]);
        let steps = plan(&assigned, &BTreeSet::from([Uuid(7)]), &evidence);
        assert_eq!(steps, [Step::SetAside(Uuid(7)), Step::Deploy(Uuid(6))]);
        let evidence = BTreeMap::from([(Uuid(7), Evidence::Removed)]);
        let steps = plan(&assigned, &BTreeSet::from([Uuid(7)]), &evidence);
        assert_eq!(steps, [Step::Recall(Uuid(7)), Step::Deploy(Uuid(6))]);
    }

    #[test]
    fn only_a_machine_that_goes_away_with_no_unit_assigned_waits_for_what_nobody_knows() {
        let rows = [(Life::Alive, [false, false]), (Life::Dying, [true, false]), (Life::Dead, [true, false])];
        for (life, leaving) in rows {
            assert_eq!([0, 1].map(|assigned| is_leaving(life, assigned)), leaving, "{life:?}");
        }
    }

    #[test]
    fn a_tombstone_counts_before_the_units_own_word_and_that_before_its_standing_in_the_way() {
        let unknown = |finished, wanted| evidence(Some(Fate::Unknown), finished, wanted);
        assert_eq!(evidence(Some(Fate::Tombstone), true, true), Evidence::Removed);
        assert_eq!(unknown(true, true), Evidence::Finished);
        assert_eq!(unknown(false, true), Evidence::Displaced);
        assert_eq!(unknown(false, false), Evidence::None);
        let elsewhere = Some(Fate::Known(Life::Alive));
        assert_eq!(evidence(elsewhere, true, true), Evidence::Finished);
        assert_eq!(evidence(elsewhere, false, true), Evidence::None, "known, so it goes the usual way");
        assert_eq!(evidence(None, true, true), Evidence::None, "the controller was not asked");
    }

    #[test]
    fn absence_is_not_death() {
        assert_eq!(planned(true, None, Evidence::None), [Step::Keep(Uuid(7))]);
        assert_eq!(planned(true, None, Evidence::Removed), [Step::Recall(Uuid(7))]);
        assert_eq!(planned(true, None, Evidence::Finished), [Step::Recall(Uuid(7))], "its own word");
        assert_eq!(
            planned(true, Some(Life::Alive), Evidence::Finished),
            [Step::Keep(Uuid(7))],
            "a person decides"
        );
    }
}
