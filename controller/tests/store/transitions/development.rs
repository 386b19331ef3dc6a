//! The transitions of a model in which charms are developed: a fake application, and the clock.

use super::*;
use state::lifecycle::fake_application::{self, SetFakeSettings};
use state::terms::settings::Bag;

/// Deploys a fake application, lets its unit enter a relation, and removes both.
pub(super) async fn use_development_model<S: Store>(fixture: &mut Fixture<'_, S>) {
    let set = BTreeMap::from([("development".to_owned(), "true".to_owned())]);
    fixture.call("model::configure", move |draft| model::configure(draft, MODEL, &set, &[]).map(drop)).await;
    fixture.call("model::advance", |draft| model::advance(draft, MODEL, 5).map(drop)).await;
    let (ids, relation) = (fixture.ids(), Uuid(55));
    let request = application::Deploy {
        application: Some("far".to_owned()),
        sha256: "d1".to_owned(),
        units: 1,
        fake: true,
        ..application::Deploy::default()
    };
    fixture
        .call("application::deploy", move |draft| {
            application::deploy(draft, MODEL, &request, Creation { now_ms: 1, ids: &mut ids() }).map(drop)
        })
        .await;
    fixture
        .call("relation::add", move |draft| {
            relation::add(draft, MODEL, ["web", "far"], relation, 1).map(drop)
        })
        .await;
    for unit in [None, Some(UnitName::new("far", 0))] {
        let ids = fixture.ids();
        let settings = SetFakeSettings {
            application: "far".to_owned(),
            left: "web:db".to_owned(),
            right: "far:server".to_owned(),
            unit,
            settings: Some(Bag::from([("host".to_owned(), "10.0.0.1".to_owned())])),
        };
        fixture
            .call("fake_application::set_settings", move |draft| {
                fake_application::set_settings(
                    draft,
                    MODEL,
                    &settings,
                    Creation { now_ms: 2, ids: &mut ids() },
                )
            })
            .await;
    }
    let (unit, far) = (fixture.unit("far/0").await, fixture.application("far").await);
    let machine = fixture.machine_of_unit(unit).await;
    fixture
        .call("application::destroy", move |draft| application::destroy(draft, MODEL, far).map(drop))
        .await;
    let ended = fixture.store.read(|reader| fake_application::pending_teardowns(reader, MODEL)).await;
    assert_eq!(ended.len(), 2, "it leaves the relation, and is removed");
    for end in ended {
        fixture
            .call("fake_application::tear_down", move |draft| {
                fake_application::tear_down(draft, MODEL, end, 3)
            })
            .await;
    }
    fixture.call("machine::set_dead", move |draft| machine::set_dead(draft, MODEL, machine)).await;
    fixture.call("machine::remove", move |draft| machine::remove(draft, MODEL, machine)).await;
}
