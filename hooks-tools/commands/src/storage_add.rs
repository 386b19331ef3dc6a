//! storage-add: requests further storage for the unit (spec/hook-tools.md 2.5).
//!
//! The requests of a hook add up. The controller creates the storage when the hook has succeeded; if the charm declares
//! no such storage, or not so many instances, the hook fails.

use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use state::terms::storage::StorageDirective;
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "storage-add",
    arguments: "<charm storage name>[=count] ...",
    summary: "Add storage instances.",
    details: "Only the count can be specified; without a count, one instance is added.",
    flags: &[],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    if call.parsed.positionals.is_empty() {
        return usage("storage add requires a storage directive");
    }
    let mut requested = BTreeMap::new();
    for word in &call.parsed.positionals {
        let (name, count) = parse(word)?;
        if requested.insert(name.to_owned(), count).is_some() {
            return usage(format!("storage {} specified more than once", quote(name)));
        }
    }
    call.context.add_storage(&requested)?;
    Ok(ToolOutput::silent())
}

fn parse(word: &str) -> Result<(&str, u32), ToolError> {
    let mut parts = word.split('=');
    let (name, directive) = (parts.next().unwrap_or_default(), parts.next());
    if name.is_empty() || parts.next().is_some() {
        return usage(format!("expected \"name=constraints\" or \"name\", got {}", quote(word)));
    }
    let Some(directive) = directive else { return Ok((name, 1)) };
    match StorageDirective::parse(directive) {
        Err(bad) => usage(format!("cannot parse constraints for storage {}: {bad}", quote(name))),
        Ok(StorageDirective { pool: None, size_mib: None, count }) => Ok((name, count.unwrap_or(1))),
        Ok(_) => usage(format!("only count can be specified for {}", quote(name))),
    }
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, storage_context};
    use std::collections::BTreeMap;

    #[test]
    fn requests_add_up_over_the_calls_of_a_hook() {
        let mut context = storage_context();
        assert_eq!(call(&mut context, "storage-add", &["data", "cache=2"]).code, 0);
        assert_eq!(call(&mut context, "storage-add", &["data=3"]).code, 0);
        let expected = BTreeMap::from([("cache".to_owned(), 2), ("data".to_owned(), 4)]);
        assert_eq!(context.writes.storage, expected);
        assert_eq!(
            call(&mut context, "storage-add", &["data=4294967295"]).code,
            1,
            "more than one commit holds"
        );
        assert_eq!(context.writes.storage, expected);
    }

    #[test]
    fn nothing_is_added_if_one_argument_is_wrong() {
        let mut context = storage_context();
        for (words, text) in [
            (&[][..], "storage add requires a storage directive"),
            (&["data=a=b"], "expected \"name=constraints\" or \"name\", got \"data=a=b\""),
            (&["data", "data=2"], "storage \"data\" specified more than once"),
            (&["data=10G"], "only count can be specified for \"data\""),
            (
                &["cache", "data=0"],
                "cannot parse constraints for storage \"data\": cannot parse count: count must be greater than zero, got \"0\"",
            ),
        ] {
            let reply = call(&mut context, "storage-add", words);
            assert_eq!((reply.code, reply.stderr), (2, format!("ERROR {text}\n").into_bytes()));
        }
        assert!(context.writes.storage.is_empty());
    }
}
