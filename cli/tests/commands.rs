//! Verbs against a controller that answers as told: what they ask, what they print, how they end
//! (spec/clients.md 2.5, 3.6, 3.7).

mod common;

use api::{LogLine, LogPage};
use clap::Parser;
use cli::arguments::Arguments;
use cli::command_error::Failure;
use cli::commands::Verb;
use cli::commands::{
    add_unit, config, debug_log, deploy, destroy_model, model_config, remove_unit, run, suspend_relation, why,
};
use cli::data_dir::DataDir;
use cli::last_write::LastWrites;
use cli::output::Output;
use cli::session::Session;
use common::fake::{Fake, Scoped};
use common::{sample, sample_task};
use serde_json::{Value, json};
use state::terms::status::ActionStatus;
use std::path::PathBuf;

fn session(api: Fake) -> Session<Scoped> {
    let api = Scoped::new(api, "dev");
    let charm_cache = PathBuf::from("no charm here needs packages");
    let (output, writes) = (Output::memory(), LastWrites::memory());
    Session { api, model: "dev".to_owned(), output, writes, charm_cache }
}

/// Does what `words` say.
async fn does(words: &[&str], at: &Session<Scoped>) -> Result<(), Failure> {
    let parsed = Arguments::try_parse_from(["juju"].iter().chain(words)).expect("understood");
    match parsed.verb {
        Verb::Run(args) => run::run(&args, at).await,
        Verb::Deploy(args) => deploy::run(&args, at).await,
        Verb::AddUnit(args) => add_unit::run(&args, at).await,
        Verb::Config(args) => config::run(&args, at).await,
        Verb::ModelConfig(args) => model_config::run(&args, at).await,
        Verb::DebugLog(args) => debug_log::run(&args, at).await,
        Verb::Why(args) => why::run(&args, at).await,
        Verb::SuspendRelation(args) => suspend_relation::suspend(&args, at).await,
        Verb::ResumeRelation(args) => suspend_relation::resume(&args, at).await,
        Verb::RemoveUnit(args) => remove_unit::run(&args, at).await,
        Verb::DestroyModel(args) => {
            let nowhere = tempfile::tempdir().expect("a folder");
            let dir = DataDir::choose(Some(nowhere.path())).expect("a path");
            destroy_model::run(&args, at, &dir).await
        }
        verb => panic!("{verb:?} is not tried here"),
    }
}

fn ledger(task: Option<api::ActionInfo>) -> Session<Scoped> {
    session(Fake { units: vec!["ledger/0".to_owned()], task, ..Fake::default() })
}

#[tokio::test(flavor = "current_thread")]
async fn a_task_that_succeeds_is_json_by_unit() {
    let at = ledger(Some(sample_task()));
    let done =
        does(&["run", "--format", "json", "ledger/0", "post", "account=cash", "amount=3", "a.b=yes"], &at)
            .await;
    assert_eq!(done, Ok(()));
    let (stdout, stderr) = at.output.said();
    let document: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(document["ledger/0"]["results"]["balance"], json!("30"));
    assert_eq!(stderr, "");
    let asked = &at.api.asked()[0];
    assert!(
        asked.contains("\"account\": String(\"cash\")") && asked.contains("\"amount\": Number(3)"),
        "{asked}"
    );
    assert!(asked.contains("\"a\": Object {\"b\": Bool(true)}"), "{asked}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_process_that_fails_is_json_and_exit_code_1() {
    let mut task = sample_task();
    task.status = ActionStatus::Failed;
    task.results.insert("return-code".to_owned(), json!(3));
    let at = ledger(Some(task));
    let failure = does(&["run", "--format", "json", "ledger/0", "post"], &at).await.expect_err("it failed");
    assert_eq!(failure.code, 1);
    assert!(failure.text().contains("task failed"), "{failure:?}");
    assert!(failure.text().contains("id \"7\" with return code 3"), "{failure:?}");
    let document: Value = serde_json::from_str(&at.output.said().0).expect("JSON besides");
    assert_eq!(document["ledger/0"]["status"], "failed");
}

#[tokio::test(flavor = "current_thread")]
async fn action_fail_with_a_process_that_ended_well_is_exit_code_0() {
    let mut task = sample_task();
    task.status = ActionStatus::Failed;
    task.message = "the book is frozen".to_owned();
    let at = ledger(Some(task));
    assert_eq!(does(&["run", "ledger/0", "post"], &at).await, Ok(()));
    let (stdout, _) = at.output.said();
    assert!(stdout.starts_with("Action id 7 failed: the book is frozen\n"), "{stdout}");
}

#[tokio::test(flavor = "current_thread")]
async fn plain_output_is_the_results_without_the_return_code() {
    let at = ledger(Some(sample_task()));
    does(&["run", "--utc", "ledger/0", "post"], &at).await.expect("it succeeded");
    let (stdout, stderr) = at.output.said();
    let results: Value = serde_yaml::from_str(&stdout).expect("YAML");
    assert_eq!(results, json!({ "balance": "30", "nested": { "a": "1" } }));
    assert_eq!(stderr, "Waiting for task 7...\n10:00:09 posting\n");
}

#[tokio::test(flavor = "current_thread")]
async fn results_that_do_not_come_time_out() {
    let at = ledger(None);
    let failure = does(&["run", "ledger/0", "post", "--wait", "20ms"], &at).await.expect_err("it never ends");
    assert_eq!(failure.code, 1);
    assert!(failure.message.contains("timed out"), "{failure:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn an_unknown_unit_is_exit_code_0_with_nothing_on_stdout() {
    let at = ledger(None);
    assert_eq!(does(&["run", "--format", "json", "ledger/9", "post"], &at).await, Ok(()));
    let (stdout, stderr) = at.output.said();
    assert_eq!(stdout, "");
    assert_eq!(stderr, "Operation failed to schedule any tasks:\nunit \"ledger/9\" not found\n");
}

#[tokio::test(flavor = "current_thread")]
async fn an_action_in_an_unknown_model_is_an_error() {
    let at = Session { model: "nosuch".to_owned(), ..ledger(None) };
    let failure = does(&["run", "ledger/9", "post"], &at).await.expect_err("no such model");
    assert_eq!(failure.code, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn why_tells_of_those_that_are_there_and_names_all_that_are_not() {
    let unknown = |name: &str| (name.to_owned(), format!("unit {name:?} not found"));
    let at = session(Fake { refuses: [unknown("a/9"), unknown("c/9")].into(), ..Fake::default() });
    let failure = does(&["why", "a/9", "b/0", "c/9", "d/0"], &at).await.expect_err("two are unknown");
    assert_eq!(failure.text(), "ERROR unit \"a/9\" not found\n      unit \"c/9\" not found\n");
    assert_eq!(failure.code, 1);
    let told = "unit b/0: alive, idle\n  waits for nothing\nunit d/0: alive, idle\n  waits for nothing\n";
    assert_eq!(at.output.said().0, told);
}

#[tokio::test(flavor = "current_thread")]
async fn a_flag_that_chooses_from_a_store_is_said_to_have_no_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    charm(folder.path(), "name: web\nsummary: s\ndescription: d\n");
    let at = session(Fake::default());
    let path = folder.path().to_str().expect("text");
    does(&["deploy", path, "--channel", "edge", "--revision", "3", "--dry-run"], &at)
        .await
        .expect("it deploys");
    let said = at.output.said().1;
    for flag in ["--channel", "--revision"] {
        assert!(said.contains(&format!("WARNING {flag} has no effect")), "{said}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_unknown_action_is_exit_code_1_and_not_found() {
    let at = ledger(None);
    let failure = does(&["run", "--format", "json", "ledger/0", "fly"], &at).await.expect_err("unknown");
    assert_eq!(failure.code, 1);
    assert!(failure.text().contains("(not found)"), "{failure:?}");
    assert_eq!(at.output.said().0, "");
}

#[tokio::test(flavor = "current_thread")]
async fn what_cannot_be_run_is_not_sent() {
    for words in [
        &["run", "ledger", "post"][..],
        &["run", "ledger/0"],
        &["run", "ledger/0", "other/0", "post"],
        &["run", "ledger/0", "post", "Key=1"],
        &["run", "ledger/0", "post", "a..b=1"],
        &["run", "ledger/0", "post", "word"],
    ] {
        let at = ledger(None);
        assert_eq!(does(words, &at).await.expect_err("a usage error").code, 2, "{words:?}");
        assert!(at.api.asked().is_empty(), "{words:?}");
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
async fn a_charm_the_controller_has_is_not_sent_again() {
    let folder = tempfile::tempdir().expect("a folder");
    charm(folder.path(), "name: web\nsummary: s\ndescription: d\n");
    let path = folder.path().display().to_string();
    for has_archive in [false, true] {
        let at = session(Fake { has_archive, ..Fake::default() });
        does(&["deploy", &path, "--config", "port=81", "-n", "3", "--to", "0,1"], &at)
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
        assert_eq!(at.api.asked(), expected);
        let (_, stderr) = at.output.said();
        assert!(stderr.ends_with("Deploying \"web\" from local charm \"web\", revision 3\n"), "{stderr}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn all_problems_of_a_charm_are_told_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    charm(folder.path(), "name: Web\nrequires:\n  db: {scope: odd}\n");
    let at = session(Fake::default());
    let path = folder.path().display().to_string();
    let failure = does(&["deploy", &path], &at).await.expect_err("a bad charm");
    let problems = failure.text().lines().filter(|line| line.contains("metadata.yaml")).count();
    assert!(problems >= 3, "{}", failure.text());
    assert_eq!(at.api.asked(), Vec::<String>::new());

    // A folder that is no charm at all, however much is in it: one line.
    std::fs::remove_file(folder.path().join("metadata.yaml")).expect("it is ours");
    let failure = does(&["deploy", &path], &at).await.expect_err("no charm");
    let expected = format!("ERROR {path:?} is no charm: it has neither metadata.yaml nor charmcraft.yaml\n");
    assert_eq!(failure.text(), expected);

    let failure = does(&["deploy", "no-such-charm"], &at).await.expect_err("no charm");
    assert!(
        failure.text().starts_with("ERROR no charm at \"no-such-charm\"\n      give the path"),
        "{failure:?}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn units_without_a_place_are_added_together() {
    let at = session(Fake::default());
    does(&["add-unit", "web", "-n", "3", "--to", "4"], &at).await.expect("added");
    assert_eq!(at.api.asked(), ["add web units=1 to=Some(\"4\")", "add web units=2 to=None"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_single_key_is_its_bare_value_and_an_unknown_one_an_error() {
    let at = session(Fake::default());
    does(&["config", "ledger", "port"], &at).await.expect("known");
    does(&["config", "ledger", "title"], &at).await.expect("known");
    assert_eq!(at.output.said().0, "8080\nyes\n");
    assert_eq!(does(&["config", "ledger", "nothing"], &at).await.expect_err("unknown").code, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn keys_of_a_model_are_shown_one_at_a_time_and_never_beside_a_change() {
    let at = session(Fake::default());
    for words in
        [&["juju-http-proxy", "http-proxy"][..], &["http-proxy", "no-proxy=a"], &["a", "--reset", "b"]]
    {
        let all: Vec<&str> = ["model-config"].into_iter().chain(words.iter().copied()).collect();
        assert_eq!(does(&all, &at).await.expect_err("not at once").code, 2, "{words:?}");
    }
    assert_eq!(at.api.asked(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn settings_and_resets_are_one_change() {
    let at = session(Fake::default());
    does(&["config", "ledger", "a=1", "b=x=y", "--reset", "c,d"], &at).await.expect("changed");
    assert_eq!(at.api.asked(), ["configure dev ledger {\"a\": \"1\", \"b\": \"x=y\"} [\"c\", \"d\"]"]);
}

#[tokio::test(flavor = "current_thread")]
async fn the_whole_log_comes_in_pages_and_ends() {
    let line = |text: &str| LogLine {
        at_ms: common::NOW_MS,
        level: "INFO".to_owned(),
        module: "unit.web/0.juju-log".to_owned(),
        entity: "unit-web-0".to_owned(),
        text: text.to_owned(),
    };
    let pages = vec![
        LogPage { lines: vec![line("one")], cursor: "c1".to_owned(), more: true },
        LogPage { lines: vec![line("two")], cursor: "c2".to_owned(), more: false },
    ];
    let at = session(Fake { pages: pages.into(), ..Fake::default() });
    does(&["debug-log", "--limit", "0", "--utc", "--no-tail", "--replay"], &at).await.expect("it ends");
    let prefix = "unit-web-0: 10:00:09 INFO unit.web/0.juju-log";
    assert_eq!(at.output.said().0, format!("{prefix} one\n{prefix} two\n"));
    assert_eq!(
        at.api.asked(),
        ["log after=None newest=None wait=false", "log after=Some(\"c1\") newest=None wait=false"]
    );
}

#[tokio::test(flavor = "current_thread")]
async fn one_refusal_does_not_keep_the_others_from_going() {
    let refuses = [("web/8".to_owned(), "unit \"web/8\" not found".to_owned())].into();
    let at = session(Fake { refuses, ..Fake::default() });
    let failure =
        does(&["remove-unit", "--no-prompt", "web/8", "web/9"], &at).await.expect_err("one is unknown");
    assert_eq!(failure.text(), "ERROR unit \"web/8\" not found\n");
    assert_eq!(at.api.asked(), ["remove web/8 force=No", "remove web/9 force=No"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_dry_run_removes_nothing_and_refuses_what_is_not_there() {
    let refuses = [("web/8".to_owned(), "unit web/8 not found".to_owned())].into();
    let at = session(Fake { refuses, ..Fake::default() });
    does(&["remove-unit", "--dry-run", "web/9"], &at).await.expect("said");
    assert_eq!(at.output.said().0, "would be dying:\n  unit web/9\n");
    let failure = does(&["remove-unit", "--dry-run", "web/8"], &at).await.expect_err("it is unknown");
    assert_eq!((failure.text().as_str(), failure.code), ("ERROR unit web/8 not found\n", 1));
    assert!(at.api.asked().iter().all(|asked| asked.starts_with("forecast")), "{:?}", at.api.asked());
}

/// Of the sample's two units and machine nothing is foretold to go: neither does the model.
#[tokio::test(flavor = "current_thread")]
async fn a_model_is_not_foretold_to_go_while_something_in_it_stays() {
    let at = session(Fake::default());
    does(&["destroy-model", "dev", "--dry-run"], &at).await.expect("said");
    assert_eq!(at.output.said().0, "would be dying:\n  unit web/9\n");
    let at = session(Fake::default());
    does(&["destroy-model", "dev", "--dry-run", "--force"], &at).await.expect("said");
    assert!(at.output.said().0.ends_with("  model dev\n"), "{:?}", at.output.said().0);
}

#[tokio::test(flavor = "current_thread")]
async fn no_wait_needs_force_and_each_removal_says_what_was_done() {
    let refuses = [("web/8".to_owned(), "unit web/8 not found".to_owned())].into();
    let at = session(Fake { refuses, ..Fake::default() });
    let failure = does(&["remove-unit", "--no-prompt", "--no-wait", "web/9"], &at).await.expect_err("alone");
    assert_eq!(failure.text(), "ERROR --no-wait is only for --force\n");
    let words = ["remove-unit", "--no-prompt", "--force", "--no-wait", "web/8", "web/9"];
    does(&words, &at).await.expect_err("one is unknown");
    assert_eq!(at.api.asked(), ["remove web/8 force=AtOnce", "remove web/9 force=AtOnce"]);
    let said = at.output.said().1;
    assert!(said.ends_with("not removing unit web/8\nremoving unit web/9: by force, now\n"), "{said}");
}

#[tokio::test(flavor = "current_thread")]
async fn relations_are_suspended_and_resumed_by_number() {
    let at = session(Fake::default());
    assert_eq!(does(&["suspend-relation", "3,4", "--message", "db moves"], &at).await, Ok(()));
    assert_eq!(does(&["resume-relation", "4", "3"], &at).await, Ok(()));
    let asked = at.api.asked();
    assert_eq!(asked, ["suspend 3 \"db moves\"", "suspend 4 \"db moves\"", "resume 4", "resume 3"]);
}

#[tokio::test(flavor = "current_thread")]
async fn relations_are_suspended_and_resumed_by_their_ends() {
    // the sample's: 0 is ledger:ring, a peer relation; 1 is ledger:audit auditor:book
    let at = session(Fake::default());
    for ends in
        [&["auditor", "ledger"][..], &["ledger:audit", "auditor:book"], &["auditor"], &["ledger:audit"]]
    {
        let line = [&["suspend-relation"], ends, &["--message", "db moves"]].concat();
        assert_eq!(does(&line, &at).await, Ok(()), "{ends:?}");
    }
    assert_eq!(does(&["resume-relation", "ledger:ring"], &at).await, Ok(()));
    let asked: Vec<String> = at.api.asked().into_iter().filter(|asked| asked != "status").collect();
    assert_eq!(asked, [&["suspend 1 \"db moves\""; 4][..], &["resume 0"]].concat());

    let refused = async |line: &[&str]| does(line, &at).await.expect_err("it names no one relation").message;
    assert_eq!(
        refused(&["resume-relation", "web:db", "ledger"]).await,
        "no relation is between web:db and ledger"
    );
    let several = refused(&["suspend-relation", "ledger"]).await;
    assert_eq!(several, "ledger is in several relations: 0 (ledger:ring), 1 (ledger:audit auditor:book)");
    assert!(refused(&["suspend-relation", "a", "b", "c"]).await.contains("two ends"));
    assert_eq!(
        at.api.asked().iter().filter(|asked| *asked != "status").count(),
        5,
        "nothing else was asked for"
    );
}

fn lines(at: &Session<Scoped>) -> Vec<String> {
    at.output.said().1.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn a_model_is_waited_for_until_it_is_gone() {
    let empty = |mut status: api::Status| {
        status.applications.clear();
        status
    };
    let statuses = vec![sample(), sample(), empty(sample())];
    let at = session(Fake { statuses: statuses.into(), looks: 5.into(), ..Fake::default() });
    let words = ["destroy-model", "dev", "--no-prompt", "--destroy-storage", "--force", "--release-storage"];
    assert_eq!(does(&words, &at).await, Ok(()));
    let asked: Vec<String> = at.api.asked().into_iter().filter(|asked| asked != "status").collect();
    assert_eq!(asked, [format!("destroy {} AfterWait", sample().model.uuid)]);
    assert_eq!(
        lines(&at),
        [
            "will remove model dev",
            "will remove application auditor",
            "will remove application ledger",
            "will remove machine 0",
            "Waiting for model dev to be removed, 2 applications, 2 units, 1 machine",
            "Waiting for model dev to be removed, 1 machine",
            "Model dev destroyed",
        ]
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_model_that_stays_is_waited_for_as_long_as_timeout_says() {
    let at = session(Fake::default());
    let begun = tokio::time::Instant::now();
    let words = ["destroy-model", "dev", "--no-prompt", "--force", "--no-wait", "--timeout", "250ms"];
    let failure = does(&words, &at).await.expect_err("it is still there");
    assert!(begun.elapsed().as_millis() >= 250, "{:?}", begun.elapsed());
    assert_eq!(failure.code, 1);
    assert_eq!(
        failure.text(),
        "ERROR model dev is still being removed, 2 applications, 2 units, 1 machine\n      \
         what holds it: pintle why model -m dev\n"
    );
    assert!(at.api.asked().contains(&format!("destroy {} AtOnce", sample().model.uuid)));
}
