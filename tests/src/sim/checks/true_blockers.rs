//! I52: whatever is on its way out and does not go says at least one cause, and each cause is true: it leads to an
//! obstacle that stands, and taking that one away gives progress.
//!
//! A cause leads to an obstacle when its owner is what the obstacle holds, or a unit or machine of whose own causes one
//! leads there. So one that names somebody whom nothing holds is false, and so is a circle. What is asked and names
//! itself is to be held itself.

use crate::sim::checks::{Agent, Check};
use api::Why;
use state::terms::cause::{Actor, Cause, Duty, Entity};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// What keeps something from going on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// Every hook of this unit.
    HooksFail(Uuid, UnitName),
    /// The agent of this unit.
    AgentIsDown(Uuid, UnitName),
    MachineAgentIsDown(Uuid, String),
    ProvisionerIsDown,
    /// This relation is suspended, and nobody resumes it.
    Suspended(RelationNumber),
    /// This subordinate has no unit, since nobody integrates it with what has some.
    Unrelated(String),
}

impl Obstacle {
    /// The unit or machine that it holds: no two hold the same.
    pub fn concerned(&self) -> Option<Uuid> {
        match self {
            Obstacle::HooksFail(id, _)
            | Obstacle::AgentIsDown(id, _)
            | Obstacle::MachineAgentIsDown(id, _) => Some(*id),
            Obstacle::ProvisionerIsDown | Obstacle::Suspended(_) | Obstacle::Unrelated(_) => None,
        }
    }

    /// It makes this unit's hooks fail.
    pub fn fails(&self, name: &UnitName) -> bool {
        matches!(self, Obstacle::HooksFail(_, unit) if unit == name)
    }

    /// This cause names it.
    fn is(&self, cause: &Cause) -> bool {
        match self {
            Obstacle::HooksFail(_, unit) => {
                cause.actor == Actor::Charm && cause.entity == Entity::Unit(unit.clone())
            }
            Obstacle::AgentIsDown(_, unit) => cause.actor == Actor::UnitAgent(unit.clone()),
            Obstacle::MachineAgentIsDown(_, machine) => {
                cause.actor == Actor::MachineAgent(machine.clone())
                    || cause.actor == Actor::Supervisor && cause.entity == Entity::Machine(machine.clone())
            }
            Obstacle::ProvisionerIsDown => cause.actor == Actor::Provisioner,
            Obstacle::Suspended(number) => {
                let is_it = matches!(&cause.entity, Entity::Relation(name) if name.number == *number);
                is_it && matches!(cause.duty, Duty::ResumeRequest { .. })
            }
            Obstacle::Unrelated(name) => {
                cause.actor == Actor::Operator && cause.entity == Entity::Application(name.clone())
            }
        }
    }
}

/// The answer of `why` for an entity. None: it was refused.
pub struct Answer {
    pub entity: Entity,
    /// As the documents have it.
    pub life: Life,
    pub why: Option<Why>,
}

impl Answer {
    fn causes(&self) -> &[Cause] {
        self.why.as_ref().map_or(&[], |why| &why.causes)
    }
}

impl Display for Answer {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{} is {}:", self.entity, self.life)?;
        self.causes().iter().try_for_each(|cause| write!(to, " {};", told(cause)))
    }
}

fn told(cause: &Cause) -> String {
    // a time that passes is no progress
    let duty = match cause.duty.clone() {
        Duty::ForceRemoval { start_budget_timer, .. } => {
            Duty::ForceRemoval { start_budget_timer, wait_left_ms: None }
        }
        Duty::StartInstance { .. } => Duty::StartInstance { retry_ms: 0 },
        Duty::TendInstance { .. } => Duty::TendInstance { retry_ms: 0 },
        other => other,
    };
    format!("{} waits for {:?} to do {duty:?}", cause.entity, cause.actor)
}

/// Everybody's answers, at rest. Who is not on the way out need not wait for anything, unless its agent is down; what it
/// says is to be true all the same.
pub struct StuckSystem<'a> {
    /// Obstacles that stand.
    pub standing: &'a [Obstacle],
    /// The one that was taken away since the last time.
    pub gone: Option<&'a Obstacle>,
    pub answers: &'a [Answer],
    pub agents: &'a [Agent],
}

impl StuckSystem<'_> {
    fn answer(&self, entity: &Entity) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.entity == *entity)
    }

    fn going(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| answer.life != Life::Alive)
    }

    /// The agent of this unit or machine is down.
    fn holds(&self, entity: &Entity) -> bool {
        let down = |obstacle: &Obstacle| match obstacle {
            Obstacle::AgentIsDown(_, unit) => *entity == Entity::Unit(unit.clone()),
            Obstacle::MachineAgentIsDown(_, machine) => *entity == Entity::Machine(machine.clone()),
            _ => false,
        };
        self.standing.iter().any(down)
    }

    fn named(&self, cause: &Cause) -> BTreeSet<Obstacle> {
        self.standing.iter().filter(|obstacle| obstacle.is(cause)).cloned().collect()
    }

    /// Obstacles that this cause leads to, by way of whoever owes it and was not asked yet.
    fn roots(&self, cause: &Cause, asked: &mut BTreeSet<Entity>) -> BTreeSet<Obstacle> {
        let mut roots = self.named(cause);
        if let Some(acting) = acting(cause).filter(|acting| asked.insert(acting.clone())) {
            let further = self.answer(&acting).map_or(&[][..], Answer::causes);
            roots.extend(further.iter().flat_map(|cause| self.roots(cause, asked)));
        }
        roots
    }
}

/// The unit or machine that has to act: by its agent, or a unit as such.
fn acting(cause: &Cause) -> Option<Entity> {
    match &cause.actor {
        Actor::UnitAgent(unit) | Actor::Unit(unit) => Some(Entity::Unit(unit.clone())),
        Actor::MachineAgent(machine) => Some(Entity::Machine(machine.clone())),
        Actor::Controller
        | Actor::Janitor
        | Actor::Provisioner
        | Actor::Supervisor
        | Actor::Operator
        | Actor::Charm
        | Actor::OwnMachineAgent => None,
    }
}

#[derive(Default)]
pub struct TrueBlockers {
    /// What was on its way out at the last rest, with its causes.
    before: BTreeSet<String>,
    /// Obstacles that were named then.
    named: BTreeSet<Obstacle>,
}

impl Check for TrueBlockers {
    fn name(&self) -> &'static str {
        "explained"
    }

    fn explain(&mut self, stuck: &StuckSystem<'_>, found: &mut Vec<String>) {
        let mut named = BTreeSet::new();
        for answer in stuck.answers {
            let Some(why) = &answer.why else {
                found.push(format!("{answer} no answer"));
                continue;
            };
            if why.causes.is_empty() && (answer.life != Life::Alive || stuck.holds(&answer.entity)) {
                found.push(format!("{answer} nothing is said to hold it"));
            }
            if why.life != answer.life {
                found.push(format!("{answer} said to be {}", why.life));
            }
            for cause in &why.causes {
                if acting(cause).is_some_and(|acting| stuck.answer(&acting).is_none()) {
                    found.push(format!("{}: {}, who is not there", answer.entity, told(cause)));
                }
                let roots = match acting(cause).as_ref() == Some(&answer.entity) {
                    true => stuck.named(cause),
                    false => stuck.roots(cause, &mut BTreeSet::new()),
                };
                if roots.is_empty() {
                    let standing = stuck.standing;
                    let what = told(cause);
                    found.push(format!("{}: {what}, whom nothing holds: {standing:?}", answer.entity));
                }
                // with two in the way, the first that goes need not help (30003786)
                if answer.life != Life::Alive && roots.len() == 1 {
                    named.extend(roots);
                }
            }
        }
        let now: BTreeSet<String> = stuck.going().map(Answer::to_string).collect();
        if let Some(gone) = stuck.gone.filter(|gone| self.named.contains(gone) && now == self.before) {
            found.push(format!("{gone:?} was named and is gone, and nothing went on: {now:?}"));
        }
        (self.before, self.named) = (now, named);
    }
}
