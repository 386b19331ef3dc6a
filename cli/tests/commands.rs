//! Tests of commands against a fake controller: the requests they send, their output and their exit codes
//! (spec/clients.md 2.5, 3.6, 3.7).

mod samples;

use api::{ActionFailure, LogLine, LogPage, LogSource};
use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{
    Arguments, Verb, add_unit, config, debug_log, deploy, destroy_model, disk_usage, expose, model_config,
    remove_unit, run, suspend_relation, why,
};
use cli::data_dir::DataDir;
use samples::fake::FakeController;
use samples::session::FakeSession;
use samples::{sample, sample_task};
use serde_json::{Value, json};
use state::terms::names::UnitName;
use state::terms::process_result::ProcessResult;
use state::terms::status::ActionStatus;
use state::unit::writes::Level;
use test_support::golden::compare;

/// Runs the command line `words`.
async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    let parsed = Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line");
    match parsed.verb {
        Verb::Run(args) => run::run(&args, session).await,
        Verb::Deploy(args) => deploy::run(&args, session).await,
        Verb::AddUnit(args) => add_unit::run(&args, session).await,
        Verb::Config(args) => config::run(&args, session).await,
        Verb::Expose(args) => expose::expose(&args, session).await,
        Verb::Unexpose(args) => expose::unexpose(&args, session).await,
        Verb::ModelConfig(args) => model_config::run(&args, session).await,
        Verb::DebugLog(args) => debug_log::run(&args, session).await,
        Verb::Why(args) => why::run(&args, session).await,
        Verb::DiskUsage(args) => disk_usage::run(&args, session).await,
        Verb::SuspendRelation(args) => suspend_relation::suspend(&args, session).await,
        Verb::ResumeRelation(args) => suspend_relation::resume(&args, session).await,
        Verb::RemoveUnit(args) => remove_unit::run(&args, session).await,
        Verb::DestroyModel(args) => {
            let nowhere = tempfile::tempdir().expect("a folder");
            let dir = DataDir::choose(Some(nowhere.path())).expect("a path");
            destroy_model::run(&args, session, &dir).await
        }
        verb => panic!("{verb:?} is not tested here"),
    }
}

fn ledger(task: Option<api::ActionDoc>) -> FakeSession {
    FakeSession::new(FakeController { units: vec!["ledger/0".to_owned()], task, ..FakeController::default() })
}

#[tokio::test(flavor = "current_thread")]
async fn disk_usage_lists_the_largest_units_first_and_what_nothing_uses() {
    let session = FakeSession::new(FakeController::default());
    assert_eq!(run_command(&["disk-usage"], &session).await, Ok(()));
    let expected = [
        "Database   WAL  Change-log  Global  Retired-tokens",
        "    5.0M  4.0M        2.0M    900B            300B",
        "",
        "Model  Documents   Log  Actions  Tombstones",
        "dev          69K  600B        0        200B",
        "",
        "Unit   Model  Machine  On-machine  Runs  Charm  Agent-logs  State  Measured  Debug-log",
        "web/1  dev    0               81M   60M    20M        4.0K      0    1m ago       300B",
        "web/0  dev    0               22M  1.0M    20M        4.0K      0    1m ago       300B",
        "web/2  dev    1                 -     -      -           -      -         -          0",
        "",
        "Machine  Model  Quarantine",
        "1        dev          6.0M",
        "",
        "Archive       Charm  Size  Used by",
        "aaaaaaaaaaaa  web    2.9M  dev:web, dev:web/1",
        "bbbbbbbbbbbb  web    2.9M  nothing",
    ];
    assert_eq!(session.printed().0.lines().collect::<Vec<_>>(), expected);
    let session = FakeSession::new(FakeController::default());
    assert_eq!(run_command(&["disk-usage", "--format", "json"], &session).await, Ok(()));
    let document: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(document["models"][0]["units"][1]["on-machine"]["runs-bytes"], json!(60 << 20));
    assert_eq!(document["package-cache"], json!({"sets": 0, "sets-bytes": 0, "wheels-bytes": 0}));
}

#[tokio::test(flavor = "current_thread")]
async fn a_successful_task_is_printed_as_json_by_unit() {
    let session = ledger(Some(sample_task()));
    let done = run_command(
        &["run", "--format", "json", "ledger/0", "post", "account=cash", "amount=3", "a.b=yes"],
        &session,
    )
    .await;
    assert_eq!(done, Ok(()));
    let (stdout, stderr) = session.printed();
    let document: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(document["ledger/0"]["results"]["balance"], json!("30"));
    assert_eq!(stderr, "");
    let requests = &session.api.requests()[0];
    assert!(
        requests.contains("\"account\": String(\"cash\")") && requests.contains("\"amount\": Number(3)"),
        "{requests}"
    );
    assert!(requests.contains("\"a\": Object {\"b\": Bool(true)}"), "{requests}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_failed_process_is_reported_as_json_with_exit_code_1() {
    let mut task = sample_task();
    task.status = ActionStatus::Failed;
    task.process = Some(ProcessResult { exit_code: 3, ..ProcessResult::default() });
    let session = ledger(Some(task));
    let failure =
        run_command(&["run", "--format", "json", "ledger/0", "post"], &session).await.expect_err("it failed");
    assert_eq!(failure.code, 1);
    assert!(failure.text().contains("task failed"), "{failure:?}");
    assert!(failure.text().contains("id \"7\" with return code 3"), "{failure:?}");
    let document: Value = serde_json::from_str(&session.printed().0).expect("JSON besides");
    assert_eq!(document["ledger/0"]["status"], "failed");
}

#[tokio::test(flavor = "current_thread")]
async fn action_fail_with_a_successful_process_is_exit_code_0() {
    let mut task = sample_task();
    task.status = ActionStatus::Failed;
    task.failure = Some(ActionFailure::ActionFail { message: "the book is frozen".to_owned() });
    let session = ledger(Some(task));
    assert_eq!(run_command(&["run", "ledger/0", "post"], &session).await, Ok(()));
    let (stdout, _) = session.printed();
    compare("commands/run_action_failed.txt", &stdout);
}

#[tokio::test(flavor = "current_thread")]
async fn plain_output_is_the_results_without_the_return_code() {
    let session = ledger(Some(sample_task()));
    run_command(&["run", "--utc", "ledger/0", "post"], &session).await.expect("it succeeded");
    let (stdout, stderr) = session.printed();
    let results: Value = charms::yaml::from_str(&stdout).expect("YAML");
    assert_eq!(results, json!({ "balance": "30", "nested": { "a": "1" } }));
    let [_, task, "", _, log] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("{stderr}") };
    assert!(task.ends_with("unit-ledger-0") && log == "10:00:09 posting", "{stderr}");
}

#[tokio::test(flavor = "current_thread")]
async fn waiting_for_results_times_out() {
    let session = ledger(None);
    let failure = run_command(&["run", "ledger/0", "post", "--wait", "20ms"], &session)
        .await
        .expect_err("it never ends");
    assert_eq!(failure.code, 1);
    assert!(failure.message.contains("timed out"), "{failure:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn an_unknown_unit_is_exit_code_0_with_nothing_on_stdout() {
    let session = ledger(None);
    assert_eq!(run_command(&["run", "--format", "json", "ledger/9", "post"], &session).await, Ok(()));
    let (stdout, stderr) = session.printed();
    assert_eq!(stdout, "");
    compare("commands/run_unknown_unit.txt", &stderr);
}

#[tokio::test(flavor = "current_thread")]
async fn an_action_in_an_unknown_model_is_an_error() {
    let session = FakeSession::in_model(FakeController::default(), "nosuch");
    let failure = run_command(&["run", "ledger/9", "post"], &session).await.expect_err("no such model");
    assert_eq!(failure.code, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn why_explains_known_entities_and_reports_all_unknown_ones() {
    let unknown = |name: &str| (name.to_owned(), format!("unit {name:?} not found"));
    let session = FakeSession::new(FakeController {
        refuses: [unknown("a/9"), unknown("c/9")].into(),
        ..FakeController::default()
    });
    let failure =
        run_command(&["why", "a/9", "b/0", "c/9", "d/0"], &session).await.expect_err("two are unknown");
    assert_eq!(failure.text(), format!("ERROR {}\n      {}\n", unknown("a/9").1, unknown("c/9").1));
    assert_eq!(failure.code, 1);
    compare("commands/why_two_units.txt", &session.printed().0);
}

#[tokio::test(flavor = "current_thread")]
async fn why_explains_the_other_entities_if_a_word_names_none() {
    let session = FakeSession::new(FakeController::default());
    let failure =
        run_command(&["why", "b/0", "b/x", "007"], &session).await.expect_err("two words name nothing");
    assert!(
        failure.message.contains("\"b/x\"")
            && failure.message.contains("\n")
            && failure.message.contains("\"007\"")
    );
    assert_eq!(failure.code, 1, "as for an unknown entity");
    assert!(session.printed().0.starts_with("unit b/0: "), "{}", session.printed().0);
    let failure = run_command(&["why", "b/x"], &session).await.expect_err("the only word names nothing");
    assert_eq!(failure.code, 2);
}

#[tokio::test(flavor = "current_thread")]
async fn flags_of_charm_stores_are_reported_to_have_no_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    charm(folder.path(), "name: web\nsummary: s\ndescription: d\n");
    let session = FakeSession::new(FakeController::default());
    let path = folder.path().to_str().expect("text");
    run_command(&["deploy", path, "--channel", "edge", "--revision", "3", "--dry-run"], &session)
        .await
        .expect("it deploys");
    let printed = session.printed().1;
    for flag in ["--channel", "--revision"] {
        assert!(printed.lines().any(|line| line.starts_with(&format!("WARNING {flag} "))), "{printed}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_unknown_action_is_exit_code_1_and_not_found() {
    let session = ledger(None);
    let failure =
        run_command(&["run", "--format", "json", "ledger/0", "fly"], &session).await.expect_err("unknown");
    assert_eq!(failure.code, 1);
    assert!(failure.text().contains("(not found)"), "{failure:?}");
    assert_eq!(session.printed().0, "");
}

#[tokio::test(flavor = "current_thread")]
async fn an_invalid_run_command_sends_no_request() {
    for words in [
        &["run", "ledger", "post"][..],
        &["run", "ledger/0"],
        &["run", "ledger/0", "other/0", "post"],
        &["run", "ledger/0", "post", "Key=1"],
        &["run", "ledger/0", "post", "a..b=1"],
        &["run", "ledger/0", "post", "word"],
    ] {
        let session = ledger(None);
        assert_eq!(run_command(words, &session).await.expect_err("a usage error").code, 2, "{words:?}");
        assert!(session.api.requests().is_empty(), "{words:?}");
    }
}

fn charm(folder: &std::path::Path, metadata: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder.join("hooks")).expect("made");
    std::fs::write(folder.join("metadata.yaml"), metadata).expect("written");
    std::fs::write(folder.join("hooks/start"), "#!/bin/sh\n").expect("written");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join("hooks/start"), executable).expect("own file");
}

#[tokio::test(flavor = "current_thread")]
async fn a_charm_that_the_controller_has_is_not_uploaded_again() {
    let folder = tempfile::tempdir().expect("a folder");
    charm(folder.path(), "name: web\nsummary: s\ndescription: d\n");
    let path = folder.path().display().to_string();
    for has_archive in [false, true] {
        let session = FakeSession::new(FakeController { has_archive, ..FakeController::default() });
        run_command(&["deploy", &path, "--config", "port=81", "-n", "3", "--to", "0,1"], &session)
            .await
            .expect("deployed");
        // Three units: the first on 0, one anywhere, and one on 1.
        let mut expected = vec![
            "deploy web units=2 to=Some(\"0\") config={\"port\": \"81\"}".to_owned(),
            "add web units=1 to=Some(\"1\")".to_owned(),
        ];
        if !has_archive {
            expected.insert(0, "upload".to_owned());
        }
        assert_eq!(session.api.changes(), expected);
        let (_, stderr) = session.printed();
        let last = stderr.lines().last().expect("what is deployed").to_owned() + "\n";
        compare("commands/deploy.txt", &last);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn all_problems_of_a_charm_are_reported_before_anything_is_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    charm(folder.path(), "name: Web\nrequires:\n  db: {scope: odd}\n");
    let session = FakeSession::new(FakeController::default());
    let path = folder.path().display().to_string();
    let failure = run_command(&["deploy", &path], &session).await.expect_err("a bad charm");
    let problems = failure.text().lines().filter(|line| line.contains("metadata.yaml")).count();
    assert!(problems >= 3, "{}", failure.text());
    assert_eq!(session.api.changes(), Vec::<String>::new());

    // A folder that is not a charm is reported in one line.
    std::fs::remove_file(folder.path().join("metadata.yaml")).expect("it is ours");
    let failure = run_command(&["deploy", &path], &session).await.expect_err("no charm");
    assert!(failure.text().starts_with(&format!("ERROR {path:?} ")), "{failure:?}");
    assert_eq!(failure.text().lines().count(), 1);

    let failure = run_command(&["deploy", "no-such-charm"], &session).await.expect_err("no charm");
    assert!(failure.message.contains("\"no-such-charm\"") && failure.hint.is_some(), "{failure:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn units_without_a_machine_are_added_in_one_request() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["add-unit", "web", "-n", "3", "--to", "4"], &session).await.expect("added");
    assert_eq!(session.api.requests(), ["add web units=1 to=Some(\"4\")", "add web units=2 to=None"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_single_key_prints_its_value_and_an_unknown_key_is_an_error() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["config", "ledger", "port"], &session).await.expect("known");
    run_command(&["config", "ledger", "title"], &session).await.expect("known");
    assert_eq!(session.printed().0, "8080\nyes\n");
    assert_eq!(run_command(&["config", "ledger", "nothing"], &session).await.expect_err("unknown").code, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn model_config_shows_one_key_and_never_together_with_a_change() {
    let session = FakeSession::new(FakeController::default());
    for words in
        [&["juju-http-proxy", "http-proxy"][..], &["http-proxy", "no-proxy=a"], &["a", "--reset", "b"]]
    {
        let all: Vec<&str> = ["model-config"].into_iter().chain(words.iter().copied()).collect();
        assert_eq!(run_command(&all, &session).await.expect_err("not at once").code, 2, "{words:?}");
    }
    assert_eq!(session.api.requests(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn settings_and_resets_are_sent_as_one_change() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["config", "ledger", "a=1", "b=x=y", "--reset", "c,d"], &session).await.expect("changed");
    assert_eq!(
        session.api.requests(),
        ["configure dev/ledger {\"a\": \"1\", \"b\": \"x=y\"} [\"c\", \"d\"]"]
    );
}

#[tokio::test(flavor = "current_thread")]
async fn an_application_is_exposed_and_flags_without_an_effect_are_answered() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["expose", "ledger"], &session).await.expect("changed");
    run_command(&["unexpose", "ledger"], &session).await.expect("changed");
    run_command(&["expose", "ledger", "--to-cidrs", "10.0.0.0/8"], &session).await.expect("changed");
    assert!(session.printed().1.starts_with("WARNING --to-cidrs"));
    assert_eq!(session.api.requests(), [true, false, true].map(|is| format!("expose dev/ledger {is}")));
}

#[tokio::test(flavor = "current_thread")]
async fn the_whole_log_is_read_in_pages() {
    let line = |text: &str| LogLine {
        at_ms: samples::NOW_MS,
        level: Level::Info,
        unit: UnitName::new("web", 0),
        source: LogSource::JujuLog,
        text: text.to_owned(),
    };
    let pages = vec![
        LogPage { lines: vec![line("one")], cursor: "c1".to_owned(), more: true },
        LogPage { lines: vec![line("two")], cursor: "c2".to_owned(), more: false },
    ];
    let session = FakeSession::new(FakeController { pages: pages.into(), ..FakeController::default() });
    run_command(&["debug-log", "--limit", "0", "--utc", "--no-tail", "--replay"], &session)
        .await
        .expect("it ends");
    let prefix = "unit-web-0: 10:00:09 INFO unit.web/0.juju-log";
    assert_eq!(session.printed().0, format!("{prefix} one\n{prefix} two\n"));
    assert_eq!(
        session.api.requests(),
        ["log after=None newest=None wait=false", "log after=Some(\"c1\") newest=None wait=false"]
    );
    let pages = vec![LogPage { lines: Vec::new(), cursor: "c1".to_owned(), more: false }];
    let session = FakeSession::new(FakeController { pages: pages.into(), ..FakeController::default() });
    run_command(&["debug-log", "--include", "ledger/9"], &session).await.expect("an empty log");
    let (stdout, stderr) = session.printed();
    assert!(stdout.is_empty() && stderr.starts_with("WARNING ") && stderr.contains("ledger/9"), "{stderr}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_rejected_removal_does_not_stop_the_others() {
    let unknown = "no web/8";
    let refuses = [("web/8".to_owned(), unknown.to_owned())].into();
    let session = FakeSession::new(FakeController { refuses, ..FakeController::default() });
    let failure = run_command(&["remove-unit", "--no-prompt", "web/8", "web/9"], &session)
        .await
        .expect_err("one is unknown");
    assert_eq!(failure.message, unknown);
    assert_eq!(session.api.requests(), ["remove web/8 force=No", "remove web/9 force=No"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_dry_run_removes_nothing_and_rejects_unknown_units() {
    let refuses = [("web/8".to_owned(), "unit web/8 not found".to_owned())].into();
    let session = FakeSession::new(FakeController { refuses, ..FakeController::default() });
    run_command(&["remove-unit", "--dry-run", "web/9"], &session).await.expect("a dry run");
    compare("commands/dry_run.txt", &session.printed().0);
    let failure =
        run_command(&["remove-unit", "--dry-run", "web/8"], &session).await.expect_err("it is unknown");
    assert_eq!((failure.message.as_str(), failure.code), ("unit web/8 not found", 1));
    assert!(
        session.api.requests().iter().all(|requests| requests.starts_with("dry run")),
        "{:?}",
        session.api.requests()
    );
}

#[tokio::test(flavor = "current_thread")]
async fn the_dry_run_of_a_model_prints_the_answer_and_changes_nothing() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["destroy-model", "dev", "--dry-run", "--force"], &session).await.expect("a dry run");
    compare("commands/dry_run_model.txt", &session.printed().0);
    assert_eq!(session.api.requests(), ["dry-run-model AfterWait"]);
}

#[tokio::test(flavor = "current_thread")]
async fn no_wait_requires_force_and_each_removal_is_reported() {
    let refuses = [("web/8".to_owned(), "unit web/8 not found".to_owned())].into();
    let session = FakeSession::new(FakeController { refuses, ..FakeController::default() });
    let failure = run_command(&["remove-unit", "--no-prompt", "--no-wait", "web/9"], &session)
        .await
        .expect_err("alone");
    assert!(failure.message.contains("--no-wait") && failure.message.ends_with(" --force"), "{failure:?}");
    assert_eq!(session.api.requests(), [""; 0]);
    let words = ["remove-unit", "--no-prompt", "--force", "--no-wait", "web/8", "web/9"];
    run_command(&words, &session).await.expect_err("one is unknown");
    assert_eq!(session.api.requests(), ["remove web/8 force=AtOnce", "remove web/9 force=AtOnce"]);
    let printed = session.printed().1;
    let removals: Vec<&str> = printed.lines().filter(|line| line.contains("web/")).collect();
    compare("commands/remove_unit.txt", &(removals.join("\n") + "\n"));
    let refuses = [("web/8".to_owned(), "unit web/8 not found".to_owned())].into();
    let session = FakeSession::new(FakeController { refuses, ..FakeController::default() });
    run_command(&["remove-unit", "--no-prompt", "web/8"], &session).await.expect_err("it is unknown");
    assert_eq!(session.printed().1, "", "the error is all that is printed");
}

#[tokio::test(flavor = "current_thread")]
async fn relations_are_suspended_and_resumed_by_number() {
    let session = FakeSession::new(FakeController::default());
    let why = "db moves";
    assert_eq!(run_command(&["suspend-relation", "3,4", "--message", why], &session).await, Ok(()));
    assert_eq!(run_command(&["resume-relation", "4", "3"], &session).await, Ok(()));
    let requests = session.api.requests();
    let suspended = |number: u32| format!("suspend {number} {why:?}");
    assert_eq!(requests, [suspended(3), suspended(4), "resume 4".to_owned(), "resume 3".to_owned()]);
}

#[tokio::test(flavor = "current_thread")]
async fn relations_are_suspended_and_resumed_by_their_ends() {
    // Relations of the sample: 0 is ledger:ring, a peer relation; 1 is ledger:audit auditor:book.
    let session = FakeSession::new(FakeController::default());
    for ends in
        [&["auditor", "ledger"][..], &["ledger:audit", "auditor:book"], &["auditor"], &["ledger:audit"]]
    {
        let line = [&["suspend-relation"], ends, &["--message", "moved"]].concat();
        assert_eq!(run_command(&line, &session).await, Ok(()), "{ends:?}");
    }
    assert_eq!(run_command(&["resume-relation", "ledger:ring"], &session).await, Ok(()));
    let requests: Vec<String> =
        session.api.requests().into_iter().filter(|requests| requests != "status").collect();
    assert_eq!(requests, [&["suspend 1 \"moved\""; 4][..], &["resume 0"]].concat());

    let refused = async |line: &[&str]| {
        run_command(line, &session).await.expect_err("it names no one relation").message
    };
    let none = refused(&["resume-relation", "web:db", "ledger"]).await;
    let several = refused(&["suspend-relation", "ledger"]).await;
    let too_many = refused(&["suspend-relation", "a", "b", "c"]).await;
    compare("commands/relation_ends.txt", &[none, several, too_many, String::new()].join("\n"));
    assert_eq!(
        session.api.requests().iter().filter(|requests| *requests != "status").count(),
        5,
        "no other request was sent"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn destroy_model_waits_until_the_model_is_removed() {
    let empty = |mut status: api::Status| {
        status.applications.clear();
        status
    };
    let statuses = vec![sample(), sample(), empty(sample())];
    let session = FakeSession::new(FakeController {
        statuses: statuses.into(),
        status_requests_left: 5.into(),
        ..FakeController::default()
    });
    let words = ["destroy-model", "dev", "--no-prompt", "--destroy-storage", "--force", "--release-storage"];
    assert_eq!(run_command(&words, &session).await, Ok(()));
    let requests: Vec<String> =
        session.api.requests().into_iter().filter(|requests| requests != "status").collect();
    assert_eq!(requests, [format!("destroy {} AfterWait", sample().model.uuid)]);
    compare("commands/destroy_model.txt", &session.printed().1);
}

#[tokio::test(flavor = "current_thread")]
async fn destroy_model_waits_no_longer_than_its_timeout() {
    let session = FakeSession::new(FakeController::default());
    let started = tokio::time::Instant::now();
    let words = ["destroy-model", "dev", "--no-prompt", "--force", "--no-wait", "--timeout", "250ms"];
    let failure = run_command(&words, &session).await.expect_err("it is still there");
    assert!(started.elapsed().as_millis() >= 250, "{:?}", started.elapsed());
    assert_eq!(failure.code, 1);
    compare("commands/destroy_model_timeout.txt", &failure.text());
    assert!(session.api.requests().contains(&format!("destroy {} AtOnce", sample().model.uuid)));
}
