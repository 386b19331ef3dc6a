//! The transitions of users on two related applications and their machines.

use super::*;

/// Runs the transitions of users on two related applications and their machines.
pub(super) async fn build<S: Store>(fixture: &mut Fixture<'_, S>) {
    fixture.call("model::create_first", |draft| model::create_first(draft, Uuid(6), "first", 1)).await;
    fixture.call("model::create", |draft| model::create(draft, MODEL.0, "dev", 1)).await;
    for (sha256, name, endpoint, role) in [
        ("w1", "web", "db", Role::Requirer),
        ("w2", "web", "db", Role::Requirer),
        ("d1", "db", "server", Role::Provider),
    ] {
        fixture
            .call("archive::register", move |draft| {
                archive::register(draft, sha256, Some(charm(name, endpoint, role)), 10);
                Ok(())
            })
            .await;
    }
    let set = BTreeMap::from([("update-status-hook-interval".to_owned(), "10m".to_owned())]);
    fixture.call("model::configure", move |draft| model::configure(draft, MODEL, &set, &[]).map(drop)).await;
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ me@host";
    fixture
        .call("ssh_keys::add", move |draft| ssh_keys::add(draft, MODEL, &[key.to_owned()]).map(drop))
        .await;
    let id = "me@host".to_owned();
    fixture
        .call("ssh_keys::remove", move |draft| ssh_keys::remove(draft, MODEL, std::slice::from_ref(&id)))
        .await;
    fixture
        .call("archive::register", |draft| {
            let charm = charm("log", "server", Role::Requirer);
            let mut endpoints = charm.endpoints.clone();
            endpoints.values_mut().for_each(|endpoint| endpoint.scope = Scope::Container);
            let charm = Charm { subordinate: true, endpoints, ..charm };
            archive::register(draft, "l1", Some(charm), 10);
            Ok(())
        })
        .await;
    fixture
        .call("archive::register", |draft| {
            archive::register(draft, "file", None, 10);
            Ok(())
        })
        .await;
    for (name, sha256) in [("web", "w1"), ("db", "d1"), ("spare", "d1"), ("log", "l1")] {
        fixture.deploy(name, sha256).await;
    }
    for (one, other, id) in [("web", "db", 50), ("web", "spare", 51), ("log", "db", 52)] {
        fixture
            .call("relation::add", move |draft| {
                relation::add(draft, MODEL, [one, other], Uuid(id), 1).map(drop)
            })
            .await;
    }
    let (web, ids) = (fixture.application("web").await, fixture.ids());
    fixture.call("unit::add", move |draft| unit::add(draft, MODEL, web, None, 1, &mut ids()).map(drop)).await;
    let ids = fixture.ids();
    fixture
        .call("unit::add_batch", move |draft| {
            let creation = Creation { now_ms: 1, ids: &mut ids() };
            unit::add_batch(draft, MODEL, web, 2, None, creation).map(drop)
        })
        .await;
    fixture.call("machine::add", |draft| machine::add(draft, MODEL, Uuid(60), 1).map(drop)).await;
    let request =
        application::Refresh { application: "web".into(), sha256: "w2".into(), ..Default::default() };
    let ids = fixture.ids();
    fixture
        .call("application::refresh", move |draft| {
            application::refresh(draft, MODEL, &request, Creation { now_ms: 2, ids: &mut ids() }).map(drop)
        })
        .await;
    let resources = BTreeMap::from([("app".to_owned(), "file".to_owned())]);
    fixture
        .call("attach_resources::attach", move |draft| {
            attach_resources::attach(draft, MODEL, web, &resources, 3)
        })
        .await;
}
