//! `juju-reboot` on a machine that is a folder of this host: its agents are restarted in another boot, the host is
//! left alone (spec A.10, design 16). What a real machine does is in `machines`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

/// A charm that does this in its `config-changed` until it was done once, and has a relation to say something in.
fn charm(scene: &Scene, name: &str, once: &str) -> PathBuf {
    let charm = scene.copy_of(&sample("peer"), name);
    let program = format!(
        "#!/bin/sh\nset -eu\ncase $JUJU_DISPATCH_PATH in\nhooks/config-changed)\n\
         if [ ! -e done ]; then touch done; relation-set -r \"$(relation-ids ring)\" asked=yes; {once}; fi;;\nesac\n"
    );
    let dispatch = charm.join("dispatch");
    fs::write(&dispatch, program).expect("it is the test's");
    fs::set_permissions(&dispatch, fs::Permissions::from_mode(0o755)).expect("it is the test's");
    charm
}

fn boot(host: &Host) -> Option<String> {
    let machine = host.unit_folder("peer/0")?.parent()?.parent()?.to_path_buf();
    fs::read_to_string(machine.join("boot")).ok()
}

fn request(host: &Host) -> Option<PathBuf> {
    let machine = host.unit_folder("peer/0")?.ancestors().nth(2).map(Path::to_path_buf)?;
    Some(machine.join("reboot")).filter(|request| request.exists())
}

fn until_rebooted(host: &Host) {
    host.until("the machine was rebooted", |host| {
        (boot(host).is_some() && request(host).is_none()).then_some(())
    });
}

#[test]
fn a_hook_that_asks_for_a_reboot_and_succeeds_is_not_run_again_and_start_is_scenario_60() {
    let host = scene();
    host.ok(&["deploy", text(&charm(&host, "peer", "juju-reboot"))]);
    until_rebooted(&host);
    host.until("start ran", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
    let ran = hooks(&host, "peer/0");
    assert_eq!(ran.iter().filter(|hook| *hook == "config-changed").count(), 1, "{ran:?}");
    assert!(host.ok(&["show-unit", "peer/0"]).contains("asked: \"yes\""), "what it wrote stands");
    let machine =
        host.unit_folder("peer/0").expect("it is deployed").ancestors().nth(2).map(Path::to_path_buf);
    let log = fs::read_to_string(machine.expect("two up").join("machine.log")).expect("it has a log");
    assert!(log.contains("the host is not rebooted"), "{log}");
}

#[test]
fn a_hook_that_asks_for_a_reboot_at_once_is_run_again_and_nothing_it_wrote_stands_scenario_61() {
    let host = scene();
    let once = "juju-log 'it goes down'; echo printed >&2; juju-reboot --now; touch lived; sleep 60";
    host.ok(&["deploy", text(&charm(&host, "peer", once))]);
    until_rebooted(&host);
    host.until("start ran", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
    let ran = hooks(&host, "peer/0");
    let after = ran.iter().skip_while(|hook| *hook != "config-changed").collect::<Vec<_>>();
    assert_eq!(after, ["config-changed", "config-changed", "start"], "{ran:?}");
    assert!(!host.ok(&["show-unit", "peer/0"]).contains("asked"), "what it wrote is gone");
    let folder = host.unit_folder("peer/0").expect("it is deployed");
    assert!(!folder.join("charm/lived").exists(), "it was ended where it asked");
    let log = host.until("what it said stands, as if it had lived on", |host| {
        let log = host.ok(&["debug-log", "-i", "peer/0", "--replay", "--no-tail"]);
        (log.contains("it goes down") && log.contains("printed")).then_some(log)
    });
    assert_eq!((log.matches("it goes down").count(), log.matches("printed").count()), (1, 1), "{log}");
}
