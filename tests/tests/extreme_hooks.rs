//! End-to-end tests of hooks that use their tools in extreme ways: 10,000 arguments, 100 tools at once, a tool of another
//! user, a working folder that is deleted. The programs and the agents are the real ones.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::host::{is_root, skip};
use tests::scene::{Scene, scene, text};

/// A charm with a peer relation whose `start` hook runs this script. Each line of the script's `report` is a line of the
/// file `report` beside the data folder.
fn deploy(scene: &Scene, name: &str, start: &str) -> PathBuf {
    let (folder, report) = (scene.beside(name), scene.beside(&format!("{name}-report")));
    fs::create_dir_all(&folder).expect("there is room");
    let metadata =
        format!("name: {name}\nsummary: s\ndescription: d\npeers: {{cluster: {{interface: cluster}}}}\n");
    fs::write(folder.join("metadata.yaml"), metadata).expect("there is room");
    let script = format!(
        "#!/bin/bash\n\
         report() {{ echo \"$*\" >> {report}; }}\n\
         case $JUJU_DISPATCH_PATH in\n\
         hooks/start) {start}\n;;\n\
         hooks/config-changed) report ran $JUJU_DISPATCH_PATH ;;\n\
         esac\n",
        report = text(&report)
    );
    let dispatch = folder.join("dispatch");
    fs::write(&dispatch, script).expect("there is room");
    fs::set_permissions(&dispatch, fs::Permissions::from_mode(0o755)).expect("it is ours");
    scene.ok(&["deploy", text(&folder)]);
    report
}

fn lines(report: &Path) -> Vec<String> {
    fs::read_to_string(report).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The settings of a unit in its peer relation, as the controller has stored them.
fn own_settings(scene: &Scene, unit: &str) -> Value {
    let shown = scene.ok(&[
        "exec",
        "--unit",
        unit,
        "--format",
        "json",
        "--",
        "relation-get -r $(relation-ids cluster) \
                            --format json - $JUJU_UNIT_NAME",
    ]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let printed = shown[unit]["results"]["stdout"].as_str().expect("it printed").to_owned();
    serde_json::from_str(&printed).expect("the settings are JSON")
}

#[test]
fn a_tool_accepts_ten_thousand_arguments_and_refuses_more_than_its_bound() {
    let scene = scene();
    let report = deploy(
        &scene,
        "many",
        "relation-set -r $(relation-ids cluster) $(seq 10000 | sed 's/.*/key&=value&/') || report failed\n\
         relation-set -r $(relation-ids cluster) $(seq 100000 | sed 's/.*/other&=v/') 2>&1 | grep -c 'ERROR' | { read n; report refused $n; }\n\
         status-set active",
    );
    scene.until_status("many/0", "active", "");
    assert_eq!(lines(&report), ["ran hooks/config-changed", "refused 1"]);
    // the settings are longer than the output of commands that is kept
    let count = "relation-get -r $(relation-ids cluster) --format json - $JUJU_UNIT_NAME | grep -o '\"key[0-9]*\":\"value[0-9]*\"' | wc -l; \
                 relation-get -r $(relation-ids cluster) other1 $JUJU_UNIT_NAME";
    assert_eq!(
        scene.ok(&["exec", "--unit", "many/0", "--", count]).trim(),
        "10000",
        "and nothing that was refused"
    );
}

#[test]
fn a_hundred_tools_at_once_are_all_answered() {
    let scene = scene();
    let report = deploy(
        &scene,
        "busy",
        "pids=; for n in $(seq 100); do\n\
         (relation-set -r cluster:0 k$n=$n && [ \"$(config-get --format json)\" = '{}' ] && is-leader >/dev/null) & pids=\"$pids $!\"\n\
         done; failed=0; for pid in $pids; do wait $pid || failed=$((failed+1)); done\n\
         report failed $failed; status-set active",
    );
    scene.until_status("busy/0", "active", "");
    assert_eq!(lines(&report), ["ran hooks/config-changed", "failed 0"]);
    let settings = own_settings(&scene, "busy/0");
    for n in 1..=100 {
        assert_eq!(settings[format!("k{n}")], n.to_string());
    }
}

/// The socket belongs to the user of the agent: another user is refused at once, and the hook goes on.
#[test]
fn a_tool_of_another_user_is_refused_at_once_and_the_hook_continues() {
    if !is_root() {
        return skip("a_tool_of_another_user_is_refused_at_once_and_the_hook_continues", "it needs root");
    }
    let scene = scene();
    let report = deploy(
        &scene,
        "other",
        "tool=$(command -v is-leader); copy=$(mktemp -d); chmod 755 $copy; cp $(readlink -f $tool) $copy/is-leader\n\
         begin=$EPOCHSECONDS; answer=$(setpriv --reuid 65534 --regid 65534 --clear-groups $copy/is-leader 2>/dev/null)\n\
         code=$?; report \"$code [$answer] $((EPOCHSECONDS - begin < 3))\"; rm -r $copy\n\
         report $(is-leader); status-set active",
    );
    scene.until_status("other/0", "active", "");
    assert_eq!(lines(&report), ["ran hooks/config-changed", "1 [] 1", "True"]);
}

/// Juju's tools need their working folder, too: in one that is deleted they fail, and elsewhere they go on.
#[test]
fn a_hook_that_deletes_its_working_folder_and_its_temporary_folder_loses_nothing() {
    let scene = scene();
    let report = deploy(
        &scene,
        "rm",
        "export TMPDIR=$(mktemp -d); cd $TMPDIR; rm -r $TMPDIR\n\
         is-leader >/dev/null 2>&1; report in-deleted $?\n\
         cd /; relation-set -r cluster:0 done=yes; report elsewhere $?; status-set active",
    );
    scene.until_status("rm/0", "active", "");
    assert_eq!(lines(&report), ["ran hooks/config-changed", "in-deleted 1", "elsewhere 0"]);
    assert_eq!(own_settings(&scene, "rm/0")["done"], "yes");
}

/// Each call that is refused has one line, which names the limit, and changes nothing; what is within the limits arrives.
/// The arguments of one program of Linux have 128 KiB each, so that a larger value is in a file.
#[test]
fn a_value_of_a_megabyte_is_refused_in_one_line_with_the_limit_and_changes_nothing() {
    let scene = scene();
    let report = deploy(
        &scene,
        "large",
        "cd $(mktemp -d); value() { head -c $1 /dev/zero | tr '\\0' v; }\n\
         relation-set -r cluster:0 a=before; state-set a=before\n\
         secret=$(secret-add --owner unit text=before)\n\
         value 4194304 > big; value 3145728 > medium; value 1048576 > mib; value 716800 > content; value 380000 > small; value 10000 > tiny\n\
         { printf 'a: '; cat big; } > big.yaml; { printf 'm: '; cat medium; } > medium.yaml; { printf 'b: '; cat small; } > small.yaml\n\
         attempt() { name=$1; shift; \"$@\" >out 2>err; code=$?\n\
         report $name $code $(wc -l <err) $(grep -c ^ERROR err) \"$(grep -oE '[0-9]{5,}' err | sort -n | head -1)\"; cat err >&2; }\n\
         attempt bag relation-set -r cluster:0 --file $PWD/big.yaml\n\
         relation-set -r cluster:0 --file $PWD/medium.yaml\n\
         attempt hook relation-set -r cluster:0 --app --file $PWD/medium.yaml\n\
         relation-set -r cluster:0 m=\n\
         attempt secret secret-add --owner unit text#file=$PWD/mib\n\
         attempt sealed secret-set $secret text#file=$PWD/content\n\
         attempt leader leader-set a=$(value 65536) b=$(value 65536) c=$(value 65536) d=$(value 65536)\n\
         attempt state state-set --file $PWD/small.yaml\n\
         attempt arguments relation-set -r cluster:0 $(for key in a b c d e f g h i; do echo $key=$(value 120000); done)\n\
         report after $(relation-get -r cluster:0 a large/0) $(state-get a) $(secret-get $secret text) \"$(leader-get)\"\n\
         attempt small relation-set -r cluster:0 --file $PWD/small.yaml\n\
         attempt secret-small secret-add --owner unit text#file=$PWD/tiny\n\
         status-set active",
    );
    scene.until_status("large/0", "active", "");
    // the code, the lines, those that are errors, and the limit; a too large content is a usage error, as in Juju
    let limits = [
        "bag 1 1 1 4194304",
        "hook 1 1 1 5242880",
        "secret 2 1 1 1048576",
        "sealed 1 1 1 770048",
        "leader 1 1 1 262144",
        "state 1 1 1 65536",
        "arguments 1 1 1 ",
    ];
    let expected = [&["ran hooks/config-changed"], &limits[..], &["after before before before {}"]].concat();
    assert_eq!(lines(&report), [&expected[..], &["small 0 0 0 ", "secret-small 0 0 0 "]].concat());
    let count =
        "relation-get -r cluster:0 a $JUJU_UNIT_NAME; relation-get -r cluster:0 b $JUJU_UNIT_NAME | wc -c";
    assert_eq!(scene.ok(&["exec", "--unit", "large/0", "--", count]), "before\n380001\n");
}
