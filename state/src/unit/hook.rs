//! What a hook sees and what it writes. Everything it reads was fixed when the hook was decided; everything it
//! writes is buffered here and applied only if its process exits 0 (design 4). Plain data: no link, no clock.

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

/// One hook's world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookContext {
    pub unit: UnitName,
    /// Of a subordinate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UnitName>,
    /// What a tool call must present, `web/0-install-<32 hex>`.
    pub id: String,
    pub cause: Cause,
    pub model: Model,
    /// A promise of 30 s or more of leadership. The agent lowers it by [`HookContext::restrict_leadership`]; once false
    /// it stays false in this hook (spec/hook-tools.md 2.2).
    pub leader: bool,
    pub relations: BTreeMap<RelationNumber, Relation>,
    /// Every declared option: the set value, else the default, else null.
    pub config: BTreeMap<String, Value>,
    pub charm_state: BTreeMap<String, String>,
    pub statuses: Statuses,
    pub opened_ports: Ports,
    /// What other units of this machine have open.
    pub machine_ports: BTreeMap<UnitName, Ports>,
    /// By binding; the empty name is the default binding.
    pub networks: BTreeMap<String, Network>,
    pub private_address: Option<String>,
    pub public_address: Option<String>,
    pub goal_state: GoalState,
    /// What this hook has written so far.
    pub writes: Writes,
}

/// Why the charm runs, with what only that kind of run has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// `install`, `config-changed`, ...: the hook's name.
    Hook(String),
    /// `db-relation-changed`.
    Relation {
        hook: String,
        about: Counterpart,
    },
    Storage {
        hook: String,
        id: String,
        location: String,
        kind: String,
    },
    /// `id` without its scheme; `revision` for secret-remove and secret-expired only.
    Secret {
        hook: String,
        id: String,
        label: String,
        revision: Option<u32>,
    },
    Workload {
        hook: String,
        workload: String,
        notice: Option<Notice>,
        check: Option<String>,
    },
    Action(Action),
    /// A person's commands (juju-exec), perhaps within a relation.
    Commands(Option<Counterpart>),
}

/// The relation a hook is about, and who in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counterpart {
    pub relation: RelationNumber,
    /// None in created, broken and application-level changed.
    pub unit: Option<UnitName>,
    pub application: String,
    /// departed only: who leaves, perhaps this unit.
    pub departing: Option<UnitName>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub id: String,
    pub kind: String,
    pub key: String,
}

/// The action that runs. Defaults of the charm's schema are already among its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub name: String,
    pub id: String,
    pub params: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    pub name: String,
    pub uuid: Uuid,
    /// Applications of such a model open single ports only.
    pub kubernetes: bool,
    pub proxies: Proxies,
}

/// A relation as this hook sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    pub endpoint: String,
    pub interface: String,
    pub peer: bool,
    /// `web:db mysql:server`: its name in messages.
    pub key: String,
    /// The own application in a peer relation.
    pub remote_application: String,
    pub remote_model: Uuid,
    pub life: Life,
    pub suspended: bool,
    /// The counterparts, with the hook's own effect: joined included, departed excluded; never this unit.
    pub members: BTreeSet<UnitName>,
    pub unit_bags: BTreeMap<UnitName, Bag>,
    pub application_bags: BTreeMap<String, Bag>,
    /// Bags that did not come along (design 9).
    #[serde(default, skip_serializing_if = "OmittedBags::is_empty")]
    pub withheld: OmittedBags,
}

impl Relation {
    /// relation-ids leaves it out: dead, or nobody is left and nobody will come (spec/hook-tools.md 2.1).
    pub fn is_broken(&self) -> bool {
        let ending = self.life != Life::Alive || self.suspended;
        self.life == Life::Dead || (!self.peer && ending && self.members.is_empty())
    }
}

/// A workload status and the charm's words about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub status: String,
    pub message: String,
    pub data: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statuses {
    pub unit: Status,
    pub application: Status,
    /// Of the application's units, this one included.
    pub units: BTreeMap<UnitName, Status>,
}

/// What a binding is attached to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    pub devices: Vec<Device>,
    pub egress: Vec<String>,
    pub ingress: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub mac: String,
    pub name: String,
    pub addresses: Vec<Address>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Address {
    pub hostname: String,
    pub value: String,
    pub cidr: String,
}

/// What the model should come to: units of this application, and by endpoint applications and their units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalState {
    pub units: BTreeMap<String, Goal>,
    pub relations: BTreeMap<String, BTreeMap<String, Goal>>,
}

/// `since` as the charm sees it: `2006-01-02 15:04:05Z`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    pub status: String,
    pub since: String,
}

/// Whose bag is written. Reading names units and applications instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Unit,
    Application,
}

impl Cause {
    /// `JUJU_HOOK_NAME`: empty for actions and commands.
    pub fn hook(&self) -> &str {
        match self {
            Cause::Hook(hook)
            | Cause::Relation { hook, .. }
            | Cause::Storage { hook, .. }
            | Cause::Secret { hook, .. }
            | Cause::Workload { hook, .. } => hook,
            Cause::Action(_) | Cause::Commands(_) => "",
        }
    }

    /// `JUJU_DISPATCH_PATH`, and the file that is run; none for commands.
    pub fn dispatch_path(&self) -> Option<String> {
        match self {
            Cause::Action(action) => Some(format!("actions/{}", action.name)),
            Cause::Commands(_) => None,
            Cause::Hook(hook)
            | Cause::Relation { hook, .. }
            | Cause::Storage { hook, .. }
            | Cause::Secret { hook, .. }
            | Cause::Workload { hook, .. } => Some(format!("hooks/{hook}")),
        }
    }

    pub fn counterpart(&self) -> Option<&Counterpart> {
        match self {
            Cause::Relation { about, .. } => Some(about),
            Cause::Commands(about) => about.as_ref(),
            Cause::Hook(_)
            | Cause::Storage { .. }
            | Cause::Secret { .. }
            | Cause::Workload { .. }
            | Cause::Action(_) => None,
        }
    }
}

impl HookContext {
    /// Lowers `leader` when the promise no longer holds; never raises it.
    pub fn restrict_leadership(&mut self, promised: bool) {
        self.leader &= promised;
    }

    /// `db:1`, as charms write it.
    pub fn relation_id(&self, number: RelationNumber) -> Option<String> {
        self.relations.get(&number).map(|relation| format!("{}:{number}", relation.endpoint))
    }

    /// One of this unit's two bags in a relation, with this hook's own writes. A bag never written is empty.
    pub fn own_bag(&self, number: RelationNumber, side: Side) -> Bag {
        let relation = self.relations.get(&number);
        let bag = match side {
            Side::Unit => relation.and_then(|r| r.unit_bags.get(&self.unit)),
            Side::Application => relation.and_then(|r| r.application_bags.get(&self.unit.application)),
        };
        let mut bag = bag.cloned().unwrap_or_default();
        if let Some(writes) = self.writes.bags.get(&number) {
            settings::apply(
                &mut bag,
                match side {
                    Side::Unit => &writes.unit,
                    Side::Application => &writes.application,
                },
            );
        }
        bag
    }

    /// Buffers a change of one of this unit's two bags. Keys that end as the hook found them are no longer part
    /// of the change: only differences are sent (spec/uniter.md C.2).
    pub fn write_bag(
        &mut self,
        number: RelationNumber,
        side: Side,
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
            Side::Unit => &mut writes.unit,
            Side::Application => &mut writes.application,
        };
        target.extend(change);
        target.retain(|key, value| untouched.get(key).map_or("", String::as_str) != value);
        if writes != BagWrites::default() {
            self.writes.bags.insert(number, writes);
        }
        self.admit(before)
    }

    /// The charm's own state with this hook's writes; none if there has never been any.
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

    /// Buffers one key of the charm's own state; none deletes.
    pub fn write_state(&mut self, key: String, value: Option<String>) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        if self.charm_state.get(&key) == value.as_ref() {
            self.writes.state.remove(&key);
        } else {
            self.writes.state.insert(key, value);
        }
        self.admit(before)
    }

    /// This unit's ports once the hook has succeeded.
    pub fn own_ports(&self) -> Ports {
        self.writes.ports.applied_to(&self.opened_ports)
    }

    /// Replaces the buffered port changes.
    pub fn write_ports(&mut self, ports: PortWrites) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        self.writes.ports = ports;
        self.admit(before)
    }

    /// Replaces the buffered action results.
    pub fn write_action(&mut self, action: ActionWrites) -> Result<(), TooLarge> {
        let before = self.writes.clone();
        self.writes.action = action;
        self.admit(before)
    }

    /// Takes the writes, or goes back to those `before`, if one transaction could not hold them: a call that would
    /// pass the bound fails at the call, never at the commit (design 5). What makes them smaller is always taken.
    fn admit(&mut self, before: Writes) -> Result<(), TooLarge> {
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

    /// Bytes a commit stores of what is this unit's: the bags it touches as documents, and in the replica all its own
    /// bags, its state, and the changes themselves.
    fn stored_bytes(&self) -> usize {
        let replica: usize =
            self.relations.keys().map(|number| size(&self.own_bag(*number, Side::Unit))).sum();
        let touched = self.writes.bags.iter().map(|(number, writes)| {
            let unit = if writes.unit.is_empty() { 0 } else { size(&self.own_bag(*number, Side::Unit)) };
            let application = match writes.application.is_empty() {
                true => 0,
                false => size(&self.own_bag(*number, Side::Application)) + size(&writes.application),
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
        let relation = |number: u32| Relation {
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
            withheld: OmittedBags::default(),
        };
        HookContext {
            unit: UnitName::new("web", 0),
            id: "web/0-install-0".to_owned(),
            cause: Cause::Hook("install".to_owned()),
            model: Model {
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
    fn own_writes_are_read_back_and_only_differences_are_kept() {
        let mut context = context();
        context.write_bag(1, Side::Unit, change(&[("a", "1"), ("old", "1"), ("gone", "")])).unwrap();
        assert_eq!(context.writes.bags[&1].unit, change(&[("a", "1")]));
        assert_eq!(context.own_bag(1, Side::Unit), change(&[("a", "1"), ("old", "1")]));
        context.write_bag(1, Side::Unit, change(&[("a", ""), ("old", "")])).unwrap();
        assert_eq!(context.writes.bags[&1].unit, change(&[("old", "")]));
        context.write_bag(1, Side::Unit, change(&[("old", "1")])).unwrap();
        assert_eq!(context.writes, Writes::default());
    }

    #[test]
    fn a_bag_of_one_mebibyte_is_the_largest() {
        let mut context = context();
        let refused =
            context.write_bag(1, Side::Unit, change(&[("a", &"x".repeat(BAG_BYTES_MAX))])).unwrap_err();
        assert!(refused.0.contains("a bag holds 1048576 bytes at most"), "{refused:?}");
        assert_eq!(context.writes, Writes::default());
    }

    #[test]
    fn more_bytes_than_one_transaction_holds_are_refused() {
        let mut context = context();
        // Stored twice: as the bag's document and in the replica.
        let third = "x".repeat(HOOK_WRITES_BYTES_MAX / 3);
        context.write_bag(1, Side::Unit, change(&[("a", &third)])).unwrap();
        let before = context.clone();
        assert!(context.write_bag(2, Side::Unit, change(&[("a", &third)])).is_err());
        assert!(context.write_state("a".to_owned(), Some(third.clone())).is_err());
        assert_eq!(context, before);
    }

    #[test]
    fn what_the_unit_wrote_earlier_counts_and_deleting_is_always_possible() {
        let mut context = context();
        let own = |size| BTreeMap::from([(UnitName::new("web", 0), change(&[("a", &"x".repeat(size))]))]);
        context.relations.get_mut(&1).unwrap().unit_bags = own(HOOK_WRITES_BYTES_MAX);
        assert!(context.write_bag(2, Side::Unit, change(&[("a", "1")])).is_err());
        context.relations.get_mut(&2).unwrap().unit_bags = own(100);
        context.write_bag(2, Side::Unit, change(&[("a", "")])).unwrap();
        assert_eq!(context.own_bag(2, Side::Unit), Bag::new());
        context.write_bag(1, Side::Unit, change(&[("a", "")])).unwrap();
        context.write_bag(2, Side::Unit, change(&[("a", "1")])).unwrap();
    }

    #[test]
    fn more_documents_than_one_record_holds_are_refused() {
        let mut context = context();
        for number in 0..WRITES_MAX as u32 {
            context.write_bag(number, Side::Unit, change(&[("a", "1")])).unwrap();
        }
        let before = context.clone();
        assert!(context.write_bag(99, Side::Unit, change(&[("a", "1")])).is_err());
        assert!(context.write_state("a".to_owned(), Some(String::new())).is_err());
        assert_eq!(context, before);
    }

    #[test]
    fn leadership_once_lost_stays_lost() {
        let mut context = context();
        context.restrict_leadership(false);
        context.restrict_leadership(true);
        assert!(!context.leader);
    }

    #[test]
    fn a_context_and_its_writes_survive_a_restart() {
        let mut context = context();
        context.write_bag(1, Side::Application, change(&[("a", "1")])).unwrap();
        context.write_state("k".to_owned(), None).unwrap();
        context.write_state("l".to_owned(), Some("v".to_owned())).unwrap();
        let text = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<HookContext>(&text).unwrap(), context);
        assert_eq!(serde_json::from_str::<Writes>("{}").unwrap(), Writes::default());
    }
}
