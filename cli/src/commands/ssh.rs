//! `ssh [user@]TARGET [COMMAND…]`: a shell, or a command, in a machine (spec/clients.md 3.2).
//!
//! The words of the command are joined by spaces and run by a shell of the machine, as OpenSSH does. This process
//! becomes the command: its output and its exit code are those of the command.

use crate::command_error::CommandError;
use crate::machine_access::{AccessArgs, MachineAccess, Target};
use crate::session::CommandSession;
use api::{GetStatus, UserPort};
use clap::Args;
use std::os::unix::process::CommandExt;

/// The options of OpenSSH without an effect on a machine of this host: terminal, verbosity, agent.
const HARMLESS: [&str; 8] = ["-t", "-tt", "-T", "-q", "-v", "-A", "-x", "--"];

/// Arguments of `ssh`.
#[derive(Debug, Args)]
pub struct SshArgs {
    /// A unit (web/0, web/leader) or a machine, with a user in front of it if needed: ubuntu@0
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Options of OpenSSH, which manually provisioned machines need, and the command; by default a shell
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Accepted without effect: a terminal is passed on
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub pty: Option<bool>,
}

pub async fn run<A: UserPort>(args: &SshArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let checks = args.access.options()?;
    let status = session.api.handle(GetStatus).await?;
    let target = Target::new(&args.target);
    let is_option = |word: &&String| word.starts_with('-');
    let (options, line) = match args.words.first().filter(is_option) {
        // OpenSSH knows which of its options have a value
        Some(_) if !all_harmless(&args.words) => (Some(&args.words[..]), None),
        _ => {
            let words: Vec<&str> = args.words.iter().skip_while(is_option).map(String::as_str).collect();
            (None, (!words.is_empty()).then(|| words.join(" ")))
        }
    };
    let access = MachineAccess::find(&target, &checks, &status, &session.dir)?;
    let mut command = match (options, &access) {
        (Some(options), MachineAccess::Remote(..)) => {
            let mut command = access.shell(target.user, None);
            command.args(options);
            command
        }
        (Some(options), _) => {
            let text = format!("cannot use {} with a machine of this host", options[0]);
            return Err(CommandError::usage(text).hint("run the command without options of OpenSSH"));
        }
        (None, _) => access.shell(target.user, line.as_deref()),
    };
    let program = command.get_program().to_string_lossy().into_owned();
    Err(CommandError::new(format!("cannot run {program}: {}", command.exec())))
}

/// Whether the options in front of the command have no effect on a machine of this host.
fn all_harmless(words: &[String]) -> bool {
    words.iter().take_while(|word| word.starts_with('-')).all(|word| HARMLESS.contains(&word.as_str()))
}
