//! Seals and opens the contents of secrets with the keys of the controller, for the handlers of users and of unit agents.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::secret_keys::{SealedFor, SecretKeys};
use crate::store::Store;
use api::error::{ApiError, ErrorCode};
use state::documents::prelude::Model;
use state::lifecycle::secret_content;
use state::terms::names::Uuid;
use state::terms::refusal::secret::SecretRefusal;
use state::terms::secret::{SecretContent, SecretId};
use state::unit::secrets::SecretWrites;

impl<S: Store, E: Environment> Authorised<S, E> {
    fn secret_keys(&self) -> Result<&SecretKeys, ApiError> {
        let keys = self.controller.environment.secret_keys();
        keys.filter(|keys| !keys.is_empty()).ok_or_else(|| {
            ApiError::new(ErrorCode::Unavailable, "cannot use secrets: the key file is missing")
                .hint("restore controller/secret-keys.yaml from a backup, then restart the controller")
        })
    }

    /// The result of a check, with its refusal as an error.
    pub(super) async fn refuse<T>(&self, checked: Result<T, SecretRefusal>) -> Result<T, ApiError> {
        match checked {
            Ok(checked) => Ok(checked),
            Err(reason) => Err(self.controller.refusal_error(reason.into()).await),
        }
    }

    /// Seals a content with valid keys within its limits.
    pub(super) async fn seal(
        &self,
        sealed_for: SealedFor,
        content: &SecretContent,
    ) -> Result<String, ApiError> {
        let keys = self.secret_keys()?;
        let salt = [self.controller.environment.random(), self.controller.environment.random()];
        self.refuse(secret_content::require_size(content)).await?;
        self.refuse(secret_content::require_keys(content)).await?;
        self.refuse(secret_content::require_sealed(keys.seal(sealed_for, content, salt))).await
    }

    /// Opens a content.
    pub(super) async fn unseal(
        &self,
        sealed_for: SealedFor,
        sealed: &str,
    ) -> Result<SecretContent, ApiError> {
        let content = self.secret_keys()?.unseal_with_file(sealed_for, sealed);
        self.refuse(secret_content::require_opened(sealed_for.secret, content)).await
    }

    /// A secret whose new content in a record of a unit cannot be opened, not even with keys that only the file has.
    pub(super) fn unopened(
        &self,
        Model(model): Model,
        unit: Uuid,
        writes: &SecretWrites,
    ) -> Option<SecretId> {
        let keys = self.controller.environment.secret_keys();
        let opens = |secret: SecretId, sealed: &str| {
            let sealed_for = SealedFor { model, secret, writer: unit };
            keys.is_some_and(|keys| keys.unseal_with_file(sealed_for, sealed).is_some())
        };
        let mut sealed = writes.iter().filter_map(|(id, write)| Some((*id, write.sealed.as_deref()?)));
        sealed.find(|(id, sealed)| !opens(*id, sealed)).map(|(id, _)| id)
    }
}
