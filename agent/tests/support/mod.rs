//! Fixtures that several tests of the agent share.

use state::terms::names::Uuid;
use state::unit::hook::{self, HookContext};

/// web/0 in its install hook, without relations or configuration.
pub fn context() -> HookContext {
    HookContext {
        unit: "web/0".parse().unwrap(),
        id: String::new(),
        cause: hook::HookTrigger::Hook("install".into()),
        model: hook::HookModel {
            name: "dev".into(),
            uuid: Uuid(1),
            kubernetes: false,
            proxies: Default::default(),
        },
        leader: false,
        relations: Default::default(),
        config: Default::default(),
        charm_state: Default::default(),
        statuses: Default::default(),
        opened_ports: Default::default(),
        machine_ports: Default::default(),
        networks: Default::default(),
        private_address: None,
        public_address: None,
        principal: None,
        goal_state: Default::default(),
        writes: Default::default(),
    }
}
