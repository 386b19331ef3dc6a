//! Runs a hook or an action in the debug session of its unit (`state::unit::debug_session`).
//!
//! The shim starts a script instead of the charm's program. The script opens a window in the tmux session and waits until
//! the window is closed. If the session has ended meanwhile, the charm's program runs as usual.

use crate::folder::UnitFolder;
use host::file::{ignore_not_found, read_regular};
use host::shell::quote;
use state::unit::debug_session::{DEBUG_SESSION_FILE, DebugMode, DebugSession};
use state::unit::hook_context::HookContext;
use std::io;
use std::path::{Path, PathBuf};

/// The script that the shim runs, in the folder of the run. The names of its other files begin with it, as that of
/// [`DEBUGGED_RUN_FILE`](state::unit::debug_session::DEBUGGED_RUN_FILE).
const SCRIPT: &str = "debug";

/// What the scripts have in common. `end_with_run PID` ends all processes of the terminal when the script of the run has
/// ended: it was cancelled, or its unit is stopped.
const FUNCTIONS: &str = r#"
# a tmux server that does not answer within 10 s is treated as ended
tmux() { timeout 10 tmux -L "$session" "$@"; }
end_with_run() {
    (
        trap '' HUP
        while kill -0 "$1" 2>/dev/null; do sleep 1; done
        pkill -KILL -s $$ || kill -KILL $$
    ) </dev/null >/dev/null 2>&1 &
}
"#;

/// Waits for the end of the window, which is no child of this script. The window ends with this script.
const WAIT_FOR_WINDOW: &str = r#"
tmux has-session -t "$session" 2>/dev/null || exec "$program"
export -p > "$files.environment"
pid=$(tmux new-window -P -F '#{pane_pid}' -t "$session:" -n "$name" "bash $(printf %q "$files.window") $$") || { rm -f "$files".*; exec "$program"; }
is_open() { tmux list-panes -s -t "$session:" -F '#{pane_pid}' 2>/dev/null | grep -qx "$pid"; }
while [ ! -s "$files.exit-code" ] && is_open; do sleep 0.2; done
code=$(cat "$files.exit-code" 2>/dev/null)
rm -f "$files".*
exit "${code:-1}"
"#;

/// The shell of a person. Its environment is that of the hook, except for the terminal.
const SHELL: &str = r#"
end_with_run "$1"
exec env -i TERM="$TERM" bash --noprofile --rcfile "$files.profile" -i
"#;

/// The start-up file of that shell. Its exit code is that of the run.
const PROFILE: &str = r#"
terminal=$TERM
. "$files.environment"
export TERM=$terminal
umask 022
cd "$PWD" || exit
trap 'echo $? > "$files.exit-code"' EXIT
# the terminal was lost: the hook has not run
trap 'echo 129 > "$files.exit-code"; exit 129' HUP TERM
PS1="$name \\$ "
cat <<END
This shell runs instead of $name of $JUJU_UNIT_NAME. The hook tools work, and
    $program
runs the program of the charm. "exit" ends the run: with 0 it succeeds, with another code it fails.
END
"#;

/// Runs the charm's program, which stops at a breakpoint (`debug-code`), and stores its exit code.
const DEBUG_CODE_SCRIPT: &str = r#"
end_with_run "$1"
terminal=$TERM
. "$files.environment"
export TERM=$terminal JUJU_DEBUG_AT="$at"
umask 022
cd "$PWD" && "$program"
echo $? > "$files.exit-code"
"#;

/// The largest session: the names of the 1,000 relations of a charm with 200 bytes each, and their hooks.
const SESSION_BYTES_MAX: u64 = 2 << 20;

/// Returns the debug session of the unit if the run happens in it.
fn session_of(folder: &UnitFolder, context: &HookContext) -> io::Result<Option<DebugSession>> {
    let text = read_regular(&folder.file(DEBUG_SESSION_FILE), SESSION_BYTES_MAX);
    let Some((text, _)) = ignore_not_found(text)? else { return Ok(None) };
    let session: DebugSession = serde_json::from_slice(&text)?;
    Ok(session.concerns(&context.trigger).then_some(session))
}

/// Whether the run happens in the debug session of its unit. A session that cannot be read has no effect.
pub(super) fn concerns(folder: &UnitFolder, context: &HookContext) -> bool {
    session_of(folder, context).is_ok_and(|session| session.is_some())
}

/// Returns the path that the shim executes for a program of the charm: a script, which it writes, if the run happens in
/// the debug session of its unit, else the program itself. A session that cannot be read is logged and has no effect.
pub(super) fn program(
    folder: &UnitFolder,
    run_folder: &Path,
    context: &HookContext,
    program: PathBuf,
) -> PathBuf {
    let script = run_folder.join(SCRIPT);
    let write = |session: DebugSession| write_scripts(&session, &script, context, &program);
    match session_of(folder, context).and_then(|session| session.map(write).transpose()) {
        Ok(None) => program,
        Ok(Some(())) => script,
        Err(error) => {
            tracing::warn!("cannot use the debug session of the unit: {error}");
            program
        }
    }
}

fn write_scripts(
    session: &DebugSession,
    script: &Path,
    context: &HookContext,
    program: &Path,
) -> io::Result<()> {
    let name = context.trigger.dispatch_path().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let at = match &session.mode {
        DebugMode::Shell => "",
        DebugMode::Code { at } => at,
    };
    let variables = [
        ("session", session.tmux.as_str()),
        ("name", name),
        ("program", &program.to_string_lossy()),
        ("files", &script.to_string_lossy()),
        ("at", at),
    ];
    let mut head = String::from("#!/bin/bash\n");
    for (variable, value) in variables {
        head += &format!("{variable}={}\n", quote(value));
    }
    head += FUNCTIONS;
    let write = |suffix: &str, text: &str| {
        let file = PathBuf::from(format!("{}{suffix}", script.display()));
        super::create_file(&file, format!("{head}{text}").as_bytes(), 0o700)
    };
    write(".profile", PROFILE)?;
    write(".window", if session.mode == DebugMode::Shell { SHELL } else { DEBUG_CODE_SCRIPT })?;
    write("", WAIT_FOR_WINDOW)
}
