//! The OpenAPI document of the API, generated from the list of requests, so that no request can be missing from it.
//!
//! Served by the handler of `GetOpenApi`.

use api::error::ApiError;
use api::list;
use api::request::{Caller, Content, Entry, Message, Method, ResponseBody};
use api::schema::Types;
use serde_json::{Map, Value, json};

/// Returns the document (OpenAPI 3.1).
pub fn document() -> Value {
    let (mut paths, types) = (Map::new(), Types::default());
    let failure = json!({"application/json": {"schema": ApiError::schema(&types)}});
    for entry in &list::all() {
        let path = paths.entry(entry.route.path).or_insert_with(|| json!({}));
        path[method(entry)] = operation(entry, &types, &failure);
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Pintle controller", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {
            "schemas": types.schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    })
}

/// Returns the key of a request's operation below its path.
pub fn method(entry: &Entry) -> &'static str {
    match entry.route.method {
        Method::Get => "get",
        Method::Post => "post",
    }
}

fn operation(entry: &Entry, types: &Types, failure: &Value) -> Value {
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
    let mut operation = json!({
        "operationId": entry.name,
        "x-callers": callers(entry.caller),
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {answer_kind: {"schema": schema((entry.output)(types))}}},
            "default": {"description": "refused or failed", "content": failure},
        },
    });
    if entry.route.method == Method::Post {
        let content = json!({kind(entry.request_content): {"schema": schema((entry.input)(types))}});
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

fn schema(json: Option<Value>) -> Value {
    json.unwrap_or_else(|| json!({"type": "string", "format": "binary"}))
}

fn callers(caller: Caller) -> &'static str {
    match caller {
        Caller::UnitAgent => "the unit's agent",
        Caller::MachineAgent => "the machine's agent",
        Caller::Enrolment => "a machine with an enrolment token, once",
        Caller::Reader => "users who may read",
        Caller::Writer => "users who may write",
        Caller::Admin => "admins",
    }
}
