//! open-port and close-port: request to open or close a range of ports (spec/hook-tools.md 2.4).
//!
//! The request is buffered and published when the hook succeeds. A conflict with the ports in the context fails the
//! call; the controller refuses the conflicts that the context does not show.

use crate::flags::{Flag, FlagKind, IGNORED_FORMAT};
use crate::tool::{Invocation, Tool, ToolError, ToolOutput, failed, usage};
use state::terms::names::UnitName;
use state::terms::port_range::PortRange;
use state::unit::hook_context::{ALL_ENDPOINTS, HookContext, PortWrites, Ports};

pub const OPEN: Tool = Tool {
    name: "open-port",
    arguments: "<port>[/<protocol>] or <from>-<to>[/<protocol>] or icmp",
    summary: "Register a request to open a port or port range.",
    details: "Applied when the hook succeeds. The default protocol is tcp.",
    flags: &[ENDPOINTS, IGNORED_FORMAT],
    requires_utf8: false,
    is_confidential: false,
    run: |call| change(call, open),
};

pub const CLOSE: Tool = Tool {
    name: "close-port",
    arguments: "<port>[/<protocol>] or <from>-<to>[/<protocol>] or icmp",
    summary: "Register a request to close a port or port range.",
    details: "Applied when the hook succeeds. The default protocol is tcp.",
    flags: &[ENDPOINTS, IGNORED_FORMAT],
    requires_utf8: false,
    is_confidential: false,
    run: |call| change(call, close),
};

const ENDPOINTS: Flag = Flag {
    names: &["endpoints"],
    kind: FlagKind::Text,
    help: "a comma-delimited list of application endpoints to target with this operation",
};

/// A change of one range at one endpoint. The error is the text of the failure.
type PortChange = fn(&HookContext, &mut PortWrites, PortRange, &str) -> Result<(), String>;

fn change(call: &mut Invocation, change: PortChange) -> Result<ToolOutput, ToolError> {
    let Some(text) = call.parsed.positionals.first() else {
        return usage("no port or range specified");
    };
    let range: PortRange = text.parse().map_err(ToolError::Usage)?;
    call.positionals(1)?;
    if call.context.model.kubernetes && !range.is_single() {
        return failed("port ranges are not supported for k8s applications, please specify a single port");
    }
    let names = call.parsed.text("endpoints").unwrap_or_default().split(',').map(str::trim);
    let mut endpoints: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    if endpoints.is_empty() {
        endpoints.push(ALL_ENDPOINTS);
    }
    let mut ports = call.context.writes.ports.clone();
    for endpoint in endpoints {
        change(call.context, &mut ports, range, endpoint).map_err(ToolError::Failed)?;
    }
    call.context.write_ports(ports)?;
    Ok(ToolOutput::silent())
}

fn open(
    context: &HookContext,
    ports: &mut PortWrites,
    range: PortRange,
    endpoint: &str,
) -> Result<(), String> {
    let verb = format!("cannot open {range} (unit \"{}\")", context.unit);
    remove(&mut ports.close, endpoint, range);
    if is_open(&ports.applied_to(&context.opened_ports), endpoint, range) {
        return Ok(());
    }
    if let Some(other) = overlap(&ports.open, range) {
        return Err(conflict(&verb, other, &context.unit, " requested earlier"));
    }
    // A range that this hook closes does not conflict.
    let closing = PortWrites { close: ports.close.clone(), ..PortWrites::default() };
    if let Some(other) = overlap(&closing.applied_to(&context.opened_ports), range) {
        return Err(conflict(&verb, other, &context.unit, ""));
    }
    check_other_units(context, &verb, range)?;
    ports.open.entry(endpoint.to_owned()).or_default().insert(range);
    Ok(())
}

fn close(
    context: &HookContext,
    ports: &mut PortWrites,
    range: PortRange,
    endpoint: &str,
) -> Result<(), String> {
    let verb = format!("cannot close {range} (unit \"{}\")", context.unit);
    let pending: Vec<String> = match endpoint {
        ALL_ENDPOINTS => ports.open.keys().cloned().collect(),
        named => vec![named.to_owned()],
    };
    for endpoint in pending {
        remove(&mut ports.open, &endpoint, range);
    }
    if let Some(other) = overlap(&context.opened_ports, range) {
        return Err(conflict(&verb, other, &context.unit, ""));
    }
    if let Some(other) = overlap(&ports.open, range) {
        return Err(conflict(&verb, other, &context.unit, " requested earlier"));
    }
    let is_open_at = |endpoint: &str| {
        is_open(&context.opened_ports, endpoint, range) || is_open(&ports.open, endpoint, range)
    };
    let is_own = all_ranges(&context.opened_ports).any(|open| open == range);
    // After a restore two units may have the same range: each of them can close its own.
    if !is_own {
        check_other_units(context, &verb, range)?;
    }
    let must_close = match endpoint {
        ALL_ENDPOINTS => is_own,
        named => is_open_at(named) || is_open_at(ALL_ENDPOINTS),
    };
    if must_close {
        ports.close.entry(endpoint.to_owned()).or_default().insert(range);
    }
    Ok(())
}

/// Refuses a range that conflicts with one of another unit of the machine.
fn check_other_units(context: &HookContext, verb: &str, range: PortRange) -> Result<(), String> {
    for (unit, unit_ports) in &context.machine_ports {
        if let Some(other) = all_ranges(unit_ports).find(|other| other.conflicts(range)) {
            return Err(conflict(verb, other, unit, ""));
        }
    }
    Ok(())
}

fn conflict(verb: &str, other: PortRange, unit: &UnitName, when: &str) -> String {
    format!("{verb}: port range conflicts with {other} (unit \"{unit}\"){when}")
}

/// Returns a range in `ports` that overlaps `range` and is not equal to it.
fn overlap(ports: &Ports, range: PortRange) -> Option<PortRange> {
    all_ranges(ports).find(|other| other.conflicts(range) && *other != range)
}

/// All ranges of all endpoints.
fn all_ranges(ports: &Ports) -> impl Iterator<Item = PortRange> + '_ {
    ports.values().flatten().copied()
}

fn is_open(ports: &Ports, endpoint: &str, range: PortRange) -> bool {
    ports.get(endpoint).is_some_and(|ranges| ranges.contains(&range))
}

fn remove(ports: &mut Ports, endpoint: &str, range: PortRange) {
    if let Some(ranges) = ports.get_mut(endpoint) {
        ranges.remove(&range);
    }
    ports.retain(|_, ranges| !ranges.is_empty());
}

#[cfg(test)]
mod tests {
    use crate::test_context::{call, context};
    use state::terms::port_range::PORT_RANGES_MAX;
    use std::collections::{BTreeMap, BTreeSet};

    fn ports(endpoint: &str, ranges: &[&str]) -> super::Ports {
        let ranges = ranges.iter().map(|range| range.parse().expect("a range")).collect();
        BTreeMap::from([(endpoint.to_owned(), ranges)])
    }

    #[test]
    fn opening_and_closing_the_same_range_leaves_nothing() {
        let mut context = context();
        assert_eq!(call(&mut context, "open-port", &["80"]).code, 0);
        assert_eq!(call(&mut context, "close-port", &["80/tcp"]).code, 0);
        assert!(context.writes.ports.is_empty());
        context.opened_ports = ports("*", &["80/tcp"]);
        assert_eq!(call(&mut context, "close-port", &["80"]).code, 0);
        assert_eq!(call(&mut context, "open-port", &["80"]).code, 0);
        assert!(context.writes.ports.is_empty());
    }

    #[test]
    fn a_range_of_another_unit_on_the_machine_conflicts() {
        let mut context = context();
        context.machine_ports.insert("other/3".parse().unwrap(), ports("*", &["80/tcp"]));
        let reply = call(&mut context, "open-port", &["80"]);
        let expected = "ERROR cannot open 80/tcp (unit \"web/0\"): port range conflicts with 80/tcp (unit \"other/3\")\n";
        assert_eq!((reply.code, String::from_utf8(reply.stderr).unwrap()), (1, expected.to_owned()));
        assert_eq!(call(&mut context, "open-port", &["80/udp"]).code, 0);
        let reply = call(&mut context, "close-port", &["80"]);
        let expected = expected.replace("cannot open", "cannot close");
        assert_eq!((reply.code, String::from_utf8(reply.stderr).unwrap()), (1, expected));
    }

    /// 1. The store is restored from a backup, and another unit opens the range of this one.
    /// 2. This unit resynchronises, and both have the range.
    #[test]
    fn a_unit_can_close_its_own_range_although_another_unit_has_it_too() {
        let mut context = context();
        context.opened_ports = ports("*", &["80/tcp"]);
        context.machine_ports.insert("other/3".parse().unwrap(), ports("*", &["80-90/tcp"]));
        assert_eq!(call(&mut context, "close-port", &["80"]).code, 0);
        assert!(context.own_ports().is_empty());
        assert_eq!(call(&mut context, "close-port", &["81"]).code, 1);
    }

    /// A record with more ranges would be refused as a whole.
    #[test]
    fn a_unit_opens_a_bounded_number_of_ranges() {
        let mut context = context();
        let most = u16::try_from(PORT_RANGES_MAX).expect("a port");
        let range = |port: u16| port.to_string().parse().expect("a range");
        context.opened_ports = BTreeMap::from([("*".to_owned(), (1..most).map(range).collect())]);
        assert_eq!(call(&mut context, "open-port", &["5000"]).code, 0);
        assert_eq!(call(&mut context, "open-port", &["5001"]).code, 1);
        assert_eq!(call(&mut context, "close-port", &["1"]).code, 0);
        assert_eq!(call(&mut context, "open-port", &["5001"]).code, 0);
    }

    #[test]
    fn a_range_that_this_hook_closes_does_not_conflict() {
        let mut context = context();
        context.opened_ports = ports("*", &["80-90/tcp"]);
        assert_eq!(call(&mut context, "open-port", &["85"]).code, 1);
        assert_eq!(call(&mut context, "close-port", &["80-90"]).code, 0);
        assert_eq!(call(&mut context, "open-port", &["85"]).code, 0);
        assert_eq!(context.own_ports(), ports("*", &["85/tcp"]));
    }

    #[test]
    fn a_refused_endpoint_leaves_the_others_unwritten() {
        let mut context = context();
        context.opened_ports = ports("db", &["85/tcp"]);
        assert_eq!(call(&mut context, "open-port", &["80-90", "--endpoints", "web,db"]).code, 1);
        assert!(context.writes.ports.is_empty());
        assert_eq!(
            context.own_ports().get("db"),
            Some(&BTreeSet::from(["85/tcp".parse().expect("a range")]))
        );
    }
}
