//! The networks of a unit's bindings, which `network-get` prints. There are no spaces: each binding has the only address of
//! the machine, and the device that has it.

use super::hook_context::{Address, Device, Network};
use crate::charm::Charm;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The network device that has an address of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressDevice {
    /// The name of the device, for example `eth0`.
    pub name: String,
    /// The MAC address: `00:16:3e:5a:0b:11`. Empty if the device has none.
    pub mac: String,
    /// The length of the prefix of its subnet in bits, at most 32 or 128.
    pub prefix: u8,
}

/// Returns the networks by binding; none before the machine has an address. An address that no device has, because the
/// machine is reached through another host, is shown without a name and as a subnet of its own.
pub fn by_binding(
    declared: &Charm,
    address: &str,
    device: Option<&AddressDevice>,
) -> BTreeMap<String, Network> {
    if address.is_empty() {
        return BTreeMap::new();
    }
    let (alone, name, mac) = match device {
        Some(device) => (subnet(address, device.prefix), device.name.as_str(), device.mac.as_str()),
        None => (None, if is_loopback(address) { "lo" } else { "" }, ""),
    };
    let whole = subnet(address, u8::MAX).unwrap_or_else(|| address.to_owned());
    let cidr = alone.unwrap_or_else(|| whole.clone());
    let value = Address { hostname: String::new(), value: address.to_owned(), cidr };
    let device = Device { mac: mac.to_owned(), name: name.to_owned(), addresses: vec![value] };
    let network = Network { devices: vec![device], egress: vec![whole], ingress: vec![address.to_owned()] };
    let names = declared.endpoints.keys().chain(&declared.extra_bindings).map(String::as_str);
    names.chain(["", "juju-info"]).map(|name| (name.to_owned(), network.clone())).collect()
}

fn is_loopback(address: &str) -> bool {
    address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// The subnet of an address in CIDR notation. A longer prefix than the address counts as the whole address. None if it is
/// a host name.
fn subnet(address: &str, prefix: u8) -> Option<String> {
    Some(match address.parse().ok()? {
        IpAddr::V4(address) => {
            let prefix = u32::from(prefix).min(u32::BITS);
            let mask = u32::MAX.checked_shl(u32::BITS - prefix).unwrap_or(0);
            format!("{}/{prefix}", std::net::Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let prefix = u32::from(prefix).min(u128::BITS);
            let mask = u128::MAX.checked_shl(u128::BITS - prefix).unwrap_or(0);
            format!("{}/{prefix}", std::net::Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(address: &str, device: Option<&AddressDevice>) -> (String, String, String) {
        let networks = by_binding(&Charm::default(), address, device);
        let network = &networks["juju-info"];
        let device = &network.devices[0];
        (device.name.clone(), device.addresses[0].cidr.clone(), network.egress[0].clone())
    }

    fn three(name: &str, subnet: &str, egress: &str) -> (String, String, String) {
        (name.to_owned(), subnet.to_owned(), egress.to_owned())
    }

    #[test]
    fn the_device_and_its_subnet_are_those_of_the_address() {
        let device = |prefix| AddressDevice { name: "host0".to_owned(), mac: "02:00".to_owned(), prefix };
        assert_eq!(
            shown("10.110.64.3", Some(&device(20))),
            three("host0", "10.110.64.0/20", "10.110.64.3/32")
        );
        assert_eq!(shown("10.1.2.3", Some(&device(0))), three("host0", "0.0.0.0/0", "10.1.2.3/32"));
        assert_eq!(shown("fd00::1:2", Some(&device(64))), three("host0", "fd00::/64", "fd00::1:2/128"));
    }

    #[test]
    fn an_address_that_no_device_has_is_its_own_subnet() {
        assert_eq!(shown("127.0.3.1", None), three("lo", "127.0.3.1/32", "127.0.3.1/32"));
        assert_eq!(shown("192.0.2.7", None), three("", "192.0.2.7/32", "192.0.2.7/32"));
        assert_eq!(shown("db.example", None), three("", "db.example", "db.example"));
        assert_eq!(by_binding(&Charm::default(), "", None), BTreeMap::new());
    }
}
