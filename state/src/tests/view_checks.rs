//! The views of units and machines, checked after every transaction of every test.

use crate::documents::prelude::MachineDoc;
use crate::tests::*;
use crate::unit::relation_view::BagView;
use crate::unit::snapshot::{Change, Delta, Snapshot};
use crate::views::decision_view::decision_view;
use crate::views::delta::{affected_parts, delta};
use crate::views::machine_view;
use crate::views::view;

/// What is left of a view in a decision view.
fn without_cold_data(mut view: Snapshot) -> Snapshot {
    (view.statuses, view.machine_ports) = Default::default();
    view.application_status = None;
    view.leader_settings.values.clear();
    view.position.store_generation = Uuid(0);
    for (_, bag) in view.relations.values_mut().flat_map(|relation| &mut relation.bags) {
        *bag = BagView::with_values(bag.counter, Default::default());
        bag.bytes = 0;
    }
    view
}

impl World {
    /// The fold of deltas is the full view, and no change is empty or repeated.
    pub(super) fn watch(&mut self, changed: &[String]) {
        self.sent.clear();
        let at = self.documents.clone();
        let position = Position { store_generation: Uuid(0), revision: at.revision() };
        for ((id, bound), (snapshot, shown)) in &mut self.watched {
            let written =
                changed.iter().map(|key| (key.as_str(), at.map.get(key).map(|(_, value)| value.as_str())));
            let parts = affected_parts(shown, written);
            self.computed.extend(parts.is_some().then_some(*id));
            let update = parts.map_or_else(Default::default, |parts| delta(&at, shown, &parts));
            shown.apply(&update);
            let changes = update.changes;
            for change in &changes {
                let before = snapshot.clone();
                snapshot.apply(Delta {
                    position: before.position,
                    full: false,
                    changes: vec![change.clone()],
                });
                let left = matches!(change, Change::Member { incarnation: None, .. });
                assert!(left || *snapshot != before, "a change that changes nothing: {change:?}");
            }
            snapshot.apply(Delta { position, full: false, changes: Vec::new() });
            match view::full_view_within(&at, MODEL, *id, *bound) {
                Some(full) => {
                    assert_eq!(*shown, full.shown());
                    let expected = Snapshot::from_full(full.delta).expect("complete");
                    assert_eq!(*snapshot, expected, "the fold of deltas after {changed:?}");
                    let decided = decision_view(&at, MODEL, *id).expect("there is a view");
                    assert_eq!(decided, without_cold_data(expected), "the decision view after {changed:?}");
                }
                None => assert!(snapshot.removed, "a removed unit receives its tombstone"),
            }
            if *bound == INLINE_BYTES_MAX {
                self.sent.insert(*id, changes);
            }
        }
        self.watched.retain(|_, (snapshot, _)| !snapshot.removed);
        for (key, _) in read_all::<UnitDoc>(&at, &MODEL.prefix(Kind::Unit)) {
            let id = last_id(&key).expect("an id");
            for bound in BOUNDS {
                self.watched.entry((id, bound)).or_insert_with(|| {
                    let full = view::full_view_within(&at, MODEL, id, bound).expect("there is a view");
                    let shown = full.shown();
                    (Snapshot::from_full(full.delta).expect("complete"), shown)
                });
            }
        }
    }

    /// A commit that does not affect the view of a machine leaves it as it is.
    pub(super) fn watch_machines(&mut self, before: &Documents, changed: &[String]) {
        for (key, _) in read_all::<MachineDoc>(before, &MODEL.prefix(Kind::Machine)) {
            let id = last_id(&key).expect("an id");
            let shown = machine_view::view(before, MODEL, id).expect("there is a view");
            if changed.iter().any(|key| machine_view::is_affected(&shown, id, key)) {
                self.computed.insert(id);
                continue;
            }
            let mut now = machine_view::view(&self.documents, MODEL, id).expect("it was not removed");
            now.position = shown.position;
            assert_eq!(now, shown, "after {changed:?}");
        }
    }
}
