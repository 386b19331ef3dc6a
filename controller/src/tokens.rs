//! Tokens: 256 random bits, known to their holder only; the store has them by hash, so whoever reads the store can
//! be nobody (S12).

use crate::authority::unauthorised;
use crate::environment::Environment;
use api::error::{ApiError, ErrorCode};
use host::digest::sha256;
use state::documents::draft::{Draft, Reader, read};
use state::documents::keys::{GLOBAL, TokenHolder};
use state::terms::names::Uuid;

/// The form a token has: 64 digits of lower case hex.
pub fn is_token(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

pub fn random_token(environment: &impl Environment) -> String {
    format!("{:032x}{:032x}", environment.random(), environment.random())
}

/// Whose the token of this hash is. A lookup of its hash: its time says nothing about any other token. A machine that
/// was removed while it was away is let in nowhere, and told why: its agent is to tear down what it has.
pub fn holder(reader: &dyn Reader, hash: &str) -> Result<TokenHolder, ApiError> {
    let principal = read(reader, &GLOBAL.token(hash)).ok_or_else(unauthorised)?;
    if let TokenHolder::Machine { model, machine } = principal
        && read(reader, &model.machine(machine)).is_none()
    {
        let tombstones = [model.tombstone(machine), GLOBAL.tombstone(model.0)];
        return Err(match tombstones.iter().any(|tombstone| read(reader, tombstone).is_some()) {
            true => ApiError::new(ErrorCode::Removed, "the machine was removed"),
            false => unauthorised(),
        });
    }
    Ok(principal)
}

/// Gives `entity` this token and takes the one it had. The same again changes nothing.
pub fn set(draft: &mut Draft, entity: Uuid, principal: &TokenHolder, token: &str) {
    let hash = sha256(token.as_bytes());
    let before = draft.get(&GLOBAL.token_of(entity));
    if before.as_ref() == Some(&hash) {
        return;
    }
    if let Some(before) = before {
        draft.remove(&GLOBAL.token(&before));
    }
    draft.put(&GLOBAL.token_of(entity), &hash);
    draft.put(&GLOBAL.token(&hash), principal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_64_digits_of_lower_case_hex() {
        assert!(is_token(&"0123456789abcdef".repeat(4)));
        assert!(!is_token(&"0123456789abcdeF".repeat(4)));
        assert!(!is_token("0123456789abcdef"));
    }
}
