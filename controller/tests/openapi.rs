//! The OpenAPI document against what the routes really take and answer.

mod support;

use api::list;
use api::request::{Caller, Content, Entry, Method, ResponseBody};
use api::*;
use axum::body::{Body, Bytes};
use controller::dispatch::{self, Reply};
use controller::store::map::Map;
use controller::{Session, openapi};
use hyper::body::Body as _;
use serde::Serialize;
use serde_json::{Value, json};
use state::documents::keys::TokenHolder;
use state::terms::names::Uuid;
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::unit::activity::Activity;
use state::unit::hook_name::HookName;
use state::unit::operation::{Hook, Operation};
use state::unit::snapshot::BagRequest;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use support::{Agent, Still, Story};

/// The operation of a request in the document.
fn operation<'a>(document: &'a Value, entry: &Entry) -> &'a Value {
    &document["paths"][entry.route.path][openapi::method(entry)]
}

fn request<'a>(document: &'a Value, entry: &Entry) -> &'a Value {
    &operation(document, entry)["requestBody"]["content"]["application/json"]["schema"]
}

fn reply<'a>(document: &'a Value, entry: &Entry) -> &'a Value {
    let kind = match entry.gives {
        ResponseBody::Lines => "application/x-ndjson",
        ResponseBody::AppliedOnce(_) => "application/json",
    };
    &operation(document, entry)["responses"]["200"]["content"][kind]["schema"]
}

/// Follows a reference into the document's schemas.
fn meant<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|place| place.strip_prefix('#')) {
        Some(place) => document.pointer(place).expect("references lead to schemas"),
        None => schema,
    }
}

/// The value is what the schema says, and has nothing that the schema does not name.
fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = meant(document, schema);
    for word in ["oneOf", "anyOf"] {
        if let Some(branches) = schema[word].as_array() {
            let wrong: Vec<String> =
                branches.iter().filter_map(|branch| check(document, branch, value).err()).collect();
            return if wrong.len() < branches.len() { Ok(()) } else { Err(wrong.join(" and ")) };
        }
    }
    let wrong = || Err(format!("{value} is not {schema}"));
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return wrong();
    }
    match (schema["type"].as_str(), value) {
        (None, _) | (Some("null"), Value::Null) | (Some("boolean"), Value::Bool(_)) => Ok(()),
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
                let named = schema["properties"].get(name).or(schema.get("additionalProperties"));
                let named = named.ok_or_else(|| format!("{name} is not in {schema}"))?;
                check(document, named, value)
            })
        }
        _ => wrong(),
    }
}

/// The smallest value that the schema allows.
fn smallest(document: &Value, schema: &Value) -> Value {
    let schema = meant(document, schema);
    if let Some(first) = schema["oneOf"].get(0).or(schema["anyOf"].get(0)) {
        return smallest(document, first);
    }
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(false),
        Some("number" | "integer") => json!(0),
        Some("string") => match schema["format"].as_str() {
            Some("uuid") => json!(Uuid(0)),
            Some("unit-name") => json!("web/0"),
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

/// A model in which something is going on, and one of each who may ask.
struct Scene {
    story: Story<Map, Still>,
    relation: Uuid,
    unit: Uuid,
    machine: Uuid,
}

impl Scene {
    async fn new() -> Scene {
        let story = Story::in_memory().await;
        story.deploy("web", 2).await;
        story.deploy("db", 1).await;
        let relation = story.integrate().await;
        let mut web = story.agent_of("web/0").await;
        web.enter(relation, "db", "db").await;
        let unit = story.unit("web/0").await;
        let machine = story.machine_of(unit).await;
        Scene { story, relation: relation.1, unit, machine }
    }

    fn caller(&self, entry: &Entry) -> Session<Map, Still> {
        let model = self.story.model;
        match entry.caller {
            Caller::UnitAgent => self.story.controller.unit_session(model, self.unit),
            Caller::MachineAgent | Caller::Enrolment => {
                let machine = TokenHolder::Machine { model, machine: self.machine };
                self.story.controller.session_of(machine)
            }
            Caller::Reader | Caller::Writer | Caller::Admin => self.story.admin.clone(),
        }
    }

    /// What a request is answered: its JSON, or the first line of its stream; an error's message.
    async fn ask(&self, entry: &Entry, body: &Value) -> Result<Value, String> {
        let services = dispatch::services();
        let service = services.iter().find(|service| service.entry.name == entry.name).expect("listed");
        let answered = (service.answer)(self.caller(entry), body.to_string().into_bytes()).await;
        match answered.map_err(|error| error.message)? {
            Reply::AppliedOnce(Content::Json, json) => Ok(serde_json::from_slice(&json).expect("JSON")),
            Reply::AppliedOnce(Content::Bytes, _) => Ok(Value::Null),
            Reply::Lines(mut body) => Ok(serde_json::from_slice(&line(&mut body).await).expect("JSON")),
        }
    }
}

fn takes_json(entry: &Entry) -> bool {
    entry.route.method == Method::Post && entry.takes == Content::Json
}

/// The entry of a request type, and a request of it.
fn sample<R: Request + Serialize>(request: R) -> (Entry, Value) {
    let entry =
        list::all().into_iter().find(|entry| entry.route == R::ROUTE).expect("every request is listed");
    (entry, serde_json::to_value(request).expect("plain data"))
}

/// As [`sample`], of a stream.
fn sample_watch<R: WatchRequest + Serialize>(request: R) -> (Entry, Value) {
    let entry =
        list::all().into_iter().find(|entry| entry.route == R::ROUTE).expect("every request is listed");
    (entry, serde_json::to_value(request).expect("plain data"))
}

async fn line(body: &mut Body) -> Bytes {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    let frame = frame.expect("it goes on").expect("a stream does not fail");
    frame.into_data().expect("only data is sent")
}

#[tokio::test]
async fn every_route_has_the_fields_of_what_it_takes_and_gives() {
    let document = openapi::document();
    for entry in &list::all() {
        let said = |schema: &Value| {
            let schema = meant(&document, schema);
            let words = ["type", "oneOf", "anyOf"].into_iter().any(|word| schema.get(word).is_some());
            let fields = schema["type"] != "object"
                || ["properties", "additionalProperties"].into_iter().any(|word| schema.get(word).is_some());
            words && fields
        };
        if takes_json(entry) {
            assert!(said(request(&document, entry)), "{} takes {}", entry.name, request(&document, entry));
        }
        // The one message without a schema of its own is this document.
        if entry.gives != ResponseBody::AppliedOnce(Content::Bytes) && entry.name != "GetOpenApi" {
            assert!(said(reply(&document, entry)), "{} gives {}", entry.name, reply(&document, entry));
        }
    }
}

/// What is sent here was made of the document alone: so the document says what the handlers read.
#[tokio::test]
async fn every_route_takes_the_smallest_request_of_its_schema_and_nothing_smaller() {
    let scene = Scene::new().await;
    let document = openapi::document();
    let understood = |answered: Result<Value, String>| match answered {
        Err(message) => !message.contains("the request is not understood"),
        Ok(_) => true,
    };
    let mut fields = 0;
    for entry in list::all().iter().filter(|entry| takes_json(entry)) {
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
    assert!(fields > 30, "{fields} required fields: the schemas say something");
}

#[tokio::test]
async fn real_replies_are_what_the_document_says() {
    let scene = Scene::new().await;
    let web = Agent::attach(scene.story.controller.unit_session(scene.story.model, scene.unit), 2).await;
    let record = web.record(Operation::Hook(Hook::Install));
    let text = str::to_owned;
    let owner = Owner::Unit("web/0".parse().expect("a name"));
    let running = Some(Activity::hook(HookName::Start));
    let asked = [
        sample(Attach { nonce: Uuid(2), epoch: web.epoch, store_generation: None }),
        sample_watch(WatchUnit { epoch: web.epoch, from: None }),
        sample(BagRequest { relation: scene.relation, owner, at: Position::default() }),
        sample(Claim { epoch: web.epoch, release: false }),
        sample(Commit { epoch: web.epoch, record }),
        sample(Report {
            epoch: web.epoch,
            run: 2,
            said: Vec::new(),
            executing: running,
            executing_for_ms: 5,
        }),
        sample_watch(WatchMachine),
        sample(UnitFate { unit: scene.unit }),
        sample(GetAbout),
        sample(ListModels),
        sample(GetModelConfig),
        sample(FindArchive { sha256: text("web") }),
        sample(FindArchive { sha256: text("no such") }),
        sample(GetConfig { application: text("web") }),
        sample(Run { unit: text("web/0"), action: text("backup"), params: BTreeMap::new() }),
        sample(GetAction { id: 1 }),
        sample(GetStatus),
        sample(ShowUnit { unit: text("web/0") }),
        sample(GetWhy { entity: text("web/0") }),
        sample(GetWhy { entity: text("web db") }),
        sample(DryRunRemoval { removed: vec![RemovalTarget::Unit(text("web/0"))], force: Force::No }),
        sample(DryRunRemoval { removed: vec![RemovalTarget::Unit(text("web/0"))], force: Force::AtOnce }),
        sample(LogQuery::default()),
        sample(ListMachines),
        sample(WaitForChange { after: None }),
        sample(SuspendRelation { relation: 0, message: text("later") }),
        sample(ResumeRelation { relation: 0 }),
        sample(RemoveApplication { application: text("db"), force: Force::AfterWait }),
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
    assert_eq!(tried.len(), 25);
}

#[test]
fn a_wrong_value_does_not_pass_the_check() {
    let document = openapi::document();
    let (entry, _) = sample(GetAbout);
    let reply = reply(&document, &entry);
    let right = json!({"version": "1", "juju_version": "3", "controller": Uuid(1), "store_generation": Uuid(2)});
    assert_eq!(check(&document, reply, &right), Ok(()));
    for (field, value) in [("version", json!(1)), ("store_generation", json!("x")), ("more", json!(1))] {
        let mut wrong = right.clone();
        wrong[field] = value;
        assert!(check(&document, reply, &wrong).is_err(), "{wrong}");
    }
    assert!(check(&document, reply, &json!({"version": "1"})).is_err());
}
