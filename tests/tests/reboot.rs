//! Tests `juju-reboot` on a machine that is a folder of this host: its agents are restarted with a new boot id, and the
//! host is not rebooted (spec A.10, design 16). The test `machines` covers real machines.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::host::{Host, sample};
use tests::scene::{Scene, hooks, scene, text};

/// Creates a charm whose first `config-changed` writes a relation setting and then runs the shell command `once`.
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
fn a_hook_that_requests_a_reboot_and_succeeds_does_not_run_again_and_start_does_scenario_60() {
    let host = scene();
    host.ok(&["deploy", text(&charm(&host, "peer", "juju-reboot"))]);
    until_rebooted(&host);
    host.until("start ran", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
    let ran = hooks(&host, "peer/0");
    assert_eq!(ran.iter().filter(|hook| *hook == "config-changed").count(), 1, "{ran:?}");
    assert!(host.ok(&["show-unit", "peer/0"]).contains("asked: \"yes\""), "its writes are applied");
    let machine =
        host.unit_folder("peer/0").expect("it is deployed").ancestors().nth(2).map(Path::to_path_buf);
    let log = fs::read_to_string(machine.expect("two up").join("machine.log")).expect("it has a log");
    assert!(log.contains("without rebooting"), "{log}");
}

#[test]
fn a_hook_that_requests_an_immediate_reboot_runs_again_and_its_writes_are_discarded_scenario_61() {
    let host = scene();
    let once = "juju-log 'it goes down'; echo printed >&2; juju-reboot --now; touch lived; sleep 60";
    host.ok(&["deploy", text(&charm(&host, "peer", once))]);
    until_rebooted(&host);
    host.until("start ran", |host| hooks(host, "peer/0").contains(&"start".to_owned()).then_some(()));
    let ran = hooks(&host, "peer/0");
    let after = ran.iter().skip_while(|hook| *hook != "config-changed").collect::<Vec<_>>();
    assert_eq!(after, ["config-changed", "config-changed", "start"], "{ran:?}");
    assert!(!host.ok(&["show-unit", "peer/0"]).contains("asked"), "its writes are discarded");
    let folder = host.unit_folder("peer/0").expect("it is deployed");
    assert!(!folder.join("charm/lived").exists(), "the hook was killed at its request");
    let log = host.until("the lines of the killed hook are in the log", |host| {
        let log = host.ok(&["debug-log", "-i", "peer/0", "--replay", "--no-tail"]);
        (log.contains("it goes down") && log.contains("printed")).then_some(log)
    });
    assert_eq!((log.matches("it goes down").count(), log.matches("printed").count()), (1, 1), "{log}");
}
