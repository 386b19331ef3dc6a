//! The OpenAPI document of the API, generated from the list of requests, so that no request can be missing from it.
//!
//! The schemas are derived from the message types, and the texts are the documentation of these types. Served by
//! the handler of `GetOpenApi`.

use api::all_requests;
use api::error::ApiError;
use api::request::{Caller, Content, Entry, Method, ResponseBody};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Returns the document (OpenAPI 3.1).
pub fn document() -> Value {
    let (mut paths, mut schemas) = (Map::new(), generator());
    let failure = json!({"application/json": {"schema": schemas.subschema_for::<ApiError>()}});
    for entry in &all_requests::all() {
        let path = paths.entry(entry.route.path).or_insert_with(|| json!({}));
        path[method(entry)] = operation(entry, &mut schemas, &failure);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Pintle controller", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    })
}

fn generator() -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.transforms.push(Box::new(RecursiveTransform(|schema: &mut Schema| {
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = without_links(text);
        }
    })));
    settings.into_generator()
}

/// Replaces links to Rust items, which lead nowhere in the document, by the names of the items.
fn without_links(text: &str) -> String {
    text.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`")
}

/// Splits a text into its first sentence and the rest.
fn split_summary(text: &str) -> (String, &str) {
    let end = [". ", ".\n"].iter().filter_map(|end| text.find(end)).min();
    let (first, rest) = text.split_at(end.unwrap_or(text.len()));
    (first.trim_end_matches('.').replace('\n', " "), rest.trim_start_matches('.').trim_start())
}

/// Returns the key of a request's operation below its path.
pub fn method(entry: &Entry) -> &'static str {
    match entry.route.method {
        Method::Get => "get",
        Method::Post => "post",
    }
}

fn operation(entry: &Entry, schemas: &mut SchemaGenerator, failure: &Value) -> Value {
    let parameters: Vec<Value> = entry
        .route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let answer_kind = match entry.response_body {
        ResponseBody::Single(content) => kind(content),
        ResponseBody::Lines => "application/x-ndjson",
    };
    let text = without_links(&(entry.description)());
    let (summary, description) = split_summary(&text);
    let mut operation = json!({
        "operationId": entry.name,
        "summary": summary,
        "x-callers": callers(entry.caller),
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {answer_kind: {"schema": (entry.output)(schemas)}}},
            "default": {"description": "refused or failed", "content": failure},
        },
    });
    if !description.is_empty() {
        operation["description"] = description.into();
    }
    if entry.route.method == Method::Post {
        let content = json!({kind(entry.request_content): {"schema": (entry.input)(schemas)}});
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

fn kind(content: Content) -> &'static str {
    match content {
        Content::Json => "application/json",
        Content::Bytes => "application/octet-stream",
    }
}

fn callers(caller: Caller) -> &'static str {
    match caller {
        Caller::UnitAgent => "the unit's agent",
        Caller::MachineAgent => "the machine's agent",
        Caller::UninstallingMachineAgent => {
            "the machine's agent, also after the machine was removed while it was away"
        }
        Caller::Enrolment => "a machine with an enrolment token, once",
        Caller::Reader => "users who may read",
        Caller::Writer => "users who may write",
        Caller::Admin => "admins",
    }
}
