//! What the provisioner of `pintle up` reports about its instances.

use serde::{Deserialize, Serialize};
use state::names::Uuid;

/// What a provider says of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provisioned {
    /// An instance is about to be made, under this nonce if none is recorded.
    Intended { provider: String, nonce: Uuid },
    /// It is there.
    Started { instance_id: String, address: String },
    /// It could not be made, kept, or taken away.
    Failed { message: String },
    /// There is none and none will be: the Dying machine is Dead.
    Absent,
}
