//! network-get: prints the addresses and subnets of a binding (spec/hook-tools.md 2.2).

use crate::flags::{FORMAT, Flag, FlagKind, OUTPUT, RELATION};
use crate::quote::quote;
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use crate::value::Value;
use state::unit::hook_context::{Device, Network};
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "network-get",
    arguments: "<binding-name> [--ingress-address] [--bind-address] [--egress-subnets]",
    summary: "Get network config.",
    details: "Prints everything about the binding. With one of the flags, the tool prints its value; with several, a map.",
    flags: &[
        FORMAT,
        OUTPUT,
        RELATION,
        Flag {
            names: &[PRIMARY],
            kind: FlagKind::Switch,
            help: "(deprecated) get the primary address for the binding",
        },
        Flag {
            names: &[BIND],
            kind: FlagKind::Switch,
            help: "get the address for the binding on which the unit should listen",
        },
        Flag { names: &[INGRESS], kind: FlagKind::Switch, help: "get the ingress address for the binding" },
        Flag { names: &[EGRESS], kind: FlagKind::Switch, help: "get the egress subnets for the binding" },
    ],
    requires_utf8: false,
    is_confidential: false,
    run,
};

const PRIMARY: &str = "primary-address";
const BIND: &str = "bind-address";
const INGRESS: &str = "ingress-address";
const EGRESS: &str = "egress-subnets";

fn run(call: &mut Invocation) -> Result<ToolOutput, ToolError> {
    let Some(binding) = call.parsed.positionals.first() else {
        return usage("no arguments specified");
    };
    if binding.is_empty() {
        return usage("no binding name specified");
    }
    call.positionals(1)?;
    let Some((network, device)) =
        call.context.networks.get(binding).and_then(|network| Some((network, network.devices.first()?)))
    else {
        return failed(format!("no network config found for binding {}", quote(binding)));
    };
    let first = device.addresses.first().map(|address| address.value.clone());
    let address = |address: Option<String>| {
        address.map(Value::Text).ok_or_else(|| {
            ToolError::Failed(format!("no addresses attached to space for binding {}", quote(binding)))
        })
    };
    let flags = [BIND, EGRESS, INGRESS].into_iter().filter(|flag| call.parsed.is_on(flag));
    let flags: Vec<&str> = flags.collect();
    if call.parsed.is_on(PRIMARY) {
        return match flags.is_empty() {
            true => Ok(ToolOutput::value(address(first)?)),
            false => failed("--primary-address must be the only flag specified"),
        };
    }
    let mut values = BTreeMap::new();
    for flag in &flags {
        let value = match *flag {
            BIND => address(first.clone())?,
            INGRESS => address(network.ingress.first().cloned().or_else(|| first.clone()))?,
            _ if network.egress.is_empty() => Value::NilNames,
            _ => Value::Names(network.egress.clone()),
        };
        values.insert((*flag).to_owned(), value);
    }
    Ok(ToolOutput::value(match flags[..] {
        [] => everything(network, call.parsed.text("format") == Some("json")),
        [flag] => values.remove(flag).expect("each flag has its value"),
        _ => Value::Map(values),
    }))
}

fn everything(network: &Network, json: bool) -> Value {
    let devices = network.devices.iter().map(|device| device_record(device, json));
    let mut fields = vec![("bind-addresses", Value::List(devices.collect()))];
    for (name, list) in [("egress-subnets", &network.egress), ("ingress-addresses", &network.ingress)] {
        if !list.is_empty() {
            fields.push((name, Value::Names(list.clone())));
        }
    }
    Value::Record(fields)
}

/// In YAML the record repeats three fields under the names of an older release of Juju.
fn device_record(device: &Device, json: bool) -> Value {
    let addresses = device.addresses.iter().map(|address| {
        let mut fields = vec![
            ("hostname", Value::text(&address.hostname)),
            ("value", Value::text(&address.value)),
            ("cidr", Value::text(&address.cidr)),
        ];
        if !json {
            fields.push(("address", Value::text(&address.value)));
        }
        Value::Record(fields)
    });
    let mut fields = vec![
        ("mac-address", Value::text(&device.mac)),
        ("interface-name", Value::text(&device.name)),
        ("addresses", Value::List(addresses.collect())),
    ];
    if !json {
        fields.push(("macaddress", Value::text(&device.mac)));
        fields.push(("interfacename", Value::text(&device.name)));
    }
    Value::Record(fields)
}
