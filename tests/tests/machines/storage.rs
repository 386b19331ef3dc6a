//! Tests the storage of a machine with its own system: filesystems where the charm declares them, and block devices.

use crate::{Machine, up};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::host::{is_root, skip};
use tests::scene::{scene, text};

const METADATA: &str = "name: keeper\nsummary: s\ndescription: d\nstorage:\n  \
    data: {type: filesystem, location: /srv/data}\n  \
    fast: {type: filesystem, location: /srv/fast}\n  \
    disk: {type: block}\n";

/// `install` writes to all storage; each hook logs what it finds there.
const HOOK: &str = r#"#!/bin/sh
name=${0##*/}
disk=$(storage-get -s "$(storage-list disk)" location)
if [ "$name" = install ]; then
    echo kept > /srv/data/file
    printf kept | dd of="$disk" conv=notrunc status=none
fi
data=$(cat /srv/data/file)
fast=$(findmnt --noheadings --output FSTYPE,SIZE /srv/fast | tr -s ' ')
echo "$name: data $data, fast $fast, disk $(head -c 4 "$disk") of $(blockdev --getsize64 "$disk")" >> /var/log/hooks
status-set active "$name"
"#;

fn charm(at: &Path) -> PathBuf {
    let charm = at.join("keeper");
    fs::create_dir_all(charm.join("hooks")).expect("a new folder");
    fs::write(charm.join("metadata.yaml"), METADATA).expect("written");
    for hook in ["install", "start"] {
        let path = charm.join("hooks").join(hook);
        fs::write(&path, HOOK).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    charm
}

/// The block device of a machine that is a folder of this host belongs to the kernel, too.
#[test]
fn a_stopped_host_keeps_no_device_of_its_machines() {
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        return skip("machines", "block storage needs root and loop devices");
    }
    let charms = TempDir::new().unwrap();
    let charm = charms.path().join("block");
    fs::create_dir_all(charm.join("hooks")).expect("a new folder");
    let metadata = "name: block\nsummary: s\ndescription: d\nstorage:\n  disk: {type: block}\n";
    fs::write(charm.join("metadata.yaml"), metadata).expect("written");
    let start = charm.join("hooks/start");
    fs::write(&start, "#!/bin/sh\nstatus-set active \"$(storage-get -s $(storage-list) location)\"\n")
        .expect("written");
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let scene = scene();
    scene.ok(&["deploy", text(&charm), "--storage", "disk=loop,16M"]);
    let device = scene.until("the unit has its device", |scene| {
        let message = scene.unit("block/0")?["workload-status"]["message"].as_str()?.to_owned();
        let device = fs::canonicalize(message).ok()?;
        device.starts_with("/dev").then_some(device)
    });
    let name = device.file_name().expect("a device has a name");
    let is_attached = || {
        let file = Path::new("/sys/block").join(name).join("loop/backing_file");
        fs::read_to_string(file).is_ok_and(|file| file.starts_with(text(&scene.dir)))
    };
    assert!(is_attached(), "{} is the device of the unit", device.display());
    scene.ok(&["down"]);
    assert!(!is_attached(), "{} is free", device.display());
}

/// The loop devices of this host over files of storage.
fn devices() -> String {
    let list = Command::new("losetup").args(["--noheadings", "--output", "NAME,BACK-FILE"]).output();
    let list = String::from_utf8(list.expect("losetup is there").stdout).expect("text");
    list.lines().filter(|line| line.contains("/storage/disk-")).collect()
}

/// The agent of the machine must know its storage itself: it mounts it while the controller does not answer.
#[test]
fn storage_of_a_machine_is_mounted_again_after_a_boot_and_leaves_nothing() {
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        return skip("machines", "storage of machines needs root and loop devices");
    }
    let (dir, charms) = (TempDir::with_prefix("pintle-").unwrap(), TempDir::new().unwrap());
    let before = devices();
    let host = up(dir.path(), &[]);
    let storage = ["--storage", "fast=tmpfs,8M", "--storage", "disk=loop,16M"];
    host.ok(&[&["deploy", text(&charm(charms.path()))], &storage[..]].concat());
    host.until_status("keeper/0", "active", "start");
    let machine = Machine::of(&host).expect("it runs the unit");
    let found = "data kept, fast tmpfs 8M, disk kept of 16777216";
    assert_eq!(machine.hook_log(), [format!("install: {found}"), format!("start: {found}")]);

    assert_eq!(host.ok(&["ssh", "keeper/0", "hostname; whoami; pwd"]), "dev-0\nroot\n/root\n");
    host.ok(&["scp", "keeper/0:/srv/data/file", text(&charms.path().join("copied"))]);
    assert_eq!(fs::read_to_string(charms.path().join("copied")).unwrap(), "kept\n");
    let old = machine.leader();
    machine.run(&["systemctl", "reboot"]);
    host.until("the machine boots again", |_| machine.leader().filter(|new| Some(*new) != old));
    host.until("start ran", |_| (machine.hook_log().len() == 3).then_some(()));
    assert_eq!(machine.hook_log()[2], format!("start: {found}"));

    // as after a boot, the mounts are missing when the agent starts
    let controller = host.pid(&dir.path().join("controller.pid")).expect("it runs");
    host.signal("STOP", controller);
    machine.run(&["systemctl", "stop", "pintle-machine"]);
    machine.run(&["umount", "/srv/data", "/srv/fast"]);
    machine.run(&["systemctl", "start", "pintle-machine"]);
    host.until("everything is mounted", |_| {
        let is_mounted = |path| {
            machine.try_in(&["mountpoint", "--quiet", path]).is_some_and(|ended| ended.status.success())
        };
        (is_mounted("/srv/data") && is_mounted("/srv/fast")).then_some(())
    });
    assert_eq!(machine.run(&["cat", "/srv/data/file"]), "kept\n");
    host.signal("CONT", controller);

    host.ok(&["remove-application", "keeper", "--destroy-storage", "--no-prompt"]);
    host.until("its machine is terminated", |host| {
        fs::read_dir(host.dir.join("machines")).ok()?.next().is_none().then_some(())
    });
    host.ok(&[
        "deploy",
        text(&charm(charms.path())),
        "forced",
        "--storage",
        "fast=tmpfs,8M",
        "--storage",
        "disk=loop,16M",
    ]);
    host.until_status("forced/0", "active", "start");
    host.ok(&["down"]);
    assert_eq!(devices(), before, "a machine that stops keeps no device");
}
