//! The charm archives that operators deploy.

use serde_json::json;
use state::charm::{Action, Charm, ConfigOption, Endpoint, OptionType, Resource, Role, Scope, Storage};
use std::collections::BTreeMap;

/// The storage that servers require.
pub const DISK: &str = "disk";
/// The resource that every charm declares.
pub const RESOURCE: &str = "data";

fn endpoint(name: &str, role: Role, interface: &str, scope: Scope) -> (String, Endpoint) {
    let end = Endpoint {
        name: name.into(),
        role,
        interface: interface.into(),
        scope,
        limit: None,
        optional: false,
    };
    (name.to_owned(), end)
}

/// The archive of a charm: a server with peers, a client that answers, or a subordinate of both, which the
/// server also offers its own endpoint. Each `version` has another digest. A server may require storage.
pub fn charm(name: &str, version: u64, has_storage: bool) -> Vec<u8> {
    let endpoints = match name {
        "mon" => vec![
            endpoint("host", Role::Requirer, "juju-info", Scope::Container),
            endpoint("watched", Role::Requirer, "watch", Scope::Container),
        ],
        "web" => vec![endpoint("echo", Role::Requirer, "sql", Scope::Global)],
        _ => vec![
            endpoint("server", Role::Provider, "sql", Scope::Global),
            endpoint("ring", Role::Peer, "ring", Scope::Global),
            endpoint("watch", Role::Provider, "watch", Scope::Global),
        ],
    };
    let option =
        ConfigOption { kind: OptionType::String, default: Some(json!("a")), ..ConfigOption::default() };
    let secret = ConfigOption { kind: OptionType::Secret, ..ConfigOption::default() };
    // each lock that an action can take is one of some version
    let action = Action {
        schema: json!({"type": "object", "properties": {}}),
        parallel: version % 3 == 1,
        execution_group: if version % 3 == 2 { "group".to_owned() } else { String::new() },
        ..Action::default()
    };
    let resource = Resource { filename: "file".to_owned(), ..Resource::default() };
    let is_server = !matches!(name, "mon" | "web");
    let disk = Storage { count_max: Some(2), ..Storage::default() };
    let charm = Charm {
        name: name.to_owned(),
        storage: (has_storage && is_server).then_some((DISK.to_owned(), disk)).into_iter().collect(),
        summary: format!("version {version}"),
        subordinate: name == "mon",
        endpoints: endpoints.into_iter().collect(),
        config: BTreeMap::from([("level".to_owned(), option), ("token".to_owned(), secret)]),
        resources: BTreeMap::from([(RESOURCE.to_owned(), resource)]),
        actions: BTreeMap::from([("act".to_owned(), action)]),
        ..Charm::default()
    };
    serde_json::to_vec(&charm).expect("plain data")
}
