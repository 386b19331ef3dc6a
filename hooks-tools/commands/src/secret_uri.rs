//! The URI of a secret in the arguments of a tool, and Juju's messages about it (spec/hook-tools.md 2.6).
//!
//! All forms of [`SecretUri`] are accepted: `secret:ID`, `ID`, `secret://MODEL/ID` and `secret:MODEL/ID`.

use crate::quote::quote;
use crate::tool::{Invocation, ToolError, failed, usage};
use state::terms::secret::{BadSecretUri, SecretId, SecretUri};

/// Parses a URI.
///
/// # Errors
/// The message of Juju: the URI or its scheme is not valid.
pub fn parse(text: &str) -> Result<SecretUri, String> {
    SecretUri::parse(text).map_err(|bad| match bad {
        BadSecretUri::Scheme(scheme) => format!("secret URI scheme {} not valid", quote(scheme)),
        BadSecretUri::Invalid => format!("secret URI {} not valid", quote(text)),
    })
}

/// The failure of a tool whose secret does not exist, or that the unit may not read or change.
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
