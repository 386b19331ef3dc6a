//! Bearer tokens: 256 random bits, stored as a hash only, so that a reader of the store cannot impersonate anyone
//! (S12).
//!
//! The document `token` maps a hash to its principal; `token-of` maps an entity to the hash of its current token.

use crate::authorisation::{machine_removed, unauthorised};
use crate::environment::Environment;
use api::error::ApiError;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{GLOBAL, TokenHolder};

/// Whether a text has the form of a token: 64 lower-case hexadecimal digits.
pub fn is_token(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Returns a new random token.
pub fn random_token(environment: &impl Environment) -> String {
    format!("{:032x}{:032x}", environment.random(), environment.random())
}

/// Returns the principal of the token with this hash. Tokens are looked up by hash, so the response time reveals
/// nothing about other tokens. The agent of a removed machine whose token was not retired, for example in a restored
/// store, receives [`machine_removed`] instead of the usual error.
pub fn holder(reader: &dyn Reader, hash: &str) -> Result<TokenHolder, ApiError> {
    let principal = read(reader, &GLOBAL.token(hash)).ok_or_else(unauthorised)?;
    if let TokenHolder::Machine { model, machine } = principal
        && read(reader, &model.machine(machine)).is_none()
    {
        let tombstones = [model.tombstone(machine), GLOBAL.tombstone(model.0)];
        return Err(match tombstones.iter().any(|tombstone| read(reader, tombstone).is_some()) {
            true => machine_removed(),
            false => unauthorised(),
        });
    }
    Ok(principal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_64_lower_case_hexadecimal_digits() {
        assert!(is_token(&"0123456789abcdef".repeat(4)));
        assert!(!is_token(&"0123456789abcdeF".repeat(4)));
        assert!(!is_token("0123456789abcdef"));
    }
}
