//! secret-get: prints the content of a secret (spec/hook-tools.md 2.6).
//!
//! The controller decides whether the unit may read it, and fixes the revision with the first read. What this hook has
//! written is visible to it: a secret that it created at once, a new revision with `--peek` or `--refresh`.

use crate::flags::{FORMAT_WITHOUT_SMART, Flag, FlagKind, OUTPUT};
use crate::quote::quote;
use crate::secret_uri::{self, not_found};
use crate::tool::{
    Invocation, Need, SecretAnswer, SecretRequest, Tool, ToolError, ToolOutput, failed, usage,
};
use crate::value::Value;
use base64::prelude::{BASE64_STANDARD, Engine};
use state::agents::secret_read::SecretRead;
use state::terms::secret::{SecretContent, SecretId};
use state::unit::secrets::{SecretRemoval, SecretWrite};

pub const TOOL: Tool = Tool {
    name: "secret-get",
    arguments: "<ID> [key[#base64]]",
    summary: "Get the content of a secret.",
    details: "The first read fixes the revision that later reads return. --peek prints the newest revision once,\n\
        --refresh fixes the newest revision instead. An ID with --label gives the secret this label.",
    flags: &[
        FORMAT_WITHOUT_SMART,
        OUTPUT,
        Flag {
            names: &["label"],
            kind: FlagKind::Text,
            help: "a label used to identify the secret in hooks",
        },
        Flag { names: &["peek"], kind: FlagKind::Switch, help: "get the latest revision just this time" },
        Flag {
            names: &["refresh"],
            kind: FlagKind::Switch,
            help: "get the latest revision and also get this same revision for subsequent calls",
        },
    ],
    requires_utf8: false,
    is_confidential: true,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let words = &call.parsed.positionals;
    let uri = match words.first() {
        None => None,
        Some(text) => match secret_uri::parse(text) {
            Ok(uri) => Some(uri),
            Err(_) => return usage(format!("secret URI {} not valid", quote(text))),
        },
    };
    let label = call.parsed.text("label").map(str::to_owned);
    if uri.is_none() && label.is_none() {
        return usage("require either a secret URI or label");
    }
    let (peek, refresh) = (call.parsed.is_on("peek"), call.parsed.is_on("refresh"));
    if peek && refresh {
        return usage("specify one of --peek or --refresh but not both");
    }
    let key = call.positionals(2)?.get(1).cloned();
    if let Some(uri) = uri
        && uri.model.is_some_and(|model| model != call.context.model.uuid)
    {
        return not_found(uri.id);
    }
    let own = label.as_deref().filter(|_| uri.is_none());
    let own = own.and_then(|label| call.context.own_secret_by_label(label));
    let id = uri.map(|uri| uri.id).or(own);
    let pending = id.and_then(|id| call.context.writes.secrets.get(&id).cloned().map(|write| (id, write)));
    let need = match pending {
        Some((id, SecretWrite { removed: Some(SecretRemoval::All), .. })) => return not_found(id),
        Some((secret, SecretWrite { created, sealed: Some(sealed), .. }))
            if created.is_some() || peek || refresh =>
        {
            SecretRequest::Open { secret, sealed }
        }
        Some(_) | None => {
            let label = label.filter(|_| own.is_none());
            SecretRequest::Read(SecretRead { id, label, peek, refresh })
        }
    };
    let content = match &call.inputs.secret {
        None => return Err(ToolError::Need(Need::Secret(need))),
        Some(Ok(SecretAnswer::Content(content))) => content,
        Some(Ok(SecretAnswer::Sealed { .. })) => return failed("the controller did not read the secret"),
        Some(Err(reason)) => return failed(reason),
    };
    let value = value(content, key.as_deref())?;
    track_pending(call, id, refresh)?;
    Ok(ToolOutput::value(value))
}

/// Buffers that the unit reads the revision which this hook has written (`--refresh`).
fn track_pending(call: &mut Invocation, id: Option<SecretId>, refresh: bool) -> Result<(), ToolError> {
    let is_update = |id: &SecretId| {
        let write = call.context.writes.secrets.get(id);
        write.is_some_and(|write| write.created.is_none() && write.sealed.is_some() && !write.refreshed)
    };
    if let Some(id) = id.filter(|id| refresh && is_update(id)) {
        call.context.write_secret(id, SecretWrite { refreshed: true, ..SecretWrite::default() })?;
    }
    Ok(())
}

fn value(content: &SecretContent, key: Option<&str>) -> Result<Value, ToolError> {
    let decoded = |text: &String| {
        // a charm stores what it likes under key#base64
        let bytes = BASE64_STANDARD.decode(text).unwrap_or_else(|_| text.clone().into_bytes());
        Value::Text(
            String::from_utf8(bytes)
                .unwrap_or_else(|bytes| String::from_utf8_lossy(bytes.as_bytes()).into_owned()),
        )
    };
    let Some(key) = key else {
        return Ok(Value::Map(content.0.iter().map(|(key, text)| (key.clone(), decoded(text))).collect()));
    };
    let (name, encoded) = key.strip_suffix("#base64").map_or((key, false), |name| (name, true));
    match content.0.get(name) {
        Some(text) if encoded => Ok(Value::text(text)),
        Some(text) => Ok(decoded(text)),
        None => failed(format!("secret key value {} not found", quote(key))),
    }
}
