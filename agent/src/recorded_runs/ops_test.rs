//! A recorded run as a test of the charm with `ops.testing`: `pintle-agent export-run`.
//!
//! The test builds the state that the run saw and emits its event. For a run that succeeded it asserts statuses, relation
//! settings, ports and the results of an action; for an action that failed, its message; for a run that failed, nothing,
//! because that test fails until the charm is repaired. Stored state, storage requests, leader settings and the secrets
//! that the run wrote are not asserted. Contents of secrets are placeholders: of a setting or version that contains one,
//! only the existence is asserted; of a status, its class; of an action result, nothing.

use super::changes::{Changes, Status, StatusSubject};
use super::expectation::Expectation;
use super::python::{block, call, dict, literal, string, strings};
use super::recorded_run::{RecordedRun, unit_folder};
use crate::folder::UnitFolder;
use crate::hook_process::InstalledCharmFile;
use crate::hook_session::{CallsLine, ConfidentialCall, HIDDEN, StoredBytes};
use anyhow::{Context, Result, bail};
use api::text::start_reason;
use host::escape::one_line;
use host::file::ignore_not_found;
use state::charm::{Charm, Scope};
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::names::RelationNumber;
use state::terms::port_range::{PortRange, Protocol};
use state::terms::secret::{SecretEvent, SecretId, SecretOwnerKind};
use state::terms::settings::{Bag, BagChange};
use state::terms::status::WorkloadStatus;
use state::terms::storage::StorageEvent;
use state::unit::hook_context::{HookContext, HookRelation, HookTrigger, Network};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The number of ports of one range that are listed: `ops.testing` has no ranges.
const PORTS_MAX: u16 = 100;
/// The program of a charm of ops.
const PROGRAM: &str = "src/charm.py";

/// The run with this number of the unit in the folder `dir` as a Python file for pytest.
///
/// # Errors
/// If there is no such run or it runs, `ops.testing` has no event for it, or the charm is not one of ops.
pub fn export(dir: &Path, number: u64) -> Result<String> {
    let unit = unit_folder(dir)?;
    let run = RecordedRun::read(&unit, number)?;
    let class = charm_class(&unit)?;
    let expectation = Expectation::of(&run.end).with_context(|| {
        format!("cannot export run {number}: it has not ended, so that what it will have set is not known")
    })?;
    // without its declarations a charm has no endpoints: the test is still a beginning, and relations are left out
    let charm = InstalledCharmFile::read(&unit).map(InstalledCharmFile::into_charm).unwrap_or_default();
    let test = Test { run: &run, charm: &charm, context: &run.file.context, expectation };
    let Some(event) = test.event() else {
        bail!("cannot export run {number}: ops.testing has no event for {}", run.operation());
    };
    Ok(test.source(&class, &event))
}

/// The class that the program of the charm passes to `ops.main`.
fn charm_class(unit: &UnitFolder) -> Result<String> {
    let path = unit.charm().join(PROGRAM);
    let source = ignore_not_found(fs::read_to_string(&path));
    let source = source.with_context(|| format!("cannot read {}", path.display()))?;
    let Some(source) = source else { bail!("export-run is for ops charms: this charm has no {PROGRAM}") };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let class = source.match_indices("main(").filter_map(|(at, found)| {
        let (before, after) = (&source[..at], &source[at + found.len()..]);
        let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
        let is_call = !before.ends_with(is_word) && !line.starts_with("def ") && !line.starts_with('#');
        let name: String = after.trim_start().chars().take_while(|c| is_word(*c)).collect();
        (is_call && name.starts_with(char::is_uppercase)).then_some(name)
    });
    class.last().with_context(|| {
        format!("export-run is for ops charms: {PROGRAM} of this charm does not call ops.main(CLASS)")
    })
}

/// A run, and what its test is made of.
struct Test<'a> {
    run: &'a RecordedRun,
    charm: &'a Charm,
    context: &'a HookContext,
    expectation: Expectation,
}

/// The secrets of the state: by id, the Python expression that builds each.
type Secrets = BTreeMap<String, String>;

impl Test<'_> {
    /// The relations that the charm declares: `ops.testing` refuses others, such as juju-info.
    fn relations(&self) -> impl Iterator<Item = (RelationNumber, &HookRelation)> {
        let is_declared = |relation: &HookRelation| self.charm.endpoints.contains_key(&relation.endpoint);
        let relations = self.context.relations.iter().map(|(number, relation)| (*number, relation));
        relations.filter(move |(_, relation)| is_declared(relation))
    }

    /// The event of the run. None if `ops.testing` has none.
    fn event(&self) -> Option<String> {
        let simple = |name: &HookName| format!("ctx.on.{}()", name.to_string().replace('-', "_"));
        Some(match &self.context.trigger {
            HookTrigger::Hook(HookName::LeaderSettingsChanged) => return None,
            HookTrigger::Hook(name) => simple(name),
            HookTrigger::Relation { hook: HookName::Relation { event, .. }, about } => {
                self.relations().find(|(number, _)| *number == about.relation)?;
                let unit = about.unit.as_ref().map(|unit| format!(", remote_unit={}", unit.number));
                let departing =
                    about.departing.as_ref().map(|unit| format!(", departing_unit={}", unit.number));
                let more = match event {
                    RelationEventName::Created | RelationEventName::Broken => String::new(),
                    RelationEventName::Joined | RelationEventName::Changed => unit.unwrap_or_default(),
                    RelationEventName::Departed => unit.into_iter().chain(departing).collect(),
                };
                format!("ctx.on.relation_{event}(relation_{}{more})", about.relation)
            }
            HookTrigger::Relation { .. } => return None,
            HookTrigger::Storage { hook: HookName::Storage { event, .. }, id, .. } => {
                let event = match event {
                    StorageEvent::Attached => "attached",
                    StorageEvent::Detaching => "detaching",
                };
                format!("ctx.on.storage_{event}(storage_{})", id.number)
            }
            HookTrigger::Storage { .. } | HookTrigger::Workload { .. } | HookTrigger::Commands(_) => {
                return None;
            }
            // ops.testing refuses it for a secret with an owner
            HookTrigger::Secret { event: SecretEvent::Changed, id, .. }
                if self.context.secrets.contains_key(id) =>
            {
                return None;
            }
            HookTrigger::Secret { event, id, revision, .. } => {
                let revision = match event {
                    SecretEvent::Changed | SecretEvent::Rotate => String::new(),
                    SecretEvent::Expired | SecretEvent::Remove => {
                        // the agent records a revision for both events: 1 only keeps the source valid
                        format!(", revision={}", revision.unwrap_or(1))
                    }
                };
                format!("ctx.on.secret_{event}(secret_{id}{revision})")
            }
            HookTrigger::Action(action) => {
                let params = action.params.iter().filter(|(_, value)| !value.is_null());
                let params = dict(params.map(|(name, value)| (string(name), literal(value))));
                format!("ctx.on.action({}, params={params})", string(&action.name))
            }
        })
    }

    fn source(&self, class: &str, event: &str) -> String {
        let RecordedRun { number, end, .. } = self.run;
        let (unit, operation) = (&self.context.unit, self.run.operation());
        let name: String = operation
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
            .collect();
        let reason = start_reason::describe(&self.run.file.reason);
        let head =
            one_line(&format!("{unit} run {number}: {operation} ({reason}), as Pintle has recorded it."))
                .replace(['"', '\\'], "'");
        let changes = Changes::of(self.context, self.run.lines());
        let asserts = self.asserts(&changes);
        let mut lines = vec![format!(
            "ctx = testing.Context({class}, app_name={}, unit_id={})",
            string(&unit.application),
            unit.number
        )];
        lines.extend(self.variables());
        lines.push(format!("state = {}", self.state()));
        let mut imports = String::new();
        match (&changes.writes.action.failed, self.expectation.comment(end)) {
            (_, Some(comment)) => {
                lines.push(comment);
                lines.push(format!("ctx.run({event}, state)"));
            }
            (Some(message), None) => {
                imports = "import pytest\n".to_owned();
                lines.push("with pytest.raises(testing.ActionFailed) as failed:".to_owned());
                lines.push(format!("    ctx.run({event}, state)"));
                lines.push(format!("assert failed.value.message == {}", string(message)));
            }
            (None, None) => {
                lines.push(format!("out = ctx.run({event}, state)"));
                lines.extend(asserts);
            }
        }
        let body: String = lines.iter().map(|line| format!("    {line}\n")).collect();
        format!(
            "\"\"\"{head}\n\nRun it in the folder of the charm: PYTHONPATH=src:lib pytest FILE\n\
             It needs pytest and ops[testing] 2.17 or newer. Contents of secrets are placeholders.\n\"\"\"\n\n\
             {imports}from charm import {class}\nfrom ops import testing\n\n\ndef test_run_{number}_{name}():\n{body}"
        )
    }

    /// The variables of what an event or an assertion refers to.
    fn variables(&self) -> Vec<String> {
        let relations = self
            .relations()
            .map(|(number, relation)| format!("relation_{number} = {}", self.relation(number, relation)));
        let storage = self.context.storage.keys().map(|id| {
            let (name, number) = (string(&id.name), id.number);
            format!("storage_{number} = testing.Storage({name}, index={number})")
        });
        let secrets = self.secrets().into_iter().map(|(id, secret)| format!("secret_{id} = {secret}"));
        relations.chain(storage).chain(secrets).collect()
    }

    fn state(&self) -> String {
        let context = self.context;
        let names = |names: Vec<String>| format!("[{}]", names.join(", "));
        let mut arguments = vec![format!("leader={}", if context.leader { "True" } else { "False" })];
        let config = context.config.iter().filter(|(_, value)| !value.is_null());
        let config: Vec<String> =
            config.map(|(name, value)| format!("{}: {}", string(name), literal(value))).collect();
        if !config.is_empty() {
            arguments.push(block("config={", &config, "}", 2));
        }
        let mut add = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                arguments.push(format!("{name}={}", names(values)));
            }
        };
        add("relations", self.relations().map(|(number, _)| format!("relation_{number}")).collect());
        add("storages", context.storage.keys().map(|id| format!("storage_{}", id.number)).collect());
        add("secrets", self.secrets().keys().map(|id| format!("secret_{id}")).collect());
        add(
            "opened_ports",
            context.opened_ports.values().flatten().flat_map(|range| ports(*range)).collect(),
        );
        add("networks", self.networks());
        arguments.push(format!("planned_units={}", context.goal_state.units.len().max(1)));
        let (unit, application) = (&context.statuses.unit, &context.statuses.application);
        arguments.extend(status(unit.status, &unit.message).map(|status| format!("unit_status={status}")));
        if context.leader {
            let status = status(application.status, &application.message);
            arguments.extend(status.map(|status| format!("app_status={status}")));
        }
        let model = &context.model;
        arguments.push(format!(
            "model=testing.Model({}, uuid={})",
            string(&model.name),
            string(&model.uuid.to_string())
        ));
        call("testing.State", &arguments, 1)
    }

    fn relation(&self, number: RelationNumber, relation: &HookRelation) -> String {
        let (unit, application) = (&self.context.unit, &self.context.unit.application);
        let none = Bag::new();
        let of_application = |name: &String| strings(relation.application_bags.get(name).unwrap_or(&none));
        // a departed unit is no member, and its settings can still be read
        let about = self.context.trigger.relation_context().filter(|about| about.relation == number);
        let remote_unit = about.and_then(|about| about.unit.clone());
        let members: BTreeSet<_> =
            relation.members.iter().cloned().chain(remote_unit).filter(|member| member != unit).collect();
        let units: Vec<(u32, String)> = members
            .iter()
            .map(|member| (member.number, strings(relation.unit_bags.get(member).unwrap_or(&none))))
            .collect();
        let all = || dict(units.iter().map(|(number, bag)| (number.to_string(), bag.clone())));
        let mut arguments = vec![string(&relation.endpoint)];
        let is_container = self
            .charm
            .endpoints
            .get(&relation.endpoint)
            .is_some_and(|endpoint| endpoint.scope == Scope::Container);
        let kind = match (relation.peer, is_container) {
            (true, _) => "testing.PeerRelation",
            (false, true) => "testing.SubordinateRelation",
            (false, false) => "testing.Relation",
        };
        arguments.push(format!("interface={}", string(&relation.interface)));
        arguments.push(format!("id={number}"));
        arguments.push(format!("local_app_data={}", of_application(application)));
        arguments.push(format!("local_unit_data={}", strings(relation.unit_bags.get(unit).unwrap_or(&none))));
        if relation.peer {
            arguments.push(format!("peers_data={}", all()));
            return call(kind, &arguments, 1);
        }
        arguments.push(format!("remote_app_name={}", string(&relation.remote_application)));
        arguments.push(format!("remote_app_data={}", of_application(&relation.remote_application)));
        match (is_container, units.first()) {
            (true, Some((number, bag))) => {
                arguments.push(format!("remote_unit_id={number}"));
                arguments.push(format!("remote_unit_data={bag}"));
            }
            (true, None) => {}
            (false, _) => arguments.push(format!("remote_units_data={}", all())),
        }
        call(kind, &arguments, 1)
    }

    /// The secrets of the unit and its application, those that the run has read, and that of its event.
    fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::new();
        let reads: Vec<&ConfidentialCall> = self
            .run
            .lines()
            .iter()
            .filter_map(|line| match line {
                CallsLine::Confidential(call) if !call.keys.is_empty() => Some(call),
                CallsLine::Confidential(_) | CallsLine::Call(_) | CallsLine::Bag(_) => None,
            })
            .collect();
        let named = |call: &&ConfidentialCall, id: &SecretId, label: &str| {
            let is_it = |name: &str| name == id.as_str() || (!label.is_empty() && name == label);
            call.args.iter().any(|arg| is_it(last_part(arg)))
        };
        let source = |id: &SecretId, label: &str, owner: Option<&str>| {
            let read = reads.iter().copied().find(|call| named(call, id, label));
            let content = match read {
                Some(call) => call.keys.clone(),
                None => BTreeMap::from([("key".to_owned(), format!("SECRET({id} key)"))]),
            };
            let owner = owner.map(|owner| format!(", owner={}", string(owner))).unwrap_or_default();
            let label = if label.is_empty() { String::new() } else { format!(", label={}", string(label)) };
            format!(
                "testing.Secret({}, id={}{owner}{label})",
                strings(&content),
                string(&format!("secret:{id}"))
            )
        };
        for (id, secret) in &self.context.secrets {
            let owner = match secret.owner {
                SecretOwnerKind::Unit => "unit",
                SecretOwnerKind::Application | SecretOwnerKind::Model => "app",
            };
            secrets.insert(id.to_string(), source(id, &secret.label, Some(owner)));
        }
        let mut consumed: Vec<(SecretId, String)> = Vec::new();
        if let HookTrigger::Secret { id, label, .. } = &self.context.trigger {
            consumed.push((*id, label.clone()));
        }
        for call in &reads {
            let id = call.args.iter().find_map(|arg| last_part(arg).parse().ok());
            consumed.extend(id.map(|id| (id, label(&call.args).unwrap_or_default().to_owned())));
        }
        for (id, label) in consumed {
            secrets.entry(id.to_string()).or_insert_with(|| source(&id, &label, None));
        }
        secrets
    }

    /// The networks of the bindings that the run has asked for.
    fn networks(&self) -> Vec<String> {
        let text = |arg: &StoredBytes| match arg {
            StoredBytes::Text(text) => Some(text.clone()),
            StoredBytes::Raw { .. } | StoredBytes::Digest { .. } => None,
        };
        let calls = self.run.lines().iter().filter_map(|line| match line {
            CallsLine::Call(call) if call.tool == "network-get" => Some(call),
            CallsLine::Call(_) | CallsLine::Confidential(_) | CallsLine::Bag(_) => None,
        });
        let args = calls.flat_map(|call| call.args.iter().filter_map(text));
        let is_binding = |name: &String| {
            self.charm.endpoints.contains_key(name) || self.charm.extra_bindings.contains(name)
        };
        let names: BTreeSet<String> = args.filter(is_binding).collect();
        let networks = &self.context.networks;
        let found = names.iter().filter_map(|name| Some((name, networks.get(name).or(networks.get(""))?)));
        found.map(|(name, found)| network(name, found)).collect()
    }

    /// What the run has set, as assertions about `out`.
    fn asserts(&self, changes: &Changes) -> Vec<String> {
        let mut lines: Vec<String> = changes.statuses.iter().filter_map(assert_status).collect();
        let declared: BTreeSet<RelationNumber> = self.relations().map(|(number, _)| number).collect();
        for (number, bags) in changes.writes.bags.iter().filter(|(number, _)| declared.contains(number)) {
            for (bag, change) in [("local_unit_data", &bags.unit), ("local_app_data", &bags.application)] {
                lines.extend(assert_settings(&format!("out.get_relation({number}).{bag}"), change));
            }
        }
        let ports = |ranges: &BTreeMap<String, BTreeSet<PortRange>>| -> Vec<String> {
            ranges.values().flatten().flat_map(|range| ports(*range)).collect()
        };
        let after = changes.writes.ports.applied_to(&self.context.opened_ports);
        let is_open: BTreeSet<String> = ports(&after).into_iter().collect();
        for port in ports(&changes.writes.ports.open).into_iter().filter(|port| is_open.contains(port)) {
            lines.push(format!("assert {port} in out.opened_ports"));
        }
        for port in ports(&changes.writes.ports.close).into_iter().filter(|port| !is_open.contains(port)) {
            lines.push(format!("assert {port} not in out.opened_ports"));
        }
        for (key, value) in &changes.writes.action.results {
            if let Some(text) = value.as_str().filter(|text| !is_masked(text)) {
                lines.push(format!("assert str(ctx.action_results[{}]) == {}", string(key), string(text)));
            }
        }
        lines
    }
}

/// Whether a text contains a placeholder. The content may be one that the run itself has created, so that the test cannot
/// know it.
fn is_masked(text: &str) -> bool {
    text.contains(HIDDEN) || text.contains("SECRET(")
}

/// The id or label in an argument: `secret:ID`, `secret://MODEL/ID`, `--label=LABEL`.
fn last_part(arg: &str) -> &str {
    arg.rsplit(['/', ':', '=']).next().unwrap_or(arg)
}

/// The value of `--label` in the arguments of secret-get.
fn label(args: &[String]) -> Option<&str> {
    let follows = args.iter().position(|arg| arg == "--label").and_then(|at| args.get(at + 1));
    let joined = || args.iter().find_map(|arg| arg.strip_prefix("--label="));
    follows.map(String::as_str).or_else(joined)
}

/// The class of a status in `ops.testing`. None for one that a charm cannot set.
fn status_class(status: WorkloadStatus) -> Option<&'static str> {
    match status {
        WorkloadStatus::Active => Some("ActiveStatus"),
        WorkloadStatus::Blocked => Some("BlockedStatus"),
        WorkloadStatus::Maintenance => Some("MaintenanceStatus"),
        WorkloadStatus::Waiting => Some("WaitingStatus"),
        WorkloadStatus::Error | WorkloadStatus::Terminated | WorkloadStatus::Unknown => None,
    }
}

fn status(status: WorkloadStatus, message: &str) -> Option<String> {
    Some(format!("testing.{}({})", status_class(status)?, string(message)))
}

fn assert_status(Status { subject, status, text }: &Status) -> Option<String> {
    let field = match subject {
        StatusSubject::Unit => "unit_status",
        StatusSubject::Application => "app_status",
        StatusSubject::WorkloadVersion if is_masked(text) => {
            return Some("assert out.workload_version".to_owned());
        }
        StatusSubject::WorkloadVersion => {
            return Some(format!("assert out.workload_version == {}", string(text)));
        }
    };
    let class = status_class((*status)?)?;
    Some(match is_masked(text) {
        true => format!("assert isinstance(out.{field}, testing.{class})"),
        false => format!("assert out.{field} == testing.{class}({})", string(text)),
    })
}

fn assert_settings(bag: &str, change: &BagChange) -> Vec<String> {
    let line = |(key, value): (&String, &String)| {
        let key = string(key);
        match value.as_str() {
            "" => format!("assert {key} not in {bag}"),
            value if is_masked(value) => format!("assert {key} in {bag}"),
            value => format!("assert {bag}[{key}] == {}", string(value)),
        }
    };
    change.iter().map(line).collect()
}

fn ports(range: PortRange) -> Vec<String> {
    let class = match range.protocol {
        Protocol::Icmp => return vec!["testing.ICMPPort()".to_owned()],
        Protocol::Tcp => "TCPPort",
        Protocol::Udp => "UDPPort",
    };
    let last = range.to.min(range.from.saturating_add(PORTS_MAX - 1));
    (range.from..=last).map(|port| format!("testing.{class}({port})")).collect()
}

fn network(name: &str, network: &Network) -> String {
    let devices = network.devices.iter().map(|device| {
        let addresses = device.addresses.iter().map(|address| {
            let (value, cidr) = (string(&address.value), string(&address.cidr));
            format!("testing.Address({value}, hostname={}, cidr={cidr})", string(&address.hostname))
        });
        let addresses: Vec<String> = addresses.collect();
        format!("testing.BindAddress([{}], interface_name={})", addresses.join(", "), string(&device.name))
    });
    let devices: Vec<String> = devices.collect();
    let list = |texts: &[String]| texts.iter().map(|text| string(text)).collect::<Vec<_>>().join(", ");
    format!(
        "testing.Network({}, [{}], ingress_addresses=[{}], egress_subnets=[{}])",
        string(name),
        devices.join(", "),
        list(&network.ingress),
        list(&network.egress)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_secret_is_found_in_both_forms() {
        let label_of = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            label(&args).map(str::to_owned)
        };
        assert_eq!(label_of(&["--label", "db", "secret:1"]), Some("db".to_owned()));
        assert_eq!(label_of(&["secret:1", "--label=db"]), Some("db".to_owned()));
        assert_eq!(label_of(&["secret:1"]), None);
    }
}
