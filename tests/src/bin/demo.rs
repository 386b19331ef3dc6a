//! `make demo`: deploys, relates, crashes and removes the sample charms, and checks each step. Exits with 0 only if
//! every check passes. `make programs` (`demo --programs`): prints the folder in which cargo put the programs.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tests::host::{Host, sample};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--programs") {
        println!("{}", tests::host::programs().display());
        return;
    }
    let dir = data_dir();
    println!("A controller, two related charms, a crash and a removal; everything in {}\n", dir.display());
    end_with_a_failed_check(&dir);
    let host = step("pintle up: a controller with its store, in the background", || Host::up(&dir));
    step("deploy two charms, each on its own machine", || {
        host.ok(&["deploy", path(&sample("pair-db")), "db"]);
        host.ok(&["deploy", path(&sample("pair-web")), "web"]);
        host.until_status("db/0", "active", "ready");
        host.until_status("web/0", "blocked", "needs a database");
    });
    step("relate them: each unit joins, writes settings, and reads those of the other", || {
        host.ok(&["integrate", "web", "db"]);
        let address = host.unit("db/0").expect("deployed")["public-address"].clone();
        let address = address.as_str().expect("units have an address").to_owned();
        host.until_status("web/0", "active", &format!("connected to {address}"));
        host.until_status("db/0", "active", "web likes green");
        print!("{}", host.ok(&["status", "--relations"]));
    });
    step("the hooks that ran on each unit, with their data", || {
        for unit in ["db/0", "web/0"] {
            let hooks: Vec<String> = host.runs(unit).into_iter().map(|(_, operation)| operation).collect();
            println!("  {unit}: {}", hooks.join(", ").replace("hook ", ""));
            let at = |hook: &str| hooks.iter().position(|run| run.contains(hook));
            let order = ["install", "config-changed", "start", "relation-joined", "relation-changed"].map(at);
            assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{unit}: {hooks:?}");
        }
        for unit in ["db/0", "web/0"] {
            let shown = host.ok(&["show-unit", unit, "--format", "json"]);
            let shown: Value = serde_json::from_str(&shown).expect("show-unit prints JSON");
            let relation = &shown[unit]["relation-info"][0];
            println!(
                "  {unit} has set {} and reads {}",
                relation["local-unit"]["data"], relation["related-units"]
            );
            assert!(relation["related-units"].as_object().is_some_and(|units| units.len() == 1));
        }
    });
    step("change a setting of one application, and the other reacts", || {
        host.ok(&["config", "web", "color=blue"]);
        host.until_status("db/0", "active", "web likes blue");
    });
    step("kill -9 an agent during a hook: the hook continues, and does not run twice", || {
        host.ok(&["config", "web", "slow-seconds=3", "color=red"]);
        let pid = host.until("the slow hook runs", |host| {
            let slow = host.log().iter().any(|line| line.contains("taking 3 seconds"));
            slow.then(|| host.agent_pid("web/0")).flatten()
        });
        host.kill(pid);
        println!("  killed the agent of web/0, pid {pid}");
        host.until_status("db/0", "active", "web likes red");
        let again = host.until("another agent", |host| host.agent_pid("web/0").filter(|now| *now != pid));
        let started = host.log().iter().filter(|line| line.contains("taking 3 seconds")).count();
        println!("  the agent is back as pid {again}; the hook was started {started} time(s)");
        assert_eq!(started, 1, "a hook that survived its agent is not run again");
    });
    step("kill -9 agent and hook: the hook runs again, and takes effect once", || {
        host.ok(&["config", "web", "slow-seconds=4", "color=white"]);
        let (agent, shim, hook) = host.until("the slow hook runs", |host| {
            let slow = host.log().iter().any(|line| line.contains("taking 4 seconds"));
            let (last, _) = slow.then(|| host.runs("web/0").pop()).flatten()?;
            let run = host.run_folder("web/0", last)?;
            Some((host.agent_pid("web/0")?, pid(&run.join("shim.pid"))?, pid(&run.join("hook.pid"))?))
        });
        [agent, shim, hook].into_iter().for_each(|pid| host.kill(pid));
        println!("  killed agent {agent}, shim {shim} and hook {hook}");
        host.until_status("db/0", "active", "web likes white");
        let started = host.log().iter().filter(|line| line.contains("taking 4 seconds")).count();
        println!("  the hook was started {started} times");
        assert_eq!(started, 2, "an interrupted hook is run again, once");
        host.ok(&["config", "web", "slow-seconds=0"]);
    });
    step("remove one application: departed and broken run on the other, and nothing of it is left", || {
        host.ok(&["remove-application", "web", "--no-prompt"]);
        host.until("db/0 ran departed and broken", |host| {
            let log = host.log();
            let ran = |hook: &str| {
                log.iter().any(|line| line.contains(&format!("unit.db/0.juju-log db:0: {hook}")))
            };
            (ran("db-relation-departed") && ran("db-relation-broken")).then_some(())
        });
        host.until("web is gone", |host| {
            let removed =
                host.status()["applications"]["web"].is_null() && host.unit_folder("web/0").is_none();
            removed.then_some(())
        });
        print!("{}", host.ok(&["status"]));
    });
    step("pintle down: no process is left", || {
        host.ok(&["down"]);
        let left = host.processes();
        assert!(left.is_empty(), "left behind: {left:#?}");
    });
    drop(host);
    std::fs::remove_dir_all(&dir).expect("the demo's own folder");
    println!("\nEvery step was checked.");
}

fn data_dir() -> PathBuf {
    let base = std::env::temp_dir().canonicalize().expect("there is a folder for temporary files");
    base.join(format!("pintle-demo-{}", std::process::id()))
}

/// Stops all programs before the demo exits because of a failed check.
fn end_with_a_failed_check(dir: &Path) {
    let (dir, show) = (dir.to_path_buf(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |failed| {
        show(failed);
        drop(Host::new(&dir));
    }));
}

fn path(path: &Path) -> &str {
    path.to_str().expect("sample paths are text")
}

fn pid(file: &Path) -> Option<i32> {
    std::fs::read_to_string(file).ok()?.split(' ').next()?.parse().ok()
}

/// Prints the name of a step, performs it, and prints that it passed. A failed check ends the demo with its message.
fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    println!("==> {what}");
    let done = work();
    println!("    seen\n");
    done
}
