//! The secrets of a fixture, and the controller's part in the tools of secrets.
//!
//! A sealed content is its JSON here, so that an effect can show it.

use base64::prelude::{BASE64_STANDARD, Engine};
use commands::{SecretAnswer, SecretRequest};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use state::agents::secret_read::SecretRead;
use state::terms::cause::RelationName;
use state::terms::names::{RelationNumber, UnitName};
use state::terms::secret::{RotatePolicy, SecretContent, SecretId, SecretOwnerKind, SecretReader};
use state::unit::hook_context::{HookContext, HookRelation};
use state::unit::hook_context_builder::utc;
use state::unit::secrets::{AccessChange, HookSecret, SecretRemoval, SecretWrite};
use std::collections::BTreeMap;

/// The time at which the hooks of all cases run, in milliseconds since 1970.
pub const NOW_MS: i64 = 0;
/// Times up to this one, in September 2001, are shown relative to [`NOW_MS`]: a charm has computed them from the time of
/// its hook. Later ones were written as dates.
const RELATIVE_MS_MAX: i64 = 1_000_000_000_000;

#[derive(Clone, Default, Deserialize)]
pub struct Secrets {
    #[serde(default)]
    secrets: BTreeMap<SecretId, FixtureSecret>,
    next_secret_id: Option<SecretId>,
    /// What the controller has recorded at once, as `immediate` of a case shows it.
    #[serde(skip)]
    pub tracked: Map<String, Value>,
}

#[derive(Clone, Deserialize)]
struct FixtureSecret {
    owner: String,
    #[serde(default)]
    label: String,
    consumer_label: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    rotate: String,
    expiry: Option<String>,
    rotates: Option<String>,
    revision: u64,
    tracked: Option<u64>,
    revisions: BTreeMap<u64, BTreeMap<String, String>>,
    #[serde(default)]
    access: Vec<FixtureAccess>,
}

#[derive(Clone, Deserialize)]
struct FixtureAccess {
    target: String,
    scope: String,
}

impl Secrets {
    pub fn of(fixture: &Value) -> Result<Secrets, String> {
        serde_json::from_value(fixture.clone()).map_err(|error| format!("cannot read secrets: {error}"))
    }

    /// The secrets of the unit and its application, as a view shows them.
    pub fn owned(
        &self,
        relations: &BTreeMap<RelationNumber, HookRelation>,
    ) -> BTreeMap<SecretId, HookSecret> {
        let owned = |(id, secret): (&SecretId, &FixtureSecret)| {
            let owner: SecretOwnerKind = secret.owner.parse().ok()?;
            let access = secret.access.iter().filter_map(|access| {
                let application = |tag: &str| tag.strip_prefix("application-").map(str::to_owned);
                let reader = UnitName::from_tag(&access.target).map(SecretReader::Unit);
                let reader = reader.or(application(&access.target).map(SecretReader::Application))?;
                let granted = |relation: &HookRelation| relation.ends.tag() == access.scope;
                let (number, relation) = relations.iter().find(|(_, relation)| granted(relation))?;
                Some((reader, RelationName { number: *number, ends: relation.ends.clone() }))
            });
            let shown = HookSecret {
                owner,
                label: secret.label.clone(),
                description: secret.description.clone(),
                rotate: secret.rotate.parse::<RotatePolicy>().ok(),
                rotate_at_ms: secret.rotates.as_deref().map(time_ms),
                expire_at_ms: secret.expiry.as_deref().map(time_ms),
                revision: secret.revision,
                last_revision: secret.revision,
                access: access.collect(),
            };
            Some((*id, shown))
        };
        self.secrets.iter().filter_map(owned).collect()
    }

    /// The controller's answer to a request of a tool.
    pub fn answer(&mut self, request: SecretRequest) -> Result<SecretAnswer, String> {
        match request {
            SecretRequest::Seal { secret, content, .. } => {
                let secret = secret.or(self.next_secret_id).ok_or("the fixture has no next_secret_id")?;
                Ok(SecretAnswer::Sealed { secret, sealed: json!(content).to_string() })
            }
            SecretRequest::Open { sealed, .. } => {
                Ok(SecretAnswer::Content(serde_json::from_str(&sealed).map_err(|error| error.to_string())?))
            }
            SecretRequest::Read(read) => self.read(read).map(SecretAnswer::Content),
        }
    }

    fn read(&mut self, SecretRead { id, label, peek, refresh }: SecretRead) -> Result<SecretContent, String> {
        let by_label = |text: &String| {
            let named = |secret: &FixtureSecret| secret.consumer_label.as_ref() == Some(text);
            self.secrets.iter().find(|(_, secret)| named(secret)).map(|(id, _)| *id)
        };
        let id = match (id, &label) {
            (Some(id), _) => id,
            (None, Some(text)) => by_label(text).ok_or(format!("consumer label {text:?} not found"))?,
            (None, None) => return Err("no secret is named".to_owned()),
        };
        let is_new_label = label.as_ref().is_some_and(|label| by_label(label) != Some(id));
        let secret = self.secrets.get(&id).ok_or(format!("secret {:?} not found", id.as_str()))?;
        if refresh || secret.tracked.is_none() {
            self.tracked.insert("secret_tracked".to_owned(), json!({id.as_str(): secret.revision}));
        }
        if is_new_label {
            self.tracked.insert("secret_consumer_label".to_owned(), json!({id.as_str(): label}));
        }
        let latest = peek || refresh;
        let revision = secret.tracked.filter(|_| !latest).unwrap_or(secret.revision);
        let content = secret.revisions.get(&revision).ok_or("the fixture lacks a revision")?;
        Ok(SecretContent(content.iter().map(|(key, value)| (key.clone(), base64(value))).collect()))
    }
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// The inverse of [`utc`], by bisection: the texts of later times sort later.
fn time_ms(text: &str) -> i64 {
    let (mut before, mut after) = (0, i64::from(u32::MAX));
    while before + 1 < after {
        let middle = (before + after) / 2;
        if utc(middle * 1000).replace(' ', "T").as_str() <= text { before = middle } else { after = middle }
    }
    before * 1000
}

fn time_text(at_ms: i64) -> String {
    if at_ms > RELATIVE_MS_MAX {
        return utc(at_ms).replace(' ', "T");
    }
    let seconds = (at_ms - NOW_MS) / 1000;
    format!("now+{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The writes of a hook as `on_commit` of a case shows them.
pub fn writes_as_json(context: &HookContext) -> Map<String, Value> {
    let mut shown = Map::new();
    let (mut creates, mut updates) = (Vec::new(), Map::new());
    let (mut grants, mut revokes, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    for (id, write) in &context.writes.secrets {
        let fields = fields(write);
        if let Some(owner) = write.created {
            let mut create = fields;
            create.extend([("id".to_owned(), json!(id)), ("owner".to_owned(), json!(owner))]);
            creates.push(Value::Object(create));
        } else if !fields.is_empty() {
            updates.insert(id.to_string(), Value::Object(fields));
        }
        for change in &write.access {
            let mut entry = json!({ "id": id });
            match change {
                AccessChange::Grant { relation, application, unit } => {
                    entry["role"] = json!("view");
                    entry["relation"] = json!(context.relations[relation].ends);
                    match unit {
                        Some(unit) => entry["unit"] = json!(unit),
                        None => entry["application"] = json!(application),
                    }
                    grants.push(entry);
                }
                AccessChange::Revoke { relation, application, unit } => {
                    if let Some(relation) = relation {
                        entry["relation"] = json!(context.relations[relation].ends);
                    }
                    application.iter().for_each(|name| entry["application"] = json!(name));
                    unit.iter().for_each(|name| entry["unit"] = json!(name));
                    revokes.push(entry);
                }
            }
        }
        match &write.removed {
            Some(SecretRemoval::All) => deletes.push(json!({ "id": id })),
            Some(SecretRemoval::Revisions(revisions)) => {
                deletes.push(json!({ "id": id, "revisions": revisions }));
            }
            None => {}
        }
    }
    let lists = [
        ("secret_create", creates),
        ("secret_grant", grants),
        ("secret_revoke", revokes),
        ("secret_delete", deletes),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            shown.insert(name.to_owned(), Value::Array(list));
        }
    }
    if !updates.is_empty() {
        shown.insert("secret_update".to_owned(), Value::Object(updates));
    }
    shown
}

fn fields(write: &SecretWrite) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        fields.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("label", write.label.as_ref().map(|text| json!(text)));
    add("description", write.description.as_ref().map(|text| json!(text)));
    add("rotate", write.rotate.map(|policy| json!(policy)));
    add("expire", write.expire_at_ms.map(|at_ms| json!(time_text(at_ms))));
    add("content_base64", write.sealed.as_ref().and_then(|sealed| serde_json::from_str(sealed).ok()));
    fields
}
