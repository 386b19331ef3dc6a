//! The command line: Juju's commands and flags as its clients send them (spec/clients.md 2.2, 3.2), and Pintle's own.
//!
//! A flag of Juju that has no meaning in Pintle is accepted and hidden from the help if ignoring it is harmless. The
//! arguments of each command are defined in its file in [`crate::commands`].

use crate::command_error::CommandError;
use crate::commands::Verb;
use api::Force;
use clap::error::ErrorKind;
use clap::{Args, Parser};
use std::path::PathBuf;

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
    pub fn from_process() -> Result<Arguments, CommandError> {
        Arguments::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
            _ => usage_error(&error.render().to_string()),
        })
    }
}

/// Converts clap's multi-line text to a usage error: the message is what is wrong, the hint is the usage line.
fn usage_error(clap_text: &str) -> CommandError {
    let mut parts = clap_text.trim_start_matches("error: ").split("\n\n").map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.join(" ")
    });
    let failure = CommandError::usage(parts.next().unwrap_or_default());
    let hints: Vec<String> =
        parts.filter(|part| part.starts_with("tip:") || part.starts_with("Usage:")).collect();
    failure.hint(hints.join("\n"))
}

/// Flags that every command accepts.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArguments {
    /// Data folder of the controller that `pintle up` started
    #[arg(long, global = true, env = "PINTLE_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Model to work in: [controller:][user/]name
    #[arg(short, long, global = true, env = "JUJU_MODEL", hide_env = true)]
    pub model: Option<String>,
    /// Write the result to FILE instead of standard output
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

/// Flags of the commands that remove something. Storage is not supported: `--destroy-storage` has no effect.
#[derive(Clone, Debug, Default, Args)]
pub struct RemovalArguments {
    /// Do not ask for confirmation
    #[arg(long)]
    pub no_prompt: bool,
    #[command(flatten)]
    pub force: ForceArguments,
    #[arg(long, hide = true)]
    pub destroy_storage: bool,
    /// Show what would be removed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Flags of a forced removal: the controller completes the work of agents that do not.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ForceArguments {
    /// Remove even if agents are unreachable or fail: after a minute the controller completes their work
    #[arg(long)]
    pub force: bool,
    /// With --force: do not wait for the minute
    #[arg(long)]
    pub no_wait: bool,
}

impl ForceArguments {
    /// The force mode of these flags.
    ///
    /// # Errors
    /// A usage error if `--no-wait` is given without `--force`.
    pub fn mode(self) -> Result<Force, CommandError> {
        match self.no_wait && !self.force {
            true => Err(CommandError::usage("--no-wait requires --force")),
            false => Ok(Force::of(self.force, self.no_wait)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_has_a_one_line_message_and_a_usage_hint() {
        let usage_error = |words: &[&str]| {
            let error = Arguments::try_parse_from(words).expect_err("a usage error");
            usage_error(&error.render().to_string())
        };
        let failure = usage_error(&["pintle", "deploy"]);
        assert_eq!(failure.code, 2);
        assert_eq!(failure.message, "the following required arguments were not provided: <CHARM>");
        assert!(failure.hint.expect("the usage").starts_with("Usage: pintle deploy"));
        let failure = usage_error(&["pintle", "status", "--formatt", "json"]);
        assert_eq!(failure.message, "unexpected argument '--formatt' found");
        let hint = failure.hint.expect("the usage");
        assert!(hint.starts_with("tip: a similar argument exists: '--format'\nUsage: "), "{hint}");
    }
}
