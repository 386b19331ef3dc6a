//! Tests what the agent of a machine may request: its view, the tokens of its units, and until when its own token is
//! accepted.

use crate::support::*;
use api::{
    Ends, Existence, Force, GetStatus, GetUnitExistence, Handle, Integrate, MachineWatchEvent,
    RelationChoice, RemoveDeadUnit, RemoveRelation, RemoveUnit, SetUnitToken, Stream, Watch, WatchMachine,
};
use controller::authorisation;
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::draft::{Draft, Reader, read};
use state::documents::prelude::{GLOBAL, Kind, TokenHolder};
use state::lifecycle::archive;
use state::terms::life::Life;
use state::terms::names::Uuid;

#[tokio::test]
async fn a_machine_sees_only_its_own_units() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (own, other) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(own).await;
    let caller = fixture.controller.caller(TokenHolder::Machine { model: fixture.model, machine });
    let mut watch = caller.watch(WatchMachine).await.expect("the stream opens");
    let Ok(MachineWatchEvent::View(view)) = watch.next().await else { panic!("the first event is the view") };
    assert_eq!(view.units.keys().collect::<Vec<_>>(), [&own]);
    assert_eq!(caller.handle(GetUnitExistence { unit: own }).await, Ok(Existence::Known(Life::Alive)));
    assert_eq!(
        caller.handle(GetUnitExistence { unit: other }).await,
        caller.handle(GetUnitExistence { unit: Uuid(404) }).await,
        "the unit of another machine cannot be distinguished from one that never existed"
    );
    let token = "ab".repeat(32);
    caller.handle(SetUnitToken { unit: own, token: token.to_owned() }).await.expect("its own unit");
    let before = newest_position(&fixture.controller).await;
    caller.handle(SetUnitToken { unit: own, token: token.to_owned() }).await.expect("again");
    assert_eq!(newest_position(&fixture.controller).await, before, "the same token again changes nothing");
    let refused = caller
        .handle(SetUnitToken { unit: other, token: "cd".repeat(32).to_owned() })
        .await
        .expect_err("another machine's unit");
    assert_eq!(
        Err(refused),
        caller.handle(SetUnitToken { unit: Uuid(404), token: "cd".repeat(32).to_owned() }).await
    );
    assert_eq!(caller.handle(RemoveDeadUnit { unit: other }).await, Err(authorisation::unauthorised()));

    // The unit never attached: it is removed at once, and its machine's view shows that.
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("it is removed");
    let shown = loop {
        match watch.next().await.expect("the stream continues") {
            MachineWatchEvent::View(view) => break view,
            MachineWatchEvent::Heartbeat(_) => fixture.advance(1),
        }
    };
    assert_eq!(shown.units.len(), 0);
    assert_eq!(caller.handle(GetUnitExistence { unit: own }).await, Ok(Existence::Tombstone));
    caller.handle(RemoveDeadUnit { unit: own }).await.expect("a repeated removal is accepted");
}

#[tokio::test]
async fn a_machine_view_shows_a_subordinate_and_that_it_is_dying_after_its_relation_is_removed() {
    let fixture = Fixture::in_memory().await;
    let endpoint = Endpoint {
        name: "beside".to_owned(),
        role: Role::Requirer,
        interface: "sql".to_owned(),
        scope: Scope::Container,
        limit: None,
        optional: false,
    };
    let endpoints = [(endpoint.name.clone(), endpoint)].into();
    let charm = Charm { name: "sub".to_owned(), subordinate: true, endpoints, ..Charm::default() };
    let registered = fixture.controller.run(move |draft| {
        archive::register(draft, "sub", Some(charm.clone()), 10);
        Ok(())
    });
    registered.await.expect("the request is accepted");
    fixture.deploy("db", 1).await;
    fixture.deploy("sub", 1).await;
    let ends = Ends { a: "db".to_owned(), b: "sub".to_owned() };
    let related = fixture.admin.handle(Integrate(ends)).await.expect("the endpoints are compatible");
    let (model, key) = (fixture.model, related.answer.ends);
    let id = fixture.controller.read(move |reader| read(reader, &model.relation_key(&key))).await;
    let mut db = fixture.attach_agent("db/0").await;
    db.enter((related.answer.number, id.expect("it was just created")), "server", "sub").await;

    let sub = fixture.unit("sub/0").await;
    let machine = fixture.machine_of_unit(fixture.unit("db/0").await).await;
    let caller = fixture.controller.caller(TokenHolder::Machine { model, machine });
    let mut watch = caller.watch(WatchMachine).await.expect("the stream opens");
    let Ok(MachineWatchEvent::View(view)) = watch.next().await else { panic!("the first event is the view") };
    assert_eq!(view.units[&sub].life, Life::Alive);
    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    let shown = &status.applications["sub"];
    assert_eq!(shown.subordinate_to, ["db"]);
    assert_eq!(shown.units.values().next().and_then(|unit| unit.principal.clone()), "db/0".parse().ok());

    let choice = RelationChoice::Number(related.answer.number);
    fixture
        .admin
        .handle(RemoveRelation { relation: choice, force: Force::No })
        .await
        .expect("the request is accepted");
    // a stream without a change sends a heartbeat
    fixture.advance(api::HEARTBEAT_MS);
    let MachineWatchEvent::View(view) = watch.next().await.expect("the stream continues") else {
        panic!("no view was sent")
    };
    assert_eq!(view.units[&sub].life, Life::Dying);
}

#[tokio::test]
async fn a_token_is_deleted_with_its_unit_and_with_its_machine() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let (model, unit) = (fixture.model, fixture.unit("web/0").await);
    let machine = fixture.machine_of_unit(unit).await;
    let unit_token = fixture.token(unit, TokenHolder::Unit { model, unit }).await;
    let machine_token = fixture.token(machine, TokenHolder::Machine { model, machine }).await;
    let is_known = async |token: &str| fixture.controller.authenticate(token).await.is_ok();
    assert!(is_known(&unit_token).await && is_known(&machine_token).await);
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("it never attached");
    assert!(!is_known(&unit_token).await && is_known(&machine_token).await);
    let remove_machine = move |draft: &mut Draft<'_>| {
        state::lifecycle::machine::set_dead(draft, model, machine)?;
        state::lifecycle::machine::remove(draft, model, machine)
    };
    fixture.controller.run(remove_machine).await.expect("its last unit was removed");
    assert!(!is_known(&machine_token).await);
    let count = async |kind: Kind| {
        let prefix = GLOBAL.prefix(kind);
        fixture.controller.read(move |reader: &dyn Reader| reader.scan(&prefix, "", usize::MAX).len()).await
    };
    assert_eq!((count(Kind::Token).await, count(Kind::TokenOf).await), (0, 0));
}
