//! The network device of this machine that has an address, for the contexts of hooks.

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrStorage;
use state::unit::networks::AddressDevice;
use std::net::IpAddr;

/// Finds the device that has this address. None if it is a loopback address, whose device is known; if no device has it, or
/// the devices cannot be listed: each hook would pay for that with a message of the kernel for each device of the host.
pub fn with_address(address: &str) -> Option<AddressDevice> {
    let address: IpAddr = address.parse().ok().filter(|address: &IpAddr| !address.is_loopback())?;
    let all: Vec<InterfaceAddress> = getifaddrs().ok()?.collect();
    let found = all.iter().find(|of| of.address.as_ref().and_then(ip) == Some(address))?;
    let prefix = match found.netmask.as_ref().and_then(ip) {
        Some(IpAddr::V4(mask)) => mask.to_bits().count_ones(),
        Some(IpAddr::V6(mask)) => mask.to_bits().count_ones(),
        None => u32::from(u8::MAX),
    };
    let links = all.iter().filter(|of| of.interface_name == found.interface_name);
    let mac = links.filter_map(|of| of.address?.as_link_addr()?.addr()).find(|mac| *mac != [0; 6]);
    let hex = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    Some(AddressDevice {
        name: found.interface_name.clone(),
        mac: mac.map_or_else(String::new, hex),
        prefix: prefix as u8,
    })
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_is_found_for_what_is_no_address_of_one() {
        assert_eq!(
            with_address("127.0.0.1"),
            None,
            "each address of the loopback device is shown in the same way"
        );
        assert_eq!(with_address("192.0.2.7"), None, "no machine has an address of documentation");
        assert_eq!(with_address("db.example"), None);
    }

    /// The MAC address is that of the kernel.
    #[test]
    fn the_device_of_another_address_has_its_mac() {
        let others = getifaddrs().expect("they are listed").filter_map(|of| ip(of.address.as_ref()?));
        for address in others.filter(|address| address.is_ipv4() && !address.is_loopback()) {
            let device = with_address(&address.to_string()).expect("it was listed");
            let kernel = std::fs::read_to_string(format!("/sys/class/net/{}/address", device.name));
            // a tunnel, for example, has none
            let kernel = kernel.expect("the kernel shows it").replace("00:00:00:00:00:00", "");
            assert_eq!(kernel.trim(), device.mac);
        }
    }
}
