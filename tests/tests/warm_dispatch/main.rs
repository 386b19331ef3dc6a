//! Warm dispatch with the whole product: the hooks that a warm parent forks are compared with those that are started as
//! usual, and its promises are kept while processes are killed.
//!
//! `same_process` compares what a charm sees of itself, and how its runs end; `same_calls` the tool calls of charms on
//! several versions of ops; `lifetime` tells when there is a parent, and what is left when processes are killed; `hand_off`
//! what happens if a fork or an import never ends.

mod hand_off;
mod lifetime;
mod same_calls;
mod same_process;

use agent::hook_process::run_files::read_run_file;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::host::Host;
use tests::scene::{Scene, text};

/// A scene whose model has warm parents.
fn scene() -> Scene {
    let scene = tests::scene::scene();
    scene.ok(&["model-config", "warm-dispatch=true"]);
    scene
}

/// The variants of a dispatch script that the charm of these tests has.
const DISPATCHES: [(&str, &str); 4] = [
    // charmcraft 1 and 2: a shell waits for Python
    (
        "waited",
        "#!/bin/sh\n\nJUJU_DISPATCH_PATH=\"${JUJU_DISPATCH_PATH:-$0}\" PYTHONPATH=lib:venv ./src/charm.py\n",
    ),
    (
        "replaced",
        "#!/bin/sh\nJUJU_DISPATCH_PATH=\"${JUJU_DISPATCH_PATH:-$0}\" PYTHONPATH=lib:venv exec python3 src/charm.py\n",
    ),
    // charmcraft 3 and later
    (
        "linked",
        "#!/bin/sh\ndispatch_path=\"$(dirname $(realpath $0))\"\npython_path=\"${dispatch_path}/venv/bin/python\"\n\
         if [ ! -e \"${python_path}\" ]; then\n    mkdir -p venv/bin\n    ln -s $(which python3) \"${python_path}\"\nfi\n\n\
         # Add\nexport PYTHONPATH=\"${dispatch_path}/lib:${dispatch_path}/src\"\n\
         export LD_LIBRARY_PATH=\"${dispatch_path}/usr/lib:${dispatch_path}/usr/lib/$(uname -m)-linux-gnu\"\n\n\
         exec \"${python_path}\" \"${dispatch_path}/src/charm.py\"\n",
    ),
    // a Python file
    ("python", ""),
];

/// The number of runs within which one is forked: the first ones may change files by importing modules.
const RUNS_MAX: usize = 10;

/// The charm of these tests, with this dispatch. An empty one stands for the program itself.
fn probe(scene: &Scene, name: &str, dispatch: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("charms/process-probe");
    let charm = scene.copy_of(&source, name);
    // the packages of the charm are its own library
    fs::create_dir(charm.join("venv")).expect("a new folder");
    fs::write(charm.join("venv/nothing"), "").expect("written");
    let dispatch = match dispatch {
        "" => {
            fs::rename(charm.join("lib/probe_library.py"), charm.join("probe_library.py")).expect("moved");
            fs::read_to_string(charm.join("src/charm.py")).expect("it is in the repository")
        }
        text => text.to_owned(),
    };
    fs::write(charm.join("dispatch"), dispatch).expect("written");
    for program in ["dispatch", "src/charm.py"] {
        fs::set_permissions(charm.join(program), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    charm
}

/// Deploys the charm and waits until its first hooks have run.
fn deploy(scene: &Scene, name: &str, dispatch: &str) -> PathBuf {
    let charm = probe(scene, name, dispatch);
    scene.ok(&["deploy", text(&charm), name]);
    scene.until_status(&format!("{name}/0"), "active", "");
    charm
}

/// A run that has ended.
struct EndedRun {
    folder: PathBuf,
    is_warm: bool,
    /// The exit code of `pintle run`.
    code: i32,
}

impl EndedRun {
    fn file(&self, name: &str) -> String {
        let text = fs::read(self.folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Runs an action of a unit.
fn run(host: &Host, unit: &str, action: &[&str]) -> EndedRun {
    let code = host.pintle(&[&["run", unit], action].concat()).code;
    last_run(host, unit, code)
}

fn last_run(host: &Host, unit: &str, code: i32) -> EndedRun {
    let (number, _) = host.runs(unit).pop().expect("it has run");
    let folder = host.run_folder(unit, number).expect("it is kept");
    let is_warm = read_run_file(&folder).expect("it was started").is_warm();
    EndedRun { folder, is_warm, code }
}

/// Runs an action until the warm parent has forked it.
fn run_warm(host: &Host, unit: &str, action: &[&str]) -> EndedRun {
    (0..RUNS_MAX)
        .map(|_| run(host, unit, action))
        .find(|run| run.is_warm)
        .unwrap_or_else(|| panic!("no run of {unit} is forked\n{}", agent_log(host, unit)))
}

fn agent_log(host: &Host, unit: &str) -> String {
    let folder = host.unit_folder(unit).expect("it is deployed");
    fs::read_to_string(folder.join("agent.log")).unwrap_or_default()
}

/// Sets whether warm parents fork hooks, and waits until the unit runs accordingly.
fn set_warm(host: &Host, is_on: bool, unit: &str) {
    host.ok(&["model-config", &format!("warm-dispatch={is_on}")]);
    let settled = (0..RUNS_MAX).map(|_| run(host, unit, &["facts"])).find(|run| run.is_warm == is_on);
    assert!(settled.is_some(), "the setting has no effect");
}

/// The warm parent of a unit.
fn parent_of(host: &Host, unit: &str) -> Option<i32> {
    let agent = host.agent_pid(unit)?;
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| is_python(*pid))
}

fn is_python(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| text(&path).contains("python3"))
}
