//! Hook contexts for the unit tests of this crate: web/0 is the leader and related to mysql by db:1.

#[path = "../../../tests/support/src/hook_context.rs"]
mod hook_context;

use crate::{CallOutcome, Inputs, ToolReply};
pub use hook_context::context;
use serde_json::Map;
use state::terms::commands::RelationContext;
use state::terms::names::UnitName;
use state::unit::hook_context::{HookContext, HookStorage, HookTrigger, RunningAction};

/// The context of the hook db-relation-changed for mysql/0.
pub fn relation_context() -> HookContext {
    let about = RelationContext {
        relation: 1,
        unit: Some(UnitName::new("mysql", 0)),
        application: "mysql".to_owned(),
        departing: None,
    };
    HookContext {
        trigger: HookTrigger::Relation { hook: "db-relation-changed".to_owned(), about },
        ..context()
    }
}

/// The context of the action backup.
pub fn action_context() -> HookContext {
    let action = RunningAction { name: "backup".to_owned(), id: "3".to_owned(), params: Map::new() };
    HookContext { trigger: HookTrigger::Action(action), ..context() }
}

/// The context of the hook data-storage-attached.
pub fn storage_context() -> HookContext {
    let (id, location, kind) = ("data/0".to_owned(), "/srv/data".to_owned(), "filesystem".to_owned());
    let data = HookStorage { kind: kind.clone(), location: location.clone() };
    let cache = HookStorage { kind: "block".to_owned(), location: "/dev/loop0".to_owned() };
    let known = [("data/0", data), ("cache/1", cache)];
    let known = known.map(|(id, storage)| (id.parse().expect("an id"), storage));
    HookContext {
        trigger: HookTrigger::Storage { hook: "data-storage-attached".to_owned(), id, location, kind },
        storage: known.into(),
        ..context()
    }
}

/// Calls a tool that requires no input.
pub fn call(context: &mut HookContext, name: &str, words: &[&str]) -> ToolReply {
    let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match crate::call(context, name, &args, &Inputs::default()) {
        CallOutcome::Reply(reply) => reply,
        CallOutcome::Need(need) => panic!("{name} needs {need:?}"),
    }
}
