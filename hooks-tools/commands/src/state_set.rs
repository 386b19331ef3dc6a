//! state-set and state-delete: change the charm's own state (spec/hook-tools.md 2.5).

use crate::key_value;
use crate::relation_set::FILE;
use crate::tool::{Answer, Call, Stop, Tool, failed};

pub const TOOL: Tool = Tool {
    name: "state-set",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Set server-side-state values.",
    details: "Written when the hook succeeds. An empty value is stored as such.\n\
        Pairs in the arguments win over those of --file, which holds one YAML or JSON mapping; \"-\" is stdin.",
    flags: &[FILE],
    run: set,
};

pub const DELETE: Tool = Tool {
    name: "state-delete",
    arguments: "<key>",
    summary: "Delete server-side-state key value pairs.",
    details: "Written when the hook succeeds. A key that is not there is no error.",
    flags: &[],
    run: delete,
};

/// Juju's quotas for one pair.
const KEY_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 65536;

/// Pairs accepted before one that is too long stay.
fn set(call: &mut Call) -> Result<Answer, Stop> {
    let pairs = key_value::parse(&call.parsed.words).map_err(Stop::Usage)?;
    let mut change = call.file()?;
    change.extend(pairs);
    for (key, value) in change {
        if key.len() > KEY_BYTES_MAX {
            return failed(format!("max allowed key length ({KEY_BYTES_MAX}) exceeded"));
        }
        if value.len() > VALUE_BYTES_MAX {
            return failed(format!("max allowed value length ({VALUE_BYTES_MAX}) exceeded"));
        }
        call.context.write_state(key, Some(value))?;
    }
    Ok(Answer::silent())
}

fn delete(call: &mut Call) -> Result<Answer, Stop> {
    if let Some(key) = call.words(1)?.first().filter(|key| !key.is_empty()).cloned() {
        call.context.write_state(key, None)?;
    }
    Ok(Answer::silent())
}
