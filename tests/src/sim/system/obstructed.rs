//! The phase of a schedule in which removals cannot finish and operators request `why`.
//!
//! Obstacles are placed in the way of removals and then removed one by one. Whenever the system rests, `why` is
//! requested for every entity and the checks compare the responses with the obstacles. In half of these schedules the
//! operators first repeat the removals with force.

use crate::sim::checks::stuck_system::{Obstacle, StuckSystem, WhyAnswer};
use crate::sim::identities::MODEL;
use crate::sim::operator::removals::SimRemoval;
use crate::sim::system::parts::System;
use crate::sim::system::steps::{MINUTE_MS, POLLS_MAX};
use api::{EntityChoice, Force, RelationChoice};
use state::documents::draft::{Reader, read, read_all};
use state::documents::effective_life;
use state::documents::prelude::{
    ApplicationDoc, Kind, MachineDoc, Model, RelationDoc, SuspendedDoc, UnitDoc, last_id,
};
use state::terms::cause::Entity;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// The additional obstacles of one schedule, at most.
const OBSTACLES_MAX: u64 = 3;

impl System {
    /// Runs the phase. At its end all obstacles are removed. `None`: the schedule is over.
    pub(super) fn run_obstructed(&mut self, is_over: &impl Fn(&System) -> bool) -> Option<()> {
        let operator = self.operator();
        self.world.trace(|| "obstructed: removals with obstacles");
        self.run(is_over, async move { operator.prepare().await })?;
        self.rest_unless_obstructed(is_over, &[])?;
        let (mut standing, mut removals_made) = (Vec::new(), Vec::new());
        for _ in 0..=self.world.below(OBSTACLES_MAX) {
            let Some((obstacle, removals)) = self.plan_obstacle(&standing) else { continue };
            self.place_obstacle(&obstacle);
            standing.push(obstacle);
            self.remove(is_over, &removals, Force::No)?;
            // the forced removal of a machine includes its units
            let machine = removals.iter().position(|removal| matches!(removal, SimRemoval::Machine(_)));
            removals_made.extend(removals.into_iter().skip(machine.unwrap_or(0)));
        }
        self.explain_all(is_over, &standing, None)?;
        if self.world.chance_of(500) {
            let force = if self.world.chance_of(500) { Force::AtOnce } else { Force::AfterWait };
            self.remove(is_over, &removals_made, force)?;
            self.explain_all(is_over, &standing, None)?;
        }
        while !standing.is_empty() {
            let removed_obstacle = standing.swap_remove(self.world.below(standing.len() as u64) as usize);
            self.remove_obstacle(is_over, &removed_obstacle)?;
            self.explain_all(is_over, &standing, Some(&removed_obstacle))?;
        }
        Some(())
    }

    fn remove(
        &mut self,
        is_over: &impl Fn(&System) -> bool,
        removals: &[SimRemoval],
        force: Force,
    ) -> Option<()> {
        let (operator, removals) = (self.operator(), removals.to_vec());
        self.run(is_over, async move {
            for removal in removals {
                operator.remove(removal, force).await;
            }
        })
    }

    /// Runs an action of an operator until it finishes. `None`: the schedule is over.
    fn run<T: 'static>(
        &mut self,
        is_over: &impl Fn(&System) -> bool,
        act: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let done = Rc::new(RefCell::new(None));
        let slot = done.clone();
        let task = self.tasks.start("operators", async move {
            let answer = act.await;
            *slot.borrow_mut() = Some(answer);
        });
        while self.tasks.runs(task) {
            self.step(self.world.now_ms() + MINUTE_MS);
            if is_over(self) || self.tasks.polls > POLLS_MAX {
                return None;
            }
        }
        done.take()
    }

    /// Chooses a new obstacle at random, and the removals that it obstructs.
    fn plan_obstacle(&self, standing: &[Obstacle]) -> Option<(Obstacle, Vec<SimRemoval>)> {
        let (world, model) = (&self.world, Model(MODEL));
        self.store.map().read_now(|reader| {
            let units = read_all::<UnitDoc>(reader, &model.prefix(Kind::Unit));
            let (key, unit) = units.get(world.below(units.len() as u64) as usize)?;
            let id = last_id(key)?;
            let machine = read(reader, &model.machine(unit.machine))?;
            let of_machine = || {
                let here = units.iter().filter(|(_, other)| other.machine == unit.machine);
                let principals = here.filter(|(_, other)| other.principal.is_none());
                let units = principals.map(|(_, other)| SimRemoval::Unit(other.name.to_string()));
                units.chain([SimRemoval::Machine(machine.name.clone())]).collect::<Vec<_>>()
            };
            let unit_removal = match unit.principal {
                Some(id) => SimRemoval::Unit(read(reader, &model.unit(id))?.name.to_string()),
                None => SimRemoval::Unit(unit.name.to_string()),
            };
            let (obstacle, removals) = match world.below(6) {
                0 | 1 => (Obstacle::HooksFail(id, unit.name.clone()), None),
                2 | 3 => (Obstacle::AgentIsDown(id, unit.name.clone()), None),
                4 => (
                    Obstacle::MachineAgentIsDown(unit.machine, machine.name.clone()),
                    Some(unit_removal.clone()),
                ),
                _ => (Obstacle::ProvisionerIsDown, None),
            };
            let removals = match (removals, &obstacle) {
                (None, Obstacle::ProvisionerIsDown) => of_machine(),
                (Some(_), _) if world.chance_of(500) => of_machine(),
                (Some(unit), _) => vec![unit],
                (None, _) => {
                    let relations = relations_of(reader, id);
                    let relation = relations.get(world.below(relations.len() as u64) as usize);
                    vec![match (world.below(3), relation) {
                        (0, Some(relation)) => SimRemoval::Relation(relation.number),
                        (1, _) => SimRemoval::Application(unit.name.application.to_string()),
                        (_, _) => unit_removal,
                    }]
                }
            };
            let free = standing.iter().all(|other| other.obstructed_entity() != obstacle.obstructed_entity());
            free.then_some((obstacle, removals))
        })
    }

    fn place_obstacle(&mut self, obstacle: &Obstacle) {
        self.world.trace(|| format!("obstacle: {obstacle:?}"));
        match obstacle {
            Obstacle::HooksFail(unit, _) => self.fleet.fail_hooks(*unit, true),
            Obstacle::AgentIsDown(id, _) | Obstacle::MachineAgentIsDown(id, _) => {
                self.fleet.stop_until_released(&mut self.tasks, *id);
            }
            Obstacle::ProvisionerIsDown => self.tasks.drop_task(self.provisioner),
            Obstacle::Suspended(_) | Obstacle::NotIntegrated(_) => unreachable!("it is never placed"),
        }
    }

    fn remove_obstacle(&mut self, is_over: &impl Fn(&System) -> bool, obstacle: &Obstacle) -> Option<()> {
        self.world.trace(|| format!("removed obstacle: {obstacle:?}"));
        match obstacle {
            Obstacle::HooksFail(unit, name) => {
                self.fleet.fail_hooks(*unit, false);
                let (operator, name) = (self.operator(), name.clone());
                self.run(is_over, async move { operator.resolve_unit(&name).await })?;
            }
            Obstacle::AgentIsDown(id, _) | Obstacle::MachineAgentIsDown(id, _) => {
                self.fleet.release(&mut self.tasks, *id);
            }
            Obstacle::ProvisionerIsDown => self.start_provisioner(),
            Obstacle::Suspended(_) | Obstacle::NotIntegrated(_) => unreachable!("it is never removed"),
        }
        Some(())
    }

    /// Waits until the system rests and resolves failures that no obstacle causes: a hook may fail at any time,
    /// for example because of a port conflict.
    fn rest_unless_obstructed(
        &mut self,
        is_over: &impl Fn(&System) -> bool,
        standing: &[Obstacle],
    ) -> Option<()> {
        loop {
            if !self.wait_for_rest(is_over) {
                return None;
            }
            let mut failed_units = self.failed_units();
            failed_units.retain(|unit| !standing.iter().any(|obstacle| obstacle.fails_hooks_of(unit)));
            if failed_units.is_empty() {
                return Some(());
            }
            for name in failed_units {
                let operator = self.operator();
                self.run(is_over, async move { operator.resolve_unit(&name).await })?;
            }
        }
    }

    /// Waits until the system rests, then requests `why` for every entity and runs the checks on the answers.
    fn explain_all(
        &mut self,
        is_over: &impl Fn(&System) -> bool,
        standing: &[Obstacle],
        removed_obstacle: Option<&Obstacle>,
    ) -> Option<()> {
        self.rest_unless_obstructed(is_over, standing)?;
        let (entities, others) =
            self.store.map().read_now(|reader| (entities(reader), operator_obstacles(reader)));
        let standing: Vec<Obstacle> = standing.iter().cloned().chain(others).collect();
        let operator = self.operator();
        let answers = self.run(is_over, async move {
            let mut answers = Vec::new();
            for (entity, life) in entities {
                let why = operator.why(choice(&entity)).await;
                answers.push(WhyAnswer { entity, life, why });
            }
            answers
        })?;
        for answer in answers.iter().filter(|answer| answer.life != Life::Alive) {
            self.world.trace(|| format!("why: {answer}"));
        }
        let (fleet, checks) = (&self.fleet, &mut self.checks);
        let agents = self.store.map().read_now(|reader| fleet.running_agents(reader));
        checks.check_explanations(&StuckSystem {
            obstacles: &standing,
            removed: removed_obstacle,
            answers: &answers,
            agents: &agents,
        });
        (!is_over(self)).then_some(())
    }
}

/// The relations of this unit with other applications.
fn relations_of(reader: &dyn Reader, unit: Uuid) -> Vec<RelationDoc> {
    let scopes = read_all::<()>(reader, &Model(MODEL).scopes_of(unit));
    let docs = scopes.iter().filter_map(|(key, ())| read(reader, &Model(MODEL).relation(last_id(key)?)));
    docs.filter(|doc| !doc.is_peer()).collect()
}

/// Obstacles that only operators could remove and do not: suspended relations, and a subordinate that is not
/// integrated with an application that has units.
fn operator_obstacles(reader: &dyn Reader) -> Vec<Obstacle> {
    let model = Model(MODEL);
    let suspended = read_all::<SuspendedDoc>(reader, &model.prefix(Kind::RelationSuspended));
    let docs = suspended.iter().filter_map(|(key, _)| read(reader, &model.relation(last_id(key)?)));
    let mut obstacles: Vec<Obstacle> = docs.map(|doc| Obstacle::Suspended(doc.number)).collect();
    let has_units = |id: Uuid| !read_all::<()>(reader, &model.units_of(id)).is_empty();
    let subordinate = read(reader, &model.application_name("mon")).filter(|id| !has_units(*id));
    if let Some(id) = subordinate {
        let relations = read_all::<()>(reader, &model.relations_of(id));
        let ids = relations.iter().filter_map(|(key, ())| last_id(key));
        let alive =
            ids.filter(|id| effective_life::relation_life(&mut { reader }, model, *id) == Some(Life::Alive));
        let docs = alive.filter_map(|id| read(reader, &model.relation(id)));
        let mut ends = docs.flat_map(|doc| doc.ends);
        if !ends.any(|end| has_units(end.application)) {
            obstacles.push(Obstacle::NotIntegrated("mon".to_owned()));
        }
    }
    obstacles
}

/// The argument with which an operator names the entity in a request of `why`.
fn choice(entity: &Entity) -> EntityChoice {
    match entity.clone() {
        Entity::Unit(name) => EntityChoice::Unit(name),
        Entity::Application(name) => EntityChoice::Application(name),
        Entity::Relation(name) => EntityChoice::Relation(RelationChoice::Number(name.number)),
        Entity::Machine(name) => EntityChoice::Machine(name),
        Entity::Model(_) => EntityChoice::Model,
    }
}

/// All entities with their lives.
fn entities(reader: &dyn Reader) -> Vec<(Entity, Life)> {
    let model = Model(MODEL);
    let mut all = Vec::new();
    for (key, doc) in read_all::<UnitDoc>(reader, &model.prefix(Kind::Unit)) {
        let life = last_id(&key).and_then(|id| effective_life::unit_life(&mut { reader }, model, id));
        all.push((Entity::Unit(doc.name), life));
    }
    for (key, doc) in read_all::<ApplicationDoc>(reader, &model.prefix(Kind::Application)) {
        let life = last_id(&key).and_then(|id| read(reader, &model.application_life(id)));
        all.push((Entity::Application(doc.name), life));
    }
    for (key, doc) in read_all::<RelationDoc>(reader, &model.prefix(Kind::Relation)) {
        let life = last_id(&key).and_then(|id| effective_life::relation_life(&mut { reader }, model, id));
        all.push((Entity::Relation(doc.name()), life));
    }
    for (key, doc) in read_all::<MachineDoc>(reader, &model.prefix(Kind::Machine)) {
        let life = last_id(&key).and_then(|id| read(reader, &model.machine_life(id)));
        all.push((Entity::Machine(doc.name), life));
    }
    all.into_iter().map(|(entity, life)| (entity, life.expect("an existing entity has a life"))).collect()
}
