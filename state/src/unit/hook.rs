//! The context of a hook: everything that the hook tools read, and the buffer for what they write.
//!
//! What a hook reads is fixed when the agent decides to run it (I5). What it writes is buffered here, and the agent
//! commits it only if the hook's process exits with 0 (design 4). The context is plain data without a connection or a
//! clock: `context` builds it, and the hook session lends it to the hook tools.

use super::writes::size;
pub use super::writes::{
    ALL_ENDPOINTS, ActionWrites, BagWrites, HOOK_WRITES_BYTES_MAX, Level, PortWrites, Ports, Reboot,
    ReportContent, TooLarge, WRITES_MAX, Writes,
};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::proxy::Proxies;
use crate::terms::settings::{self, BAG_BYTES_MAX, Bag, BagChange};
pub use crate::unit::omitted_bags::OmittedBags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The data of one run of a hook, an action or commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookContext {
    /// The unit's name.
    pub unit: UnitName,
    /// The principal of a subordinate unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UnitName>,
    /// The secret id that every tool call must present: `web/0-install-<32 hex digits>`.
    pub id: String,
    /// Why the charm runs.
    pub cause: HookTrigger,
    /// The model.
    pub model: HookModel,
    /// Whether the unit is the leader for at least another 30 s. The agent revokes it by
    /// [`HookContext::restrict_leadership`]; it never becomes true again in this hook (spec/hook-tools.md 2.2).
    pub leader: bool,
    /// The relations whose scope the unit has entered.
    pub relations: BTreeMap<RelationNumber, HookRelation>,
    /// Every option that the charm declares: the value that was set, else the default, else null.
    pub config: BTreeMap<String, Value>,
    /// The charm's stored state (state-get) before this hook.
    pub charm_state: BTreeMap<String, String>,
    /// Workload statuses.
    pub statuses: Statuses,
    /// The ports that the unit had opened before this hook.
    pub opened_ports: Ports,
    /// The ports that other units of this machine have opened.
    pub machine_ports: BTreeMap<UnitName, Ports>,
    /// The networks by binding. The empty name is the default binding.
    pub networks: BTreeMap<String, Network>,
    /// The address for clients in the same network.
    pub private_address: Option<String>,
    /// The address for all clients.
    pub public_address: Option<String>,
    /// The state that the model is converging to (goal-state).
    pub goal_state: GoalState,
    /// The writes of this hook so far.
    pub writes: Writes,
}

/// Why the charm runs, with the data that only this kind of run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookTrigger {
    /// A hook without further data, by its name: `install`, `config-changed`.
    Hook(String),
    /// A relation hook.
    Relation {
        /// The hook's name, for example `db-relation-changed`.
        hook: String,
        /// The relation and the remote unit.
        about: Counterpart,
    },
    /// A storage hook.
    Storage {
        /// The hook's name.
        hook: String,
        /// The storage id, `data/0`.
        id: String,
        /// Where the storage is mounted.
        location: String,
        /// `filesystem` or `block`.
        kind: String,
    },
    /// A secret hook.
    Secret {
        /// The hook's name.
        hook: String,
        /// The secret's id without the scheme `secret:`.
        id: String,
        /// The secret's label.
        label: String,
        /// The revision, for secret-remove and secret-expired only.
        revision: Option<u32>,
    },
    /// A hook of a workload container (Pebble).
    Workload {
        /// The hook's name.
        hook: String,
        /// The container's name.
        workload: String,
        /// The Pebble notice, if the hook delivers one.
        notice: Option<Notice>,
        /// The name of the Pebble check, if the hook is about one.
        check: Option<String>,
    },
    /// An action.
    Action(RunningAction),
    /// Commands of an operator (juju-exec), optionally in the context of a relation.
    Commands(Option<Counterpart>),
}

/// The relation and the remote unit of a hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counterpart {
    /// The relation's number.
    pub relation: RelationNumber,
    /// The remote unit; `None` in created, broken and application-level changed.
    pub unit: Option<UnitName>,
    /// The remote application.
    pub application: String,
    /// The unit that departs, in departed only: the remote unit or this unit.
    pub departing: Option<UnitName>,
}

/// A Pebble notice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The notice's id.
    pub id: String,
    /// The notice's type, for example `custom`.
    pub kind: String,
    /// The notice's key.
    pub key: String,
}

/// The action that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningAction {
    /// The action's name.
    pub name: String,
    /// The task's number.
    pub id: String,
    /// The parameters, including the defaults of the charm's schema.
    pub params: Map<String, Value>,
}

/// The model of the unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookModel {
    /// The model's name.
    pub name: String,
    /// The model's UUID.
    pub uuid: Uuid,
    /// Whether the model is on Kubernetes, where charms may open single ports only.
    pub kubernetes: bool,
    /// The proxy settings.
    pub proxies: Proxies,
}

/// A relation as this hook reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookRelation {
    /// The endpoint of the unit's own charm.
    pub endpoint: String,
    /// The interface of both endpoints.
    pub interface: String,
    /// Whether this is a peer relation.
    pub peer: bool,
    /// The relation's name in messages, for example `web:db mysql:server`.
    pub key: String,
    /// The application on the other side; in a peer relation the unit's own.
    pub remote_application: String,
    /// The UUID of the model of that application.
    pub remote_model: Uuid,
    /// The relation's effective life.
    pub life: Life,
    /// Whether the relation is suspended.
    pub suspended: bool,
    /// The remote units in scope. The unit of a joined hook is included, the unit of a departed hook is not, nor is
    /// this unit.
    pub members: BTreeSet<UnitName>,
    /// The settings of units, this unit included.
    pub unit_bags: BTreeMap<UnitName, Bag>,
    /// The settings of applications.
    pub application_bags: BTreeMap<String, Bag>,
    /// The bags whose values are not here yet (design 9).
    #[serde(default, skip_serializing_if = "OmittedBags::is_empty")]
    pub omitted: OmittedBags,
}

impl HookRelation {
    /// Whether relation-ids omits the relation: it is Dead, or it has no members and cannot gain one
    /// (spec/hook-tools.md 2.1).
    pub fn is_broken(&self) -> bool {
        let is_ending = self.life != Life::Alive || self.suspended;
        self.life == Life::Dead || (!self.peer && is_ending && self.members.is_empty())
    }
}

/// A workload status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// One of Juju's status words, for example `active`.
    pub status: String,
    /// The charm's message.
    pub message: String,
    /// Further data of the status, which status-get prints.
    pub data: BTreeMap<String, Value>,
}

/// The workload statuses that status-get reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statuses {
    /// The unit's own status.
    pub unit: Status,
    /// The status of its application.
    pub application: Status,
    /// The statuses of the application's units, this unit included.
    pub units: BTreeMap<UnitName, Status>,
}

/// The network that a binding is attached to (network-get).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The network devices.
    pub devices: Vec<Device>,
    /// The egress subnets in CIDR notation.
    pub egress: Vec<String>,
    /// The ingress addresses.
    pub ingress: Vec<String>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The MAC address.
    pub mac: String,
    /// The device's name, for example `eth0`.
    pub name: String,
    /// The addresses of the device.
    pub addresses: Vec<Address>,
}

/// An address of a network device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// The host name, or empty.
    pub hostname: String,
    /// The IP address.
    pub value: String,
    /// The subnet in CIDR notation.
    pub cidr: String,
}

/// The state that the model is converging to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalState {
    /// The units of this application by name.
    pub units: BTreeMap<String, Goal>,
    /// By endpoint the related applications and their units by name.
    pub relations: BTreeMap<String, BTreeMap<String, Goal>>,
}

/// The goal for one unit or application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// One of Juju's status words.
    pub status: String,
    /// Since when, in the format `2006-01-02 15:04:05Z`.
    pub since: String,
}

/// Which of the unit's two bags in a relation a tool writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagSide {
    /// The unit's own settings.
    Unit,
    /// The settings of its application.
    Application,
}

impl HookTrigger {
    /// Returns the value of `JUJU_HOOK_NAME`, which is empty for actions and commands.
    pub fn hook(&self) -> &str {
        match self {
            HookTrigger::Hook(hook)
            | HookTrigger::Relation { hook, .. }
            | HookTrigger::Storage { hook, .. }
            | HookTrigger::Secret { hook, .. }
            | HookTrigger::Workload { hook, .. } => hook,
            HookTrigger::Action(_) | HookTrigger::Commands(_) => "",
        }
    }

    /// Returns the value of `JUJU_DISPATCH_PATH`, which is also the path of the executed file; `None` for commands.
    pub fn dispatch_path(&self) -> Option<String> {
        match self {
            HookTrigger::Action(action) => Some(format!("actions/{}", action.name)),
            HookTrigger::Commands(_) => None,
            HookTrigger::Hook(hook)
            | HookTrigger::Relation { hook, .. }
            | HookTrigger::Storage { hook, .. }
            | HookTrigger::Secret { hook, .. }
            | HookTrigger::Workload { hook, .. } => Some(format!("hooks/{hook}")),
        }
    }

    /// Returns the relation of the run, if it has one.
    pub fn counterpart(&self) -> Option<&Counterpart> {
        match self {
            HookTrigger::Relation { about, .. } => Some(about),
            HookTrigger::Commands(about) => about.as_ref(),
            HookTrigger::Hook(_)
            | HookTrigger::Storage { .. }
            | HookTrigger::Secret { .. }
            | HookTrigger::Workload { .. }
            | HookTrigger::Action(_) => None,
        }
    }
}

impl HookContext {
    /// Sets `leader` to false if the lease no longer lasts long enough. Never sets it to true.
    pub fn restrict_leadership(&mut self, is_leader: bool) {
        self.leader &= is_leader;
    }

    /// Returns the relation id as charms write it: `db:1`.
    pub fn relation_id(&self, number: RelationNumber) -> Option<String> {
        self.relations.get(&number).map(|relation| format!("{}:{number}", relation.endpoint))
    }

    /// Returns one of this unit's two bags in a relation, including this hook's writes. A bag without settings is
    /// empty.
    pub fn own_bag(&self, number: RelationNumber, side: BagSide) -> Bag {
        let relation = self.relations.get(&number);
        let bag = match side {
            BagSide::Unit => relation.and_then(|r| r.unit_bags.get(&self.unit)),
            BagSide::Application => relation.and_then(|r| r.application_bags.get(&self.unit.application)),
        };
        let mut bag = bag.cloned().unwrap_or_default();
        if let Some(writes) = self.writes.bags.get(&number) {
            settings::apply(
                &mut bag,
                match side {
                    BagSide::Unit => &writes.unit,
                    BagSide::Application => &writes.application,
                },
            );
        }
        bag
    }

    /// Buffers a change of one of this unit's two bags. A key that gets back its value from before the hook is
    /// removed from the buffer, because only differences are sent (spec/uniter.md C.2).
    ///
    /// # Errors
    /// [`TooLarge`] if the bag or all writes of the hook exceed their limit. The buffer is unchanged then.
    pub fn write_bag(
        &mut self,
        number: RelationNumber,
        side: BagSide,
        change: BagChange,
    ) -> Result<(), TooLarge> {
        let mut bag = self.own_bag(number, side);
        settings::apply(&mut bag, &change);
        let size = settings::size(&bag);
        if size > BAG_BYTES_MAX {
            return Err(TooLarge(format!(
                "relation settings of {size} bytes are too large: a bag holds {BAG_BYTES_MAX} bytes at most"
            )));
        }
        let before = self.writes.clone();
        let mut writes = self.writes.bags.remove(&number).unwrap_or_default();
        let untouched = self.own_bag(number, side);
        let target = match side {
            BagSide::Unit => &mut writes.unit,
            BagSide::Application => &mut writes.application,
        };
        target.extend(change);
        target.retain(|key, value| untouched.get(key).map_or("", String::as_str) != value);
        if writes != BagWrites::default() {
            self.writes.bags.insert(number, writes);
        }
        self.check_size(before)
    }

    /// Returns the charm's stored state including this hook's writes, or `None` if the charm has never stored any.
    pub fn own_state(&self) -> Option<BTreeMap<String, String>> {
        if self.charm_state.is_empty() && self.writes.state.is_empty() {
            return None;
        }
        let mut state = self.charm_state.clone();
        for (key, value) in &self.writes.state {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
        Some(state)
    }

    /// Buffers one key of the charm's stored state. `None` deletes the key.
    ///
    /// # Errors
    /// [`TooLarge`] if the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn write_state(&mut self, key: String, value: Option<String>) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        if self.charm_state.get(&key) == value.as_ref() {
            self.writes.state.remove(&key);
        } else {
            self.writes.state.insert(key, value);
        }
        self.check_size(before)
    }

    /// Returns this unit's open ports including this hook's writes.
    pub fn own_ports(&self) -> Ports {
        self.writes.ports.applied_to(&self.opened_ports)
    }

    /// Replaces the buffered port changes.
    ///
    /// # Errors
    /// [`TooLarge`] if the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn write_ports(&mut self, ports: PortWrites) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        self.writes.ports = ports;
        self.check_size(before)
    }

    /// Replaces the buffered action results.
    ///
    /// # Errors
    /// [`TooLarge`] if the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn write_action(&mut self, action: ActionWrites) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        self.writes.action = action;
        self.check_size(before)
    }

    /// Keeps the writes, or restores those `before` if one transaction could not hold them: a tool call that exceeds
    /// the limit fails immediately, so that the commit never fails for its size (design 5). A change that makes the
    /// writes smaller is always kept.
    fn check_size(&mut self, before: Writes) -> Result<(), TooLarge> {
        let (documents, bytes) = (self.writes.documents(), self.stored_bytes());
        if documents <= WRITES_MAX && bytes <= HOOK_WRITES_BYTES_MAX {
            return Ok(());
        }
        let after = std::mem::replace(&mut self.writes, before);
        if documents > WRITES_MAX {
            return Err(TooLarge(format!("one hook may change at most {WRITES_MAX} documents")));
        }
        if bytes < self.stored_bytes() {
            self.writes = after;
            return Ok(());
        }
        Err(TooLarge(format!(
            "the data of this unit and the changes of this hook would take {bytes} bytes: {HOOK_WRITES_BYTES_MAX} at most"
        )))
    }

    /// Returns how many bytes of this unit's data a commit stores: the changed bags as documents, and in the replica
    /// all of the unit's own bags, its state and the changes themselves.
    fn stored_bytes(&self) -> usize {
        let replica: usize =
            self.relations.keys().map(|number| size(&self.own_bag(*number, BagSide::Unit))).sum();
        let touched = self.writes.bags.iter().map(|(number, writes)| {
            let unit = if writes.unit.is_empty() { 0 } else { size(&self.own_bag(*number, BagSide::Unit)) };
            let application = match writes.application.is_empty() {
                true => 0,
                false => size(&self.own_bag(*number, BagSide::Application)) + size(&writes.application),
            };
            unit + application
        });
        replica
            + touched.sum::<usize>()
            + size(&self.own_state())
            + size(&self.own_ports())
            + size(&self.writes.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> HookContext {
        let relation = |number: u32| HookRelation {
            endpoint: "db".to_owned(),
            interface: "sql".to_owned(),
            peer: false,
            key: format!("web:db db{number}:db"),
            remote_application: format!("db{number}"),
            remote_model: Uuid(1),
            life: Life::Alive,
            suspended: false,
            members: BTreeSet::new(),
            unit_bags: BTreeMap::from([(UnitName::new("web", 0), change(&[("old", "1")]))]),
            application_bags: BTreeMap::new(),
            omitted: OmittedBags::default(),
        };
        HookContext {
            unit: UnitName::new("web", 0),
            id: "web/0-install-0".to_owned(),
            cause: HookTrigger::Hook("install".to_owned()),
            model: HookModel {
                name: "dev".to_owned(),
                uuid: Uuid(1),
                kubernetes: false,
                proxies: Default::default(),
            },
            leader: true,
            relations: (0..100).map(|number| (number, relation(number))).collect(),
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

    fn change(pairs: &[(&str, &str)]) -> BagChange {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_hook_reads_its_own_writes_and_only_differences_are_kept() {
        let mut context = context();
        context.write_bag(1, BagSide::Unit, change(&[("a", "1"), ("old", "1"), ("gone", "")])).unwrap();
        assert_eq!(context.writes.bags[&1].unit, change(&[("a", "1")]));
        assert_eq!(context.own_bag(1, BagSide::Unit), change(&[("a", "1"), ("old", "1")]));
        context.write_bag(1, BagSide::Unit, change(&[("a", ""), ("old", "")])).unwrap();
        assert_eq!(context.writes.bags[&1].unit, change(&[("old", "")]));
        context.write_bag(1, BagSide::Unit, change(&[("old", "1")])).unwrap();
        assert_eq!(context.writes, Writes::default());
    }

    #[test]
    fn a_bag_of_one_mebibyte_is_the_largest() {
        let mut context = context();
        let refused =
            context.write_bag(1, BagSide::Unit, change(&[("a", &"x".repeat(BAG_BYTES_MAX))])).unwrap_err();
        assert!(refused.0.contains("a bag holds 1048576 bytes at most"), "{refused:?}");
        assert_eq!(context.writes, Writes::default());
    }

    #[test]
    fn more_bytes_than_one_transaction_holds_are_refused() {
        let mut context = context();
        // Stored twice: as the bag's document and in the replica.
        let third = "x".repeat(HOOK_WRITES_BYTES_MAX / 3);
        context.write_bag(1, BagSide::Unit, change(&[("a", &third)])).unwrap();
        let before = context.clone();
        assert!(context.write_bag(2, BagSide::Unit, change(&[("a", &third)])).is_err());
        assert!(context.write_state("a".to_owned(), Some(third.clone())).is_err());
        assert_eq!(context, before);
    }

    #[test]
    fn settings_of_earlier_hooks_count_and_deleting_is_always_possible() {
        let mut context = context();
        let own = |size| BTreeMap::from([(UnitName::new("web", 0), change(&[("a", &"x".repeat(size))]))]);
        context.relations.get_mut(&1).unwrap().unit_bags = own(HOOK_WRITES_BYTES_MAX);
        assert!(context.write_bag(2, BagSide::Unit, change(&[("a", "1")])).is_err());
        context.relations.get_mut(&2).unwrap().unit_bags = own(100);
        context.write_bag(2, BagSide::Unit, change(&[("a", "")])).unwrap();
        assert_eq!(context.own_bag(2, BagSide::Unit), Bag::new());
        context.write_bag(1, BagSide::Unit, change(&[("a", "")])).unwrap();
        context.write_bag(2, BagSide::Unit, change(&[("a", "1")])).unwrap();
    }

    #[test]
    fn more_documents_than_one_record_holds_are_refused() {
        let mut context = context();
        for number in 0..WRITES_MAX as u32 {
            context.write_bag(number, BagSide::Unit, change(&[("a", "1")])).unwrap();
        }
        let before = context.clone();
        assert!(context.write_bag(99, BagSide::Unit, change(&[("a", "1")])).is_err());
        assert!(context.write_state("a".to_owned(), Some(String::new())).is_err());
        assert_eq!(context, before);
    }

    #[test]
    fn a_hook_that_lost_leadership_never_regains_it() {
        let mut context = context();
        context.restrict_leadership(false);
        context.restrict_leadership(true);
        assert!(!context.leader);
    }

    #[test]
    fn a_context_and_its_writes_survive_a_restart() {
        let mut context = context();
        context.write_bag(1, BagSide::Application, change(&[("a", "1")])).unwrap();
        context.write_state("k".to_owned(), None).unwrap();
        context.write_state("l".to_owned(), Some("v".to_owned())).unwrap();
        let text = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<HookContext>(&text).unwrap(), context);
        assert_eq!(serde_json::from_str::<Writes>("{}").unwrap(), Writes::default());
    }
}
