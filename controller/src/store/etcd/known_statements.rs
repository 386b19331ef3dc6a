//! The statements of controllers about agents that the mirror has, and their form in etcd. `statements` writes them.

use crate::store::shared_presence::{OtherController, Stated, StatementReceiver};
use serde::{Deserialize, Serialize};
use state::documents::draft::Revision;
use state::status::shared_presence::{Statement, Topic};
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

/// The value of a key.
#[derive(Serialize, Deserialize)]
pub(super) struct StatementValue {
    /// The handle of the controller that has written it.
    pub by: String,
    pub statement: Statement,
}

/// Reads the value of a key; none if this version cannot.
pub(super) fn stated_by(value: &[u8], handle: &str, topic: Topic, revision: Revision) -> Option<Stated> {
    let StatementValue { by, statement } = serde_json::from_slice(value).ok()?;
    (statement.topic() == topic).then(|| Stated { statement, is_own: by == handle, revision })
}

/// The statements that the mirror has.
pub(super) struct KnownStatements {
    /// The name of this handle.
    handle: String,
    stated: BTreeMap<(Uuid, Topic), Stated>,
    /// The address of each controller, by handle.
    controllers: BTreeMap<String, String>,
    receiver: Option<Weak<dyn StatementReceiver>>,
}

impl KnownStatements {
    pub fn new(handle: String) -> KnownStatements {
        let (stated, controllers) = (BTreeMap::new(), BTreeMap::new());
        KnownStatements { handle, stated, controllers, receiver: None }
    }

    /// A key was written, or deleted if there is no value. One that this version cannot read counts as deleted,
    /// although it is there: this version cannot replace it, and `attach` of its unit fails here while the other version serves.
    pub fn set(&mut self, agent: Uuid, topic: Topic, value: Option<&[u8]>, revision: Revision) {
        let stated = value.and_then(|value| stated_by(value, &self.handle, topic, revision));
        let before = match &stated {
            Some(stated) => self.stated.insert((agent, topic), stated.clone()),
            None => self.stated.remove(&(agent, topic)),
        };
        if before == stated {
            return; // of a list that has nothing new
        }
        if let Some(receiver) = self.receiver.as_ref().and_then(Weak::upgrade) {
            receiver.receive(agent, topic, stated.as_ref());
        }
    }

    /// A controller serves at this address; none if it has ended.
    pub fn set_controller(&mut self, handle: &str, address: Option<&[u8]>) {
        match address {
            Some(address) => {
                let address = String::from_utf8_lossy(address).into_owned();
                self.controllers.insert(handle.to_owned(), address);
            }
            None => drop(self.controllers.remove(handle)),
        }
    }

    /// Removes what a list of all keys does not contain.
    pub fn retain(&mut self, listed: &BTreeSet<(Uuid, Topic)>, controllers: &BTreeSet<String>) {
        let ended: Vec<_> = self.stated.keys().filter(|key| !listed.contains(key)).copied().collect();
        for (agent, topic) in ended {
            self.set(agent, topic, None, 0);
        }
        self.controllers.retain(|handle, _| controllers.contains(handle));
    }

    /// Returns the statement about a topic.
    pub fn stated(&self, agent: Uuid, topic: Topic) -> Option<Stated> {
        self.stated.get(&(agent, topic)).cloned()
    }

    /// Whether there is a statement about an agent.
    pub fn has_any(&self, agent: Uuid) -> bool {
        self.stated.range((agent, Topic::Agent)..=(agent, Topic::Removed)).next().is_some()
    }

    /// Whether this controller is known to serve.
    pub fn is_known(&self) -> bool {
        self.controllers.contains_key(&self.handle)
    }

    /// Returns the other controllers that serve.
    pub fn others(&self) -> Vec<OtherController> {
        let others = self.controllers.iter().filter(|(handle, _)| **handle != self.handle);
        others.map(|(_, address)| OtherController { address: address.clone() }).collect()
    }

    /// Calls the receiver with all statements, and then with each change.
    pub fn follow(&mut self, receiver: Weak<dyn StatementReceiver>) {
        if let Some(receiver) = receiver.upgrade() {
            self.stated
                .iter()
                .for_each(|((agent, topic), stated)| receiver.receive(*agent, *topic, Some(stated)));
        }
        self.receiver = Some(receiver);
    }
}
