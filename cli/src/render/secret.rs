//! Secrets as `secrets` and `show-secret` print them (spec/clients.md 2.4).

use super::{StructuredFormat, Table, insert_unless_empty, row};
use crate::times::Zone;
use api::{SecretInfo, SecretScope};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Map, Value, json};
use state::terms::names::application_tag;
use state::terms::owner::Owner;
use state::terms::secret::{RotatePolicy, SecretContent, SecretId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The owner of the secrets of users.
const USERS: &str = "<model>";

fn owner(info: &SecretInfo) -> String {
    match &info.owner {
        None => USERS.to_owned(),
        Some(Owner::Application(name)) => name.clone(),
        Some(Owner::Unit(unit)) => unit.to_string(),
    }
}

/// Whether `text` is the name of the owner, or its tag.
pub fn is_owner(info: &SecretInfo, text: &str) -> bool {
    let tag = info.owner.as_ref().map(|owner| match owner {
        Owner::Application(name) => application_tag(name),
        Owner::Unit(unit) => unit.tag(),
    });
    owner(info) == text || tag.as_deref() == Some(text)
}

/// The table of `secrets`, by owner, then by the number of the newest revision, highest first.
pub fn table(secrets: &BTreeMap<SecretId, SecretInfo>, now_ms: i64) -> Table<'static> {
    let mut sorted: Vec<_> = secrets.iter().collect();
    sorted.sort_by_cached_key(|(id, info)| (owner(info), Reverse(info.revision), **id));
    let mut rows = vec![row(["ID", "Name", "Owner", "Rotation", "Revision", "Last updated"])];
    rows.extend(sorted.into_iter().map(|(id, info)| {
        let name = if info.owner.is_none() { &info.label } else { "-" };
        row([
            id.as_str(),
            name,
            &owner(info),
            info.rotate.unwrap_or(RotatePolicy::Never).as_str(),
            &info.revision.to_string(),
            &since(info.updated_ms, now_ms),
        ])
    }));
    Table { right: &[4], rows }
}

/// How long ago a time was, as Juju writes it; the date, in UTC, if it was 24 hours ago or more.
fn since(ms: i64, now_ms: i64) -> String {
    let seconds = (now_ms - ms).max(0) / 1000;
    let several = |number: i64, unit: &str| match number {
        1 => format!("1 {unit} ago"),
        _ => format!("{number} {unit}s ago"),
    };
    match seconds {
        0..2 => "just now".to_owned(),
        2..60 => several(seconds, "second"),
        60..3600 => several(seconds / 60, "minute"),
        3600..86400 => several(seconds / 3600, "hour"),
        _ => Zone::new(true).iso(ms).chars().take("2006-01-02".len()).collect(),
    }
}

/// A secret without its content.
pub fn document(info: &SecretInfo, with_revisions: bool) -> Map<String, Value> {
    let time = |ms: i64| Value::from(Zone::new(true).iso(ms));
    let mut map = Map::from_iter([("revision".to_owned(), info.revision.into())]);
    let mut insert = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    insert("expires", info.expire_at_ms.map(time));
    let rotated = info.rotate.filter(|rotate| *rotate != RotatePolicy::Never);
    insert("rotation", rotated.map(|rotate| rotate.as_str().into()));
    insert("rotates", info.rotate_at_ms.map(time));
    insert("owner", Some(owner(info).into()));
    insert_unless_empty(&mut map, "description", &info.description);
    let key = if info.owner.is_none() { "name" } else { "label" };
    insert_unless_empty(&mut map, key, &info.label);
    map.insert("created".to_owned(), time(info.created_ms));
    map.insert("updated".to_owned(), time(info.updated_ms));
    if with_revisions {
        let revisions = info.revisions.iter().map(|(revision, created_ms)| {
            json!({ "revision": revision, "created": time(*created_ms), "updated": time(*created_ms) })
        });
        map.insert("revisions".to_owned(), revisions.collect());
    }
    map
}

/// Adds who may read the secret.
pub fn insert_access(document: &mut Map<String, Value>, info: &SecretInfo) {
    let access: Vec<Value> = info
        .access
        .iter()
        .map(|access| {
            let scope = match &access.scope {
                SecretScope::Model(id) => format!("model-{id}"),
                SecretScope::Relation(ends) => ends.tag(),
            };
            json!({ "target": access.reader.tag(), "scope": scope, "role": "view" })
        })
        .collect();
    if !access.is_empty() {
        document.insert("access".to_owned(), access.into());
    }
}

/// The values of a content, decoded. Juju's JSON has them below `Data`. Bytes that are no text are replaced. A value
/// that a charm declared as base64 and that is not is shown as it is, as secret-get prints it.
pub fn content(content: &SecretContent, format: StructuredFormat) -> Value {
    let decoded = content.0.iter().map(|(key, value)| {
        let bytes = BASE64_STANDARD.decode(value).unwrap_or_else(|_| value.clone().into_bytes());
        (key.clone(), Value::from(String::from_utf8_lossy(&bytes)))
    });
    let values: Value = Map::from_iter(decoded).into();
    match format {
        StructuredFormat::Json => json!({ "Data": values }),
        StructuredFormat::Yaml => values,
    }
}

#[cfg(test)]
mod tests {
    use super::{StructuredFormat, content, since};
    use serde_json::json;
    use state::terms::secret::SecretContent;

    #[test]
    fn a_value_that_is_not_base64_is_shown_as_it_is() {
        let values = [("encoded", "czNjcmV0"), ("raw", "not-base64")];
        let stored = SecretContent(values.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let shown = content(&stored, StructuredFormat::Yaml);
        assert_eq!(shown, json!({ "encoded": "s3cret", "raw": "not-base64" }));
    }

    #[test]
    fn a_time_is_relative_for_a_day() {
        let now_ms = 100 * 86_400_000;
        let texts = [(0, "just now"), (59, "59 seconds ago"), (60, "1 minute ago"), (7200, "2 hours ago")];
        for (seconds, text) in texts {
            assert_eq!(since(now_ms - seconds * 1000, now_ms), text);
        }
        assert_eq!(since(now_ms - 86_400_000, now_ms), "1970-04-10");
    }
}
