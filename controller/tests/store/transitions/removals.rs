//! The transitions that remove entities, and a whole model.

use super::retention::call_retention_transitions;
use super::*;

/// Removes a subordinate with its relation, because its life is derived from the relation.
pub(super) async fn remove_subordinate<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (db, log) = (fixture.unit("db/0").await, fixture.unit("log/0").await);
    fixture.call("relation::destroy", |draft| relation::destroy(draft, MODEL, Uuid(52)).map(drop)).await;
    fixture.call("unit::set_dead", move |draft| unit::set_dead(draft, MODEL, log)).await;
    fixture.call("unit::remove", move |draft| unit::remove(draft, MODEL, log, 60)).await;
    fixture
        .call("relation::leave_scope", move |draft| {
            relation::leave_scope(draft, MODEL, db, Uuid(52));
            Ok(())
        })
        .await;
    let log = fixture.application("log").await;
    fixture
        .call("application::destroy", move |draft| application::destroy(draft, MODEL, log).map(drop))
        .await;
}

/// Removes all entities.
pub(super) async fn remove_all<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (web, db) = (fixture.unit("web/0").await, fixture.unit("db/0").await);
    for id in [50, 51] {
        fixture
            .call("relation::destroy", move |draft| relation::destroy(draft, MODEL, Uuid(id)).map(drop))
            .await;
    }
    for unit in [db, web] {
        fixture
            .call("relation::leave_scope", move |draft| {
                relation::leave_scope(draft, MODEL, unit, Uuid(50));
                Ok(())
            })
            .await;
    }
    for cleanup in fixture.all(Kind::Cleanup).await {
        fixture
            .call("cleanup::clean_batch", move |draft| {
                cleanup::clean_batch(draft, MODEL, cleanup);
                Ok(())
            })
            .await;
    }
    let session = AgentSession { model: MODEL, unit: web, epoch: 1, store_generation: Uuid(7) };
    fixture
        .call("record_commit::apply_report", move |draft| {
            let executing = Some(Activity::hook(HookName::Stop));
            let report =
                Valid::report(EarlyReport { run: 99, reports: Vec::new(), executing, executing_for_ms: 0 })?;
            record_commit::apply_report(draft, session, &report, LogLines::ALL, 1).map(drop)
        })
        .await;
    fixture.call("unit::destroy", move |draft| unit::destroy(draft, MODEL, web, 60).map(drop)).await;
    fixture.call("unit::set_dead", move |draft| unit::set_dead(draft, MODEL, web)).await;
    let machine = fixture.machine_of_unit(web).await;
    fixture
        .call("assigned_units::remove", move |draft| assigned_units::remove(draft, MODEL, machine, web, 60))
        .await;
    call_retention_transitions(fixture, machine, web).await;
    // The application has more relations than one batch, so the janitor continues.
    let spare = fixture.application("spare").await;
    fixture
        .call("application::remove_next_batch", move |draft| {
            draft.put(&MODEL.application_relation_removal(spare), &String::new());
            application::remove_next_batch(draft, MODEL, spare);
            Ok(())
        })
        .await;
    for name in ["db", "spare"] {
        let application = fixture.application(name).await;
        fixture
            .call("application::destroy", move |draft| {
                application::destroy(draft, MODEL, application).map(drop)
            })
            .await;
    }
    fixture.call("machine::destroy", |draft| machine::destroy(draft, MODEL, Uuid(60))).await;
    fixture.call("machine::set_dead", |draft| machine::set_dead(draft, MODEL, Uuid(60))).await;
    fixture.call("machine::remove", |draft| machine::remove(draft, MODEL, Uuid(60))).await;
}

/// Destroys a model that has an application and a machine.
pub(super) async fn destroy_model<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (other, on) = (Model(Uuid(8)), Uuid(80));
    let settings = BTreeMap::from([("parallel".to_owned(), "true".to_owned())]);
    let defaults = settings.clone();
    fixture
        .call("model::configure_defaults", move |draft| {
            model::configure_defaults(draft, &defaults, &[]).map(drop)
        })
        .await;
    fixture
        .call("model::create_configured", move |draft| {
            model::create_configured(draft, other.0, "other", &settings, 1).map(drop)
        })
        .await;
    let (ids, request) = (
        fixture.ids(),
        application::Deploy {
            application: Some("web".into()),
            sha256: "w2".into(),
            ..application::Deploy::default()
        },
    );
    fixture
        .call("application::deploy", move |draft| {
            application::deploy(draft, other, &request, Creation { now_ms: 1, ids: &mut ids() }).map(drop)
        })
        .await;
    fixture.call("machine::add", move |draft| machine::add(draft, other, on, 1).map(drop)).await;
    for force in [Force::No, Force::AtOnce] {
        fixture.call("destruction::destroy", move |draft| destruction::destroy(draft, other, force, 9)).await;
    }
    // first the application, then an empty batch, then the machine
    for _ in 0..3 {
        fixture
            .call("destruction::destroy_batch", move |draft| {
                destruction::destroy_batch(draft, other).map(drop)
            })
            .await;
    }
    fixture.call("machine::set_dead", move |draft| machine::set_dead(draft, other, on)).await;
    fixture.call("machine::remove", move |draft| machine::remove(draft, other, on)).await;
    fixture
        .call("destruction::destroy_batch", move |draft| destruction::destroy_batch(draft, other).map(drop))
        .await;
    let removed = fixture.store.read(move |reader| reader.get(other.model().text()).is_none()).await;
    assert!(removed, "nothing was left in it");
}
