//! Tests settings that exceed the bound of a unit's view (design 9): hooks read all of them, unchanged while a hook
//! runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tests::scene::{Scene, scene, text};

/// The size of the settings of each of four units, 1.5 MiB together. A unit's own settings are stored twice in the
/// 768 KiB of one record.
const LARGE: usize = 380 << 10;
/// The inlined settings, and the rest of a view of this test, written with one value per line.
const VIEW_BYTES_MAX: u64 = (1 << 20) + (64 << 10);

/// Creates a charm with this metadata and these hooks, which are shell scripts.
fn charm(scene: &Scene, name: &str, metadata: &str, hooks: &[(&str, &str)]) -> String {
    let folder = scene.beside(name);
    fs::create_dir_all(folder.join("hooks")).expect("it is ours");
    fs::write(
        folder.join("metadata.yaml"),
        format!("name: {name}\nsummary: s\ndescription: d\n{metadata}\n"),
    )
    .expect("it is ours");
    fs::write(folder.join("config.yaml"), "options: {text: {type: string, default: x, description: d}}\n")
        .expect("it is ours");
    for (hook, script) in hooks {
        let path = folder.join("hooks").join(hook);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{script}\n")).expect("it is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    text(&folder).to_owned()
}

/// Four units with large settings, and one that reads them all.
fn related() -> Scene {
    let scene = scene();
    let write = format!(
        r#"for relation in $(relation-ids server); do
  printf 'key: "%s"\n' "$(head -c {LARGE} /dev/zero | tr '\0' "$(config-get text)")" > settings
  relation-set -r "$relation" --file settings
done"#
    );
    let hooks = [("server-relation-created", write.as_str()), ("config-changed", write.as_str())];
    let big = charm(&scene, "big", "provides: {server: {interface: sql}}", &hooks);
    let read_sizes = r#"sizes=$(for unit in $(relation-list); do relation-get key "$unit" | wc -c; done | xargs)
status-set active "$(relation-get key | wc -c) of $sizes""#;
    let (first, go) = (scene.beside("first"), scene.beside("go"));
    let twice = format!(
        r#"[ "$(config-get text)" = again ] || exit 0
relation=$(relation-ids db)
look() {{ for unit in $(relation-list -r "$relation"); do relation-get -r "$relation" key "$unit" | cut -c1-3; done | xargs; }}
before=$(look)
touch {}
while [ ! -e {} ]; do sleep 0.05; done
juju-log "read $before and later $(look)""#,
        text(&first),
        text(&go)
    );
    let hooks = [("db-relation-changed", read_sizes), ("config-changed", twice.as_str())];
    let reader = charm(&scene, "reader", "requires: {db: {interface: sql}}", &hooks);
    scene.ok(&["deploy", &big, "--num-units", "4"]);
    scene.ok(&["deploy", &reader]);
    scene.ok(&["integrate", "reader", "big"]);
    let size = LARGE + 1;
    scene.until_status("reader/0", "active", &format!("{size} of {size} {size} {size} {size}"));
    scene
}

fn bytes_below(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("it is a folder").flatten();
    files.map(|file| file.metadata().expect("the file exists").len()).sum()
}

#[test]
fn settings_beyond_the_bound_are_read_whole_and_stay_behind_in_the_view() {
    let scene = related();
    let view = scene.unit_folder("reader/0").expect("it is deployed").join("view");
    let bytes = bytes_below(&view);
    assert!(bytes <= VIEW_BYTES_MAX, "{bytes} bytes of view");
    let first = fs::read_to_string(view.join("relation-0.yaml")).expect("its relation");
    assert!(first.matches("\"counter\"").count() >= 4, "the versions of all bags are in the view");
}

/// 1. A hook reads bags whose values are not inlined.
/// 2. The bags change, and the hook's agent dies.
/// 3. The next agent answers the hook's further reads.
#[test]
fn what_a_hook_has_read_is_the_same_under_the_next_agent() {
    let scene = related();
    scene.ok(&["config", "reader", "text=again"]);
    scene.until("the hook has read", |_| scene.beside("first").exists().then_some(()));
    scene.ok(&["config", "big", "text=y"]);
    for unit in ["big/0", "big/1", "big/2", "big/3"] {
        scene.until(format_args!("{unit} has written"), |host| {
            let all = host.runs(unit);
            let done = all.iter().filter(|(_, operation)| operation.contains("config-changed")).count() == 2;
            (done && host.unit(unit)?["juju-status"]["current"] == "idle").then_some(())
        });
    }
    let pid = scene.agent_pid("reader/0").expect("it runs");
    scene.kill(pid);
    scene.until("another agent", |host| host.agent_pid("reader/0").filter(|new| *new != pid));
    fs::write(scene.beside("go"), "").expect("it is ours");
    let line = scene.until_logged("and later");
    let (before, after) = line.split_once(" and later ").expect("both readings");
    let values = ["xxx"; 4].join(" ");
    assert!(before.ends_with(&format!("read {values}")) && after.starts_with(&values), "{line}");
    let read =
        scene.runs("reader/0").into_iter().filter(|(_, operation)| operation.contains("config-changed"));
    assert_eq!(read.count(), 2, "it was not run again");
}
