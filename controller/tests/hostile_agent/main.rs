//! A hostile agent with the token of one unit, or of its machine: each part of its requests is changed in turn, and each changed request
//! is sent to a controller in the same state (I30, I31).
//!
//! The changes include values that are nested deeply and texts of 300 KB. Afterwards every answer to a user is small and can
//! be parsed by a client, and the invariants of the documents hold; no document changed that the unit may not change; no counter
//! of the model moved by more than 1; the unit can fetch no archive that was not assigned to it; and other units
//! run actions and lead their application as before.

mod mutation;
#[path = "../support/mod.rs"]
mod support;
mod world;

use api::error::{ApiError, ErrorCode};
use api::{
    Attach, Claim, Commit, EnqueueAction, FetchArchive, FetchResource, GetAction, GetStatus, GetWhy, Handle,
    InModel, LogQuery, OpenSecret, ReadSecret, Report, ReportStorage, SealSecret, ShowUnit, Stream, Watch,
    WatchUnit, WriteLeaderSettings,
};
use controller::Controller;
use controller::store::Store;
use serde::Serialize;
use serde::de::DeserializeOwned;
use state::documents::draft::read;
use state::documents::prelude::{KeyParts, Kind, TokenHolder, UserRole};
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::terms::status::{ActionStatus, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use state::unit::writes::ReportContent;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use support::FakeEnvironment;
use test_support::invariants::violations;
use test_support::memory_store::MemoryStore;
use world::{Api, World};

type Running = Arc<Controller<MemoryStore, FakeEnvironment>>;

/// Waits for an answer, and lets time pass if it is delayed.
async fn answer<T>(environment: &FakeEnvironment, answered: impl Future<Output = T>) -> T {
    let mut answered = std::pin::pin!(answered);
    loop {
        tokio::select! {
            biased;
            answer = &mut answered => return answer,
            () = async { for _ in 0..50 { tokio::task::yield_now().await } } => environment.advance(2_000),
        }
    }
}

fn parsed<T: DeserializeOwned>(body: &str) -> Result<T, ApiError> {
    serde_json::from_str(body).map_err(|e| ApiError::new(ErrorCode::Invalid, e.to_string()))
}

/// The most bytes of `status` or `why` of the model of three units, one of which is hostile: a failure of 32
/// KiB, twice, three messages of 8 KiB, 1,000 port ranges, and what three honest units have. Without the hostile unit
/// the answers have some 6 KB.
const ANSWER_BYTES_MAX: usize = 160 << 10;

/// The most bytes of `show-unit`, which contains the settings of the unit and of its application in the relation.
const SHOWN_UNIT_BYTES_MAX: usize = ANSWER_BYTES_MAX + (3 << 20);

/// Passes an answer through its JSON text, as a client reads it.
fn require_readable<T: Serialize + DeserializeOwned>(
    what: &str,
    answer: T,
    bytes_max: usize,
) -> Result<(), String> {
    let text = serde_json::to_string(&answer).expect("plain data");
    if text.len() > bytes_max {
        return Err(format!("{what} has {} bytes", text.len()));
    }
    serde_json::from_str::<T>(&text).map(drop).map_err(|e| format!("{what} cannot be parsed: {e}"))
}

/// Sends a request as the hostile unit.
async fn send(world: &World, api: &Api, route: &str, body: &str) -> Result<(), ApiError> {
    let environment = &world.environment;
    match route {
        "attach" => answer(environment, api.handle(parsed::<Attach>(body)?)).await.map(drop),
        "commit" => answer(environment, api.handle(parsed::<Commit>(body)?)).await.map(drop),
        "report" => answer(environment, api.handle(parsed::<Report>(body)?)).await,
        "leader-settings" => {
            answer(environment, api.handle(parsed::<WriteLeaderSettings>(body)?)).await.map(drop)
        }
        "claim" => answer(environment, api.handle(parsed::<Claim>(body)?)).await.map(drop),
        "seal-secret" => answer(environment, api.handle(parsed::<SealSecret>(body)?)).await.map(drop),
        "open-secret" => answer(environment, api.handle(parsed::<OpenSecret>(body)?)).await.map(drop),
        "read-secret" => answer(environment, api.handle(parsed::<ReadSecret>(body)?)).await.map(drop),
        "archive" => answer(environment, api.handle(parsed::<FetchArchive>(body)?)).await.map(drop),
        "resource" => answer(environment, api.handle(parsed::<FetchResource>(body)?)).await.map(drop),
        "storage" => answer(environment, api.handle(parsed::<ReportStorage>(body)?)).await,
        "bag" => answer(environment, api.handle(parsed::<BagRequest>(body)?)).await.map(drop),
        "watch" => {
            let mut stream = answer(environment, api.watch(parsed::<WatchUnit>(body)?)).await?;
            answer(environment, stream.next()).await.map(drop)
        }
        route => panic!("no route {route}"),
    }
}

/// Returns all keys, each with the revision that wrote the document last.
fn documents(store: &MemoryStore) -> BTreeMap<String, u64> {
    let all = store.read_now(|reader| reader.scan("", "", usize::MAX));
    all.into_iter().map(|stored| (stored.key, stored.revision)).collect()
}

/// Whether the hostile unit may change a document: its own ones, and as the leader those of its application.
fn may_change(world: &World, key: &str) -> bool {
    let Some(parts) = KeyParts::of(key) else { return false };
    let ids = parts.ids();
    match parts.kind {
        Kind::Action => key == world.model.action(2).text(),
        Kind::Storage => key == world.model.storage(&world.storage.0).text() || !world.has(key),
        Kind::StorageOn => ids == [world.machine],
        Kind::Cleanup => !world.has(key),
        Kind::Leader => ids == [world.application],
        // the hostile unit leads its application and may own and change its secrets; no other unit has any
        Kind::Secret
        | Kind::SecretContent
        | Kind::SecretsOf
        | Kind::SecretsConsumed
        | Kind::SecretTracker
        | Kind::SecretTimer => {
            !key.contains(&world.honest.unit.to_string()) && !key.contains(&world.database.to_string())
        }
        Kind::ApplicationStatus | Kind::LeaderSettings => ids == [world.application],
        Kind::StatusLog => ids == [world.application] || ids == [world.hostile.unit],
        Kind::Bag => {
            ids == [world.relation.1, world.application] || ids == [world.relation.1, world.hostile.unit]
        }
        _ => ids.contains(&world.hostile.unit),
    }
}

/// Returns what is wrong after a request of the hostile unit.
async fn damage(world: &World, controller: &Running) -> Vec<String> {
    let store = &controller.store;
    if store.newest_revision() == world.store.newest_revision() {
        return Vec::new();
    }
    let before = documents(&world.store);
    let mut found = store.read_now(|reader| violations(reader, world.model));
    let after = documents(store);
    let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
    let foreign = keys.filter(|key| before.get(*key) != after.get(*key) && !may_change(world, key));
    found.extend(foreign.map(|key| format!("{key} was changed")));
    for sha256 in &world.forbidden {
        let api = controller.caller(TokenHolder::Unit { model: world.model, unit: world.hostile.unit });
        if api.handle(FetchArchive { sha256: sha256.clone() }).await.is_ok() {
            found.push(format!("the unit may fetch archive {sha256}, which was not assigned to it"));
        }
    }
    found.extend(others_are_harmed(world, controller).await.err());
    found
}

/// Performs what the honest unit and the operators do next. An error if it does not have the expected effect.
async fn others_are_harmed(world: &World, controller: &Running) -> Result<(), String> {
    let (model, environment) = (world.model, &world.environment);
    let failed = |what: &'static str| move |error: ApiError| format!("{what}: {error}");
    let admin = TokenHolder::User { name: "admin".to_owned(), role: UserRole::Admin };
    let admin = controller.caller(admin).in_model("dev");
    require_readable("status", admin.handle(GetStatus).await.map_err(failed("status"))?, ANSWER_BYTES_MAX)?;
    let why = admin.handle(GetWhy { entity: support::entity("web/0") }).await.map_err(failed("why"))?;
    require_readable("why", why, ANSWER_BYTES_MAX)?;
    let unit = "web/0".parse().expect("a unit");
    let shown = admin.handle(ShowUnit { unit }).await.map_err(failed("show-unit"))?;
    require_readable("show-unit", shown, SHOWN_UNIT_BYTES_MAX)?;
    admin.handle(LogQuery::default()).await.map_err(failed("debug-log"))?;
    // The next number of the hostile unit is greater than each number that it has sent, and such numbers are bounded.
    for (unit, expected) in [("web/1", 3..=3), ("web/0", 4..=4 + (1 << 20))] {
        let run = EnqueueAction {
            unit: unit.parse().expect("a unit"),
            action: "backup".to_owned(),
            params: BTreeMap::new(),
            operation: None,
        };
        let id = admin.handle(run).await.map_err(failed("run"))?.answer.id;
        if !expected.contains(&id) {
            return Err(format!("the next action of {unit} has number {id}, expected {expected:?}"));
        }
    }
    let mut honest = world.agent(controller, &world.honest);
    for id in [1, 3] {
        honest.commit(honest.record(Operation::Action { id, name: "backup".to_owned() })).await;
        let action = admin.handle(GetAction { id }).await.map_err(failed("show-task"))?;
        if action.status != ActionStatus::Completed {
            return Err(format!("the action {id} of web/1 is {}", action.status));
        }
    }
    environment.advance(120_000);
    let claim = honest.api.handle(Claim { epoch: honest.epoch, release: false, view: None });
    if claim.await.map_err(failed("claim"))?.lease.is_none() {
        return Err("web/1 cannot become the leader".to_owned());
    }
    let mut record = honest.record(Operation::Hook(Hook::UpdateStatus));
    let what = ReportContent::ApplicationStatus {
        status: WorkloadStatus::Waiting,
        message: "of the next leader".to_owned(),
    };
    record.reports.push(RunReport { number: 1, at_ms: 5, what });
    honest.commit(record).await;
    let key = model.application_status(world.application);
    let expected = StatusMessage::OfCharm("of the next leader".to_owned());
    let shown = controller.store.read_now(|reader| read(reader, &key));
    if shown.as_ref().is_none_or(|shown| shown.message != expected) {
        return Err(format!("the application status of the next leader is hidden: {shown:?}"));
    }
    let newcomer = Attach {
        nonce: Uuid(777),
        epoch: 0,
        store_generation: None,
        teardown_started: false,
        boot: String::new(),
    };
    let api = controller.caller(TokenHolder::Unit { model, unit: world.hostile.unit });
    answer(environment, api.handle(newcomer)).await.map_err(failed("an agent with an empty folder"))?;
    Ok(())
}

/// Sends one request to a new controller. Returns whether it was accepted, and what is wrong afterwards.
async fn attempt(
    world: Arc<World>,
    route: &'static str,
    body: String,
) -> (Result<(), ApiError>, Vec<String>) {
    let controller = world.fork();
    let model = world.model;
    let api = controller.caller(match route {
        "storage" => TokenHolder::Machine { model, machine: world.machine },
        _ => TokenHolder::Unit { model, unit: world.hostile.unit },
    });
    let answered = send(&world, &api, route, &body).await;
    (answered, damage(&world, &controller).await)
}

#[tokio::test]
async fn no_mutation_of_a_request_harms_others() {
    let world = Arc::new(World::new().await);
    let (mut count, mut accepted, mut wrong) = (0, 0, Vec::new());
    for (route, request) in world.requests() {
        for (what, body) in mutation::mutations(&request, &world.foreign()) {
            count += 1;
            // a panic would end the controller
            let (answered, found) = match tokio::spawn(attempt(world.clone(), route, body)).await {
                Ok(answered) => answered,
                Err(panic) => (Ok(()), vec![panic.to_string()]),
            };
            accepted += usize::from(answered.is_ok());
            wrong.extend(found.iter().map(|found| format!("{route} {what}: {found}")));
            if what == "unchanged" && route != "resource" {
                assert_eq!(answered.map_err(|e| e.to_string()), Ok(()), "{route} {request} is valid");
            }
        }
    }
    println!("{count} mutations, {accepted} accepted");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
