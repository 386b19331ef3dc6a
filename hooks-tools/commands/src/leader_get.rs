//! leader-get: prints the settings that the leaders of the application have stored (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, OUTPUT};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "leader-get",
    arguments: "[<key>]",
    summary: "Print application leadership settings.",
    details: "Without a key, or with \"-\", prints all settings.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let key = call.parsed.positionals.first().filter(|key| *key != "-");
    if let Some(key) = key.filter(|key| key.contains('=')) {
        return usage(format!("invalid key {}", quote(key)));
    }
    call.positionals(1)?;
    let settings = &call.context.leader_settings;
    Ok(ToolOutput::value(match key.filter(|key| !key.is_empty()) {
        None => Value::from(settings.clone()),
        Some(key) => settings.get(key).map_or(Value::Nil, Value::text),
    }))
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};

    #[test]
    fn every_unit_reads_the_settings_of_the_leader() {
        let mut context = context();
        context.leader = false;
        assert_eq!(call(&mut context, "leader-get", &[]).stdout, b"{}\n");
        context.leader_settings.insert("master".to_owned(), "10.0.0.5".to_owned());
        for words in [&[][..], &["-"], &[""]] {
            assert_eq!(call(&mut context, "leader-get", words).stdout, b"master: 10.0.0.5\n");
        }
        assert_eq!(call(&mut context, "leader-get", &["master"]).stdout, b"10.0.0.5\n");
        assert_eq!(call(&mut context, "leader-get", &["other"]).stdout, b"");
    }

    #[test]
    fn a_key_with_an_equals_sign_is_reported_before_surplus_arguments() {
        let reply = call(&mut context(), "leader-get", &["a=b", "c"]);
        assert_eq!((reply.code, reply.stderr), (2, b"ERROR invalid key \"a=b\"\n".to_vec()));
        assert_eq!(call(&mut context(), "leader-get", &["a", "c"]).code, 2);
    }
}
