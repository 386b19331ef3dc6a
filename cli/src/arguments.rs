//! Arguments that several commands share: the flags of every command and of every removal, `--force`, and unit names.
//!
//! A flag of Juju that has no meaning in Pintle is accepted, hidden from the help and answered with a warning
//! ([`ignored_flags`]); only flags about the output (`--verbose`, `--color`) are ignored in silence. The command line as
//! a whole and the arguments of each command are in [`crate::commands`].

use crate::command_error::CommandError;
use api::Force;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use state::terms::names::BadName;
use std::path::PathBuf;
use std::str::FromStr;

/// Flags that every command accepts.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArguments {
    /// Data folder of the controller that `pintle up` started
    #[arg(long, global = true, env = "PINTLE_DATA", value_name = "DIR")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub data: Option<PathBuf>,
    // no doc comment: rustdoc would take the brackets for links
    #[arg(short, long, global = true)]
    #[arg(
        help = "Model to work in: [controller:][user/]name; by default that of JUJU_MODEL, or the current one"
    )]
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
    #[arg(long, global = true, hide = true)]
    pub no_browser_login: bool,
    #[arg(long, global = true, hide = true, value_name = "LEVELS")]
    pub logging_config: Option<String>,
}

/// Flags of the commands that remove something.
#[derive(Clone, Debug, Default, Args)]
pub struct RemovalArguments {
    /// Do not ask for confirmation
    #[arg(long)]
    pub no_prompt: bool,
    #[command(flatten)]
    pub force: ForceArguments,
    /// Remove the storage of the units with its content; without it, used storage stays on its machine
    #[arg(long)]
    pub destroy_storage: bool,
    /// Show what would be removed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

// The texts of forced removals (here, in `removal` and in `render::dry_run`) say "a minute".
const _: () = assert!(state::transitions::force_timer::GRACE_MS == 60_000);

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

/// The warnings about flags of Juju that were given and have no effect: the flag, whether it was given, and what happens
/// instead.
pub fn ignored_flags<const N: usize>(flags: [(&str, bool, &str); N]) -> Vec<String> {
    let given = flags.into_iter().filter(|(_, is_given, _)| *is_given);
    given.map(|(flag, _, instead)| format!("{flag} has no effect: {instead}")).collect()
}

/// Parses the names of units.
///
/// # Errors
/// The error of the first name that is invalid.
pub fn parse_units<T: FromStr<Err = BadName>>(words: &[String]) -> Result<Vec<T>, CommandError> {
    let units = words.iter().map(|word| word.parse());
    units.collect::<Result<_, BadName>>().map_err(|bad| CommandError::usage(bad.to_string()))
}
