//! What controllers that share a store tell each other about agents, so that each of them shows the same.
//!
//! An agent is attached to one controller, and its requests reach only that one. What is known about an agent has several
//! observers, which may be attached to different controllers: the agent itself, the machine agent, the supervisor. Each
//! observer has a [`Topic`] of its own, so that a statement about one topic never replaces another one. The newest
//! statement about a topic counts.
//!
//! A statement changes only when what it states changes: an idle agent causes none. Time is therefore no part of it, except
//! of a silent agent: the controller to which an agent is attached states when it is late and when it is lost.

use super::presence::ExecutingRun;
use crate::documents::draft::Revision;
use crate::terms::disk_usage::UnitDiskUsage;
use crate::terms::health::{MachineAgentExits, UnitHealth};
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// What the agent itself shows by its requests.
    Agent,
    /// The boots of its machine in which it has attached, or which a machine agent has reported.
    Boots,
    /// That it has an open stream.
    Stream,
    /// What the machine agent observes of a unit agent.
    Health,
    /// The disk usage of a unit, as its machine agent has measured it.
    Disk,
    /// How the process of a machine agent has ended, as the supervisor observes it.
    Exits,
    /// That the agent was removed.
    Removed,
}

impl Topic {
    /// All topics.
    pub const ALL: [Topic; 7] =
        [Topic::Agent, Topic::Boots, Topic::Stream, Topic::Health, Topic::Disk, Topic::Exits, Topic::Removed];

    /// The name of the topic in a key of the store.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Agent => "agent",
            Topic::Boots => "boots",
            Topic::Stream => "stream",
            Topic::Health => "health",
            Topic::Disk => "disk",
            Topic::Exits => "exits",
            Topic::Removed => "removed",
        }
    }

    /// Returns the topic of this name.
    pub fn of_name(name: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.name() == name)
    }
}

/// A statement of a controller about an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statement {
    /// See [`Topic::Agent`].
    Agent(AgentStatement),
    /// See [`Topic::Boots`].
    Boots(Boots),
    /// See [`Topic::Stream`].
    Stream,
    /// See [`Topic::Health`].
    Health(UnitHealth),
    /// See [`Topic::Disk`].
    Disk(UnitDiskUsage),
    /// See [`Topic::Exits`].
    Exits(Option<MachineAgentExits>),
    /// See [`Topic::Removed`].
    Removed,
}

impl Statement {
    /// What it is about.
    pub fn topic(&self) -> Topic {
        match self {
            Statement::Agent(_) => Topic::Agent,
            Statement::Boots(_) => Topic::Boots,
            Statement::Stream => Topic::Stream,
            Statement::Health(_) => Topic::Health,
            Statement::Disk(_) => Topic::Disk,
            Statement::Exits(_) => Topic::Exits,
            Statement::Removed => Topic::Removed,
        }
    }

    /// Whether it states that there is nothing to show, as the absence of a statement does. It is needed all the same to
    /// replace one of another controller, which would state that again if it was deleted.
    pub fn is_empty(&self) -> bool {
        match self {
            Statement::Health(health) => *health == UnitHealth::default(),
            Statement::Exits(exits) => exits.is_none(),
            _ => false,
        }
    }
}

/// How long an agent was silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Silence {
    /// Its next request is not overdue.
    #[default]
    None,
    /// Its next request is overdue.
    Late,
    /// It is shown as lost.
    Lost,
}

/// What the controller to which an agent is attached knows from its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatement {
    /// Whether the agent has sent a request; else it is being started.
    pub has_reported: bool,
    /// How long it was silent.
    pub silence: Silence,
    /// The time of its last request, by the wall clock; none while it sends requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_request_ms: Option<i64>,
    /// The agent has sent a request after what the machine agent or the supervisor has stated about its process before this
    /// revision.
    #[serde(default)]
    pub alive_after: Revision,
    /// The run that it executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executing: Option<ExecutingRun>,
    /// The newest run whose record was applied.
    #[serde(default)]
    pub last_applied_run: u64,
    /// The digest of a file that it has requested and that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_file: Option<String>,
    /// Of a machine: why the recalls of removed units cannot be confirmed, by unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub obstructed_recalls: BTreeMap<Uuid, String>,
    /// Of a machine: the bytes in the folders of units without a record.
    #[serde(default)]
    pub quarantined_bytes: u64,
}

impl AgentStatement {
    /// Whether another controller states this about an agent from which this controller has received a request in time. The
    /// other one has not seen that request: its statement is not taken over, and this one's replaces it.
    pub fn is_outdated_by_request(&self) -> bool {
        self.silence != Silence::None
    }
}

/// The boots of its machine in which a unit agent has attached. Whoever sees the commit of an attach must find its boot, by
/// which a unit that has to run start again is not idle, so the boot is stated before; after a refusal it is taken back,
/// unless another attach has replaced it already:
///
/// 1. A copy of the unit's folder attaches, and its boot is stated.
/// 2. The unit's own agent attaches, its boot is stated, and it is accepted.
/// 3. The attach of the copy is refused; the boot of the unit's own agent must stay.
///
/// The revisions order the boots of units and machines. One that is none is the revision of the statement itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boots {
    /// The boot of the last attach or report.
    pub boot: String,
    /// When it was stated first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Revision>,
    /// The boot of the last attach that was accepted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted: String,
    /// When that attach was stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_since: Option<Revision>,
}

/// What changes the boots of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootChange {
    /// A unit agent attaches in this boot.
    Attached(String),
    /// Its attach in this boot was accepted.
    Accepted(String),
    /// Its attach in this boot was refused.
    Refused(String),
    /// A machine agent has reported this boot.
    Reported(String),
}

impl Boots {
    /// The same with all revisions, of a statement of this revision.
    #[must_use]
    pub fn at(self, revision: Revision) -> Boots {
        let accepted_since = (!self.accepted.is_empty()).then(|| self.accepted_since.unwrap_or(revision));
        Boots { since: Some(self.since.unwrap_or(revision)), accepted_since, ..self }
    }

    /// The boots after a change; none if nothing changes. All revisions of `self` are known ([`Boots::at`]), except of boots
    /// that were never stated.
    #[must_use]
    pub fn after(&self, change: &BootChange) -> Option<Boots> {
        let Boots { boot, since, accepted, accepted_since } = self.clone();
        let changed = match change {
            BootChange::Attached(attached) => {
                return Some(Boots { boot: attached.clone(), since: None, accepted, accepted_since });
            }
            BootChange::Accepted(attached) => {
                // the refusal of a concurrent attach may have replaced the boot since it was stated
                let since = since.filter(|_| boot == *attached);
                let (boot, accepted) = (attached.clone(), attached.clone());
                Boots { boot, since, accepted, accepted_since: since }
            }
            BootChange::Refused(attached) if boot == *attached => {
                Boots { boot: accepted.clone(), since: accepted_since, accepted, accepted_since }
            }
            BootChange::Reported(reported) if boot != *reported => {
                Boots { boot: reported.clone(), since: None, accepted, accepted_since }
            }
            BootChange::Refused(_) | BootChange::Reported(_) => return None,
        };
        (changed != *self).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(changes: &[(Revision, BootChange)]) -> Boots {
        changes.iter().fold(Boots::default(), |boots, (revision, change)| {
            boots.after(change).map_or(boots, |changed| changed.at(*revision))
        })
    }

    fn attached(boot: &str) -> BootChange {
        BootChange::Attached(boot.to_owned())
    }

    fn accepted(boot: &str) -> BootChange {
        BootChange::Accepted(boot.to_owned())
    }

    fn refused(boot: &str) -> BootChange {
        BootChange::Refused(boot.to_owned())
    }

    #[test]
    fn a_refused_attach_restores_the_boot_and_its_revision_only_if_no_other_attach_has_replaced_it() {
        let first = [(1, attached("first")), (2, accepted("first"))];
        let after = |changes: &[(Revision, BootChange)]| {
            let Boots { boot, since, .. } = boots(&[&first, changes].concat());
            (boot, since)
        };
        let is = |boot: &str, since| (boot.to_owned(), Some(since));
        assert_eq!(after(&[]), is("first", 1), "the acceptance is no newer boot");
        assert_eq!(after(&[(3, attached("copy"))]), is("copy", 3), "known before it is accepted");
        assert_eq!(after(&[(3, attached("copy")), (4, refused("copy"))]), is("first", 1));
        let raced = [(3, attached("copy")), (4, attached("own")), (5, accepted("own")), (6, refused("copy"))];
        assert_eq!(after(&raced), is("own", 4));
        let raced = [(3, attached("own")), (4, attached("copy")), (5, refused("copy")), (6, accepted("own"))];
        assert_eq!(after(&raced), is("own", 6));
        let raced = [(3, attached("own")), (4, attached("copy")), (5, accepted("own")), (6, refused("copy"))];
        assert_eq!(after(&raced), is("own", 5));
        let again = [(3, attached("first")), (4, accepted("first"))];
        assert_eq!(
            after(&again),
            is("first", 3),
            "each attach is newer than what the machine has reported before"
        );
    }

    #[test]
    fn a_boot_that_a_machine_reports_again_changes_nothing() {
        let reported = |boot: &str| BootChange::Reported(boot.to_owned());
        let once = boots(&[(1, reported("first"))]);
        assert_eq!(once.after(&reported("first")), None);
        assert_eq!(boots(&[(1, reported("first")), (2, reported("second"))]).since, Some(2));
    }

    #[test]
    fn each_topic_has_a_name_of_its_own() {
        for topic in Topic::ALL {
            assert_eq!(Topic::of_name(topic.name()), Some(topic));
        }
        assert_eq!(Topic::of_name("other"), None);
    }
}
