//! credential-get: prints the cloud of the model with its credential (spec/hook-tools.md 2.2).
//!
//! Only applications with trust may read it. Juju's fields that no cloud of Pintle has are empty. The names of the fields are those of Juju's Go encoders: JSON has the
//! names of the API and omits empty fields, YAML has lower-case names and omits nothing.

use crate::flags::{FORMAT, OUTPUT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed};
use crate::value::Value;
use state::unit::hook_context::{CloudCredential, CloudSpec};

pub const TOOL: Tool = Tool {
    name: "credential-get",
    arguments: "",
    summary: "Access cloud credentials.",
    details: "Prints the cloud of the unit's model. The application needs trust.",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    call.positionals(0)?;
    let Some(cloud) = &call.context.cloud else {
        return failed("cannot access cloud credentials: permission denied");
    };
    Ok(ToolOutput::value(match call.parsed.text("format") {
        Some("json") => json_fields(cloud),
        _ => yaml_fields(cloud),
    }))
}

fn json_fields(cloud: &CloudSpec) -> Value {
    let mut fields = vec![("type", Value::text(&cloud.kind)), ("name", Value::text(&cloud.name))];
    for (name, text) in [("region", &cloud.region), ("endpoint", &cloud.endpoint)] {
        fields.extend((!text.is_empty()).then(|| (name, Value::text(text))));
    }
    let CloudCredential { auth_type, attributes } = &cloud.credential;
    let mut credential = vec![("auth-type", Value::text(auth_type))];
    credential.extend((!attributes.is_empty()).then(|| ("attrs", Value::from(attributes.clone()))));
    fields.push(("credential", Value::Record(credential)));
    Value::Record(fields)
}

fn yaml_fields(cloud: &CloudSpec) -> Value {
    let credential = Value::Record(vec![
        ("authtype", Value::text(&cloud.credential.auth_type)),
        ("attributes", Value::from(cloud.credential.attributes.clone())),
        ("redacted", Value::Names(Vec::new())),
    ]);
    Value::Record(vec![
        ("type", Value::text(&cloud.kind)),
        ("name", Value::text(&cloud.name)),
        ("region", Value::text(&cloud.region)),
        ("endpoint", Value::text(&cloud.endpoint)),
        ("identityendpoint", Value::text("")),
        ("storageendpoint", Value::text("")),
        ("credential", credential),
        ("cacertificates", Value::Names(Vec::new())),
        ("skiptlsverify", Value::Bool(false)),
        ("iscontrollercloud", Value::Bool(false)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};
    use state::unit::hook_context::CloudSpec;

    #[test]
    fn an_application_without_trust_is_refused() {
        let reply = call(&mut context(), "credential-get", &[]);
        let expected = "ERROR cannot access cloud credentials: permission denied\n";
        assert_eq!((reply.code, String::from_utf8(reply.stderr).unwrap()), (1, expected.to_owned()));
    }

    #[test]
    fn json_omits_empty_fields_and_yaml_does_not() {
        let mut context = context();
        context.cloud = Some(CloudSpec { region: String::new(), ..CloudSpec::of_machines() });
        let printed = |context: &mut _, format: &str| {
            String::from_utf8(call(context, "credential-get", &["--format", format]).stdout).unwrap()
        };
        let json = "{\"type\":\"manual\",\"name\":\"local\",\"credential\":{\"auth-type\":\"empty\"}}\n";
        assert_eq!(printed(&mut context, "json"), json);
        let yaml = "type: manual\nname: local\nregion: \"\"\nendpoint: \"\"\nidentityendpoint: \"\"\n\
            storageendpoint: \"\"\ncredential:\n  authtype: empty\n  attributes: {}\n  redacted: []\n\
            cacertificates: []\nskiptlsverify: false\niscontrollercloud: false\n";
        assert_eq!(printed(&mut context, "smart"), yaml);
    }
}
