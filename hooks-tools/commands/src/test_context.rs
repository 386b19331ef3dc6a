//! Hook contexts for the unit tests of this crate: web/0 is the leader and related to mysql by db:1.

#[path = "../../../tests/support/src/hook_context.rs"]
mod hook_context;

use crate::{CallOutcome, Inputs, ToolReply};
pub use hook_context::context;
use serde_json::Map;
use state::terms::commands::Counterpart;
use state::terms::names::UnitName;
use state::unit::hook_context::{HookContext, HookTrigger, RunningAction};

/// In db-relation-changed of mysql/0.
pub fn relation_context() -> HookContext {
    let about = Counterpart {
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

/// In the action backup.
pub fn action_context() -> HookContext {
    let action = RunningAction { name: "backup".to_owned(), id: "3".to_owned(), params: Map::new() };
    HookContext { trigger: HookTrigger::Action(action), ..context() }
}

/// Calls a tool that requires no input.
pub fn call(context: &mut HookContext, name: &str, words: &[&str]) -> ToolReply {
    let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match crate::call(context, name, &args, &Inputs::default()) {
        CallOutcome::Reply(reply) => reply,
        CallOutcome::Need(need) => panic!("{name} needs {need:?}"),
    }
}
