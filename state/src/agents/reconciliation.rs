//! Compares the state on the agent's disk with the controller's replica when an agent attaches, before any hook
//! runs (design 4).
//!
//! The result is either the events that the agent journals so that both agree, or the finding that two folders have
//! written for one unit. Called by the unit agent.

use crate::agents::session::GrantedSession;
use crate::terms::names::RelationNumber;
use crate::terms::operation::Operation;
use crate::terms::settings::Bag;
use crate::unit::local::{Event, Local, RelationLocal};
use crate::unit::record::Outcome;
use std::collections::BTreeMap;

/// The result of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciliation {
    /// The agent continues after it has journaled these events, which include a resynchronisation if records were lost.
    Continue(Vec<Event>),
    /// The disk and the controller have records with the same sequence number and different contents: the unit's folder
    /// was copied, and both agents continued.
    Forked {
        /// The sequence number of the last record that the controller applied.
        sequence: u64,
    },
}

/// Compares the state on disk with a session. If the disk is empty or behind, the agent takes the replica; if the disk
/// is ahead, the agent sends its unacknowledged records again, or resynchronises if the controller has lost others.
pub fn reconcile(local: &Local, session: &GrantedSession, at_ms: i64) -> Reconciliation {
    let replica = session.replica.as_ref();
    // the last record that the controller has applied
    let (sequence, digest) = replica.map_or((0, ""), |replica| (replica.sequence, &replica.digest));
    let attached = |recovered_bags| Event::Attached {
        store_generation: session.store_generation,
        epoch: session.epoch,
        sequence,
        recovered_bags,
    };
    if let Some(replica) = replica.filter(|replica| replica.sequence > local.sequence) {
        let replica_taken = Event::ReplicaTaken { replica: Box::new(replica.clone()) };
        return Reconciliation::Continue(vec![replica_taken, attached(BTreeMap::new())]);
    }
    let attached = attached(recovered_bags(local, replica));
    if sequence == local.sequence {
        if digest != local.digest {
            return Reconciliation::Forked { sequence };
        }
        return Reconciliation::Continue(vec![attached]);
    }
    let next = local.outbox.iter().find(|record| record.sequence == sequence + 1);
    if next.is_some_and(|record| !record.is_successor_of(digest)) {
        return Reconciliation::Forked { sequence };
    }
    let resend = local.outbox.first().is_some_and(|first| first.sequence <= sequence + 1);
    if resend {
        return Reconciliation::Continue(vec![attached]);
    }
    // the controller lost records that this disk no longer has: it was restored from a backup
    let last_action = local.newest_action();
    let mut reconciled = local.clone();
    reconciled.apply(&attached);
    // unsent reports are not part of what was published
    let mut published =
        Local { outbox: Vec::new(), unrecorded_reports: Vec::new(), last_action, ..reconciled.clone() };
    for relation in published.relations.values_mut() {
        relation.lost_bag_changes = None;
        // a restored store is not given what it has lost of the settings of the application, and all of them together
        // could exceed a request
        relation.pending_application_writes = None;
    }
    let mut resync = reconciled.record(Operation::Resync, Outcome::Ok, at_ms);
    resync.resync_local = Some(Box::new(published));
    Reconciliation::Continue(vec![attached, Event::Finished(resync)])
}

/// The bags of the unit that the disk has lost and that the store still has.
fn recovered_bags(local: &Local, replica: Option<&Local>) -> BTreeMap<RelationNumber, Bag> {
    let stored = |relation: &RelationLocal| {
        let replica = replica?.relations.values().find(|known| known.uuid == relation.uuid)?;
        replica.lost_bag_changes.is_none().then(|| replica.bag.clone())
    };
    let lost = local.relations.iter().filter(|(_, relation)| relation.lost_bag_changes.is_some());
    lost.filter_map(|(number, relation)| Some((*number, stored(relation)?))).collect()
}

#[cfg(test)]
mod tests {
    use crate::agents::reconciliation::*;
    use crate::terms::names::Uuid;
    use crate::terms::operation::Hook;

    /// A unit that has run `hooks` hooks, the last `unsent` of which were not acknowledged.
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

    fn reconciled(local: &Local, sequence: u64, digest: &str) -> Reconciliation {
        let replica = Local { digest: digest.to_owned(), ..after(sequence, 0) };
        let session = GrantedSession { store_generation: Uuid(2), epoch: 3, replica: Some(replica) };
        reconcile(local, &session, 9)
    }

    /// The changes of all relations together could exceed a request, and the controller stores none of them.
    #[test]
    fn a_resync_has_no_settings_of_the_application() {
        let mut local = after(3, 0);
        let number = 7;
        let relation: RelationLocal = serde_json::from_value(serde_json::json!({
            "uuid": Uuid(5), "created": true, "members": {}, "applications": {}, "pending_changed": null, "bag": {"a": "1"},
            "pending_application_writes": [2, {"large": "x"}],
            "local_endpoint": {"endpoint": "db", "interface": "sql", "peer": false, "implicit": false,
                               "remote_application": "db"},
        }))
        .expect("a relation");
        local.relations.insert(number, relation);
        let Reconciliation::Continue(events) = reconciled(&local, 1, "old") else { panic!("it continues") };
        let Some(Event::Finished(resync)) = events.last() else { panic!("it resynchronises: {events:?}") };
        let published = &resync.resync_local.as_ref().expect("a resync has a state").relations[&number];
        assert_eq!(published.pending_application_writes, None);
        assert_eq!(published.bag["a"], "1");
    }

    #[test]
    fn unsent_records_are_sent_if_they_follow_the_last_applied_record() {
        let attached = Event::Attached {
            store_generation: Uuid(2),
            epoch: 3,
            sequence: 4,
            recovered_bags: BTreeMap::new(),
        };
        assert_eq!(
            reconciled(&after(6, 2), 4, &after(4, 0).digest),
            Reconciliation::Continue(vec![attached])
        );
    }

    /// A folder is copied, and both agents continue. The store is restored from a backup. The agent of the copy
    /// attaches, resynchronises and continues to record 4. The other has records 5 and 6 unsent, and its own
    /// record 4 was acknowledged.
    #[test]
    fn records_of_two_folders_of_one_unit_never_mix() {
        assert_eq!(
            reconciled(&after(6, 2), 4, "of the copy's record 4"),
            Reconciliation::Forked { sequence: 4 }
        );
        assert_eq!(
            reconciled(&after(6, 3), 4, "of the copy's record 4"),
            Reconciliation::Forked { sequence: 4 }
        );
    }

    #[test]
    fn a_disk_that_is_ahead_of_a_restored_store_resynchronises() {
        let Reconciliation::Continue(events) = reconciled(&after(6, 1), 3, &after(3, 0).digest) else {
            panic!("its own")
        };
        assert!(matches!(&events[..], [_, Event::Finished(record)] if record.operation == Operation::Resync));
    }
}
