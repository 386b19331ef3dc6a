//! storage-get: prints the kind and the location of storage of the unit (spec/hook-tools.md 2.5).
//!
//! Older versions of ops search its help for the storage of the hook: the default of `-s`.

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "storage-get",
    arguments: "[<key>]",
    summary: "Print information for the storage instance with the specified ID.",
    details: "Without a key, prints all of them: kind and location.",
    flags: &[FORMAT, OUTPUT, STORAGE],
    requires_utf8: false,
    is_confidential: false,
    run,
};

const STORAGE: Flag =
    Flag { names: &["s"], kind: FlagKind::Storage, help: "specify a storage instance by id" };

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let Some(id) = &call.parsed.storage else {
        return usage("no storage instance specified");
    };
    let key = call.positionals(1)?.first();
    let Some(storage) = call.context.storage.get(id) else {
        return failed(format!("storage {} not found", quote(&id.to_string())));
    };
    let (kind, location) = (Value::text(storage.kind.as_str()), Value::text(&storage.location));
    Ok(ToolOutput::value(match key.map(String::as_str) {
        None | Some("") => Value::Map([("kind".to_owned(), kind), ("location".to_owned(), location)].into()),
        Some("kind") => kind,
        Some("location") => location,
        Some(other) => return failed(format!("invalid storage attribute {}", quote(other))),
    }))
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, storage_context};

    fn printed(words: &[&str]) -> (u8, String, String) {
        let reply = call(&mut storage_context(), "storage-get", words);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (reply.code, text(reply.stdout), text(reply.stderr))
    }

    #[test]
    fn the_storage_of_the_hook_is_the_default() {
        assert_eq!(printed(&["location"]), (0, "/srv/data\n".into(), String::new()));
        assert_eq!(printed(&["-s", "cache/1", "kind"]), (0, "block\n".into(), String::new()));
        let unknown = "ERROR invalid value \"data/9\" for option -s: storage \"data/9\" not found\n";
        assert_eq!(printed(&["-s", "data/9"]), (2, String::new(), unknown.into()));
        let invalid = "ERROR invalid value \"cache\" for option -s: invalid storage ID \"cache\"\n";
        assert_eq!(printed(&["-s", "cache"]), (2, String::new(), invalid.into()));
        let other = "ERROR invalid storage attribute \"size\"\n";
        assert_eq!(printed(&["size"]), (1, String::new(), other.into()));
    }

    #[test]
    fn the_help_names_the_storage_of_the_hook() {
        let (_, help, _) = printed(&["--help"]);
        assert!(help.lines().any(|line| line == "-s  (= data/0)"), "{help}");
    }
}
