//! Cases about the hook's process: its environment, and the file that is run.

use super::difference::difference;
use super::fixture::{self, Source, part};
use api::text::refusal::failure;
use serde::Deserialize;
use serde_json::{Map, Value};
use state::terms::commands::RelationContext;
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::HookName;
use state::terms::names::{RelationNumber, UnitName};
use state::terms::proxy::{Proxies, Proxy};
use state::terms::secret::{SecretEvent, SecretId};
use state::terms::storage::StorageId;
use state::unit::dispatch::{CharmFiles, Dispatch, PathKind, dispatch};
use state::unit::environment::{MachineFacts, environment};
use state::unit::hook_context::{HookContext, HookTrigger, Notice, RunningAction, RunningCommands};
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub struct EnvCase {
    pub id: String,
    hook: HookKind,
    context: Option<Source>,
    #[serde(default)]
    expect: BTreeMap<String, String>,
    #[serde(default)]
    absent: Vec<String>,
}

#[derive(Deserialize)]
struct HookKind {
    kind: String,
    relation_id: Option<RelationNumber>,
    remote_unit: Option<UnitName>,
    remote_app: Option<String>,
    departing_unit: Option<UnitName>,
    storage_id: Option<String>,
    secret: Option<String>,
    revision: Option<u64>,
    name: Option<String>,
    id: Option<String>,
    workload: Option<String>,
    notice: Option<HookNotice>,
    #[serde(default)]
    legacy_proxy: BTreeMap<String, String>,
    #[serde(default, alias = "juju_proxy")]
    charm_proxy: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct HookNotice {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    key: String,
}

impl EnvCase {
    pub fn problems(&self, fixtures: &BTreeMap<String, Value>) -> Vec<String> {
        self.run(fixtures).unwrap_or_else(|problem| vec![format!("  {problem}")])
    }

    fn run(&self, fixtures: &BTreeMap<String, Value>) -> Result<Vec<String>, String> {
        let plain = Source::of("plain");
        let fixture = fixture::resolve(fixtures, self.context.as_ref().unwrap_or(&plain))?;
        let mut context = fixture::context(&fixture)?;
        context.trigger = self.hook.trigger(&fixture, &context)?;
        let (legacy, charm) = (proxy(&self.hook.legacy_proxy), proxy(&self.hook.charm_proxy));
        context.model.proxies = Proxies { legacy, charm };
        let folder = format!("/var/lib/juju/agents/{}", context.unit.tag());
        let around = MachineFacts {
            charm_dir: format!("{folder}/charm"),
            tools_dir: format!("/var/lib/juju/tools/{}", context.unit.tag()),
            socket: format!("{folder}/agent.socket"),
            version: "3.6.14".to_owned(),
            path: "/usr/bin:/bin".to_owned(),
            ..MachineFacts::default()
        };
        let variables: BTreeMap<String, String> = environment(&context, &around).into_iter().collect();
        let mut problems = Vec::new();
        for (name, expected) in &self.expect {
            if variables.get(name) != Some(expected) {
                problems.push(difference(name, Some(expected), variables.get(name)));
            }
        }
        for name in self.absent.iter().filter(|name| variables.contains_key(*name)) {
            problems.push(difference(name, None::<String>, &variables[name]));
        }
        Ok(problems)
    }
}

fn proxy(settings: &BTreeMap<String, String>) -> Proxy {
    let setting = |name: &str| settings.get(name).cloned().unwrap_or_default();
    Proxy { http: setting("http"), https: setting("https"), ftp: setting("ftp"), no_proxy: setting("no") }
}

impl HookKind {
    fn trigger(&self, fixture: &Value, context: &HookContext) -> Result<HookTrigger, String> {
        if let Some(relation) = self.relation_id {
            let there = context.relations.get(&relation).ok_or("no such relation")?;
            let about = RelationContext {
                relation,
                unit: self.remote_unit.clone(),
                application: self.remote_app.clone().unwrap_or_else(|| there.remote_application.clone()),
                departing: self.departing_unit.clone(),
            };
            return Ok(match self.kind.starts_with("relation-") {
                true => {
                    let hook = fixture::hook_name(&format!("{}-{}", there.endpoint, self.kind))?;
                    HookTrigger::Relation { hook, about }
                }
                false => HookTrigger::Commands(RunningCommands {
                    about: Some(about),
                    ..RunningCommands::default()
                }),
            });
        }
        if let Some(id) = &self.storage_id {
            let name = id.split('/').next().unwrap_or_default();
            let hook = fixture::hook_name(&format!("{name}-{}", self.kind))?;
            let kind = part(&fixture["storage"][id]["kind"], "kind")?;
            let location = part(&fixture["storage"][id]["location"], "location")?;
            let id = id.parse::<StorageId>().map_err(|error| error.to_string())?;
            return Ok(HookTrigger::Storage { hook, id, location, kind });
        }
        if let Some(id) = &self.secret {
            let secret = &fixture["secrets"][id];
            let label = secret.get("consumer_label").or(secret.get("label")).and_then(Value::as_str);
            let HookName::Secret(event) = fixture::hook_name(&self.kind)? else {
                return Err("no secret hook".to_owned());
            };
            return Ok(HookTrigger::Secret {
                event,
                id: id.parse::<SecretId>().map_err(|error| format!("{error:?}"))?,
                label: label.unwrap_or_default().to_owned(),
                revision: self
                    .revision
                    .filter(|_| matches!(event, SecretEvent::Remove | SecretEvent::Expired)),
            });
        }
        if let (Some(workload), Some(notice)) = (&self.workload, &self.notice) {
            let HookNotice { id, kind, key } = notice;
            let notice = Notice { id: id.clone(), kind: kind.clone(), key: key.clone() };
            return Ok(HookTrigger::Workload { workload: workload.clone(), notice });
        }
        Ok(match self.kind.as_str() {
            "action" => HookTrigger::Action(RunningAction {
                name: self.name.clone().unwrap_or_default(),
                id: self.id.clone().unwrap_or_default(),
                params: Map::new(),
            }),
            "juju-exec" | "exec" | "run-commands" => HookTrigger::Commands(RunningCommands::default()),
            hook => HookTrigger::Hook(fixture::hook_name(hook)?),
        })
    }
}

#[derive(Deserialize)]
pub struct DispatchCase {
    pub id: String,
    kind: String,
    name: String,
    /// Mode of each file in octal, `dir`, or `-> target`.
    tree: BTreeMap<String, String>,
    expect: Outcome,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Outcome {
    exec: Option<String>,
    #[serde(rename = "JUJU_DISPATCH_PATH")]
    dispatch_path: Option<String>,
    result: Option<String>,
    text: Option<String>,
    message: Option<String>,
}

impl DispatchCase {
    pub fn problems(&self) -> Vec<String> {
        let action = self.kind == "action";
        let path = format!("{}/{}", if action { "actions" } else { "hooks" }, self.name);
        let files = CharmFiles {
            has_metadata: self.entry("metadata.yaml") != PathKind::Absent,
            dispatch: self.entry("dispatch"),
            specific: self.entry(&path),
        };
        let decision = dispatch(files, &path);
        let expect = &self.expect;
        let result = expect.result.as_deref().unwrap_or_default();
        let as_expected = match &decision {
            Dispatch::Run(file) => {
                expect.exec.as_ref() == Some(file) && expect.dispatch_path.as_ref().is_none_or(|p| *p == path)
            }
            Dispatch::Missing if action => {
                let unit = UnitName::new("myapp", 0);
                let message = failure(&FailureReason::ActionMissing { unit });
                result == "failed" && expect.message.as_ref().is_none_or(|expected| *expected == message)
            }
            Dispatch::Missing => matches!(result, "missing" | "skipped" | "skip" | "success" | "ok"),
            Dispatch::Failed(reason) => {
                let text = failure(reason);
                let words = expect.text.as_ref().or(expect.message.as_ref());
                matches!(result, "error" | "failed") && words.is_none_or(|words| text.contains(words))
            }
        };
        if as_expected {
            return Vec::new();
        }
        let shown = (&expect.exec, &expect.result, &expect.text, &expect.message);
        vec![difference("dispatch", shown, decision)]
    }

    fn entry(&self, path: &str) -> PathKind {
        let Some(mode) = self.tree.get(path) else {
            return PathKind::Absent;
        };
        if let Some(target) = mode.strip_prefix("->") {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            return self.entry(&joined(folder, target.trim()));
        }
        match u32::from_str_radix(mode, 8) {
            Err(_) => PathKind::Directory,
            Ok(mode) if mode & 0o111 != 0 => PathKind::Executable,
            Ok(_) => PathKind::NotExecutable,
        }
    }
}

/// `target` seen from `folder`, without `..`.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}
