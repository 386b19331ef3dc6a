//! `pintle why`: what an entity waits for. Computed when asked, from the same functions that decide (design 1, 5):
//! the model's blockers, and the unit agent's `next` asked with what the controller knows of it.

mod of_machine;

use crate::hook_lock;
use crate::named::find_unit;
use crate::owed::Owed;
use crate::presence::{self, Roll};
use crate::status::{self, MachineAgent};
use crate::waits::Waits;
use crate::written::Written;
use api::{Cause, Why};
use state::life::Life;
use state::model::blockers::{self, Entity, blockers};
use state::model::draft::{Draft, Reader, read, read_all};
use state::model::keys::{
    ForcedBy, ForcedDoc, Kind, Model, RelationDoc, ScopeDoc, SideDoc, SuspendedDoc, UnitDoc, last_id,
};
use state::model::refusal::{Blocker, Code, Refusal};
use state::model::{application, effective, force, model, relation};
use state::names::Uuid;
use state::unit::activity::Activity;
use state::unit::resolve::{Act, fetching, rebooting};
use std::collections::BTreeSet;

/// Causes of one answer; of more, people need only know the first.
const CAUSES_MAX: usize = 20;
/// Entities of each kind of a model that are asked for what holds them up: some 10 reads each.
const ENTITIES_MAX: usize = 1_000;

/// What is asked, and everything needed to answer.
pub(crate) struct Asked<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) model: Model,
    pub(crate) roll: &'a Roll,
    pub(crate) written: &'a Written,
    pub(crate) waits: &'a Waits,
    pub(crate) now_ms: i64,
}

/// The answer for an entity as people name it: `web/0`, `web`, `3`, `machine 0`, `machine/0`, `relation 3`,
/// `web:db db:server`.
pub(crate) fn of(
    reader: &dyn Reader,
    model: Model,
    (roll, written, waits): (&Roll, &Written, &Waits),
    entity: &str,
    now_ms: i64,
) -> Result<Why, Refusal> {
    let asked = Asked { reader, model, roll, written, waits, now_ms };
    let mut why = asked.entity(entity.trim())?;
    told_once(&mut why.causes);
    why.more = why.causes.len() > CAUSES_MAX;
    why.causes.truncate(CAUSES_MAX);
    Ok(why)
}

fn told_once(causes: &mut Vec<Cause>) {
    let mut told = BTreeSet::new();
    causes.retain(|cause| told.insert((cause.entity.clone(), cause.duty.clone(), cause.owner.clone())));
}

/// There are more causes than are told: no more are looked for.
fn are_enough(causes: &mut Vec<Cause>) -> bool {
    told_once(causes);
    causes.len() > CAUSES_MAX
}

pub(crate) fn cause(blocker: Blocker) -> Cause {
    Cause {
        entity: blocker.entity,
        duty: blocker.duty,
        owner: blocker.owner,
        since_ms: blocker.since_ms,
        last_error: blocker.last_error,
        help: blocker.help,
    }
}

impl Asked<'_> {
    fn entity(&self, text: &str) -> Result<Why, Refusal> {
        match text.split_once(' ') {
            Some(("unit", name)) => return self.unit(find_unit(self.reader, self.model, name)?.0),
            Some(("application", name)) => return self.application(name),
            Some(("machine", name)) => return self.machine(name),
            Some(("relation", number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                return self.numbered(number);
            }
            Some(_) => {
                let ends = text.strip_prefix("relation ").unwrap_or(text);
                let (a, b) = ends.split_once(' ').ok_or_else(|| Refusal::not_found("relation", ends))?;
                let mut draft = Draft::new(self.reader); // read only: it is never committed
                return self.relation(relation::find(&mut draft, self.model, a, b)?);
            }
            None => {}
        }
        if let Some((kind, number)) = text.split_once('/') {
            // An application may well be called so: a unit is meant first.
            let unit = find_unit(self.reader, self.model, text);
            return match (unit, kind) {
                (Ok((id, _)), _) => self.unit(id),
                (Err(_), "machine") => self.machine(number),
                (Err(_), "relation") => self.numbered(number),
                (Err(refusal), _) => Err(refusal),
            };
        }
        if text == "model" && application::find(&mut { self.reader }, self.model, text).is_err() {
            return self.whole_model();
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return self.application(text);
        }
        // A number is a machine or a relation; the one that has something to say is meant.
        match (self.machine(text), self.numbered(text)) {
            (Ok(machine), Ok(relation)) if machine.causes.is_empty() => Ok(relation),
            (Ok(machine), _) => Ok(machine),
            (Err(_), Ok(relation)) => Ok(relation),
            (Err(_), Err(_)) => {
                Err(Refusal::new(Code::NotFound, format!("no machine or relation is called {text}")))
            }
        }
    }

    /// Everything of the model that is going away, and what holds it up.
    fn whole_model(&self) -> Result<Why, Refusal> {
        let gone = || Refusal::not_found("model", self.model.0);
        let doc = read(self.reader, &self.model.model()).ok_or_else(gone)?;
        let ids = |kind: Kind| -> Vec<Uuid> {
            let some = self.reader.scan(&self.model.all(kind), "", ENTITIES_MAX);
            some.iter().filter_map(|stored| last_id(&stored.key)).collect()
        };
        let (applications, machines) = (ids(Kind::Application), ids(Kind::Machine));
        let count = |some: &[Uuid]| {
            let more = if some.len() == ENTITIES_MAX { " and more" } else { "" };
            format!("{}{more}", some.len())
        };
        let now = format!("{} applications, {} machines", count(&applications), count(&machines));
        let (units, relations) = (ids(Kind::Unit), ids(Kind::Relation));
        let all = applications.into_iter().map(Entity::Application);
        let all = all.chain(units.iter().copied().map(Entity::Unit));
        let all = all.chain(relations.iter().copied().map(Entity::Relation));
        let all = all.chain(machines.iter().copied().map(Entity::Machine));
        let entity = format!("model {}", doc.name);
        let mut causes = Vec::new();
        causes.extend(self.destruction(&entity, &doc.name, &now));
        for entity in all {
            causes.extend(self.blockers(entity));
            if are_enough(&mut causes) {
                break;
            }
        }
        let held_up = machines.into_iter().flat_map(|id| self.machine_agent(id));
        let held_up = held_up.chain(relations.into_iter().filter_map(|id| self.suspended(id)));
        let held_up = held_up.chain(units.into_iter().flat_map(|id| self.held_up(id)));
        for cause in held_up {
            if are_enough(&mut causes) {
                break;
            }
            causes.push(cause);
        }
        let life = read(self.reader, &self.model.model_life()).unwrap_or(Life::Dying);
        Ok(Why { entity, life, now, causes, more: false })
    }

    /// What a unit that stays waits for, if its agent is in error or nothing is heard of it. One that is silent with its
    /// machine is not told of: that one is (F.4).
    fn held_up(&self, id: Uuid) -> Vec<Cause> {
        let Some(doc) = read(self.reader, &self.model.unit(id)) else { return Vec::new() };
        let attached = self.reader.get(self.model.session(id).text()).is_some();
        let replica = read(self.reader, &self.model.replica(id));
        let failed = replica.is_some_and(|replica| replica.local.episode().is_some());
        let silent = !attached || self.roll.unit_late_ms(id).is_some();
        let alive = effective::life_of(&mut { self.reader }, self.model, id, &doc) == Life::Alive;
        let agent = || status::machine_agent(self.reader, self.model, self.roll, doc.machine);
        let is_silent_itself = || silent && agent() != MachineAgent::Lost;
        if !alive || !failed && !is_silent_itself() {
            return Vec::new();
        }
        self.unit(id).map_or(Vec::new(), |why| why.causes)
    }

    /// What a model that is being destroyed waits for, before what each thing in it waits for.
    fn destruction(&self, entity: &str, name: &str, left: &str) -> Option<Cause> {
        let doc = read(self.reader, &self.model.model_destruction())?;
        let help = match (doc.forced_ms, doc.no_wait) {
            (Some(_), true) => "all that is in it is removed by force".to_owned(),
            (Some(_), false) => format!(
                "what is in it is removed by force after a minute; at once: pintle destroy-model --force --no-wait {name}"
            ),
            (None, _) => format!("by force: pintle destroy-model --force {name}"),
        };
        Some(Cause {
            entity: entity.to_owned(),
            duty: format!("be removed: {left} are left in it"),
            owner: "the controller's janitor".to_owned(),
            since_ms: Some(doc.since_ms),
            last_error: None,
            help,
        })
    }

    /// When the controller begins to act in place of what is gone, if it is to.
    fn forced(&self, id: Uuid, entity: &str) -> Option<Cause> {
        let forced = read(self.reader, &self.model.forced(id)).or_else(|| self.on_budget(id))?;
        let left_ms = self.waits.left_ms((self.model, id), &forced, self.roll.monotonic_ms());
        let begins = match forced.no_wait || left_ms <= 0 {
            true => "it has begun".to_owned(),
            false => {
                format!(
                    "it begins in {} s; at once: remove it with --force --no-wait",
                    (left_ms + 999) / 1000
                )
            }
        };
        let because = match forced.by {
            ForcedBy::Person => "",
            ForcedBy::Budget => " (teardown-budget)",
        };
        Some(Cause {
            entity: entity.to_owned(),
            duty: format!("be removed by force{because}"),
            owner: "the controller's janitor".to_owned(),
            since_ms: Some(forced.since_ms),
            last_error: None,
            help: begins,
        })
    }

    /// The wait of a Dying unit that the janitor has not come by yet.
    fn on_budget(&self, id: Uuid) -> Option<ForcedDoc> {
        let config = read(self.reader, &self.model.model_config())?;
        let budget_ms = model::teardown_budget_ms(&config)?;
        let dying = effective::unit_life(&mut { self.reader }, self.model, id) == Some(Life::Dying);
        dying.then(|| force::of_budget(budget_ms, self.now_ms))
    }

    fn blockers(&self, entity: Entity) -> Vec<Cause> {
        let all = blockers(&mut { self.reader }, self.model, entity).into_iter();
        all.map(|one| cause(self.owed().dated(one))).collect()
    }

    /// What a unit or a machine waits for, if its agent was heard and is silent now.
    pub(crate) fn silent(&self, entity: Entity) -> Option<Cause> {
        match entity {
            Entity::Unit(id) => self.silent_unit(id, &read(self.reader, &self.model.unit(id))?),
            Entity::Machine(id) => {
                let agent = status::machine_agent(self.reader, self.model, self.roll, id);
                let is_silent = matches!(agent, MachineAgent::Late | MachineAgent::Lost);
                self.machine_agent(id).filter(|_| is_silent)
            }
            Entity::Application(_) | Entity::Relation(_) => None,
        }
    }

    /// A Dead unit's agent is not to come back.
    fn silent_unit(&self, id: Uuid, doc: &UnitDoc) -> Option<Cause> {
        let silent_ms = self.roll.unit_late_ms(id)?;
        let attached = self.reader.get(self.model.session(id).text()).is_some();
        let life = effective::life_of(&mut { self.reader }, self.model, id, doc);
        if !attached || life == Life::Dead {
            return None;
        }
        let machine = read(self.reader, &self.model.machine(doc.machine)).map_or(String::new(), |m| m.name);
        let by_force = match doc.principal {
            None => format!("; or, without it: pintle remove-unit --force {}", doc.name),
            Some(_) => String::new(),
        };
        let help = format!(
            "its machine agent starts it again once it is gone: see pintle why machine {machine}; one that hangs, or \
             was stopped: kill the process of agents/{}/agent.pid{by_force}",
            doc.name.tag()
        );
        let duty = match self.roll.is_lost(id) {
            true => "come back: it has been silent for a minute".to_owned(),
            false => format!("answer: it was last heard {} s ago", silent_ms / 1000),
        };
        Some(Cause {
            entity: format!("unit {}", doc.name),
            duty,
            owner: format!("the agent of unit {}", doc.name),
            since_ms: Some(self.roll.silent_since_ms(id)),
            last_error: None,
            help,
        })
    }

    fn owed(&self) -> Owed<'_> {
        let Asked { reader, model, written, now_ms, .. } = *self;
        Owed { reader, model, written, now_ms }
    }

    fn unit(&self, id: Uuid) -> Result<Why, Refusal> {
        let doc = read(self.reader, &self.model.unit(id)).ok_or_else(|| Refusal::not_found("unit", id))?;
        let status::UnitStatuses { workload, agent, .. } =
            status::statuses(self.reader, self.model, self.roll, id, &doc);
        let mut causes = Vec::new();
        let entity = format!("unit {}", doc.name);
        let owner = format!("the agent of unit {}", doc.name);
        let machine = read(self.reader, &self.model.machine(doc.machine)).map_or(String::new(), |m| m.name);
        let of_machine = format!("the agent of machine {machine}");
        let attached = self.reader.get(self.model.session(id).text()).is_some();
        let silent = self.silent_unit(id, &doc);
        let is_silent = silent.is_some();
        causes.extend(silent);
        let mut add = |duty: &str, owner: &str, since_ms, help: String| {
            let (duty, owner) = (duty.to_owned(), owner.to_owned());
            causes.push(Cause { entity: entity.clone(), duty, owner, since_ms, last_error: None, help });
        };
        let life = effective::life_of(&mut { self.reader }, self.model, id, &doc);
        let here = self.machine_agent(doc.machine).is_none();
        let tag = doc.name.tag();
        if !attached && life == Life::Alive && here {
            let help = format!(
                "it is about to; if it stays so: on machine {machine}, agents/{tag}/agent.log of its folder, or \
                 journalctl -u pintle-unit@{tag}, says why; and pintle-agent why agents/{tag}"
            );
            add(
                "come up: it was never heard, and the machine's agent is here",
                &owner,
                Some(doc.created_ms),
                help,
            );
        } else if !attached && life == Life::Alive {
            let help = format!("see that machine {machine} is up: pintle why machine {machine}");
            add("start its agent", &of_machine, Some(doc.created_ms), help);
        }
        // nothing else of the unit can go on before this has ended, whatever its life
        let executing = self.roll.executing(id).filter(|_| attached && !self.roll.is_lost(id));
        if let Some(running) = executing {
            let help = format!(
                "it ends with its process: on machine {machine}, hooks/{:06} of the unit's folder has its hook.pid and \
                 output.log; pintle debug-log -i {}",
                running.run, doc.name
            );
            let waiters = hook_lock::waiters(self.reader, self.model, self.roll, doc.machine);
            let waited_for = match waiters.is_empty() {
                true => String::new(),
                false => format!("; its hook lock is waited for by {}", waiters.join(", ")),
            };
            let duty = format!("end: {}{waited_for}", running.activity);
            add(&duty, "charm", Some(running.since_ms), help);
        }
        let holder = hook_lock::holder(self.reader, self.model, self.roll, doc.machine);
        match status::undone(self.reader, self.model, id).filter(|_| executing.is_none()) {
            Some(Act::Wait(wait)) => {
                for waits in wait.causes.into_iter().filter(|cause| cause.owner != "nobody") {
                    let ago = waits.since_ago_ms.and_then(|ago| i64::try_from(ago).ok());
                    let since_ms = ago.map(|ago| self.now_ms - ago).or(agent.since_ms);
                    add(&waits.what, &waits.owner, since_ms, waits.help);
                }
            }
            Some(Act::Begin(run)) if run.operation.runs_charm() && holder.is_some() => {
                let (other, running) = holder.expect("it was just looked at");
                let what = Activity::from(&run.operation);
                let duty =
                    format!("{what}: the machine's hook lock is held by {other}, {}", running.activity);
                let help = format!(
                    "one hook runs at a time on a machine; see pintle why {other}, or let them run side by side: pintle \
                     model-config parallel=true"
                );
                add(&duty, &format!("the agent of unit {other}"), Some(running.since_ms), help);
            }
            Some(Act::Begin(run)) => {
                let duty = format!("{}: {}", Activity::from(&run.operation), run.cause);
                let help = match is_silent {
                    true => "it does once it answers".to_owned(),
                    false => format!(
                        "it is about to; an agent that hangs is told of here within {} s",
                        presence::UNIT_LATE_AFTER_MS / 1000
                    ),
                };
                add(&duty, &owner, self.owed().since_ms(id, &doc, &run.operation), help);
            }
            Some(Act::Fetch(asked)) => {
                let waits = fetching(&asked);
                add(&waits.what, &owner, agent.since_ms, waits.help);
            }
            Some(Act::Reboot) => {
                let waits = rebooting();
                add(&waits.what, &of_machine, agent.since_ms, waits.help);
            }
            Some(Act::Stop | Act::Adopt(_) | Act::Lock | Act::Settle(_) | Act::Note(_)) | None => {}
        }
        let now = [agent.current, agent.message].into_iter().filter(|text| !text.is_empty());
        let mut now = now.collect::<Vec<_>>().join(": ");
        if workload.current == "error" {
            now = workload.message;
        }
        // What the agent itself says is more exact than what the model knows that it owes.
        let said = !causes.is_empty();
        let blockers = self.blockers(Entity::Unit(id)).into_iter();
        let blockers: Vec<Cause> = blockers.filter(|one| !said || one.entity != entity).collect();
        causes.splice(0..0, blockers);
        let related = read_all::<()>(self.reader, &self.model.relations_of(doc.application));
        let related = related.iter().filter_map(|(key, ())| last_id(key));
        let own = related.filter(|id| {
            let relation = read(self.reader, &self.model.relation(*id));
            life == Life::Alive && relation.is_some_and(|relation| relation::concerns(&relation, &doc))
        });
        causes.extend(own.filter_map(|id| self.suspended(id)));
        // the root of all else it waits for, if it waits for its machine agent
        let silent = attached && life != Life::Dead && self.roll.is_lost(id);
        if silent || causes.iter().any(|cause| cause.owner == of_machine) {
            causes.splice(0..0, self.machine_agent(doc.machine));
        }
        causes.extend(self.forced(id, &entity));
        Ok(Why { entity, life, now, causes, more: false })
    }

    /// Why a subordinate has no units: those of a principal that it is integrated with bring them along.
    fn principal_missing(&self, application: Uuid, name: &str) -> Option<Cause> {
        let relations = read_all::<()>(self.reader, &self.model.relations_of(application));
        let alive =
            |id: &Uuid| effective::relation_life(&mut { self.reader }, self.model, *id) == Some(Life::Alive);
        let alive = relations.iter().filter_map(|(key, ())| last_id(key)).filter(alive);
        let docs = alive.filter_map(|id| read(self.reader, &self.model.relation(id)));
        let mut others = docs.map(|doc: RelationDoc| doc.other_side(application).clone());
        let has_units =
            |side: &SideDoc| !self.reader.scan(&self.model.units_of(side.application), "", 1).is_empty();
        let first = others.next();
        if first.iter().any(&has_units) || others.any(|other| has_units(&other)) {
            return None;
        }
        let (duty, help) = match first {
            Some(side) => {
                let principal = side.application_name;
                let duty = format!("have a principal's units beside: {principal} has none");
                (duty, format!("pintle add-unit {principal}"))
            }
            None => {
                let duty =
                    "be integrated: a subordinate has no units until it is integrated with what has some";
                (duty.to_owned(), format!("pintle integrate {name} APPLICATION"))
            }
        };
        Some(Cause {
            entity: format!("application {name}"),
            duty,
            owner: "operator".to_owned(),
            since_ms: None,
            last_error: None,
            help,
        })
    }

    /// Its own blockers, then what its units wait for.
    fn application(&self, name: &str) -> Result<Why, Refusal> {
        let id = application::find(&mut { self.reader }, self.model, name)?;
        let life = read(self.reader, &self.model.application_life(id)).unwrap_or(Life::Dying);
        let mut causes = self.blockers(Entity::Application(id));
        let units = read_all::<()>(self.reader, &self.model.units_of(id));
        if life == Life::Alive {
            for (key, ()) in &units {
                let unit = self.unit(last_id(key).expect("an index ends with an id"))?;
                causes.extend(unit.causes);
                if are_enough(&mut causes) {
                    break;
                }
            }
        }
        // Dying, it has said so above: when force comes is each unit's
        for (key, ()) in units.iter().filter(|_| life != Life::Alive) {
            let unit = last_id(key).expect("an index ends with an id");
            let named = read(self.reader, &self.model.unit(unit));
            causes.extend(named.and_then(|doc| self.forced(unit, &format!("unit {}", doc.name))));
            if are_enough(&mut causes) {
                break;
            }
        }
        let doc = read(self.reader, &self.model.application(id));
        let is_subordinate = doc.is_some_and(|doc| doc.subordinate);
        if life == Life::Alive && units.is_empty() && is_subordinate {
            causes.extend(self.principal_missing(id, name));
        }
        let now = match units.len() {
            1 => "1 unit".to_owned(),
            count => format!("{count} units"),
        };
        causes.extend(self.forced(id, &format!("application {name}")));
        Ok(Why { entity: format!("application {name}"), life, now, causes, more: false })
    }

    /// What a relation that is suspended, and not going away, waits for.
    fn suspended(&self, id: Uuid) -> Option<Cause> {
        let suspended = read(self.reader, &self.model.relation_suspended(id))?;
        let doc = read(self.reader, &self.model.relation(id))?;
        let life = effective::life_between(&mut { self.reader }, self.model, id, &doc);
        (life == Life::Alive).then(|| suspension(&doc, &suspended))
    }

    fn numbered(&self, number: &str) -> Result<Why, Refusal> {
        let id = number.parse().ok().and_then(|n| status::relation_of_number(self.reader, self.model, n));
        self.relation(id.ok_or_else(|| Refusal::not_found("relation", number))?)
    }

    /// A Dying relation waits for its members to leave, another for the units of its applications to enter.
    fn relation(&self, id: Uuid) -> Result<Why, Refusal> {
        let gone = || Refusal::not_found("relation", id);
        let doc = read(self.reader, &self.model.relation(id)).ok_or_else(gone)?;
        let life = effective::life_between(&mut { self.reader }, self.model, id, &doc);
        let mut causes = self.blockers(Entity::Relation(id));
        let present = read_all::<ScopeDoc>(self.reader, &self.model.scopes(id));
        if let Some(suspended) = self.suspended(id) {
            let leaving = blockers::of_suspended(&mut { self.reader }, self.model, id);
            causes.extend(leaving.into_iter().map(|one| cause(self.owed().dated(one))));
            causes.push(suspended);
        } else if life == Life::Alive {
            let applications = doc.sides.iter().map(|side| side.application);
            for (key, ()) in
                applications.flat_map(|app| read_all::<()>(self.reader, &self.model.units_of(app)))
            {
                let unit = last_id(&key).expect("an index ends with an id");
                let held = read(self.reader, &self.model.unit(unit));
                let concerned = held.is_some_and(|held| {
                    let life = effective::life_of(&mut { self.reader }, self.model, unit, &held);
                    life == Life::Alive && relation::concerns(&doc, &held)
                });
                if !concerned || present.iter().any(|(key, _)| last_id(key) == Some(unit)) {
                    continue;
                }
                let why = self.unit(unit)?;
                let first = why.causes.first();
                let after =
                    first.map_or(String::new(), |cause| format!(", after: {} ({})", cause.duty, cause.owner));
                let last_error = first.and_then(|cause| cause.last_error.clone());
                causes.push(Cause {
                    owner: format!("the agent of {}", why.entity),
                    help: format!("pintle why {}", why.entity.trim_start_matches("unit ")),
                    entity: why.entity,
                    duty: format!("enter relation {}{after}", doc.key_text()),
                    since_ms: Some(doc.created_ms),
                    last_error,
                });
                if are_enough(&mut causes) {
                    break;
                }
            }
        }
        causes.extend(self.forced(id, &format!("relation {}", doc.number)));
        let now = format!("{} ({} in scope)", doc.key_text(), present.len());
        Ok(Why { entity: format!("relation {}", doc.number), life, now, causes, more: false })
    }
}

/// A suspended relation waits for a person, once it is left.
fn suspension(doc: &RelationDoc, suspended: &SuspendedDoc) -> Cause {
    let because = match suspended.message.as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    Cause {
        entity: format!("relation {}", doc.key_text()),
        duty: format!("be resumed; relation {} is suspended{because}", doc.number),
        owner: "operator".to_owned(),
        since_ms: Some(suspended.since_ms),
        last_error: None,
        help: format!("pintle resume-relation {}", doc.number),
    }
}
