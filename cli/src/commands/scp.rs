//! `scp SOURCE… DESTINATION`: copies files from and to machines (spec/clients.md 3.2).
//!
//! A path in a machine is `TARGET:PATH`. An archive is piped from the one place to the other. No file of a machine is opened
//! by this host, so that no link in it leads to a file of this host; and the machine, which makes the archive, writes nothing
//! but the file or folder that was requested: the archive is unpacked into a new private folder, and refused if it contains
//! anything else.

use crate::command_error::CommandError;
use crate::local_paths;
use crate::machine_access::{AccessArgs, MachineAccess, Target};
use crate::openssh_options::{OpenSshOption, SCP_WITH_VALUE, is_options, no_connection, options_of};
use crate::session::CommandSession;
use api::{GetStatus, Status, UserPort};
use clap::Args;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Those about the connection, which OpenSSH's ssh has, too.
const CONNECTION: &str = "46ACcFiJoPqv";
/// Those without an effect: messages, the protocol, and where the bytes pass; times and modes are those of new files.
const WITHOUT_EFFECT: &str = "3BOpRsT";

/// Arguments of `scp`.
#[derive(Debug, Args)]
pub struct ScpArgs {
    /// Options of OpenSSH's scp, of which -r has an effect, and those about the connection on manually provisioned machines;
    /// the sources; and the destination
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true, value_name = "PATH")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Writes the archive of a file, or of a folder if the second argument is `-r`. A file that grows meanwhile is no error.
const READ: &str = r#"
if ! [ -e "$1" ]; then echo "$1: no such file or directory" >&2; exit 1; fi
if [ -d "$1" ] && [ "$2" != -r ]; then echo "$1 is a directory: use -r" >&2; exit 1; fi
tar -C "$(dirname -- "$1")" -chf - -- "$(basename -- "$1")"
code=$?; [ $code = 1 ] || exit $code
"#;

/// Reads an archive that must contain the entry of the name in the second argument alone, which is a file unless the third
/// argument is `-r`, and copies it into a folder, or to a new name. The archive of an honest machine has no links
/// ([`READ`]); through one of another, the next copy would write to, or send, other files of this host.
const WRITE: &str = r#"
folder=$1; target=$1/$2
if ! [ -d "$1" ]; then
    folder=$(dirname -- "$1"); target=$1
    if [ "$4" = many ]; then echo "$1 is not a directory" >&2; exit 1; fi
fi
if ! [ -d "$folder" ]; then echo "$folder: no such directory" >&2; exit 1; fi
new=$(mktemp -d "$folder/.scp-XXXXXX") || exit 1
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM
tar -C "$new" --no-same-owner --no-same-permissions -xf - || exit 1
if [ "$(ls -A "$new")" != "$2" ]; then echo "other files than $2 were sent" >&2; exit 1; fi
if [ "$3" != -r ] && ! [ -f "$new/$2" ]; then echo "$2 is no file" >&2; exit 1; fi
if [ "$(find "$new" ! -type f ! -type d)" ]; then echo "$2 contains links or special files" >&2; exit 1; fi
cp -RPT --remove-destination -- "$new/$2" "$target"
"#;

/// The most bytes of a program's stderr that are kept.
const STDERR_BYTES_MAX: u64 = 4 << 10;

/// A path of this host, or of a machine.
struct Place {
    machine: Option<MachineAccess>,
    path: String,
}

impl Place {
    fn find(
        text: &str,
        checks: &[String],
        status: &Status,
        dir: &crate::data_dir::DataDir,
    ) -> Result<Place, CommandError> {
        // a colon after a slash is part of a path of this host, except in the name of a unit
        let Some((target, path)) = text.split_once(':').filter(|(target, _)| !target.starts_with(['/', '.']))
        else {
            return Ok(Place { machine: None, path: text.to_owned() });
        };
        let target = Target::new(target);
        let machine = MachineAccess::find(&target, checks, status, dir)?;
        if let (MachineAccess::Container(_), Some(user)) =
            (&machine, target.user.filter(|user| *user != "root"))
        {
            return Err(CommandError::usage(format!(
                "cannot copy as {user}: files of a container are copied as root"
            )));
        }
        let path = if path.is_empty() { "." } else { path };
        let path = match &machine {
            MachineAccess::Folder(folder) => local_paths::path(folder, path),
            MachineAccess::Container(_) | MachineAccess::Remote(..) => path.to_owned(),
        };
        Ok(Place { machine: Some(machine), path })
    }

    /// Whether it is reached by a connection of OpenSSH.
    fn is_remote(&self) -> bool {
        matches!(self.machine, Some(MachineAccess::Remote(..)))
    }

    /// The command that runs a script with this path and further arguments.
    fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let fixed = ["sh", "-c", script, "sh", &self.path];
        let words = fixed.iter().chain(arguments);
        let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
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

/// Starts a program. The command is dropped with its ends of the pipes: a program that waits for their end must see it.
fn start(mut command: Command) -> Result<Child, CommandError> {
    let started = command.stderr(Stdio::piped()).spawn();
    started.map_err(|error| {
        CommandError::new(format!("cannot run {}: {error}", command.get_program().to_string_lossy()))
    })
}

/// Waits for the end of a program. If it has failed, returns the first line of its stderr, if there is one.
fn wait(mut program: Child) -> Result<(), Option<String>> {
    let mut text = Vec::new();
    if let Some(mut stderr) = program.stderr.take() {
        // all of it is read, because a program whose pipe is full does not end
        let kept = stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut text);
        kept.and_then(|_| io::copy(&mut stderr, &mut io::sink())).map_err(|error| Some(error.to_string()))?;
    }
    let ended = program.wait().map_err(|error| Some(error.to_string()))?;
    if ended.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    Err(line.map(str::to_owned))
}

/// Copies one file or folder.
fn copy(source: &Place, destination: &Place, recursive: bool, many: bool) -> Result<(), CommandError> {
    let name = Path::new(&source.path).file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        CommandError::usage(format!("cannot copy {:?}: name the file or the folder", source.path))
    })?;
    let flag = if recursive { "-r" } else { "" };
    let mut read = source.command(READ, &[flag]);
    read.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut reader = start(read)?;
    let archive = reader.stdout.take().expect("it is piped");
    let mut write = destination.command(WRITE, &[name, flag, if many { "many" } else { "" }]);
    write.stdin(archive).stdout(Stdio::null());
    let writer = start(write);
    let reading = std::thread::spawn(move || wait(reader));
    let written = writer.map(wait)?;
    let read = reading.join().expect("it does not panic");
    let failed = |what: &str, path: &str, why: Option<String>| {
        let why = why.unwrap_or_else(|| "its program has failed".to_owned());
        Err(CommandError::new(format!("cannot {what} {path}: {why}")))
    };
    match (read, written) {
        (Ok(()), Ok(())) => Ok(()),
        // a reader whose archive nobody reads ends in silence
        (Err(None) | Ok(()), Err(why)) => failed("write", &destination.path, why),
        (Err(why), _) => failed("read", &source.path, why),
    }
}

/// The options of OpenSSH's scp, and the paths.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request<'a> {
    recursive: bool,
    /// The same options for OpenSSH's ssh, by which a manually provisioned machine is reached.
    connection: Vec<String>,
    /// The letters of those about the connection that have a value.
    letters: Vec<char>,
    paths: Vec<&'a str>,
}

impl Request<'_> {
    fn parse(words: &[String]) -> Result<Request<'_>, CommandError> {
        let mut request = Request::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                continue;
            }
            if !is_options(word) {
                request.paths.push(word);
                continue;
            }
            for OpenSshOption { letter, value } in options_of(word, SCP_WITH_VALUE, &mut rest)? {
                match value {
                    None if letter == 'r' => request.recursive = true,
                    None if CONNECTION.contains(letter) => request.connection.push(format!("-{letter}")),
                    None if WITHOUT_EFFECT.contains(letter) => {}
                    Some(value) if CONNECTION.contains(letter) => {
                        let flag = if letter == 'P' { 'p' } else { letter };
                        request.connection.extend([format!("-{flag}"), value.to_owned()]);
                        request.letters.push(letter);
                    }
                    _ => return Err(CommandError::usage(format!("cannot use -{letter}"))),
                }
            }
        }
        Ok(request)
    }
}

pub async fn run<A: UserPort>(args: &ScpArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    let Request { recursive, connection, letters, paths } = Request::parse(&args.words)?;
    let options = [args.access.options()?, connection].concat();
    let Some((destination, sources)) = paths.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(CommandError::usage("expected at least one source and a destination")
            .hint("for example: pintle scp web/0:/var/log/syslog ."));
    };
    let status = session.api.handle(GetStatus).await?;
    let destination = Place::find(destination, &options, &status, &session.dir)?;
    let sources = sources.iter().map(|source| Place::find(source, &options, &status, &session.dir));
    let sources = sources.collect::<Result<Vec<_>, CommandError>>()?;
    if !sources.iter().chain([&destination]).any(Place::is_remote) {
        session.output.warn(&letters.into_iter().map(no_connection).collect::<Vec<_>>());
    }
    for source in &sources {
        copy(source, &destination, recursive, sources.len() > 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn options_about_the_connection_are_those_of_ssh_and_their_values_are_no_paths() {
        let words = ["-r", "-i", "/key", "a", "-P22", "-q", "--", "0:b"].map(str::to_owned);
        let request = Request::parse(&words).expect("they are known");
        assert_eq!((request.recursive, request.paths), (true, vec!["a", "0:b"]));
        assert_eq!(request.connection, ["-i", "/key", "-p", "22", "-q"]);
        assert_eq!(request.letters, ['i', 'P']);
        assert_eq!(Request::parse(&["-D".to_owned(), "x".to_owned()]).expect_err("no server").code, 2);
    }

    /// A machine makes the archive. Through a link in it, the next copy would write to, or send, other files of this host.
    #[test]
    fn an_archive_with_a_link_is_refused_as_a_whole() {
        let parent = tempfile::tempdir().expect("a folder");
        let [sent, received] = ["sent", "received"].map(|name| parent.path().join(name));
        let write = |flag: &str| {
            let mut tar = Command::new("tar");
            tar.arg("-C").arg(&sent).args(["-cf", "-", "data"]).stdout(Stdio::piped());
            let archive = tar.spawn().expect("it is installed").stdout.expect("it is piped");
            let mut script = Command::new("sh");
            script.args(["-c", WRITE, "sh"]).arg(&received).args(["data", flag, ""]).stdin(archive);
            script.stderr(Stdio::null()).status().expect("it runs").success()
        };
        std::fs::create_dir(&sent).expect("a new folder");
        std::fs::create_dir(&received).expect("a new folder");
        let is_empty = || std::fs::read_dir(&received).expect("it exists").next().is_none();
        symlink("/etc", sent.join("data")).expect("linked");
        assert!(!write("-r") && !write("") && is_empty(), "the entry itself");
        std::fs::remove_file(sent.join("data")).expect("removed");
        std::fs::create_dir(sent.join("data")).expect("a new folder");
        symlink("/etc/passwd", sent.join("data/log")).expect("linked");
        assert!(!write("-r") && is_empty(), "below the entry");
        std::fs::remove_file(sent.join("data/log")).expect("removed");
        assert!(write("-r") && received.join("data").is_dir());
    }
}
