//! The list of all commands: module, help text and call of each.
//!
//! A file has one command and its name, or several commands about the same thing: `add_secret` has `update-secret`, too,
//! and `constraints`, `storage` or `recorded_runs` every command about these. `bases`, `charm_source`, `resource_files`,
//! `removal`, `settings` and `task_results` are used by several commands; `deploy` is the command of `deploy_bundle` and
//! `deploy_charm`; `help` has the examples, and `not_offered` the commands of Juju that do not exist here.
//!
//! The recipe for a new command is in ARCHITECTURE.md. `dispatch` is called by `main`; it opens the session for the
//! commands that need a controller. A command fails if an argument is invalid, if the controller refuses its request or
//! does not answer, or if a file cannot be read or written.

pub mod actions;
pub mod add_machine;
pub mod add_model;
pub mod add_secret;
pub mod add_unit;
pub mod bases;
pub mod cancel_task;
pub mod change_storage;
pub mod charm_source;
pub mod completion;
pub mod config;
pub mod constraints;
pub mod controllers;
pub mod debug_hooks;
pub mod debug_log;
pub mod deploy;
pub mod deploy_bundle;
pub mod deploy_charm;
pub mod destroy_model;
pub mod dev;
pub mod disk_usage;
mod dispatch;
pub mod down;
pub mod exec;
pub mod expose;
pub mod grant_secret;
pub mod help;
pub mod integrate;
pub mod machines;
pub mod model_config;
pub mod model_defaults;
pub mod models;
pub mod not_offered;
pub mod operations;
pub mod recorded_runs;
pub mod refresh;
pub mod removal;
pub mod remove_application;
pub mod remove_machine;
pub mod remove_relation;
pub mod remove_secret;
pub mod remove_unit;
pub mod resolved;
pub mod resource_files;
pub mod resources;
pub mod retry_provisioning;
pub mod run;
pub mod scale_application;
pub mod scp;
pub mod secrets;
pub mod settings;
pub mod show_application;
pub mod show_machine;
pub mod show_model;
pub mod show_status_log;
pub mod show_task;
pub mod show_unit;
pub mod ssh;
pub mod ssh_keys;
pub mod status;
pub mod storage;
pub mod supervise;
pub mod suspend_relation;
pub mod switch;
pub mod task_results;
pub mod trust;
pub mod up;
mod up_store;
pub mod version;
pub mod wait;
pub mod wait_for;
pub mod why;

use crate::arguments::GlobalArguments;
use crate::command_error::CommandError;
use crate::commands::not_offered::unknown_verb;
use crate::data_dir::DataDir;
use crate::flag_forms;
use crate::openssh_options::separated;
use crate::output::Output;
use crate::session::{CommandSession, explain};
use crate::supervisor::identity;
use crate::terminal_width::{columns, fitted};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
pub use dispatch::dispatch;
use std::ffi::OsString;

/// Deploy, integrate and operate charms, and explain what they wait for.
#[derive(Debug, Parser)]
#[command(name = "pintle", about, version, arg_required_else_help = true, infer_subcommands = false)]
pub struct Arguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub verb: Verb,
}

impl Arguments {
    /// Parses the command line of this process. Help and version requests are printed and end the process.
    ///
    /// # Errors
    /// If an argument is invalid.
    pub fn from_process() -> Result<Arguments, CommandError> {
        let command = help::documented(fitted(Arguments::command(), columns(std::io::stdout())), true);
        let words = words_of_process(&command);
        let matches = command.try_get_matches_from(words);
        matches.and_then(|matches| Arguments::from_arg_matches(&matches)).map_err(|error| {
            match error.kind() {
                ErrorKind::DisplayVersion => {
                    print!("{}", version::text());
                    std::process::exit(0);
                }
                ErrorKind::MissingSubcommand => {
                    let help = fitted(Arguments::command(), columns(std::io::stdout()));
                    let mut help = help::documented(help, true);
                    help.build(); // the name of the program in front of that of its command
                    // `wait-for` has commands of its own
                    let verb = std::env::args().find(|word| help.find_subcommand(word).is_some());
                    match verb.and_then(|verb| help.find_subcommand_mut(verb)) {
                        Some(verb) => verb.print_help().ok(),
                        None => help.print_help().ok(),
                    };
                    std::process::exit(0);
                }
                ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
                ErrorKind::InvalidSubcommand => match help_topic(std::env::args().collect(), &error) {
                    Some(topic) if topic == "commands" => {
                        print!("{}", help::commands(&Arguments::command()));
                        std::process::exit(0);
                    }
                    Some(topic) => unknown_verb(&[topic], Arguments::command()),
                    None => usage_error(&error.render().to_string()),
                },
                _ => usage_error(&error.render().to_string()),
            }
        })
    }
}

/// The words of the command line, with the options of OpenSSH apart and flags in the forms of clap.
fn words_of_process(command: &clap::Command) -> Vec<OsString> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let texts: Option<Vec<String>> = words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let rewritten = texts.map(|texts| flag_forms::rewritten(separated(texts), command));
    rewritten.map_or(words, |texts| texts.into_iter().map(OsString::from).collect())
}

/// The command whose help was requested, if the error is that it is unknown.
fn help_topic(words: Vec<String>, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    words.windows(2).any(|pair| pair[0] == "help" && pair[1] == *unknown).then(|| unknown.clone())
}

/// Converts clap's multi-line text to a usage error: the message is what is wrong, the hint is the usage line.
fn usage_error(clap_text: &str) -> CommandError {
    let mut parts = clap_text.trim_start_matches("error: ").split("\n\n").map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.join(" ")
    });
    let failure = CommandError::usage(parts.next().unwrap_or_default());
    // a mistyped flag is no value, and a flag that comes from the environment is not required
    let is_hint = |part: &String| {
        part.starts_with("tip:") && !part.starts_with("tip: to pass") || part.starts_with("Usage:")
    };
    let hints: Vec<String> = parts.filter(is_hint).collect();
    failure.hint(hints.join("\n").replace(" --data <DIR>", "").replace(" --model <MODEL>", ""))
}

/// The commands, with the help text that the operator reads.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a controller and its machines in the background
    Up(up::UpArgs),
    /// Stop the controller and its machines; their state is kept
    Down(down::DownArgs),
    /// Deploy a charm from a folder or a .charm file, or a bundle of charms
    Deploy(deploy::DeployArgs),
    /// Deploy a charm again on each save, and show its hooks as they run
    Dev(dev::DevArgs),
    /// Add units to an application
    AddUnit(add_unit::AddUnitArgs),
    /// Add or remove units until an application has a number of them
    ScaleApplication(scale_application::ScaleApplicationArgs),
    /// Integrate two applications
    #[command(visible_alias = "relate", alias = "add-relation")]
    Integrate(integrate::IntegrateArgs),
    /// Show or change the settings of an application
    #[command(aliases = ["get-config", "set-config"])]
    Config(config::ConfigArgs),
    /// Let the charm of an application read the credential of its cloud
    Trust(trust::TrustArgs),
    /// Show an application as exposed
    Expose(expose::ExposeArgs),
    /// Show an application as not exposed
    Unexpose(expose::UnexposeArgs),
    /// Show the applications, units and machines of the model
    #[command(alias = "show-status")]
    Status(status::StatusArgs),
    /// Show an application
    ShowApplication(show_application::ShowApplicationArgs),
    /// Show a unit and its relation data
    ShowUnit(show_unit::ShowUnitArgs),
    /// Show the log messages of units and machines
    DebugLog(debug_log::DebugLogArgs),
    /// Run a failed hook again, or mark it as resolved without running it
    #[command(visible_alias = "resolve")]
    Resolved(resolved::ResolvedArgs),
    /// Upgrade the charm of an application
    #[command(visible_alias = "upgrade-charm")]
    Refresh(refresh::RefreshArgs),
    /// Show the resources of an application
    #[command(visible_alias = "list-resources")]
    Resources(resources::ResourcesArgs),
    /// Attach files to resources of an application: its units run upgrade-charm
    #[command(alias = "attach")]
    AttachResource(resources::AttachResourceArgs),
    /// Run an action on units
    Run(run::RunArgs),
    /// Show the actions that the charm of an application declares
    #[command(visible_alias = "list-actions")]
    Actions(actions::ActionsArgs),
    /// Run commands in the context of units
    Exec(exec::ExecArgs),
    /// Open a shell, or run a command, in a machine
    Ssh(ssh::SshArgs),
    /// Open a terminal in which hooks and actions of a unit are run by hand
    #[command(visible_alias = "debug-hook")]
    DebugHooks(debug_hooks::DebugHooksArgs),
    /// Open a terminal in which the program of a charm runs, with its breakpoints
    DebugCode(debug_hooks::DebugCodeArgs),
    /// Copy files from and to machines
    Scp(scp::ScpArgs),
    /// List the recorded hook runs of a unit
    Runs(recorded_runs::RunsArgs),
    /// Show a recorded run: why it ran, and what it saw, called, changed and printed
    ShowRun(recorded_runs::ShowRunArgs),
    /// Run a recorded hook again in a copy of the charm, with the recorded answers, and show what differs
    #[command(
        after_help = "The unit and the controller are not touched. What the hook does to its machine by other means than \
                      the hook tools, it does again.\n\nThe exit code is 0 if nothing differs, else 1."
    )]
    Replay(recorded_runs::ReplayArgs),
    /// Print a recorded run as a test for pytest, with ops.testing; -o FILE writes it to a file
    ExportRun(recorded_runs::ExportRunArgs),
    /// End the hook that a unit runs, which then fails
    StopHook(recorded_runs::StopHookArgs),
    /// Remove units
    RemoveUnit(remove_unit::RemoveUnitArgs),
    /// Remove a relation
    RemoveRelation(remove_relation::RemoveRelationArgs),
    /// Suspend relations: their units leave the relation until it is resumed
    SuspendRelation(suspend_relation::SuspendRelationArgs),
    /// Resume suspended relations
    ResumeRelation(suspend_relation::ResumeRelationArgs),
    /// Remove applications and all their units
    RemoveApplication(remove_application::RemoveApplicationArgs),
    /// Add machines, or enrol a manually provisioned machine
    AddMachine(add_machine::AddMachineArgs),
    /// Remove machines
    RemoveMachine(remove_machine::RemoveMachineArgs),
    /// Show the machines
    #[command(visible_alias = "list-machines")]
    Machines(machines::MachinesArgs),
    /// Show a machine
    ShowMachine(show_machine::ShowMachineArgs),
    /// Retry the provisioning of machines now
    RetryProvisioning(retry_provisioning::RetryProvisioningArgs),
    /// Show what the store, the models, the units and the charm archives take on disk
    DiskUsage(disk_usage::DiskUsageArgs),
    /// Wait until no unit of the model has anything to do
    Wait(wait::WaitArgs),
    /// Wait until a query about an entity holds
    WaitFor(wait_for::WaitForArgs),
    /// Explain what a unit, application, relation, machine or everything in the model waits for, and who must act
    Why(why::WhyArgs),
    /// Print the script that lets a shell complete commands and names
    Completion(completion::CompletionArgs),
    /// Write the manual pages of all commands
    Man(completion::ManArgs),
    /// Show the version of Pintle, and the version of Juju that it reports to clients
    Version(version::VersionArgs),
    /// Show the controller of the data folder
    #[command(visible_alias = "list-controllers")]
    Controllers(controllers::ControllersArgs),
    /// Show the controller of the data folder with its models
    ShowController(controllers::ShowControllerArgs),
    /// Show the controller, the model and the user of the commands
    Whoami(controllers::WhoamiArgs),
    /// List the models
    #[command(visible_alias = "list-models")]
    Models(models::ModelsArgs),
    /// Create a model
    AddModel(add_model::AddModelArgs),
    /// Show a model
    ShowModel(show_model::ShowModelArgs),
    /// Remove a model with its applications, units and machines
    DestroyModel(destroy_model::DestroyModelArgs),
    /// Show or change the settings of a model
    ModelConfig(settings::SettingsArgs),
    /// Show or change the settings with which new models begin
    #[command(visible_alias = "model-default")]
    ModelDefaults(settings::SettingsArgs),
    /// Show or change the current model, which commands without -m use
    Switch(switch::SwitchArgs),
    /// List the operations: actions and commands that were run
    #[command(visible_alias = "list-operations")]
    Operations(operations::OperationsArgs),
    /// Show an operation
    ShowOperation(operations::ShowOperationArgs),
    /// Show the last statuses of a unit or an application
    ShowStatusLog(show_status_log::ShowStatusLogArgs),
    /// Show the status and the results of a task
    ShowTask(show_task::ShowTaskArgs),
    /// Cancel tasks: those that run are ended within ten seconds
    #[command(alias = "cancel-action")]
    CancelTask(cancel_task::CancelTaskArgs),
    /// Add a secret that applications can be granted
    AddSecret(add_secret::AddSecretArgs),
    /// Change a secret of users
    UpdateSecret(add_secret::UpdateSecretArgs),
    /// Let applications read a secret of users
    GrantSecret(grant_secret::GrantSecretArgs),
    /// End the access of applications to a secret of users
    RevokeSecret(grant_secret::RevokeSecretArgs),
    /// Remove a secret of users
    RemoveSecret(remove_secret::RemoveSecretArgs),
    /// List the secrets of the model
    #[command(visible_alias = "list-secrets")]
    Secrets(secrets::SecretsArgs),
    /// Show a secret
    ShowSecret(secrets::ShowSecretArgs),
    /// Add storage to a unit
    AddStorage(change_storage::AddStorageArgs),
    /// Attach existing storage to a unit of its machine
    AttachStorage(change_storage::AttachStorageArgs),
    /// Detach storage from its unit; its content stays on the machine
    DetachStorage(change_storage::DetachStorageArgs),
    /// Remove storage with its content
    RemoveStorage(change_storage::RemoveStorageArgs),
    /// List the storage of the model
    #[command(visible_alias = "list-storage")]
    Storage(storage::StorageArgs),
    /// Show storage
    ShowStorage(storage::ShowStorageArgs),
    /// List the pools of storage
    #[command(visible_alias = "list-storage-pools")]
    StoragePools(storage::StoragePoolsArgs),
    /// Set the constraints of machines; only the architecture of this host is enforced
    SetModelConstraints(constraints::SetModelConstraintsArgs),
    /// Show the constraints of machines
    ModelConstraints(constraints::ModelConstraintsArgs),
    /// Set the constraints of the machines of an application; only the architecture of this host is enforced
    SetConstraints(constraints::SetConstraintsArgs),
    /// Show the constraints of the machines of an application
    Constraints(constraints::ConstraintsArgs),
    /// Add ssh keys, with which people log in to the machines of the model
    #[command(
        after_help = "Examples:\n  pintle add-ssh-key \"$(cat ~/.ssh/id_ed25519.pub)\"\n\nSee also: ssh-keys, \
                            remove-ssh-key, ssh"
    )]
    AddSshKey(ssh_keys::AddSshKeyArgs),
    /// Remove ssh keys of the model
    #[command(after_help = "Examples:\n  pintle remove-ssh-key me@host\n\nSee also: ssh-keys, add-ssh-key")]
    RemoveSshKey(ssh_keys::RemoveSshKeyArgs),
    /// List the ssh keys of the model
    #[command(visible_alias = "list-ssh-keys", after_help = "See also: add-ssh-key, remove-ssh-key")]
    SshKeys(ssh_keys::SshKeysArgs),
    /// Run the supervisor process of `up`
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
    /// Any other word, with its arguments
    #[command(external_subcommand)]
    External(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_effect_are_rejected() {
        let is_accepted = |words: &str| {
            use clap::Parser;
            Arguments::try_parse_from(words.split(' ')).is_ok()
        };
        assert!(is_accepted("pintle add-unit web -n 1") && !is_accepted("pintle add-unit web -n 0"));
        assert!(is_accepted("pintle operations --status failed,running"));
        assert!(!is_accepted("pintle operations --status failed,lost"));
    }

    #[test]
    fn a_usage_error_has_a_one_line_message_and_a_usage_hint() {
        let usage_error = |words: &[&str]| {
            let error = Arguments::try_parse_from(words).expect_err("a usage error");
            usage_error(&error.render().to_string())
        };
        let failure = usage_error(&["pintle", "deploy"]);
        assert_eq!(failure.code, 2);
        assert!(failure.message.ends_with(": <CHARM>"), "{failure:?}");
        assert!(failure.hint.expect("the usage").starts_with("Usage: pintle"));
        let failure = usage_error(&["pintle", "status", "--formatt", "json"]);
        assert!(failure.message.contains("'--formatt'"), "{failure:?}");
        assert_eq!(failure.message.lines().count(), 1);
        let hint = failure.hint.expect("the usage");
        let (tip, usage) = hint.split_once('\n').expect("two lines");
        assert!(tip.starts_with("tip: ") && tip.ends_with("'--format'"), "{hint}");
        assert!(usage.starts_with("Usage: "), "{hint}");
    }
}
