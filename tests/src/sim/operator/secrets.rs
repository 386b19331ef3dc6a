//! Requests about secrets of users: one secret of the model, which applications are told of by a setting.

use super::requests::SimOperator;
use crate::sim::fact::Fact;
use crate::sim::network::SimCaller;
use crate::sim::secret_script::TOKEN;
use api::{
    AddSecret, ConfigChange, Configure, GetSecret, GrantSecret, Handle, RemoveSecret, RevokeSecret,
    UpdateSecret,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use state::terms::secret::SecretContent;
use std::collections::BTreeMap;

/// The name of the secret.
const NAME: &str = "token";

impl SimOperator {
    /// Adds the secret, changes, grants, revokes or removes it, and sets the setting with its URI.
    pub(super) async fn change_secret(&self, application: &'static str) {
        let text = format!("user={}", self.world.below(1_000_000));
        self.world.note(Fact::SecretWritten { secret: None, content: text.clone() });
        let encoded = BASE64_STANDARD.encode(&text);
        let content = SecretContent(BTreeMap::from([("value".to_owned(), encoded)]));
        let (what, prunes) = (self.world.below(100), self.world.chance_of(500));
        self.trace(format!("secret {application}, {what}"));
        let secret = NAME.to_owned();
        let applications = vec![application.to_owned()];
        let call = |caller: SimCaller| {
            let (secret, applications, content) = (secret.clone(), applications.clone(), content.clone());
            async move {
                let (name, description, auto_prune) = (None, None, Some(prunes));
                match what {
                    0..30 => {
                        let description = String::new();
                        return caller
                            .handle(AddSecret { name: secret, description, content })
                            .await
                            .map(drop);
                    }
                    30..60 => {
                        let content = Some(content);
                        caller.handle(UpdateSecret { secret, name, description, auto_prune, content }).await
                    }
                    60..80 => caller.handle(GrantSecret { secret, applications }).await,
                    80..95 => caller.handle(RevokeSecret { secret, applications }).await,
                    _ => caller.handle(RemoveSecret { secret, revision: None }).await,
                }
                .map(drop)
            }
        };
        self.request(call).await;
        let found =
            |caller: SimCaller| async move { caller.handle(GetSecret { secret: NAME.to_owned() }).await };
        let Some(found) = self.request(found).await else { return };
        let set = BTreeMap::from([(TOKEN.to_owned(), format!("secret:{}", found.id))]);
        let change = ConfigChange { set, reset: Vec::new() };
        let configure = |caller: SimCaller| {
            let change = change.clone();
            async move { caller.handle(Configure { application: application.to_owned(), change }).await }
        };
        self.request(configure).await;
    }
}
