//! Completes command lines: the words that a shell offers for commands, flags and the entities of the model.
//!
//! A shell calls this program with [`VARIABLE`] in its environment, as the script of `pintle completion SHELL` says. Names
//! are requested from the controller. A person waits for them, so there are none after a second, or if the
//! controller does not run.

use crate::arguments::GlobalArguments;
use crate::commands::Arguments;
use crate::commands::completion::VARIABLE;
use crate::session::CommandSession;
use api::{GetConfig, GetDeclaredActions, GetStatus, Handle, ListModels};
use clap::{Command, CommandFactory};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate};
use state::terms::names::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;

/// The time limit for the answers of the controller.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Completes a command line if a shell has requested that, and ends the process then.
pub fn complete() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// What an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Models,
    Applications,
    Units,
    Machines,
    Relations,
    /// Units, then an action of theirs.
    UnitsAndActions,
    UnitsAndMachines,
    ApplicationsAndUnits,
    Everything,
    /// The settings of the application that the command line names.
    Settings,
}

impl Named {
    /// What the argument `id` of a command names, if it names entities that exist.
    fn of(command: &str, id: &str) -> Option<Named> {
        match (command, id) {
            (_, "model") | ("destroy-model" | "show-model" | "switch", "name") => Some(Named::Models),
            ("deploy" | "add-model", _) => None,
            ("integrate", "a" | "b") | ("remove-relation", "ends") => Some(Named::Applications),
            (_, "application" | "applications" | "apps") => Some(Named::Applications),
            (_, "unit" | "units") => Some(Named::Units),
            (_, "machine" | "machines") => Some(Named::Machines),
            (_, "relations") => Some(Named::Relations),
            ("config", "words" | "reset") => Some(Named::Settings),
            ("run", "words") => Some(Named::UnitsAndActions),
            ("ssh", "target") => Some(Named::UnitsAndMachines),
            ("status", "filters") => Some(Named::ApplicationsAndUnits),
            ("why", "entities") => Some(Named::Everything),
            _ => None,
        }
    }
}

/// The command line with the candidates of its arguments.
fn command() -> Command {
    let with_candidates = |command: Command| {
        let name = command.get_name().to_owned();
        command.mut_args(|arg| match Named::of(&name, arg.get_id().as_str()) {
            Some(named) => arg.add(ArgValueCandidates::new(move || candidates(named))),
            None => arg,
        })
    };
    with_candidates(Arguments::command()).mut_subcommands(with_candidates)
}

fn candidates(named: Named) -> Vec<CompletionCandidate> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    // bash splits words at `=`
    let words = words.skip_while(|word| word != "--").skip(1).filter(|word| word != "=");
    let words: Vec<String> = words.collect();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let names = runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, names(named, &words)).await });
    names.ok().flatten().unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// The names of the entities in the model of the command line. None if the controller does not answer.
async fn names(named: Named, words: &[String]) -> Option<Vec<String>> {
    let mut flags = global_flags(words);
    if named == Named::Models {
        // the word that is completed may be that of the flag
        flags.model = None;
    }
    let session = CommandSession::open(&flags).ok()?;
    if named == Named::Models {
        let models = session.api.handle(ListModels).await.ok()?;
        return Some(models.into_iter().map(|model| model.name).collect());
    }
    let status = session.api.handle(GetStatus).await.ok()?;
    let applications = || status.applications.keys().cloned();
    let units = || status.applications.values().flat_map(|app| app.units.keys()).map(UnitName::to_string);
    let machines = || status.machines.keys().cloned();
    let relations = || status.relations.iter().map(|relation| relation.number.to_string());
    Some(match named {
        Named::Models => Vec::new(),
        Named::Applications => applications().collect(),
        Named::Units => units().collect(),
        Named::Machines => machines().collect(),
        Named::Relations => relations().collect(),
        Named::UnitsAndActions => {
            let chosen = words.iter().filter_map(|word| Some(word.parse::<UnitName>().ok()?.application));
            let mut names: Vec<String> = units().collect();
            for application in chosen.collect::<BTreeSet<_>>() {
                let actions =
                    session.api.handle(GetDeclaredActions { application }).await.unwrap_or_default();
                names.extend(actions.into_keys());
            }
            names
        }
        Named::Settings => {
            let mut chosen = words.iter().filter(|word| status.applications.contains_key(*word));
            let application = chosen.next()?.clone();
            let config = session.api.handle(GetConfig { application }).await.ok()?;
            config.settings.into_keys().collect()
        }
        Named::UnitsAndMachines => units().chain(machines()).collect(),
        Named::ApplicationsAndUnits => applications().chain(units()).collect(),
        Named::Everything => {
            let machines = machines().map(|name| format!("machine/{name}"));
            let relations = relations().map(|number| format!("relation/{number}"));
            applications().chain(units()).chain(machines).chain(relations).collect()
        }
    })
}

/// The data folder and the model of a command line that is not complete yet.
fn global_flags(words: &[String]) -> GlobalArguments {
    let value_of = |names: [&str; 2]| {
        let after = words.windows(2).find(|pair| names.contains(&pair[0].as_str()));
        let joined = words.iter().find_map(|word| word.strip_prefix(names[0])?.strip_prefix('='));
        after.map(|pair| pair[1].clone()).or(joined.map(str::to_owned)).filter(|value| !value.is_empty())
    };
    let from_environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    GlobalArguments {
        data: value_of(["--data", "--data"]).or(from_environment("PINTLE_DATA")).map(Into::into),
        model: value_of(["--model", "-m"]).or(from_environment("JUJU_MODEL")),
        ..GlobalArguments::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_an_incomplete_command_line_are_found() {
        let flags = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            global_flags(&words)
        };
        assert_eq!(flags("pintle -m dev config ").model.as_deref(), Some("dev"));
        assert_eq!(flags("pintle config --model=dev ").model.as_deref(), Some("dev"));
        assert_eq!(flags("pintle config -m ").model, None);
        assert_eq!(flags("pintle --data /d why ").data.as_deref(), Some("/d".as_ref()));
    }

    /// A new command whose arguments name entities has candidates, too.
    #[test]
    fn arguments_that_name_entities_have_candidates() {
        let command = command();
        let has = |verb: &str, id: &str| {
            let verb = command.find_subcommand(verb).expect("a command");
            let arg = verb.get_arguments().find(|arg| arg.get_id() == id).expect("an argument");
            arg.get::<ArgValueCandidates>().is_some()
        };
        for (verb, id) in [
            ("config", "application"),
            ("config", "words"),
            ("config", "reset"),
            ("show-unit", "units"),
            ("run", "words"),
            ("remove-machine", "machines"),
            ("destroy-model", "name"),
            ("integrate", "a"),
            ("why", "entities"),
            ("ssh", "target"),
        ] {
            assert!(has(verb, id), "{verb} {id}");
        }
        assert!(!has("deploy", "application"), "it names a new one");
        assert!(!has("add-model", "name"));
    }
}
