//! A replica without the bags of its unit, as it is stored.

use crate::documents::draft::Draft;
use crate::documents::prelude::Model;
use crate::terms::names::Uuid;
use crate::terms::settings::BagChange;
use crate::unit::local::Local;

/// Removes the bags from a replica before it is stored: they are documents of their own, and several large ones
/// would exceed a transaction. [`restore_bags`] puts them back. The application settings that a leader wrote are
/// removed, too; they are in the view that its agent receives.
pub(crate) fn strip_own_bags(local: &mut Local) {
    for relation in local.relations.values_mut() {
        relation.bag.clear();
        relation.pending_application_writes = None;
    }
}

/// Puts the bags back into a replica for an attaching agent; the inverse of [`strip_own_bags`].
///
/// The bags may be read untracked, because this draft has read the replica, and every transaction that writes a
/// bag of the unit writes the replica, too. The exception is a batch of an unfinished resync, whose last batch
/// writes it again. Bags of relations that are removed are cleared.
pub(crate) fn restore_bags(draft: &Draft, model: Model, unit: Uuid, local: &mut Local) {
    for relation in local.relations.values_mut() {
        let bag = draft.get_untracked(&model.bag(relation.uuid, unit));
        relation.lost_bag_changes = bag.is_none().then(BagChange::new);
        relation.bag = bag.map(|bag| bag.values).unwrap_or_default();
    }
}
