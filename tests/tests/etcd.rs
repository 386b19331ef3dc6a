//! Tests with the real programs that a controller whose store is in etcd serves models, and what it refuses.

use host::restart::EXIT_REFUSED;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use test_support::etcd_cluster::EtcdCluster;
use tests::host::{Host, programs, sample};
use tests::scene::{Scene, hooks, scene, scene_with, text};

fn store_of(cluster: &EtcdCluster) -> String {
    format!("etcd://{}", cluster.addresses().join(","))
}

/// A system whose store is in the cluster, with the units of two related applications.
fn related_units(cluster: &EtcdCluster) -> Scene {
    let dir = TempDir::with_prefix("pintle-etcd-").expect("a folder");
    let environment = [("PINTLE_STORE".to_owned(), OsString::from(store_of(cluster)))];
    let host = scene_with(dir, &environment.each_ref().map(|(name, value)| (name.as_str(), value.clone())));
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    host
}

/// A unit runs its hooks, the controller is restarted, and a member of etcd is killed: nothing is lost.
#[test]
fn a_controller_in_etcd_serves_units_across_a_restart_and_a_lost_member() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let host = related_units(&cluster);
    let ran = hooks(&host, "db/0");
    assert!(ran.iter().any(|hook| hook == "install"), "{ran:?}");
    let store = host.dir.join("controller/store");
    assert!(store.join("etcd.yaml").exists() && !store.join("store.sqlite").exists());
    cluster.kill(0);
    host.ok(&["add-unit", "db"]);
    host.until_status("db/1", "active", "web likes green");
    host.ok(&["down"]);
    // The data folder records how etcd is reached.
    let host = Host::new(&host.dir);
    host.ok(&["up"]);
    assert_eq!(host.status()["applications"]["db"]["units"].as_object().map(|units| units.len()), Some(2));
    host.until_status("db/1", "active", "web likes green");
    host.ok(&["remove-application", "--no-prompt", "web"]);
    host.until("the application is removed", |host| {
        (host.status()["applications"]["web"] == json!(null)).then_some(())
    });
}

/// Kills the supervisor and the controller, and migrates the store while agents and hooks run.
fn migrate(host: &Host, to: &str) {
    kill_controller(host);
    let output = start_migration(&host.dir, to);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let old = host.dir.join(match to {
        "sqlite" => "controller/store.old-etcd",
        _ => "controller/store.old-sqlite",
    });
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(old.is_dir() && stdout.contains(text(&old)), "{stdout}");
}

fn start_migration(data: &Path, to: &str) -> std::process::Output {
    let mut command = Command::new(programs().join("pintle-controller"));
    command.args(["migrate", "--data", text(data), "--to", to]).output().expect("it starts")
}

/// A hook runs while the store is migrated, to etcd and back: it runs once, and no other hook runs again.
#[test]
fn units_continue_while_their_store_is_migrated_to_etcd_and_back() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let host = scene();
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    host.ok(&["wait", "--settled"]);
    let refused = start_migration(&host.dir, &store_of(&cluster));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.lines().count() == 1, "{stderr}");
    // What the change of a setting causes without a migration.
    let [db, web] = ["db/0", "web/0"].map(|unit| hooks(&host, unit).len());
    host.ok(&["config", "web", "color=yellow"]);
    host.until_status("db/0", "active", "web likes yellow");
    host.ok(&["wait", "--settled"]);
    let caused = [hooks(&host, "db/0").split_off(db), hooks(&host, "web/0").split_off(web)];
    assert_eq!(caused[1][0], "config-changed");
    for (to, color, database) in [(store_of(&cluster), "blue", false), ("sqlite".to_owned(), "red", true)] {
        let [db, web] = ["db/0", "web/0"].map(|unit| hooks(&host, unit).len());
        // The hook is longer than the migration.
        host.ok(&["config", "web", &format!("color={color}"), "slow-seconds=8"]);
        host.until("the hook runs", |host| (hooks(host, "web/0").len() == web + 1).then_some(()));
        let agent = host.agent_pid("web/0");
        migrate(&host, &to);
        assert_eq!((agent.is_some(), host.agent_pid("web/0")), (true, agent), "the agent has continued");
        host.ok(&["up"]);
        host.until_status("db/0", "active", &format!("web likes {color}"));
        host.ok(&["wait", "--settled"]);
        assert_eq!([hooks(&host, "db/0").split_off(db), hooks(&host, "web/0").split_off(web)], caused);
        assert_eq!(host.dir.join("controller/store/store.sqlite").exists(), database);
        host.ok(&["config", "web", "slow-seconds=0"]);
        host.ok(&["wait", "--settled"]);
    }
}

/// A controller that a test has started without a supervisor. It ends with the test.
struct LoneController(Child);

impl Drop for LoneController {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns an address of this host on which nothing listens.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").to_string()
}

/// Adds an address to the list of a data folder, which agents of local machines get at their start.
fn list_address(host: &Host, address: &str) {
    let client = host.dir.join("client.yaml");
    let file = std::fs::read_to_string(&client).expect("readable");
    std::fs::write(&client, format!("{file}other_controllers:\n- {address}\n")).expect("written");
    host.ok(&["down"]);
    host.ok(&["up"]);
}

/// Starts a controller without a supervisor, and waits until it listens.
fn start_alone(host: &Host, data: &Path, address: &str) -> LoneController {
    let mut command = Command::new(programs().join("pintle-controller"));
    command.args(["--data", text(data), "--listen", address]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = LoneController(command.spawn().expect("it starts"));
    let is_reachable = |_: &Host| std::net::TcpStream::connect(address).is_ok().then_some(());
    host.until("the controller listens", is_reachable);
    started
}

/// Kills the supervisor and its controller, and waits until the data folder is free.
fn kill_controller(host: &Host) {
    for file in ["supervisor.pid", "controller.pid"] {
        host.kill(host.pid(&host.dir.join(file)).expect("it is up"));
    }
    let store = host.dir.join("controller/store/store.lock");
    host.until("the store is closed", |_| (!host::lock::is_held(&store)).then_some(()));
}

/// The controller is killed and started at another address, with a data folder that has no files of charms, as on another
/// host: the agents find it, no hook runs twice, and a new unit gets its charm from etcd.
#[test]
fn units_continue_when_their_controller_is_moved_to_another_address() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let host = related_units(&cluster);
    let address = free_address();
    list_address(&host, &address);
    host.ok(&["wait", "--settled"]);
    let before = ["db/0", "web/0"].map(|unit| hooks(&host, unit).len());
    let leaders = |host: &Host| {
        let applications = &host.status()["applications"];
        ["db", "web"].map(|name| applications[name]["units"][format!("{name}/0")]["leader"].clone())
    };
    assert_eq!(leaders(&host), [json!(true), json!(true)]);
    kill_controller(&host);
    std::fs::remove_dir_all(host.dir.join("controller/archives")).expect("it is a cache");
    let moved = start_alone(&host, &host.dir, &address);
    host.ok(&["config", "web", "color=yellow"]);
    host.until_status("db/0", "active", "web likes yellow");
    host.ok(&["add-unit", "db", "--to", "0"]);
    host.until_status("db/1", "active", "web likes yellow");
    host.ok(&["wait", "--settled"]);
    assert_eq!(leaders(&host), [json!(true), json!(true)]);
    let web = hooks(&host, "web/0").split_off(before[1]);
    assert_eq!(web.iter().filter(|hook| *hook == "config-changed").count(), 1, "{web:?}");
    let db = hooks(&host, "db/0").split_off(before[0]);
    assert_eq!(db.iter().filter(|hook| *hook == "db-relation-changed").count(), 1, "{db:?}");
    drop(moved);
}

/// Makes the data folder of a second controller.
fn add_controller(host: &Host, to: &Path) -> std::process::Output {
    let mut command = Command::new(programs().join("pintle-controller"));
    command.args(["add-controller", "--data", text(&host.dir), "--to", text(to)]).output().expect("it starts")
}

/// The address of the controller to which each agent has sent its last request.
fn addresses_of_agents(cluster: &EtcdCluster) -> Vec<String> {
    let agents = cluster.keys("/pintle/m/agent/").into_iter().filter(|key| key.ends_with("/agent"));
    let handle = |key: String| {
        let value: serde_json::Value = serde_json::from_str(&cluster.value(&key)).ok()?;
        value["by"].as_str().map(str::to_owned)
    };
    let address = |handle: String| cluster.value(&format!("/pintle/m/controller/{handle}"));
    agents.filter_map(handle).map(address).collect()
}

/// Two controllers serve the same units. One is killed, and starts again.
///
/// Each change of a setting of web/0 causes one hook of web/0 and one of each unit of db, whichever controller has received
/// it, also if that dies right after its answer.
#[test]
fn units_continue_with_the_other_controller_when_one_is_killed() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let host = related_units(&cluster);
    let address = free_address();
    list_address(&host, &address);
    let folder = host.beside("second");
    let added = add_controller(&host, &folder);
    assert!(added.status.success(), "{added:?}");
    let second = start_alone(&host, &folder, &address);
    let other = Host::new(&folder);
    other.ok(&["add-unit", "db", "--num-units", "2"]);
    let units = ["db/0", "db/1", "db/2"];
    let all_like = |at: &Host, color: &str| {
        units.iter().for_each(|unit| at.until_status(unit, "active", &format!("web likes {color}")));
    };
    all_like(&host, "green");
    other.ok(&["wait", "--settled"]);
    let counts = || ["web/0", "db/0", "db/1", "db/2"].map(|unit| hooks(&host, unit).len());
    let before = counts();
    let changes = std::cell::Cell::new(0);
    let change = |through: &Host, color: &str| {
        changes.set(changes.get() + 1);
        through.ok(&["config", "web", &format!("color={color}")]);
    };
    for (color, through, seen_by) in
        [("red", &*host, &other), ("blue", &other, &*host), ("pink", &*host, &other)]
    {
        change(through, color);
        all_like(seen_by, color);
    }
    // The controller to which all agents are attached dies right after its answer.
    change(&host, "gold");
    kill_controller(&host);
    all_like(&other, "gold");
    change(&other, "grey");
    all_like(&other, "grey");
    other.ok(&["wait", "--settled"]);
    // Each unit of db answers, which causes one more hook of web/0.
    let caused = [4, 1, 1, 1].map(|hooks| hooks * changes.get());
    let expected: Vec<usize> = before.iter().zip(caused).map(|(before, caused)| before + caused).collect();
    assert_eq!(counts().to_vec(), expected);
    other.ok(&["add-unit", "db", "--to", "0"]);
    other.until_status("db/3", "active", "web likes grey");
    let leaders = |at: &Host| {
        let applications = &at.status()["applications"];
        ["db", "web"].map(|name| applications[name]["units"][format!("{name}/0")]["leader"].clone())
    };
    assert_eq!(leaders(&other), [json!(true), json!(true)]);
    // It starts again. Each agent uses one of the two, and gets what is changed through this one.
    host.ok(&["up"]);
    let first = std::fs::read_to_string(host.dir.join("controller/identity.yaml")).expect("readable");
    let first = first.lines().find_map(|line| line.strip_prefix("address: ")).expect("it listens");
    let first = first.trim_matches(['"', '\'']);
    host.until("it listens again", |_| std::net::TcpStream::connect(first).is_ok().then_some(()));
    // five units on four machines
    host.until("all agents use a controller", |_| (addresses_of_agents(&cluster).len() == 9).then_some(()));
    change(&host, "black");
    other.ok(&["wait", "--settled"]);
    let message =
        |at: &Host| units.map(|unit| at.unit(unit).expect("it exists")["workload-status"]["message"].clone());
    let wanted = json!(format!("web likes {}", "black"));
    assert_eq!(message(&other), units.map(|_| wanted.clone()));
    host.ok(&["wait", "--settled"]);
    let shown = |at: &Host| {
        let status = at.status();
        (status["applications"].clone(), status["machines"].clone(), at.ok(&["why"]))
    };
    host.until("both show the same", |host| (shown(host) == shown(&other)).then_some(()));
    // A migration of one data folder would leave the other controller without its store.
    drop(second);
    host.until("the store is closed", |_| {
        (!host::lock::is_held(&folder.join("controller/store/store.lock"))).then_some(())
    });
    // It would start the machines a second time.
    assert!(other.refused(&["up"]).contains("controller/further-controller"));
    let refused = start_migration(&folder, "sqlite");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains(first), "{stderr}");
    // The other one lacks the new key.
    let keys = || std::fs::read_to_string(folder.join("controller/secret-keys.yaml")).expect("readable");
    let before = keys();
    let rotate =
        Command::new(programs().join("pintle-controller")).arg("rotate-secret-key").arg(&folder).output();
    let rotate = rotate.expect("it starts");
    let stderr = String::from_utf8_lossy(&rotate.stderr).into_owned();
    assert!(!rotate.status.success() && stderr.contains(first) && keys() == before, "{stderr}");
    change(&host, "white");
    all_like(&host, "white");
}

/// `up --store` is recorded, and compared with what a running controller uses.
#[test]
fn up_takes_the_store_and_its_next_start_needs_no_flag() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let dir = TempDir::with_prefix("pintle-etcd-").expect("a folder");
    let host = Host::new(&dir.path().canonicalize().expect("it exists").join("data"));
    let store = store_of(&cluster);
    let flags = ["up", "--store", &store, "--store-prefix", "/up"];
    host.ok(&flags);
    host.ok(&["add-model", "recorded"]);
    host.ok(&flags);
    host.refused(&["up", "--store", &store]);
    host.ok(&["down"]);
    host.ok(&["up"]);
    assert!(host.ok(&["models"]).contains("recorded"));
    assert!(!host.dir.join("controller/store/store.sqlite").exists());
    // A system whose models are in its folder does not start with an empty store.
    host.ok(&["down"]);
    assert!(start_migration(&host.dir, "sqlite").status.success());
    let refused = start(&host.dir, &["--store", &store]);
    assert_eq!(refused.status.code(), Some(EXIT_REFUSED.into()));
    host.ok(&["up"]);
    assert!(host.ok(&["models"]).contains("recorded"));
    host.ok(&["down"]);
}

/// Each wrong input is one line on standard error, and nothing is changed.
#[test]
fn a_wrong_store_is_refused_with_one_line() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let store = store_of(&cluster);
    let prefix = "--store-prefix=/taken";
    assert!(cluster.etcdctl(&["put", "/taken/x", "1"]));
    for (arguments, code, part) in [
        (vec!["--store=http://127.0.0.1"], EXIT_REFUSED.into(), "expected etcd://"),
        (vec!["--store=etcd://127.0.0.1:1"], 1, "127.0.0.1:1: "),
        (vec!["--store=etcd://192.0.2.1"], EXIT_REFUSED.into(), "TLS"),
        (vec!["--store", &store, prefix], EXIT_REFUSED.into(), "/taken/"),
        (vec!["--store", &store, "--store-ca=/nonexistent"], 1, "/nonexistent"),
    ] {
        let dir = TempDir::with_prefix("pintle-etcd-").expect("a folder");
        let output = start(dir.path(), &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("ERROR ")).collect();
        assert!(errors.len() == 1 && errors[0].contains(part), "{arguments:?}: {stderr}");
        assert!(!dir.path().join("controller/store/etcd.yaml").exists());
    }
}

fn start(data: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(programs().join("pintle-controller"));
    command.args(["--data", text(data)]).args(arguments).output().expect("it starts")
}
