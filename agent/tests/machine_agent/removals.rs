//! What the machine agent does for a Dying unit without a folder, and on a host whose machine was removed.

use super::*;
use state::terms::refusal::RefusalReason;
use state::terms::refusal::unit::UnitRefusal;

/// 1. The folder of web/0 was lost, and web/0 is Dying.
/// 2. The machine agent requests its removal, because no agent is started only to be removed.
/// 3. Only if the controller answers that its agent has to run the last hooks, the agent is started.
#[tokio::test(start_paused = true)]
async fn a_dying_unit_is_deployed_only_if_its_agent_has_to_finish() {
    let web = || UnitName::new("web", 0);
    let unfinished = UnitRefusal::AgentNotFinished { unit: web() };
    let not_dead = UnitRefusal::NotDead { unit: web() };
    let answers = [
        (Some(RefusalReason::from(unfinished).into()), true),
        (Some(RefusalReason::from(not_dead).into()), false),
        (Some(RefusalReason::NotAuthorised.into()), false),
        (Some(ApiError::new(ErrorCode::Unauthorised, "the token is not accepted")), false),
        (Some(ApiError::new(ErrorCode::Unreachable, "no answer")), false),
        (None, false),
    ];
    for (removal_error, is_deployed) in answers {
        let machine = tempfile::tempdir().expect("a folder");
        let units = BTreeMap::from([(Uuid(6), Assigned { name: web(), life: Life::Dying })]);
        let answer = format!("{removal_error:?}");
        let controller =
            FakeController { view: Some(view(units)), removal_error, ..FakeController::default() };
        let agent = machine_agent(machine.path(), &controller);
        let minute = Duration::from_secs(60);
        assert!(tokio::time::timeout(minute, agent.run()).await.is_err(), "the agent continues");
        assert_eq!(machine.path().join("agents/unit-web-0").exists(), is_deployed, "{answer}");
        assert_ne!(controller.removals_requested.load(Ordering::Relaxed), 0, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_removed_while_disconnected_uninstalls_its_units() {
    let machine = tempfile::tempdir().expect("a folder");
    let folder = machine.path().join("agents/unit-web-0");
    fs::create_dir_all(&folder).expect("created");
    let identity = config::to_yaml(&agent_config(AgentKind::Unit, Uuid(6), "web/0"));
    write_atomic_unsynced(&folder.join("agent.yaml"), identity.as_bytes()).expect("written");
    for number in 0..3_000 {
        fs::write(folder.join(format!("file-{number}")), "").expect("written");
    }
    let controller = FakeController { removed: true, ..FakeController::default() };
    let agent = machine_agent(machine.path(), &controller);
    let hour = Duration::from_secs(3600);
    tokio::time::timeout(hour, agent.run()).await.expect("the agent ends");
    tokio::time::resume(); // a thread deletes the folder
    tokio::time::timeout(hour / 60, agent.uninstall_units())
        .await
        .expect("no report is awaited, because the machine was removed")
        .expect("the folders can be deleted");
    let left = fs::read_dir(machine.path().join("removed")).expect("it was moved there");
    assert!(!folder.exists() && left.count() == 0, "the machine's folder is deleted next");
}

/// 1. web/0 is removed by force, and the view without it arrives.
/// 2. The controller does not answer whether web/0 still exists. No further view arrives.
#[tokio::test(start_paused = true)]
async fn a_removed_unit_is_recalled_although_the_controller_did_not_answer_at_first() {
    let machine = tempfile::tempdir().expect("a folder");
    let name = UnitName::new("web", 0);
    let deployer = Deployer::new(
        machine.path().to_path_buf(),
        agent_config(AgentKind::Machine, Uuid(1), "0"),
        Supervision::Children,
    );
    deployer.prepare(Uuid(6), &name).expect("it is created");
    let folder = deployer.folder(&name);
    deployer.store_token_accepted(&folder).expect("written");
    fs::write(folder.file("finished"), "").expect("written");
    let controller = FakeController {
        view: Some(view(BTreeMap::new())),
        existence: Some(Existence::Tombstone),
        lost_existences: Arc::new(AtomicU32::new(3)),
        ..FakeController::default()
    };
    let agent = machine_agent(machine.path(), &controller);
    assert!(tokio::time::timeout(Duration::from_secs(60), agent.run()).await.is_err(), "the agent continues");
    assert!(!folder.root().exists());
}
