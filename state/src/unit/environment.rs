//! The environment variables of a hook's process (spec/hook-tools.md 4).
//!
//! The process has exactly these variables; it inherits nothing from the agent except [`KUBERNETES_VARIABLES`]. Commands
//! that run on the machine, outside of the context of the unit, have the proxy settings, `LANG`, `PATH` and
//! [`MACHINE_RUN_ID`] only. The agent's hook process calls [`environment`] for every run; a debug session adds the variables
//! of its terminal.

use super::hook_context::{HookContext, HookTrigger};
use crate::terms::commands::RelationContext;

/// The facts of the agent and its machine, which are not part of the hook context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// The charm's folder: `<data>/agents/unit-web-0/charm`.
    pub charm_dir: String,
    /// The folder of the hook tools, which comes first in PATH.
    pub tools_dir: String,
    /// The path of the Unix socket that the hook tools connect to.
    pub socket: String,
    /// The machine's name; empty on Kubernetes.
    pub machine: String,
    /// The addresses of the controllers as `host:port`.
    pub api_addresses: Vec<String>,
    /// The availability zone of the machine, or empty.
    pub availability_zone: String,
    /// The Juju version that charms read, which is not the version of this program.
    pub version: String,
    /// The API version of the cloud, or empty.
    pub cloud_api_version: String,
    /// The PATH after the folder of the hook tools.
    pub path: String,
    /// The [`KUBERNETES_VARIABLES`] that are set for the agent itself, in the order of that list.
    pub kubernetes: Vec<(String, String)>,
}

/// The variable that identifies the run of commands outside of the context of the unit. No hook tool reads it: it tells
/// `juju-exec` that it is called within a run, and the agent which processes to end.
pub const MACHINE_RUN_ID: &str = "PINTLE_CONTEXT_ID";

/// The names of the variables that differ between the runs of a unit, and the beginnings of such names.
const OF_RUN: [&str; 6] = [
    "JUJU_CONTEXT_ID",
    "JUJU_HOOK_NAME",
    "JUJU_DISPATCH_PATH",
    "JUJU_REMOTE_UNIT",
    "JUJU_REMOTE_APP",
    "JUJU_DEPARTING_UNIT",
];
const OF_RUN_BEGINNINGS: [&str; 6] =
    ["JUJU_RELATION", "JUJU_STORAGE_", "JUJU_SECRET_", "JUJU_WORKLOAD_", "JUJU_NOTICE_", "JUJU_ACTION_"];

/// Whether the variable belongs to one run. The others are the same in all runs of a unit, until its model or its machine
/// changes: a warm parent has these only.
pub fn belongs_to_run(name: &str) -> bool {
    OF_RUN.contains(&name) || OF_RUN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The variables that a hook receives with the agent's own values.
pub const KUBERNETES_VARIABLES: [&str; 9] = [
    "KUBERNETES_PORT",
    "KUBERNETES_PORT_443_TCP",
    "KUBERNETES_PORT_443_TCP_ADDR",
    "KUBERNETES_PORT_443_TCP_PORT",
    "KUBERNETES_PORT_443_TCP_PROTO",
    "KUBERNETES_SERVICE",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "KUBERNETES_SERVICE_PORT_HTTPS",
];

/// Returns the complete environment of one run. A variable that belongs to another kind of run is absent, not empty:
/// shell charms under `set -u` and `ops` distinguish the two.
pub fn environment(context: &HookContext, facts: &MachineFacts) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));

    for (name, value) in context.model.proxies.legacy.entries() {
        if !value.is_empty() {
            add(name, value);
            add(&name.to_uppercase(), value);
        }
    }
    if context.trigger.runs_on_machine() {
        add(MACHINE_RUN_ID, &context.id);
        add("LANG", "C.UTF-8");
        add("PATH", &facts.path);
        return variables;
    }
    for (name, value) in &facts.kubernetes {
        add(name, value);
    }
    add("CHARM_DIR", &facts.charm_dir);
    add("JUJU_CHARM_DIR", &facts.charm_dir);
    add("JUJU_CONTEXT_ID", &context.id);
    add("JUJU_HOOK_NAME", &context.trigger.hook_name());
    add("JUJU_AGENT_SOCKET_ADDRESS", &facts.socket);
    add("JUJU_AGENT_SOCKET_NETWORK", "unix");
    add("JUJU_UNIT_NAME", &context.unit.to_string());
    add("JUJU_MODEL_UUID", &context.model.uuid.to_string());
    add("JUJU_MODEL_NAME", &context.model.name);
    add("JUJU_API_ADDRESSES", &facts.api_addresses.join(" "));
    add("JUJU_SLA", "");
    add("JUJU_MACHINE_ID", &facts.machine);
    let principal = context.principal.as_ref().map(ToString::to_string);
    add("JUJU_PRINCIPAL_UNIT", principal.as_deref().unwrap_or_default());
    add("JUJU_AVAILABILITY_ZONE", &facts.availability_zone);
    add("JUJU_VERSION", &facts.version);
    add("CLOUD_API_VERSION", &facts.cloud_api_version);
    for (name, value) in context.model.proxies.charm.entries() {
        add(&format!("JUJU_CHARM_{}", name.to_uppercase()), value);
    }
    if let Some(path) = context.trigger.dispatch_path() {
        add("JUJU_DISPATCH_PATH", &path);
    }
    if let Some(about) = context.trigger.relation_context() {
        relation_variables(context, about, &mut add);
    }
    trigger_variables(&context.trigger, &mut add);
    add("APT_LISTCHANGES_FRONTEND", "none");
    add("DEBIAN_FRONTEND", "noninteractive");
    add("LANG", "C.UTF-8");
    add("TERM", "tmux-256color");
    add("PATH", &format!("{}:{}", facts.tools_dir, facts.path));
    variables
}

/// Adds the variables of a relation. JUJU_REMOTE_UNIT is present but empty in created, broken and application-level
/// changed.
fn relation_variables(context: &HookContext, about: &RelationContext, add: &mut impl FnMut(&str, &str)) {
    if let Some(relation) = context.relations.get(&about.relation) {
        add("JUJU_RELATION", &relation.endpoint);
        add("JUJU_RELATION_ID", &format!("{}:{}", relation.endpoint, about.relation));
    }
    add("JUJU_REMOTE_UNIT", &about.unit.as_ref().map_or_else(String::new, ToString::to_string));
    add("JUJU_REMOTE_APP", &about.application);
    if let Some(departing) = &about.departing {
        add("JUJU_DEPARTING_UNIT", &departing.to_string());
    }
}

/// Adds the variables that only this kind of run has.
fn trigger_variables(trigger: &HookTrigger, add: &mut impl FnMut(&str, &str)) {
    match trigger {
        HookTrigger::Hook(_) | HookTrigger::Relation { .. } | HookTrigger::Commands(_) => {}
        HookTrigger::Storage { id, location, kind, .. } => {
            add("JUJU_STORAGE_ID", &id.to_string());
            add("JUJU_STORAGE_LOCATION", location);
            add("JUJU_STORAGE_KIND", kind.as_str());
        }
        HookTrigger::Secret { id, label, revision, .. } => {
            add("JUJU_SECRET_ID", &format!("secret:{id}"));
            add("JUJU_SECRET_LABEL", label);
            if let Some(revision) = revision {
                add("JUJU_SECRET_REVISION", &revision.to_string());
            }
        }
        HookTrigger::Workload { workload, notice } => {
            add("JUJU_WORKLOAD_NAME", workload);
            add("JUJU_NOTICE_ID", &notice.id);
            add("JUJU_NOTICE_TYPE", &notice.kind);
            add("JUJU_NOTICE_KEY", &notice.key);
        }
        HookTrigger::Action(action) => {
            add("JUJU_ACTION_NAME", &action.name);
            add("JUJU_ACTION_UUID", &action.id);
            add("JUJU_ACTION_TAG", &format!("action-{}", action.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::hook_name::{HookName, RelationEventName};
    use crate::terms::names::UnitName;
    use crate::terms::proxy::Proxy;
    use crate::tests::hook_context;
    use crate::unit::hook_context::{RunningAction, RunningCommands};

    fn context(trigger: HookTrigger) -> HookContext {
        let mut context = HookContext { trigger, ..hook_context::context() };
        context.model.proxies.charm.http = "http://p".to_owned();
        context
    }

    fn machine_facts() -> MachineFacts {
        MachineFacts {
            charm_dir: "/d/agents/unit-web-0/charm".to_owned(),
            tools_dir: "/d/tools/unit-web-0".to_owned(),
            socket: "/run/s".to_owned(),
            machine: "3".to_owned(),
            api_addresses: vec!["10.0.0.1:1".to_owned(), "10.0.0.2:2".to_owned()],
            version: "3.6.14".to_owned(),
            path: "/usr/bin:/bin".to_owned(),
            ..MachineFacts::default()
        }
    }

    /// The variables that every run has (spec/hook-tools.md 4).
    const ALWAYS: &[(&str, &str)] = &[
        ("CHARM_DIR", "/d/agents/unit-web-0/charm"),
        ("JUJU_CHARM_DIR", "/d/agents/unit-web-0/charm"),
        ("JUJU_CONTEXT_ID", "web/0-config-changed-0"),
        ("JUJU_AGENT_SOCKET_ADDRESS", "/run/s"),
        ("JUJU_AGENT_SOCKET_NETWORK", "unix"),
        ("JUJU_UNIT_NAME", "web/0"),
        ("JUJU_MODEL_UUID", "00000000-0000-0000-0000-000000000001"),
        ("JUJU_MODEL_NAME", "dev"),
        ("JUJU_API_ADDRESSES", "10.0.0.1:1 10.0.0.2:2"),
        ("JUJU_SLA", ""),
        ("JUJU_MACHINE_ID", "3"),
        ("JUJU_PRINCIPAL_UNIT", ""),
        ("JUJU_AVAILABILITY_ZONE", ""),
        ("JUJU_VERSION", "3.6.14"),
        ("CLOUD_API_VERSION", ""),
        ("JUJU_CHARM_HTTP_PROXY", "http://p"),
        ("JUJU_CHARM_HTTPS_PROXY", ""),
        ("JUJU_CHARM_FTP_PROXY", ""),
        ("JUJU_CHARM_NO_PROXY", ""),
        ("APT_LISTCHANGES_FRONTEND", "none"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("LANG", "C.UTF-8"),
        ("TERM", "tmux-256color"),
        ("PATH", "/d/tools/unit-web-0:/usr/bin:/bin"),
    ];

    /// Asserts that the environment consists of exactly the common variables and `own`, each once.
    fn assert_environment(trigger: HookTrigger, own: &[(&str, &str)]) {
        let mut expected: Vec<(String, String)> =
            ALWAYS.iter().chain(own).map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let mut actual = environment(&context(trigger), &machine_facts());
        expected.sort();
        actual.sort();
        assert_eq!(actual, expected);
        for (name, _) in own {
            assert!(belongs_to_run(name), "{name}");
        }
        let of_every_run = ALWAYS.iter().filter(|(name, _)| *name != "JUJU_CONTEXT_ID");
        for (name, _) in of_every_run {
            assert!(!belongs_to_run(name), "{name}");
        }
    }

    #[test]
    fn a_plain_hook_has_nothing_beyond_the_common_variables() {
        let own = [("JUJU_HOOK_NAME", "install"), ("JUJU_DISPATCH_PATH", "hooks/install")];
        assert_environment(HookTrigger::Hook(HookName::Install), &own);
    }

    fn relation_hook(event: RelationEventName) -> HookName {
        HookName::Relation { endpoint: "db".to_owned(), event }
    }

    #[test]
    fn a_relation_hook_without_a_unit_has_an_empty_remote_unit() {
        let about =
            RelationContext { relation: 1, unit: None, application: "mysql".to_owned(), departing: None };
        let own = [
            ("JUJU_HOOK_NAME", "db-relation-broken"),
            ("JUJU_DISPATCH_PATH", "hooks/db-relation-broken"),
            ("JUJU_RELATION", "db"),
            ("JUJU_RELATION_ID", "db:1"),
            ("JUJU_REMOTE_UNIT", ""),
            ("JUJU_REMOTE_APP", "mysql"),
        ];
        assert_environment(
            HookTrigger::Relation { hook: relation_hook(RelationEventName::Broken), about },
            &own,
        );
    }

    #[test]
    fn departed_names_the_departing_unit() {
        let about = RelationContext {
            relation: 1,
            unit: Some(UnitName::new("mysql", 1)),
            application: "mysql".to_owned(),
            departing: Some(UnitName::new("web", 0)),
        };
        let own = [
            ("JUJU_HOOK_NAME", "db-relation-departed"),
            ("JUJU_DISPATCH_PATH", "hooks/db-relation-departed"),
            ("JUJU_RELATION", "db"),
            ("JUJU_RELATION_ID", "db:1"),
            ("JUJU_REMOTE_UNIT", "mysql/1"),
            ("JUJU_REMOTE_APP", "mysql"),
            ("JUJU_DEPARTING_UNIT", "web/0"),
        ];
        assert_environment(
            HookTrigger::Relation { hook: relation_hook(RelationEventName::Departed), about },
            &own,
        );
    }

    #[test]
    fn an_action_has_an_empty_hook_name_and_commands_have_no_dispatch_path() {
        let action =
            RunningAction { name: "backup".to_owned(), id: "14".to_owned(), params: serde_json::Map::new() };
        let own = [
            ("JUJU_HOOK_NAME", ""),
            ("JUJU_DISPATCH_PATH", "actions/backup"),
            ("JUJU_ACTION_NAME", "backup"),
            ("JUJU_ACTION_UUID", "14"),
            ("JUJU_ACTION_TAG", "action-14"),
        ];
        assert_environment(HookTrigger::Action(action), &own);
        assert_environment(HookTrigger::Commands(RunningCommands::default()), &[("JUJU_HOOK_NAME", "")]);
    }

    #[test]
    fn commands_of_a_machine_have_no_variable_of_the_unit() {
        let commands = RunningCommands { on_machine: true, ..RunningCommands::default() };
        let variables = environment(&context(HookTrigger::Commands(commands)), &machine_facts());
        let id = ("PINTLE_CONTEXT_ID", "web/0-config-changed-0");
        let expected = [id, ("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin")];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn legacy_proxies_are_set_in_both_cases_and_only_if_not_empty() {
        let mut context = context(HookTrigger::Hook(HookName::Start));
        context.model.proxies.legacy = Proxy { no_proxy: "10.0.0.0/8".to_owned(), ..Proxy::default() };
        let variables = environment(&context, &machine_facts());
        let proxies: Vec<&str> = variables
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| name.to_lowercase().ends_with("_proxy") && !name.starts_with("JUJU"))
            .collect();
        assert_eq!(proxies, ["no_proxy", "NO_PROXY"]);
    }
}
