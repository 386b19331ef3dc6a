//! secret-info-get and secret-ids: describe the secrets that the unit may change (spec/hook-tools.md 2.6).

use crate::flags::{FORMAT, FORMAT_WITHOUT_SMART, Flag, FlagKind, OUTPUT};
use crate::quote::quote;
use crate::secret_time;
use crate::secret_uri;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use crate::value::Value;
use state::terms::cause::RelationName;
use state::terms::secret::SecretReader;
use state::unit::secrets::HookSecret;
use std::collections::BTreeMap;

pub const INFO: Tool = Tool {
    name: "secret-info-get",
    arguments: "<ID>",
    summary: "Get a secret's metadata info.",
    details: "Prints the metadata of a secret of the unit; that of a secret of the application on its leader.",
    flags: &[
        FORMAT_WITHOUT_SMART,
        OUTPUT,
        Flag { names: &["label"], kind: FlagKind::Text, help: "a label used to identify the secret" },
    ],
    requires_utf8: false,
    is_confidential: false,
    run: info,
};

pub const IDS: Tool = Tool {
    name: "secret-ids",
    arguments: "",
    summary: "Print secret IDs.",
    details: "Prints the ids of the secrets of the unit, and on the leader those of the application.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run: ids,
};

fn info(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let label = call.parsed.text("label");
    let id = match (call.positionals(1)?.first(), label) {
        (Some(_), Some(_)) => return usage("specify either a secret URI or label but not both"),
        (None, None) => return usage("require either a secret URI or label"),
        (Some(text), None) => match secret_uri::parse(text) {
            Ok(uri) => Some(uri.id),
            Err(_) => return usage(format!("secret URI {} not valid", quote(text))),
        },
        (None, Some(label)) => call.context.own_secret_by_label(label),
    };
    match id.and_then(|id| Some((id, call.context.own_secret(id)?))) {
        Some((id, secret)) => {
            let fields = BTreeMap::from([(id.to_string(), fields(secret))]);
            Ok(ToolOutput::value(Value::Map(fields)))
        }
        None => {
            let name = id.map(|id| id.to_string()).or(label.map(str::to_owned)).unwrap_or_default();
            failed(format!("secret {} not found", quote(&name)))
        }
    }
}

fn fields(secret: HookSecret) -> Value {
    let revision = i64::try_from(secret.revision).unwrap_or(i64::MAX);
    let mut fields = vec![
        ("revision", Value::Integer(revision)),
        ("label", Value::text(secret.label)),
        ("owner", Value::text(secret.owner.as_str())),
    ];
    let described = !secret.description.is_empty();
    fields.extend(described.then(|| ("description", Value::text(secret.description))));
    fields.extend(secret.rotate.map(|rotate| ("rotation", Value::text(rotate.as_str()))));
    let time = |at_ms| Value::Time(secret_time::format(at_ms));
    fields.extend(secret.expire_at_ms.map(|at_ms| ("expiry", time(at_ms))));
    fields.extend(secret.rotate_at_ms.map(|at_ms| ("rotates", time(at_ms))));
    let access: Vec<Value> =
        secret.access.iter().map(|(reader, scope)| access_fields(reader, scope)).collect();
    fields.extend((!access.is_empty()).then_some(("access", Value::List(access))));
    Value::Record(fields)
}

/// A reader with the tag of the relation in which it was granted: `relation-web.db#store.server`.
fn access_fields(reader: &SecretReader, scope: &RelationName) -> Value {
    Value::Record(vec![
        ("target", Value::text(reader.tag())),
        ("scope", Value::text(scope.ends.tag())),
        ("role", Value::text("view")),
    ])
}

fn ids(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    let ids: Vec<String> = call.context.own_secrets().iter().map(ToString::to_string).collect();
    Ok(ToolOutput::value(if ids.is_empty() { Value::NilNames } else { Value::Names(ids) }))
}
