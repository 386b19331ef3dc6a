//! The context of a hook, for tests: web/0 leads its application and is related to mysql/0 by db:1.
//!
//! A test takes what it needs and replaces the rest (`HookContext { leader: false, ..context() }`). The unit tests of
//! `state`, `commands` and `agent` include this file by its path, because they build without the rest of this crate.

use state::terms::hook_name::HookName;
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::unit::hook_context::{
    GoalState, HookContext, HookModel, HookRelation, HookTrigger, OmittedBags, Statuses, Writes,
};
use std::collections::{BTreeMap, BTreeSet};

/// The context of config-changed, with empty bags and without settings.
pub fn context() -> HookContext {
    let relation = HookRelation {
        endpoint: "db".to_owned(),
        interface: "sql".to_owned(),
        peer: false,
        ends: "mysql:server web:db".parse().expect("ends"),
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
        trigger: HookTrigger::Hook(HookName::ConfigChanged),
        model: HookModel {
            name: "dev".to_owned(),
            uuid: Uuid(1),
            kubernetes: false,
            proxies: Default::default(),
            logging: Default::default(),
            advanced_ms: 0,
            warm_dispatch: false,
            engine: Default::default(),
        },
        leader: true,
        leader_settings: BTreeMap::new(),
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
        cloud: None,
        secrets: BTreeMap::new(),
        storage: BTreeMap::new(),
        resources: Default::default(),
        writes: Writes::default(),
    }
}
