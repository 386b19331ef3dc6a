//! The contents of secrets that the hook has read or written, as far as the agent that answers its tools knows them.
//!
//! They are masked in what people are shown of the run. They are kept in memory only: an agent that re-attaches to a run
//! does not know the contents of earlier calls. Called by `hook_session` for each call about a secret.

use super::calls_file::{HIDDEN, SECRET_GET};
use base64::prelude::{BASE64_STANDARD, Engine};
use commands::{SecretAnswer, SecretRequest};
use state::terms::secret::{SecretContent, SecretId};
use state::unit::secret_mask::SecretMask;
use std::collections::BTreeMap;

/// The known contents of one run.
#[derive(Default)]
pub(super) struct KnownContents {
    /// Their values, with placeholders.
    pub(super) mask: SecretMask,
    /// The request to the controller about a secret that has no response yet.
    request: Option<SecretRequest>,
    /// The placeholders of the content that was fetched for the call which is evaluated now, by key.
    placeholders_of_current_call: BTreeMap<String, String>,
}

impl KnownContents {
    /// Stores a request to the controller about a secret until its response is known.
    pub(super) fn insert_request(&mut self, request: &SecretRequest) {
        self.request = Some(request.clone());
    }

    /// Removes and returns the placeholders of the content that was fetched for the call which is evaluated now, by key.
    pub(super) fn take_placeholders(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.placeholders_of_current_call)
    }

    /// Adds the content that a secret has according to the controller's response, or that the hook has written.
    pub(super) fn insert_response(&mut self, response: &Result<SecretAnswer, String>) {
        let id = |secret: &SecretId| secret.to_string();
        match (self.request.take(), response) {
            (Some(SecretRequest::Seal { content, .. }), Ok(SecretAnswer::Sealed { secret, .. })) => {
                self.add_to_mask(&id(secret), &content);
            }
            (Some(SecretRequest::Seal { secret, content, .. }), Ok(SecretAnswer::Content(_)) | Err(_)) => {
                self.add_to_mask(&secret.as_ref().map_or_else(String::new, id), &content);
            }
            (Some(SecretRequest::Read(read)), Ok(SecretAnswer::Content(content))) => {
                let name = read.id.as_ref().map(id).or(read.label).unwrap_or_default();
                self.placeholders_of_current_call = self.add_to_mask(&name, content);
            }
            (Some(SecretRequest::Open { secret, .. }), Ok(SecretAnswer::Content(content))) => {
                self.placeholders_of_current_call = self.add_to_mask(&id(&secret), content);
            }
            (None, Ok(SecretAnswer::Content(content))) => {
                self.placeholders_of_current_call = self.add_to_mask("", content);
            }
            (Some(SecretRequest::Read(_) | SecretRequest::Open { .. }) | None, Ok(_) | Err(_)) => {}
        }
    }

    /// Masks the values of a content from now on, in what people are shown of the run. Returns their placeholders by key.
    /// Neither JSON nor YAML escapes or quotes a placeholder, so that a tool prints it as it is when the run is replayed.
    fn add_to_mask(&mut self, name: &str, content: &SecretContent) -> BTreeMap<String, String> {
        let mut placeholders = BTreeMap::new();
        for (key, encoded) in &content.0 {
            let value = BASE64_STANDARD.decode(encoded).unwrap_or_default();
            let value = String::from_utf8_lossy(&value);
            let known = self.mask.placeholder(&value).map(str::to_owned);
            let placeholder = known.unwrap_or_else(|| format!("SECRET({name} {key})"));
            self.mask.add(&value, &placeholder);
            // secret-get KEY#base64
            self.mask.add(encoded, &placeholder);
            placeholders.insert(key.clone(), placeholder);
        }
        placeholders
    }

    /// The arguments of a confidential call, in which the content after each `key=` is hidden. Returns no arguments for a
    /// failed call, because a secret value may be in any argument that the tool could not parse; secret-get takes no secret
    /// value, so its arguments are returned.
    pub(super) fn arguments_without_contents(&self, tool: &str, args: &[Vec<u8>], code: u8) -> Vec<String> {
        if code != 0 && tool != SECRET_GET {
            return Vec::new();
        }
        let (mut only_pairs, mut shown) = (false, Vec::new());
        for arg in args {
            let arg = String::from_utf8_lossy(arg);
            let is_flag = arg.starts_with('-') && !only_pairs;
            only_pairs |= arg == "--";
            let hidden = match arg.split_once('=').filter(|_| !is_flag) {
                Some((key, _)) => format!("{key}={HIDDEN}"),
                None => arg.into_owned(),
            };
            shown.push(self.mask.masked(&hidden).unwrap_or(hidden));
        }
        shown
    }
}
