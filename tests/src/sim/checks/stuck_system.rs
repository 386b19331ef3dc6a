//! A system at rest in which removals cannot finish: the obstacles in place, and the answers of `why`.

use super::running_agent::RunningAgent;
use api::Why;
use state::terms::cause::{Actor, Cause, Duty, Entity};
use state::terms::force::ForcePhase;
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// Something that obstructs a removal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// Every hook of this unit fails.
    HooksFail(Uuid, UnitName),
    /// The agent of this unit is stopped.
    AgentIsDown(Uuid, UnitName),
    /// The agent of this machine is stopped.
    MachineAgentIsDown(Uuid, String),
    /// The provisioner is stopped.
    ProvisionerIsDown,
    /// This relation is suspended, and no operator resumes it.
    Suspended(RelationNumber),
    /// This subordinate has no unit, because it is not integrated with an application that has units.
    NotIntegrated(String),
}

impl Obstacle {
    /// The unit or machine that it obstructs. At most one obstacle obstructs each.
    pub fn obstructed_entity(&self) -> Option<Uuid> {
        match self {
            Obstacle::HooksFail(id, _)
            | Obstacle::AgentIsDown(id, _)
            | Obstacle::MachineAgentIsDown(id, _) => Some(*id),
            Obstacle::ProvisionerIsDown | Obstacle::Suspended(_) | Obstacle::NotIntegrated(_) => None,
        }
    }

    /// Whether it makes the hooks of this unit fail.
    pub fn fails_hooks_of(&self, name: &UnitName) -> bool {
        matches!(self, Obstacle::HooksFail(_, unit) if unit == name)
    }

    /// Whether this blocker names the obstacle.
    fn is_named_by(&self, cause: &Cause) -> bool {
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
            Obstacle::NotIntegrated(name) => {
                cause.actor == Actor::Operator && cause.entity == Entity::Application(name.clone())
            }
        }
    }
}

/// The answer of `why` for an entity.
pub struct WhyAnswer {
    pub entity: Entity,
    /// Its life according to the documents.
    pub life: Life,
    /// `None`: the request was refused.
    pub why: Option<Why>,
}

impl WhyAnswer {
    pub(super) fn causes(&self) -> &[Cause] {
        self.why.as_ref().map_or(&[], |why| &why.causes)
    }
}

impl Display for WhyAnswer {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{} is {}:", self.entity, self.life)?;
        self.causes().iter().try_for_each(|cause| write!(to, " {};", blocker_text(cause)))
    }
}

pub(super) fn blocker_text(cause: &Cause) -> String {
    // passing time is not progress
    let duty = match cause.duty.clone() {
        Duty::ForceRemoval { by, .. } => Duty::ForceRemoval { by, phase: ForcePhase::Acting },
        Duty::StartInstance { .. } => Duty::StartInstance { retry_ms: 0 },
        Duty::ReachInstance { .. } => Duty::ReachInstance { retry_ms: 0 },
        other => other,
    };
    format!("{} waits for {:?} to do {duty:?}", cause.entity, cause.actor)
}

/// The answers of all entities at rest. An entity that is Alive needs no blocker unless its agent is down, but
/// the blockers that it reports must be true.
pub struct StuckSystem<'a> {
    /// The obstacles in place.
    pub obstacles: &'a [Obstacle],
    /// The obstacle that was removed since the last answers.
    pub removed: Option<&'a Obstacle>,
    pub answers: &'a [WhyAnswer],
    pub agents: &'a [RunningAgent],
}

impl StuckSystem<'_> {
    pub(super) fn answer(&self, entity: &Entity) -> Option<&WhyAnswer> {
        self.answers.iter().find(|answer| answer.entity == *entity)
    }

    pub(super) fn dying_answers(&self) -> impl Iterator<Item = &WhyAnswer> {
        self.answers.iter().filter(|answer| answer.life != Life::Alive)
    }

    /// The agent of this unit or machine is down.
    pub(super) fn is_agent_down(&self, entity: &Entity) -> bool {
        let down = |obstacle: &Obstacle| match obstacle {
            Obstacle::AgentIsDown(_, unit) => *entity == Entity::Unit(unit.clone()),
            Obstacle::MachineAgentIsDown(_, machine) => *entity == Entity::Machine(machine.clone()),
            _ => false,
        };
        self.obstacles.iter().any(down)
    }

    pub(super) fn named_obstacles(&self, cause: &Cause) -> BTreeSet<Obstacle> {
        self.obstacles.iter().filter(|obstacle| obstacle.is_named_by(cause)).cloned().collect()
    }

    /// Obstacles that this blocker leads to, by way of actors that are not in `visited`.
    pub(super) fn reachable_obstacles(
        &self,
        cause: &Cause,
        visited: &mut BTreeSet<Entity>,
    ) -> BTreeSet<Obstacle> {
        let mut reachable_obstacles = self.named_obstacles(cause);
        if let Some(acting) = acting(cause).filter(|acting| visited.insert(acting.clone())) {
            let further = self.answer(&acting).map_or(&[][..], WhyAnswer::causes);
            reachable_obstacles
                .extend(further.iter().flat_map(|cause| self.reachable_obstacles(cause, visited)));
        }
        reachable_obstacles
    }
}

/// The unit or machine that must act: its agent, or the unit itself.
pub(super) fn acting(cause: &Cause) -> Option<Entity> {
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
