//! What is left of a view in a decision view.

use crate::terms::names::Uuid;
use crate::unit::relation_view::BagView;
use crate::unit::snapshot::Snapshot;

/// What is left of a view in a decision view.
pub(super) fn without_cold_data(mut view: Snapshot) -> Snapshot {
    (view.statuses, view.dying_units, view.machine_ports) = Default::default();
    view.application_status = None;
    view.leader_settings.values.clear();
    view.position.store_generation = Uuid(0);
    for (_, bag) in view.relations.values_mut().flat_map(|relation| &mut relation.bags) {
        *bag = BagView::with_values(bag.counter, Default::default());
        bag.bytes = 0;
    }
    view
}
