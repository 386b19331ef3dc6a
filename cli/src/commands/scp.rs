//! `scp SOURCE… DESTINATION`: copies files from and to machines (spec/clients.md 3.2).
//!
//! A path in a machine is `TARGET:PATH`. An archive is piped from the one place to the other: no file of a machine is
//! opened by this host, so that no link in it leads to a file of this host.

use crate::command_error::CommandError;
use crate::commands::ssh::{NO_KEY_CHECKS, require_no_container};
use crate::machine_access::{MachineAccess, Target};
use crate::session::CommandSession;
use api::{GetStatus, Status, UserPort};
use clap::Args;
use std::process::{Child, Command, Stdio};

/// Arguments of `scp`.
#[derive(Debug, Args)]
pub struct ScpArgs {
    /// Options of OpenSSH's scp, of which -r has an effect; the sources; and the destination
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true, value_name = "PATH")]
    pub words: Vec<String>,
    /// Accept the key of a manually provisioned machine without a check
    #[arg(long)]
    pub no_host_key_checks: bool,
    /// Accepted without effect: the machines are reached directly
    #[arg(long)]
    pub proxy: bool,
    /// Refused: charms have no workload containers here
    #[arg(long, value_name = "CONTAINER")]
    pub container: Option<String>,
}

/// Writes the archive of a file, or of a folder if the second argument is `-r`.
const READ: &str = r#"
if ! [ -e "$1" ]; then echo "$1: no such file or directory" >&2; exit 1; fi
if [ -d "$1" ] && [ "$2" != -r ]; then echo "$1 is a directory: use -r" >&2; exit 1; fi
exec tar -C "$(dirname -- "$1")" -chf - -- "$(basename -- "$1")"
"#;

/// Reads the archive of one file or folder, and moves it into a folder, or to a new name.
const WRITE: &str = r#"
folder=$1; is_folder=yes
if ! [ -d "$1" ]; then folder=$(dirname -- "$1"); is_folder=; fi
if [ "$2" = many ] && ! [ "$is_folder" ]; then echo "$1 is not a directory" >&2; exit 1; fi
if ! [ -d "$folder" ]; then echo "$folder: no such directory" >&2; exit 1; fi
if [ "$is_folder" ]; then exec tar -C "$folder" --no-same-owner -xf -; fi
new=$(mktemp -d "$folder/.scp-XXXXXX") || exit 1
tar -C "$new" --no-same-owner -xf - && mv -T -- "$new/$(ls -A "$new")" "$1"
code=$?; rm -rf "$new"; exit $code
"#;

/// A path of this host, or of a machine.
struct Place {
    machine: Option<MachineAccess>,
    path: String,
}

impl Place {
    fn find(
        text: &str,
        args: &ScpArgs,
        status: &Status,
        dir: &crate::data_dir::DataDir,
    ) -> Result<Place, CommandError> {
        // a colon after a slash is part of a path of this host, except in the name of a unit
        let Some((target, path)) = text.split_once(':').filter(|(target, _)| !target.starts_with(['/', '.']))
        else {
            return Ok(Place { machine: None, path: text.to_owned() });
        };
        let checks =
            args.no_host_key_checks.then_some(NO_KEY_CHECKS).into_iter().flatten().map(str::to_owned);
        let target = Target::new(target);
        let machine = MachineAccess::find(&target, &checks.collect::<Vec<_>>(), status, dir)?;
        let path = if path.is_empty() { "." } else { path };
        Ok(Place { machine: Some(machine), path: path.to_owned() })
    }

    /// The command that runs a script with this path and another argument.
    fn command(&self, script: &str, argument: &str) -> Command {
        let words = ["sh", "-c", script, "sh", &self.path, argument].map(str::to_owned);
        match &self.machine {
            Some(machine) => machine.command(&words),
            None => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        }
    }
}

fn start(command: &mut Command) -> Result<Child, CommandError> {
    let started = command.stderr(Stdio::piped()).spawn();
    started.map_err(|error| {
        CommandError::new(format!("cannot run {}: {error}", command.get_program().to_string_lossy()))
    })
}

/// Copies one file or folder.
fn copy(source: &Place, destination: &Place, recursive: bool, many: bool) -> Result<(), CommandError> {
    let mut read = source.command(READ, if recursive { "-r" } else { "" });
    let mut reader = start(read.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let archive = reader.stdout.take().expect("it is piped");
    let mut write = destination.command(WRITE, if many { "many" } else { "" });
    let writer = start(write.stdin(archive).stdout(Stdio::null()));
    let (read, written) = (reader.wait_with_output(), writer?.wait_with_output());
    for (what, ended) in [("read", read), ("write", written)] {
        let ended = ended.map_err(|error| CommandError::new(format!("cannot copy: {error}")))?;
        if !ended.status.success() {
            let text = String::from_utf8_lossy(&ended.stderr);
            let why = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("its program has failed");
            let path = if what == "read" { &source.path } else { &destination.path };
            return Err(CommandError::new(format!("cannot {what} {path}: {}", why.trim())));
        }
    }
    Ok(())
}

pub async fn run<A: UserPort>(args: &ScpArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    require_no_container(args.container.as_deref())?;
    let (options, paths): (Vec<&String>, Vec<&String>) =
        args.words.iter().filter(|word| *word != "--").partition(|word| word.starts_with('-'));
    let Some((destination, sources)) = paths.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(CommandError::usage("expected at least one source and a destination")
            .hint("for example: pintle scp web/0:/var/log/syslog ."));
    };
    let recursive = options.iter().any(|option| !option.starts_with("--") && option.contains('r'));
    let status = session.api.handle(GetStatus).await?;
    let destination = Place::find(destination, args, &status, &session.dir)?;
    for source in sources {
        let source = Place::find(source, args, &status, &session.dir)?;
        copy(&source, &destination, recursive, sources.len() > 1)?;
    }
    Ok(())
}
