//! The commands of Juju that Pintle does not have, and what is used instead.

use crate::command_error::CommandError;
use clap::Command;

const UP: &str = "`pintle up` starts a controller, and `pintle down` stops it";
const LOCAL: &str = "charms are deployed from a path: pintle deploy ./CHARM";
const MODELS: &str = "applications of one model are related: pintle integrate A B";
const NETWORK: &str = "all machines are in one network, which the host provides";
const KEYS: &str = "nothing is looked up in the network; `pintle add-ssh-key` adds a key that you have";
const USERS: &str = "the user of the data folder is the only one";
const SECRETS: &str = "the controller stores the contents of secrets, encrypted";
const TERMS: &str = "charms come from folders and files, which have no terms to agree to";
const POOLS: &str = "`pintle storage-pools` lists the pools, which are fixed";
const UPGRADE: &str = "stop Pintle, install the newer programs, and start it: pintle up";
const MACHINES: &str = "a machine keeps its base: add a unit with `pintle add-unit`, and remove the old one";
const METRICS: &str = "charms report with `status-set` and actions, and `pintle status` shows it";
const PLANS: &str = "nothing is bought or metered here, so there are no plans and budgets";
const BRANCHES: &str = "a change applies at once: pintle config, and pintle refresh";
const DASHBOARD: &str = "`pintle status --watch 2s` follows the model";
const HELP: &str =
    "`pintle help COMMAND` describes a command, and `pintle man FOLDER` writes manual pages of all";
const TOOLS: &str =
    "each hook tool describes itself with --help, and docs/reference/hook-tools.md all of them";
const BACKUP: &str = "stop Pintle and copy its data folder (docs/how-to/copy-or-restore.md)";

/// Commands of Juju that are not supported: rejected with `not offered here` (spec/clients.md 3.2), and a hint that names
/// what is used instead. Each is also known by its `list-` form.
pub const NOT_OFFERED: &[(&str, &str)] = &[
    ("add-branch", BRANCHES),
    ("abort", BRANCHES),
    ("add-cloud", UP),
    ("add-credential", UP),
    ("add-k8s", UP),
    ("add-secret-backend", SECRETS),
    ("add-space", NETWORK),
    ("add-subnet", NETWORK),
    ("add-user", USERS),
    ("agree", TERMS),
    ("agreements", TERMS),
    ("allocate", PLANS),
    ("autoload-credentials", UP),
    ("backups", BACKUP),
    ("bind", NETWORK),
    ("bootstrap", UP),
    ("branch", BRANCHES),
    ("branches", BRANCHES),
    ("budget", PLANS),
    ("budgets", PLANS),
    ("cached-images", UP),
    ("change-user-password", USERS),
    ("charm-resources", "`pintle resources APP` lists the resources of an application"),
    ("clouds", UP),
    ("collect-metrics", METRICS),
    ("commit", BRANCHES),
    ("commits", BRANCHES),
    ("consume", MODELS),
    ("controller-config", UP),
    ("create-backup", BACKUP),
    ("create-budget", PLANS),
    ("create-storage-pool", POOLS),
    ("create-wallet", PLANS),
    ("credentials", UP),
    ("dashboard", DASHBOARD),
    ("default-credential", UP),
    ("default-region", UP),
    ("destroy-controller", "`pintle down` stops the controller; delete its data folder afterwards"),
    ("diff", BRANCHES),
    ("diff-bundle", "`pintle deploy BUNDLE --dry-run` shows what it would change"),
    ("disable-command", USERS),
    ("disable-user", USERS),
    ("disabled-commands", USERS),
    ("documentation", HELP),
    ("download", LOCAL),
    ("download-backup", BACKUP),
    ("enable-command", USERS),
    ("enable-destroy-controller", UP),
    ("enable-ha", UP),
    ("enable-user", USERS),
    ("export-bundle", "`pintle status --format yaml` prints the model"),
    ("find", LOCAL),
    ("find-endpoints", MODELS),
    ("find-offers", MODELS),
    ("firewall-rules", NETWORK),
    ("grant", USERS),
    ("grant-cloud", USERS),
    ("gui", DASHBOARD),
    ("help-action-commands", TOOLS),
    ("help-hook-commands", TOOLS),
    ("help-tool", TOOLS),
    ("hook-tool", TOOLS),
    ("hook-tools", TOOLS),
    ("import-filesystem", "`pintle attach-storage` attaches storage of the model"),
    ("import-ssh-key", KEYS),
    ("info", LOCAL),
    ("kill-controller", "`pintle down` stops the controller; delete its data folder afterwards"),
    ("login", USERS),
    ("logout", USERS),
    ("metrics", METRICS),
    ("migrate", BACKUP),
    ("model-secret-backend", SECRETS),
    ("move-to-space", NETWORK),
    ("offer", MODELS),
    ("offers", MODELS),
    ("payloads", METRICS),
    ("plans", PLANS),
    ("regions", UP),
    ("register", "copy `client.yaml` of the data folder, and use --data"),
    ("reload-spaces", NETWORK),
    ("remove-backup", BACKUP),
    ("remove-cached-images", UP),
    ("remove-cloud", UP),
    ("remove-consumed-application", MODELS),
    ("remove-credential", UP),
    ("remove-k8s", UP),
    ("remove-offer", MODELS),
    ("remove-saas", MODELS),
    ("remove-secret-backend", SECRETS),
    ("remove-space", NETWORK),
    ("remove-storage-pool", POOLS),
    ("remove-user", USERS),
    ("rename-space", NETWORK),
    ("restore-backup", BACKUP),
    ("revoke", USERS),
    ("revoke-cloud", USERS),
    ("secret-backends", SECRETS),
    ("set-application-base", "`pintle deploy --base` chooses the base of new machines"),
    ("set-budget", PLANS),
    ("set-credential", UP),
    ("set-default-credential", UP),
    ("set-default-credentials", UP),
    ("set-default-region", UP),
    ("set-firewall-rule", NETWORK),
    ("set-meter-status", METRICS),
    ("set-plan", PLANS),
    ("set-series", MACHINES),
    ("set-wallet", PLANS),
    ("show-action", "`pintle actions APP --schema` shows the parameters of each action"),
    ("show-backup", BACKUP),
    ("show-budget", PLANS),
    ("show-cloud", UP),
    ("show-commit", BRANCHES),
    ("show-credential", UP),
    ("show-credentials", UP),
    ("show-endpoints", MODELS),
    ("show-offer", MODELS),
    ("show-secret-backend", SECRETS),
    ("show-space", NETWORK),
    ("show-user", USERS),
    ("show-wallet", PLANS),
    ("sla", PLANS),
    ("spaces", NETWORK),
    ("subnets", NETWORK),
    ("sync-agent-binaries", UPGRADE),
    ("sync-agent-binary", UPGRADE),
    ("sync-tools", UPGRADE),
    ("track", BRANCHES),
    ("unregister", "a controller is registered nowhere: --data and PINTLE_DATA choose it"),
    ("update-cloud", UP),
    ("update-clouds", UP),
    ("update-credential", UP),
    ("update-credentials", UP),
    ("update-k8s", UP),
    ("update-public-clouds", UP),
    ("update-secret-backend", SECRETS),
    ("update-storage-pool", POOLS),
    ("upgrade-controller", UPGRADE),
    ("upgrade-dashboard", DASHBOARD),
    ("upgrade-gui", DASHBOARD),
    ("upgrade-juju", UPGRADE),
    ("upgrade-machine", MACHINES),
    ("upgrade-model", UPGRADE),
    ("upgrade-series", MACHINES),
    ("upload-backup", BACKUP),
    ("users", USERS),
    ("wallets", PLANS),
];

/// Commands of earlier versions of Juju whose successor takes other arguments: rejected with the name of the successor.
/// Those whose arguments are the same are hidden aliases in [`crate::commands::Verb`].
pub const RETIRED: &[(&str, &str)] = &[
    ("destroy-application", "remove-application"),
    ("destroy-machine", "remove-machine"),
    ("destroy-relation", "remove-relation"),
    ("destroy-service", "remove-application"),
    ("destroy-unit", "remove-unit"),
    ("get", "config"),
    ("get-constraints", "constraints"),
    ("get-model-config", "model-config"),
    ("get-model-constraints", "model-constraints"),
    ("remove-service", "remove-application"),
    ("run-action", "run"),
    ("set", "config"),
    ("set-model-config", "model-config"),
    ("show-action-output", "show-task"),
    ("show-action-status", "operations"),
    ("status-history", "show-status-log"),
    ("unset", "config"),
    ("unset-model-config", "model-config"),
];

/// Jaro-Winkler similarity from which a command is suggested for a mistyped word.
const SIMILARITY_MIN: f64 = 0.85;

/// The error for a word that is none of the `known` commands: a command of Juju that is not
/// supported, a retired one, or unknown.
pub fn unknown_verb(words: &[String], known: Command) -> CommandError {
    let verb = words.first().map_or("", String::as_str);
    if let Some((_, successor)) = RETIRED.iter().find(|(retired, _)| *retired == verb) {
        return CommandError::new(format!("{verb} was replaced by {successor}"))
            .hint(format!("see: pintle help {successor}"));
    }
    let listed = verb.strip_prefix("list-").unwrap_or(verb);
    if let Some((_, instead)) = NOT_OFFERED.iter().find(|(known, _)| *known == listed) {
        return CommandError::new(format!("not offered here: {verb}")).hint(*instead);
    }
    let similarity = |name: &str| strsim::jaro_winkler(name, verb);
    let visible = known.get_subcommands().filter(|known| !known.is_hide_set()).map(Command::get_name);
    let nearest = visible.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let nearest = nearest.filter(|name| similarity(name) >= SIMILARITY_MIN);
    CommandError::usage(format!("unrecognized command: {verb}")).hint(match nearest {
        Some(name) => format!("did you mean: pintle {name}"),
        None => "see: pintle help".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_nearest_command_is_suggested_for_a_mistyped_one() {
        let hint = |verb: &str| unknown_verb(&[verb.to_owned()], Arguments::command()).text();
        for (mistyped, meant) in [("stauts", "status"), ("remove-untis", "remove-unit"), ("deply", "deploy")]
        {
            assert!(hint(mistyped).contains(&format!(": pintle {meant}\n")), "{}", hint(mistyped));
        }
        assert!(hint("frobnicate").contains(": pintle help"), "{}", hint("frobnicate"));
    }

    #[test]
    fn an_unsupported_command_of_juju_is_reported_by_name() {
        let failure = unknown_verb(&["bootstrap".to_owned(), "x".to_owned()], Arguments::command());
        assert!(failure.message.ends_with(": bootstrap"), "{failure:?}");
        assert_eq!(failure.code, 1);
        assert_eq!(unknown_verb(&["frobnicate".to_owned()], Arguments::command()).code, 2);
    }
}
