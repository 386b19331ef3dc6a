//! Tests how a unit leaves an error: by another revision of the charm (spec A.6), and by `resolved`.

use api::text::refusal::message;
use api::text::status_message;
use state::terms::activity::Activity;
use state::terms::cause::{Cause, Duty, Retry};
use state::terms::hook_name::HookName;
use state::terms::names::UnitName;
use state::terms::refusal::unit::UnitRefusal;
use state::terms::status_message::StatusMessage;
use std::fs;
use tests::host::Host;
use tests::scene::{Scene, scene, text};
use tests::tally::{STARTED, deploy, ran, results, tally, until_ran};

fn config_changed() -> Activity {
    Activity::hook(HookName::ConfigChanged)
}

/// Deploys one unit that is in an error of config-changed without retries.
fn failed() -> Scene {
    let scene = scene();
    scene.ok(&["model-config", "automatically-retry-hooks=false"]);
    deploy(&scene, "db", &[]);
    until_ran(&scene, "db/0", &STARTED);
    scene.ok(&["config", "db", "fail-in=config-changed", "say=x"]);
    until_error(&scene, 2);
    scene
}

/// Waits until the hook has run this often and the unit is in error.
fn until_error(scene: &Scene, runs: usize) {
    scene.until(format_args!("config-changed failed, having run {runs} times"), |host: &Host| {
        let unit = host.unit("db/0")?;
        let message = status_message::describe(&StatusMessage::HookFailed { hook: HookName::ConfigChanged });
        let workload = &unit["workload-status"];
        let failed = workload["current"] == "error"
            && workload["message"] == message
            && unit["juju-status"]["current"] == "idle";
        let started = ran(scene, "db/0").iter().filter(|hook| *hook == "config-changed").count();
        (failed && started == runs).then_some(())
    });
}

/// Creates another revision of the charm, whose config-changed succeeds.
fn refresh(scene: &Scene, more: &[&str]) {
    let fixed = scene.copy_of(&tally(), "fixed");
    let dispatch = fs::read_to_string(fixed.join("dispatch")).expect("the sample has one");
    let failing = "    exit 1\n";
    assert!(dispatch.contains(failing));
    fs::write(fixed.join("dispatch"), dispatch.replace(failing, "    juju-log fixed\n")).expect("it is ours");
    scene.ok(&[&["refresh", "db", "--path", text(&fixed)], more].concat());
}

fn until_healthy(scene: &Scene, hooks: &[&str]) {
    until_ran(scene, "db/0", hooks);
    scene.until_status("db/0", "active", "");
}

#[test]
fn a_refresh_waits_for_a_failed_hook_and_follows_when_it_is_skipped() {
    let scene = failed();
    refresh(&scene, &[]);
    let causes = scene.until("why names the refresh that waits", |host| {
        let causes = host.causes("db/0");
        causes.iter().any(|cause| matches!(cause.duty, Duty::EndFailure { .. })).then_some(causes)
    });
    let failed_once = |cause: &Cause| match &cause.duty {
        Duty::Recover { activity, failures: 1, .. } => *activity == config_changed(),
        _ => false,
    };
    assert!(causes.iter().any(failed_once), "{causes:?}");
    // a retry runs the old charm's hook, which fails again: a refresh without force waits for the failed hook (R 1)
    scene.ok(&["resolved", "db/0"]);
    until_error(&scene, 3);
    scene.ok(&["resolved", "db/0", "--no-retry"]);
    let after = ["config-changed", "config-changed", "upgrade-charm", "config-changed"];
    until_healthy(&scene, &[&STARTED[..], &after].concat());
}

#[test]
fn a_forced_refresh_replaces_the_charm_under_the_error_and_the_retry_runs_the_new_one() {
    let scene = failed();
    refresh(&scene, &["--force-units"]);
    scene.until("the charm is replaced", |host| {
        let charm = host.unit_folder("db/0")?.join("charm/dispatch");
        fs::read_to_string(charm).ok().filter(|text| text.contains("juju-log fixed"))
    });
    until_error(&scene, 2);
    scene.ok(&["resolved", "db/0"]);
    // the hook is retried from the new charm; upgrade-charm is still pending, and config-changed follows it (R 2)
    let after = ["config-changed", "config-changed", "upgrade-charm", "config-changed"];
    until_healthy(&scene, &[&STARTED[..], &after].concat());
}

#[test]
fn resolved_runs_the_hook_again_or_counts_it_as_done_but_publishes_nothing_of_it() {
    let scene = failed();
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "4", "a failed hook has no effect");
    scene.ok(&["config", "db", "fail-in="]);
    scene.ok(&["resolved", "db/0"]);
    let mut hooks = [&STARTED[..], &["config-changed", "count", "config-changed"]].concat();
    until_healthy(&scene, &hooks);
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5", "run again, it has its effect");
    hooks.push("count");
    scene.ok(&["config", "db", "fail-in=config-changed"]);
    hooks.push("config-changed");
    until_error(&scene, 4);
    scene.ok(&["resolved", "db/0", "--no-retry"]);
    let error = scene.until("the error is over", |host| {
        let output = host.pintle(&["resolved", "db/0"]);
        (output.code == 1).then_some(output.stderr)
    });
    let no_error = UnitRefusal::NoError { unit: UnitName::new("db", 0) };
    assert!(error.contains(&message(&no_error.into())), "{error}");
    // the hook was skipped: the setting counts as delivered
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "5");
    hooks.push("count");
    until_ran(&scene, "db/0", &hooks);
}

#[test]
fn a_failed_hook_is_retried_by_itself() {
    let scene = scene();
    deploy(&scene, "db", &["--config", "fail-in=config-changed"]);
    scene.until("the retry is announced", |host| {
        let is_retried = |cause: Cause| match cause.duty {
            Duty::Recover { activity, retry: Retry::At(_) | Retry::After(_), .. } => {
                activity == config_changed()
            }
            _ => false,
        };
        host.causes("db/0").into_iter().any(is_retried).then_some(())
    });
    scene.ok(&["config", "db", "fail-in="]);
    // no operator resolves it: the first retry is due after 5 s, the next 10 s after that (spec A.8)
    scene.until_status("db/0", "active", "");
    let ran = ran(&scene, "db/0");
    assert_eq!(ran[ran.len() - 2..], ["config-changed", "start"]);
    assert_eq!(results(&scene, "db/0", "count")["hooks"], "4", "its failures had no effect");
}
