//! secret-add and secret-set: create and change secrets (spec/hook-tools.md 2.6).
//!
//! The change is buffered and published when the hook succeeds. The buffer has the content only as the controller has
//! sealed it.

use crate::flags::{Flag, FlagKind};
use crate::quote::quote;
use crate::secret_uri::not_found;
use crate::tool::{
    Invocation, Need, SecretAnswer, SecretRequest, Tool, ToolError, ToolOutput, failed, usage,
};
use crate::{secret_time, secret_values};
use state::terms::secret::{RotatePolicy, SecretContent, SecretId, SecretOwnerKind};
use state::unit::secrets::SecretWrite;

const FLAGS: &[Flag] = &[
    Flag { names: &["label"], kind: FlagKind::Text, help: "a label used to identify the secret in hooks" },
    Flag { names: &["description"], kind: FlagKind::Text, help: "the secret description" },
    Flag { names: &["rotate"], kind: FlagKind::Text, help: "the secret rotation policy" },
    Flag {
        names: &["expire"],
        kind: FlagKind::Text,
        help: "either a duration or time when the secret should expire",
    },
    Flag {
        names: &["owner"],
        kind: FlagKind::Text,
        help: "the owner of the secret, either the application or unit",
    },
    Flag { names: &["file"], kind: FlagKind::Text, help: "a YAML file containing secret key values" },
];

const DETAILS: &str = "Written when the hook succeeds. A value is the text after \"=\"; key#base64=value is already\n\
    encoded, and key#file=path is read from a file. Only the leader changes a secret of the application.";

pub const ADD: Tool = Tool {
    name: "secret-add",
    arguments: "[key[#base64|#file]=value...]",
    summary: "Add a new secret.",
    details: DETAILS,
    flags: FLAGS,
    requires_utf8: true,
    is_confidential: true,
    run: add,
};

pub const SET: Tool = Tool {
    name: "secret-set",
    arguments: "<ID> [key[#base64|#file]=value...]",
    summary: "Update an existing secret.",
    details: DETAILS,
    flags: FLAGS,
    requires_utf8: true,
    is_confidential: true,
    run: set,
};

fn add(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    if call.parsed.positionals.is_empty() && call.parsed.text("file").is_none() {
        return usage("missing secret value or filename");
    }
    let mut write = metadata(call)?;
    let owner = match call.parsed.text("owner") {
        None | Some("application") => SecretOwnerKind::Application,
        Some("unit") => SecretOwnerKind::Unit,
        Some(other) => return usage(format!("secret owner {} not valid", quote(other))),
    };
    let content = secret_values::read(call, &call.parsed.positionals)?;
    if content.0.is_empty() {
        return failed("empty secret value not valid");
    }
    if owner == SecretOwnerKind::Application && !call.context.leader {
        return failed("this unit is not the leader");
    }
    require_free_label(call, None, write.label.as_deref())?;
    let (id, sealed) = seal(call, None, owner, content)?;
    (write.created, write.sealed) = (Some(owner), Some(sealed));
    call.context.write_secret(id, write)?;
    Ok(ToolOutput { line: Some(format!("secret:{id}")), ..ToolOutput::default() })
}

fn set(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let id = call.secret()?;
    let mut write = metadata(call)?;
    let content = secret_values::read(call, &call.parsed.positionals[1..])?;
    if call.context.requires_leadership(id) {
        return failed("this unit is not the leader");
    }
    let Some(owner) = call.context.own_secret(id).map(|secret| secret.owner) else { return not_found(id) };
    require_free_label(call, Some(id), write.label.as_deref())?;
    if !content.0.is_empty() {
        write.sealed = Some(seal(call, Some(id), owner, content)?.1);
    }
    call.context.write_secret(id, write)?;
    Ok(ToolOutput::silent())
}

/// The changes that the flags name, except the owner and the content.
fn metadata(call: &Invocation) -> Result<SecretWrite, ToolError> {
    let text = |name: &str| call.parsed.text(name).map(str::to_owned);
    let rotate = match call.parsed.text("rotate") {
        None => None,
        Some(policy) => match policy.parse::<RotatePolicy>() {
            Ok(policy) => Some(policy),
            Err(_) => return usage(format!("rotate policy {} not valid", quote(policy))),
        },
    };
    let expire = call.parsed.text("expire").map(|text| secret_time::parse(text, call.inputs.now_ms));
    Ok(SecretWrite {
        label: text("label"),
        description: text("description"),
        rotate,
        expire_at_ms: expire.transpose().map_err(ToolError::Usage)?,
        ..SecretWrite::default()
    })
}

fn require_free_label(call: &Invocation, id: Option<SecretId>, label: Option<&str>) -> Result<(), ToolError> {
    let Some(label) = label else { return Ok(()) };
    match call.context.own_secret_by_label(label) {
        Some(other) if Some(other) != id => {
            failed(format!("secret with label {} already exists", quote(label)))
        }
        Some(_) | None => Ok(()),
    }
}

/// The sealed content, and the id that the controller has given a new secret.
fn seal(
    call: &Invocation,
    secret: Option<SecretId>,
    owner: SecretOwnerKind,
    content: SecretContent,
) -> Result<(SecretId, String), ToolError> {
    match &call.inputs.secret {
        None => Err(ToolError::Need(Need::Secret(SecretRequest::Seal { secret, owner, content }))),
        Some(Ok(SecretAnswer::Sealed { secret, sealed })) => Ok((*secret, sealed.clone())),
        Some(Ok(SecretAnswer::Content(_))) => failed("the controller did not seal the secret"),
        Some(Err(reason)) => failed(reason),
    }
}
