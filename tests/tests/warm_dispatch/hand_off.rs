//! Handlers of a fork that hang: the hook runs without its warm parent, once, and nothing is left.
//!
//! A library registers its handlers with the C library, where the warm parent does not see them. They count the forks
//! that lead to their process: the warm parent forks a child (1), the child the hook (2), and a hook that stands for a shell the program
//! of the charm (3).

use super::{DISPATCHES, agent_log, parent_of, probe, run, scene};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tests::host::Host;
use tests::scene::{Scene, text};

const REPLACED: &str = DISPATCHES[1].1;
const WAITED: &str = DISPATCHES[0].1;
const UNIT: &str = "probe/0";

/// A handler, and the fork in which it is called.
type Place = (&'static str, u32);

/// The library of a charm whose handler waits.
fn library(place: Place, waits: &str) -> String {
    let (handler, fork) = place;
    format!(
        r#"
import ctypes, os, time
_libc = ctypes.CDLL(None)
_depth = [0]
_kind = ctypes.CFUNCTYPE(None)
_sleep, _exists = time.sleep, os.path.exists

def _handler(name):
    def call():
        _depth[0] += name == "child"
        if (name, _depth[0] + (name != "child")) == ({handler:?}, {fork}):
            {waits}
    return _kind(call)

_handlers = [_handler(name) for name in ("before", "parent", "child")]
getattr(_libc, "__register_atfork")(*_handlers, None)
"#
    )
}

/// Only from when the test has made this file, so that the first hooks run.
const FOR_EVER: &str = "while _exists('hang'): _libc.pause()";

/// Deploys a charm with such a library, whose action `wait` does not wait but notes that it has run. Returns the folder of
/// the charm.
fn deploy(scene: &Scene, name: &str, dispatch: &str, place: Place, waits: &str) -> PathBuf {
    let charm = probe(scene, name, dispatch);
    let path = charm.join("lib/probe_library.py");
    let own = fs::read_to_string(&path).expect("it exists");
    fs::write(&path, own + &library(place, waits)).expect("written");
    scene.ok(&["deploy", text(&charm), name]);
    let unit = format!("{name}/0");
    scene.until_status(&unit, "active", "");
    let installed = scene.unit_folder(&unit).expect("it is deployed").join("charm");
    for file in ["go", "hang"] {
        fs::write(installed.join(file), "").expect("written");
    }
    installed
}

/// The processes that have run the action `wait`, or the hook config-changed.
fn noted(charm: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(charm.join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The warm parent and what it has forked that is neither a shim nor a hook.
fn forked(charm: &Path) -> BTreeSet<i32> {
    let warm = format!("PYTHONPATH={}", text(&charm.with_file_name("warm")));
    let pids = fs::read_dir("/proc").expect("it exists").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_forked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(warm.as_bytes()))
    };
    pids.filter(is_forked).collect()
}

/// The lines that tell that the unit has no warm parent any more.
fn refusals(host: &Host, unit: &str) -> usize {
    agent_log(host, unit).lines().filter(|line| line.contains("delay a fork")).count()
}

/// The number of runs within which there is a warm parent.
const RUNS_MAX: usize = 20;

fn runs_once_without_its_parent(dispatch: &str, places: &[Place]) {
    for place in places {
        let scene = scene();
        let charm = deploy(&scene, "probe", dispatch, *place, FOR_EVER);
        let mut runs = 0;
        while refusals(&scene, UNIT) == 0 {
            let run = run(&scene, UNIT, &["wait"]);
            runs += 1;
            assert_eq!((run.is_warm, run.code), (false, 0), "{place:?}");
            assert!(runs < RUNS_MAX, "{place:?}: it has no parent\n{}", agent_log(&scene, UNIT));
        }
        assert_eq!(noted(&charm, "waiting").len(), runs, "{place:?}: each has run once");
        scene.until("all that was forked has ended", |_| forked(&charm).is_empty().then_some(()));
        assert_eq!(run(&scene, UNIT, &["wait"]).code, 0);
        assert_eq!(noted(&charm, "waiting").len(), runs + 1, "{place:?}");
        assert_eq!((parent_of(&scene, UNIT), refusals(&scene, UNIT)), (None, 1), "{place:?}");
    }
}

#[test]
fn a_parent_that_hangs_in_its_fork_delays_one_hook() {
    runs_once_without_its_parent(REPLACED, &[("before", 1), ("parent", 1)]);
}

#[test]
fn a_child_that_does_not_become_the_shim_delays_one_hook() {
    runs_once_without_its_parent(REPLACED, &[("child", 1), ("before", 2), ("parent", 2)]);
}

#[test]
fn a_fork_that_does_not_become_the_hook_delays_one_hook() {
    runs_once_without_its_parent(REPLACED, &[("child", 2)]);
}

#[test]
fn a_shell_that_does_not_start_the_hook_delays_one_hook() {
    runs_once_without_its_parent(WAITED, &[("before", 3), ("parent", 3), ("child", 3)]);
}

/// What is forked becomes the hook at the moment at which it is given up.
#[test]
fn a_hook_whose_fork_takes_as_long_as_the_bound_runs_once() {
    let scene = scene();
    for (name, seconds) in [("before", 4.9), ("about", 4.99), ("after", 5.02)] {
        let waits = format!("_sleep({seconds})");
        let charm = deploy(&scene, name, REPLACED, ("child", 1), &waits);
        let unit = format!("{name}/0");
        let (mut runs, mut is_warm) = (0, false);
        while !is_warm && refusals(&scene, &unit) == 0 {
            let run = run(&scene, &unit, &["wait"]);
            (runs, is_warm) = (runs + 1, run.is_warm);
            assert_eq!(run.code, 0, "{name}");
            assert_eq!(noted(&charm, "waiting").len(), runs, "{name}");
            assert!(runs < RUNS_MAX, "{name}: it has no parent\n{}", agent_log(&scene, &unit));
        }
    }
}

/// An agent that is killed meanwhile leaves a process that hangs. It does not have the hook lock, and the next agent kills it
/// and repeats the hook.
#[test]
fn an_agent_that_is_killed_while_a_fork_hangs_runs_the_hook_once() {
    let scene = scene();
    let charm = deploy(&scene, "probe", REPLACED, ("child", 1), FOR_EVER);
    let mut changes = noted(&charm, "changed").len();
    let hanging = (0..RUNS_MAX).find_map(|number| {
        scene.ok(&["config", "probe", &format!("text={number}")]);
        changes += 1;
        scene.until("the hook has run, or hangs", |_| {
            let forked = forked(&charm);
            let has_run = noted(&charm, "changed").len() == changes;
            (has_run || forked.len() == 2).then_some((!has_run).then_some(forked))
        })
    });
    let hanging = hanging.unwrap_or_else(|| panic!("it has no parent\n{}", agent_log(&scene, UNIT)));
    let agent = scene.agent_pid(UNIT).expect("it runs");
    scene.kill(agent);
    scene.until("the hook has run", |_| (noted(&charm, "changed").len() == changes).then_some(()));
    scene.until("what hung has ended", |_| forked(&charm).is_disjoint(&hanging).then_some(()));
    scene.until("the unit is idle", |host| {
        (host.unit(UNIT)?["juju-status"]["current"] == "idle").then_some(())
    });
    assert_eq!(noted(&charm, "changed").len(), changes, "{}", agent_log(&scene, UNIT));
}

/// While a parent imports, hooks run without it. How long it may import is tested beside its watch.
#[test]
fn an_import_that_never_ends_delays_no_hook() {
    let scene = scene();
    let charm = probe(&scene, "probe", REPLACED);
    let path = charm.join("lib/probe_library.py");
    let own = fs::read_to_string(&path).expect("it exists");
    // the program of the parent calls it by this name
    let hangs = "import sys, time\n_frame, _names = sys._getframe(), set()\nwhile _frame:\n    \
                 _names.add(_frame.f_code.co_name)\n    _frame = _frame.f_back\n\
                 if 'serve' in _names:\n    time.sleep(10**6)\n";
    fs::write(&path, own + hangs).expect("written");
    scene.ok(&["deploy", text(&charm), "probe"]);
    scene.until_status(UNIT, "active", "");
    for _ in 0..3 {
        let run = run(&scene, UNIT, &["facts"]);
        assert_eq!((run.is_warm, run.code), (false, 0));
    }
    scene.until("it has a parent", |host| parent_of(host, UNIT));
}
