//! The OpenAPI document agrees with the requests that the routes accept and the responses that they return.

mod support;

use api::all_requests;
use api::request::{Caller, Content, Entry, Method, ResponseBody};
use api::*;
use axum::body::{Body, Bytes};
use controller::request_dispatch::{self, HandlerReply};
use controller::{AuthenticatedCaller, openapi};
use hyper::body::Body as _;
use serde::Serialize;
use serde_json::{Value, json};
use state::documents::prelude::TokenHolder;
use state::terms::activity::Activity;
use state::terms::hook_name::HookName;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::unit::relation_view::BagRequest;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use support::{Agent, FakeEnvironment, Fixture};
use test_support::memory_store::MemoryStore;

/// Returns the operation of a request in the document.
fn operation<'a>(document: &'a Value, entry: &Entry) -> &'a Value {
    &document["paths"][entry.route.path][openapi::method(entry)]
}

fn request<'a>(document: &'a Value, entry: &Entry) -> &'a Value {
    &operation(document, entry)["requestBody"]["content"]["application/json"]["schema"]
}

fn reply<'a>(document: &'a Value, entry: &Entry) -> &'a Value {
    let kind = match entry.response_body {
        ResponseBody::Lines => "application/x-ndjson",
        ResponseBody::Single(_) => "application/json",
    };
    &operation(document, entry)["responses"]["200"]["content"][kind]["schema"]
}

/// Resolves a reference to one of the document's schemas.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|place| place.strip_prefix('#')) {
        Some(place) => resolve(document, document.pointer(place).expect("references lead to schemas")),
        None => schema,
    }
}

/// The types that a schema allows, `null` last; none if it allows all of them.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// Checks that a value conforms to a schema and has no fields that the schema does not declare.
fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolve(document, schema);
    for word in ["oneOf", "anyOf"] {
        if let Some(branches) = schema[word].as_array() {
            let wrong: Vec<String> =
                branches.iter().filter_map(|branch| check(document, branch, value).err()).collect();
            return if wrong.len() < branches.len() { Ok(()) } else { Err(wrong.join(" and ")) };
        }
    }
    let wrong = || Err(format!("{value} is not {schema}"));
    let is_other_word = schema["enum"].as_array().is_some_and(|words| !words.contains(value))
        || schema.get("const").is_some_and(|word| word != value);
    if is_other_word || schema == &json!(false) {
        return wrong();
    }
    let types = types(schema);
    if value.is_null() && types.contains(&"null") {
        return Ok(());
    }
    match (types.first().copied(), value) {
        (None, _) | (Some("boolean"), Value::Bool(_)) => Ok(()),
        (Some("number"), Value::Number(_)) => Ok(()),
        (Some("integer"), Value::Number(number)) => match schema["minimum"].as_i64() {
            Some(_) if number.is_u64() => Ok(()),
            None if number.is_i64() || number.is_u64() => Ok(()),
            _ => wrong(),
        },
        (Some("string"), Value::String(text)) => match schema["format"].as_str() {
            Some("uuid") if text.parse::<Uuid>().is_err() => wrong(),
            _ => Ok(()),
        },
        (Some("array"), Value::Array(items)) => match schema["prefixItems"].as_array() {
            Some(parts) if parts.len() != items.len() => wrong(),
            Some(parts) => parts.iter().zip(items).try_for_each(|(part, item)| check(document, part, item)),
            None => items.iter().try_for_each(|item| check(document, &schema["items"], item)),
        },
        (Some("object"), Value::Object(fields)) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            for name in required {
                fields.get(name).ok_or_else(|| format!("{name} is missing in {value}"))?;
            }
            fields.iter().try_for_each(|(name, value)| {
                let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
                let numbered = schema["patternProperties"].get("^\\d+$").filter(|_| is_number);
                let named =
                    schema["properties"].get(name).or(numbered).or(schema.get("additionalProperties"));
                let named = named.ok_or_else(|| format!("{name} is not in {schema}"))?;
                check(document, named, value)
            })
        }
        _ => wrong(),
    }
}

/// Returns the smallest value that the schema allows.
fn smallest(document: &Value, schema: &Value) -> Value {
    let schema = resolve(document, schema);
    if let Some(first) = schema["oneOf"].get(0).or(schema["anyOf"].get(0)) {
        return smallest(document, first);
    }
    if let Some(word) = schema["enum"].get(0).or(schema.get("const")) {
        return word.clone();
    }
    match types(schema).first().copied() {
        Some("boolean") => json!(false),
        Some("number" | "integer") => json!(0),
        Some("string") => match schema["format"].as_str() {
            Some("uuid") => json!(Uuid(0)),
            Some("secret-id") => json!("0".repeat(20)),
            Some("storage-id") => json!("data/0"),
            Some("unit-name" | "unit-name-or-leader") => json!("web/0"),
            _ => json!(""),
        },
        Some("array") => {
            let parts = schema["prefixItems"].as_array().into_iter().flatten();
            parts.map(|part| smallest(document, part)).collect()
        }
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let field = |name: &str| (name.to_owned(), smallest(document, &schema["properties"][name]));
            Value::Object(required.map(field).collect())
        }
        _ => Value::Null,
    }
}

/// A model with related units, and one caller of each kind.
struct Scene {
    fixture: Fixture<MemoryStore, FakeEnvironment>,
    relation: Uuid,
    unit: Uuid,
    machine: Uuid,
}

impl Scene {
    async fn new() -> Scene {
        let fixture = Fixture::in_memory().await;
        fixture.deploy("web", 2).await;
        fixture.deploy("db", 1).await;
        let relation = fixture.integrate().await;
        let mut web = fixture.attach_agent("web/0").await;
        web.enter(relation, "db", "db").await;
        let unit = fixture.unit("web/0").await;
        let machine = fixture.machine_of_unit(unit).await;
        Scene { fixture, relation: relation.1, unit, machine }
    }

    fn caller(&self, entry: &Entry) -> AuthenticatedCaller<MemoryStore, FakeEnvironment> {
        let model = self.fixture.model;
        match entry.caller {
            Caller::UnitAgent => self.fixture.controller.caller(TokenHolder::Unit { model, unit: self.unit }),
            Caller::MachineAgent | Caller::UninstallingMachineAgent | Caller::Enrolment => {
                let machine = TokenHolder::Machine { model, machine: self.machine };
                self.fixture.controller.caller(machine)
            }
            Caller::Reader | Caller::Writer | Caller::Admin => self.fixture.admin.clone(),
        }
    }

    /// Returns the JSON response of a request, or the first line of its stream, or the message of its error.
    async fn ask(&self, entry: &Entry, body: &Value) -> Result<Value, String> {
        let services = request_dispatch::services();
        let service = services.iter().find(|service| service.entry.name == entry.name).expect("listed");
        let answered = (service.handle)(self.caller(entry), body.to_string().into_bytes()).await;
        match answered.map_err(|error| error.message)? {
            HandlerReply::Single(Content::Json, json) => Ok(serde_json::from_slice(&json).expect("JSON")),
            HandlerReply::Single(Content::Bytes, _) => Ok(Value::Null),
            HandlerReply::Lines(mut body) => {
                Ok(serde_json::from_slice(&line(&mut body).await).expect("JSON"))
            }
        }
    }
}

fn takes_json(entry: &Entry) -> bool {
    entry.route.method == Method::Post && entry.request_content == Content::Json
}

/// Returns the entry of a request type with an example request.
fn sample<R: Request + Serialize>(request: R) -> (Entry, Value) {
    let entry = all_requests::all()
        .into_iter()
        .find(|entry| entry.route == R::ROUTE)
        .expect("every request is listed");
    (entry, serde_json::to_value(request).expect("plain data"))
}

/// Returns the same as [`sample`], for a stream.
fn sample_watch<R: WatchRequest + Serialize>(request: R) -> (Entry, Value) {
    let entry = all_requests::all()
        .into_iter()
        .find(|entry| entry.route == R::ROUTE)
        .expect("every request is listed");
    (entry, serde_json::to_value(request).expect("plain data"))
}

async fn line(body: &mut Body) -> Bytes {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    let frame = frame.expect("the stream continues").expect("a stream does not fail");
    frame.into_data().expect("only data is sent")
}

/// Calls `visit` for each reference in a part of the document.
fn visit_references(part: &Value, visit: &mut impl FnMut(&str)) {
    match part {
        Value::Object(fields) => fields.iter().for_each(|(name, part)| match part {
            Value::String(place) if name == "$ref" => visit(place),
            part => visit_references(part, visit),
        }),
        Value::Array(parts) => parts.iter().for_each(|part| visit_references(part, visit)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema_and_every_schema_is_used() {
    let document = openapi::document();
    let mut used = BTreeSet::new();
    visit_references(&document, &mut |place| {
        let name = place.strip_prefix("#/components/schemas/").expect("schemas have one place");
        assert!(document["components"]["schemas"].get(name).is_some(), "{place} leads nowhere");
        used.insert(name.to_owned());
    });
    let schemas = document["components"]["schemas"].as_object().expect("there are schemas");
    assert_eq!(used, schemas.keys().cloned().collect());
    let numbered = schemas.keys().find(|name| name.ends_with(|end: char| end.is_ascii_digit()));
    assert_eq!(numbered, None, "two types have the same name");
}

#[test]
fn every_request_and_every_schema_is_described() {
    let document = openapi::document();
    for entry in &all_requests::all() {
        let summary = operation(&document, entry)["summary"].as_str().expect("a summary is a text");
        assert!(summary.len() > 10 && !summary.contains('\n'), "{}: {summary:?}", entry.name);
    }
    for (name, schema) in document["components"]["schemas"].as_object().expect("there are schemas") {
        let description = schema["description"].as_str().unwrap_or_default();
        assert!(!description.is_empty(), "{name} has no description");
        assert!(!description.contains("[`"), "{name} links to a Rust item: {description}");
    }
    let (wait, _) = sample(WaitForChange { after: None });
    let summary = operation(&document, &wait)["summary"].as_str().expect("a summary is a text");
    assert!(
        summary.contains(" `LONG_POLL_MS`,") && summary.ends_with(" position"),
        "one sentence: {summary}"
    );
}

#[tokio::test]
async fn every_route_documents_the_fields_of_its_request_and_response() {
    let document = openapi::document();
    for entry in &all_requests::all() {
        let has_schema = |schema: &Value| {
            let schema = resolve(&document, schema);
            let words = ["type", "oneOf", "anyOf"].into_iter().any(|word| schema.get(word).is_some());
            let fields = schema["type"] != "object"
                || ["properties", "additionalProperties"].into_iter().any(|word| schema.get(word).is_some());
            words && fields
        };
        if takes_json(entry) {
            assert!(
                has_schema(request(&document, entry)),
                "{} takes {}",
                entry.name,
                request(&document, entry)
            );
        }
        // The only message without a schema is this document itself.
        if entry.response_body != ResponseBody::Single(Content::Bytes) && entry.name != "GetOpenApi" {
            assert!(has_schema(reply(&document, entry)), "{} gives {}", entry.name, reply(&document, entry));
        }
    }
}

/// The requests are built from the document alone, so the document describes what the handlers read.
#[tokio::test]
async fn every_route_accepts_the_smallest_request_of_its_schema_and_nothing_smaller() {
    let scene = Scene::new().await;
    let document = openapi::document();
    let reason = |message: &str| message.split(':').next().unwrap_or_default().to_owned();
    let (configure, _) = sample(ConfigureModel { change: ConfigChange::default() });
    let unreadable = reason(&scene.ask(&configure, &Value::Null).await.expect_err("no request is null"));
    let understood = |answered: Result<Value, String>| match answered {
        Err(message) => reason(&message) != unreadable,
        Ok(_) => true,
    };
    let mut fields = 0;
    for entry in all_requests::all().iter().filter(|entry| takes_json(entry)) {
        let least = smallest(&document, request(&document, entry));
        for name in least.as_object().into_iter().flatten().map(|(name, _)| name) {
            let mut less = least.clone();
            less.as_object_mut().expect("it has fields").remove(name);
            assert!(!understood(scene.ask(entry, &less).await), "{} without {name}", entry.name);
            fields += 1;
        }
        let answered = scene.ask(entry, &least).await;
        assert!(understood(answered.clone()), "{} {least}: {answered:?}", entry.name);
    }
    assert!(fields > 30, "{fields} required fields: the schemas are not empty");
}

#[tokio::test]
async fn real_responses_match_the_document() {
    let scene = Scene::new().await;
    let web = TokenHolder::Unit { model: scene.fixture.model, unit: scene.unit };
    let web = Agent::attach(scene.fixture.controller.caller(web), 2).await;
    let record = web.record(Operation::Hook(Hook::Install));
    let text = str::to_owned;
    let owner = Owner::Unit("web/0".parse().expect("a name"));
    let running = Some(Activity::hook(HookName::Start));
    let asked = [
        sample(Attach {
            nonce: Uuid(2),
            epoch: web.epoch,
            store_generation: None,
            teardown_started: false,
            boot: String::new(),
        }),
        sample_watch(WatchUnit { epoch: web.epoch, from: None }),
        sample(BagRequest { relation: scene.relation, owner, position: Position::default() }),
        sample(Claim { epoch: web.epoch, release: false, view: None }),
        sample(Commit { epoch: web.epoch, record }),
        sample(Report {
            epoch: web.epoch,
            run: 2,
            reports: Vec::new(),
            executing: running,
            executing_for_ms: 5,
        }),
        sample_watch(WatchMachine),
        sample(GetUnitExistence { unit: scene.unit }),
        sample(GetAbout),
        sample(ListModels),
        sample(GetModelConfig),
        sample(FindArchive { sha256: text("web") }),
        sample(FindArchive { sha256: text("no such") }),
        sample(FindResource { sha256: text("web") }),
        sample(ListResources { application: text("web") }),
        sample(AttachResources { application: text("web"), resources: BTreeMap::new() }),
        sample(GetConfig { application: text("web") }),
        sample(EnqueueAction {
            unit: "web/0".parse().expect("a unit"),
            action: text("backup"),
            params: BTreeMap::new(),
            operation: None,
        }),
        sample(GetAction { id: 1 }),
        sample(GetStatus),
        sample(ShowUnit { unit: "web/0".parse().expect("a unit") }),
        sample(GetWhy { entity: support::entity("web/0") }),
        sample(GetWhy { entity: support::entity("web:db db") }),
        sample(DryRunRemoval {
            removed: vec![RemovalTarget::Unit("web/0".parse().expect("a unit"))],
            force: Force::No,
        }),
        sample(DryRunRemoval {
            removed: vec![RemovalTarget::Unit("web/0".parse().expect("a unit"))],
            force: Force::AtOnce,
        }),
        sample(DryRunDestroyModel { force: Force::No }),
        sample(LogQuery::default()),
        sample(ListMachines),
        sample(WaitForChange { after: None }),
        sample(SuspendRelation { relation: 0, message: text("later") }),
        sample(ResumeRelation { relation: 0 }),
        sample(RemoveApplication {
            destroy_storage: false,
            application: text("db"),
            force: Force::AfterWait,
        }),
    ];
    let document = openapi::document();
    let mut tried = BTreeSet::new();
    for (entry, body) in asked {
        let name = entry.name;
        let answered = scene.ask(&entry, &body).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Err(wrong) = check(&document, reply(&document, &entry), &answered) {
            panic!("{name}: {wrong}");
        }
        tried.insert(name);
    }
    assert_eq!(tried.len(), 29);
}

#[test]
fn the_schema_check_rejects_a_wrong_value() {
    let document = openapi::document();
    let (entry, _) = sample(GetAbout);
    let reply = reply(&document, &entry);
    let right =
        json!({"version": "1", "juju_version": "3", "controller": Uuid(1), "store_generation": Uuid(2)});
    assert_eq!(check(&document, reply, &right), Ok(()));
    for (field, value) in [("version", json!(1)), ("store_generation", json!("x")), ("more", json!(1))] {
        let mut wrong = right.clone();
        wrong[field] = value;
        assert!(check(&document, reply, &wrong).is_err(), "{wrong}");
    }
    assert!(check(&document, reply, &json!({"version": "1"})).is_err());
}
