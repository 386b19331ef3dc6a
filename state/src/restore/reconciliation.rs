//! Disk and replica are compared when an agent attaches, before any hook (design 4).

use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::settings::Bag;
use crate::unit::local::{Event, Local, RelationLocal};
use crate::unit::operation::Operation;
use crate::unit::record::Outcome;
use std::collections::BTreeMap;

/// What the controller says at an attach.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    pub store_generation: Uuid,
    pub epoch: u64,
    /// Of the last record applied; 0 = none.
    pub sequence: u64,
    pub digest: &'a str,
    pub replica: Option<&'a Local>,
}

/// What to write down so that disk and controller agree; or why they cannot.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciliation {
    Consistent(Vec<Event>),
    /// The same sequence with other content: this folder, or the controller's record of it, is a copy that went its
    /// own way.
    Forked {
        sequence: u64,
    },
}

/// Empty or behind, the disk takes the replica; ahead, it resends what it has, or restates everything.
pub fn agree(local: &Local, session: &Session, at_ms: i64) -> Reconciliation {
    let attached = |found| Event::Attached {
        store_generation: session.store_generation,
        epoch: session.epoch,
        sequence: session.sequence,
        found,
    };
    if session.sequence > local.sequence {
        let replica = session.replica.expect("a controller that has records has the replica");
        let restored = Event::ReplicaTaken { replica: Box::new(replica.clone()) };
        return Reconciliation::Consistent(vec![restored, attached(BTreeMap::new())]);
    }
    let attached = attached(found(local, session.replica));
    if session.sequence == local.sequence {
        if session.digest != local.digest {
            return Reconciliation::Forked { sequence: session.sequence };
        }
        return Reconciliation::Consistent(vec![attached]);
    }
    let next = local.outbox.iter().find(|record| record.sequence == session.sequence + 1);
    if next.is_some_and(|record| !record.follows(session.digest)) {
        return Reconciliation::Forked { sequence: session.sequence };
    }
    let resend = local.outbox.first().is_some_and(|first| first.sequence <= session.sequence + 1);
    if resend {
        return Reconciliation::Consistent(vec![attached]);
    }
    // the controller lost records this disk no longer has: it was restored from an older copy
    let last_action = local.newest_action();
    let mut agreed = local.clone();
    agreed.apply(&attached);
    // what is still to be told is none of what was published
    let mut memory = Local { outbox: Vec::new(), unheard: Vec::new(), last_action, ..agreed.clone() };
    memory.relations.values_mut().for_each(|relation| relation.lost_bag_changes = None);
    let mut restated = agreed.record(Operation::Resync, Outcome::Ok, at_ms);
    restated.memory = Some(Box::new(memory));
    Reconciliation::Consistent(vec![attached, Event::Finished(restated)])
}

/// Own bags that this memory lost, and that the store has again.
fn found(local: &Local, replica: Option<&Local>) -> BTreeMap<RelationNumber, Bag> {
    let stored = |relation: &RelationLocal| {
        let replica = replica?.relations.values().find(|known| known.uuid == relation.uuid)?;
        replica.lost_bag_changes.is_none().then(|| replica.bag.clone())
    };
    let lost = local.relations.iter().filter(|(_, relation)| relation.lost_bag_changes.is_some());
    lost.filter_map(|(number, relation)| Some((*number, stored(relation)?))).collect()
}

#[cfg(test)]
mod tests {
    use crate::restore::reconciliation::*;
    use crate::unit::operation::Hook;

    /// A unit that has run so many hooks, the last `unsent` of which nobody has answered.
    fn after(hooks: u64, unsent: u64) -> Local {
        let mut local = Local::new(Uuid(1), "web/0".parse().expect("a name"));
        for sequence in 1..=hooks {
            let record = local.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok, sequence as i64);
            local.apply(&Event::Finished(record));
            if sequence <= hooks - unsent {
                local.apply(&Event::Acknowledged { sequence, revision: 1, refusal: None, retry: None });
            }
        }
        local
    }

    fn agreed(local: &Local, sequence: u64, digest: &str) -> Reconciliation {
        let replica = after(sequence, 0);
        let session =
            Session { store_generation: Uuid(2), epoch: 3, sequence, digest, replica: Some(&replica) };
        agree(local, &session, 9)
    }

    #[test]
    fn what_is_unsent_is_sent_where_it_follows_the_last_record_that_was_applied() {
        let attached =
            Event::Attached { store_generation: Uuid(2), epoch: 3, sequence: 4, found: BTreeMap::new() };
        assert_eq!(agreed(&after(6, 2), 4, &after(4, 0).digest), Reconciliation::Consistent(vec![attached]));
    }

    /// A folder is copied; both go on. The store is restored from an older copy. The copy attaches, says all again and
    /// goes on, to record 4. The other has records 5 and 6 unsent, and its own record 4 was answered.
    #[test]
    fn records_of_two_folders_of_one_unit_never_mix() {
        assert_eq!(agreed(&after(6, 2), 4, "of the copy's record 4"), Reconciliation::Forked { sequence: 4 });
        assert_eq!(agreed(&after(6, 3), 4, "of the copy's record 4"), Reconciliation::Forked { sequence: 4 });
    }

    #[test]
    fn a_disk_that_is_ahead_of_a_restored_store_says_all_again() {
        let Reconciliation::Consistent(events) = agreed(&after(6, 1), 3, &after(3, 0).digest) else {
            panic!("its own")
        };
        assert!(matches!(&events[..], [_, Event::Finished(record)] if record.operation == Operation::Resync));
    }
}
