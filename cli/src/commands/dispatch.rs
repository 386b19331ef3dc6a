//! Runs the command that was parsed.
//!
//! A command about what a controller has gets an open [`CommandSession`]. `up`, `down`, `dev`, and the commands that contact
//! no controller get none: `dev` starts a controller itself.

use super::*;
use crate::needed_flags::needed_flags;

/// Runs the command of the command line.
///
/// # Errors
/// The error of the command.
pub fn dispatch(arguments: Arguments) -> Result<(), CommandError> {
    if matches!(arguments.verb, Verb::Supervise(_)) {
        // Before the runtime opens its descriptors: the shell that ran `up` may have files open.
        host::inherited::protect();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::new(format!("cannot start the runtime: {error}")))?;
    let Arguments { global, verb } = arguments;
    let result = runtime.block_on(without_session(&global, verb));
    result.map_err(|failure| failure.complete(&needed_flags(&global)))
}

/// Runs the commands that get no session, and passes all others to [`with_session`].
async fn without_session(global: &GlobalArguments, verb: Verb) -> Result<(), CommandError> {
    let output = Output::of_process(global);
    match verb {
        Verb::External(words) => Err(unknown_verb(&words, Arguments::command())),
        Verb::Version(args) => version::run(&args, &output),
        Verb::Completion(args) => completion::run(&args, &output),
        Verb::Man(args) => completion::man(&args, help::documented(Arguments::command(), false), &output),
        Verb::Up(args) => up::run(&args, &DataDir::choose(global.data.as_deref())?, &output).await,
        Verb::Dev(args) => dev::run(&args, global).await,
        Verb::Down(_) => down::run(&DataDir::choose(global.data.as_deref())?, &output).await,
        Verb::Supervise(_) => supervise::run(&DataDir::choose(global.data.as_deref())?).await,
        verb => {
            let dir = DataDir::choose(global.data.as_deref())?;
            identity::check(&dir)?;
            let session = CommandSession::open(global)?;
            if !needs_no_current_model(&verb) {
                session.require_model()?;
            }
            with_session(&session, &dir, verb).await.map_err(|failure| explain(failure, &dir))
        }
    }
}

async fn with_session(
    session: &CommandSession<api::client::Client>,
    dir: &DataDir,
    verb: Verb,
) -> Result<(), CommandError> {
    match verb {
        Verb::Deploy(args) => deploy::run(&args, session).await,
        Verb::AddUnit(args) => add_unit::run(&args, session).await,
        Verb::ScaleApplication(args) => scale_application::run(&args, session).await,
        Verb::Integrate(args) => integrate::run(&args, session).await,
        Verb::Config(args) => config::run(&args, session).await,
        Verb::Trust(args) => trust::run(&args, session).await,
        Verb::Expose(args) => expose::expose(&args, session).await,
        Verb::Unexpose(args) => expose::unexpose(&args, session).await,
        Verb::Status(args) => status::run(&args, session).await,
        Verb::ShowApplication(args) => show_application::run(&args, session).await,
        Verb::ShowUnit(args) => show_unit::run(&args, session).await,
        Verb::DebugLog(args) => debug_log::run(&args, session).await,
        Verb::Resolved(args) => resolved::run(&args, session).await,
        Verb::Refresh(args) => refresh::run(&args, session).await,
        Verb::Resources(args) => resources::list(&args, session).await,
        Verb::AttachResource(args) => resources::attach(&args, session).await,
        Verb::Run(args) => run::run(&args, session).await,
        Verb::Exec(args) => exec::run(&args, session).await,
        Verb::Ssh(args) => ssh::run(&args, session).await,
        Verb::DebugHooks(args) => debug_hooks::hooks(&args, session).await,
        Verb::DebugCode(args) => debug_hooks::code(&args, session).await,
        Verb::Scp(args) => scp::run(&args, session).await,
        Verb::Runs(args) => recorded_runs::list(&args, session).await,
        Verb::ShowRun(args) => recorded_runs::show(&args, session).await,
        Verb::Replay(args) => recorded_runs::replay(&args, session).await,
        Verb::ExportRun(args) => recorded_runs::export(&args, session).await,
        Verb::StopHook(args) => recorded_runs::stop(&args, session).await,
        Verb::RemoveUnit(args) => remove_unit::run(&args, session).await,
        Verb::RemoveRelation(args) => remove_relation::run(&args, session).await,
        Verb::SuspendRelation(args) => suspend_relation::suspend(&args, session).await,
        Verb::ResumeRelation(args) => suspend_relation::resume(&args, session).await,
        Verb::RemoveApplication(args) => remove_application::run(&args, session).await,
        Verb::AddMachine(args) => add_machine::run(&args, session, dir).await,
        Verb::RemoveMachine(args) => remove_machine::run(&args, session).await,
        Verb::Machines(args) => machines::run(&args, session).await,
        Verb::DiskUsage(args) => disk_usage::run(&args, session).await,
        Verb::ShowMachine(args) => show_machine::run(&args, session).await,
        Verb::RetryProvisioning(args) => retry_provisioning::run(&args, session).await,
        Verb::Wait(args) => wait::run(&args, session).await,
        Verb::WaitFor(args) => wait_for::run(&args, session).await,
        Verb::Why(args) => why::run(&args, session).await,
        Verb::Controllers(args) => controllers::list(&args, session).await,
        Verb::ShowController(args) => controllers::show(&args, session).await,
        Verb::Whoami(args) => controllers::whoami(&args, session),
        Verb::Models(args) => models::run(&args, session).await,
        Verb::AddModel(args) => add_model::run(&args, session, dir).await,
        Verb::ShowModel(args) => show_model::run(&args, session).await,
        Verb::DestroyModel(args) => destroy_model::run(&args, session, dir).await,
        Verb::ModelConfig(args) => model_config::run(&args, session).await,
        Verb::ModelDefaults(args) => model_defaults::run(&args, session).await,
        Verb::Switch(args) => switch::run(&args, session, dir).await,
        Verb::Actions(args) => actions::run(&args, session).await,
        Verb::Operations(args) => operations::list(&args, session).await,
        Verb::ShowOperation(args) => operations::show(&args, session).await,
        Verb::ShowStatusLog(args) => show_status_log::run(&args, session).await,
        Verb::ShowTask(args) => show_task::run(&args, session).await,
        Verb::CancelTask(args) => cancel_task::run(&args, session).await,
        Verb::AddSecret(args) => add_secret::add(&args, session).await,
        Verb::UpdateSecret(args) => add_secret::update(&args, session).await,
        Verb::GrantSecret(args) => grant_secret::grant(&args, session).await,
        Verb::RevokeSecret(args) => grant_secret::revoke(&args, session).await,
        Verb::RemoveSecret(args) => remove_secret::run(&args, session).await,
        Verb::Secrets(args) => secrets::list(&args, session).await,
        Verb::AddStorage(args) => change_storage::add(&args, session).await,
        Verb::AttachStorage(args) => change_storage::attach(&args, session).await,
        Verb::DetachStorage(args) => change_storage::detach(&args, session).await,
        Verb::RemoveStorage(args) => change_storage::remove(&args, session).await,
        Verb::Storage(args) => storage::list(&args, session).await,
        Verb::ShowStorage(args) => storage::show(&args, session).await,
        Verb::StoragePools(args) => storage::pools(&args, session),
        Verb::ShowSecret(args) => secrets::show(&args, session).await,
        Verb::SetModelConstraints(args) => {
            constraints::set(None, constraints::parse(&args.constraints, session)?, session).await
        }
        Verb::ModelConstraints(args) => constraints::show(None, args.format, session).await,
        Verb::SetConstraints(args) => {
            let constraints = constraints::parse(&args.constraints, session)?;
            constraints::set(Some(&args.application), constraints, session).await
        }
        Verb::Constraints(args) => constraints::show(Some(&args.application), args.format, session).await,
        Verb::AddSshKey(args) => ssh_keys::add(&args, session).await,
        Verb::RemoveSshKey(args) => ssh_keys::remove(&args, session).await,
        Verb::SshKeys(args) => ssh_keys::list(&args, session).await,
        Verb::Up(_)
        | Verb::Down(_)
        | Verb::Dev(_)
        | Verb::Supervise(_)
        | Verb::Version(_)
        | Verb::Completion(_)
        | Verb::Man(_)
        | Verb::External(_) => {
            unreachable!("these were run without a session")
        }
    }
}

/// Whether the command works without a current model.
fn needs_no_current_model(verb: &Verb) -> bool {
    matches!(verb, Verb::Models(_) | Verb::AddModel(_) | Verb::DestroyModel(_) | Verb::Switch(_))
        || matches!(verb, Verb::DiskUsage(_))
        || matches!(
            verb,
            Verb::ModelDefaults(_) | Verb::Controllers(_) | Verb::ShowController(_) | Verb::Whoami(_)
        )
        || matches!(verb, Verb::ShowModel(show) if show.name.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_all_models_needs_none_in_focus() {
        use clap::Parser;
        let needs_none = |words: &str| {
            let arguments = Arguments::try_parse_from(words.split(' ')).expect("a command");
            needs_no_current_model(&arguments.verb)
        };
        assert!(needs_none("pintle disk-usage") && needs_none("pintle models"));
        assert!(!needs_none("pintle status"));
    }
}
