//! Documents of applications: the application, its charm, its settings, its leader, and the indexes of its
//! units and relations.
//!
//! Life, charm and settings are separate documents, so that changing one conflicts with no change of another
//! (design 5).

use crate::charm::{Base, Charm};
use crate::documents::document_reads::Documents;
use crate::documents::draft::{Key, Reader, read};
use crate::documents::key::{GLOBAL, KeyParts, Kind, Model};
use crate::terms::constraints::Constraints;
use crate::terms::leader_settings::LeaderSettingsView;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::settings::Bag;
use crate::terms::unit_documents::CharmDoc;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An application. Nothing in it changes after the application was deployed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationDoc {
    /// The name of the application.
    pub name: String,
    /// Whether its charm is a subordinate charm.
    pub subordinate: bool,
    /// When it was deployed.
    pub created_ms: i64,
    /// The operating system that the user requested for the machines of its units; none for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_base: Option<Base>,
}

/// An uploaded charm archive, or an uploaded file for a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchiveDoc {
    /// What the charm declares; none if the file was uploaded as a resource only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charm: Option<Arc<Charm>>,
    /// The size of the file.
    pub bytes: u64,
}

/// The use of a charm archive by an application or a unit, or of a resource by an application; its key contains all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveUse {
    /// The digest of the archive.
    pub sha256: String,
    /// The model of the application or the unit.
    pub model: Model,
    /// The application to which the archive is assigned, or the unit that runs it.
    pub owner: Uuid,
}

impl ArchiveUse {
    /// Parses the key of a use; none if it is not such a key.
    pub fn of_key(key: &str) -> Option<ArchiveUse> {
        let parts = KeyParts::of(key).filter(|parts| parts.kind == Kind::ArchiveUse)?;
        let (rest, owner) = parts.rest.rsplit_once('/')?;
        let (sha256, model) = rest.rsplit_once('/')?;
        Some(ArchiveUse {
            sha256: sha256.to_owned(),
            model: Model(model.parse().ok()?),
            owner: owner.parse().ok()?,
        })
    }
}

/// The leader of an application. A new holder starts a new generation. The document contains no times (design 13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderDoc {
    /// The unit that leads.
    pub holder: Uuid,
    /// The name of that unit.
    pub holder_name: UnitName,
    /// Incremented when the leadership moves to another unit.
    pub generation: u64,
}

/// The settings that leaders of an application have stored (leader-set).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderSettingsDoc {
    /// Incremented with every change of the values.
    pub version: u64,
    /// Which write changed them last. A write that arrives late never replaces that of a higher number.
    pub number: LeaderWriteNumber,
    /// The values.
    pub values: Bag,
}

/// Orders the writes of leader settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderWriteNumber {
    /// The generation of the leadership. Run numbers of different leaders are not comparable.
    pub generation: u64,
    /// The epoch of the session. Run numbers can repeat in a later one: after the folder of a unit was lost or copied,
    /// the next agent continues from the last record.
    pub epoch: u64,
    /// The number of the run.
    pub run: u64,
    /// The tool call in that run.
    pub call: u32,
}

impl LeaderSettingsDoc {
    /// The settings as units see them.
    pub fn view(self) -> LeaderSettingsView {
        LeaderSettingsView { version: self.version, values: self.values }
    }
}

/// The settings that leaders of an application have stored, as its units see them.
pub fn leader_settings_of(reader: &dyn Reader, model: Model, application: Uuid) -> LeaderSettingsView {
    read(reader, &model.leader_settings(application)).map(LeaderSettingsDoc::view).unwrap_or_default()
}

/// The charm of an application, with what it declares.
pub fn charm_of(documents: &mut impl Documents, model: Model, id: Uuid) -> Option<(CharmDoc, Arc<Charm>)> {
    let charm = documents.document(&model.application_charm(id))?;
    let archive = documents.document(&GLOBAL.archive(&charm.sha256))?;
    Some((charm, archive.charm?))
}

impl Model {
    /// An uploaded charm archive, by its digest. Under [`GLOBAL`].
    pub fn archive(&self, sha256: &str) -> Key<ArchiveDoc> {
        self.key_by_name(Kind::Archive, sha256)
    }
    /// The use of a charm archive. Under [`GLOBAL`].
    pub fn archive_use(&self, archive_use: &ArchiveUse) -> Key<()> {
        let ArchiveUse { sha256, model, owner } = archive_use;
        self.key_with_rest(Kind::ArchiveUse, format_args!("{sha256}/{}/{owner}", model.0))
    }
    /// The prefix of [`Self::archive_use`] for one archive.
    pub fn archive_uses(&self, sha256: &str) -> String {
        self.prefix(Kind::ArchiveUse) + sha256 + "/"
    }
    /// The application.
    pub fn application(&self, id: Uuid) -> Key<ApplicationDoc> {
        self.key(Kind::Application, &[id])
    }
    /// The application's own life: Alive or Dying.
    pub fn application_life(&self, id: Uuid) -> Key<Life> {
        self.key(Kind::ApplicationLife, &[id])
    }
    /// The charm of the application.
    pub fn application_charm(&self, id: Uuid) -> Key<CharmDoc> {
        self.key(Kind::ApplicationCharm, &[id])
    }
    /// The settings that the user set. The defaults belong to the charm.
    pub fn application_config(&self, id: Uuid) -> Key<BTreeMap<String, Value>> {
        self.key(Kind::ApplicationConfig, &[id])
    }

    /// The constraints of an application, or of the model by its own uuid; absent while there are none.
    pub fn constraints(&self, id: Uuid) -> Key<Constraints> {
        self.key(Kind::Constraints, &[id])
    }
    /// Whether an application is exposed; absent while it is not.
    pub fn application_exposed(&self, id: Uuid) -> Key<bool> {
        self.key(Kind::ApplicationExposed, &[id])
    }
    /// Whether an application is trusted; absent while it is not.
    pub fn application_trust(&self, id: Uuid) -> Key<bool> {
        self.key(Kind::ApplicationTrust, &[id])
    }
    /// Index of the fake applications: their units have no agents, and a user sets what they publish.
    pub fn fake_application(&self, id: Uuid) -> Key<()> {
        self.key(Kind::FakeApplication, &[id])
    }
    /// The prefix of [`Self::fake_application`].
    pub fn fake_applications(&self) -> String {
        self.prefix(Kind::FakeApplication)
    }
    /// The application of this name.
    pub fn application_name(&self, name: &str) -> Key<Uuid> {
        self.key_by_name(Kind::ApplicationName, name)
    }
    /// The leader of the application; absent until a unit has been elected.
    pub fn leader(&self, application: Uuid) -> Key<LeaderDoc> {
        self.key(Kind::Leader, &[application])
    }
    /// The settings that leaders of the application have stored; absent until one has.
    pub fn leader_settings(&self, application: Uuid) -> Key<LeaderSettingsDoc> {
        self.key(Kind::LeaderSettings, &[application])
    }
    /// Index of the units of an application.
    pub fn unit_of(&self, application: Uuid, unit: Uuid) -> Key<()> {
        self.key(Kind::UnitOf, &[application, unit])
    }
    /// The prefix of [`Self::unit_of`] for one application.
    pub fn units_of(&self, application: Uuid) -> String {
        self.prefix_below(Kind::UnitOf, &[application])
    }
    /// For a destroyed application with more relations than one transaction can remove: the last relation that
    /// was processed (design 5, "sideways").
    pub fn application_relation_removal(&self, application: Uuid) -> Key<String> {
        self.key(Kind::ApplicationRelationRemoval, &[application])
    }
    /// Index of the relations of an application.
    pub fn relation_of(&self, application: Uuid, relation: Uuid) -> Key<()> {
        self.key(Kind::RelationOf, &[application, relation])
    }
    /// The prefix of [`Self::relation_of`] for one application.
    pub fn relations_of(&self, application: Uuid) -> String {
        self.prefix_below(Kind::RelationOf, &[application])
    }
}

/// Whether a unit may read an archive (I31): one that is assigned to its application or was recently, since a refresh
/// may overtake the unit, and the one that it runs, if that was assigned when the unit deployed it. Nothing that an
/// agent has sent grants access.
pub fn may_read_archive(reader: &dyn Reader, model: Model, unit: Uuid, sha256: &str) -> bool {
    let application = read(reader, &model.unit(unit)).map(|unit| unit.application);
    let charm = application.and_then(|application| read(reader, &model.application_charm(application)));
    if charm.is_some_and(|charm| charm.assigns(sha256)) {
        return true;
    }
    let runs = read(reader, &model.replica(unit)).and_then(|replica| replica.assigned_archive);
    runs.is_some_and(|runs| runs == sha256)
}

/// Whether a unit may read a file (I31): one that is attached to this resource of its application, or was recently, since
/// a user may replace it while a hook of the unit runs.
pub fn may_read_resource(
    reader: &dyn Reader,
    model: Model,
    unit: Uuid,
    resource: &str,
    sha256: &str,
) -> bool {
    let application = read(reader, &model.unit(unit)).map(|unit| unit.application);
    let charm = application.and_then(|application| read(reader, &model.application_charm(application)));
    charm.is_some_and(|charm| charm.resources.assigns(resource, sha256))
}
