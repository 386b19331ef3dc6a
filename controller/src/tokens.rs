//! Bearer tokens: 256 random bits, stored as a hash only, so that a reader of the store cannot impersonate anyone
//! (S12).
//!
//! The document `token` maps a hash to its principal; `token-of` maps an entity to the hash of its current token.

use crate::authorisation::{machine_removed, unauthorised};
use crate::environment::Environment;
use api::error::{ApiError, ErrorCode};
use host::digest::{is_sha256, sha256};
use state::documents::draft::{Reader, Revision, read};
use state::documents::prelude::{GLOBAL, TokenHolder};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The holders of the valid tokens that were looked up since the last commit, by hash. Idle agents send requests also
/// while nothing is committed; any commit may have revoked a token.
#[derive(Default)]
pub struct KnownTokens(Mutex<(Revision, BTreeMap<String, TokenHolder>)>);

impl KnownTokens {
    /// Returns the holder of a token, if it was looked up since `newest` was committed.
    pub fn holder(&self, hash: &str, newest: Revision) -> Option<TokenHolder> {
        let known = self.0.lock().expect("no holder panics");
        known.1.get(hash).filter(|_| known.0 == newest).cloned()
    }

    /// Records a holder that was looked up at `newest` or later.
    pub fn insert(&self, hash: String, holder: TokenHolder, newest: Revision) {
        let mut known = self.0.lock().expect("no holder panics");
        if known.0 != newest {
            *known = (newest, BTreeMap::new());
        }
        known.1.insert(hash, holder);
    }
}

/// Whether a text has the form of a token: 64 lower-case hexadecimal digits, as a digest has.
pub fn is_token(text: &str) -> bool {
    is_sha256(text)
}

/// Returns the digest under which a new token is stored.
///
/// # Errors
/// `Invalid` if it is no token.
pub fn digest_of(token: &str) -> Result<String, ApiError> {
    match is_token(token) {
        true => Ok(sha256(token.as_bytes())),
        false => {
            let text = "invalid token: expected 64 lower-case hexadecimal digits";
            Err(ApiError::new(ErrorCode::Invalid, text))
        }
    }
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
    use state::terms::names::Uuid;

    #[test]
    fn a_token_is_looked_up_again_after_each_commit() {
        let (known, holder) = (KnownTokens::default(), TokenHolder::Unit { model: GLOBAL, unit: Uuid(1) });
        known.insert("a".to_owned(), holder.clone(), 5);
        assert_eq!(known.holder("a", 5), Some(holder.clone()));
        assert_eq!((known.holder("b", 5), known.holder("a", 6)), (None, None));
        known.insert("b".to_owned(), holder.clone(), 6);
        assert_eq!((known.holder("b", 6), known.holder("a", 6)), (Some(holder), None));
    }

    #[test]
    fn a_token_is_64_lower_case_hexadecimal_digits() {
        assert!(is_token(&"0123456789abcdef".repeat(4)));
        assert!(!is_token(&"0123456789abcdeF".repeat(4)));
        assert!(!is_token("0123456789abcdef"));
    }
}
