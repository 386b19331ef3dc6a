//! The list of all commands: the module, the arguments and the call of each. One file per command.
//!
//! A new command is added here and in a file of its own, nowhere else.

pub mod add_machine;
pub mod add_model;
pub mod add_unit;
pub mod charm_source;
pub mod config;
pub mod constraints;
pub mod debug_log;
pub mod deploy;
pub mod destroy_model;
pub mod down;
pub mod integrate;
pub mod machines;
pub mod model_config;
pub mod models;
pub mod operations;
pub mod refresh;
pub mod removal;
pub mod remove_application;
pub mod remove_machine;
pub mod remove_relation;
pub mod remove_unit;
pub mod resolved;
pub mod retry_provisioning;
pub mod run;
pub mod settings;
pub mod show_machine;
pub mod show_model;
pub mod show_task;
pub mod show_unit;
pub mod status;
pub mod supervise;
pub mod suspend_relation;
pub mod switch;
pub mod up;
pub mod version;
pub mod why;

use crate::arguments::{Arguments, GlobalArguments};
use crate::command_error::Failure;
use crate::data_dir::DataDir;
use crate::output::Output;
use crate::session::{Session, explain};
use clap::{CommandFactory, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a controller and its machines, in the background
    Up(up::Up),
    /// Stop everything that `up` started; the state stays
    Down(down::Down),
    /// Deploy a charm from its folder or .charm file
    Deploy(deploy::Deploy),
    /// Add units to an application
    AddUnit(add_unit::AddUnit),
    /// Relate two applications
    #[command(visible_alias = "relate")]
    Integrate(integrate::Integrate),
    /// Show or change an application's settings
    Config(config::Config),
    /// Show the model: applications, units, machines
    Status(status::Status),
    /// Show a unit and the data of its relations
    ShowUnit(show_unit::ShowUnit),
    /// Show what units logged
    DebugLog(debug_log::DebugLog),
    /// Run a failed hook again, or count it as done
    #[command(visible_alias = "resolve")]
    Resolved(resolved::Resolved),
    /// Replace an application's charm
    #[command(visible_alias = "upgrade-charm")]
    Refresh(refresh::Refresh),
    /// Run an action of a charm on units
    Run(run::Run),
    /// Remove units
    RemoveUnit(remove_unit::RemoveUnit),
    /// Remove a relation
    RemoveRelation(remove_relation::RemoveRelation),
    /// Suspend relations: their units leave them until they are resumed
    SuspendRelation(suspend_relation::SuspendRelation),
    /// Resume relations that were suspended
    ResumeRelation(suspend_relation::ResumeRelation),
    /// Remove applications with all their units
    RemoveApplication(remove_application::RemoveApplication),
    /// Add machines, or let one of your own in
    AddMachine(add_machine::AddMachine),
    /// Remove machines
    RemoveMachine(remove_machine::RemoveMachine),
    /// Show the machines
    #[command(visible_alias = "list-machines")]
    Machines(machines::Machines),
    /// Show a machine
    ShowMachine(show_machine::ShowMachine),
    /// Try again now what a machine's provider failed at
    RetryProvisioning(retry_provisioning::RetryProvisioning),
    /// Tell what a unit, application, relation, machine or the model waits for, and who owes it
    Why(why::Why),
    /// Show the version
    Version(version::Version),
    /// List the models
    Models(models::Models),
    /// Create a model
    AddModel(add_model::AddModel),
    /// Describe a model
    ShowModel(show_model::ShowModel),
    /// Remove a model and all that is in it
    DestroyModel(destroy_model::DestroyModel),
    /// Show or change a model's settings
    ModelConfig(model_config::ModelConfig),
    /// Show or change the model that commands without -m mean
    Switch(switch::Switch),
    /// List the actions that were run
    Operations(operations::Operations),
    /// Show one operation
    ShowOperation(operations::ShowOperation),
    /// Show one action's state and results
    ShowTask(show_task::ShowTask),
    /// Say what machines must be like: here, what this host is
    SetModelConstraints(constraints::SetModelConstraints),
    /// Show what machines are like
    ModelConstraints(constraints::ModelConstraints),
    #[command(hide = true)]
    Supervise(supervise::Supervise),
    #[command(external_subcommand)]
    External(Vec<String>),
}

/// Verbs of Juju that are not offered: answered with one plain sentence (spec/clients.md 3.2).
pub const NOT_OFFERED: [&str; 72] = [
    "actions",
    "add-cloud",
    "add-credential",
    "add-k8s",
    "add-secret",
    "add-space",
    "add-ssh-key",
    "add-storage",
    "add-user",
    "attach-resource",
    "attach-storage",
    "bind",
    "bootstrap",
    "cancel-task",
    "charm-resources",
    "clouds",
    "consume",
    "constraints",
    "controller-config",
    "controllers",
    "create-backup",
    "credentials",
    "debug-code",
    "debug-hook",
    "debug-hooks",
    "destroy-controller",
    "detach-storage",
    "diff-bundle",
    "download",
    "enable-ha",
    "exec",
    "export-bundle",
    "expose",
    "find",
    "find-offers",
    "grant",
    "grant-secret",
    "import-ssh-key",
    "info",
    "kill-controller",
    "login",
    "logout",
    "migrate",
    "model-defaults",
    "offer",
    "offers",
    "regions",
    "register",
    "reload-spaces",
    "remove-offer",
    "remove-saas",
    "remove-secret",
    "remove-ssh-key",
    "remove-storage",
    "resources",
    "revoke",
    "revoke-secret",
    "scp",
    "secrets",
    "set-application-base",
    "set-constraints",
    "show-application",
    "show-controller",
    "show-secret",
    "show-status-log",
    "spaces",
    "ssh",
    "storage",
    "trust",
    "unexpose",
    "update-secret",
    "wait-for",
];

/// Does what the command line says.
pub fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let Arguments { everywhere, verb } = arguments;
    runtime.block_on(alone(&everywhere, verb))
}

/// The verbs that need no controller; all others go on to [`with_controller`].
async fn alone(everywhere: &GlobalArguments, verb: Verb) -> Result<(), Failure> {
    let output = Output::Process { file: everywhere.output.clone() };
    match verb {
        Verb::External(words) => Err(other(&words)),
        Verb::Version(args) => version::run(&args, &output),
        Verb::Up(args) => up::run(&args, &DataDir::choose(everywhere.data.as_deref())?, &output).await,
        Verb::Down(_) => down::run(&DataDir::choose(everywhere.data.as_deref())?, &output).await,
        Verb::Supervise(_) => supervise::run(&DataDir::choose(everywhere.data.as_deref())?).await,
        verb => {
            let dir = DataDir::choose(everywhere.data.as_deref())?;
            let session = Session::open(everywhere)?;
            if !names_its_model(&verb) {
                session.require_model()?;
            }
            with_controller(&session, &dir, verb).await.map_err(|failure| explain(failure, &dir))
        }
    }
}

async fn with_controller(
    session: &Session<api::client::Client>,
    dir: &DataDir,
    verb: Verb,
) -> Result<(), Failure> {
    match verb {
        Verb::Deploy(args) => deploy::run(&args, session).await,
        Verb::AddUnit(args) => add_unit::run(&args, session).await,
        Verb::Integrate(args) => integrate::run(&args, session).await,
        Verb::Config(args) => config::run(&args, session).await,
        Verb::Status(args) => status::run(&args, session).await,
        Verb::ShowUnit(args) => show_unit::run(&args, session).await,
        Verb::DebugLog(args) => debug_log::run(&args, session).await,
        Verb::Resolved(args) => resolved::run(&args, session).await,
        Verb::Refresh(args) => refresh::run(&args, session).await,
        Verb::Run(args) => run::run(&args, session).await,
        Verb::RemoveUnit(args) => remove_unit::run(&args, session).await,
        Verb::RemoveRelation(args) => remove_relation::run(&args, session).await,
        Verb::SuspendRelation(args) => suspend_relation::suspend(&args, session).await,
        Verb::ResumeRelation(args) => suspend_relation::resume(&args, session).await,
        Verb::RemoveApplication(args) => remove_application::run(&args, session).await,
        Verb::AddMachine(args) => add_machine::run(&args, session, dir).await,
        Verb::RemoveMachine(args) => remove_machine::run(&args, session).await,
        Verb::Machines(args) => machines::run(&args, session).await,
        Verb::ShowMachine(args) => show_machine::run(&args, session).await,
        Verb::RetryProvisioning(args) => retry_provisioning::run(&args, session).await,
        Verb::Why(args) => why::run(&args, session).await,
        Verb::Models(args) => models::run(&args, session).await,
        Verb::AddModel(args) => add_model::run(&args, session, dir).await,
        Verb::ShowModel(args) => show_model::run(&args, session).await,
        Verb::DestroyModel(args) => destroy_model::run(&args, session, dir).await,
        Verb::ModelConfig(args) => model_config::run(&args, session).await,
        Verb::Switch(args) => switch::run(&args, session, dir).await,
        Verb::Operations(args) => operations::list(&args, session).await,
        Verb::ShowOperation(args) => operations::show(&args, session).await,
        Verb::ShowTask(args) => show_task::run(&args, session).await,
        Verb::SetModelConstraints(args) => constraints::set(&args, session),
        Verb::ModelConstraints(args) => constraints::show(&args, session),
        Verb::Up(_) | Verb::Down(_) | Verb::Supervise(_) | Verb::Version(_) | Verb::External(_) => {
            unreachable!("these need no controller")
        }
    }
}

/// The verb needs no current model.
fn names_its_model(verb: &Verb) -> bool {
    matches!(verb, Verb::Models(_) | Verb::AddModel(_) | Verb::DestroyModel(_) | Verb::Switch(_))
        || matches!(verb, Verb::ShowModel(show) if show.name.is_some())
}

/// A word that is this much like a verb, by Jaro and Winkler, may be meant for it.
const ALIKE: f64 = 0.85;

/// A verb that is Juju's but not ours, or nobody's.
fn other(words: &[String]) -> Failure {
    let verb = words.first().map_or("", String::as_str);
    if NOT_OFFERED.contains(&verb) {
        return Failure::new(format!("not offered here: {verb}"));
    }
    let known = Arguments::command();
    let alike = |name: &str| strsim::jaro_winkler(name, verb);
    let visible = known.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name);
    let nearest = visible.max_by(|a, b| alike(a).total_cmp(&alike(b))).filter(|name| alike(name) >= ALIKE);
    Failure::usage(format!("unrecognized command: {verb}")).hint(match nearest {
        Some(name) => format!("did you mean: pintle {name}"),
        None => "see: pintle help".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_do_nothing_are_refused() {
        let taken = |words: &str| {
            use clap::Parser;
            Arguments::try_parse_from(words.split(' ')).is_ok()
        };
        assert!(taken("pintle add-unit web -n 1") && !taken("pintle add-unit web -n 0"));
        assert!(taken("pintle operations --status failed,running"));
        assert!(!taken("pintle operations --status failed,lost"));
    }

    #[test]
    fn a_verb_that_was_mistyped_is_named() {
        let hint = |verb: &str| other(&[verb.to_owned()]).text();
        for (mistyped, meant) in [("stauts", "status"), ("remove-untis", "remove-unit"), ("deply", "deploy")]
        {
            assert!(
                hint(mistyped).contains(&format!("did you mean: pintle {meant}\n")),
                "{}",
                hint(mistyped)
            );
        }
        assert!(hint("frobnicate").contains("see: pintle help"), "{}", hint("frobnicate"));
    }

    #[test]
    fn a_verb_of_juju_that_is_not_offered_is_named() {
        let failure = other(&["bootstrap".to_owned(), "x".to_owned()]);
        assert_eq!((failure.text().as_str(), failure.code), ("ERROR not offered here: bootstrap\n", 1));
        assert_eq!(other(&["frobnicate".to_owned()]).code, 2);
    }
}
