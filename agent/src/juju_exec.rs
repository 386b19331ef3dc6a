//! The programs `juju-exec` and `juju-run` on a machine (spec/hook-tools.md 6): they request commands from a unit
//! agent, and print what these commands printed.
//!
//! Any process of the agent's user may call them, inside and outside of a hook context: a child that outlives its hook,
//! `sudo`, a timer. Only a process of the running hook is refused, because the commands would wait for that hook to
//! end. Both are scripts that start `pintle-agent juju-exec` with the folder of their machine (`juju_paths`).

use crate::folder::UnitFolder;
use crate::hook_process::run_files::{read_outcome, read_run_file};
use crate::requested_commands::arguments;
use crate::run_lock_files::HOOK_LOCK;
use crate::socket_dir;
use crate::tool_socket::REQUEST_COMMANDS;
use api::machine_folder::AGENTS_DIR;
use hook_client::reconnect::ReconnectDelays;
use hook_client::{
    CallHeader, HEADER_BYTES, REQUEST_BYTES_MAX, ReplyFrame, encode_request, frame_length, shim,
};
use host::lock::Lock;
use host::process::Process;
use host::shell;
use state::terms::names::UnitName;
use state::unit::commands_context::RequestedRelation;
use state::unit::environment::MACHINE_RUN_ID;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// How long `--no-context` waits for the machine's hook lock, as in Juju.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What `--help` prints.
const HELP: &str = "\
Usage: juju-exec [options] [unit] <commands>

Summary:
Run the specified commands in the hook context of a unit.

Options:
--force-remote-unit  (= false)
    run the commands for a remote unit that is not in the relation
--no-context  (= false)
    do not run the commands in a hook context
--operator  (= false)
    run the commands on the operator, which is where they always run
-r, --relation (= \"\")
    run the commands for a specific relation
--remote-app (= \"\")
    run the commands for a specific remote application
--remote-unit (= \"\")
    run the commands for a specific remote unit
-u, --unit (= \"\")
    the unit, if the machine has several
";

/// Why the commands did not run: the exit code and the message.
type Refused = (u8, String);

/// What was requested on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    unit: Option<String>,
    no_context: bool,
    relation: RequestedRelation,
    words: Vec<String>,
}

/// Runs the program with these words of its command line, on the machine in the folder `data`.
pub fn run(data: &Path, words: &[String]) -> ExitCode {
    if is_help_requested(words) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match parse(words).and_then(|request| execute(data, &request)) {
        Ok(code) => ExitCode::from(code),
        Err((code, text)) => {
            eprintln!("ERROR {text}");
            ExitCode::from(code)
        }
    }
}

/// Whether a word before the commands asks for help.
fn is_help_requested(words: &[String]) -> bool {
    let options = words.iter().take_while(|word| word.starts_with('-') && *word != "--");
    options.into_iter().any(|word| word == "-h" || word == "--help")
}

fn usage<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err((2, text.into()))
}

/// Parses the options, the unit and the commands. All words after the first word of the commands belong to them.
fn parse(words: &[String]) -> Result<Request, Refused> {
    let mut request = Request::default();
    let mut rest = words.iter().cloned();
    let mut has_ended = false;
    while let Some(word) = rest.next() {
        if !has_ended && word == "--" {
            has_ended = true;
            continue;
        }
        if has_ended || !word.starts_with('-') || word == "-" {
            if request.unit.is_none() && unit_name(&word).is_some() {
                request.unit = Some(word);
                continue;
            }
            request.words.push(word);
            request.words.extend(rest);
            break;
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ if !word.starts_with("--") && word.chars().count() > 2 => {
                (word.chars().take(2).collect(), Some(word.chars().skip(2).collect()))
            }
            _ => (word, None),
        };
        let mut value = || match inline.clone().or_else(|| rest.next()) {
            Some(value) => Ok(Some(value)),
            None => usage(format!("option needs an argument: {name}")),
        };
        match name.as_str() {
            "-u" | "--unit" => request.unit = value()?,
            "-r" | "--relation" => request.relation.relation = value()?,
            "--remote-unit" => request.relation.remote_unit = value()?,
            "--remote-app" => request.relation.remote_application = value()?,
            "--force-remote-unit" => request.relation.force = true,
            "--no-context" => request.no_context = true,
            // the commands run on the machine of the unit, which has no workload container
            "--operator" => {}
            _ => return usage(format!("option provided but not defined: {name}")),
        }
    }
    if request.words.is_empty() {
        return usage("missing commands");
    }
    Ok(request)
}

/// The unit of a name or a tag: `web/0` or `unit-web-0`.
fn unit_name(text: &str) -> Option<UnitName> {
    text.parse().ok().or_else(|| UnitName::from_tag(text))
}

fn execute(data: &Path, request: &Request) -> Result<u8, Refused> {
    refuse_within_hook(data)?;
    let script = shell::line(&request.words);
    if request.no_context {
        return without_context(data, &script).map_err(|error| (1, error.to_string()));
    }
    let folder = match &request.unit {
        Some(text) => {
            let folder = unit_name(text).map(|name| UnitFolder::in_machine(data, &name.tag()));
            let found = folder.filter(|folder| folder.root().is_dir());
            found.ok_or_else(|| (1, format!("unit {text:?} not found on this machine")))?
        }
        None => only_unit(data)?,
    };
    call(&folder, REQUEST_COMMANDS, &arguments(&request.relation, &script)).map_err(|error| {
        let unit = folder.tag();
        (1, format!("cannot run commands in {unit}: {error}"))
    })
}

/// The folders of the units of the machine.
fn unit_folders(data: &Path) -> Vec<UnitFolder> {
    let entries = std::fs::read_dir(data.join(AGENTS_DIR)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).map(UnitFolder::new).collect()
}

/// The folder of the unit, if the machine has exactly one.
fn only_unit(data: &Path) -> Result<UnitFolder, Refused> {
    match <[UnitFolder; 1]>::try_from(unit_folders(data)) {
        Ok([folder]) => Ok(folder),
        Err(_) => usage("missing unit-name"),
    }
}

/// Refuses a process of a run that has not finished: the commands would wait for that run to finish. A process of a finished
/// run is not refused, because the children of a run may outlive it.
///
/// This is decided by the files of the run and not by its agent: an agent that is being restarted cannot decide, and these
/// commands and the run would then wait for each other.
fn refuse_within_hook(data: &Path) -> Result<(), Refused> {
    let ids = ["JUJU_CONTEXT_ID", MACHINE_RUN_ID].into_iter().filter_map(|name| std::env::var(name).ok());
    for context_id in ids.filter(|id| !id.is_empty()) {
        let digest = host::digest::sha256(context_id.as_bytes());
        let is_within = |run: &PathBuf| has_context(run, &digest) && is_running(run);
        if unit_folders(data).iter().filter_map(newest_run).any(|run| is_within(&run)) {
            return usage(format!(
                "juju-exec cannot be called from within a hook, have context {context_id:?}"
            ));
        }
    }
    Ok(())
}

/// The folder of the run that was started last.
fn newest_run(folder: &UnitFolder) -> Option<PathBuf> {
    folder.kept_runs().pop().map(|(_, path)| path)
}

fn has_context(run_folder: &Path, digest: &str) -> bool {
    read_run_file(run_folder).is_some_and(|run_file| run_file.context_digest() == digest)
}

/// Whether the program of a run has not ended: its shim stores the outcome and ends after it. A shim that was killed waits
/// for nothing, and its agent kills what it left.
fn is_running(run_folder: &Path) -> bool {
    let shim = Process::read_alive(&run_folder.join(shim::SHIM_PID));
    shim.is_some() && read_outcome(run_folder).is_none()
}

/// Calls the unit agent and prints its answer. Returns the exit code.
fn call(folder: &UnitFolder, tool: &str, args: &[String]) -> io::Result<u8> {
    let reply = exchange(folder, tool, args)?;
    match ReplyFrame::decode(&reply).map_err(|error| io::Error::other(error.to_string()))? {
        ReplyFrame::Done { code, stdout, stderr } => {
            io::stdout().write_all(stdout)?;
            io::stdout().flush()?;
            io::stderr().write_all(stderr)?;
            Ok(code)
        }
        ReplyFrame::NeedStdin => Err(io::Error::other("the unit agent has answered another request")),
    }
}

/// Sends a request to the unit agent and returns the frame of its answer. The connection is retried while the agent is
/// being restarted, but a request that was sent is never sent again, because the commands may have run.
fn exchange(folder: &UnitFolder, tool: &str, args: &[String]) -> io::Result<Vec<u8>> {
    let socket = socket_dir::existing(folder).join(socket_dir::SOCKET);
    let mut delays = ReconnectDelays::new();
    let mut stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) => match delays.next() {
                Some(pause_ms)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
                {
                    std::thread::sleep(Duration::from_millis(pause_ms.into()));
                }
                _ => return Err(io::Error::other(format!("{}: {error}", socket.display()))),
            },
        }
    };
    let context_id = std::env::var("JUJU_CONTEXT_ID").unwrap_or_default();
    let call = CallHeader {
        call_id: host::random::random_u128().to_le_bytes(),
        context_id: context_id.as_bytes(),
        cwd: b"/",
        tool: tool.as_bytes(),
    };
    let mut frame = vec![0; REQUEST_BYTES_MAX];
    let length = encode_request(&mut frame, &call, args.iter().map(String::as_bytes))
        .map_err(|error| io::Error::other(error.to_string()))?;
    stream.write_all(&frame[..length])?;
    let stopped = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other(
            "the unit agent stopped; commands that were already started continue, and no command is run again",
        ),
        _ => error,
    };
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).map_err(stopped)?;
    let length = frame_length(&header).map_err(|error| io::Error::other(error.to_string()))?;
    let mut reply = header.to_vec();
    reply.resize(length, 0);
    stream.read_exact(&mut reply[HEADER_BYTES..]).map_err(stopped)?;
    Ok(reply)
}

/// Runs the script as a plain process that holds the machine's hook lock. Hooks of a model with `parallel=true` may run at
/// the same time: they hold the lock of their unit only.
fn without_context(data: &Path, script: &str) -> io::Result<u8> {
    let since = Instant::now();
    let holder = format!("juju-exec (pid {})", std::process::id());
    let _lock = loop {
        match Lock::take(&data.join(HOOK_LOCK), &holder)? {
            Ok(lock) => break lock,
            Err(_) if since.elapsed() >= LOCK_TIMEOUT => {
                return Err(io::Error::other("timed out waiting for the hooks of this machine"));
            }
            Err(_) => std::thread::sleep(LOCK_POLL_INTERVAL),
        }
    };
    let status = Command::new("/bin/bash").arg("-c").arg(script).status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Request, Refused> {
        parse(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_unit_is_an_option_or_the_first_word_by_name_or_tag() {
        for line in [
            &["-u", "web/0", "ls", "-l"][..],
            &["web/0", "ls", "-l"],
            &["-uweb/0", "--", "ls", "-l"],
            &["--unit=web/0", "ls", "-l"],
        ] {
            let request = parsed(line).expect("a valid line");
            assert_eq!((request.unit.as_deref(), request.words), (Some("web/0"), words(&["ls", "-l"])));
        }
        assert_eq!(parsed(&["unit-web-0", "ls"]).expect("valid").unit.as_deref(), Some("unit-web-0"));
        assert_eq!(unit_name("unit-my-web-12"), Some(UnitName::new("my-web", 12)));
        assert_eq!(
            parsed(&["echo hi"]).expect("valid"),
            Request { words: words(&["echo hi"]), ..Request::default() }
        );
    }

    #[test]
    fn options_of_the_relation_are_passed_on_and_unknown_ones_refused() {
        let line =
            ["-r", "db:1", "--remote-unit", "db/0", "--force-remote-unit", "--no-context", "web/0", "true"];
        let request = parsed(&line).expect("valid");
        assert!(request.no_context && request.relation.force);
        assert_eq!(request.relation.relation.as_deref(), Some("db:1"));
        assert_eq!(request.relation.remote_unit.as_deref(), Some("db/0"));
        assert_eq!(parsed(&["web/0"]), usage("missing commands"));
        assert_eq!(parsed(&["-u"]), usage("option needs an argument: -u"));
        assert!(parsed(&["--operator", "true"]).is_ok());
        assert!(is_help_requested(&words(&["--no-context", "-h"])));
        assert!(!is_help_requested(&words(&["web/0", "ls", "--help"])), "it belongs to the commands");
        assert_eq!(parsed(&["--frob", "x"]), usage("option provided but not defined: --frob"));
    }
}
