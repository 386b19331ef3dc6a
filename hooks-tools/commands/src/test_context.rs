//! Hook contexts for the unit tests of this crate: web/0 is the leader and related to mysql by db:1.

#[path = "../../../tests/support/src/hook_context.rs"]
mod hook_context;

use crate::{CallOutcome, Inputs, ToolReply};
pub use hook_context::context;
use serde_json::Map;
use state::charm::StorageType;
use state::terms::commands::RelationContext;
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::names::UnitName;
use state::terms::storage::{StorageEvent, StorageId};
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
        trigger: HookTrigger::Relation {
            hook: HookName::Relation { endpoint: "db".to_owned(), event: RelationEventName::Changed },
            about,
        },
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
    let id = |text: &str| text.parse::<StorageId>().expect("an id");
    let (location, kind) = ("/srv/data".to_owned(), StorageType::Filesystem);
    let data = HookStorage { kind, location: location.clone() };
    let cache = HookStorage { kind: StorageType::Block, location: "/dev/loop0".to_owned() };
    let known = [(id("data/0"), data), (id("cache/1"), cache)];
    let hook = HookName::Storage { name: "data".to_owned(), event: StorageEvent::Attached };
    HookContext {
        trigger: HookTrigger::Storage { hook, id: id("data/0"), location, kind },
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
