//! The transitions of storage, in a model of its own: it is created, attached, detached and removed.

use super::*;
use state::charm::{Charm, Storage};
use state::lifecycle::storage::{self, ReportedStorage};
use state::lifecycle::unit::Placement;
use state::terms::storage::{StorageDirective, StorageId, StorageReport};
use state::transitions::requested_removal::{self, RemovalOptions};

/// Runs the transitions of users and of a machine agent.
pub(super) async fn use_storage<S: Store>(fixture: &mut Fixture<'_, S>) {
    let model = Model(Uuid(9));
    fixture
        .call("model::create_configured", move |draft| {
            model::create_configured(draft, model.0, "storage", &BTreeMap::new(), 1).map(drop)
        })
        .await;
    let declared = Storage { count_min: 0, count_max: Some(4), ..Storage::default() };
    let storage = BTreeMap::from([("data".to_owned(), declared)]);
    let charm = Charm { name: "store".into(), storage, ..Charm::default() };
    fixture
        .call("archive::register", move |draft| {
            archive::register(draft, "store", Some(charm.clone()), 1);
            Ok(())
        })
        .await;
    let one = StorageDirective { pool: None, count: Some(1), size_mib: None };
    let request = application::Deploy {
        application: Some("store".into()),
        sha256: "store".into(),
        units: 1,
        storage: BTreeMap::from([("data".to_owned(), one.clone())]),
        ..application::Deploy::default()
    };
    let ids = fixture.ids();
    fixture
        .call("application::deploy", move |draft| {
            application::deploy(draft, model, &request, Creation { now_ms: 1, ids: &mut ids() }).map(drop)
        })
        .await;
    let named = |name: &'static str| {
        fixture.store.read(move |reader| read(reader, &model.unit_name(&name.parse().expect("a name"))))
    };
    let unit = named("store/0").await.expect("it is deployed");
    let first = StorageId { name: "data".into(), number: 0 };
    let second = StorageId { name: "data".into(), number: 1 };
    let ids = fixture.ids();
    fixture
        .call("storage::add", move |draft| {
            let creation = Creation { now_ms: 2, ids: &mut ids() };
            storage::add(draft, model, unit, "data", &one, creation).map(drop)
        })
        .await;
    let doc = fixture.store.read({
        let id = first.clone();
        move |reader| read(reader, &model.storage(&id))
    });
    let doc = doc.await.expect("it was created");
    let report = |id: &StorageId, instance, report: StorageReport| {
        let (id, machine) = (id.clone(), doc.machine);
        move |draft: &mut Draft<'_>| {
            let reported = ReportedStorage { id: &id, instance, report: report.clone() };
            storage::record_report(draft, model, machine, reported, 3)
        }
    };
    let provisioned = StorageReport::Provisioned { unit, location: "/srv".to_owned() };
    fixture.call("storage::record_report", report(&first, doc.uuid, provisioned)).await;
    resync_storage(fixture, model, unit).await;
    for id in [first.clone(), second.clone()] {
        fixture.call("storage::detach", move |draft| storage::detach(draft, model, &id, 4)).await;
    }
    let (id, ids) = (first.clone(), fixture.ids());
    let application = fixture.store.read(move |reader| read(reader, &model.application_name("store")));
    let application = application.await.expect("it is deployed");
    fixture
        .call("unit::add_with_storage", move |draft| {
            let creation = Creation { now_ms: 5, ids: &mut ids() };
            let placement = Placement { to: None, attach: std::slice::from_ref(&id) };
            unit::add_with_storage(draft, model, application, 1, placement, creation).map(drop)
        })
        .await;
    let id = second.clone();
    fixture.call("storage::attach", move |draft| storage::attach(draft, model, unit, &id)).await;
    let options = RemovalOptions { force: Force::No, destroy_storage: true };
    fixture
        .call("requested_removal::remove_unit", move |draft| {
            requested_removal::remove_unit(draft, model, unit, options, 7)
        })
        .await;
    let id = first.clone();
    fixture.call("storage::destroy", move |draft| storage::destroy(draft, model, &id, true, 6)).await;
    fixture.call("storage::record_report", report(&first, doc.uuid, StorageReport::Removed)).await;
    fixture
        .call("requested_removal::remove_application", move |draft| {
            requested_removal::remove_application(draft, model, application, options, 8)
        })
        .await;
}

/// The unit resynchronises and has run no storage hook.
async fn resync_storage<S: Store>(fixture: &mut Fixture<'_, S>, model: Model, unit: Uuid) {
    fixture
        .call("session::attach", move |draft| {
            let attach = Attach {
                nonce: Uuid(9),
                epoch: 0,
                store_generation: None,
                teardown_started: false,
                boot: String::new(),
            };
            session::attach(draft, model, unit, attach, Uuid(7), false).map(drop)
        })
        .await;
    let published = Local::new(unit, "store/0".parse().expect("a unit name"));
    let mut record = published.record(Operation::Resync, Outcome::Ok, 1000);
    record.resync_local = Some(Box::new(published));
    let (session, ids) = (AgentSession { model, unit, epoch: 1, store_generation: Uuid(7) }, fixture.ids());
    fixture
        .call("resync::apply_batch", move |draft| {
            let record = Valid::record(record.clone())?;
            let batch = resync::ResyncBatch { record: &record, position: &ResyncProgress::Storage };
            resync::apply_batch(draft, session, batch, created(&mut ids())).map(drop)
        })
        .await;
}
