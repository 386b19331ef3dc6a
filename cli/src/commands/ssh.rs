//! `ssh [user@]TARGET [COMMAND…]`: a shell, or a command, in a machine (spec/clients.md 3.2).
//!
//! The words of the command are joined by spaces and run by a shell of the machine, as OpenSSH does. This process
//! becomes the command: its output and its exit code are those of the command.

use crate::command_error::CommandError;
use crate::machine_access::{AccessArgs, MachineAccess, Target};
use crate::openssh_options::{OpenSshOption, SSH_WITH_VALUE, is_options, no_connection, options_of};
use crate::session::CommandSession;
use api::{GetStatus, UserPort};
use clap::Args;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Those about the connection, which is not made to a machine of this host.
const CONNECTION: &str = "BbcEeFIiJmoPpS";
/// Those without a value that have no effect there: the terminal is passed on, and OpenSSH prints nothing.
const WITHOUT_EFFECT: &str = "1246AaCgKkqTtvXxYy";

/// Arguments of `ssh`.
#[derive(Debug, Args)]
pub struct SshArgs {
    /// A unit (web/0, web/leader) or a machine, with a user in front of it if needed: ubuntu@0
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Options of OpenSSH, of which those about the connection are for manually provisioned machines; and the command, by
    /// default a shell
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Accepted without effect: a terminal is passed on
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub pty: Option<bool>,
}

/// What the words after the target mean for a machine of this host.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    /// The user of `-l`.
    user: Option<&'a str>,
    /// Whether the command reads stdin, which `-n` prevents.
    reads_stdin: bool,
    warnings: Vec<String>,
    /// The command; `None` for a shell.
    line: Option<String>,
}

impl Entry<'_> {
    /// Reads the options of OpenSSH in front of the command.
    ///
    /// # Errors
    /// If an option cannot be honoured without a connection, for example the forwarding of a port.
    fn parse(words: &[String]) -> Result<Entry<'_>, CommandError> {
        let mut entry = Entry { user: None, reads_stdin: true, warnings: Vec::new(), line: None };
        let mut rest = words.iter();
        while let Some(word) = rest.as_slice().first().filter(|word| is_options(word)) {
            rest.next();
            for OpenSshOption { letter, value } in options_of(word, SSH_WITH_VALUE, &mut rest)? {
                match letter {
                    'l' => entry.user = value,
                    'n' => entry.reads_stdin = false,
                    _ if CONNECTION.contains(letter) => entry.warnings.push(no_connection(letter)),
                    _ if WITHOUT_EFFECT.contains(letter) => {}
                    _ => {
                        let text = format!("cannot use -{letter} with a machine of this host");
                        return Err(CommandError::usage(text).hint("it is entered without a connection"));
                    }
                }
            }
        }
        let line: Vec<&str> = rest.map(String::as_str).skip_while(|word| *word == "--").collect();
        entry.line = (!line.is_empty()).then(|| line.join(" "));
        Ok(entry)
    }
}

pub async fn run<A: UserPort>(args: &SshArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let checks = args.access.options()?;
    let status = session.api.handle(GetStatus).await?;
    let entry = Entry::parse(&args.words);
    let target = Target::new(&args.target);
    let user = entry.as_ref().ok().and_then(|entry| entry.user).or(target.user);
    let access = MachineAccess::find(&Target { user, ..target }, &checks, &status, &session.dir)?;
    let mut command = match (&access, args.words.first()) {
        // OpenSSH reads its options itself
        (MachineAccess::Remote(..), Some(first)) if first.starts_with('-') => {
            let mut command = access.shell(user, None);
            command.args(&args.words);
            command
        }
        _ => {
            let entry = entry?;
            session.output.warn(&entry.warnings);
            let mut command = access.shell(user, entry.line.as_deref());
            if !entry.reads_stdin {
                command.stdin(Stdio::null());
            }
            command
        }
    };
    let program = command.get_program().to_string_lossy().into_owned();
    Err(CommandError::new(format!("cannot run {program}: {}", command.exec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn options_about_a_connection_are_answered_with_a_warning_and_the_command_follows_them() {
        for (line, warnings, command) in [
            ("-i /key -o StrictHostKeyChecking=no -tt ls -l", "io", "ls -l"),
            ("-qi/key -- ls", "i", "ls"),
            ("-T echo -n", "", "echo -n"),
            ("-- ls -i", "", "ls -i"),
        ] {
            let words = words(line);
            let entry = Entry::parse(&words).expect("all of them are without an effect");
            assert_eq!(entry.warnings, warnings.chars().map(no_connection).collect::<Vec<_>>(), "{line}");
            assert_eq!((entry.line.as_deref(), entry.reads_stdin), (Some(command), true), "{line}");
        }
        let words = words("-n -l ann");
        let entry = Entry::parse(&words).expect("both are honoured");
        assert_eq!((entry.user, entry.reads_stdin, entry.line), (Some("ann"), false, None));
    }

    #[test]
    fn an_option_that_needs_a_connection_is_refused() {
        for line in ["-L 80:localhost:80", "-N", "-tD 1080", "-i"] {
            assert_eq!(Entry::parse(&words(line)).expect_err(line).code, 2);
        }
    }
}
