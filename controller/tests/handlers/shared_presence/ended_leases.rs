//! What is kept when the lease of a controller ends, and what is written when two controllers state the same.

use super::*;
use controller::store::shared_presence::StatementChange;
use state::status::shared_presence::{AgentStatement, Statement, Topic};

/// 1. The lease of the first controller ends for a moment, and with it what it has stated about the boot of a unit. 2. A copy
///    of the unit attaches to the other controller, and is refused.
#[tokio::test]
async fn the_boot_of_an_agent_is_kept_when_its_statement_has_ended() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    for (nonce, boot) in [(1, "first"), (2, "second")] {
        scene.unit_agent(first).handle(attach(nonce, boot)).await.expect("accepted");
    }
    scene.settle().await;
    scene.end(first).await;
    scene.catch_up(&[first, second]).await;
    let copy = Attach { epoch: 1, ..attach(9, "copy") };
    scene.unit_agent(second).handle(copy).await.expect_err("an older epoch");
    scene.catch_up(&[first, second]).await;
    for of in [first, second] {
        assert_eq!(presence(of).boot(scene.unit), "second");
    }
}

/// A suspended host: its controller does not know yet that its lease has ended.
#[tokio::test]
async fn an_attach_succeeds_right_after_the_lease_of_its_controller_has_ended() {
    let scene = Scene::new().await;
    let first = &scene.first;
    scene.unit_agent(first).handle(attach(1, "first")).await.expect("accepted");
    scene.settle().await;
    scene.end(first).await;
    scene.unit_agent(first).handle(attach(2, "second")).await.expect("accepted");
    assert_eq!(presence(first).boot(scene.unit), "second");
}

/// The other controller takes the agents of a third one over first: what it has stated stays, and the rest is stated.
#[tokio::test]
async fn changes_that_were_overtaken_do_not_hold_back_the_others() {
    let scene = Scene::new().await;
    let [first, second] =
        [&scene.first, &scene.second].map(|of| of.controller.store.statements().expect("etcd keeps them"));
    let change = |agent: u128| StatementChange {
        agent: Uuid(agent),
        topic: Topic::Stream,
        statement: Some(Statement::Stream),
        replaces: 0,
    };
    first.change((1_000..1_040).map(change).collect()).await.expect("etcd runs");
    // etcd has a revision that no mirror receives, as after each chunk of a file
    assert!(scene.cluster.etcdctl(&["put", &format!("{}/b/other", scene.options.prefix), ""]));
    second.change((1_020..1_060).map(change).collect()).await.expect("etcd runs");
    scene.catch_up(&[&scene.first, &scene.second]).await;
    for agent in 1_000..1_060 {
        let stated = second.stated(Uuid(agent), Topic::Stream).expect("it is stated");
        assert_eq!(stated.is_own, agent >= 1_040, "{agent}");
        // those that are left are written at once
        let of_second = second.stated(Uuid(1_040), Topic::Stream).expect("it is stated").revision;
        assert_eq!(stated.revision == of_second, agent >= 1_040);
    }
}

/// Each of its agents is stated four times a second until it is.
#[tokio::test]
async fn a_statement_that_is_too_large_is_not_sent_again_until_it_changes() {
    let cluster = EtcdCluster::start_members(1, &["--max-txn-ops=2048"], None);
    let random = || Uuid(host::random::random_u128());
    let options = Options::new(cluster.addresses(), uuid_v4(1), uuid_v4(77), random());
    let statements = controller(&options).await.store.statements().expect("etcd keeps them");
    let change = |bytes: usize| StatementChange {
        agent: Uuid(7),
        topic: Topic::Agent,
        statement: Some(Statement::Agent(AgentStatement {
            obstructed_recalls: [(Uuid(2), "x".repeat(bytes))].into(),
            ..AgentStatement::default()
        })),
        replaces: 0,
    };
    statements.change(vec![change(2 << 20)]).await.expect("the others are written");
    assert_eq!(statements.stated(Uuid(7), Topic::Agent), None);
    cluster.kill(0);
    statements.change(vec![change(2 << 20)]).await.expect("nothing is sent");
    statements.change(vec![change(3 << 20)]).await.expect_err("it has changed");
}

/// The first controller cannot tell that it has removed two units, because its lease has ended.
#[tokio::test]
async fn all_units_that_were_removed_during_an_outage_are_forgotten_after_it() {
    let scene = Scene::new().await;
    let (first, second) = (&scene.first, &scene.second);
    first.deploy("db", 1).await;
    let units = [scene.unit, first.unit("db/0").await];
    for unit in units {
        let agent = second.controller.caller(TokenHolder::Unit { model: second.model, unit });
        agent.handle(attach(unit.0, "first")).await.expect("accepted");
    }
    scene.reports_exit_at(first).await;
    scene.settle().await;
    scene.end(first).await;
    scene.catch_up(&[first, second]).await;
    for name in ["web/0", "db/0"] {
        let unit = name.parse().expect("a name");
        let remove = RemoveUnit { unit, force: Force::AtOnce, destroy_storage: false };
        first.admin.handle(remove).await.expect("accepted");
    }
    first.run_janitor().await;
    first.controller.state_presence().await.expect_err("its lease has ended");
    scene.settle().await;
    let keys = scene.keys();
    for unit in units {
        assert!(!keys.iter().any(|key| key.contains(&unit.to_string())), "{keys:?}");
    }
}
