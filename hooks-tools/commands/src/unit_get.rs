//! unit-get: prints an address of this unit (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, OUTPUT};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use crate::value::Value;

pub const TOOL: Tool = Tool {
    name: "unit-get",
    arguments: "<setting>",
    summary: "Print public-address or private-address.",
    details: "",
    flags: &[FORMAT, OUTPUT],
    requires_utf8: false,
    is_confidential: false,
    run,
};

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let Some(setting) = call.parsed.positionals.first() else {
        return usage("no setting specified");
    };
    let context = &call.context;
    let (address, what) = match setting.as_str() {
        "private-address" => {
            // The default binding takes precedence, with its host name if it has one.
            let default = context.networks.get("").and_then(|network| network.devices.first());
            let bound = default.and_then(|device| device.addresses.first()).map(|address| {
                if address.hostname.is_empty() { address.value.clone() } else { address.hostname.clone() }
            });
            (bound.or_else(|| context.private_address.clone()), "private")
        }
        "public-address" => (context.public_address.clone(), "public"),
        other => return usage(format!("unknown setting {}", quote(other))),
    };
    call.positionals(1)?;
    match address {
        Some(address) => Ok(ToolOutput::value(Value::Text(address))),
        None => failed(format!("{what} address not found")),
    }
}
