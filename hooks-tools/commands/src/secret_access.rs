//! secret-grant, secret-revoke and secret-remove (spec/hook-tools.md 2.6).
//!
//! The change is buffered and published when the hook succeeds.

use crate::flags::{Flag, FlagKind, RELATION};
use crate::quote::quote;
use crate::secret_uri::not_found;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use state::terms::names::UnitName;
use state::terms::secret::SecretReader;
use state::unit::secrets::{AccessChange, SecretWrite};

const UNIT: Flag =
    Flag { names: &["unit"], kind: FlagKind::Text, help: "the unit to grant or revoke access" };

pub const GRANT: Tool = Tool {
    name: "secret-grant",
    arguments: "<ID>",
    summary: "Grant access to a secret.",
    details: "Grants the application on the other side of the relation, or only one of its units, access to the secret\n\
        while the relation exists. Written when the hook succeeds.",
    flags: &[RELATION, UNIT],
    requires_utf8: true,
    is_confidential: false,
    run: grant,
};

pub const REVOKE: Tool = Tool {
    name: "secret-revoke",
    arguments: "<ID>",
    summary: "Revoke access to a secret.",
    details: "Revokes the access of an application or a unit, or all that was granted in the relation. Written when the\n\
        hook succeeds.",
    flags: &[
        RELATION,
        Flag {
            names: &["app", "application"],
            kind: FlagKind::Text,
            help: "the application to revoke access",
        },
        UNIT,
    ],
    requires_utf8: true,
    is_confidential: false,
    run: revoke,
};

pub const REMOVE: Tool = Tool {
    name: "secret-remove",
    arguments: "<ID>",
    summary: "Remove an existing secret.",
    details: "Removes all revisions, or only one. Written when the hook succeeds.",
    flags: &[Flag { names: &["revision"], kind: FlagKind::Text, help: "remove the specified revision" }],
    requires_utf8: true,
    is_confidential: false,
    run: remove,
};

fn grant(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let id = call.secret()?;
    call.positionals(1)?;
    let unit = unit(call)?;
    let (relation, application) = {
        let (number, relation) = call.relation()?;
        (number, relation.remote_application.clone())
    };
    if let Some(unit) = unit.as_ref().filter(|unit| unit.application != application) {
        let (unit, application) = (quote(&unit.to_string()), quote(&application));
        return usage(format!("cannot specify unit {unit} in relation to application {application}"));
    }
    let Some(secret) = call.context.own_secret(id) else { return not_found(id) };
    let is_granted = |reader: SecretReader| secret.access.contains_key(&reader);
    let is_granted_already = is_granted(SecretReader::Application(application.clone()))
        || unit.clone().is_some_and(|unit| is_granted(SecretReader::Unit(unit)));
    if is_granted_already {
        return Ok(ToolOutput::silent());
    }
    let is_its_unit = |reader: &SecretReader| match reader {
        SecretReader::Unit(unit) => unit.application == application,
        SecretReader::Application(_) => false,
    };
    if unit.is_none() && secret.access.keys().any(is_its_unit) {
        return failed(
            "any unit level grants need to be revoked before granting access to the corresponding application",
        );
    }
    let access = vec![AccessChange::Grant { relation, application, unit }];
    call.context.write_secret(id, SecretWrite { access, ..SecretWrite::default() })?;
    Ok(ToolOutput::silent())
}

fn revoke(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let id = call.secret()?;
    call.positionals(1)?;
    let application = call.parsed.text("app").map(str::to_owned);
    if let Some(name) = application.as_ref().filter(|name| format!("{name}/0").parse::<UnitName>().is_err()) {
        return usage(format!("application {} not valid", quote(name)));
    }
    let unit = unit(call)?;
    if application.is_some() && unit.is_some() {
        return usage("specify only one of application or unit");
    }
    let is_relation_named = call.parsed.text("r").is_some();
    if application.is_some() && is_relation_named {
        return usage("do not specify both relation and app");
    }
    let by_relation = is_relation_named || application.is_none() && unit.is_none();
    let relation = call.parsed.relation.filter(|_| by_relation);
    if application.is_none() && unit.is_none() && relation.is_none() {
        return usage("missing relation or application or unit");
    }
    if call.context.requires_leadership(id) {
        return failed("this unit is not the leader");
    }
    if call.context.own_secret(id).is_none() {
        return not_found(id);
    }
    let access = vec![AccessChange::Revoke { relation, application, unit }];
    call.context.write_secret(id, SecretWrite { access, ..SecretWrite::default() })?;
    Ok(ToolOutput::silent())
}

fn remove(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let id = call.secret()?;
    call.positionals(1)?;
    let revision = match call.parsed.text("revision") {
        None => 0,
        Some(text) => match parse_int(text) {
            Some(number) => number,
            None => {
                let text = quote(text);
                return usage(format!(
                    "invalid value {text} for option --revision: strconv.ParseInt: parsing {text}: invalid syntax"
                ));
            }
        },
    };
    if call.context.requires_leadership(id) {
        return failed("this unit is not the leader");
    }
    if call.context.own_secret(id).is_none() {
        return not_found(id);
    }
    call.context.remove_secret(id, u64::try_from(revision).ok().filter(|revision| *revision > 0))?;
    Ok(ToolOutput::silent())
}

/// Parses an integer as Go does with base 0.
fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let number = match lower.get(..2) {
        Some("0x") => i64::from_str_radix(&lower[2..], 16),
        Some("0o") => i64::from_str_radix(&lower[2..], 8),
        Some("0b") => i64::from_str_radix(&lower[2..], 2),
        _ => lower.parse(),
    };
    let number = number.ok().filter(|_| !lower.starts_with(['-', '+']))?;
    Some(if negative { -number } else { number })
}

fn unit(call: &Invocation) -> Result<Option<UnitName>, ToolError> {
    match call.parsed.text("unit") {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(unit) => Ok(Some(unit)),
            Err(_) => usage(format!("unit {} not valid", quote(text))),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, relation_context};
    use state::terms::names::UnitName;
    use state::terms::secret::{SecretId, SecretOwnerKind, SecretReader};
    use state::unit::hook_context::HookContext;
    use state::unit::secrets::HookSecret;
    use std::collections::BTreeMap;

    const ID: &str = "9m4e2mr0ui3e8a215n4g";

    /// The hook of a unit that owns one secret, which nobody else may read.
    fn context() -> HookContext {
        let secret = HookSecret {
            owner: SecretOwnerKind::Unit,
            label: String::new(),
            description: String::new(),
            rotate: None,
            rotate_at_ms: None,
            expire_at_ms: None,
            revision: 1,
            last_revision: 1,
            access: BTreeMap::new(),
        };
        HookContext { secrets: BTreeMap::from([(id(), secret)]), ..relation_context() }
    }

    fn id() -> SecretId {
        ID.parse().expect("an id")
    }

    /// The exit codes of the calls, and who may read the secret after them.
    fn after(calls: &[&[&str]]) -> (Vec<u8>, Vec<SecretReader>) {
        let mut context = context();
        let codes =
            calls.iter().map(|words| call(&mut context, words[0], &[&[ID], &words[1..]].concat()).code);
        let codes = codes.collect();
        let secret = context.own_secret(id()).expect("the secret exists");
        (codes, secret.access.into_keys().collect())
    }

    fn unit(number: u32) -> SecretReader {
        SecretReader::Unit(UnitName::new("mysql", number))
    }

    #[test]
    fn a_grant_to_a_unit_must_end_before_its_application_is_granted_access() {
        let application = SecretReader::Application("mysql".to_owned());
        let to_unit: &[&str] = &["secret-grant", "--unit", "mysql/0"];
        let to_application: &[&str] = &["secret-grant"];
        assert_eq!(after(&[to_unit, to_application]), (vec![0, 1], vec![unit(0)]));
        let revoked: &[&str] = &["secret-revoke", "--unit", "mysql/0"];
        assert_eq!(after(&[to_unit, revoked, to_application]), (vec![0, 0, 0], vec![application.clone()]));
        assert_eq!(after(&[to_application, to_unit]), (vec![0, 0], vec![application]));
    }

    #[test]
    fn a_unit_or_an_application_loses_its_own_access_only() {
        let first: &[&str] = &["secret-grant", "--unit", "mysql/2"];
        let second: &[&str] = &["secret-grant", "--unit", "mysql/10"];
        assert_eq!(after(&[second, first]).1, [unit(2), unit(10)]);
        assert_eq!(after(&[first, second, &["secret-revoke", "--unit", "mysql/2"]]).1, [unit(10)]);
        assert_eq!(after(&[first, second, &["secret-revoke", "--app", "mysql"]]).1, [unit(2), unit(10)]);
        assert_eq!(after(&[first, second, &["secret-revoke", "-r", "1"]]).1, []);
    }
}
