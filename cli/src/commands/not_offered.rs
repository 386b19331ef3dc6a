//! The commands of Juju that Pintle does not have, and what is used instead.

use crate::command_error::CommandError;
use clap::Command;

const UP: &str = "`pintle up` starts a controller, and `pintle down` stops it";
const LOCAL: &str = "charms are deployed from a path: pintle deploy ./CHARM";
const MODELS: &str = "applications of one model are related: pintle integrate A B";
const NETWORK: &str = "all machines are in one network, which the host provides";
const KEYS: &str = "nothing is looked up in the network; `pintle add-ssh-key` adds a key that you have";
const USERS: &str = "the user of the data folder is the only one";
const BACKUP: &str = "stop Pintle and copy its data folder (docs/how-to/copy-or-restore.md)";

/// Commands of Juju that are not supported: rejected with `not offered here` (spec/clients.md 3.2), and a hint that names
/// what is used instead.
pub const NOT_OFFERED: [(&str, &str); 58] = [
    ("add-cloud", UP),
    ("add-credential", UP),
    ("add-k8s", UP),
    ("add-space", NETWORK),
    ("add-user", USERS),
    ("autoload-credentials", UP),
    ("bind", NETWORK),
    ("bootstrap", UP),
    ("change-user-password", USERS),
    ("charm-resources", "`pintle resources APP` lists the resources of an application"),
    ("clouds", UP),
    ("consume", MODELS),
    ("controller-config", UP),
    ("create-backup", BACKUP),
    ("create-storage-pool", "`pintle storage-pools` lists the pools"),
    ("credentials", UP),
    ("dashboard", "`pintle status --watch 2s` follows the model"),
    ("default-credential", UP),
    ("default-region", UP),
    ("destroy-controller", "`pintle down` stops the controller; delete its data folder afterwards"),
    ("diff-bundle", "`pintle deploy BUNDLE --dry-run` shows what it would change"),
    ("disable-command", USERS),
    ("disabled-commands", USERS),
    ("disable-user", USERS),
    ("download", LOCAL),
    ("download-backup", BACKUP),
    ("enable-command", USERS),
    ("enable-destroy-controller", UP),
    ("enable-ha", UP),
    ("enable-user", USERS),
    ("export-bundle", "`pintle status --format yaml` prints the model"),
    ("find", LOCAL),
    ("find-offers", MODELS),
    ("firewall-rules", NETWORK),
    ("grant", USERS),
    ("grant-cloud", USERS),
    ("import-filesystem", "`pintle attach-storage` attaches storage of the model"),
    ("import-ssh-key", KEYS),
    ("info", LOCAL),
    ("kill-controller", "`pintle down` stops the controller; delete its data folder afterwards"),
    ("login", USERS),
    ("logout", USERS),
    ("migrate", BACKUP),
    ("offer", MODELS),
    ("offers", MODELS),
    ("regions", UP),
    ("register", "copy `client.yaml` of the data folder, and use --data"),
    ("reload-spaces", NETWORK),
    ("remove-offer", MODELS),
    ("remove-saas", MODELS),
    ("remove-user", USERS),
    ("revoke", USERS),
    ("set-application-base", "`pintle deploy --base` chooses the base of new machines"),
    ("set-firewall-rule", NETWORK),
    ("show-cloud", UP),
    ("spaces", NETWORK),
    ("subnets", NETWORK),
    ("upgrade-model", "stop Pintle, install the newer programs, and start it: pintle up"),
];

/// Jaro-Winkler similarity from which a command is suggested for a mistyped word.
const SIMILARITY_MIN: f64 = 0.85;

/// The error for a word that is none of the `known` commands: either a command of Juju that is not supported, or unknown.
pub fn unknown_verb(words: &[String], known: Command) -> CommandError {
    let verb = words.first().map_or("", String::as_str);
    if let Some((_, instead)) = NOT_OFFERED.iter().find(|(known, _)| *known == verb) {
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
