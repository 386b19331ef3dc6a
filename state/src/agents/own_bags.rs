//! A replica without the bags of its unit, as it is stored.

use crate::documents::draft::Draft;
use crate::documents::prelude::Model;
use crate::terms::names::Uuid;
use crate::terms::settings::BagChange;
use crate::unit::local::Local;

/// Removes the bags from a replica before it is stored: they are documents of their own, and several large ones
/// would exceed a transaction. [`insert_own_bags`] inserts them again. The application settings that a leader wrote are
/// removed, too; they are in the view that its agent receives.
pub(crate) fn strip_own_bags(local: &mut Local) {
    for relation in local.relations.values_mut() {
        relation.bag.clear();
        relation.pending_application_writes = None;
    }
}

/// Inserts the bags of the unit into a replica for an attaching agent. Pending application writes are not restored: the
/// view contains them.
///
/// The bags may be read untracked, because this draft has read the replica, and every transaction that writes a
/// bag of the unit writes the replica, too. The exception is a batch of an unfinished resync, whose
/// record writes the replica.
///
/// The bag of a relation that was removed from the store is lost: it is empty here, and
/// [`RelationLocal::lost_bag_changes`](crate::unit::local::RelationLocal::lost_bag_changes) is set. What the unit writes
/// into such a bag later is stored on its disk only. If its folder is lost a second time, these writes are lost as well.
pub(crate) fn insert_own_bags(draft: &Draft, model: Model, unit: Uuid, local: &mut Local) {
    for relation in local.relations.values_mut() {
        let bag = draft.get_untracked(&model.bag(relation.uuid, unit));
        relation.lost_bag_changes = bag.is_none().then(BagChange::new);
        relation.bag = bag.map(|bag| bag.values).unwrap_or_default();
    }
}
