//! Parses the URI of a secret (spec/hook-tools.md 2.6).
//!
//! All forms of Juju are accepted: `secret:ID`, `ID`, `secret://MODEL/ID` and `secret:MODEL/ID`.

use crate::quote::quote;
use crate::tool::{Invocation, ToolError, failed, usage};
use state::terms::names::Uuid;
use state::terms::secret::SecretId;

/// A parsed URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretUri {
    /// The model, if the URI names it.
    pub model: Option<Uuid>,
    /// The secret.
    pub id: SecretId,
}

/// Parses a URI.
///
/// # Errors
/// A text for the charm: that the URI or its scheme is not valid.
pub fn parse(text: &str) -> Result<SecretUri, String> {
    let invalid = || format!("secret URI {} not valid", quote(text));
    let rest = match text.split_once(':') {
        Some(("secret", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some((scheme, _)) => return Err(format!("secret URI scheme {} not valid", quote(scheme))),
        None => text,
    };
    let (model, id) = match rest.split_once('/') {
        Some((model, id)) => (Some(model.parse::<Uuid>().map_err(|_| invalid())?), id),
        None => (None, rest),
    };
    Ok(SecretUri { model, id: id.parse().map_err(|_| invalid())? })
}

/// The failure that a secret does not exist, or is not the unit's to see or change.
pub fn not_found<T>(id: SecretId) -> Result<T, ToolError> {
    failed(format!("secret {} not found", quote(id.as_str())))
}

impl Invocation<'_> {
    /// The secret that the first positional argument names.
    ///
    /// # Errors
    /// A usage error if there is none or it is not valid, and a failure if it is in another model.
    pub fn secret(&self) -> Result<SecretId, ToolError> {
        let Some(text) = self.parsed.positionals.first() else { return usage("missing secret URI") };
        let uri = parse(text).map_err(ToolError::Usage)?;
        match uri.model {
            Some(model) if model != self.context.model.uuid => not_found(uri.id),
            Some(_) | None => Ok(uri.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_uri_name_the_same_secret() {
        let id = "9m4e2mr0ui3e8a215n4g";
        let model = "5f3a1c2e-7d64-4a0b-9c11-0e6b8f2d9a10";
        for text in [id.to_owned(), format!("secret:{id}"), format!("secret:{model}/{id}")] {
            assert_eq!(parse(&text).unwrap().id, id.parse().unwrap(), "{text}");
        }
        assert_eq!(parse(&format!("secret://{model}/{id}")).unwrap().model, Some(model.parse().unwrap()));
        assert_eq!(parse("secret:x"), Err(r#"secret URI "secret:x" not valid"#.to_owned()));
        assert_eq!(parse(&format!("http:{id}")), Err(r#"secret URI scheme "http" not valid"#.to_owned()));
        assert!(parse(&format!("secret:x/{id}")).is_err() && parse("").is_err());
    }
}
