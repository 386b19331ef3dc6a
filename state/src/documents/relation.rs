//! Documents of relations: the relation, its scopes and its settings bags, and the order of container relations.

use crate::charm::{Role, Scope};
use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model, Parts};
use crate::terms::cause::RelationName;
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::settings::Bag;
use serde::{Deserialize, Serialize};

/// One side of a relation. A peer relation has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationEndDoc {
    pub application: Uuid,
    pub application_name: String,
    pub endpoint: String,
    pub role: Role,
    pub interface: String,
    /// The provider side of `juju-info`: scope is entered, no hook runs.
    pub implicit: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationDoc {
    pub number: RelationNumber,
    pub sides: Vec<RelationEndDoc>,
    pub scope: Scope,
    /// Units of one end come with units of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subordinate_link: Option<SubordinateLink>,
    pub created_ms: i64,
}

/// A relation of container scope between a subordinate application and one that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubordinateLink {
    pub subordinate: Uuid,
    pub principal: Uuid,
    /// The number of the first of an unbroken line of Alive relations between the two. Once the line has ended its
    /// subordinates are Dying for good, whatever is added after it (I17).
    pub line: RelationNumber,
}

/// The line that a key of [`Model::container`] stands for.
pub(crate) fn line_of(key: &str) -> Option<RelationNumber> {
    let mut parts = Parts::of(key).filter(|parts| parts.kind == Kind::Container)?.rest.split('/');
    parts.nth(2)?.parse().ok()
}

/// A relation that was suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedDoc {
    /// Why, as the person said it.
    pub message: String,
    pub since_ms: i64,
}

impl RelationDoc {
    pub fn is_peer(&self) -> bool {
        self.sides.len() == 1
    }
    pub fn end_of(&self, application: Uuid) -> Option<&RelationEndDoc> {
        self.sides.iter().find(|side| side.application == application)
    }
    /// The side whose units `application`'s units observe; of a peer relation, its own.
    pub fn other_end(&self, application: Uuid) -> &RelationEndDoc {
        let other = self.sides.iter().find(|side| side.application != application);
        other.unwrap_or(&self.sides[0])
    }
    /// `mysql:server web:db`, ends in text order; `web:ring` for a peer. What makes two relations the same one.
    pub fn key_text(&self) -> String {
        key_text(self.sides.iter().map(|side| (&*side.application_name, &*side.endpoint)))
    }

    /// Its number and its ends.
    pub fn name(&self) -> RelationName {
        RelationName { number: self.number, ends: self.key_text() }
    }
}

/// Of applications and their endpoints, see [`RelationDoc::key_text`].
pub(crate) fn key_text<'a>(ends: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let ends = ends.into_iter().map(|(application, endpoint)| format!("{application}:{endpoint}"));
    let mut ends: Vec<String> = ends.collect();
    ends.sort();
    ends.join(" ")
}

/// A unit in scope. The incarnation is new at every entry: a unit that left and came back is another member
/// (spec A.11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScopeDoc {
    pub unit: UnitName,
    pub application: Uuid,
    pub incarnation: u64,
}

/// A settings bag. `counter` grows with each effective write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BagDoc {
    /// Unit or application name, for readers.
    pub owner: String,
    /// Of a unit in a container relation: in whose container it is (or was) in scope; nil of all others.
    #[serde(default, skip_serializing_if = "is_nil")]
    pub container: Uuid,
    pub counter: u64,
    pub values: Bag,
}

fn is_nil(id: &Uuid) -> bool {
    *id == Uuid(0)
}

impl Model {
    pub fn relation(&self, id: Uuid) -> Key<RelationDoc> {
        self.key(Kind::Relation, &[id])
    }
    pub fn relation_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::RelationLife, &[id])
    }
    /// There while the relation is suspended.
    pub fn relation_suspended(&self, id: Uuid) -> Key<SuspendedDoc> {
        self.key(Kind::RelationSuspended, &[id])
    }
    /// [`RelationDoc::key_text`] -> the relation.
    pub fn relation_key(&self, ends: &str) -> Key<Uuid> {
        self.named(Kind::RelationKey, ends)
    }
    /// The relations between a subordinate application and its principals' that are Alive themselves, by their line.
    pub fn container(&self, subordinate_link: &SubordinateLink, relation: Uuid) -> Key<()> {
        let SubordinateLink { subordinate, principal, line } = subordinate_link;
        self.other(Kind::Container, format_args!("{subordinate}/{principal}/{line}/{relation}"))
    }
    pub fn containers(&self, subordinate: Uuid, principal: Uuid) -> String {
        self.below(Kind::Container, &[subordinate, principal])
    }
    pub fn relations_of_link(&self, subordinate_link: &SubordinateLink) -> String {
        let SubordinateLink { subordinate, principal, line } = subordinate_link;
        self.below(Kind::Container, &[*subordinate, *principal]) + &format!("{line}/")
    }
    /// `container` is the principal's uuid in a container relation, nil in a global one.
    pub fn scope(&self, relation: Uuid, container: Uuid, unit: Uuid) -> Key<ScopeDoc> {
        self.key(Kind::Scope, &[relation, container, unit])
    }
    pub fn scopes(&self, relation: Uuid) -> String {
        self.below(Kind::Scope, &[relation])
    }
    /// Of a container relation: who is in one principal's container.
    pub fn scopes_in(&self, relation: Uuid, container: Uuid) -> String {
        self.below(Kind::Scope, &[relation, container])
    }
    /// Which scopes a unit is in: found without reading every relation.
    pub fn scope_of(&self, unit: Uuid, relation: Uuid) -> Key<()> {
        self.key(Kind::ScopeOf, &[unit, relation])
    }
    pub fn scopes_of(&self, unit: Uuid) -> String {
        self.below(Kind::ScopeOf, &[unit])
    }
    /// `owner` is a unit's or an application's uuid.
    pub fn bag(&self, relation: Uuid, owner: Uuid) -> Key<BagDoc> {
        self.key(Kind::Bag, &[relation, owner])
    }
    pub fn bags(&self, relation: Uuid) -> String {
        self.below(Kind::Bag, &[relation])
    }
}
