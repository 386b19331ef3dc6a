//! The janitor deletes leftovers in batches, the presence of removed entities, and tombstones.

use crate::support::*;
use api::{
    ConfirmRecall, Existence, Force, GetUnitExistence, Handle, MachineWatchEvent, RemoveUnit, Stream, Watch,
    WatchMachine,
};
use controller::janitor::{Janitor, JanitorLimits};
use state::documents::draft::{Draft, Reader, read};
use state::documents::prelude::{BagDoc, Kind, TokenHolder};
use state::terms::names::Uuid;
use state::terms::owner::Owner;
use test_support::memory_store::MemoryStore;

#[tokio::test]
async fn the_presence_of_removed_units_and_machines_is_deleted() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    for unit in ["web/0", "web/1"] {
        fixture.attach_agent(unit).await;
    }
    let (removed, kept) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(kept).await;
    let presence = &fixture.controller.presence;
    presence.record_request(machine, 1);
    assert!([removed, kept].iter().all(|unit| presence.after(None, 1_000).contains(unit)));
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AtOnce,
        })
        .await
        .expect("the forced removal is accepted");
    let mut janitor = Janitor::default();
    for _ in 0..3 {
        while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
        fixture.advance(60_000);
    }
    assert!(!presence.after(None, 1_000).contains(&removed));
    // Requests that were in progress when their units were removed recreate the presence of 501 agents: more than one
    // sweep visits.
    presence.clear_executing(removed, 1);
    (0..500).for_each(|n| presence.record_request(Uuid(n), 1));
    for _ in 0..3 {
        janitor.sweep(&fixture.controller).await.expect("the sweep succeeds");
    }
    let mut left = [kept, machine].to_vec();
    left.sort();
    assert_eq!(presence.after(None, 1_000), left);
}

#[tokio::test]
async fn leftovers_are_deleted_in_bounded_batches() {
    let fixture = Fixture::in_memory().await;
    let (model, relation) = (fixture.model, Uuid(5));
    // Nine batches of ten bags are written; they are deleted in three batches of at most forty.
    for batch in 0..9 {
        let leave = move |draft: &mut Draft<'_>| {
            (0..10).for_each(|n| {
                draft.put(
                    &model.bag(relation, Uuid(batch * 10 + n)),
                    &BagDoc::new(Owner::Application("web".to_owned())),
                )
            });
            draft.put(&model.cleanup(relation), &vec![model.bags(relation)]);
            Ok(())
        };
        fixture.controller.run(leave).await.expect("written");
    }
    let left = async |prefix: String| {
        fixture.controller.read(move |reader: &dyn Reader| reader.scan(&prefix, "", usize::MAX).len()).await
    };
    assert_eq!(left(model.bags(relation)).await, 90);
    let mut janitor = Janitor::default();
    assert_eq!(janitor.sweep(&fixture.controller).await, Ok(true), "there is more to do");
    assert_eq!(left(model.bags(relation)).await, 50);
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
    assert_eq!((left(model.bags(relation)).await, left(model.cleanups()).await), (0, 0));
}

#[tokio::test]
async fn a_tombstone_is_evidence_until_the_machine_has_confirmed_the_recall() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (unit, other) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let model = fixture.model;
    let machines = [fixture.machine_of_unit(unit).await, fixture.machine_of_unit(other).await];
    let [own, another] =
        machines.map(|machine| fixture.controller.caller(TokenHolder::Machine { model, machine }));
    let remove =
        RemoveUnit { destroy_storage: false, unit: "web/0".parse().expect("a unit"), force: Force::No };
    fixture.admin.handle(remove).await.expect("the unit never attached: it is removed");
    let mut janitor = Janitor::new(JanitorLimits { tombstones_max: 0, ..JanitorLimits::default() });
    let mut sweep = async || {
        for _ in 0..3 {
            while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
        }
    };
    let existence = || own.handle(GetUnitExistence { unit });
    let mut watch = own.watch(WatchMachine).await.expect("the stream opens");
    let Ok(MachineWatchEvent::View(view)) = watch.next().await else { panic!("the first event is the view") };
    assert_eq!((view.units.len(), view.recalls.into_iter().collect()), (0, vec![unit]));

    another.handle(ConfirmRecall { unit }).await.expect("it has no effect");
    sweep().await;
    assert_eq!(existence().await, Ok(Existence::Tombstone), "the folder may still exist");

    own.handle(ConfirmRecall { unit }).await.expect("accepted");
    let shown = loop {
        match watch.next().await.expect("the stream continues") {
            MachineWatchEvent::View(view) => break view,
            MachineWatchEvent::Heartbeat(_) => fixture.advance(1),
        }
    };
    assert!(shown.recalls.is_empty());
    sweep().await;
    assert_eq!(existence().await, Ok(Existence::Unknown));
    own.handle(ConfirmRecall { unit }).await.expect("a repeated request is accepted");
}

/// The keys of all tombstones of the model, oldest first.
async fn tombstones(fixture: &Fixture<MemoryStore, FakeEnvironment>) -> Vec<String> {
    let prefix = fixture.model.prefix(Kind::Tombstone);
    let mut found = fixture.controller.read(move |reader: &dyn Reader| reader.scan(&prefix, "", 100)).await;
    found.sort_by_key(|stored| stored.revision);
    found.into_iter().map(|stored| stored.key).collect()
}

#[tokio::test]
async fn the_newest_tombstones_are_kept() {
    let fixture = Fixture::in_memory().await;
    let model = fixture.model;
    for number in 0..5 {
        fixture.deploy("web", 0).await;
        let application = move |reader: &dyn Reader| read(reader, &model.application_name("web"));
        let application = fixture.controller.read(application).await.expect("it was just deployed");
        let destroy = move |draft: &mut Draft<'_>| {
            state::lifecycle::application::destroy(draft, model, application).map(drop)
        };
        fixture.controller.run(destroy).await.expect("it has no units");
        assert_eq!(tombstones(&fixture).await.len(), number + 1);
    }
    let before = tombstones(&fixture).await;
    let mut janitor = Janitor::new(JanitorLimits { tombstones_max: 2, ..JanitorLimits::default() });
    for _ in 0..3 {
        while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
    }
    assert_eq!(tombstones(&fixture).await, before[3..], "oldest first");
}
