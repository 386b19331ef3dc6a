//! What several tests of the agent begin with.

use state::terms::names::Uuid;
use state::unit::hook::{self, HookContext};

/// web/0 in its install hook, with nothing around it.
pub fn context() -> HookContext {
    HookContext {
        unit: "web/0".parse().unwrap(),
        id: String::new(),
        cause: hook::Cause::Hook("install".into()),
        model: hook::Model {
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
