//! The handlers on the in-memory store, called directly, without HTTP.

mod support;

use api::error::ErrorCode;
use api::{
    Attach, Claim, Commit, Ends, Existence, FetchArchive, Force, GetAction, GetStatus, GetUnitExistence,
    GetWhy, Handle, Integrate, LogQuery, MachineWatchEvent, RelationChoice, RemoveDeadUnit, RemoveRelation,
    RemoveUnit, Report, ResolvedRequest, Run, SetUnitToken, Stream, UnitWatchEvent, Watch, WatchMachine,
    WatchUnit,
};
use controller::janitor::{Janitor, LOG_LINES_MAX};
use controller::leases::TERM_MS;
use controller::presence::LOST_AFTER_MS;
use controller::store::Store;
use controller::{Environment, authority};
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::draft::{Draft, Reader, read};
use state::documents::keys::{BagDoc, GLOBAL, Kind, LogDoc, TokenHolder};
use state::lifecycle::application::register_archive;
use state::terms::cause::{Duty, Remedy};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::settings::Bag;
use state::terms::status::ActionStatus;
use state::unit::activity::Activity;
use state::unit::hook::{Level, ReportContent};
use state::unit::hook_name::HookName;
use state::unit::local::{Event, Local, RelationLocal};
use state::unit::operation::{CharmRef, Hook, Operation, RelationEvent};
use state::unit::record::{Outcome, RunReport};
use state::unit::snapshot::Change;
use std::collections::BTreeSet;
use support::*;

#[tokio::test]
async fn a_committed_setting_is_sent_to_the_counterpart_and_nothing_else() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, mut db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    web.enter(relation, "db", "db").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let whole = next_delta(&mut watch).await;
    assert!(whole.full);
    assert_eq!(whole.position.store_generation, fixture.controller.store.store_generation());
    db.enter(relation, "server", "web").await;
    let entered = next_delta(&mut watch).await;
    assert!(!entered.full);
    let joined = |change: &Change| matches!(change, Change::Member { unit, incarnation: Some(_), .. } if unit.to_string() == "db/0");
    assert!(entered.changes.iter().any(joined), "{:?}", entered.changes);
    let record = db.settings_record(relation.0, "password", "x");
    let committed = db.commit(record).await;
    let set = next_delta(&mut watch).await;
    assert_eq!(set.position.revision, committed.revision);
    let [Change::Bag { owner: Owner::Unit(owner), bag: Some(bag), .. }] = &set.changes[..] else {
        panic!("one bag and nothing else: {:?}", set.changes)
    };
    let values = bag.values.as_ref().expect("the values are inlined");
    assert_eq!((owner.to_string().as_str(), values["password"].as_str()), ("db/0", "x"));
}

#[tokio::test]
async fn a_repeated_commit_is_applied_once_with_the_same_response() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let mut db = fixture.attach_agent("db/0").await;
    db.enter(relation, "server", "web").await;
    let record = db.settings_record(relation.0, "password", "x");
    let first = db.commit(record.clone()).await;
    let before = fixture.controller.store.newest();
    let second = db.commit(record.clone()).await;
    assert_eq!(fixture.controller.store.newest(), before, "nothing was written again");
    assert_eq!((first.refusal, first.dropped), (second.refusal, second.dropped));
    let (model, unit) = (fixture.model, fixture.unit("db/0").await);
    let bag = fixture.controller.read(move |reader| read(reader, &model.bag(relation.1, unit))).await;
    assert_eq!(bag.expect("it exists").counter, 2, "entering with settings, and one write");

    let mut other = db.settings_record(relation.0, "password", "y");
    other.sequence = record.sequence;
    let forked = db.api.handle(Commit { epoch: db.epoch, record: other }).await.expect_err("another content");
    assert_eq!(forked.code, ErrorCode::Forked);
    let mut later = db.settings_record(relation.0, "password", "z");
    later.sequence += 1;
    let gap = db.api.handle(Commit { epoch: db.epoch, record: later }).await.expect_err("a hole");
    assert_eq!((gap.code, gap.expected), (ErrorCode::Gap, Some(record.sequence + 1)));
}

#[tokio::test]
async fn the_same_nonce_gets_the_same_epoch_and_another_one_waits_until_the_older_session_ends() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let old = fixture.attach_agent("web/0").await;
    let own = fixture.controller.store.store_generation();
    let attach = |nonce| Attach { nonce: Uuid(nonce), epoch: old.epoch, store_generation: Some(own) };
    let mut watch =
        old.api.watch(WatchUnit { epoch: old.epoch, from: None }).await.expect("the stream opens");
    assert!(next_delta(&mut watch).await.full);
    let again = old.api.handle(attach(1)).await.expect("a lost reply");
    assert_eq!(again.epoch, old.epoch);
    let beside = old.api.handle(attach(2)).await;
    assert_eq!(beside.expect_err("the older one lives").code, ErrorCode::Blocked);
    drop(watch);
    let new = Agent::attach(old.api.clone(), 2).await;
    assert_eq!(new.epoch, old.epoch + 1);
    let copy = old.api.handle(attach(3)).await.expect_err("a copy's folder");

    let record = old.record(Operation::Hook(Hook::Install));
    let commit = old.api.handle(Commit { epoch: old.epoch, record }).await.expect_err("the agent is fenced");
    let report =
        Report { epoch: old.epoch, run: 1, reports: Vec::new(), executing: None, executing_for_ms: 0 };
    let report = old.api.handle(report).await.expect_err("the agent is fenced");
    let claim =
        old.api.handle(Claim { epoch: old.epoch, release: false }).await.expect_err("the agent is fenced");
    let reopened =
        old.api.watch(WatchUnit { epoch: old.epoch, from: None }).await.err().expect("the agent is fenced");
    for error in [copy, commit, report, claim, reopened] {
        assert_eq!(error.code, ErrorCode::Fenced, "{error}");
    }
}

#[tokio::test]
async fn ten_changes_while_disconnected_are_ten_deltas_after_the_reconnect() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (web, mut db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    db.enter(relation, "server", "web").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    let mut position = next_delta(&mut watch).await.position;
    drop(watch);
    for n in 0..10 {
        let record = db.settings_record(relation.0, "n", &n.to_string());
        db.commit(record).await;
    }
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: Some(position) }).await.expect("the stream opens");
    for n in 0..10 {
        let next = next_delta(&mut watch).await;
        assert!(!next.full && next.changes.len() == 1, "{:?}", next.changes);
        assert!(next.position.revision > position.revision);
        let Change::Bag { bag: Some(bag), .. } = &next.changes[0] else { panic!("{:?}", next.changes) };
        assert_eq!(bag.values.as_ref().expect("the values are inlined")["n"], n.to_string());
        position = next.position;
    }
    fixture.advance(api::HEARTBEAT_MS);
    assert!(matches!(watch.next().await, Ok(UnitWatchEvent::Heartbeat(_))), "nothing else is left");
}

#[tokio::test]
async fn a_position_of_another_store_generation_gets_a_full_view() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let elsewhere = Position { store_generation: Uuid(5), revision: 1 };
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: Some(elsewhere) }).await.expect("the stream opens");
    assert!(next_delta(&mut watch).await.full);
}

#[tokio::test]
async fn unrelated_changes_are_not_sent_and_a_heartbeat_has_the_position() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    next_delta(&mut watch).await;
    fixture.deploy("db", 3).await;
    let newest = newest_position(&fixture.controller).await;
    let next = async { watch.next().await.expect("the stream continues") };
    let pass = async { fixture.advance(api::HEARTBEAT_MS) };
    let (shown, ()) = tokio::join!(next, pass);
    let UnitWatchEvent::Heartbeat(position) = shown else { panic!("{shown:?}") };
    assert!(position <= newest);
    fixture.advance(api::HEARTBEAT_MS);
    assert_eq!(watch.next().await, Ok(UnitWatchEvent::Heartbeat(newest)));
}

#[tokio::test]
async fn a_lease_expires_only_after_a_full_term_and_a_restart_counts_as_a_renewal() {
    let mut fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    let ask = Claim { epoch: 1, release: false };
    assert!(a.api.handle(ask.clone()).await.expect("the request succeeds").granted, "never led before");
    assert!(!b.api.handle(ask.clone()).await.expect("the request succeeds").granted);
    fixture.advance(TERM_MS - 1);
    assert!(!b.api.handle(ask.clone()).await.expect("the request succeeds").granted, "the term is not over");
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").granted,
        "renewed at the last moment"
    );
    fixture.advance(TERM_MS - 1);
    assert!(!b.api.handle(ask.clone()).await.expect("the request succeeds").granted);

    fixture.restart();
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    fixture.advance(TERM_MS - 1);
    assert!(
        !b.api.handle(ask.clone()).await.expect("the request succeeds").granted,
        "one full term since the start"
    );
    assert!(
        a.api.handle(ask.clone()).await.expect("the request succeeds").granted,
        "its holder renews at once"
    );
    fixture.advance(TERM_MS);
    let taken = b.api.handle(ask.clone()).await.expect("the request succeeds");
    assert!(taken.granted && taken.generation == 2);
    assert!(!a.api.handle(ask.clone()).await.expect("the request succeeds").granted);
    b.api.handle(Claim { epoch: 1, release: true }).await.expect("the request succeeds");
    assert!(a.api.handle(ask).await.expect("the request succeeds").granted, "released: granted at once");
}

/// `is-leader` is true as long as the agent's lease is valid for 30 s more.
#[tokio::test]
async fn scenario_132_a_write_of_a_leader_29_s_after_is_leader_is_accepted() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    a.enter(relation, "db", "db").await;
    let ask = Claim { epoch: 1, release: false };
    let granted = a.api.handle(ask.clone()).await.expect("the request succeeds");
    assert!(granted.granted);
    // the last moment at which `is-leader` returns true
    fixture.advance(TERM_MS - 30_000);
    assert!(!b.api.handle(ask.clone()).await.expect("the request succeeds").granted);
    fixture.advance(29_000);
    assert!(!b.api.handle(ask.clone()).await.expect("the request succeeds").granted);
    let mut record = a.settings_record(relation.0, "a", "1");
    record.leader_generation = Some(granted.generation);
    let writes = record.writes.bags.get_mut(&relation.0).expect("it writes there");
    writes.application = std::mem::take(&mut writes.unit);
    let committed = a.commit(record).await;
    assert_eq!((committed.refusal, committed.dropped), (None, Vec::new()));
    let web = fixture.model.application_name("web");
    let model = fixture.model;
    let written = fixture.controller.read(move |reader: &dyn Reader| {
        let web = read(reader, &web).expect("it exists");
        read(reader, &model.bag(relation.1, web)).map(|bag: BagDoc| bag.values)
    });
    assert_eq!(written.await, Some(Bag::from([("a".to_owned(), "1".to_owned())])));
}

#[tokio::test]
async fn a_machine_sees_only_its_own_units() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (own, other) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(own).await;
    let session = fixture.controller.session_for(TokenHolder::Machine { model: fixture.model, machine });
    let mut watch = session.watch(WatchMachine).await.expect("the stream opens");
    let Ok(MachineWatchEvent::View(view)) = watch.next().await else { panic!("the first event is the view") };
    assert_eq!(view.units.keys().collect::<Vec<_>>(), [&own]);
    assert_eq!(session.handle(GetUnitExistence { unit: own }).await, Ok(Existence::Known(Life::Alive)));
    assert_eq!(
        session.handle(GetUnitExistence { unit: other }).await,
        session.handle(GetUnitExistence { unit: Uuid(404) }).await,
        "indistinguishable"
    );
    let token = "ab".repeat(32);
    session.handle(SetUnitToken { unit: own, token: token.to_owned() }).await.expect("its own unit");
    let before = newest_position(&fixture.controller).await;
    session.handle(SetUnitToken { unit: own, token: token.to_owned() }).await.expect("again");
    assert_eq!(newest_position(&fixture.controller).await, before, "the same token again changes nothing");
    let refused = session
        .handle(SetUnitToken { unit: other, token: "cd".repeat(32).to_owned() })
        .await
        .expect_err("another machine's unit");
    assert_eq!(
        Err(refused),
        session.handle(SetUnitToken { unit: Uuid(404), token: "cd".repeat(32).to_owned() }).await
    );
    assert_eq!(session.handle(RemoveDeadUnit { unit: other }).await, Err(authority::unauthorised()));

    // The unit never attached: it is removed at once, and its machine's view shows that.
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No })
        .await
        .expect("it is removed");
    let shown = loop {
        match watch.next().await.expect("the stream continues") {
            MachineWatchEvent::View(view) => break view,
            MachineWatchEvent::Heartbeat(_) => fixture.advance(1),
        }
    };
    assert_eq!(shown.units.len(), 0);
    assert_eq!(session.handle(GetUnitExistence { unit: own }).await, Ok(Existence::Tombstone));
    session.handle(RemoveDeadUnit { unit: own }).await.expect("twice is once");
}

#[tokio::test]
async fn a_machine_view_shows_a_subordinate_and_the_end_of_its_relation() {
    let fixture = Fixture::in_memory().await;
    let end = Endpoint {
        name: "beside".to_owned(),
        role: Role::Requirer,
        interface: "sql".to_owned(),
        scope: Scope::Container,
        limit: None,
        optional: false,
    };
    let endpoints = [(end.name.clone(), end)].into();
    let charm = Charm { name: "sub".to_owned(), subordinate: true, endpoints, ..Charm::default() };
    let registered = fixture.controller.run(move |draft| {
        register_archive(draft, "sub", charm.clone(), 10);
        Ok(())
    });
    registered.await.expect("the request is accepted");
    fixture.deploy("db", 1).await;
    fixture.deploy("sub", 1).await;
    let ends = Ends { a: "db".to_owned(), b: "sub".to_owned() };
    let related = fixture.admin.handle(Integrate(ends)).await.expect("the endpoints are compatible");
    let (model, key) = (fixture.model, related.key);
    let id = fixture.controller.read(move |reader| read(reader, &model.relation_key(&key))).await;
    let mut db = fixture.attach_agent("db/0").await;
    db.enter((related.relation, id.expect("it was just created")), "server", "sub").await;

    let sub = fixture.unit("sub/0").await;
    let machine = fixture.machine_of_unit(fixture.unit("db/0").await).await;
    let session = fixture.controller.session_for(TokenHolder::Machine { model, machine });
    let mut watch = session.watch(WatchMachine).await.expect("the stream opens");
    let Ok(MachineWatchEvent::View(view)) = watch.next().await else { panic!("the first event is the view") };
    assert_eq!(view.units[&sub].life, Life::Alive);
    let status = fixture.admin.handle(GetStatus).await.expect("it exists");
    let shown = &status.applications["sub"];
    assert_eq!(shown.subordinate_to, ["db"]);
    assert_eq!(shown.units.values().next().and_then(|unit| unit.principal.clone()), "db/0".parse().ok());

    let choice = RelationChoice::Number(related.relation);
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
    let is_known = async |token: &str| fixture.controller.session(token).await.is_ok();
    assert!(is_known(&unit_token).await && is_known(&machine_token).await);
    fixture
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No })
        .await
        .expect("it never attached");
    assert!(!is_known(&unit_token).await && is_known(&machine_token).await);
    let end = move |draft: &mut Draft<'_>| {
        state::lifecycle::machine::set_dead(draft, model, machine)?;
        state::lifecycle::machine::remove(draft, model, machine)
    };
    fixture.controller.run(end).await.expect("its last unit was removed");
    assert!(!is_known(&machine_token).await);
    let left = async |of: String| {
        fixture.controller.read(move |reader: &dyn Reader| reader.scan(&of, "", usize::MAX).len()).await
    };
    assert_eq!((left(GLOBAL.all(Kind::Token)).await, left(GLOBAL.all(Kind::TokenOf)).await), (0, 0));
}

#[tokio::test]
async fn a_unit_shows_that_its_stop_hook_runs() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let executing = Some(Activity::hook(HookName::Stop));
    let report = Report { epoch: web.epoch, run: 1, reports: Vec::new(), executing, executing_for_ms: 100 };
    web.api.handle(report).await.expect("the request is accepted");
    let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
    let unit = status.applications["web"].units.values().next().expect("one unit").clone();
    assert_eq!(
        (unit.workload.current.as_str(), unit.workload.message.as_str()),
        ("maintenance", "stopping charm software")
    );
}

#[tokio::test]
async fn a_unit_fetches_archives_of_its_own_charm_only() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let own = web
        .api
        .handle(FetchArchive { sha256: "web".to_owned() })
        .await
        .expect_err("registered, and never kept");
    assert_eq!(own.code, ErrorCode::Unavailable);
    let other =
        web.api.handle(FetchArchive { sha256: "db".to_owned() }).await.expect_err("another application's");
    let none = web.api.handle(FetchArchive { sha256: "no".to_owned() }).await.expect_err("it does not exist");
    assert_eq!((other.code, none.code), (ErrorCode::NotFound, ErrorCode::NotFound));
    assert_eq!(other.message.replace("db", "no"), none.message, "indistinguishable");
}

#[tokio::test]
async fn a_unit_is_idle_only_without_pending_work_and_lost_after_a_silent_minute() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let status = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        (unit.workload.current, unit.agent.current, unit.agent.message)
    };
    let waiting = |agent: &str| ("waiting".to_owned(), agent.to_owned(), String::new());
    assert_eq!(status().await, waiting("allocating"));
    let mut web = fixture.attach_agent("web/0").await;
    let charm = CharmRef {
        sha256: "web".to_owned(),
        url: "local:web-0".to_owned(),
        revision: 0,
        endpoints: BTreeSet::from(["db".to_owned()]),
    };
    let record = web.record(Operation::InstallCharm(charm));
    web.commit(record).await;
    let (_, agent, message) = status().await;
    assert_eq!(
        (agent.as_str(), message.as_str()),
        ("executing", "running install hook"),
        "install is pending"
    );
    let mut record = web.record(Operation::Hook(Hook::Install));
    record.outcome = Outcome::Failed { reason: "exit status: 1".to_owned(), retry: None };
    web.commit(record).await;
    let unit = fixture.admin.handle(GetStatus).await.expect("it exists").applications["web"].clone();
    assert_eq!(unit.status.current, "error", "an application shows its worst unit");
    assert_eq!(unit.status.message, "hook failed: \"install\"");
    let (workload, agent, _) = status().await;
    assert_eq!((workload.as_str(), agent.as_str()), ("error", "idle"), "an agent's error is the workload's");
    let why = fixture.admin.handle(GetWhy { entity: "web/0".to_owned() }).await.expect("it exists");
    assert!(
        why.causes.iter().any(|cause| matches!(cause.remedy(), Remedy::ResolvedRequest { .. })),
        "{why:?}"
    );
    fixture
        .admin
        .handle(ResolvedRequest { unit: "web/0".to_owned(), retry: true })
        .await
        .expect("it is in error");
    let (workload, agent, _) = status().await;
    assert_eq!(
        (workload.as_str(), agent.as_str()),
        ("error", "executing"),
        "the hook is to run again: not idle"
    );

    let report = Report {
        epoch: web.epoch,
        run: 9,
        reports: Vec::new(),
        executing: Some(Activity::hook(HookName::Install)),
        executing_for_ms: 4_000,
    };
    web.api.handle(report).await.expect("the request is accepted");
    assert_eq!(status().await.1, "executing", "a retry runs");
    let units = fixture.admin.handle(GetStatus).await.expect("it exists").applications["web"].units.clone();
    let timer_started_ms = fixture.controller.environment.wall_ms() - 4_000;
    assert_eq!(
        units[&"web/0".parse().expect("a unit")].agent.since_ms,
        Some(timer_started_ms),
        "since the hook began"
    );
    fixture.advance(LOST_AFTER_MS);
    assert_ne!(status().await.1, "lost");
    fixture.advance(1);
    let (workload, agent, _) = status().await;
    assert_eq!(
        (workload.as_str(), agent.as_str()),
        ("error", "lost"),
        "an error that an operator must resolve remains (scenario 185)"
    );
    assert!(
        fixture
            .admin
            .handle(GetWhy { entity: "web/0".to_owned() })
            .await
            .expect("it exists")
            .causes
            .iter()
            .any(|cause| matches!(cause.duty, Duty::Respond { lost: true, .. }))
    );
}

#[tokio::test]
async fn a_stopped_agent_is_lost_although_its_stream_stays_open() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let mut watch =
        web.api.watch(WatchUnit { epoch: web.epoch, from: None }).await.expect("the stream opens");
    next_delta(&mut watch).await;
    let agent = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        unit.agent.current
    };
    // the connection accepts what is sent until its buffers are full
    let minute = async |watch: &mut <controller::Session<
        controller::store::memory::MemoryStore,
        FakeEnvironment,
    > as Watch<WatchUnit>>::Stream| {
        for _ in 0..=LOST_AFTER_MS / api::HEARTBEAT_MS {
            fixture.advance(api::HEARTBEAT_MS);
            assert!(matches!(watch.next().await, Ok(UnitWatchEvent::Heartbeat(_))));
        }
    };
    minute(&mut watch).await;
    assert_eq!(agent().await, "lost");
    web.api.handle(Claim { epoch: web.epoch, release: false }).await.expect("the agent continues");
    assert_ne!(agent().await, "lost");
}

#[tokio::test]
async fn a_resync_restores_what_a_restored_store_has_lost() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let (relation, id) = fixture.integrate().await;
    let mut web = fixture.attach_agent("web/0").await;
    let unit = fixture.unit("web/0").await;
    let mut memory = Local::new(unit, "web/0".parse().expect("a unit"));
    let mut entered = web.record(Operation::Hook(Hook::UpdateStatus));
    entered.operation = web.enter_scope_operation((relation, id), "db", "db");
    memory.apply(&Event::Finished(entered));
    memory.apply(&Event::Acknowledged { sequence: 1, revision: 1, refusal: None, retry: None });
    memory.sequence = 40;
    // the restored store contains only the first of many relations
    let unknown = RelationLocal { uuid: Uuid(404), ..memory.relations[&relation].clone() };
    memory.relations.extend((1000..1020).map(|number| (number, unknown.clone())));
    let mut restated = memory.record(Operation::Resync, Outcome::Ok, 5);
    restated.resync_local = Some(Box::new(memory));
    assert_eq!(web.commit(restated).await.dropped.len(), 20);
    let model = fixture.model;
    let scope =
        fixture.controller.read(move |reader| read(reader, &model.scope(id, Uuid(0), unit)).is_some()).await;
    assert!(scope, "it is in the relation's scope again");
}

#[tokio::test]
async fn a_record_that_cannot_be_applied_is_shown_until_another_one_is_applied() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    let workload = async || {
        let status = fixture.admin.handle(GetStatus).await.expect("the model is there");
        let unit = status.applications["web"].units.values().next().expect("one unit").clone();
        (unit.workload.current, unit.workload.message)
    };
    let (relation, endpoint) = (9, "db".to_owned());
    let hook = Hook::Relation { relation, endpoint, event: RelationEvent::Broken };
    let record = web.record(Operation::Hook(hook));
    for _ in 0..2 {
        let commit = Commit { epoch: web.epoch, record: record.clone() };
        assert_eq!(web.api.handle(commit).await.expect_err("malformed").code, ErrorCode::Invalid);
    }
    let why = "record 1 is refused: a hook of relation 9, whose scope the unit never entered";
    assert_eq!(workload().await, ("error".to_owned(), why.to_owned()));
    let record = web.record(Operation::Hook(Hook::UpdateStatus));
    web.commit(record).await;
    assert_ne!(workload().await.0, "error");
}

#[tokio::test]
async fn log_lines_are_returned_in_the_order_in_which_they_were_stored() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    let log_line = |call: u32, level: Level, text: &str| RunReport {
        call,
        at_ms: 100 - i64::from(call),
        what: ReportContent::Log { level, text: text.to_owned() },
    };
    let report = |reports| Report { epoch: 1, run: 1, reports, executing: None, executing_for_ms: 0 };
    b.api.handle(report(vec![log_line(1, Level::Info, "one")])).await.expect("the request is accepted");
    a.api
        .handle(report(vec![log_line(1, Level::Warning, "two"), log_line(2, Level::Info, "three")]))
        .await
        .expect("the request is accepted");
    let texts = |page: &api::LogPage| page.lines.iter().map(|l| l.text.clone()).collect::<Vec<_>>();
    let all = fixture.admin.handle(LogQuery::default()).await.expect("a page");
    assert_eq!(texts(&all), ["one", "two", "three"]);
    assert_eq!(
        (all.lines[1].entity.as_str(), all.lines[1].module.as_str()),
        ("unit-web-0", "unit.web/0.juju-log")
    );
    let query = LogQuery { level: Some("WARNING".into()), ..LogQuery::default() };
    assert_eq!(texts(&fixture.admin.handle(query).await.expect("a page")), ["two"]);
    let query = LogQuery { newest: Some(1), ..LogQuery::default() };
    assert_eq!(texts(&fixture.admin.handle(query).await.expect("a page")), ["three"]);
    let query = LogQuery { include: vec!["web/1".into()], ..LogQuery::default() };
    assert_eq!(texts(&fixture.admin.handle(query).await.expect("a page")), ["one"]);

    let query = LogQuery { after: Some(all.cursor), wait: true, ..LogQuery::default() };
    let tail = fixture.admin.handle(query);
    let append = async {
        b.api.handle(report(vec![log_line(2, Level::Info, "four")])).await.expect("the request is accepted")
    };
    let (page, ()) = tokio::join!(tail, append);
    assert_eq!(texts(&page.expect("a page")), ["four"], "only what is new");
}

#[tokio::test]
async fn an_action_is_running_once_its_unit_reports_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let run = |action: &str| Run { unit: "web/0".into(), action: action.into(), params: Default::default() };
    let unknown = fixture.admin.handle(run("restore")).await.expect_err("there is no such action");
    assert_eq!(unknown.code, ErrorCode::Invalid);
    assert!(unknown.message.contains("(not found)"), "{unknown}");
    let id = fixture.admin.handle(run("backup")).await.expect("the action is enqueued").id;
    assert_eq!(
        fixture.admin.handle(GetAction { id }).await.expect("it exists").status,
        ActionStatus::Pending
    );
    let report = Report {
        epoch: 1,
        run: 4,
        reports: Vec::new(),
        executing: Some(Activity::Action { id, name: "backup".into() }),
        executing_for_ms: 0,
    };
    web.api.handle(report).await.expect("the request is accepted");
    let action = fixture.admin.handle(GetAction { id }).await.expect("it exists");
    assert_eq!((action.status, action.started_ms.is_some()), (ActionStatus::Running, true));
}

#[tokio::test]
async fn a_lost_archive_is_reported_with_a_hint() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let error = web
        .api
        .handle(FetchArchive { sha256: "web".to_owned() })
        .await
        .expect_err("it was registered and never kept");
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("missing or damaged"), "{error}");
    assert_eq!(
        web.api
            .handle(FetchArchive { sha256: "../client.yaml".to_owned() })
            .await
            .expect_err("no digest")
            .code,
        ErrorCode::NotFound
    );
}

#[tokio::test]
async fn the_presence_of_removed_units_and_machines_is_deleted() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    for unit in ["web/0", "web/1"] {
        fixture.attach_agent(unit).await;
    }
    let (gone, stays) = (fixture.unit("web/0").await, fixture.unit("web/1").await);
    let machine = fixture.machine_of_unit(stays).await;
    let presence = &fixture.controller.presence;
    presence.heartbeat(machine, 1);
    assert!([gone, stays].iter().all(|unit| presence.after(None, 1_000).contains(unit)));
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
    assert!(!presence.after(None, 1_000).contains(&gone));
    // requests in progress while their units were removed, more than one sweep visits
    presence.clear_executing(gone, 1);
    (0..500).for_each(|n| presence.heartbeat(Uuid(n), 1));
    for _ in 0..3 {
        janitor.sweep(&fixture.controller).await.expect("the sweep succeeds");
    }
    let mut left = [stays, machine].to_vec();
    left.sort();
    assert_eq!(presence.after(None, 1_000), left);
}

#[tokio::test]
async fn leftovers_are_deleted_in_bounded_batches() {
    let fixture = Fixture::in_memory().await;
    let (model, relation) = (fixture.model, Uuid(5));
    // Nine batches of ten bags are written, three batches of forty are to be deleted.
    for bite in 0..9 {
        let leave = move |draft: &mut Draft<'_>| {
            (0..10).for_each(|n| draft.put(&model.bag(relation, Uuid(bite * 10 + n)), &BagDoc::default()));
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
async fn a_models_log_keeps_its_newest_lines() {
    let fixture = Fixture::in_memory().await;
    let model = fixture.model;
    let line =
        LogDoc { at_ms: 1, level: "INFO".into(), module: "m".into(), entity: "e".into(), text: "t".into() };
    // Lines of run 1 are the oldest; keys of later runs sort after them.
    let runs = (LOG_LINES_MAX / 50 + 1) as u64;
    for run in 1..=runs {
        let line = line.clone();
        let write = move |draft: &mut Draft<'_>| {
            (0..50).for_each(|call| draft.put(&model.log(Uuid(1), run, call), &line));
            Ok(())
        };
        fixture.controller.run(write).await.expect("written");
    }
    fixture.sweep_for_a_while().await;
    let (count, first) = fixture
        .controller
        .read(move |reader: &dyn Reader| {
            let lines = reader.scan(&model.logs(), "", usize::MAX);
            (lines.len(), lines[0].key.clone())
        })
        .await;
    assert_eq!((count, first), (LOG_LINES_MAX, model.log(Uuid(1), 2, 0).text().to_owned()));
}
