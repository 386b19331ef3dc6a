//! The OpenAPI document against what the routes really take and answer.

mod support;

use api::operator::{LogQuery, Run};
use api::routes::{self, Gives, ROUTES, Route, Row, Takes};
use api::unit_agent::{Attach, Claim, Commit, Report};
use axum::body::{Body, Bytes};
use controller::dispatch::{Reply, answer};
use controller::store::map::Map;
use controller::{Session, openapi};
use hyper::body::Body as _;
use serde::Serialize;
use serde_json::{Value, json};
use state::model::keys::Principal;
use state::names::Uuid;
use state::unit::activity::Activity;
use state::unit::hook_name::HookName;
use state::unit::operation::{Hook, Operation};
use state::unit::snapshot::{BagAsked, Owner, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use support::{Agent, Still, Story};

/// The operation of a route in the document.
fn operation<'a>(document: &'a Value, row: &Row) -> &'a Value {
    &document["paths"][row.path][row.method().to_lowercase()]
}

fn request<'a>(document: &'a Value, row: &Row) -> &'a Value {
    &operation(document, row)["requestBody"]["content"]["application/json"]["schema"]
}

fn reply<'a>(document: &'a Value, row: &Row) -> &'a Value {
    let kind = match row.gives {
        Gives::Lines(_) => "application/x-ndjson",
        Gives::Json(_) | Gives::Bytes => "application/json",
    };
    &operation(document, row)["responses"]["200"]["content"][kind]["schema"]
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

    fn caller(&self, row: &Row) -> Session<Map, Still> {
        let model = self.story.model;
        if row.path.contains("/unit-agents/") {
            return self.story.controller.unit_session(model, self.unit);
        }
        if row.path.contains("/machine-agents/") {
            let machine = Principal::Machine { model, machine: self.machine };
            return self.story.controller.session_of(machine);
        }
        self.story.admin.clone()
    }

    /// What a route answers: its JSON, or the first line of its stream; an error's message.
    async fn ask(&self, row: &Row, body: &Value) -> Result<Value, String> {
        let parts =
            BTreeMap::from([("model".to_owned(), "dev".to_owned()), ("sha256".to_owned(), "web".to_owned())]);
        let body =
            Bytes::from(if row.method() == "GET" { Vec::new() } else { body.to_string().into_bytes() });
        let answered = answer(self.caller(row), row.route, &parts, body).await;
        match answered.map_err(|error| error.message)? {
            Reply::Json(json) => Ok(serde_json::from_slice(&json).expect("JSON")),
            Reply::Bytes(_) => Ok(Value::Null),
            Reply::Lines(mut body) => Ok(serde_json::from_slice(&line(&mut body).await).expect("JSON")),
        }
    }
}

async fn line(body: &mut Body) -> Bytes {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    let frame = frame.expect("it goes on").expect("a stream does not fail");
    frame.into_data().expect("only data is sent")
}

#[tokio::test]
async fn every_route_has_the_fields_of_what_it_takes_and_gives() {
    let document = openapi::document();
    for row in ROUTES {
        let said = |schema: &Value| {
            let schema = meant(&document, schema);
            let words = ["type", "oneOf", "anyOf"].into_iter().any(|word| schema.get(word).is_some());
            let fields = schema["type"] != "object"
                || ["properties", "additionalProperties"].into_iter().any(|word| schema.get(word).is_some());
            words && fields
        };
        if matches!(row.takes, Takes::Json(_)) {
            assert!(said(request(&document, row)), "{:?} takes {}", row.route, request(&document, row));
        }
        // The one message without a schema of its own is this document.
        if !matches!(row.gives, Gives::Bytes) && row.route != Route::OpenApi {
            assert!(said(reply(&document, row)), "{:?} gives {}", row.route, reply(&document, row));
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
    for row in ROUTES.iter().filter(|row| matches!(row.takes, Takes::Json(_))) {
        let least = smallest(&document, request(&document, row));
        for name in least.as_object().into_iter().flatten().map(|(name, _)| name) {
            let mut less = least.clone();
            less.as_object_mut().expect("it has fields").remove(name);
            assert!(!understood(scene.ask(row, &less).await), "{:?} without {name}", row.route);
            fields += 1;
        }
        let answered = scene.ask(row, &least).await;
        assert!(understood(answered.clone()), "{:?} {least}: {answered:?}", row.route);
    }
    assert!(fields > 30, "{fields} required fields: the schemas say something");
}

fn body(message: impl Serialize) -> Value {
    serde_json::to_value(message).expect("plain data")
}

#[tokio::test]
async fn real_replies_are_what_the_document_says() {
    let scene = Scene::new().await;
    let web = Agent::attach(scene.story.controller.unit_session(scene.story.model, scene.unit), 2).await;
    let record = web.record(Operation::Hook(Hook::Install));
    let name = |name: &str| body(routes::Name { name: name.to_owned() });
    let owner = Owner::Unit("web/0".parse().expect("a name"));
    let asked = [
        (Route::Attach, body(Attach { nonce: Uuid(2), epoch: web.epoch, history: None })),
        (Route::WatchUnit, body(routes::WatchFrom { epoch: web.epoch, from: None })),
        (Route::Bag, body(BagAsked { relation: scene.relation, owner, at: Position::default() })),
        (Route::Claim, body(Claim { epoch: web.epoch, release: false })),
        (Route::Commit, body(Commit { epoch: web.epoch, record })),
        (
            Route::Report,
            body(Report {
                epoch: web.epoch,
                run: 2,
                said: Vec::new(),
                executing: Some(Activity::hook(HookName::Start)),
                executing_for_ms: 5,
            }),
        ),
        (Route::WatchMachine, Value::Null),
        (Route::Fate, body(routes::Id { id: scene.unit })),
        (Route::About, Value::Null),
        (Route::Models, Value::Null),
        (Route::ModelConfig, Value::Null),
        (Route::ArchiveInfo, name("web")),
        (Route::ArchiveInfo, name("no such")),
        (Route::Config, name("web")),
        (
            Route::Run,
            body(Run { unit: "web/0".to_owned(), action: "backup".to_owned(), params: BTreeMap::new() }),
        ),
        (Route::Action, body(routes::Number { id: 1 })),
        (Route::Status, Value::Null),
        (Route::ShowUnit, name("web/0")),
        (Route::Why, name("web/0")),
        (Route::Why, name("web db")),
        (Route::Forecast, body(vec![api::operator::Removable::Unit("web/0".to_owned())])),
        (
            Route::ForecastForce,
            body(routes::ForecastForce {
                removed: vec![api::operator::Removable::Unit("web/0".to_owned())],
                no_wait: true,
            }),
        ),
        (Route::DebugLog, body(LogQuery::default())),
        (Route::Machines, Value::Null),
        (Route::Changes, body(routes::ChangesAfter { after: None })),
        (Route::SuspendRelation, body(routes::Suspend { relation: 0, message: "later".to_owned() })),
        (Route::ResumeRelation, body(routes::Resume { relation: 0 })),
        (
            Route::RemoveApplication,
            body(routes::Remove { name: "db".to_owned(), force: true, no_wait: false }),
        ),
    ];
    let document = openapi::document();
    let mut tried = BTreeSet::new();
    for (route, body) in asked {
        let row = route.row();
        let answered = scene.ask(row, &body).await.unwrap_or_else(|error| panic!("{route:?}: {error}"));
        if let Err(wrong) = check(&document, reply(&document, row), &answered) {
            panic!("{route:?}: {wrong}");
        }
        tried.insert(route);
    }
    assert_eq!(tried.len(), 26);
}

#[test]
fn a_wrong_value_does_not_pass_the_check() {
    let document = openapi::document();
    let reply = reply(&document, Route::About.row());
    let right = json!({"version": "1", "juju_version": "3", "controller": Uuid(1), "history": Uuid(2)});
    assert_eq!(check(&document, reply, &right), Ok(()));
    for (field, value) in [("version", json!(1)), ("history", json!("x")), ("more", json!(1))] {
        let mut wrong = right.clone();
        wrong[field] = value;
        assert!(check(&document, reply, &wrong).is_err(), "{wrong}");
    }
    assert!(check(&document, reply, &json!({"version": "1"})).is_err());
}
