//! Tests of `pintle up --store etcd` with the real programs: an etcd and two controllers on this host, of which each is
//! killed while commands and hooks go on.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::host::{Host, sample};
use tests::scene::{hooks, scene, text};

/// A data folder in a new folder, in which nothing was started.
fn data_folder() -> (TempDir, PathBuf) {
    let outer = TempDir::with_prefix("pintle-local-etcd-").expect("a folder");
    let data = outer.path().canonicalize().expect("it exists").join("data");
    (outer, data)
}

/// The address that a data folder records of its etcd.
fn etcd_address(data: &Path) -> String {
    let recorded = std::fs::read_to_string(data.join("controller/store/etcd.yaml")).expect("readable");
    let address = recorded.lines().find_map(|line| line.trim().strip_prefix("address: etcd://"));
    address.expect("it is recorded").to_owned()
}

/// The address of the controller of a data folder.
fn address(host: &Host) -> String {
    let file = std::fs::read_to_string(host.dir.join("client.yaml")).expect("readable");
    let address = file.lines().find_map(|line| line.strip_prefix("controller: ").map(str::to_owned));
    address.expect("it has listened")
}

/// Whether etcd answers a client that trusts its CA and has these further flags.
fn reads(data: &Path, flags: &[String]) -> bool {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints=https://{}", etcd_address(data)));
    command.arg(format!("--cacert={}", text(&data.join("etcd/ca.pem"))));
    command.args(flags).args(["--dial-timeout=3s", "--command-timeout=3s", "get", "/pintle/m/store"]);
    command.output().expect("etcdctl starts: is the package etcd-client installed?").status.success()
}

/// Kills the process of a pid file, runs the commands while it is down or starts, and waits until it runs again.
fn kill(host: &Host, file: &str, meanwhile: impl Fn(&Host)) {
    let file = host.dir.join(file);
    let killed = host.until("it runs", |host| host.pid(&file));
    host.kill(killed);
    meanwhile(host);
    host.until("it runs again", |host| host.pid(&file).filter(|pid| *pid != killed));
}

#[test]
fn commands_and_hooks_go_on_while_one_of_two_controllers_or_etcd_is_killed() {
    let (_outer, data) = data_folder();
    let mut host = Host::new(&data);
    // a variable of etcd that would keep it from starting
    host.environment = vec![("ETCD_DISCOVERY".to_owned(), OsString::from("http://127.0.0.1:1"))];
    host.ok(&["up", "--store", "etcd"]);
    host.ok(&["deploy", text(&sample("pair-db")), "db"]);
    host.ok(&["deploy", text(&sample("pair-web")), "web"]);
    host.ok(&["integrate", "web", "db"]);
    host.until_status("db/0", "active", "web likes green");
    // no other user of this host reads the models
    let mode = |name: &str| data.join(name).metadata().expect("it exists").permissions().mode() & 0o077;
    assert_eq!(["etcd", "etcd/client-key.pem", "etcd/data", "controller-2"].map(mode), [0; 4]);
    let file = |name: &str| text(&data.join("etcd").join(name)).to_owned();
    let own = [format!("--cert={}", file("client.pem")), format!("--key={}", file("client-key.pem"))];
    assert_eq!((reads(&data, &own), reads(&data, &[])), (true, false));
    // agents and commands know both
    let second = Host::new(&data.join("controller-2"));
    let agent = host.unit_folder("db/0").expect("it is deployed").join("agent.yaml");
    let [client, agent] =
        [data.join("client.yaml"), agent].map(|file| std::fs::read_to_string(file).expect("readable"));
    for address in [address(&host), address(&second)] {
        assert!(client.contains(&address) && agent.contains(&address), "{address}\n{client}\n{agent}");
    }

    let change = |host: &Host, color: &str| {
        host.ok(&["config", "web", &format!("color={color}")]);
        host.until_status("db/0", "active", &format!("web likes {color}"));
        host.ok(&["why"]);
    };
    let before = hooks(&host, "web/0").len();
    let colors = ["red", "blue", "pink", "gold"];
    kill(&host, "controller.pid", |host| change(host, "red"));
    kill(&host, "controller-2/controller.pid", |host| change(host, "blue"));
    kill(&host, "etcd.pid", |host| {
        // nothing is stored meanwhile, and agents try again
        let config = ["config", "web", "color=pink"];
        host.until("etcd serves again", |host| (host.pintle(&config).code == 0).then_some(()));
        change(host, "pink");
    });
    second.ok(&["wait", "--settled"]);
    // the same form again: what a killed supervisor has left is replaced
    for flags in [&["up"][..], &["up", "--store", "etcd"]] {
        host.ok(flags);
    }
    host.kill(host.pid(&data.join("supervisor.pid")).expect("it runs"));
    host.ok(&["up"]);
    change(&host, "gold");
    host.ok(&["wait", "--settled"]);
    let ran = hooks(&host, "web/0").split_off(before);
    let changed = ran.iter().filter(|hook| *hook == "config-changed").count();
    assert_eq!(changed, colors.len(), "each change is one hook: {ran:?}");

    host.ok(&["down"]);
    assert_eq!(host.processes(), [""; 0]);
    let copy = Host::new(&data.with_file_name("copy"));
    let copied = Command::new("cp").arg("-a").arg(&data).arg(&copy.dir).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let files = || {
        ["client.yaml", "identity.yaml"].map(|name| std::fs::read(copy.dir.join(name)).expect("it exists"))
    };
    let before = files();
    let refused = copy.refused(&["up"]);
    assert!(refused.contains(text(&data)) && !refused.contains("--new-identity"), "{refused}");
    let refused = copy.refused(&["up", "--new-identity"]);
    assert!(refused.contains("etcd"), "{refused}");
    assert_eq!(files(), before, "nothing was changed");
    assert!(host.refused(&["up", "--store", "etcd://127.0.0.1:1"]).contains("etcd://127.0.0.1:1"));
    host.ok(&["up"]);
    change(&host, "white");
    host.ok(&["down"]);
    assert_eq!(host.processes(), [""; 0]);
}

/// The second controller gets a data folder that fits what was changed in the first one.
#[test]
fn a_new_store_generation_and_a_new_key_of_secrets_are_those_of_both_controllers() {
    let (_outer, data) = data_folder();
    let host = Host::new(&data);
    host.ok(&["up", "--store", "etcd"]);
    host.ok(&["add-model", "kept"]);
    host.ok(&["down"]);
    host.ok(&["up", "--restored"]);
    let second = Host::new(&data.join("controller-2"));
    // a command would go on with the first one
    assert!(std::net::TcpStream::connect(address(&second)).is_ok());
    assert!(host.ok(&["models"]).contains("kept"));
    host.ok(&["down"]);
    let program = host.programs.join("pintle-controller");
    let rotated = Command::new(program).arg("rotate-secret-key").arg(&data).output().expect("it starts");
    assert!(rotated.status.success(), "{rotated:?}");
    host.ok(&["up"]);
    let keys =
        |of: &Host| std::fs::read_to_string(of.dir.join("controller/secret-keys.yaml")).expect("readable");
    assert_eq!(keys(&host), keys(&second));
    assert!(std::net::TcpStream::connect(address(&second)).is_ok());
}

#[test]
fn a_host_without_etcd_and_a_folder_with_a_database_are_refused_and_nothing_is_changed() {
    let (outer, data) = data_folder();
    let mut host = Host::new(&data);
    host.environment = vec![("PATH".to_owned(), outer.path().as_os_str().to_owned())];
    let refused = host.pintle(&["up", "--store", "etcd"]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (1, 1), "{refused:?}");
    assert!(refused.stderr.contains("etcd-server"), "{refused:?}");
    assert!(!data.exists());

    let host = scene();
    let read = || std::fs::read_to_string(host.dir.join("up.yaml")).unwrap_or_default();
    let before = read();
    for stop in [false, true] {
        if stop {
            host.ok(&["down"]);
        }
        let refused = host.refused(&["up", "--store", "etcd"]);
        assert!(refused.contains("pintle-controller migrate"), "{refused}");
    }
    assert_eq!(read(), before);
    assert!(!host.dir.join("etcd").exists());
    host.ok(&["up"]);
}
