//! Tests the base systems of machines, and that machines resolve each other's names.

use crate::{Machine, base, up};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::host::{is_root, skip};
use tests::scene::text;

/// Creates a charm that reports its operating system and host name.
fn reporter(at: &Path) -> PathBuf {
    let charm = at.join("reporter");
    fs::create_dir_all(charm.join("hooks")).expect("a new folder");
    fs::write(charm.join("metadata.yaml"), "name: reporter\nsummary: s\ndescription: d\n").expect("written");
    let start = "#!/bin/sh\n. /etc/os-release\nstatus-set active \"$ID $VERSION_ID on $(hostname -f)\"\n";
    fs::write(charm.join("hooks/start"), start).expect("written");
    charm
}

/// The second base system is the default one with the os-release file of Ubuntu 22.04. It lies beside that one, because
/// its other files are hard links: machines do not write to a base system.
#[test]
fn machines_have_the_requested_base_and_resolve_the_names_of_each_other() {
    if !is_root() {
        return skip("machines", "nspawn machines need root");
    }
    let dir = TempDir::with_prefix("pintle-").unwrap();
    // the first start builds the default base system
    up(dir.path(), &[]).ok(&["down"]);
    let files =
        TempDir::with_prefix_in("pintle-", base().parent().expect("a folder of base systems")).unwrap();
    let ubuntu = files.path().join("ubuntu");
    let copied = Command::new("cp").args(["-al", text(&base()), text(&ubuntu)]).status();
    assert!(copied.expect("cp is there").success());
    fs::remove_file(ubuntu.join("etc/os-release")).unwrap();
    let release = "PRETTY_NAME=\"Ubuntu 22.04 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"22.04\"\nVERSION_CODENAME=jammy\n\
                   ID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=jammy\n";
    fs::write(ubuntu.join("etc/os-release"), release).unwrap();
    let charm = reporter(files.path());

    let host = up(dir.path(), &["--base-root", &format!("ubuntu@22.04={}", ubuntu.display())]);
    host.ok(&["deploy", text(&charm), "--base", "ubuntu@22.04"]);
    host.until_status("reporter/0", "active", "ubuntu 22.04 on dev-0.pintle.internal");
    let warned = host.pintle(&["deploy", text(&charm), "newer", "--base", "ubuntu@24.04"]).stderr;
    assert!(warned.contains("ubuntu@24.04 ") && warned.contains("debian@12"), "{warned}");
    host.until_status("newer/0", "active", "debian 12 on dev-1.pintle.internal");
    let status = host.status();
    let shown_base = |kind: &str, name: &str| {
        let shown = &status[kind][name]["base"];
        let field = |name: &str| shown[name].as_str().unwrap_or_default();
        format!("{} {}", field("name"), field("channel"))
    };
    assert_eq!(
        [shown_base("machines", "0"), shown_base("applications", "reporter")],
        ["ubuntu 22.04", "ubuntu 22.04"]
    );
    assert_eq!(
        [shown_base("machines", "1"), shown_base("applications", "newer")],
        ["debian 12", "debian 12"]
    );

    let machine = |name: &str| {
        let folders = fs::read_dir(dir.path().join("machines")).unwrap().flatten();
        let is_it = |folder: &PathBuf| {
            fs::read_to_string(folder.join("instance.yaml")).is_ok_and(|text| text.contains(name))
        };
        Machine { folder: folders.map(|entry| entry.path()).find(is_it).expect("it exists") }
    };
    for (own, neighbour) in [("dev-0", "dev-1"), ("dev-1", "dev-0")] {
        let machine = machine(own);
        machine.run(&["ping", "-c", "1", "-W", "5", own]);
        host.until(format_args!("{neighbour} answers {own}"), |_| {
            machine
                .try_in(&["ping", "-c", "1", "-W", "5", neighbour])
                .filter(|ping| ping.status.success())
                .map(drop)
        });
        // a base system contains what charms expect of Ubuntu
        machine.run(&["gpg", "--version"]);
        machine.run(&["add-apt-repository", "--help"]);
        assert!(machine.root("etc/ssl/certs/ca-certificates.crt").exists());
    }
    // lines that a charm added are kept
    machine("dev-0").run(&["sh", "-c", "echo 192.0.2.1 own >> /etc/hosts"]);
    host.ok(&["remove-application", "newer", "--no-prompt"]);
    host.until("the name of the removed machine is deleted", |_| {
        let hosts = machine("dev-0").run(&["cat", "/etc/hosts"]);
        assert!(hosts.contains("192.0.2.1 own\n"), "{hosts}");
        (!hosts.contains("dev-1")).then_some(())
    });
    host.ok(&["down"]);
}
