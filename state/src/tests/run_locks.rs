//! The locks under which hooks and actions run (spec/uniter.md B.5).

use super::required_files::started;
use crate::charm::Action;
use crate::terms::run_lock::{HeldLock, RunLock};
use crate::terms::status::ActionStatus;
use crate::unit::decision::{Act, Now};
use crate::unit::resolve::next;
use crate::unit::snapshot::ActionView;
use std::sync::Arc;

fn action(parallel: bool, group: &str) -> Action {
    Action { parallel, execution_group: group.to_owned(), ..Action::default() }
}

/// What a started unit does next when this action is enqueued, in a model with this setting `parallel`.
fn next_with(action: Action, parallel: bool, held_lock: HeldLock) -> Act {
    let (local, mut view) = started();
    view.model.parallel = parallel;
    Arc::make_mut(&mut view.charm.declared).actions.insert("copy".to_owned(), action);
    view.actions.insert(1, ActionView::new("copy".to_owned(), Default::default(), ActionStatus::Pending));
    next(&local, Some(&view), &Now { held_lock, ..Now::hypothetical() }).act
}

#[test]
fn an_action_takes_the_lock_that_its_charm_declares() {
    let group = || RunLock::Group("backup".to_owned());
    let cases = [
        (action(false, ""), false, RunLock::Machine),
        (action(true, ""), false, RunLock::Unit),
        (action(false, "backup"), false, group()),
        (action(true, "backup"), false, group()),
        (action(false, ""), true, RunLock::Unit),
        (action(false, "backup"), true, group()),
    ];
    for (action, parallel, lock) in cases {
        let act = |held| next_with(action.clone(), parallel, held);
        assert_eq!(act(HeldLock::None), Act::AcquireLock(lock.clone()), "{action:?}");
        assert!(matches!(act(HeldLock::One(lock)), Act::Start(_)), "{action:?}");
    }
}

/// 1. A unit has acquired the lock for its next hook. 2. A user enqueues an action, which is next.
#[test]
fn a_run_does_not_start_under_the_lock_of_another_one() {
    let act = next_with(action(false, "backup"), false, HeldLock::One(RunLock::Machine));
    assert_eq!(act, Act::AcquireLock(RunLock::Group("backup".to_owned())));
}
