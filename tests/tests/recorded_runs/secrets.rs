//! No content of a secret is in what people are shown of a run, whatever its hook does with it.

use super::{charm, newest, shown};
use serde_json::json;
use std::fs;
use tests::scene::{scene, text};

/// A content that occurs nowhere else.
const CONTENT: &str = "canary-7f3e-content";

/// Reads a secret of a user, passes its content to other tools and prints it; and writes a secret of its own.
const DISPATCH: &str = r#"#!/bin/sh -e
case "$JUJU_DISPATCH_PATH" in hooks/config-changed) ;; *) exit 0 ;; esac
uri=$(config-get token)
test -n "$uri" || exit 0
value=$(secret-get "$uri" password)
juju-log "read $value"
state-set "copy=$value"
test "$(state-get copy)" = "$value"
secret-get "$uri" nothing || true
id=$(secret-add --label own "key=$value" "other#file=@FILE@")
secret-set "$id" "key=again $value"
test "$(secret-get "$id" key --peek)" = "again $value"
secret-get --label own --peek >/dev/null
status-set active "has $value"
echo "printed $value"
echo "printed $value" >&2
test ! -e @HOLD@ || while [ -e @HOLD@ ]; do sleep 0.05; done
"#;

#[test]
fn a_run_that_has_read_secrets_is_shown_and_replayed_with_placeholders() {
    let scene = scene();
    let (file, hold) = (scene.beside("content"), scene.beside("hold"));
    fs::write(&file, CONTENT).expect("it is ours");
    let from = format!("password#file={}", text(&file));
    let uri = scene.ok(&["add-secret", "token", &from]);
    let uri = uri.trim();
    let dispatch = DISPATCH.replace("@FILE@", text(&file)).replace("@HOLD@", text(&hold));
    let files = [
        ("metadata.yaml", "name: reader\nsummary: s\ndescription: d\n"),
        ("config.yaml", "options: {token: {type: secret}}"),
        ("dispatch", &dispatch),
    ];
    scene.ok(&["deploy", text(&charm(&scene, "reader", &files))]);
    scene.ok(&["grant-secret", "token", "reader"]);
    fs::write(&hold, "").expect("it is ours");
    scene.ok(&["config", "reader", &format!("token={uri}")]);
    let unit = scene.until("it is deployed", |host| host.unit_folder("reader/0"));

    // while it runs, its output is not masked yet
    let run = scene.until("it has called status-set", |host| {
        let (run, _) = host.runs("reader/0").pop()?;
        let calls = fs::read_to_string(host.run_folder("reader/0", run)?.join("calls.yaml")).ok()?;
        calls.contains("status-set").then(|| run.to_string())
    });
    let hide = |printed: String| {
        assert!(!printed.contains(CONTENT), "{printed}");
        printed
    };
    let running = shown(&scene, "reader/0", &run);
    assert_eq!(running["printed"], json!(null), "{running}");
    hide(running.to_string());
    hide(scene.ok(&["show-run", "reader/0", &run]));
    fs::remove_file(&hold).expect("it was made");
    scene.until("the hook has ended", |host| {
        (host.unit("reader/0")?["juju-status"]["current"] == "idle").then_some(())
    });
    assert_eq!(newest(&scene, "reader/0", "config-changed"), run);

    let document = shown(&scene, "reader/0", &run);
    let calls = document["called"].as_array().expect("calls");
    let of = |tool: &str| {
        calls.iter().find(|call| call["tool"] == tool).unwrap_or_else(|| panic!("{tool}: {document}"))
    };
    let placeholder = format!("SECRET({} password)", uri.trim_start_matches("secret:"));
    assert_eq!(of("secret-get")["args"], json!([uri, "password"]));
    assert_eq!(of("secret-get")["stdout"], json!(format!("password: {placeholder}\n")));
    assert_eq!(of("state-set")["args"], json!([format!("copy={placeholder}")]));
    assert_eq!(of("secret-add")["args"], json!(["--label", "own", "key=*****", "other#file=*****"]));
    let printed = document["printed"].as_array().expect("lines").iter().filter_map(|line| line.as_str());
    let printed: Vec<&str> = printed.filter(|line| line.contains("printed")).collect();
    assert_eq!(printed, ["stdout", "stderr"].map(|stream| format!("{stream}: printed {placeholder}")));
    assert_eq!(document["changed"]["state"]["copy"], json!(placeholder));
    hide(document.to_string());
    hide(scene.ok(&["show-run", "reader/0", &run]));
    hide(scene.ok(&["show-run", "reader/0", &run, "--format", "yaml"]));

    // the same calls with placeholders, without the controller
    scene.ok(&["down"]);
    let replayed = super::agent(&["replay", text(&unit), &run]);
    let printed = hide(super::printed(&replayed));
    assert!(replayed.status.success(), "{printed}");
    fs::remove_file(&file).expect("it was made");
    let replayed = super::agent(&["replay", text(&unit), &run]);
    let printed = hide(super::printed(&replayed));
    assert_eq!(replayed.status.code(), Some(1), "secret-add fails without its file: {printed}");
}
