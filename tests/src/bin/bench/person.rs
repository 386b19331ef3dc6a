//! Measures what a person waits for: a model that is added and destroyed, a unit that becomes active, and an edit that is
//! visible in `pintle dev`.
//!
//! The floor of a deployment is the time that the programs of its charm need by themselves, as often as hooks ran.

use super::{at, charm, report};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::host::{Host, sample};

const ROUNDS: usize = 15;
/// Models beside the one that is added and destroyed.
const MODELS: usize = 300;
const DEADLINE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Prints all figures.
pub fn bench(dir: &Path) {
    models(&dir.join("models"));
    let bash = charm(dir, "bash", "", "[ $JUJU_DISPATCH_PATH != hooks/start ] || status-set active");
    deployed(&dir.join("bash-data"), "a bash charm", &bash, |_| {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", ":"]);
        command
    });
    deployed(&dir.join("ops-data"), "an ops charm", &sample("ops-hello"), |unit| {
        let mut command = Command::new("python3");
        command.args(["-c", "import ops"]).env("PYTHONPATH", python_path(unit));
        command
    });
    edited(dir);
}

/// The folders in which the charm of a unit finds its packages.
fn python_path(unit: &Path) -> String {
    let charm = unit.join("charm");
    let venv = charm.join("venv");
    let libraries = fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    let packages = libraries.map(|library| library.path().join("site-packages"));
    let all: Vec<PathBuf> = packages.chain([venv, charm.join("lib")]).collect();
    all.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
}

fn timed_ms(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64() * 1000.0
}

fn models(data: &Path) {
    let host = Host::up(data);
    let measure = |what: &str| {
        let round = |_| {
            timed_ms(|| {
                host.ok(&["add-model", "measured"]);
                host.ok(&["destroy-model", "--no-prompt", "measured"]);
            })
        };
        let mut values: Vec<f64> = (0..ROUNDS).map(round).collect();
        report(&format!("add-model and destroy-model, {what}"), &mut values);
        at(&values, 50)
    };
    for name in ["second", "third"] {
        host.ok(&["add-model", name]);
    }
    let few = measure("3 other models");
    for number in 3..MODELS {
        host.ok(&["add-model", &format!("other-{number}")]);
    }
    let many = measure(&format!("{MODELS} other models"));
    println!("ratio p50 {:.2} (wanted: 1.5)", many / few);
}

/// Prints the time from `deploy` to an active unit, and the floor: the programs of its hooks without Pintle.
fn deployed(data: &Path, what: &str, charm: &Path, program: impl Fn(&Path) -> Command) {
    let host = Host::up(data);
    let (mut values, mut floors) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let name = format!("bench{round}");
        let unit = format!("{name}/0");
        values.push(timed_ms(|| {
            host.ok(&["deploy", charm.to_str().expect("text"), &name]);
            host.ok(&["wait-for", "unit", &unit, "--query", "workload-status==\"active\""]);
        }));
        let folder = host.unit_folder(&unit).expect("it is deployed");
        let hooks = host.runs(&unit).len();
        floors.push(timed_ms(|| {
            for _ in 0..hooks {
                let ended = program(&folder).status().expect("it is installed");
                assert!(ended.success());
            }
        }));
        host.ok(&["remove-application", "--no-prompt", &name]);
    }
    report(&format!("deploy of one unit of {what} to active"), &mut values);
    report("the programs of its hooks alone", &mut floors);
    println!("ratio p50 {:.2}", at(&values, 50) / at(&floors, 50));
}

/// Ends `pintle dev` when the measurement ends, also by a panic.
struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it is our child");
    }
}

/// Prints the time from the save of a file to the hook that runs it in `pintle dev`.
fn edited(dir: &Path) {
    let seen = dir.join("edited");
    // the line of a hook is the number of the edit that it runs
    let write = |round: usize| charm(dir, "edit", "", &format!("echo {round} >> {}", seen.display()));
    let wait = |round: usize| {
        let end = Instant::now() + DEADLINE;
        let is_seen = |text: String| text.lines().any(|line| line == round.to_string());
        while !fs::read_to_string(&seen).is_ok_and(is_seen) {
            assert!(Instant::now() < end, "edit {round} is never visible");
            std::thread::park_timeout(POLL_INTERVAL);
        }
    };
    let folder = write(0);
    let host = Host::up(&dir.join("dev-data"));
    let mut command = Command::new(host.programs.join("pintle"));
    command.arg("--data").arg(&host.dir).arg("dev").arg(&folder);
    let _dev = Dev(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was built"));
    wait(0);
    let mut values = Vec::new();
    for round in 1..=ROUNDS {
        values.push(timed_ms(|| {
            write(round);
            wait(round);
        }));
    }
    report("a saved file to the hook that runs it, in dev", &mut values);
}
