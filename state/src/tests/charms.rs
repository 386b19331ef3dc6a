//! The charms of the tests.

use crate::charm::{Action, Charm, ConfigOption, Endpoint, OptionType, Role, Scope};
use std::collections::BTreeMap;

pub fn endpoint(name: &str, role: Role, interface: &str) -> (String, Endpoint) {
    let (n, interface) = (name.to_owned(), interface.to_owned());
    (n.clone(), Endpoint { name: n, role, interface, scope: Scope::Global, limit: None, optional: false })
}

pub fn web() -> Charm {
    let endpoints = [endpoint("db", Role::Requirer, "mysql"), endpoint("ring", Role::Peer, "ring")];
    let option = |kind, default| ConfigOption { kind, default: Some(default), description: String::new() };
    Charm {
        name: "web".into(),
        endpoints: endpoints.into(),
        config: BTreeMap::from([
            ("port".to_owned(), option(OptionType::Int, 80.into())),
            ("title".to_owned(), option(OptionType::String, "hello".into())),
        ]),
        actions: BTreeMap::from([(
            "backup".to_owned(),
            Action {
                schema: serde_json::json!({"type": "object", "properties": {"to": {"type": "string", "default": "/tmp"}}}),
                ..Action::default()
            },
        )]),
        ..Charm::default()
    }
}

pub fn db() -> Charm {
    Charm {
        name: "db".into(),
        endpoints: [endpoint("server", Role::Provider, "mysql")].into(),
        ..Charm::default()
    }
}

pub fn plain() -> Charm {
    Charm { name: "plain".into(), ..Charm::default() }
}

/// A principal charm with an endpoint of its own for a logging subordinate.
pub fn shop() -> Charm {
    let endpoints = [endpoint("logs", Role::Provider, "logs"), endpoint("db", Role::Requirer, "mysql")];
    Charm { name: "shop".into(), endpoints: endpoints.into(), ..Charm::default() }
}

/// A subordinate charm that relates by `juju-info` or by its principal's own endpoint. It also requires a database.
pub fn logging() -> Charm {
    let container = |(name, end): (String, Endpoint)| (name, Endpoint { scope: Scope::Container, ..end });
    let info = container(endpoint("host", Role::Requirer, "juju-info"));
    let logs = container(endpoint("logs", Role::Requirer, "logs"));
    let endpoints =
        [info, logs, endpoint("db", Role::Requirer, "mysql"), endpoint("ring", Role::Peer, "ring")];
    Charm { name: "logging".into(), subordinate: true, endpoints: endpoints.into(), ..Charm::default() }
}
