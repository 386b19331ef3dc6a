//! I52: whatever is on its way out and does not go says at least one cause, and each cause is true: it leads to an
//! obstacle that stands, and taking that one away gives progress.
//!
//! A cause leads to an obstacle when its owner is what the obstacle holds, or a unit or machine of whose own causes one
//! leads there. So one that names somebody whom nothing holds is false, and so is a circle. What is asked and names
//! itself is to be held itself.

use super::{Agent, Check};
use api::{Cause, Why};
use state::life::Life;
use state::names::{RelationNumber, UnitName, Uuid};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// Who takes instances away.
const PROVISIONER: &str = "the provisioner of pintle up";
/// Who starts the agents of machines.
const SUPERVISOR: &str = "the supervisor of pintle up";

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
        let owner = cause.owner.as_str();
        match self {
            Obstacle::HooksFail(_, unit) => owner == "charm" && cause.entity == format!("unit {unit}"),
            Obstacle::AgentIsDown(_, unit) => owner == format!("the agent of unit {unit}"),
            Obstacle::MachineAgentIsDown(_, machine) => {
                owner == format!("the agent of machine {machine}")
                    || owner == SUPERVISOR && cause.entity == format!("machine {machine}")
            }
            Obstacle::ProvisionerIsDown => owner == PROVISIONER,
            Obstacle::Suspended(number) => {
                owner == "operator" && cause.help == format!("pintle resume-relation {number}")
            }
            Obstacle::Unrelated(name) => owner == "operator" && cause.entity == format!("application {name}"),
        }
    }
}

/// What an entity says that it waits for. None: it was refused.
pub struct Answer {
    pub entity: String,
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
    format!("{} is to {} ({})", cause.entity, cause.duty, cause.owner)
}

/// Everybody's answers, at rest. Who is not on the way out need not wait for anything, unless its agent is down; what it
/// says is to be true all the same.
pub struct Stuck<'a> {
    /// Obstacles that stand.
    pub standing: &'a [Obstacle],
    /// The one that was taken away since the last time.
    pub gone: Option<&'a Obstacle>,
    pub answers: &'a [Answer],
    pub agents: &'a [Agent],
}

impl Stuck<'_> {
    fn answer(&self, entity: &str) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.entity == entity)
    }

    fn going(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| answer.life != Life::Alive)
    }

    /// The agent of this unit or machine is down.
    fn holds(&self, entity: &str) -> bool {
        let down = |obstacle: &Obstacle| match obstacle {
            Obstacle::AgentIsDown(_, unit) => entity == format!("unit {unit}"),
            Obstacle::MachineAgentIsDown(_, machine) => entity == format!("machine {machine}"),
            _ => false,
        };
        self.standing.iter().any(down)
    }

    fn named(&self, cause: &Cause) -> BTreeSet<Obstacle> {
        self.standing.iter().filter(|obstacle| obstacle.is(cause)).cloned().collect()
    }

    /// Obstacles that this cause leads to, by way of whoever owes it and was not asked yet.
    fn roots(&self, cause: &Cause, asked: &mut BTreeSet<String>) -> BTreeSet<Obstacle> {
        let mut roots = self.named(cause);
        if let Some(owing) = owing(cause).filter(|owing| asked.insert(owing.clone())) {
            let further = self.answer(&owing).map_or(&[][..], Answer::causes);
            roots.extend(further.iter().flat_map(|cause| self.roots(cause, asked)));
        }
        roots
    }
}

/// The unit or machine that owes it: by its agent, or a unit as such.
fn owing(cause: &Cause) -> Option<String> {
    let unit = || cause.owner.parse::<UnitName>().ok().map(|unit| format!("unit {unit}"));
    cause.owner.strip_prefix("the agent of ").map(str::to_owned).or_else(unit)
}

#[derive(Default)]
pub struct Explained {
    /// What was on its way out at the last rest, with its causes.
    before: BTreeSet<String>,
    /// Obstacles that were named then.
    named: BTreeSet<Obstacle>,
}

impl Check for Explained {
    fn name(&self) -> &'static str {
        "explained"
    }

    fn explain(&mut self, stuck: &Stuck<'_>, found: &mut Vec<String>) {
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
                if cause.owner.is_empty() || cause.help.is_empty() {
                    found.push(format!("{}: nobody, or no help, is named: {cause:?}", answer.entity));
                }
                if owing(cause).is_some_and(|owing| stuck.answer(&owing).is_none()) {
                    found.push(format!("{}: {}, who is not there", answer.entity, told(cause)));
                }
                let roots = match owing(cause).as_ref() == Some(&answer.entity) {
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
