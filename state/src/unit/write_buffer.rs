//! The buffer of what a hook writes: a hook reads its own writes, and the agent commits them only if the hook's
//! process exits with 0 (design 4), except the results of an action, which it always commits.
//!
//! Of settings and stored state only differences from before the hook are buffered. A write that exceeds a limit fails in the
//! tool call, so that the commit does not fail for its size (design 5). Used by the hook tools.
//!
//! `writes` has the types of the writes and their limits; `secret_buffer` buffers secrets.

use super::hook_context::{BagSide, HookContext};
use super::writes::{
    ActionWrites, BagWrites, HOOK_DOCUMENTS_MAX, HOOK_WRITES_BYTES_MAX, HookWriteError, OUTPUT_BYTES_MIN,
    PortWrites, Ports, Writes, size,
};
use crate::terms::names::RelationNumber;
use crate::terms::port_range::{PORT_RANGES_MAX, range_count};
use crate::terms::settings::{self, BAG_BYTES_MAX, Bag, BagChange};
use std::collections::BTreeMap;

/// The bytes of a related unit in the replica: its name and what was delivered of its settings, some 60.
const MEMBER_BYTES: usize = 64;

/// The part of the writes that a tool call changes, as it was before the call.
pub(super) enum Before {
    /// The changes of the settings in one relation.
    Bag(RelationNumber, Option<BagWrites>),
    /// All others.
    Others(Box<Writes>),
}

impl HookContext {
    /// Returns one of this unit's two bags in a relation, including this hook's writes. A bag without settings is
    /// empty.
    pub fn own_bag(&self, number: RelationNumber, side: BagSide) -> Bag {
        let mut bag = self.stored_bag(number, side).cloned().unwrap_or_default();
        if let Some(change) = self.changed_bag(number, side) {
            settings::apply(&mut bag, change);
        }
        bag
    }

    /// The bag as it was before the hook.
    fn stored_bag(&self, number: RelationNumber, side: BagSide) -> Option<&Bag> {
        let relation = self.relations.get(&number)?;
        match side {
            BagSide::Unit => relation.unit_bags.get(&self.unit),
            BagSide::Application => relation.application_bags.get(&self.unit.application),
        }
    }

    /// What the hook changes of the bag; none if nothing.
    fn changed_bag(&self, number: RelationNumber, side: BagSide) -> Option<&BagChange> {
        let writes = self.writes.bags.get(&number)?;
        let change = match side {
            BagSide::Unit => &writes.unit,
            BagSide::Application => &writes.application,
        };
        Some(change).filter(|change| !change.is_empty())
    }

    /// The bytes of the bag as JSON, including this hook's writes. A bag that the hook does not change is not copied.
    fn own_bag_size(&self, number: RelationNumber, side: BagSide) -> usize {
        match self.changed_bag(number, side) {
            Some(_) => size(&self.own_bag(number, side)),
            None => self.stored_bag(number, side).map_or_else(|| size(&Bag::new()), size),
        }
    }

    /// Buffers a change of one of this unit's two bags. A key that gets back its value from before the hook is
    /// removed from the buffer, because only differences are sent (spec/uniter.md C.2).
    ///
    /// # Errors
    /// [`HookWriteError`] if the bag or all writes of the hook exceed their limit, or if a key or value contains NUL.
    /// The buffer is unchanged then.
    pub fn write_bag(
        &mut self,
        number: RelationNumber,
        side: BagSide,
        change: BagChange,
    ) -> Result<(), HookWriteError> {
        if let Some(key) = settings::key_with_nul(&change) {
            return Err(HookWriteError::ContainsNul { key: key.to_owned() });
        }
        let mut bag = self.own_bag(number, side);
        settings::apply(&mut bag, &change);
        let bytes = settings::size(&bag);
        if bytes > BAG_BYTES_MAX {
            return Err(HookWriteError::BagTooLarge { bytes });
        }
        drop(bag);
        // only the changed bag is copied: the other changes of a hook can have several MiB
        let before = Before::Bag(number, self.writes.bags.get(&number).cloned());
        let mut writes = self.writes.bags.remove(&number).unwrap_or_default();
        let target = match side {
            BagSide::Unit => &mut writes.unit,
            BagSide::Application => &mut writes.application,
        };
        target.extend(change);
        let untouched = self.stored_bag(number, side);
        let value_of = |key: &String| untouched.and_then(|bag| bag.get(key)).map_or("", String::as_str);
        target.retain(|key, value| value_of(key) != value);
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

    /// Buffers keys of the charm's stored state. `None` deletes a key.
    ///
    /// # Errors
    /// [`HookWriteError`] if the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn write_state(
        &mut self,
        change: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> Result<(), HookWriteError> {
        let before = self.before();
        for (key, value) in change {
            if self.charm_state.get(&key) == value.as_ref() {
                self.writes.state.remove(&key);
            } else {
                self.writes.state.insert(key, value);
            }
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
    /// [`HookWriteError`] if too many ranges are open, or the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn write_ports(&mut self, ports: PortWrites) -> Result<(), HookWriteError> {
        let open = ports.applied_to(&self.opened_ports);
        let count = [&open, &ports.open, &ports.close].map(range_count).into_iter().max().unwrap_or_default();
        if count > PORT_RANGES_MAX {
            return Err(HookWriteError::TooManyPorts { count });
        }
        let before = self.before();
        self.writes.ports = ports;
        self.check_size(before)
    }

    /// Replaces the buffered action results.
    ///
    /// # Errors
    /// [`HookWriteError`] if the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn write_action(&mut self, action: ActionWrites) -> Result<(), HookWriteError> {
        let before = self.before();
        self.writes.action = action;
        self.check_size(before)
    }

    /// Buffers requests for storage, which add up over the calls of a hook.
    ///
    /// # Errors
    /// [`HookWriteError`] if the hook's writes exceed their limit. The buffer is unchanged then.
    pub fn add_storage(&mut self, requested: &BTreeMap<String, u32>) -> Result<(), HookWriteError> {
        let before = self.before();
        for (name, count) in requested {
            let total = self.writes.storage.entry(name.clone()).or_default();
            *total = total.saturating_add(*count);
        }
        self.check_size(before)
    }

    /// The writes before a change that concerns no settings of relations, without those.
    pub(super) fn before(&mut self) -> Before {
        let bags = std::mem::take(&mut self.writes.bags);
        let others = self.writes.clone();
        self.writes.bags = bags;
        Before::Others(Box::new(others))
    }

    /// Exchanges the changed part of the writes and the one before, and returns the changed part.
    fn exchange(&mut self, before: Before) -> Before {
        match before {
            Before::Bag(number, writes) => {
                let changed = match writes {
                    Some(writes) => self.writes.bags.insert(number, writes),
                    None => self.writes.bags.remove(&number),
                };
                Before::Bag(number, changed)
            }
            Before::Others(mut others) => {
                std::mem::swap(&mut self.writes, &mut *others);
                std::mem::swap(&mut self.writes.bags, &mut others.bags);
                Before::Others(others)
            }
        }
    }

    /// Keeps the writes, or restores those `before` if one transaction or one request could not hold them: a tool call
    /// that exceeds a limit fails immediately, so that the commit does not fail for its size (design 5). A change that
    /// makes what is stored smaller is kept even if it is still too large, but not if it concerns too many documents or
    /// deletes too many keys.
    pub(super) fn check_size(&mut self, before: Before) -> Result<(), HookWriteError> {
        let engine = self.model.engine;
        let (documents, sent) = (self.writes.documents(), size(&self.writes));
        let (bags, others) = (self.bags_bytes(), self.others_bytes());
        let fits = documents <= HOOK_DOCUMENTS_MAX && sent <= engine.hook_sent_bytes_max();
        let (all_fit, others_fit) =
            (bags + others <= engine.hook_writes_bytes_max(), others <= HOOK_WRITES_BYTES_MAX);
        if fits && all_fit && others_fit {
            return Ok(());
        }
        let after = self.exchange(before);
        if documents > HOOK_DOCUMENTS_MAX {
            return Err(HookWriteError::TooManyDocuments);
        }
        let (bags_before, others_before) = (self.bags_bytes(), self.others_bytes());
        let is_less = bags + others < bags_before + others_before && (others_fit || others < others_before);
        if fits && is_less {
            self.exchange(after);
            return Ok(());
        }
        Err(match (is_less || all_fit, others_fit) {
            (true, true) => HookWriteError::TooManyChanges { bytes: sent, engine },
            (false, true) => HookWriteError::WritesTooLarge { bytes: bags + others, engine },
            (_, false) => HookWriteError::OtherWritesTooLarge { bytes: others },
        })
    }

    /// Returns how many bytes, as JSON, one transaction can store of the output of the action's process, beside the changes
    /// and the replica, which has the members of the relations.
    pub fn output_bytes_max(&self) -> usize {
        let members = self.relations.values().map(|relation| relation.members.len()).sum::<usize>();
        let stored = self.stored_bytes().saturating_add(members.saturating_mul(MEMBER_BYTES));
        let left = self.model.engine.hook_writes_bytes_max().saturating_sub(stored);
        let of_others = HOOK_WRITES_BYTES_MAX.saturating_sub(self.others_bytes());
        left.min(of_others).max(OUTPUT_BYTES_MIN)
    }

    /// Returns how many bytes of this unit's data one transaction can have to store: all of the unit's own bags, its state,
    /// and what this hook changes. Most commits store only the changed bags, but the one that publishes new addresses stores
    /// all of them.
    fn stored_bytes(&self) -> usize {
        self.bags_bytes() + self.others_bytes()
    }

    /// Those of the settings of relations.
    fn bags_bytes(&self) -> usize {
        let unit_bags = self.relations.keys().map(|number| self.own_bag_size(*number, BagSide::Unit));
        let changed = self.writes.bags.iter().filter(|(_, writes)| !writes.application.is_empty());
        let application_bags = changed.map(|(number, _)| self.own_bag_size(*number, BagSide::Application));
        unit_bags.chain(application_bags).sum::<usize>()
    }

    /// Those of everything else.
    fn others_bytes(&self) -> usize {
        size(&self.own_state())
            + size(&self.own_ports())
            + size(&self.writes.action)
            + size(&self.writes.secrets)
            + size(&self.writes.storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::names::UnitName;
    use crate::terms::store_engine::StoreEngine;
    use crate::tests::hook_context;
    use crate::unit::writes::HOOK_SENT_BYTES_MAX;

    /// In a hundred relations, each with a setting of this unit.
    fn context() -> HookContext {
        let mut context = hook_context::context();
        let mut relation = context.relations[&1].clone();
        relation.unit_bags = BTreeMap::from([(UnitName::new("web", 0), change(&[("old", "1")]))]);
        context.relations = (0..100).map(|number| (number, relation.clone())).collect();
        context
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

    /// The hook changes two large bags. A call that is refused leaves the changes of the calls before.
    #[test]
    fn the_engine_of_the_store_decides_how_large_bags_are() {
        let value = |bytes: usize| change(&[("a", &"x".repeat(bytes - 1))]);
        let mut context = context();
        let refused = context.write_bag(1, BagSide::Application, value(BAG_BYTES_MAX));
        assert!(matches!(refused, Err(HookWriteError::WritesTooLarge { engine: StoreEngine::Etcd, .. })));
        assert_eq!(context.writes, Writes::default());

        context.model.engine = StoreEngine::Sqlite;
        context.write_bag(1, BagSide::Application, value(BAG_BYTES_MAX)).unwrap();
        let before = context.clone();
        let beyond = context.write_bag(1, BagSide::Application, value(BAG_BYTES_MAX + 1));
        assert_eq!(beyond, Err(HookWriteError::BagTooLarge { bytes: BAG_BYTES_MAX + 1 }));
        let second = context.write_bag(2, BagSide::Unit, value(1 << 20));
        assert!(matches!(second, Err(HookWriteError::WritesTooLarge { engine: StoreEngine::Sqlite, .. })));
        let most = "x".repeat(HOOK_WRITES_BYTES_MAX);
        let state = context.write_state([("a".to_owned(), Some(most))]);
        assert!(matches!(state, Err(HookWriteError::OtherWritesTooLarge { .. })), "{state:?}");
        assert_eq!(context, before);
        context.write_bag(2, BagSide::Unit, value(1 << 19)).unwrap();
        context.write_bag(1, BagSide::Application, change(&[("a", "")])).unwrap();
        assert_eq!(context.writes.bags.keys().collect::<Vec<_>>(), [&2]);
    }

    #[test]
    fn a_bag_beyond_the_largest_is_refused() {
        let mut context = context();
        let refused = context.write_bag(1, BagSide::Unit, change(&[("a", &"x".repeat(BAG_BYTES_MAX))]));
        assert!(matches!(refused, Err(HookWriteError::BagTooLarge { bytes }) if bytes > BAG_BYTES_MAX));
        assert_eq!(context.writes, Writes::default());
    }

    #[test]
    fn more_bytes_than_one_transaction_holds_are_refused() {
        let mut context = context();
        let most = "x".repeat(HOOK_WRITES_BYTES_MAX - (4 << 10));
        context.write_bag(1, BagSide::Unit, change(&[("a", &most)])).unwrap();
        let before = context.clone();
        let more = "x".repeat(4 << 10);
        assert!(context.write_bag(2, BagSide::Unit, change(&[("a", &more)])).is_err());
        assert!(context.write_bag(2, BagSide::Application, change(&[("a", &more)])).is_err());
        assert!(context.write_state([("a".to_owned(), Some(more.clone()))]).is_err());
        assert_eq!(context, before);
    }

    #[test]
    fn the_output_of_an_action_gets_what_its_results_leave() {
        let mut context = context();
        let free = context.output_bytes_max();
        assert!(free > HOOK_WRITES_BYTES_MAX - (8 << 10), "{free}");
        let results = |bytes| ActionWrites {
            results: [("a".to_owned(), "x".repeat(bytes).into())].into_iter().collect(),
            ..ActionWrites::default()
        };
        context.write_action(results(500_000)).unwrap();
        assert!((500_000..501_000).contains(&(free - context.output_bytes_max())));
        context.write_action(results(750_000)).unwrap();
        assert_eq!(context.output_bytes_max(), OUTPUT_BYTES_MIN);
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

    /// 1. Over several hooks a leader fills bags of its application with long keys. 2. One hook deletes them all: the bags are
    ///    empty, but the record has each key.
    #[test]
    fn a_hook_deletes_no_more_keys_than_one_request_holds() {
        let mut context = context();
        let key = "k".repeat(HOOK_SENT_BYTES_MAX / 3);
        let full = BTreeMap::from([("web".to_owned(), change(&[(key.as_str(), "v")]))]);
        for number in 1..=3 {
            context.relations.get_mut(&number).unwrap().application_bags = full.clone();
        }
        context.write_bag(1, BagSide::Application, change(&[(&key, "")])).unwrap();
        context.write_bag(2, BagSide::Application, change(&[(&key, "")])).unwrap();
        let before = context.clone();
        assert!(context.write_bag(3, BagSide::Application, change(&[(&key, "")])).is_err());
        assert_eq!(context, before);
    }

    #[test]
    fn more_documents_than_one_record_holds_are_refused() {
        let mut context = context();
        for number in 0..HOOK_DOCUMENTS_MAX as u32 {
            context.write_bag(number, BagSide::Unit, change(&[("a", "1")])).unwrap();
        }
        let before = context.clone();
        assert!(context.write_bag(HOOK_DOCUMENTS_MAX as u32, BagSide::Unit, change(&[("a", "1")])).is_err());
        assert!(context.write_state([("a".to_owned(), Some(String::new()))]).is_err());
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
        context.write_state([("k".to_owned(), None)]).unwrap();
        context.write_state([("l".to_owned(), Some("v".to_owned()))]).unwrap();
        let text = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<HookContext>(&text).unwrap(), context);
        assert_eq!(serde_json::from_str::<Writes>("{}").unwrap(), Writes::default());
    }
}
