//! The providers of machines.

use super::string_enum::string_enum;

string_enum! {
    /// What creates the instances of machines that are not manually provisioned.
    ProviderKind {
        /// A machine is a folder and processes on the host of `pintle up`.
        Local = "local",
        /// A machine is a systemd-nspawn container on the host of `pintle up`.
        Nspawn = "nspawn",
    }
}

impl Default for ProviderKind {
    /// The provider that has no requirements on its host.
    fn default() -> ProviderKind {
        ProviderKind::Local
    }
}
