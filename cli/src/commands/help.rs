//! The examples and the related commands of each command, for `--help` and the manual pages.
//!
//! One table: a test checks that no command is missing, that each example is a valid command line of its command, and
//! that each related command exists.

use clap::Command;
use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};
use std::fmt::Write;

/// The commands with their descriptions, one per line, as `help commands` of Juju lists them.
pub fn commands(all: &Command) -> String {
    let shown: Vec<&Command> = all.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let width = shown.iter().map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut lines: Vec<String> = shown
        .iter()
        .map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("{:width$}  {}\n", command.get_name(), about.lines().next().unwrap_or_default())
        })
        .collect();
    lines.sort();
    lines.concat()
}

/// The colours of help on a terminal; `NO_COLOR` and a pipe leave them out.
const STYLES: Styles = Styles::styled()
    .header(HEADER)
    .usage(HEADER)
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default().dimmed());
const HEADER: Style = AnsiColor::Green.on_default().bold();

/// A command, its examples (one per line, without the name of the program), and the commands that are related to it.
pub const EXAMPLES: &[(&str, &str, &str)] = &[
    ("actions", "actions db\nactions db --schema", "run, show-task"),
    ("add-machine", "add-machine\nadd-machine -n 2\nadd-machine manual", "machines, remove-machine, deploy"),
    (
        "add-model",
        "add-model shop\nadd-model shop --config update-status-hook-interval=1m",
        "models, switch, destroy-model",
    ),
    (
        "add-secret",
        "add-secret db-login user=ann password#file=./password",
        "grant-secret, update-secret, secrets",
    ),
    ("add-ssh-key", "add-ssh-key KEY", "ssh-keys, remove-ssh-key, ssh"),
    ("add-storage", "add-storage db/0 data=1G", "storage, detach-storage, attach-storage"),
    ("add-unit", "add-unit web -n 2\nadd-unit web --to 0", "remove-unit, scale-application"),
    ("attach-resource", "attach-resource web site=./site.tar", "resources, deploy, refresh"),
    ("attach-storage", "attach-storage db/1 data/0", "detach-storage, storage"),
    ("cancel-task", "cancel-task 7", "show-task, operations"),
    ("completion", "completion bash\ncompletion fish", "man"),
    ("config", "config web\nconfig web port=8080\nconfig web --reset port", "model-config, show-application"),
    ("constraints", "constraints web", "set-constraints, model-constraints"),
    ("controllers", "controllers\ncontrollers --format json", "show-controller, whoami"),
    ("debug-code", "debug-code web/0\ndebug-code web/0 config-changed --at all", "debug-hooks, replay"),
    ("debug-hooks", "debug-hooks web/0\ndebug-hooks web/0 config-changed", "debug-code, ssh, runs"),
    (
        "debug-log",
        "debug-log\ndebug-log --replay --include web/0\ndebug-log --level WARNING",
        "why, runs, show-status-log",
    ),
    (
        "deploy",
        "deploy ./web\ndeploy ./web shop -n 2 --config port=8080\ndeploy ./bundle.yaml --dry-run",
        "dev, refresh, integrate, status",
    ),
    (
        "destroy-model",
        "destroy-model shop\ndestroy-model shop --no-prompt --destroy-storage --force",
        "add-model, remove-application",
    ),
    ("detach-storage", "detach-storage data/0", "attach-storage, remove-storage"),
    ("dev", "dev ./web\ndev ./web --fakes fakes.yaml\ndev --advance 5m", "deploy, runs, replay"),
    ("disk-usage", "disk-usage\ndisk-usage --format json", "status"),
    ("down", "down", "up"),
    (
        "exec",
        "exec --unit web/0 -- uptime\nexec --application web --parallel=false -- hostname",
        "run, ssh, show-task",
    ),
    ("export-run", "export-run web/0 41 -o test_web.py", "runs, replay"),
    ("expose", "expose web", "unexpose, status"),
    ("grant-secret", "grant-secret db-login web,worker", "revoke-secret, add-secret"),
    ("integrate", "integrate web db\nintegrate web:db db:server", "remove-relation, suspend-relation"),
    ("machines", "machines\nmachines --format json", "show-machine, add-machine"),
    ("man", "man ~/.local/share/man/man1", "completion"),
    (
        "model-config",
        "model-config\nmodel-config update-status-hook-interval=1m\nmodel-config --file settings.yaml",
        "model-defaults, config",
    ),
    ("model-constraints", "model-constraints", "set-model-constraints, constraints"),
    (
        "model-defaults",
        "model-defaults\nmodel-defaults update-status-hook-interval=1m\nmodel-defaults --reset update-status-hook-interval",
        "model-config, add-model",
    ),
    ("models", "models", "switch, show-model, add-model"),
    ("operations", "operations\noperations --apps db --status failed", "show-operation, show-task, run"),
    (
        "refresh",
        "refresh web --path ./web\nrefresh web --path ./web --force-units",
        "deploy, resolved, attach-resource",
    ),
    ("remove-application", "remove-application web\nremove-application web --dry-run", "remove-unit, why"),
    ("remove-machine", "remove-machine 3\nremove-machine 3 --force", "machines, add-machine"),
    ("remove-relation", "remove-relation web db\nremove-relation 3", "integrate, suspend-relation"),
    (
        "remove-secret",
        "remove-secret db-login\nremove-secret db-login --revision 1",
        "add-secret, revoke-secret",
    ),
    ("remove-ssh-key", "remove-ssh-key me@host", "ssh-keys, add-ssh-key"),
    ("remove-storage", "remove-storage data/0\nremove-storage data/0 --force", "detach-storage, storage"),
    (
        "remove-unit",
        "remove-unit web/1\nremove-unit web --num-units 2\nremove-unit web/1 --dry-run",
        "add-unit, why",
    ),
    ("replay", "replay web/0 41", "runs, show-run, export-run"),
    ("resolved", "resolved web/0\nresolved web/0 --no-retry\nresolved --all", "why, refresh, debug-log"),
    ("resources", "resources web\nresources web --details", "attach-resource"),
    ("resume-relation", "resume-relation 3", "suspend-relation"),
    ("retry-provisioning", "retry-provisioning 3", "machines, why"),
    ("revoke-secret", "revoke-secret db-login web", "grant-secret"),
    (
        "run",
        "run db/0 backup\nrun db/leader restore file=a.tar --wait 5m",
        "actions, show-task, cancel-task, exec",
    ),
    ("runs", "runs web/0", "show-run, replay, export-run, debug-log"),
    ("scale-application", "scale-application web 3", "add-unit, remove-unit"),
    ("scp", "scp ./notes.txt web/0:\nscp web/0:/etc/hostname .", "ssh"),
    ("secrets", "secrets\nsecrets --owner model", "show-secret, add-secret"),
    ("set-constraints", "set-constraints web mem=4G", "constraints, set-model-constraints"),
    ("set-model-constraints", "set-model-constraints arch=amd64", "model-constraints"),
    ("show-application", "show-application web", "status, show-unit, config"),
    ("show-controller", "show-controller", "controllers, show-model"),
    ("show-machine", "show-machine 0", "machines, why"),
    ("show-model", "show-model\nshow-model shop", "models, model-config"),
    ("show-operation", "show-operation 7\nshow-operation 7 --watch", "operations, show-task"),
    ("show-run", "show-run web/0 41", "runs, replay"),
    ("show-secret", "show-secret db-login\nshow-secret db-login --reveal", "secrets"),
    (
        "show-status-log",
        "show-status-log web/0\nshow-status-log web/0 --type workload -n 5",
        "status, debug-log",
    ),
    ("show-storage", "show-storage data/0", "storage"),
    ("show-task", "show-task 7\nshow-task 7 --wait 5m", "run, exec, cancel-task"),
    ("show-unit", "show-unit web/0\nshow-unit web/0 --endpoint db", "status, why"),
    ("ssh", "ssh web/0\nssh 0 uptime", "scp, exec, debug-hooks"),
    ("ssh-keys", "ssh-keys\nssh-keys --full", "add-ssh-key, remove-ssh-key"),
    ("status", "status\nstatus web --relations\nstatus --watch 2s", "why, wait-for, show-unit"),
    ("stop-hook", "stop-hook web/0", "why, runs"),
    ("storage", "storage\nstorage --format json", "show-storage, add-storage, storage-pools"),
    ("storage-pools", "storage-pools", "storage, add-storage"),
    ("suspend-relation", "suspend-relation 3 --message maintenance", "resume-relation, remove-relation"),
    ("switch", "switch\nswitch shop\nswitch -", "models, add-model"),
    ("trust", "trust web\ntrust web --remove", "deploy, config"),
    ("unexpose", "unexpose web", "expose"),
    ("up", "up\nup --data ./system\nup --charms ~/charms", "down, add-model, deploy"),
    ("update-secret", "update-secret db-login password#file=./password", "add-secret, show-secret"),
    ("version", "version\nversion --all --format json", "up"),
    ("wait", "wait --settled\nwait --settled --timeout 2m", "wait-for, why, status"),
    (
        "wait-for",
        "wait-for application web\nwait-for application web --query len(units)==2 --timeout 2m",
        "status, why",
    ),
    ("whoami", "whoami", "controllers, switch"),
    ("why", "why\nwhy web/0\nwhy web:db db", "status, resolved, debug-log"),
];

/// The command line with the examples and the related commands of each command, and with colours if that is requested,
/// which a manual page has not.
pub fn documented(command: Command, is_coloured: bool) -> Command {
    let header = if is_coloured { HEADER } else { Style::new() };
    let with_examples = |command: Command| match text(&command, header) {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.styles(STYLES).mut_subcommands(with_examples)
}

/// What follows the help of a command; none if it is hidden.
fn text(command: &Command, header: Style) -> Option<String> {
    let (_, examples, related) = EXAMPLES.iter().find(|(name, ..)| *name == command.get_name())?;
    let mut text = command.get_after_help().map(|before| format!("{before}\n\n")).unwrap_or_default();
    let heading = |heading: &str| format!("{header}{heading}:{header:#}");
    let _ = write!(text, "{}", heading("Examples"));
    examples.lines().for_each(|example| text += &format!("\n  pintle {}", quoted(example)));
    let _ = write!(text, "\n\n{} {related}", heading("See also"));
    Some(text)
}

/// An example as it is typed: a word with characters of the shell is quoted.
fn quoted(example: &str) -> String {
    let needs_quotes = |word: &str| word.contains(['(', ')', '#', '&', '"', '>', '<']);
    let words = example.split(' ').map(|word| match needs_quotes(word) {
        true => format!("'{word}'"),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_command_has_examples_that_are_valid_and_related_commands_that_exist() {
        let command = Arguments::command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<&str> = visible.map(Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(EXAMPLES.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), names);
        for (name, examples, related) in EXAMPLES {
            assert!(!examples.is_empty() && !related.is_empty(), "{name}");
            for example in examples.lines() {
                let words: Vec<&str> = ["pintle"].into_iter().chain(example.split(' ')).collect();
                assert_eq!(words[1], *name, "{example}");
                if let Err(error) = Arguments::try_parse_from(words) {
                    panic!("{example}: {error}");
                }
            }
            for other in related.split(", ") {
                assert!(names.contains(&other) && other != *name, "{name}: {other}");
            }
        }
    }

    #[test]
    fn help_has_colours_on_a_terminal_alone_and_a_manual_page_none() {
        let help = |is_coloured| {
            let mut command = documented(Arguments::command(), is_coloured);
            let styled = command.find_subcommand_mut("replay").expect("a command").render_help();
            (styled.ansi().to_string(), styled.to_string())
        };
        let (ansi, plain) = help(true);
        assert!(ansi.contains("\u{1b}[") && !plain.contains('\u{1b}'), "{ansi}");
        // what the help of a command says itself is kept
        let mut command = Arguments::command();
        let replay = command.find_subcommand_mut("replay").expect("a command");
        let own = replay.get_after_help().expect("it has a text").to_string();
        let text = text(replay, Style::new()).expect("it has examples");
        assert!(text.starts_with(&own) && text.contains("pintle replay web/0 41"), "{text}");
        assert!(!help(false).1.contains('\u{1b}'));
    }
}
