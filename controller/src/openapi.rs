//! The OpenAPI document, from the table of routes and the authority table: it cannot leave a route out.

use crate::authority::{Callers, callers};
use api::error::ApiError;
use api::routes::{Gives, ROUTES, Row, Takes};
use api::schema::Types;
use serde_json::{Map, Value, json};
use state::model::keys::UserRole;

/// The document, version 3.1.
pub fn document() -> Value {
    let (mut paths, types) = (Map::new(), Types::default());
    let failure = json!({"application/json": {"schema": types.describe::<ApiError>()}});
    for row in ROUTES {
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method().to_lowercase()] = operation(row, &types, &failure);
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

fn operation(row: &Row, types: &Types, failure: &Value) -> Value {
    let parameters: Vec<Value> = row
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let bytes = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
    let answer = match row.gives {
        Gives::Json(schema) => json!({"application/json": {"schema": schema(types)}}),
        Gives::Bytes => bytes.clone(),
        Gives::Lines(schema) => json!({"application/x-ndjson": {"schema": schema(types)}}),
    };
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
        Takes::Json(schema) => {
            let content = json!({"application/json": {"schema": schema(types)}});
            operation["requestBody"] = json!({"required": true, "content": content});
        }
        Takes::Bytes => operation["requestBody"] = json!({"required": true, "content": bytes}),
    }
    operation
}

fn who(callers: Callers) -> &'static str {
    match callers {
        Callers::Unit => "the unit's agent",
        Callers::Enrolment => "a machine that was invited, once",
        Callers::Machine => "the machine's agent",
        Callers::Users(UserRole::Read) => "users who may read",
        Callers::Users(UserRole::Write) => "users who may write",
        Callers::Users(UserRole::Admin) => "admins",
    }
}
