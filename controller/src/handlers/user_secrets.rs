//! Handlers of the requests of users about secrets.
//!
//! A content is sealed before the transition, so that the store never contains it in the clear.

use crate::callers::Authorised;
use crate::environment::{Environment, random_uuid};
use crate::handlers::changed;
use crate::secret_keys::SealedFor;
use crate::store::Store;
use api::error::ApiError;
use api::{
    AddSecret, AddSecretResponse, GetSecret, GetSecretResponse, GrantSecret, Handle, ListSecrets,
    RemoveSecret, RevealSecret, RevokeSecret, SecretInfo, UpdateSecret, WriteResponse,
};
use state::documents::draft::{Draft, Reader};
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::lifecycle::secret_content;
use state::lifecycle::user_secret::{self, SEALED_FOR_USERS};
use state::status::secret;
use state::terms::secret::{SecretContent, SecretId};
use state::unit::secrets::SecretWrite;
use std::collections::BTreeMap;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// The model, and the secret that a user names.
    async fn find_secret(&self, text: &str) -> Result<(Model, SecretId), ApiError> {
        let text = text.to_owned();
        let find = move |reader: &dyn Reader, model| {
            Ok((model, user_secret::find(&mut { reader }, model, &text)?.0))
        };
        self.read(find).await
    }

    /// Checks and seals the content that a user sends.
    async fn seal_for_users(
        &self,
        model: Model,
        secret: SecretId,
        content: &SecretContent,
    ) -> Result<String, ApiError> {
        self.refuse(secret_content::require_valid(content)).await?;
        self.seal(SealedFor { model: model.0, secret, writer: SEALED_FOR_USERS }, content).await
    }

    /// Runs a transition on the secret that a user names.
    async fn change_secret<F>(&self, text: &str, transition: F) -> Result<WriteResponse, ApiError>
    where
        F: Fn(&mut Draft<'_>, Model, SecretId) -> Result<(), Refusal> + Send + Sync + 'static,
    {
        let (model, id) = self.find_secret(text).await?;
        let committed =
            self.controller.run(move |draft: &mut Draft<'_>| transition(draft, model, id)).await?;
        Ok(changed(committed.revision))
    }
}

impl<S: Store, E: Environment> Handle<AddSecret> for Authorised<S, E> {
    async fn handle(&self, add: AddSecret) -> Result<AddSecretResponse, ApiError> {
        let (model, environment) = (self.model().await?, &self.controller.environment);
        let (secret, now_ms) = (SecretId::from_bits(environment.random()), environment.wall_ms());
        let sealed = self.seal_for_users(model, secret, &add.content).await?;
        let write = SecretWrite {
            label: Some(add.name),
            description: Some(add.description),
            sealed: Some(sealed),
            ..SecretWrite::default()
        };
        let transition = move |draft: &mut Draft<'_>| user_secret::add(draft, model, secret, &write, now_ms);
        let revision = self.controller.run(transition).await?.revision;
        Ok(AddSecretResponse { secret, revision })
    }
}

impl<S: Store, E: Environment> Handle<UpdateSecret> for Authorised<S, E> {
    async fn handle(&self, update: UpdateSecret) -> Result<WriteResponse, ApiError> {
        let (model, id) = self.find_secret(&update.secret).await?;
        let sealed = match &update.content {
            Some(content) => Some(self.seal_for_users(model, id, content).await?),
            None => None,
        };
        let (label, description, now_ms) =
            (update.name, update.description, self.controller.environment.wall_ms());
        let write = SecretWrite { label, description, sealed, ..SecretWrite::default() };
        let transition = move |draft: &mut Draft<'_>| {
            user_secret::update(draft, model, id, &write, update.auto_prune, now_ms)
        };
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<GrantSecret> for Authorised<S, E> {
    async fn handle(&self, grant: GrantSecret) -> Result<WriteResponse, ApiError> {
        let GrantSecret { secret, applications } = grant;
        let transition =
            move |draft: &mut Draft<'_>, model, id| user_secret::grant(draft, model, id, &applications);
        self.change_secret(&secret, transition).await
    }
}

impl<S: Store, E: Environment> Handle<RevokeSecret> for Authorised<S, E> {
    async fn handle(&self, revoke: RevokeSecret) -> Result<WriteResponse, ApiError> {
        let RevokeSecret { secret, applications } = revoke;
        let transition =
            move |draft: &mut Draft<'_>, model, id| user_secret::revoke(draft, model, id, &applications);
        self.change_secret(&secret, transition).await
    }
}

impl<S: Store, E: Environment> Handle<RemoveSecret> for Authorised<S, E> {
    async fn handle(&self, remove: RemoveSecret) -> Result<WriteResponse, ApiError> {
        let (revision, cleanup) = (remove.revision, random_uuid(&self.controller.environment));
        let transition =
            move |draft: &mut Draft<'_>, model, id| user_secret::remove(draft, model, id, revision, cleanup);
        self.change_secret(&remove.secret, transition).await
    }
}

impl<S: Store, E: Environment> Handle<ListSecrets> for Authorised<S, E> {
    async fn handle(&self, _: ListSecrets) -> Result<BTreeMap<SecretId, SecretInfo>, ApiError> {
        self.read(|reader, model| Ok(secret::secrets(reader, model))).await
    }
}

impl<S: Store, E: Environment> Handle<GetSecret> for Authorised<S, E> {
    async fn handle(&self, get: GetSecret) -> Result<GetSecretResponse, ApiError> {
        let found = self.read(move |reader, model| secret::find(reader, model, &get.secret));
        let (id, secret) = found.await?;
        Ok(GetSecretResponse { id, secret })
    }
}

impl<S: Store, E: Environment> Handle<RevealSecret> for Authorised<S, E> {
    async fn handle(&self, reveal: RevealSecret) -> Result<SecretContent, ApiError> {
        let found = self.read(move |reader, model| {
            let (id, content) =
                user_secret::find_content(&mut { reader }, model, &reveal.secret, reveal.revision)?;
            Ok((SealedFor { model: model.0, secret: id, writer: content.sealed_for }, content.sealed))
        });
        let (sealed_for, sealed) = found.await?;
        self.unseal(sealed_for, &sealed).await
    }
}
