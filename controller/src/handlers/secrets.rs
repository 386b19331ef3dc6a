//! Handlers of the requests of unit agents about secrets.
//!
//! A content in the clear exists only in the requests and responses of the handlers here and in `user_secrets`: documents,
//! log lines and errors never contain it.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::secret_keys::SealedFor;
use crate::store::Store;
use api::error::ApiError;
use api::{Handle, OpenSecret, ReadSecret, SealSecret, SealedSecret};
use state::agents::{secret_read, session};
use state::documents::draft::{self, Draft, Reader};
use state::documents::prelude::Model;
use state::lifecycle::secret_content;
use state::terms::secret::{SecretContent, SecretId};

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Refuses a superseded agent.
    async fn require_newest_agent(&self, epoch: u64) -> Result<(), ApiError> {
        let session = self.agent_session(epoch)?;
        let check = move |draft: &mut Draft<'_>| session::check_epoch(draft, session).map(drop);
        // a read decides, because it does not wait for writes; the transition is run only for its error
        match self.controller.read(move |reader| draft::without_writes(reader, check)).await {
            Some(()) => Ok(()),
            None => self.controller.run(check).await.map(|_| ()),
        }
    }
}

impl<S: Store, E: Environment> Handle<SealSecret> for Authorised<S, E> {
    async fn handle(&self, request: SealSecret) -> Result<SealedSecret, ApiError> {
        let (Model(model), unit) = self.authenticate_unit()?;
        self.require_newest_agent(request.epoch).await?;
        let bits = self.controller.environment.random();
        let secret = request.secret.unwrap_or_else(|| SecretId::from_bits(bits));
        let sealed = self.seal(SealedFor { model, secret, writer: unit }, &request.content).await?;
        let (bytes, owner) = (sealed.len(), request.owner);
        let room = move |reader: &dyn Reader| {
            secret_content::require_room(&mut { reader }, Model(model), unit, owner, bytes)
        };
        self.refuse(self.controller.read(room).await).await?;
        Ok(SealedSecret { secret, sealed })
    }
}

impl<S: Store, E: Environment> Handle<OpenSecret> for Authorised<S, E> {
    async fn handle(&self, request: OpenSecret) -> Result<SecretContent, ApiError> {
        let (Model(model), unit) = self.authenticate_unit()?;
        self.require_newest_agent(request.epoch).await?;
        self.unseal(SealedFor { model, secret: request.secret, writer: unit }, &request.sealed).await
    }
}

impl<S: Store, E: Environment> Handle<ReadSecret> for Authorised<S, E> {
    async fn handle(&self, request: ReadSecret) -> Result<SecretContent, ApiError> {
        let session = self.agent_session(request.epoch)?;
        let transition = move |draft: &mut Draft<'_>| secret_read::consume(draft, session, &request.read);
        let read = self.controller.run(transition).await?.answer;
        let sealed_for =
            SealedFor { model: session.model.0, secret: read.id, writer: read.content.sealed_for };
        self.unseal(sealed_for, &read.content.sealed).await
    }
}
