//! Documents of relations: the relation, its scopes, its settings bags, and the index of subordinate links.

use crate::charm::{Role, Scope};
use crate::documents::draft::Key;
use crate::documents::key::{KeyParts, Kind, Model};
use crate::terms::cause::RelationName;
use crate::terms::life::Life;
use crate::terms::names::{EndpointName, RelationEnds, RelationNumber, UnitName, Uuid};
use crate::terms::owner::Owner;
use crate::terms::settings::Bag;
use serde::{Deserialize, Serialize};

/// One end of a relation. A peer relation has one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationEndDoc {
    /// The application.
    pub application: Uuid,
    /// The name of the application.
    pub application_name: String,
    /// The name of the endpoint in its charm.
    pub endpoint: String,
    /// The role of the endpoint.
    pub role: Role,
    /// The interface of the endpoint.
    pub interface: String,
    /// Whether it is the provider end of `juju-info`: its units enter the scope but run no hooks.
    pub implicit: bool,
}

/// A relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationDoc {
    /// The number that charms use, unique in the model.
    pub number: RelationNumber,
    /// Its two ends, or the one end of a peer relation.
    pub ends: Vec<RelationEndDoc>,
    /// Global, or container if one of the endpoints has container scope.
    pub scope: Scope,
    /// Present if units of one end are subordinates of units of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subordinate_link: Option<SubordinateLink>,
    /// When the relation was added.
    pub created_ms: i64,
}

/// The link that a relation of container scope makes between a subordinate application and a principal
/// application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubordinateLink {
    /// The subordinate application.
    pub subordinate: Uuid,
    /// The principal application.
    pub principal: Uuid,
    /// The number of the first relation of an unbroken sequence of Alive relations between the two
    /// applications. Once the last relation of the sequence is removed, its subordinates remain Dying, even if
    /// another relation is added later (I17).
    pub first_relation: RelationNumber,
}

/// [`SubordinateLink::first_relation`], from a key of [`Model::relation_of_link`].
pub(crate) fn first_relation_of(key: &str) -> Option<RelationNumber> {
    let mut parts = KeyParts::of(key).filter(|parts| parts.kind == Kind::SubordinateLink)?.rest.split('/');
    parts.nth(2)?.parse().ok()
}

/// The suspension of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedDoc {
    /// The reason that the person gave; may be empty.
    pub message: String,
    /// When the relation was suspended.
    pub since_ms: i64,
}

impl RelationDoc {
    /// Whether it is a peer relation.
    pub fn is_peer(&self) -> bool {
        self.ends.len() == 1
    }
    /// The end of `application`, if the relation has one.
    pub fn end_of(&self, application: Uuid) -> Option<&RelationEndDoc> {
        self.ends.iter().find(|end| end.application == application)
    }
    /// The end whose units the units of `application` observe. For a peer relation, its only end.
    pub fn other_end(&self, application: Uuid) -> &RelationEndDoc {
        let other = self.ends.iter().find(|end| end.application != application);
        other.unwrap_or(&self.ends[0])
    }
    /// The names of the ends.
    pub fn end_names(&self) -> RelationEnds {
        self.ends.iter().map(RelationEndDoc::name).collect()
    }

    /// The number and the ends of the relation.
    pub fn name(&self) -> RelationName {
        RelationName { number: self.number, ends: self.end_names() }
    }
}

impl RelationEndDoc {
    /// `web:db`.
    pub fn name(&self) -> EndpointName {
        EndpointName { application: self.application_name.clone(), endpoint: self.endpoint.clone() }
    }
}

/// A unit in the scope of a relation. Each entry gets a new incarnation: a unit that left and returned is a
/// different member (spec A.11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScopeDoc {
    /// The name of the unit.
    pub unit: UnitName,
    /// The unit's application.
    pub application: Uuid,
    /// The incarnation of the membership.
    pub incarnation: u64,
}

/// A settings bag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BagDoc {
    /// The unit or application that owns the bag.
    pub owner: Owner,
    /// For a unit in a container relation: the principal in whose container it is or was in scope. Nil for all
    /// other bags.
    #[serde(default, skip_serializing_if = "is_nil")]
    pub container: Uuid,
    /// Incremented by each effective write.
    pub counter: u64,
    /// The content.
    pub values: Bag,
}

impl BagDoc {
    /// A bag without settings, before the first write.
    pub fn new(owner: Owner) -> BagDoc {
        BagDoc { owner, container: Uuid(0), counter: 0, values: Bag::new() }
    }
}

fn is_nil(id: &Uuid) -> bool {
    *id == Uuid(0)
}

impl Model {
    /// The relation.
    pub fn relation(&self, id: Uuid) -> Key<RelationDoc> {
        self.key(Kind::Relation, &[id])
    }
    /// The relation's own life: Alive or Dying.
    pub fn relation_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::RelationLife, &[id])
    }
    /// The suspension of the relation; absent unless it is suspended.
    pub fn relation_suspended(&self, id: Uuid) -> Key<SuspendedDoc> {
        self.key(Kind::RelationSuspended, &[id])
    }
    /// The relation with these ends.
    pub fn relation_key(&self, ends: &RelationEnds) -> Key<Uuid> {
        self.key_with_rest(Kind::RelationKey, format_args!("{ends}"))
    }
    /// Index of the relations of a subordinate link whose own life is Alive.
    pub fn relation_of_link(&self, subordinate_link: &SubordinateLink, relation: Uuid) -> Key<()> {
        let SubordinateLink { subordinate, principal, first_relation } = subordinate_link;
        self.key_with_rest(
            Kind::SubordinateLink,
            format_args!("{subordinate}/{principal}/{first_relation}/{relation}"),
        )
    }
    /// The prefix of [`Self::relation_of_link`] for two applications, over all sequences.
    pub fn subordinate_links(&self, subordinate: Uuid, principal: Uuid) -> String {
        self.prefix_below(Kind::SubordinateLink, &[subordinate, principal])
    }
    /// The prefix of [`Self::relation_of_link`] for one subordinate link.
    pub fn relations_of_link(&self, subordinate_link: &SubordinateLink) -> String {
        let SubordinateLink { subordinate, principal, first_relation } = subordinate_link;
        self.prefix_below(Kind::SubordinateLink, &[*subordinate, *principal]) + &format!("{first_relation}/")
    }
    /// A unit in the scope of a relation. `container` is the uuid of the principal in a container relation, nil
    /// in a global one.
    pub fn scope(&self, relation: Uuid, container: Uuid, unit: Uuid) -> Key<ScopeDoc> {
        self.key(Kind::Scope, &[relation, container, unit])
    }
    /// The prefix of [`Self::scope`] for one relation.
    pub fn scopes(&self, relation: Uuid) -> String {
        self.prefix_below(Kind::Scope, &[relation])
    }
    /// The prefix of [`Self::scope`] for the container of one principal in a container relation.
    pub fn scopes_in(&self, relation: Uuid, container: Uuid) -> String {
        self.prefix_below(Kind::Scope, &[relation, container])
    }
    /// Index of the scopes that a unit is in, so that they are found without reading every relation.
    pub fn scope_of(&self, unit: Uuid, relation: Uuid) -> Key<()> {
        self.key(Kind::ScopeOf, &[unit, relation])
    }
    /// The prefix of [`Self::scope_of`] for one unit.
    pub fn scopes_of(&self, unit: Uuid) -> String {
        self.prefix_below(Kind::ScopeOf, &[unit])
    }
    /// The settings bag of `owner`, the uuid of a unit or an application.
    pub fn bag(&self, relation: Uuid, owner: Uuid) -> Key<BagDoc> {
        self.key(Kind::Bag, &[relation, owner])
    }
    /// The prefix of [`Self::bag`] for one relation.
    pub fn bags(&self, relation: Uuid) -> String {
        self.prefix_below(Kind::Bag, &[relation])
    }
}
