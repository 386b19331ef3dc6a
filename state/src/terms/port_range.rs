//! A range of ports of one protocol, in the syntax of open-port: `80`, `80/tcp`, `8000-8100/udp`, `icmp`
//! (spec/hook-tools.md 2.4).

use crate::terms::names::serde_as_text;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Port ranges by endpoint, or `*` for all endpoints.
pub type Ports = BTreeMap<String, BTreeSet<PortRange>>;

/// The most ranges that a unit opens: `status` and `show-unit` list them, with at most 15 bytes each.
pub const PORT_RANGES_MAX: usize = 1_000;

/// The number of ranges at all endpoints.
pub fn range_count(ports: &Ports) -> usize {
    ports.values().map(BTreeSet::len).sum()
}

/// A range of ports of one protocol. The order is that of `opened-ports`: protocol, from, to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The protocol.
    pub protocol: Protocol,
    /// The first port; 0 for icmp, which has no ports.
    pub from: u16,
    /// The last port (inclusive); 0 for icmp.
    pub to: u16,
}

/// A protocol whose ports can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// ICMP, without ports.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

serde_as_text!(PortRange "port-range");

impl Protocol {
    /// The name of the protocol: `tcp`.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Icmp => "icmp",
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

impl PortRange {
    /// Whether both ranges contain the same port of the same protocol. icmp conflicts with icmp.
    pub fn conflicts(self, other: PortRange) -> bool {
        self.protocol == other.protocol && self.from <= other.to && other.from <= self.to
    }

    /// The ports without the protocol: `80`, `8000-8100`.
    pub fn numbers(self) -> String {
        match self.is_single() {
            true => self.from.to_string(),
            false => format!("{}-{}", self.from, self.to),
        }
    }

    /// Whether the range is one port.
    pub fn is_single(self) -> bool {
        self.from == self.to
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = self.protocol.as_str();
        match self.protocol {
            Protocol::Icmp => f.write_str(protocol),
            Protocol::Tcp | Protocol::Udp => write!(f, "{}/{protocol}", self.numbers()),
        }
    }
}

impl FromStr for PortRange {
    /// The message that Juju's hook tools print, to the letter.
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let text = text.to_lowercase();
        let (ports, protocol) = text.split_once('/').unwrap_or((&text, "tcp"));
        let bounds: Vec<&str> = ports.split('-').collect();
        let (from, to) = match bounds[..] {
            ["icmp"] => {
                return Ok(PortRange { protocol: Protocol::Icmp, from: 0, to: 0 });
            }
            [single] => (port(single)?, port(single)?),
            [from, to] => (port(from)?, port(to)?),
            _ => return Err(format!("invalid port range {ports:?}")),
        };
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "icmp" => {
                return Err(format!("protocol \"icmp\" doesn't support any ports; got \"{from}\""));
            }
            other => {
                return Err(format!("invalid protocol {other:?}, expected \"tcp\", \"udp\", or \"icmp\""));
            }
        };
        if from > to {
            return Err(format!("invalid port range {text}", text = range_text(from, to, protocol)));
        }
        let bound = |value: i64| u16::try_from(value);
        match (bound(from), bound(to)) {
            (Ok(from), Ok(to)) => Ok(PortRange { protocol, from, to }),
            _ => Err(format!("port range bounds must be between 0 and 65535, got {from}-{to}")),
        }
    }
}

/// The text of a range whose bounds may not be valid ports.
fn range_text(from: i64, to: i64, protocol: Protocol) -> String {
    format!("{from}-{to}/{}", protocol.as_str())
}

/// Parses a decimal number. The error is that of Go's `strconv.Atoi`, which Juju's hook tools print.
fn port(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let reason = if number { "value out of range" } else { "invalid syntax" };
    text.parse()
        .ok()
        .filter(|_| number)
        .ok_or_else(|| format!("invalid port {text:?}: strconv.Atoi: parsing {text:?}: {reason}"))
}

#[cfg(test)]
mod tests {
    use crate::terms::port_range::*;

    fn error(text: &str) -> String {
        text.parse::<PortRange>().unwrap_err()
    }

    #[test]
    fn ranges_are_parsed_and_printed() {
        for (text, printed) in [
            ("80", "80/tcp"),
            ("53/UDP", "53/udp"),
            ("8000-8100", "8000-8100/tcp"),
            ("80-80/tcp", "80/tcp"),
            ("ICMP", "icmp"),
        ] {
            assert_eq!(text.parse::<PortRange>().map(|r| r.to_string()), Ok(printed.to_owned()), "{text}");
        }
    }

    #[test]
    fn invalid_ranges_are_rejected_with_the_messages_of_the_spec() {
        assert_eq!(error("1-2-3/tcp"), "invalid port range \"1-2-3\"");
        assert_eq!(error("90-80"), "invalid port range 90-80/tcp");
        assert_eq!(error("80/sctp"), "invalid protocol \"sctp\", expected \"tcp\", \"udp\", or \"icmp\"");
        assert_eq!(error("x"), "invalid port \"x\": strconv.Atoi: parsing \"x\": invalid syntax");
        assert_eq!(error("65536/udp"), "port range bounds must be between 0 and 65535, got 65536-65536");
    }

    #[test]
    fn only_ranges_of_one_protocol_conflict() {
        let range = |text: &str| text.parse::<PortRange>().unwrap();
        assert!(range("80-90").conflicts(range("90-95")));
        assert!(!range("80-90").conflicts(range("91")));
        assert!(!range("80/udp").conflicts(range("80/tcp")));
        assert!(range("icmp").conflicts(range("icmp")));
    }

    #[test]
    fn ranges_order_by_protocol_then_port() {
        let mut ranges: Vec<PortRange> =
            ["53/udp", "443", "80-90", "80", "icmp"].iter().map(|t| t.parse().unwrap()).collect();
        ranges.sort();
        let printed: Vec<String> = ranges.iter().map(PortRange::to_string).collect();
        assert_eq!(printed, ["icmp", "80/tcp", "80-90/tcp", "443/tcp", "53/udp"]);
    }
}
