//! The command line: Juju's verbs and flags as its clients type them (spec/clients.md 2.2, 3.2), and Pintle's own.
//! Flags that mean nothing here are accepted where they are harmless.

use crate::command_error::Failure;
use crate::commands::Verb;
use api::Force;
use clap::error::ErrorKind;
use clap::{Args, Parser};
use std::path::PathBuf;

/// Runs charms: deploys them, relates them, tells what they do and why.
#[derive(Debug, Parser)]
#[command(name = "pintle", about, version, arg_required_else_help = true, infer_subcommands = false)]
pub struct Arguments {
    #[command(flatten)]
    pub everywhere: GlobalArguments,
    #[command(subcommand)]
    pub verb: Verb,
}

impl Arguments {
    /// What this process was given; help and the version are printed, and end it.
    pub fn of_process() -> Result<Arguments, Failure> {
        Arguments::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
            _ => misused(&error.render().to_string()),
        })
    }
}

/// What clap says in several lines, as `ERROR` and a hint: what is wrong; how it is used.
fn misused(said: &str) -> Failure {
    let mut parts = said.trim_start_matches("error: ").split("\n\n").map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.join(" ")
    });
    let failure = Failure::usage(parts.next().unwrap_or_default());
    let hints: Vec<String> =
        parts.filter(|part| part.starts_with("tip:") || part.starts_with("Usage:")).collect();
    failure.hint(hints.join("\n"))
}

/// Flags of all verbs.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArguments {
    /// Folder of the controller that `pintle up` started
    #[arg(long, global = true, env = "PINTLE_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Model to work in: [controller:][user/]name
    #[arg(short, long, global = true, env = "JUJU_MODEL", hide_env = true)]
    pub model: Option<String>,
    /// Write the result to a file
    #[arg(short, long, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    pub debug: bool,
    #[arg(long, global = true, hide = true)]
    pub quiet: bool,
    #[arg(long, global = true, hide = true)]
    pub verbose: bool,
    #[arg(long, global = true, hide = true)]
    pub show_log: bool,
}

/// `--no-prompt` and what removals accept besides; storage has no meaning yet.
#[derive(Clone, Debug, Default, Args)]
pub struct Removal {
    /// Do not ask
    #[arg(long)]
    pub no_prompt: bool,
    #[command(flatten)]
    pub force: ForceArguments,
    #[arg(long, hide = true)]
    pub destroy_storage: bool,
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
}

/// Removal without the agents that owe it.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ForceArguments {
    /// Go even if agents are gone or fail: after a minute the controller does what they owe
    #[arg(long)]
    pub force: bool,
    /// With --force: do not wait a minute
    #[arg(long)]
    pub no_wait: bool,
}

impl ForceArguments {
    pub fn chosen(self) -> Result<Force, Failure> {
        match self.no_wait && !self.force {
            true => Err(Failure::usage("--no-wait is only for --force")),
            false => Ok(Force::of(self.force, self.no_wait)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misused_command_is_told_in_one_line_and_how_it_is_used() {
        let misused = |words: &[&str]| {
            let error = Arguments::try_parse_from(words).expect_err("it is misused");
            misused(&error.render().to_string())
        };
        let failure = misused(&["pintle", "deploy"]);
        assert_eq!(failure.code, 2);
        assert_eq!(failure.message, "the following required arguments were not provided: <CHARM>");
        assert!(failure.hint.expect("how it is used").starts_with("Usage: pintle deploy"));
        let failure = misused(&["pintle", "status", "--formatt", "json"]);
        assert_eq!(failure.message, "unexpected argument '--formatt' found");
        let hint = failure.hint.expect("how it is used");
        assert!(hint.starts_with("tip: a similar argument exists: '--format'\nUsage: "), "{hint}");
    }
}
