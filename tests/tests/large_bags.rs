//! End-to-end tests of large settings: the largest bag, and what an engine of the store cannot store.

use state::terms::settings::BAG_BYTES_MAX;
use state::terms::store_engine::StoreEngine;
use std::fs;
use std::path::Path;
use std::process::Command;
use test_support::etcd_cluster::EtcdCluster;
use tests::host::{Host, programs, sample};
use tests::scene::{Scene, scene, text};

/// Two related applications, `db` with one unit and `web` with one.
fn related() -> Scene {
    let scene = scene();
    scene.ok(&["deploy", text(&sample("pair-db")), "db"]);
    scene.ok(&["deploy", text(&sample("pair-web")), "web"]);
    scene.ok(&["integrate", "web", "db"]);
    scene.until_status("db/0", "active", "web likes green");
    scene.ok(&["wait", "--settled"]);
    scene
}

/// Sets the setting `blob` of db to `bytes` bytes, as the application or as the unit. Returns what the tool printed on stderr
/// if it failed.
fn publish(scene: &Scene, bytes: usize, application: bool) -> Result<(), String> {
    let file = scene.beside("large.yaml");
    fs::write(&file, format!("blob: {}\n", "x".repeat(bytes))).expect("written");
    let side = if application { "--app" } else { "" };
    let script = format!("relation-set -r $(relation-ids db) {side} --file {}", text(&file));
    let output = scene.pintle(&["exec", "--unit", "db/0", "--format", "json", "--", &script]);
    let printed: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    let results = &printed["db/0"]["results"];
    match results["return-code"].as_i64() {
        Some(0) => Ok(()),
        _ => Err(results["stderr"].as_str().unwrap_or_default().to_owned()),
    }
}

/// The bytes of the setting `blob` of an owner, as web/0 reads it.
fn read_by_web(scene: &Scene, owner: &str) -> usize {
    let side = if owner.contains('/') { "" } else { "--app" };
    let script = format!("relation-get -r $(relation-ids db) {side} blob {owner} | tr -d '\\n' | wc -c");
    let output = scene.ok(&["exec", "--unit", "web/0", "--", &script]);
    output.trim().parse().unwrap_or_else(|_| panic!("{output}"))
}

fn kill_all(host: &Host) {
    for file in ["supervisor.pid", "controller.pid"] {
        host.kill(host.pid(&host.dir.join(file)).expect("it runs"));
    }
    for unit in ["db/0", "web/0"] {
        host.kill(host.agent_pid(unit).expect("it runs"));
    }
    let store = host.dir.join("controller/store/store.lock");
    host.until("the store is closed", |_| (!host::lock::is_held(&store)).then_some(()));
}

/// The largest bag, that of the application and then that of the unit: it is stored, reaches the other unit, and is still
/// there after the controller and both agents were killed.
#[test]
fn the_largest_bag_reaches_the_other_unit_and_survives_a_restart_of_everything() {
    let scene = related();
    let most = BAG_BYTES_MAX - "blob".len();
    publish(&scene, most, true).expect("it is the largest");
    assert_eq!(read_by_web(&scene, "db"), most);
    let refused = publish(&scene, most + 1, true).expect_err("one byte more");
    assert!(refused.lines().count() == 1 && refused.contains(&BAG_BYTES_MAX.to_string()), "{refused}");
    kill_all(&scene);
    scene.ok(&["up"]);
    assert_eq!(read_by_web(&scene, "db"), most);
    let own = "relation-get -r $(relation-ids db) --app blob db | tr -d '\\n' | wc -c";
    assert_eq!(scene.ok(&["exec", "--unit", "db/0", "--", own]).trim(), most.to_string());

    let half = BAG_BYTES_MAX / 2;
    publish(&scene, half, false).expect("it is the bag of a unit");
    assert_eq!(read_by_web(&scene, "db/0"), half);
    kill_all(&scene);
    scene.ok(&["up"]);
    assert_eq!((read_by_web(&scene, "db/0"), read_by_web(&scene, "db")), (half, most));
}

fn start_migration(data: &Path, cluster: &EtcdCluster) -> std::process::Output {
    let to = format!("etcd://{}", cluster.addresses().join(","));
    let mut command = Command::new(programs().join("pintle-controller"));
    command.args(["migrate", "--data", text(data), "--to", &to]).output().expect("it starts")
}

/// Etcd has a bound for one request: a larger bag is not migrated, and later the tool refuses it.
#[test]
fn a_bag_that_etcd_cannot_store_is_neither_migrated_nor_accepted() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let scene = related();
    let bytes_max = StoreEngine::Etcd.hook_writes_bytes_max();
    publish(&scene, bytes_max, false).expect("the database stores it");
    scene.ok(&["down"]);
    let refused = start_migration(&scene.dir, &cluster);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{stderr}");
    assert!(stderr.contains("db/0") && stderr.contains("web:db"), "{stderr}");

    scene.ok(&["up"]);
    publish(&scene, 10, false).expect("it is small");
    scene.ok(&["down"]);
    let migrated = start_migration(&scene.dir, &cluster);
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    scene.ok(&["up"]);
    let refused = publish(&scene, bytes_max, false).expect_err("etcd does not store it");
    assert!(refused.lines().count() == 1 && refused.contains("etcd"), "{refused}");
    publish(&scene, bytes_max / 2, false).expect("etcd stores it");
    assert_eq!(read_by_web(&scene, "db/0"), bytes_max / 2);
}
