//! A dry run is bounded, and reports that it is truncated.

use crate::documents::blockers::EntityId;
use crate::documents::draft::{Revision, StoredDocument};
use crate::terms::force::Force;
use crate::tests::dry_run::fixture::{dry_run_alone, dry_run_together, dry_run_within, related_units};
use crate::tests::*;
use crate::transitions::dry_run::{Removal, require_count};
use std::cell::Cell;

/// Documents that count how many of them were read.
struct CountingReader<'d> {
    documents: &'d Documents,
    read: Cell<usize>,
}

impl Reader for CountingReader<'_> {
    fn revision(&self) -> Revision {
        self.documents.revision()
    }
    fn get(&self, key: &str) -> Option<StoredDocument> {
        self.read.set(self.read.get() + 1);
        self.documents.get(key)
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let found = self.documents.scan(prefix, after, limit);
        self.read.set(self.read.get() + found.len());
        found
    }
}

#[test]
fn a_dry_run_of_a_large_model_is_bounded_and_reports_that_it_is_truncated() {
    let (many, web, relation) = removal_cost::application_with_units(5_000);
    for entity in [EntityId::Application(web), EntityId::Relation(relation)] {
        let counted = CountingReader { documents: &many, read: Cell::new(0) };
        // a simulation that ends before its first step
        dry_run_within(&counted, MODEL, Removal { entities: &[entity], force: Force::No, now_ms: 1 }, 0)
            .expect("the removal is accepted");
        // 5,000 entries to find 500 units, each examined three times with about 10 reads
        let most = 5_000 + 3 * 500 * 10;
        assert!(counted.read.get() < most, "{entity:?}: {}", counted.read.get());
        assert!(
            dry_run_together(&many, MODEL, &[entity], Force::No).expect("the removal is accepted").truncated,
            "{entity:?}"
        );
    }
    let (few, web, _) = removal_cost::application_with_units(3);
    assert!(
        !dry_run_together(&few, MODEL, &[EntityId::Application(web)], Force::No)
            .expect("the removal is accepted")
            .truncated
    );
}

#[test]
fn a_simulation_stops_at_its_read_limit_and_reports_that_it_is_truncated() {
    let mut world = World::new();
    let (_, shop, _) = related_units(&mut world);
    let whole = dry_run_alone(&world, EntityId::Unit(shop.unit));
    let removal = Removal { entities: &[EntityId::Unit(shop.unit)], force: Force::No, now_ms: 1 };
    let part = dry_run_within(world.reader(), MODEL, removal, 150).expect("the removal is accepted");
    assert_eq!((whole.truncated, part.truncated), (false, true));
    assert!(part.hooks.len() < whole.hooks.len(), "{:?}", part.hooks);
}

#[test]
fn one_request_simulates_at_most_twenty_removals() {
    assert_eq!(require_count(20), Ok(()));
    let too_many = RefusalReason::TooManySimulated { count: 21, max: 20 };
    assert_eq!(refused(require_count(21)), reason(too_many));
}
