//! What this controller tells the others about agents, and what it learns from them.
//!
//! For each agent and [`Topic`] the shared store has the newest statement. A controller states what it has received itself:
//! from the agents that are attached to it, and from machine agents and supervisors about others. What another controller
//! states replaces what this one has in its table, so all of them show the same.
//!
//! A statement ends with the controller that has made it, unless another one has replaced it. Its agent has moved, or will
//! move, to another controller: each remaining one gives it the full time to report, and the first one states that
//! (`expect_again`). So it is not lost at once, and all of them show it as lost at the same time if it does not come.

use super::{AgentPresence, DISK, EXITS, HEALTH, MeasuredDisk, ObservedExits, ObservedHealth};
use super::{LATE_AFTER_MS, LOST_AFTER_MS, Presence, PresenceSnapshot};
use crate::store::shared_presence::Stated;
use state::documents::draft::Revision;
use state::status::presence::PresenceReader;
use state::status::shared_presence::{AgentStatement, Boots, Silence, Statement, Topic};
use state::terms::names::Uuid;

/// What the shared store should have about an agent, as far as this controller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// This statement, of this controller.
    Own(Statement),
    /// This statement, of this controller, also if it is empty: it outdates one that has ended with its controller.
    Replacing(Statement),
    /// This statement, if there is none.
    Any(Statement),
    /// No statement of this controller about the topic.
    NotOwn(Topic),
}

impl Wanted {
    /// What it is about.
    pub(crate) fn topic(&self) -> Topic {
        match self {
            Wanted::Own(statement) | Wanted::Replacing(statement) | Wanted::Any(statement) => {
                statement.topic()
            }
            Wanted::NotOwn(topic) => *topic,
        }
    }

    /// What must be written, compared with what the store has: a statement, or none to delete it.
    pub(crate) fn change(&self, stated: Option<&Stated>) -> Option<Option<Statement>> {
        match (self, stated) {
            (Wanted::Own(wanted) | Wanted::Replacing(wanted), Some(stated))
                if stated.is_own && stated.statement == *wanted =>
            {
                None
            }
            (Wanted::Own(wanted), None) if wanted.is_empty() => None,
            (Wanted::Own(wanted) | Wanted::Replacing(wanted), _) | (Wanted::Any(wanted), None) => {
                Some(Some(wanted.clone()))
            }
            (Wanted::NotOwn(_), Some(stated)) if stated.is_own => Some(None),
            (Wanted::Any(_) | Wanted::NotOwn(_), _) => None,
        }
    }
}

/// The place of a topic in what others report about an agent.
fn reported_topic(topic: Topic) -> Option<usize> {
    match topic {
        Topic::Health => Some(HEALTH),
        Topic::Disk => Some(DISK),
        Topic::Exits => Some(EXITS),
        Topic::Agent | Topic::Boots | Topic::Stream | Topic::Removed => None,
    }
}

impl AgentPresence {
    fn statement(&self, silence: Silence, last_request_ms: i64) -> AgentStatement {
        let is_silent = silence != Silence::None || !self.reported;
        AgentStatement {
            has_reported: self.reported,
            silence,
            last_request_ms: is_silent.then_some(last_request_ms),
            alive_after: self.alive_after,
            executing: self.executing.clone(),
            last_applied_run: self.last_applied_run,
            missing_file: self.missing_file.clone(),
            obstructed_recalls: self.obstructed_recalls.clone(),
            quarantined_bytes: self.quarantined_bytes,
        }
    }

    /// Takes over what another controller states about an agent that is attached to it.
    fn move_to(&mut self, statement: AgentStatement) {
        self.sharing.is_here = false;
        self.reported = statement.has_reported;
        self.alive_after = statement.alive_after;
        // this controller may have received a newer request, in which the run has ended
        self.last_applied_run = self.last_applied_run.max(statement.last_applied_run);
        let executing =
            statement.executing.as_ref().filter(|executing| executing.run > self.last_applied_run);
        self.executing = executing.cloned();
        self.missing_file.clone_from(&statement.missing_file);
        self.obstructed_recalls.clone_from(&statement.obstructed_recalls);
        self.quarantined_bytes = statement.quarantined_bytes;
        self.sharing.elsewhere = Some(statement);
    }

    /// The controller to which the agent was attached has ended: it is to report, as after a start of the only controller. One
    /// that was silent already is not given time again.
    fn expect_again(&mut self, now_ms: u64) {
        let Some(elsewhere) = self.sharing.elsewhere.take() else { return };
        let silent_ms = match elsewhere.silence {
            Silence::None => 0,
            Silence::Late => LATE_AFTER_MS + 1,
            Silence::Lost => LOST_AFTER_MS + 1,
        };
        self.last_ms = now_ms.saturating_sub(silent_ms);
        (self.sharing.is_here, self.reported) = (true, false);
        self.executing = None; // an agent that runs something reports it to the controller to which it moves
    }
}

impl PresenceSnapshot {
    /// Returns what the shared store should have, by agent.
    pub(crate) fn wanted(&self) -> Vec<(Uuid, Wanted)> {
        self.agents.iter().flat_map(|(agent, presence)| self.wanted_of(*agent, presence)).collect()
    }

    fn wanted_of(&self, agent: Uuid, presence: &AgentPresence) -> impl Iterator<Item = (Uuid, Wanted)> {
        let sharing = &presence.sharing;
        let own = |of: usize, statement: Statement| match (sharing.has_own[of], sharing.has_ended[of]) {
            (true, false) => Some(Wanted::Own(statement)),
            (true, true) => Some(Wanted::Replacing(statement)),
            (false, _) => None,
        };
        let health = presence.health.as_ref().map(|observed| observed.health.clone()).unwrap_or_default();
        let disk = presence.disk_usage.map(|measured| Statement::Disk(measured.usage));
        let exits = presence.machine_agent_exits.as_ref().map(|observed| observed.exits.clone());
        let is_here = sharing.is_here;
        let statement = || presence.statement(self.silence(agent), self.last_request_ms(agent));
        let boots = is_here && presence.boots != Boots::default();
        let wanted = [
            is_here.then(|| Wanted::Own(Statement::Agent(statement()))),
            boots.then(|| Wanted::Any(Statement::Boots(presence.boots.clone()))),
            Some(match presence.streams > 0 {
                true => Wanted::Any(Statement::Stream),
                false => Wanted::NotOwn(Topic::Stream),
            }),
            own(HEALTH, Statement::Health(health)),
            disk.and_then(|disk| own(DISK, disk)),
            own(EXITS, Statement::Exits(exits)),
        ];
        wanted.into_iter().flatten().map(move |wanted| (agent, wanted))
    }
}

impl Presence {
    /// Returns what is known about the boots of an agent.
    pub(crate) fn boots(&self, agent: Uuid) -> Boots {
        self.agents().get(&agent).map(|presence| presence.boots.clone()).unwrap_or_default()
    }

    /// Whether a machine has not reported this boot yet.
    pub fn is_new_boot(&self, machine: Uuid, boot: &str) -> bool {
        self.agents().get(&machine).is_none_or(|presence| presence.boots.boot != boot)
    }

    /// Takes the agents of which the others are to be told that they were removed.
    pub(crate) fn take_removed(&self) -> Vec<Uuid> {
        std::mem::take(&mut *self.removed.lock().expect("no holder panics")).into_iter().collect()
    }

    /// The others could not be told.
    pub(crate) fn remove_later(&self, agent: Uuid) {
        self.removed.lock().expect("no holder panics").insert(agent);
    }

    /// Records that the store has a statement of this controller, also if that has not changed.
    pub(crate) fn record_stated(&self, agent: Uuid, topic: Topic, revision: Revision) {
        let mut agents = self.agents();
        let Some(presence) = agents.get_mut(&agent) else { return };
        let (health, exits) = (&mut presence.health, &mut presence.machine_agent_exits);
        let reported_at = match topic {
            Topic::Health => health.as_mut().map(|observed| &mut observed.reported_at),
            Topic::Exits => exits.as_mut().map(|observed| &mut observed.reported_at),
            _ => None,
        };
        if let Some(reported_at) = reported_at {
            *reported_at = revision;
        }
    }

    /// Takes over what the shared store has about a topic now; none if the statement has ended.
    pub(crate) fn receive(&self, agent: Uuid, topic: Topic, stated: Option<&Stated>, now_ms: u64) {
        let mut agents = self.agents();
        let Some(Stated { statement, is_own, revision }) = stated.cloned() else {
            if let Some(presence) = agents.get_mut(&agent) {
                presence.end_statement(topic, now_ms);
            }
            return;
        };
        if statement == Statement::Removed {
            agents.remove(&agent);
            return;
        }
        let unknown = || AgentPresence { last_ms: self.started_ms, ..AgentPresence::default() };
        let presence = agents.entry(agent).or_insert_with(unknown);
        if let Some(of) = reported_topic(topic) {
            presence.sharing.has_ended[of] = false;
        }
        match statement {
            Statement::Agent(_) if is_own => {
                (presence.sharing.is_here, presence.sharing.elsewhere) = (true, None);
            }
            Statement::Agent(statement) => {
                let is_in_time = now_ms.saturating_sub(presence.last_ms) <= LATE_AFTER_MS;
                if !(presence.sharing.is_here && is_in_time && statement.is_outdated_by_request()) {
                    presence.move_to(statement);
                }
            }
            Statement::Boots(boots) => presence.boots = boots.at(revision),
            Statement::Stream => presence.sharing.is_streaming_elsewhere = !is_own,
            // of an own statement that is older than what was reported since, only the latter counts
            Statement::Health(health) => {
                let own = presence.health.as_ref().map(|own| &own.health);
                if !is_own || own == Some(&health) {
                    presence.sharing.has_own[HEALTH] = is_own;
                    presence.health = Some(ObservedHealth { health, reported_at: revision });
                }
            }
            Statement::Disk(usage) if !is_own => {
                presence.sharing.has_own[DISK] = false;
                presence.disk_usage = Some(MeasuredDisk { usage, reported_ms: now_ms });
            }
            Statement::Exits(exits) => {
                let own = presence.machine_agent_exits.as_ref().map(|own| &own.exits);
                if !is_own || own == exits.as_ref() {
                    presence.sharing.has_own[EXITS] = is_own;
                    presence.machine_agent_exits =
                        exits.map(|exits| ObservedExits { exits, reported_at: revision });
                }
            }
            Statement::Disk(_) | Statement::Removed => {}
        }
    }
}

impl AgentPresence {
    /// A statement has ended. What this controller has stated itself is stated again.
    fn end_statement(&mut self, topic: Topic, now_ms: u64) {
        let [health, disk, exits] = self.sharing.has_own;
        if let Some(of) = reported_topic(topic) {
            self.sharing.has_ended[of] |= !self.sharing.has_own[of];
        }
        match topic {
            Topic::Agent => self.expect_again(now_ms),
            Topic::Stream => self.sharing.is_streaming_elsewhere = false,
            Topic::Health if !health => self.health = None,
            Topic::Disk if !disk => self.disk_usage = None,
            Topic::Exits if !exits => self.machine_agent_exits = None,
            // the boots are kept: the controller to which the agent is attached states them again
            Topic::Boots | Topic::Health | Topic::Disk | Topic::Exits | Topic::Removed => {}
        }
    }
}

#[cfg(test)]
mod tests;
