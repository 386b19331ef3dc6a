//! Tests with the real programs that a controller whose store is in etcd serves models, and what it refuses.

use host::restart::EXIT_REFUSED;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use test_support::etcd_cluster::EtcdCluster;
use tests::host::{programs, sample};
use tests::scene::{hooks, scene_with, text};

fn store_of(cluster: &EtcdCluster) -> String {
    format!("etcd://{}", cluster.addresses().join(","))
}

/// A unit runs its hooks, the controller is restarted, and a member of etcd is killed: nothing is lost.
#[test]
fn a_controller_in_etcd_serves_units_across_a_restart_and_a_lost_member() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let dir = TempDir::with_prefix("pintle-etcd-").expect("a folder");
    let environment = [("PINTLE_STORE".to_owned(), OsString::from(store_of(&cluster)))];
    let host = scene_with(dir, &environment.each_ref().map(|(name, value)| (name.as_str(), value.clone())));
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    let ran = hooks(&host, "db/0");
    assert!(ran.iter().any(|hook| hook == "install"), "{ran:?}");
    let store = host.dir.join("controller/store");
    assert!(store.join("etcd.yaml").exists() && !store.join("store.sqlite").exists());
    cluster.kill(0);
    host.ok(&["add-unit", "db"]);
    host.until_status("db/1", "active", "web likes green");
    host.ok(&["down"]);
    // Without the variable there is no store: it is not taken for a new one.
    let without = Command::new(programs().join("pintle-controller"))
        .args(["--data", text(&host.dir)])
        .output()
        .expect("it starts");
    assert_eq!(without.status.code(), Some(EXIT_REFUSED.into()));
    host.ok(&["up"]);
    assert_eq!(host.status()["applications"]["db"]["units"].as_object().map(|units| units.len()), Some(2));
    host.until_status("db/1", "active", "web likes green");
    host.ok(&["remove-application", "--no-prompt", "web"]);
    host.until("the application is removed", |host| {
        (host.status()["applications"]["web"] == json!(null)).then_some(())
    });
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
