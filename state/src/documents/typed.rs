//! The type of each kind of document, to verify documents that nothing else reads.
//!
//! Called by `pintle-controller check`. One match covers all kinds, so that a new kind cannot be forgotten.

use crate::documents::draft::StoredDocument;
use crate::documents::json_text::Document;
use crate::documents::prelude::*;
use crate::terms::constraints::Constraints;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::port_range::Ports;
use crate::terms::ssh_key::SshKey;
use crate::terms::status::ActionStatus;
use crate::terms::status::AgentStatus;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a document is not of the type that its key names; none if it is.
pub fn type_error(stored: &StoredDocument) -> Option<String> {
    let Some(parts) = KeyParts::of(&stored.key) else {
        return Some("its key is of no known kind".to_owned());
    };
    let parsed = match parts.kind {
        Kind::Model => parses::<ModelDoc>(stored),
        Kind::SshKeys => parses::<Vec<SshKey>>(stored),
        Kind::ModelConfig | Kind::ApplicationConfig => parses::<BTreeMap<String, Value>>(stored),
        Kind::ModelLife | Kind::MachineLife | Kind::ApplicationLife | Kind::UnitLife | Kind::RelationLife => {
            parses::<Life>(stored)
        }
        Kind::ModelDestruction => parses::<DestructionDoc>(stored),
        Kind::ModelName | Kind::MachineName | Kind::ApplicationName | Kind::UnitName | Kind::RelationKey => {
            parses::<Uuid>(stored)
        }
        Kind::Token => parses::<TokenHolder>(stored),
        Kind::TokenOf | Kind::RetiredToken | Kind::ApplicationRelationRemoval | Kind::WorkloadVersion => {
            parses::<String>(stored)
        }
        Kind::ApplicationExposed | Kind::ApplicationTrust => parses::<bool>(stored),
        Kind::Archive => parses::<ArchiveDoc>(stored),
        Kind::Sequence => parses::<u64>(stored),
        Kind::Tombstone => parses::<TombstoneDoc>(stored),
        Kind::Machine => parses::<MachineDoc>(stored),
        Kind::MachineInstance => parses::<InstanceDoc>(stored),
        Kind::ProvisioningError => parses::<ProvisioningErrorDoc>(stored),
        Kind::PortsOn => parses::<OpenPortsDoc>(stored),
        Kind::Application => parses::<ApplicationDoc>(stored),
        Kind::ApplicationCharm => parses::<CharmDoc>(stored),
        Kind::ApplicationStatus | Kind::UnitStatus => parses::<StatusDoc>(stored),
        Kind::AgentStatus => parses::<StatusDoc<AgentStatus>>(stored),
        Kind::Constraints => parses::<Constraints>(stored),
        Kind::StatusLog => parses::<StatusLogDoc>(stored),
        Kind::Leader => parses::<LeaderDoc>(stored),
        Kind::LeaderSettings => parses::<LeaderSettingsDoc>(stored),
        Kind::Unit => parses::<UnitDoc>(stored),
        Kind::Session => parses::<SessionDoc>(stored),
        Kind::Replica => parses::<ReplicaDoc>(stored),
        Kind::Resolved => parses::<ResolvedDoc>(stored),
        Kind::Ports => parses::<Ports>(stored),
        Kind::Relation => parses::<RelationDoc>(stored),
        Kind::RelationSuspended => parses::<SuspendedDoc>(stored),
        Kind::Scope => parses::<ScopeDoc>(stored),
        Kind::Bag => parses::<BagDoc>(stored),
        Kind::Cleanup => parses::<Vec<String>>(stored),
        Kind::ForcedRemoval => parses::<ForcedRemovalDoc>(stored),
        Kind::ActionOf => parses::<ActionStatus>(stored),
        Kind::Log => parses::<LogDoc>(stored),
        Kind::Action => parses::<ActionDoc>(stored),
        Kind::Secret => parses::<SecretDoc>(stored),
        Kind::SecretContent => parses::<SecretContentDoc>(stored),
        Kind::SecretsOf => parses::<OwnedSecretsDoc>(stored),
        Kind::SecretsConsumed => parses::<ConsumedSecretsDoc>(stored),
        Kind::Storage => parses::<StorageDoc>(stored),
        Kind::StorageOf => parses::<UnitStorageDoc>(stored),
        Kind::StorageOn => parses::<MachineStorageDoc>(stored),
        Kind::ApplicationStorage => parses::<ApplicationStorageDoc>(stored),
        Kind::UnitOn
        | Kind::FakeApplication
        | Kind::ArchiveUse
        | Kind::Recall
        | Kind::UnitOf
        | Kind::Subordinate
        | Kind::RelationOf
        | Kind::SubordinateLink
        | Kind::ScopeOf
        | Kind::SecretTracker
        | Kind::SecretTimer => parses::<()>(stored),
    };
    parsed.err().map(|error| error.to_string())
}

fn parses<T: Document>(stored: &StoredDocument) -> serde_json::Result<()> {
    stored.value.parse::<T>().map(drop)
}
