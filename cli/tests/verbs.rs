//! Tests of commands that take Juju's arguments but carry them out in Pintle's own way, against a fake controller.

mod samples;

use api::ActionFailure;
use api::text::refusal::message;
use clap::Parser;
use cli::command_error::CommandError;
use cli::commands::{
    Arguments, Verb, add_machine, add_model, add_unit, change_storage, deploy, destroy_model, exec,
    integrate, model_config, operations, refresh, run, scale_application, show_task, trust, wait_for, why,
};
use cli::supervisor::settings::UpSettings;
use samples::fake::FakeController;
use samples::sample_task;
use samples::session::FakeSession;
use serde_json::{Value, json};
use state::terms::refusal::EntityKind;
use state::terms::refusal::application::ApplicationRefusal;
use state::terms::status::ActionStatus;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Runs the command line `words`.
async fn run_command(words: &[&str], session: &FakeSession) -> Result<(), CommandError> {
    let parsed = Arguments::try_parse_from(["juju"].iter().chain(words)).expect("a valid command line");
    match parsed.verb {
        Verb::ScaleApplication(args) => scale_application::run(&args, session).await,
        Verb::Why(args) => why::run(&args, session).await,
        Verb::AddMachine(args) => add_machine::run(&args, session, &session.dir).await,
        Verb::AddUnit(args) => add_unit::run(&args, session).await,
        Verb::AddModel(args) => add_model::run(&args, session, &session.dir).await,
        Verb::Deploy(args) => deploy::run(&args, session).await,
        Verb::DestroyModel(args) => destroy_model::run(&args, session, &session.dir).await,
        Verb::DetachStorage(args) => change_storage::detach(&args, session).await,
        Verb::Exec(args) => exec::run(&args, session).await,
        Verb::Integrate(args) => integrate::run(&args, session).await,
        Verb::ModelConfig(args) => model_config::run(&args, session).await,
        Verb::Run(args) => run::run(&args, session).await,
        Verb::Refresh(args) => refresh::run(&args, session).await,
        Verb::ShowOperation(args) => operations::show(&args, session).await,
        Verb::ShowTask(args) => show_task::run(&args, session).await,
        Verb::Trust(args) => trust::run(&args, session).await,
        Verb::WaitFor(args) => wait_for::run(&args, session).await,
        verb => panic!("{verb:?} is not tested here"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn scale_application_adds_or_removes_what_differs() {
    for (scale, request) in
        [("3", Some("add ledger units=2 to=None")), ("1", None), ("0", Some("remove ledger/0 force=No"))]
    {
        let session = FakeSession::new(FakeController::default());
        run_command(&["scale-application", "ledger", scale], &session).await.expect("it asks nothing");
        let writes = session.api.requests().into_iter().filter(|request| request != "status");
        assert_eq!(writes.collect::<Vec<_>>(), request.map(str::to_owned).into_iter().collect::<Vec<_>>());
    }
}

/// The controller refuses existing storage for several units, which it can do only if it knows their number.
#[tokio::test(flavor = "current_thread")]
async fn units_with_existing_storage_are_one_request() {
    let session = FakeSession::new(FakeController::default());
    let words = ["add-unit", "ledger", "-n", "2", "--to", "0,1", "--attach-storage", "data/0"];
    run_command(&words, &session).await.expect("the fake accepts it");
    assert_eq!(session.api.requests(), ["add ledger units=2 to=Some(\"0\")"]);
}

#[tokio::test(flavor = "current_thread")]
async fn trust_is_granted_and_revoked() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["trust", "ledger", "--scope", "cluster"], &session).await.expect("changed");
    run_command(&["trust", "ledger", "--remove"], &session).await.expect("changed");
    assert_eq!(session.api.requests(), ["trust dev/ledger true", "trust dev/ledger false"]);
}

/// What a command line prints when the program is called by this name.
fn printed(name: &str, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pintle")).arg0(name).args(words).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn both_versions_are_labelled_and_juju_prints_its_own_alone() {
    for words in [["version"], ["--version"]] {
        let bare = printed("/usr/bin/juju", &words);
        assert!(bare.starts_with(api::JUJU_VERSION) && bare.lines().count() == 1, "{bare}");
        let labelled = printed("pintle", &words);
        let rows: Vec<Vec<&str>> = labelled.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [vec!["pintle", env!("CARGO_PKG_VERSION")], vec!["juju", bare.trim()]]);
    }
}

/// `help COMMAND` for a command that Pintle does not offer prints the same as the command itself.
#[test]
fn the_help_of_a_command_that_is_not_offered_names_what_is_used_instead() {
    let ask = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pintle")).args(words).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for words in [["help", "bootstrap"], ["help", "run-action"], ["help", "frobnicate"]] {
        assert_eq!(ask(&words), ask(&words[1..]), "{words:?}");
    }
    assert_eq!((ask(&["help", "deploy"]).0, ask(&["wait-for", "help", "nothing"]).0), (Some(0), Some(2)));
}

#[tokio::test(flavor = "current_thread")]
async fn refresh_without_a_path_reports_whether_the_application_or_its_place_is_unknown() {
    let session = FakeSession::new(FakeController::default());
    let unknown = run_command(&["refresh", "nothing"], &session).await.expect_err("there is none");
    assert_eq!(unknown, CommandError::not_found(EntityKind::Application, "nothing"));
    let placeless = run_command(&["refresh", "ledger"], &session).await.expect_err("it has no place");
    assert!(placeless.hint.expect("a hint").contains("--path"));
}

#[tokio::test(flavor = "current_thread")]
async fn why_without_an_entity_explains_the_model() {
    let session = FakeSession::new(FakeController::default());
    run_command(&["why", "--format", "json"], &session).await.expect("it is explained");
    let why: Value = serde_json::from_str(&session.printed().0).expect("JSON");
    assert_eq!(why["entity"], json!({ "model": "dev" }));
}

/// The fake controller refuses most of these requests; the warning precedes them.
#[tokio::test(flavor = "current_thread")]
async fn a_flag_without_an_effect_is_answered_with_one_warning() {
    for (line, warnings) in [
        ("deploy ./nowhere --series jammy", 1),
        ("deploy ./nowhere --bind a --channel b --device c --revision 1", 4),
        ("integrate a b --via 10.0.0.0/8", 1),
        ("integrate a b", 0),
        ("refresh web --path ./nowhere --revision 1", 1),
        ("refresh web --path ./nowhere --channel edge", 1),
        ("refresh web --path ./nowhere --base ubuntu@22.04", 1),
        ("refresh web --path ./nowhere --storage data=1G", 1),
        ("refresh web --path ./nowhere --bind alpha", 1),
        ("refresh web --path ./nowhere --force-base", 0),
        ("add-model m local --credential x", 1),
        ("add-model m lxd", 1),
        ("add-model m local/local", 0),
        ("trust web --scope cluster", 1),
        ("detach-storage data/0 --force", 1),
        ("detach-storage data/0 --no-wait", 1),
        ("exec --unit ledger/0 --execution-group g true", 1),
    ] {
        let units = vec!["ledger/0".to_owned()];
        let task = Some(sample_task());
        let session = FakeSession::new(FakeController { units, task, ..FakeController::default() });
        let words: Vec<&str> = line.split(' ').collect();
        drop(run_command(&words, &session).await);
        let printed = session.printed().1;
        assert_eq!(
            printed.lines().filter(|line| line.starts_with("WARNING ")).count(),
            warnings,
            "{line}: {printed}"
        );
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_flag_that_cannot_be_honoured_is_refused_before_anything_is_sent() {
    for line in [
        "add-model m --controller nope",
        "add-machine --disks 10G",
        "add-machine --private-key k",
        "add-machine --public-key k",
        "destroy-model dev --no-prompt --release-storage",
        "exec --unit ledger/0 --parallel=false --background true",
    ] {
        let session = FakeSession::new(FakeController::default());
        let words: Vec<&str> = line.split(' ').collect();
        let failure = run_command(&words, &session).await.expect_err(line);
        assert!(failure.hint.is_some() || failure.code == 2, "{line}: {failure:?}");
        let writes = session.api.requests().into_iter().filter(|request| request != "status");
        assert_eq!(writes.collect::<Vec<_>>(), Vec::<String>::new(), "{line}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn commands_are_run_one_after_the_other_on_request() {
    let units = vec!["ledger/0".to_owned(), "ledger/1".to_owned()];
    let line = ["exec", "--unit", "ledger/0,ledger/1", "--parallel=false", "--wait", "50ms", "true"];
    // the first task never completes
    let session = FakeSession::new(FakeController { units: units.clone(), ..FakeController::default() });
    run_command(&line, &session).await.expect_err("it times out");
    assert_eq!(session.api.requests(), ["exec ledger/0 true"]);
    let session =
        FakeSession::new(FakeController { units, task: Some(sample_task()), ..FakeController::default() });
    run_command(&line, &session).await.expect("they are done");
    assert_eq!(session.api.requests(), ["exec ledger/0 true", "exec ledger/1 true"]);
}

#[tokio::test(flavor = "current_thread")]
async fn results_of_a_task_are_watched_and_an_entity_is_summarised() {
    let done = || FakeSession::new(FakeController { task: Some(sample_task()), ..FakeController::default() });
    for line in ["show-task 7 --watch", "show-operation 7 --watch", "show-operation 7 --wait 5s"] {
        let words: Vec<&str> = line.split(' ').collect();
        run_command(&words, &done()).await.expect(line);
        let task = Some(sample_task());
        let never =
            FakeSession::new(FakeController { task, unfinished: [7].into(), ..FakeController::default() });
        let waits = tokio::time::timeout(Duration::from_millis(50), run_command(&words, &never)).await;
        assert!(waits.is_err(), "{line}: {waits:?}");
    }
    let session = done();
    run_command(&["wait-for", "application", "ledger", "--summary"], &session).await.expect("it is active");
    let printed = session.printed().1;
    assert!(printed.lines().any(|line| line.starts_with("workload-version: ")), "{printed}");
}

#[tokio::test(flavor = "current_thread")]
async fn model_settings_are_read_from_a_file_and_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("settings.yaml");
    std::fs::write(&file, "a: 1\nb: two\n").expect("written");
    let session = FakeSession::new(FakeController::default());
    let words = ["model-config", "--file", file.to_str().expect("text"), "a=3"];
    run_command(&words, &session).await.expect("it is changed");
    let expected = r#"configure-model {"a": "3", "b": "two"} []"#;
    assert_eq!(session.api.requests(), [expected]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_charm_is_refreshed_from_the_place_of_its_deployment() {
    let folder = tempfile::tempdir().expect("a folder");
    let charm = folder.path().join("web");
    std::fs::create_dir_all(charm.join("hooks")).expect("a folder");
    std::fs::write(charm.join("metadata.yaml"), "name: web\nsummary: s\ndescription: d\n").expect("written");
    std::fs::write(charm.join("hooks/install"), "#!/bin/sh\n").expect("written");
    let session = FakeSession::new(FakeController { has_archive: true, ..FakeController::default() });
    run_command(&["deploy", charm.to_str().expect("text")], &session).await.expect("it is deployed");
    run_command(&["refresh", "web"], &session).await.expect("it is refreshed");
    assert!(
        session.api.requests().iter().any(|request| request == "refresh web"),
        "{:?}",
        session.api.requests()
    );
}

#[tokio::test(flavor = "current_thread")]
async fn a_dry_run_of_an_existing_application_is_refused_as_its_deployment() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("hooks")).expect("a folder");
    std::fs::write(folder.path().join("metadata.yaml"), "name: web\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::write(folder.path().join("hooks/install"), "#!/bin/sh\n").expect("written");
    let charm = folder.path().to_str().expect("text");
    let session = FakeSession::new(FakeController::default());
    run_command(&["deploy", charm, "--dry-run"], &session).await.expect("it is new");
    let failure =
        run_command(&["deploy", charm, "ledger", "--dry-run"], &session).await.expect_err("it exists");
    let exists = ApplicationRefusal::AlreadyExists { name: "ledger".to_owned() };
    assert_eq!(failure.message, message(&exists.into()));
}

/// The packages of a folder would be installed for a deployment that is refused. The charm of this test has no code, which
/// is found before its packages are installed.
#[tokio::test(flavor = "current_thread")]
async fn the_name_of_an_existing_application_is_refused_before_packages_are_installed() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).expect("written");
    let charm = folder.path().to_str().expect("text");
    let exists = ApplicationRefusal::AlreadyExists { name: "ledger".to_owned() };
    let session = FakeSession::new(FakeController::default());
    for (file, name, words) in [
        ("charmcraft.yaml", "ledger", vec!["deploy", charm]),
        ("metadata.yaml", "ledger", vec!["deploy", charm]),
        ("metadata.yaml", "web", vec!["deploy", charm, "ledger"]),
    ] {
        write(file, &format!("type: charm\nname: {name}\nsummary: s\ndescription: d\n"));
        let failure = run_command(&words, &session).await.expect_err("it exists");
        assert_eq!(failure.message, message(&exists.clone().into()), "{file}");
    }
    let failure = run_command(&["deploy", charm], &session).await.expect_err("it has no code");
    assert_ne!(failure.message, message(&exists.into()));
}

#[tokio::test(flavor = "current_thread")]
async fn a_placement_in_a_container_of_a_machine_is_a_usage_error() {
    let session = FakeSession::new(FakeController::default());
    for words in [["deploy", "x", "--to", "lxd"], ["add-unit", "ledger", "--to", "lxd:0"]] {
        let failure = run_command(&words, &session).await.expect_err("there are no containers");
        assert_eq!(failure.code, 2, "{failure:?}");
    }
    assert_eq!(session.api.requests(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn an_action_that_calls_action_fail_is_reported_on_stderr_as_well() {
    let mut task = sample_task();
    task.status = ActionStatus::Failed;
    task.failure = Some(ActionFailure::ActionFail { message: "frozen\u{1b}".to_owned() });
    for format in ["plain", "json"] {
        let units = vec!["ledger/0".to_owned()];
        let session =
            FakeSession::new(FakeController { units, task: Some(task.clone()), ..FakeController::default() });
        run_command(&["run", "ledger/0", "post", "--format", format], &session).await.expect("as in Juju");
        let stderr = session.printed().1;
        assert!(stderr.lines().last().is_some_and(|line| line.contains("frozen\\u{1b}")), "{stderr}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn deploy_names_the_base_that_the_machine_has_instead_of_those_of_the_charm() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("hooks")).expect("a folder");
    let charmcraft =
        "type: charm\nname: web\nsummary: s\ndescription: d\nbase: none@1\nplatforms: {amd64: }\n";
    std::fs::write(folder.path().join("charmcraft.yaml"), charmcraft).expect("written");
    std::fs::write(folder.path().join("hooks/install"), "#!/bin/sh\n").expect("written");
    let charm = folder.path().to_str().expect("text");
    for command in [vec!["deploy", charm], vec!["deploy", charm, "--base", "none@2"]] {
        let session = FakeSession::new(FakeController { has_archive: true, ..FakeController::default() });
        run_command(&command, &session).await.expect("it is deployed");
        let stderr = session.printed().1;
        let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("WARNING ")).collect();
        let requested = command.last().filter(|base| base.contains('@')).unwrap_or(&"none@1");
        assert!(matches!(&warnings[..], [one] if one.contains(requested)), "{stderr}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn deploy_lists_where_it_has_searched_for_a_charm() {
    let session = FakeSession::new(FakeController::default());
    session.dir.create().expect("a folder");
    let settings = UpSettings { charms: vec!["/srv/charms".into()], ..UpSettings::default() };
    settings.write(&session.dir).expect("written");
    let failure = run_command(&["deploy", "no-such-charm"], &session).await.expect_err("there is none");
    assert!(failure.message.contains("/srv/charms") && failure.hint.is_some(), "{failure:?}");
}
