//! Once faults are over and failures are resolved, the system converges (I6, I10, I16, I25, I53).
//!
//! At rest nothing is Dying, every record is applied, the last version of every member and of the configuration was
//! delivered, each unit was started in the current boot of its machine, and no agent waits.

use super::check::{Check, FinalState};
use super::running_agent::RunningAgent;
use state::documents::draft::{read, read_all};
use state::documents::prelude::{BagDoc, Kind, ScopeDoc, last_id};
use state::terms::life::Life;
use state::terms::member_version::MemberVersion;
use state::terms::names::Uuid;
use state::unit::local::Step;
use state::unit::resolve::config_digest;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Converged;

impl Converged {
    fn lives(end: &FinalState<'_>, found: &mut Vec<String>) {
        for kind in [Kind::UnitLife, Kind::ApplicationLife, Kind::RelationLife, Kind::MachineLife] {
            for (key, life) in read_all::<Life>(end.reader, &end.model.prefix(kind)) {
                if life != Life::Alive {
                    found.push(format!("{key} is still {life}"));
                }
            }
        }
    }

    /// The other members that this unit observes in the relation, with their versions according to the store.
    fn members(end: &FinalState<'_>, unit: Uuid, relation: Uuid) -> BTreeMap<String, MemberVersion> {
        let Some(doc) = read(end.reader, &end.model.relation(relation)) else { return BTreeMap::new() };
        let Some(own) = read(end.reader, &end.model.unit(unit)) else { return BTreeMap::new() };
        let scopes = read_all::<ScopeDoc>(end.reader, &end.model.scopes(relation));
        let container = |key: &str| key.rsplit('/').nth(1).unwrap_or_default().to_owned();
        let own_container =
            scopes.iter().find(|(key, _)| last_id(key) == Some(unit)).map(|(key, _)| container(key));
        let others = scopes.iter().filter(|(key, scope)| {
            let other = last_id(key) != Some(unit) && Some(container(key)) == own_container;
            other && (doc.is_peer() || scope.application != own.application)
        });
        others
            .map(|(key, scope)| {
                let owner = last_id(key).expect("a scope's key ends in a uuid");
                let bag: Option<BagDoc> = read(end.reader, &end.model.bag(relation, owner));
                let counter = bag.map_or(0, |bag| bag.counter);
                let version = MemberVersion { incarnation: scope.incarnation, counter };
                (scope.unit.to_string(), version)
            })
            .collect()
    }

    /// The counter of each application bag that this unit observes in the relation, according to the store.
    /// Bags that were never set are left out.
    fn applications(end: &FinalState<'_>, unit: Uuid, relation: Uuid) -> BTreeMap<String, u64> {
        let Some(doc) = read(end.reader, &end.model.relation(relation)) else { return BTreeMap::new() };
        let Some(own) = read(end.reader, &end.model.unit(unit)) else { return BTreeMap::new() };
        let ends = doc
            .ends
            .iter()
            .filter(|relation_end| doc.is_peer() || relation_end.application != own.application);
        let counted = ends.filter_map(|relation_end| {
            let name = read(end.reader, &end.model.application(relation_end.application))?.name.to_string();
            let bag: BagDoc = read(end.reader, &end.model.bag(relation, relation_end.application))?;
            Some((name, bag.counter))
        });
        counted.filter(|(_, counter)| *counter > 0).collect()
    }
}

impl Check for Converged {
    fn name(&self) -> &'static str {
        "converged"
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        if !end.is_at_rest {
            found.push("the system does not converge".to_owned());
        }
        Converged::lives(end, found);
        for (name, unit) in read_all::<Uuid>(end.reader, &end.model.prefix(Kind::UnitName)) {
            if !end.agents.iter().any(|agent| agent.unit == unit) {
                found.push(format!("{name}: the unit agent is not running"));
            }
        }
        for RunningAgent { unit, name, boot, local, view, waits, .. } in &end.agents {
            if local.step != Step::Idle || !local.started {
                found.push(format!("{name}: rests in {:?}, workflow {}", local.step, local.workflow()));
            }
            if local.boot.as_ref() != Some(boot) {
                found.push(format!("{name}: start ran in boot {:?}, the machine is in {boot}", local.boot));
            }
            let current = view.as_deref().map(config_digest);
            if local.config != current {
                found.push(format!(
                    "{name}: the last config-changed delivered {:?}, current is {current:?}",
                    local.config
                ));
            }
            if !local.outbox.is_empty() {
                found.push(format!("{name}: {} records are not sent", local.outbox.len()));
            }
            let applied =
                read(end.reader, &end.model.replica(*unit)).map_or(0, |replica| replica.local.sequence);
            if applied != local.sequence {
                found
                    .push(format!("{name}: {} records were journaled and {applied} applied", local.sequence));
            }
            for cause in waits {
                found.push(format!("{name}: waits for {:?} ({:?})", cause.duty, cause.actor));
            }
            for (number, shown) in view.iter().flat_map(|view| &view.relations) {
                let head = &shown.head;
                let entered = local.relations.get(number).filter(|entered| entered.uuid == head.uuid);
                let open = head.life.is_alive() && !head.suspended;
                let declared = local.charm.as_ref().is_some_and(|c| c.endpoints.contains(&head.endpoint));
                if open && entered.is_none() && (head.implicit || declared) {
                    found.push(format!("{name}: has not entered relation {number}"));
                }
                if !open && entered.is_some() {
                    found.push(format!("{name}: has not left relation {number}: {head:?}"));
                }
                let subordinates = view.as_ref().map(|view| &view.unit.subordinates);
                let mut subordinates = subordinates.into_iter().flatten();
                if open
                    && head.creates_subordinate
                    && !subordinates.any(|unit| unit.application == head.remote_application)
                {
                    found
                        .push(format!("{name}: is in relation {number}, which did not create a subordinate"));
                }
            }
            let relations = read_all::<()>(end.reader, &end.model.scopes_of(*unit)).len();
            if relations != local.relations.len() {
                found.push(format!(
                    "{name}: is in {relations} scopes but stores {} relations",
                    local.relations.len()
                ));
            }
            for (number, relation) in
                local.relations.iter().filter(|(_, relation)| !relation.local_endpoint.implicit)
            {
                let delivered: BTreeMap<String, MemberVersion> =
                    relation.members.iter().map(|(unit, version)| (unit.to_string(), *version)).collect();
                let current = Converged::members(end, *unit, relation.uuid);
                if delivered != current {
                    found.push(format!(
                        "{name}: relation {number} delivered members {delivered:?}, current are {current:?}"
                    ));
                }
                let mut delivered = relation.applications.clone();
                delivered.retain(|_, counter| *counter > 0);
                let current = Converged::applications(end, *unit, relation.uuid);
                if delivered != current {
                    found.push(format!(
                        "{name}: relation {number} delivered application settings {delivered:?}, current are {current:?}"
                    ));
                }
            }
        }
    }
}
