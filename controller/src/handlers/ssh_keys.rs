//! The handlers of the ssh keys of a model.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use api::{AddSshKeys, Handle, ListSshKeys, RemoveSshKeys, SshKeyInfo, WriteResponse, WriteWarning};
use state::documents::draft::{Draft, read};
use state::lifecycle::ssh_keys;
use state::terms::ssh_key::SshKey;

impl<S: Store, E: Environment> Handle<ListSshKeys> for Authorised<S, E> {
    async fn handle(&self, _: ListSshKeys) -> Result<Vec<SshKeyInfo>, ApiError> {
        let shown = |key: SshKey| SshKeyInfo {
            key: key.to_string(),
            fingerprint: key.fingerprint(),
            comment: key.comment().to_owned(),
        };
        let found = self.read(move |reader, model| Ok(read(reader, &model.ssh_keys()).unwrap_or_default()));
        Ok(found.await?.into_iter().map(shown).collect())
    }
}

impl<S: Store, E: Environment> Handle<AddSshKeys> for Authorised<S, E> {
    async fn handle(&self, add: AddSshKeys) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let transition = move |draft: &mut Draft<'_>| ssh_keys::add(draft, model, &add.keys);
        let added = self.controller.run(transition).await?;
        let duplicate = |key: SshKey| WriteWarning::DuplicateSshKey { fingerprint: key.fingerprint() };
        Ok(WriteResponse {
            revision: added.revision,
            warnings: added.answer.into_iter().map(duplicate).collect(),
        })
    }
}

impl<S: Store, E: Environment> Handle<RemoveSshKeys> for Authorised<S, E> {
    async fn handle(&self, remove: RemoveSshKeys) -> Result<WriteResponse, ApiError> {
        self.change(move |draft, model| ssh_keys::remove(draft, model, &remove.keys)).await
    }
}
