//! leader-set: changes the settings of the application that only its leader may write (spec/hook-tools.md 2.2).
//!
//! The change takes effect at the controller before the tool returns, even if the hook fails later. A hook that has
//! stored a generated password, used it and then failed must read the same password when it is retried.

use crate::key_value;
use crate::tool::{Invocation, Need, Tool, ToolError, ToolOutput, failed};

pub const TOOL: Tool = Tool {
    name: "leader-set",
    arguments: "<key>=<value> [<key>=<value> ...]",
    summary: "Write application leadership settings.",
    details: "Takes effect at once, even if the hook fails later. An empty value deletes the key.\n\
        Fails if this unit is not the leader.",
    flags: &[],
    requires_utf8: true,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let change = key_value::parse(&call.parsed.positionals).map_err(ToolError::Usage)?;
    if !call.context.leader {
        return failed("cannot write leadership settings: cannot write settings: not the leader");
    }
    call.context.check_leader_settings(&change)?;
    if change.is_empty() {
        return Ok(ToolOutput::silent());
    }
    match &call.inputs.leader_write {
        None => Err(ToolError::Need(Need::LeaderSettings(change))),
        Some(Err(reason)) => {
            failed(format!("cannot write leadership settings: cannot write settings: {reason}"))
        }
        Some(Ok(())) => {
            call.context.apply_leader_settings(&change);
            Ok(ToolOutput::silent())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};
    use crate::{CallOutcome, Inputs, Need, ToolReply};
    use state::unit::hook_context::{HookContext, LEADER_SETTINGS_BYTES_MAX};
    use std::collections::BTreeMap;

    fn leader_set(context: &mut HookContext, words: &[&str], inputs: &Inputs) -> CallOutcome {
        let args: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        crate::call(context, "leader-set", &args, inputs)
    }

    #[test]
    fn a_change_is_written_before_the_hook_reads_it() {
        let mut context = context();
        let change = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
        let needed = leader_set(&mut context, &["a=1", "b="], &Inputs::default());
        assert_eq!(needed, CallOutcome::Need(Need::LeaderSettings(change)));
        assert!(context.leader_settings.is_empty(), "nothing changes before the controller has answered");
        let refused = Inputs { leader_write: Some(Err("not the leader".to_owned())), ..Inputs::default() };
        let text = "cannot write leadership settings: cannot write settings: not the leader";
        let expected = CallOutcome::Reply(ToolReply::error(1, text));
        assert_eq!(leader_set(&mut context, &["a=1"], &refused), expected);
        assert!(context.leader_settings.is_empty());
        let written = Inputs { leader_write: Some(Ok(())), ..Inputs::default() };
        let reply = leader_set(&mut context, &["a=1", "b="], &written);
        assert_eq!(reply, CallOutcome::Reply(ToolReply::default()));
        assert_eq!(call(&mut context, "leader-get", &[]).stdout, b"a: \"1\"\n");
    }

    #[test]
    fn a_unit_that_does_not_lead_is_refused_at_once() {
        let mut context = HookContext { leader: false, ..context() };
        for words in [&["a=1"][..], &[]] {
            let reply = call(&mut context, "leader-set", words);
            let expected = "ERROR cannot write leadership settings: cannot write settings: not the leader\n";
            assert_eq!((reply.code, String::from_utf8(reply.stderr).unwrap()), (1, expected.to_owned()));
        }
    }

    #[test]
    fn settings_beyond_the_limit_are_refused_before_anything_is_written() {
        let large = format!("a={}", "x".repeat(LEADER_SETTINGS_BYTES_MAX));
        let reply = call(&mut context(), "leader-set", &[&large]);
        let stderr = String::from_utf8(reply.stderr).unwrap();
        assert!(reply.code == 1 && stderr.contains(&LEADER_SETTINGS_BYTES_MAX.to_string()), "{stderr}");
        let reply = call(&mut context(), "leader-set", &["a=\0"]);
        assert!(reply.code == 1 && String::from_utf8(reply.stderr).unwrap().contains("contains NUL"));
    }
}
