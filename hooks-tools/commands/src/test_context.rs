//! Hook contexts for the unit tests of this crate: web/0 is the leader and related to mysql by db:1.

use crate::{CallOutcome, Inputs, ToolReply};
use serde_json::Map;
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::unit::hook::{
    Counterpart, GoalState, HookContext, HookModel, HookRelation, HookTrigger, OmittedBags, RunningAction,
    Statuses, Writes,
};
use std::collections::{BTreeMap, BTreeSet};

/// In config-changed.
pub fn context() -> HookContext {
    let relation = HookRelation {
        endpoint: "db".to_owned(),
        interface: "sql".to_owned(),
        peer: false,
        key: "web:db mysql:server".to_owned(),
        remote_application: "mysql".to_owned(),
        remote_model: Uuid(1),
        life: Life::Alive,
        suspended: false,
        members: BTreeSet::from([UnitName::new("mysql", 0)]),
        unit_bags: BTreeMap::new(),
        application_bags: BTreeMap::new(),
        omitted: OmittedBags::default(),
    };
    HookContext {
        unit: UnitName::new("web", 0),
        id: "web/0-config-changed-0".to_owned(),
        cause: HookTrigger::Hook("config-changed".to_owned()),
        model: HookModel {
            name: "dev".to_owned(),
            uuid: Uuid(1),
            kubernetes: false,
            proxies: Default::default(),
        },
        leader: true,
        relations: BTreeMap::from([(1, relation)]),
        config: BTreeMap::new(),
        charm_state: BTreeMap::new(),
        statuses: Statuses::default(),
        opened_ports: BTreeMap::new(),
        machine_ports: BTreeMap::new(),
        networks: BTreeMap::new(),
        private_address: None,
        public_address: None,
        principal: None,
        goal_state: GoalState::default(),
        writes: Writes::default(),
    }
}

/// In db-relation-changed of mysql/0.
pub fn relation_context() -> HookContext {
    let about = Counterpart {
        relation: 1,
        unit: Some(UnitName::new("mysql", 0)),
        application: "mysql".to_owned(),
        departing: None,
    };
    HookContext {
        cause: HookTrigger::Relation { hook: "db-relation-changed".to_owned(), about },
        ..context()
    }
}

/// In the action backup.
pub fn action_context() -> HookContext {
    let action = RunningAction { name: "backup".to_owned(), id: "3".to_owned(), params: Map::new() };
    HookContext { cause: HookTrigger::Action(action), ..context() }
}

/// Calls a tool that requires no input.
pub fn call(context: &mut HookContext, name: &str, words: &[&str]) -> ToolReply {
    let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match crate::call(context, name, &args, &Inputs::default()) {
        CallOutcome::Reply(reply) => reply,
        CallOutcome::Need(need) => panic!("{name} needs {need:?}"),
    }
}
