//! Identities that several parts of the simulator use: the model, the admin user and the tokens of machines.

use state::documents::prelude::{TokenHolder, UserRole};
use state::terms::names::Uuid;

/// The model that every schedule creates.
pub const MODEL: Uuid = Uuid(0x1111_1111_1111_4111_8111_1111_1111_1111);

/// The user as which the provisioner and the operators of the simulator authenticate.
pub fn admin() -> TokenHolder {
    TokenHolder::User { name: "admin".to_owned(), role: UserRole::Admin }
}

/// The token with which a machine authenticates.
pub fn token(machine: Uuid) -> String {
    format!("{:032x}{:032x}", machine.0, machine.0)
}
