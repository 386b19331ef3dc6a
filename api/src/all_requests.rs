//! The list of all requests, by noun, and the ports that agents and commands use.
//!
//! The router, the authorisation table, the OpenAPI document and the test that sends every request as every
//! principal are built from this list. Each noun declares its own requests, so the list changes only when a
//! noun is added.

use crate::actions::ActionRequests;
use crate::applications::ApplicationRequests;
use crate::archives::ArchiveRequests;
use crate::changes::{ChangeRequests, WaitForChange};
use crate::client::Client;
use crate::constraints::ConstraintRequests;
use crate::controller_info::AboutRequests;
use crate::development::DevelopmentRequests;
use crate::disk_usage::DiskUsageRequests;
use crate::dry_run::DryRunRequests;
use crate::log::LogRequests;
use crate::machine_agent::MachineAgentRequests;
use crate::machines::MachineRequests;
use crate::models::{GetModelConfig, ListModels, ModelRequests};
use crate::provisioning::ProvisioningRequests;
use crate::relations::RelationRequests;
use crate::request::{Entry, Handle, InModel, Request, Visitor, Watch, WatchRequest};
use crate::resources::ResourceRequests;
use crate::secrets::SecretRequests;
use crate::ssh_keys::SshKeyRequests;
use crate::status::StatusRequests;
use crate::storage::StorageRequests;
use crate::unit_agent::UnitAgentRequests;
use crate::units::UnitRequests;
use crate::why::WhyRequests;

macro_rules! nouns {
    ($($noun:ident)*) => {
        /// A port that answers all requests: an authenticated caller of the controller.
        pub trait EveryPort: $($noun +)* {}
        impl<P: $($noun +)*> EveryPort for P {}

        /// Calls `visitor` for every request, those of agents first.
        pub fn visit<P: EveryPort>(visitor: &mut impl Visitor<P>) {
            $(<P as $noun>::visit(visitor);)*
        }
    };
}

nouns! {
    UnitAgentRequests MachineAgentRequests AboutRequests DiskUsageRequests ChangeRequests ModelRequests ArchiveRequests
    ResourceRequests ApplicationRequests UnitRequests RelationRequests DryRunRequests StatusRequests LogRequests WhyRequests
    ActionRequests SecretRequests StorageRequests MachineRequests DevelopmentRequests ConstraintRequests
    SshKeyRequests ProvisioningRequests
}

/// All requests, those of agents first.
pub fn all() -> Vec<Entry> {
    struct Entries(Vec<Entry>);
    impl Visitor<Client> for Entries {
        fn request<R: Request>(&mut self, entry: Entry)
        where
            Client: Handle<R>,
        {
            self.0.push(entry);
        }
        fn watch<R: WatchRequest>(&mut self, entry: Entry)
        where
            Client: Watch<R>,
        {
            self.0.push(entry);
        }
    }
    let mut entries = Entries(Vec::new());
    visit::<Client>(&mut entries);
    entries.0
}

macro_rules! ports {
    ($($(#[$doc:meta])* $port:ident: $($bound:path),*;)*) => {$(
        $(#[$doc])*
        pub trait $port: $($bound +)* {}
        impl<P: $($bound +)*> $port for P {}
    )*};
}

ports! {
    /// The requests of a user, through the command-line client.
    UserPort: InModel, AboutRequests, DiskUsageRequests, ChangeRequests, ModelRequests, ArchiveRequests, ResourceRequests,
        ApplicationRequests, UnitRequests, RelationRequests, DryRunRequests, StatusRequests, LogRequests, WhyRequests,
        ActionRequests, SecretRequests, StorageRequests, MachineRequests, DevelopmentRequests, ConstraintRequests,
        SshKeyRequests;
    /// The requests of the provisioner.
    ProvisionerPort: InModel, ProvisioningRequests, Handle<ListModels>, Handle<GetModelConfig>, Handle<WaitForChange>;
}
