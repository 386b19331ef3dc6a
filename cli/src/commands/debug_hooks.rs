//! `debug-hooks UNIT [HOOK…]` and `debug-code UNIT [HOOK…]`: a terminal in which the hooks of a unit run (spec/clients.md
//! 3.2).
//!
//! The command starts a tmux session in the machine of the unit, and writes into the folder of the unit what the session
//! concerns; the unit's agent opens a window for each of these hooks. When the terminal is closed the session ends, and
//! further hooks run as usual.

use crate::command_error::CommandError;
use crate::machine_access::{AccessArgs, MachineAccess, Target, find_unit};
use crate::session::CommandSession;
use api::machine_folder::{AGENTS_DIR, DATA_DIR};
use api::{GetDeclaredActions, GetStatus, UnitChoice, UserPort};
use clap::Args;
use host::shell::quote;
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::unit::debug_session::{DEBUG_SESSION_FILE, DebugMode, DebugSession};
use std::io::{IsTerminal, stdin, stdout};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// Arguments of `debug-hooks`.
#[derive(Debug, Args)]
pub struct DebugHooksArgs {
    /// The unit: web/0, or web/leader
    #[arg(value_name = "UNIT")]
    pub unit: UnitChoice,
    /// The hooks and actions for which a shell is opened; by default all
    #[arg(value_name = "HOOK")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Arguments of `debug-code`.
#[derive(Debug, Args)]
pub struct DebugCodeArgs {
    #[command(flatten)]
    pub session: DebugHooksArgs,
    /// The breakpoints at which the charm stops, as its framework names them
    #[arg(long, default_value = "all", value_name = "BREAKPOINTS")]
    pub at: String,
}

/// Opens a shell instead of each hook.
///
/// # Errors
/// If there is no such unit, if a name is neither that of an action nor one that a hook can have, or if the machine does
/// not run.
pub async fn hooks<A: UserPort>(
    args: &DebugHooksArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    open(args, DebugMode::Shell, session).await
}

/// Runs each hook in the terminal.
///
/// # Errors
/// As [`hooks`].
pub async fn code<A: UserPort>(
    args: &DebugCodeArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    open(&args.session, DebugMode::Code { at: args.at.clone() }, session).await
}

async fn open<A: UserPort>(
    args: &DebugHooksArgs,
    mode: DebugMode,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let mut options = args.access.options()?;
    options.push("-t".to_owned());
    let status = session.api.handle(GetStatus).await?;
    let (unit, _) = find_unit(&args.unit, &status)?;
    let declared = GetDeclaredActions { application: unit.application.clone() };
    let actions = session.api.handle(declared).await?;
    for name in &args.names {
        if !HookName::is_possible(name) && !actions.contains_key(name) {
            return Err(CommandError::new(format!("unit {unit} contains neither hook nor action {name:?}"))
                .hint(format!("list the actions with: pintle actions {}", unit.application)));
        }
    }
    // without one the session would have no user, and catch each hook
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        return Err(CommandError::new(format!("cannot debug {unit}: there is no terminal for its session"))
            .hint("run the command in a terminal, with stdin and stdout as they are"));
    }
    let name = unit.to_string();
    let access = MachineAccess::find(&Target::new(&name), &options, &status, &session.dir)?;
    let folder = match &access {
        MachineAccess::Folder(machine) => machine.clone(),
        MachineAccess::Container(_) | MachineAccess::Remote(..) => PathBuf::from(DATA_DIR),
    };
    let debug = DebugSession { tmux: unit.tag(), names: args.names.iter().cloned().collect(), mode };
    let sudo = if matches!(access, MachineAccess::Remote(..)) { "sudo " } else { "" };
    let install = format!("pintle ssh {unit} -- {sudo}apt-get install -y tmux");
    let install = session.output.complete(&install);
    let script = script(unit, &debug, &folder.join(AGENTS_DIR).join(unit.tag()), &install);
    let line = match &access {
        MachineAccess::Folder(_) => script,
        // a container does not see the terminal of this host
        MachineAccess::Container(_) => format!("exec script -qec {} /dev/null", quote(&script)),
        MachineAccess::Remote(..) => {
            let script = quote(&script);
            format!("if [ \"$(id -u)\" = 0 ]; then exec sh -c {script}; else exec sudo sh -c {script}; fi")
        }
    };
    let mut command = access.shell(None, Some(&line));
    let program = command.get_program().to_string_lossy().into_owned();
    Err(CommandError::new(format!("cannot run {program}: {}", command.exec())))
}

/// The script that opens the session in the machine. `install` is the command that installs tmux there. The session ends with the script, and the file of the session is
/// written after the session was started: a hook that starts before runs as usual.
fn script(unit: &UnitName, session: &DebugSession, folder: &Path, install: &str) -> String {
    let text = serde_json::to_string(session).expect("it is plain data");
    let hint = quote(&format!("hint: to install it there: {install}"));
    let (folder, tmux) = (quote(&folder.to_string_lossy()), quote(&session.tmux));
    let (file, text) = (DEBUG_SESSION_FILE, quote(&text));
    format!(
        r#"cd {folder} || exit 1
umask 077
# hooks do not have this variable
unset TMUX_TMPDIR
if ! command -v tmux >/dev/null; then
    echo "ERROR cannot debug {unit}: its machine has no tmux" >&2
    echo {hint} >&2
    exit 1
fi
if tmux -L {tmux} has-session -t {tmux} 2>/dev/null; then
    echo "ERROR {unit} is being debugged in another terminal" >&2
    exit 1
fi
tmux -L {tmux} new-session -d -s {tmux} -n waiting "echo 'Each hook of {unit} opens a window. The session ends with its last window.'; exec bash" || exit 1
trap 'rm -f {file}; timeout 10 tmux -L {tmux} kill-server 2>/dev/null' EXIT
trap 'exit 1' HUP INT TERM
printf %s {text} > {file}.new && mv {file}.new {file} || exit 1
# a signal ends the wait: a lost terminal ends the session even if the client of tmux does not end
exec 3<&0
tmux -L {tmux} attach-session -t {tmux} <&3 &
wait $!
"#
    )
}
