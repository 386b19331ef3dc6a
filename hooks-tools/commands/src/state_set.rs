//! state-set and state-delete: change the state that the controller stores for the charm (spec/hook-tools.md 2.5).
//!
//! The change is buffered and published when the hook succeeds.

use crate::key_value;
use crate::relation_set::FILE;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};

pub const TOOL: Tool = Tool {
    name: "state-set",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Set server-side-state values.",
    details: "Written when the hook succeeds. An empty value is stored as such.\n\
        Pairs in the arguments override those of --file, which contains one YAML or JSON mapping; \"-\" is stdin.",
    flags: &[FILE],
    requires_utf8: true,
    is_confidential: false,
    run: set,
};

pub const DELETE: Tool = Tool {
    name: "state-delete",
    arguments: "<key>",
    summary: "Delete server-side-state key value pairs.",
    details: "Written when the hook succeeds. A key that does not exist is not an error.",
    flags: &[],
    requires_utf8: true,
    is_confidential: false,
    run: delete,
};

/// Juju's quotas for one pair, in bytes.
const KEY_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 65536;

/// Writes the pairs in order. A pair that is too long fails the call, but the pairs before it remain written.
fn set(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let pairs = key_value::parse(&call.parsed.positionals).map_err(ToolError::Usage)?;
    let mut change = call.file()?;
    change.extend(pairs);
    let mut problem = None;
    let fitting = change.into_iter().map_while(|(key, value)| {
        problem = too_long(&key, &value);
        problem.is_none().then_some((key, Some(value)))
    });
    call.context.write_state(fitting)?;
    match problem {
        Some(problem) => failed(problem),
        None => Ok(ToolOutput::silent()),
    }
}

fn too_long(key: &str, value: &str) -> Option<String> {
    if key.len() > KEY_BYTES_MAX {
        return Some(format!("max allowed key length ({KEY_BYTES_MAX}) exceeded"));
    }
    (value.len() > VALUE_BYTES_MAX).then(|| format!("max allowed value length ({VALUE_BYTES_MAX}) exceeded"))
}

fn delete(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    if let Some(key) = call.positionals(1)?.first().filter(|key| !key.is_empty()).cloned() {
        call.context.write_state([(key, None)])?;
    }
    Ok(ToolOutput::silent())
}
