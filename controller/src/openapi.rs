//! The OpenAPI document, from the table of routes and the authority table: it cannot leave a route out.

use crate::authority::{Callers, callers};
use api::routes::{Gives, ROUTES, Row, Takes};
use serde_json::{Map, Value, json};
use state::model::keys::UserRole;

/// The document, version 3.1.
pub fn document() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for row in ROUTES {
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method().to_lowercase()] = operation(row, &mut schemas);
    }
    schemas.insert(
        "ApiError".to_owned(),
        json!({
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "expected": {"type": "integer"},
            },
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Pintle controller", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    })
}

fn operation(row: &Row, schemas: &mut Map<String, Value>) -> Value {
    let parameters: Vec<Value> = row
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let bytes = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
    let answer = match row.gives {
        Gives::Json(name) => json!({"application/json": {"schema": schema(name, schemas)}}),
        Gives::Bytes => bytes.clone(),
        Gives::Lines(name) => json!({"application/x-ndjson": {"schema": schema(name, schemas)}}),
    };
    let failure = json!({"application/json": {"schema": {"$ref": "#/components/schemas/ApiError"}}});
    let mut operation = json!({
        "operationId": format!("{:?}", row.route),
        "summary": row.about,
        "x-callers": who(callers(row.route)),
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": answer},
            "default": {"description": "refused or failed", "content": failure},
        },
    });
    match row.takes {
        Takes::Nothing => {}
        Takes::Json(name) => {
            let content = json!({"application/json": {"schema": schema(name, schemas)}});
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        Takes::Bytes => operation["requestBody"] = json!({"required": true, "content": bytes}),
    }
    operation
}

fn who(callers: Callers) -> &'static str {
    match callers {
        Callers::Unit => "the unit's agent",
        Callers::Machine => "the machine's agent",
        Callers::Users(UserRole::Read) => "users who may read",
        Callers::Users(UserRole::Write) => "users who may write",
        Callers::Users(UserRole::Admin) => "admins",
    }
}

/// A message by its name in `api`: `Name`, `Name[]`, `Name?`, `null`.
fn schema(name: &str, schemas: &mut Map<String, Value>) -> Value {
    if name == "null" {
        return json!({"type": "null"});
    }
    if let Some(item) = name.strip_suffix("[]") {
        return json!({"type": "array", "items": schema(item, schemas)});
    }
    if let Some(some) = name.strip_suffix('?') {
        return json!({"oneOf": [schema(some, schemas), {"type": "null"}]});
    }
    schemas.entry(name).or_insert_with(|| json!({"type": "object", "title": name}));
    json!({"$ref": format!("#/components/schemas/{name}")})
}
