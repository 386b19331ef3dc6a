//! Actions: how many completed ones are kept.

use crate::support::*;
use api::{ActionDoc, EnqueueAction, GetAction, Handle, ListActions};
use controller::janitor::ACTIONS_MAX;
use state::terms::operation::Operation;
use state::terms::status::ActionStatus;
use std::collections::BTreeMap;

#[tokio::test]
async fn completed_actions_beyond_the_limit_are_deleted_oldest_first() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    let run = || EnqueueAction {
        unit: "web/0".parse().expect("a unit"),
        action: "backup".to_owned(),
        params: BTreeMap::new(),
        operation: None,
    };
    let beyond = 3;
    for n in 0..(ACTIONS_MAX + beyond) as u64 {
        let id = fixture.admin.handle(run()).await.expect("the action is enqueued").answer.id;
        assert_eq!(id, n + 1);
        let record = web.record(Operation::Action { id, name: "backup".to_owned() });
        web.commit(record).await;
    }
    let pending = fixture.admin.handle(run()).await.expect("the action is enqueued").answer.id;
    fixture.run_janitor().await;
    let kept: Vec<ActionDoc> = fixture.admin.handle(ListActions).await.expect("actions are listed");
    assert_eq!((kept.len(), kept[0].id), (ACTIONS_MAX + 1, beyond as u64 + 1));
    let last = kept.last().expect("there are some");
    assert_eq!((last.id, last.status), (pending, ActionStatus::Pending), "a pending action is kept");
    assert!(fixture.admin.handle(GetAction { id: 1 }).await.is_err());
    assert_eq!(
        fixture.admin.handle(GetAction { id: 4 }).await.expect("the action is kept").status,
        ActionStatus::Completed
    );
}
