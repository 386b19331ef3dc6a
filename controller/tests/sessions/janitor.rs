//! What the janitor deletes: leftovers in batches, and the presence of removed entities.

use crate::support::*;
use api::{Force, Handle, RemoveUnit};
use controller::janitor::Janitor;
use state::documents::draft::{Draft, Reader};
use state::documents::keys::BagDoc;
use state::terms::names::Uuid;

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
    presence.heartbeat(machine, 1);
    assert!([removed, kept].iter().all(|unit| presence.after(None, 1_000).contains(unit)));
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AtOnce })
        .await
        .expect("the forced removal is accepted");
    let mut janitor = Janitor::default();
    for _ in 0..3 {
        while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
        fixture.advance(60_000);
    }
    assert!(!presence.after(None, 1_000).contains(&removed));
    // requests in progress while their units were removed, more than one sweep visits
    presence.clear_executing(removed, 1);
    (0..500).for_each(|n| presence.heartbeat(Uuid(n), 1));
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
            (0..10).for_each(|n| draft.put(&model.bag(relation, Uuid(batch * 10 + n)), &BagDoc::default()));
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
