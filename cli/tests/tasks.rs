//! Tests of tasks and operations (`run`, `exec`, `actions`, ...), and of further commands that test suites call: status,
//! constraints, switch, destroy-model, ssh keys (spec/clients.md 2.2, 3.2).

mod samples;

use api::ActionDoc;
use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::Arguments;
use cli::commands::Verb;
use cli::commands::{
    actions, cancel_task, constraints, destroy_model, exec, operations, run, show_status_log, show_task,
    ssh_keys, status, switch,
};
use cli::data_dir::DataDir;
use samples::fake::FakeController;
use samples::sample_task;
use samples::session::FakeSession;
use serde_json::{Value, json};
use state::charm::Action;
use state::terms::commands::EXEC;
use state::terms::process_result::{ProcessResult, StreamOutput};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use test_support::golden::compare;

async fn run_command(
    words: &[&str],
    session: &FakeSession,
    dir: Option<&DataDir>,
) -> Result<(), CommandError> {
    match Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line").verb {
        Verb::Run(args) => run::run(&args, session).await,
        Verb::Exec(args) => exec::run(&args, session).await,
        Verb::CancelTask(args) => cancel_task::run(&args, session).await,
        Verb::ShowTask(args) => show_task::run(&args, session).await,
        Verb::Actions(args) => actions::run(&args, session).await,
        Verb::Operations(args) => operations::list(&args, session).await,
        Verb::ShowOperation(args) => operations::show(&args, session).await,
        Verb::Status(args) => status::run(&args, session).await,
        Verb::SetModelConstraints(args) => {
            constraints::set(None, constraints::parse(&args.constraints, session)?, session).await
        }
        Verb::AddSshKey(args) => ssh_keys::add(&args, session).await,
        Verb::RemoveSshKey(args) => ssh_keys::remove(&args, session).await,
        Verb::SshKeys(args) => ssh_keys::list(&args, session).await,
        Verb::ModelConstraints(args) => constraints::show(None, args.format, session).await,
        Verb::ShowStatusLog(args) => show_status_log::run(&args, session).await,
        Verb::DestroyModel(args) => destroy_model::run(&args, session, dir.expect("a folder")).await,
        Verb::Switch(args) => switch::run(&args, session, dir.expect("a folder")).await,
        verb => panic!("{verb:?} is not tested here"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_background_task_is_reported_by_number_and_shown_later() {
    let units = vec!["ledger/0".to_owned()];
    let session =
        FakeSession::new(FakeController { units, task: Some(sample_task()), ..FakeController::default() });
    run_command(&["run", "ledger/0", "post", "--background"], &session, None).await.expect("scheduled");
    compare("commands/run_background.txt", &session.printed().1);
    run_command(&["show-task", "7", "--format", "json"], &session, None).await.expect("shown");
    let task: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    // The task of spec/clients.md 2.4.
    assert_eq!(
        (&task["id"], &task["status"], &task["unit"]),
        (&json!("7"), &json!("completed"), &json!("ledger/0"))
    );
    assert_eq!(task["results"], json!({"balance": "30", "nested": {"a": "1"}, "return-code": 0}));
}

#[tokio::test(flavor = "current_thread")]
async fn show_task_shows_a_running_task_or_waits_for_it() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["show-task", "7", "--format", "json"], &session, None).await.expect("shown");
    let task: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(task["status"], "running");
    let failure =
        run_command(&["show-task", "7", "--wait", "20ms"], &session, None).await.expect_err("it never ends");
    assert!(failure.message.contains("timed out"), "{failure:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn declared_actions_are_listed_with_their_schemas_on_request() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let action = |description: &str| Action {
        description: description.to_owned(),
        parallel: false,
        execution_group: String::new(),
        schema: schema.clone(),
    };
    let declared =
        [("backup".to_owned(), action("Back up the data.")), ("post".to_owned(), action(""))].into();
    let session = FakeSession::new(FakeController { declared, ..FakeController::default() });
    run_command(&["actions", "ledger"], &session, None).await.expect("listed");
    let table = "Action  Description\nbackup  Back up the data.\npost    No description\n";
    assert_eq!(session.printed().0, table);
    run_command(&["actions", "ledger", "--schema", "--format", "json"], &session, None)
        .await
        .expect("listed");
    let actions: Value = serde_json::from_str(&session.printed().0[table.len()..]).expect("JSON");
    let shown = json!({
        "type": "object", "title": "backup", "properties": {"name": {"type": "string"}},
        "description": "Back up the data."
    });
    assert_eq!(actions["backup"], shown);
    let session = FakeSession::new(FakeController::default());
    run_command(&["actions", "ledger"], &session, None).await.expect("there are none");
    assert_eq!(session.printed().0, "");
}

#[tokio::test(flavor = "current_thread")]
async fn tasks_are_cancelled_and_those_that_cannot_be_are_named() {
    let blocked =
        [("8".to_owned(), "cannot cancel task 8: it has started on unit ledger/0".to_owned())].into();
    let session = FakeSession::new(FakeController { blocked, ..FakeController::default() });
    let failure = run_command(&["cancel-task", "7", "8", "9", "--format", "json"], &session, None)
        .await
        .expect_err("one of them has started");
    assert_eq!(
        (failure.message.as_str(), failure.code),
        ("cannot cancel task 8: it has started on unit ledger/0", 1)
    );
    let printed: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    let task = |id: &str| json!({"action": "post", "completed at": "1970-01-01 10:00:09", "id": id, "status": "cancelled", "unit": "ledger/0"});
    assert_eq!(printed, json!({"actions": [task("7"), task("9")]}));
}

#[tokio::test(flavor = "current_thread")]
async fn an_unknown_task_is_reported_with_the_word_of_the_command() {
    let refuses = [("999".to_owned(), "task 999 not found".to_owned())].into();
    let session = FakeSession::new(FakeController { refuses, ..FakeController::default() });
    for (verb, expected) in
        [("show-operation", "operation 999 not found"), ("show-task", "task 999 not found")]
    {
        let failure = run_command(&[verb, "999"], &session, None).await.expect_err("it is unknown");
        assert_eq!((failure.message.as_str(), failure.code), (expected, 1));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn operations_are_a_table_that_can_be_filtered() {
    let session = FakeSession::new(FakeController { task: Some(sample_task()), ..FakeController::default() });
    run_command(&["operations", "--utc"], &session, None).await.expect("listed");
    let expected = "\
Id  Status     Started               Finished              Task IDs  Summary
7   completed  1970-01-01T10:00:09Z  1970-01-01T10:00:09Z  7         post run on unit-ledger-0
";
    assert_eq!(session.printed().0, expected);
    for other in [["--apps", "web"], ["--units", "ledger/1"], ["--actions", "x"], ["--status", "failed"]] {
        let session =
            FakeSession::new(FakeController { task: Some(sample_task()), ..FakeController::default() });
        run_command(&["operations", other[0], other[1]], &session, None).await.expect("listed");
        assert_eq!(session.printed(), (String::new(), "no matching operations\n".to_owned()), "{other:?}");
    }
    let session = FakeSession::new(FakeController { task: Some(sample_task()), ..FakeController::default() });
    run_command(&["show-operation", "7", "--format", "json"], &session, None).await.expect("shown");
    let operation: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(operation["tasks"]["7"]["results"]["balance"], "30");
}

#[tokio::test(flavor = "current_thread")]
async fn a_filter_without_matches_is_reported_and_is_not_an_error() {
    let session = FakeSession::new(FakeController::default());
    assert_eq!(run_command(&["status", "nosuch"], &session, None).await, Ok(()));
    let (stdout, stderr) = session.printed();
    assert!(stdout.starts_with("Model  Controller") && stdout.lines().count() == 2, "{stdout}");
    compare("commands/status_no_match.txt", &stderr);
}

#[tokio::test(flavor = "current_thread")]
async fn only_the_architecture_of_this_host_is_accepted_as_a_constraint() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["model-constraints", "--format", "json"], &session, None).await.expect("shown");
    let shown: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(
        shown,
        json!({ "mem": 8192 }),
        "a model has what was set: jubilant's own suite starts with none"
    );
    let own = format!("arch={}", host::hardware::architecture());
    assert_eq!(run_command(&["set-model-constraints", &own], &session, None).await, Ok(()));
    assert_eq!(session.printed().1, "");
    assert_eq!(run_command(&["set-model-constraints", "mem=8G"], &session, None).await, Ok(()));
    compare("commands/constraint_without_effect.txt", &session.printed().1);
    let set = [format!("constraints None {own}"), "constraints None mem=8192M".to_owned()];
    assert_eq!(session.api.requests(), set);
    assert_eq!(
        run_command(&["set-model-constraints", "arch=vax"], &session, None)
            .await
            .expect_err("none here")
            .code,
        1
    );
}

#[tokio::test(flavor = "current_thread")]
async fn the_status_log_is_limited_by_type_number_and_day() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["show-status-log", "ledger/0", "--utc"], &session, None).await.expect("shown");
    compare("commands/show_status_log.txt", &session.printed().0);
    let shown = async |flags: &[&str]| {
        let session = FakeSession::new(FakeController::default());
        let words = [&["show-status-log", "ledger/0", "--utc", "--format", "json"], flags].concat();
        run_command(&words, &session, None).await.expect("shown");
        let changes: Value = serde_json::from_str(&session.printed().0).expect("JSON");
        let changes = changes.as_array().expect("a list").clone();
        changes
            .into_iter()
            .map(|change| change["status"].as_str().expect("a word").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--type", "juju-unit"]).await, ["idle"]);
    assert_eq!(shown(&["--type", "workload"]).await, ["blocked", "active"]);
    assert_eq!(shown(&["-n", "1"]).await, ["active"]);
    assert_eq!(shown(&["--from-date", "1970-01-02"]).await, ["active"]);
    assert!(shown(&["--days", "1"]).await.is_empty(), "all are from 1970");
    run_command(&["show-status-log", "ledger"], &session, None).await.expect("shown");
    let requests = session.api.requests();
    assert_eq!(requests.last().map(String::as_str), Some("Application(\"ledger\")"));
    for (words, request) in [
        (&["0"][..], "Machine(\"0\")"),
        (&["0", "--type", "juju-machine"], "Machine(\"0\")"),
        (&["--type", "model"], "Model"),
        (&["dev", "--type", "model"], "Model"),
    ] {
        run_command(&[&["show-status-log"], words].concat(), &session, None).await.expect("shown");
        assert_eq!(session.api.requests().last().map(String::as_str), Some(request), "{words:?}");
    }
    let none = run_command(&["show-status-log", "--type", "machine"], &session, None).await;
    assert_eq!(none.expect_err("which one is missing").code, 2);
    for words in [["ledger", "workload"], ["ledger/0", "application"]] {
        let words = ["show-status-log", words[0], "--type", words[1]];
        assert_eq!(run_command(&words, &session, None).await.expect_err("another kind").code, 2, "{words:?}");
    }
}

/// A data folder in which this model is the current one.
fn current_model(name: &str) -> (tempfile::TempDir, DataDir) {
    let outer = tempfile::tempdir().expect("a folder");
    let dir = DataDir::choose(Some(outer.path())).expect("a path");
    let text = format!("controller: c\nserver_name: s\nca: pem\nuser: admin\ntoken: t\nmodel: {name}\n");
    std::fs::write(dir.client_file(), text).expect("written");
    std::fs::set_permissions(dir.client_file(), std::fs::Permissions::from_mode(0o600)).expect("own file");
    (outer, dir)
}

fn current(dir: &DataDir) -> Option<String> {
    std::fs::read_to_string(dir.client_file()).expect("there").lines().last().map(str::to_owned)
}

#[tokio::test(flavor = "current_thread")]
async fn a_destroyed_model_is_no_longer_the_current_model() {
    for (before, after) in [("dev", "model: \"\""), ("other", "model: other")] {
        let (_outer, dir) = current_model(before);
        let session =
            FakeSession::new(FakeController { status_requests_left: 2.into(), ..FakeController::default() });
        run_command(&["destroy-model", "dev", "--no-prompt"], &session, Some(&dir))
            .await
            .expect("it is removed");
        assert_eq!(current(&dir).as_deref(), Some(after));
    }
    let (_outer, dir) = current_model("dev");
    let session = FakeSession::new(FakeController::default());
    let words = ["destroy-model", "dev", "--no-prompt", "--timeout", "1ms"];
    run_command(&words, &session, Some(&dir)).await.expect_err("it is still there");
    assert_eq!(current(&dir).as_deref(), Some("model: dev"), "the model still exists");
}

#[tokio::test(flavor = "current_thread")]
async fn switch_without_a_current_model_names_the_controller() {
    let (_outer, dir) = current_model("''");
    let session = FakeSession::in_model(FakeController::default(), "");
    run_command(&["switch"], &session, Some(&dir)).await.expect("there is a controller");
    run_command(&["switch", "here"], &session, Some(&dir)).await.expect("it is the only one");
    let printed = ("here\n".to_owned(), "here (controller) (no change)\n".to_owned());
    assert_eq!(session.printed(), printed);
    run_command(&["switch", "dev"], &session, Some(&dir)).await.expect("chosen");
    assert_eq!(current(&dir).as_deref(), Some("model: dev"));
    run_command(&["switch", "-"], &session, Some(&dir)).await.expect_err("there was none before");
}

#[tokio::test(flavor = "current_thread")]
async fn switch_changes_the_current_model_and_switches_back() {
    let (_outer, dir) = current_model("old");
    let current = || current(&dir);
    let session = FakeSession::new(FakeController::default());
    run_command(&["switch"], &session, Some(&dir)).await.expect("shown");
    assert_eq!(session.printed().0, "here:admin/dev\n");
    run_command(&["switch", "here:admin/dev"], &session, Some(&dir)).await.expect("switched");
    assert_eq!(session.printed().1, "here:admin/old -> here:admin/dev\n");
    assert_eq!(current().as_deref(), Some("model: dev"));
    // The controller of this test has one model, dev.
    assert!(
        run_command(&["switch", "-"], &session, Some(&dir))
            .await
            .expect_err("gone")
            .message
            .contains("\"old\"")
    );
    assert!(
        run_command(&["switch", "nosuch"], &session, Some(&dir))
            .await
            .expect_err("unknown")
            .message
            .contains("nosuch")
    );
    assert_eq!(current().as_deref(), Some("model: dev"));
}

#[tokio::test(flavor = "current_thread")]
async fn commands_are_enqueued_for_each_unit_and_their_output_is_printed() {
    let task = || {
        let mut task = sample_task();
        let printed = |text: &str| Some(StreamOutput::Text(text.to_owned()));
        task.results.clear();
        task.process = Some(ProcessResult { exit_code: 0, stdout: printed("out"), stderr: printed("bad\n") });
        FakeController { units: vec!["ledger/0".to_owned()], task: Some(task), ..FakeController::default() }
    };
    let session = FakeSession::new(task());
    let words = ["exec", "--unit", "ledger/0", "--", "echo", "a b", "-l"];
    run_command(&words, &session, None).await.expect("it exits with 0");
    assert_eq!(session.printed().0, "out\nbad\n");
    assert_eq!(session.api.requests().last().map(String::as_str), Some("exec ledger/0 echo 'a b' -l"));

    let session = FakeSession::new(task());
    let words =
        ["exec", "-m", "dev", "--format", "json", "--unit", "ledger/0", "--wait", "1.5s", "--", "ls $HOME"];
    run_command(&words, &session, None).await.expect("it exits with 0");
    let printed: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(printed["ledger/0"]["results"], json!({"stdout": "out", "stderr": "bad\n", "return-code": 0}));

    let session = FakeSession::new(task());
    run_command(&["exec", "-u", "ledger/9", "true"], &session, None).await.expect("it is a remark");
    assert_eq!(session.printed().0, "", "an unknown unit is no error");
    let failure = run_command(&["exec", "true"], &session, None).await.expect_err("no target");
    assert_eq!(failure.code, 2);
}

#[tokio::test(flavor = "current_thread")]
async fn commands_are_enqueued_for_each_machine_and_their_output_is_headed_by_its_name() {
    let task = || {
        let stdout = Some(StreamOutput::Text("out\n".to_owned()));
        let task = ActionDoc {
            machine: Some("0".to_owned()),
            name: EXEC.to_owned(),
            process: Some(ProcessResult { exit_code: 0, stdout, stderr: None }),
            results: BTreeMap::new(),
            ..sample_task()
        };
        let refuses = BTreeMap::from([("9".to_owned(), "machine 9 not found".to_owned())]);
        FakeSession::new(FakeController { refuses, task: Some(task), ..FakeController::default() })
    };
    let session = task();
    let words = ["exec", "--machine", "0,1", "--", "uname", "-a"];
    run_command(&words, &session, None).await.expect("it exits with 0");
    assert_eq!(session.printed().0, "0:\nout\n0:\nout\n");
    let requests = session.api.requests();
    assert!(requests.iter().any(|request| request == "exec machine 1 uname -a"), "{requests:?}");

    let session = task();
    let words = ["exec", "--format", "json", "--machine", "0", "true"];
    run_command(&words, &session, None).await.expect("it exits with 0");
    let printed: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!((&printed["0"]["machine"], &printed["0"]["unit"]), (&json!("0"), &Value::Null));
    assert_eq!(printed["0"]["results"], json!({"stdout": "out\n", "return-code": 0}));

    let session = task();
    run_command(&["exec", "--machine", "9", "true"], &session, None).await.expect("it is a remark");
    assert_eq!(session.printed().0, "", "an unknown machine is no error");

    let listed = async |words: &[&str]| {
        let session = task();
        run_command(&[&["operations", "--format", "json"], words].concat(), &session, None)
            .await
            .expect("listed");
        let printed = serde_json::from_str::<Value>(&session.printed().0).unwrap_or_default();
        printed.get("7").is_some()
    };
    assert!(listed(&["--machines", "0"]).await && listed(&[]).await);
    assert!(!listed(&["--units", "ledger/0"]).await && !listed(&["--apps", "ledger"]).await);
}

/// A controller with two units. The tasks with these numbers never finish.
fn two_units(unfinished: &[u64]) -> FakeController {
    let stdout = Some(StreamOutput::Text("out\n".to_owned()));
    let process = Some(ProcessResult { exit_code: 0, stdout, stderr: None });
    FakeController {
        units: vec!["ledger/0".to_owned(), "ledger/1".to_owned()],
        task: Some(ActionDoc { process, log: Vec::new(), results: BTreeMap::new(), ..sample_task() }),
        unfinished: unfinished.to_vec(),
        ..FakeController::default()
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_tasks_of_one_command_are_one_operation() {
    for words in [
        &["run", "ledger/0", "ledger/1", "post", "--background"][..],
        &["exec", "-u", "ledger/0,ledger/1", "--background", "true"],
    ] {
        let session = FakeSession::new(two_units(&[]));
        run_command(words, &session, None).await.expect("scheduled");
        let (scheduled, remarks) = session.printed();
        assert!(remarks.contains("show-operation 7"), "{remarks}");
        assert_eq!(scheduled, "ledger/0:\n  id: \"7\"\nledger/1:\n  id: \"8\"\n");
        run_command(&["operations", "--utc"], &session, None).await.expect("listed");
        let table = session.printed().0[scheduled.len()..].to_owned();
        let operations: Vec<&str> = table.lines().skip(1).collect();
        assert!(operations[0].ends_with("7,8       post run on unit-ledger-0,unit-ledger-1"), "{table}");
        assert_eq!(operations.len(), 1, "{table}");
        run_command(&["show-operation", "7", "--format", "json"], &session, None).await.expect("shown");
        let shown: Value =
            serde_json::from_str(&session.printed().0[scheduled.len() + table.len()..]).expect("JSON");
        assert_eq!(
            (&shown["tasks"]["7"]["host"], &shown["tasks"]["8"]["host"]),
            (&json!("ledger/0"), &json!("ledger/1"))
        );
        let other = run_command(&["show-operation", "8"], &session, None).await.expect_err("it is a task");
        assert_eq!(other.message, "operation 8 not found");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_results_of_finished_tasks_are_printed_when_another_one_times_out() {
    for (flag, unfinished, printed, late) in [
        ("--parallel=true", 7, "ledger/1:\nout\n", "unit ledger/0"),
        ("--parallel=true", 8, "ledger/0:\nout\n", "unit ledger/1"),
        ("--parallel=false", 8, "ledger/0:\nout\n", "unit ledger/1"),
        ("--parallel=false", 7, "", "unit ledger/0"),
    ] {
        let session = FakeSession::new(two_units(&[unfinished]));
        let words = ["exec", flag, "-u", "ledger/0,ledger/1", "--wait", "20ms", "true"];
        let failure = run_command(&words, &session, None).await.expect_err("one never ends");
        assert_eq!(failure.code, 1, "{failure:?}");
        assert!(failure.message.contains("timed out") && failure.message.ends_with(late), "{failure:?}");
        assert_eq!(session.printed().0, printed, "{flag} {unfinished}");
    }
    let session = FakeSession::new(two_units(&[]));
    run_command(&["exec", "--parallel=false", "-u", "ledger/0,ledger/1", "true"], &session, None)
        .await
        .expect("both end");
    assert_eq!(session.printed().0, "ledger/0:\nout\nledger/1:\nout\n");
    let waited = session.printed().1;
    assert_eq!(waited, "Waiting for task 7...\nWaiting for task 8...\n", "each is named once");
}

/// A charm, or a program that it starts, could reprogram the terminal of the person who reads its output.
#[tokio::test(flavor = "current_thread")]
async fn control_characters_of_a_charm_do_not_reach_a_terminal() {
    let task = || {
        let mut task = sample_task();
        let printed = |text: &str| Some(StreamOutput::Text(text.to_owned()));
        task.results.insert("note".to_owned(), "\u{9b}2J\u{7f}".into());
        task.log = vec![api::ActionLogLine { report: 1, at_ms: 1, text: "\u{1b}c".to_owned() }];
        let stdout = printed("a\tb\n\u{1b}]0;title\u{7}");
        task.process = Some(ProcessResult { exit_code: 0, stdout, stderr: printed("\u{9b}31m") });
        FakeController { units: vec!["ledger/0".to_owned()], task: Some(task), ..FakeController::default() }
    };
    let is_safe = |text: &str| !text.chars().any(|c| c.is_control() && !['\n', '\t'].contains(&c));
    let exec = ["exec", "--unit", "ledger/0", "--", "true"];
    let commands: [&[&str]; 6] = [
        &exec,
        &["exec", "--format", "json", "--unit", "ledger/0", "--", "true"],
        &["exec", "--format", "yaml", "--unit", "ledger/0", "--", "true"],
        &["show-task", "7"],
        &["show-task", "7", "--format", "json"],
        &["show-operation", "7", "--format", "json"],
    ];
    for words in commands {
        let session = FakeSession::new(task()).on_a_terminal();
        run_command(words, &session, None).await.expect("it exits with 0");
        let (stdout, stderr) = session.printed();
        assert!(is_safe(&stdout) && is_safe(&stderr), "{words:?}: {stdout:?} {stderr:?}");
        assert!(stdout.contains("title"), "{words:?}: {stdout:?}");
    }
    let session = FakeSession::new(task());
    run_command(&exec, &session, None).await.expect("it exits with 0");
    assert_eq!(session.printed().0, "a\tb\n\u{1b}]0;title\u{7}\n\u{9b}31m\n", "a pipe gets every byte");
}

#[tokio::test(flavor = "current_thread")]
async fn ssh_keys_are_listed_as_in_juju_and_a_duplicate_is_a_warning() {
    let session = FakeSession::new(FakeController::default());
    for words in [&["ssh-keys"][..], &["list-ssh-keys", "--full"]] {
        run_command(words, &session, None).await.expect("shown");
    }
    let added =
        run_command(&["add-ssh-key", "ssh-ed25519 AAAA me@host", "ssh-rsa BBBB"], &session, None).await;
    assert_eq!(added, Ok(()));
    let removed = run_command(&["remove-ssh-key", "27:d1", "you@host"], &session, None).await;
    assert_eq!(removed, Ok(()));
    let (printed, remarks) = session.printed();
    compare("commands/ssh_keys.txt", &format!("{printed}{remarks}"));
    let requests = [
        "add ssh keys [\"ssh-ed25519 AAAA me@host\", \"ssh-rsa BBBB\"]",
        "remove ssh keys [\"27:d1\", \"you@host\"]",
    ];
    assert_eq!(session.api.requests(), requests);
}
