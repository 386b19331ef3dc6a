//! The network of the machines that have one of their own: a bridge of this data folder, whose first address is this
//! host's, and translation of addresses for what lies beyond. `network.yaml` remembers it.

use crate::command_error::CommandError;
use crate::supervisor::tools;
use host::file::write_atomic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

const FILE: &str = "network.yaml";
/// 4094 addresses: this host's and 4093 machines'.
const PREFIX: u32 = 20;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// Networks tried before it is given up to find a free one.
const TRIES: u32 = 50;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The bridge, at most 15 characters; the table of the packet filter has the same name.
    pub bridge: String,
    /// This host's.
    pub gateway: Ipv4Addr,
}

impl Network {
    /// What the folder remembers, or a network that is free on this host.
    pub fn open(folder: &Path) -> Result<Network, CommandError> {
        let place = folder.join(FILE);
        if let Ok(text) = std::fs::read_to_string(&place) {
            return serde_yaml::from_str(&text)
                .map_err(|error| CommandError::new(format!("{} is damaged: {error}", place.display())));
        }
        let network = Network::choose()?;
        network.save(folder)?;
        Ok(network)
    }

    fn save(&self, folder: &Path) -> Result<(), CommandError> {
        let text = serde_yaml::to_string(self).expect("plain data");
        let place = folder.join(FILE);
        write_atomic(&place, text.as_bytes())
            .map_err(|error| CommandError::new(format!("cannot write {}: {error}", place.display())))
    }

    /// A random /20 of 10.0.0.0/8, of whose /16 this host knows nothing.
    fn choose() -> Result<Network, CommandError> {
        let known = tools::run("ip", &["-4", "route", "show", "table", "all"])?;
        for _ in 0..TRIES {
            let random = host::random::bits().to_be_bytes();
            let (second, third) = (random[0], random[1] & 0xf0);
            if !known.contains(&format!("10.{second}.")) {
                let bridge = format!("pintle-{:02x}{:02x}{:02x}", random[2], random[3], random[4]);
                let gateway = Ipv4Addr::new(10, second, third, 1);
                return Ok(Network { bridge, gateway });
            }
        }
        Err(CommandError::new("no part of 10.0.0.0/8 is free on this host for the machines' network"))
    }

    /// As an interface is given it: `10.1.16.2/20`.
    pub fn with_prefix(&self, address: Ipv4Addr) -> String {
        format!("{address}/{PREFIX}")
    }

    /// The lowest address that is not taken.
    pub fn lowest_free_address(&self, taken: &BTreeSet<Ipv4Addr>) -> Result<Ipv4Addr, CommandError> {
        let first = u32::from(self.gateway);
        let last = first | (u32::MAX >> PREFIX);
        let free = (first + 1..last).map(Ipv4Addr::from).find(|address| !taken.contains(address));
        free.ok_or_else(|| CommandError::new(format!("all addresses of {} are taken", self.bridge)))
    }

    /// Makes it so; what is there already stays.
    pub fn create(&self) -> Result<(), CommandError> {
        if !self.is_there() {
            tools::run("ip", &["link", "add", &self.bridge, "type", "bridge"])?;
        }
        let address = self.with_prefix(self.gateway);
        tools::run("ip", &["address", "replace", &address, "dev", &self.bridge])?;
        tools::run("ip", &["link", "set", &self.bridge, "up"])?;
        let network = Ipv4Addr::from(u32::from(self.gateway) & !(u32::MAX >> PREFIX));
        let network = self.with_prefix(network);
        // deleted and made again in one transaction, so that a second time changes nothing
        let table = self.bridge.replace('-', "_");
        let rules = format!(
            "table ip {table} {{}}\ndelete table ip {table}\ntable ip {table} {{\n  chain out {{\n    \
             type nat hook postrouting priority srcnat;\n    \
             ip saddr {network} ip daddr != {network} masquerade\n  }}\n}}\n"
        );
        tools::run_with_input("nft", &["-f", "-"], &rules)?;
        let broken = |error: std::io::Error| CommandError::new(format!("cannot write {FORWARDING}: {error}"));
        // never switched back: in the meantime others of this host may have come to need it
        if std::fs::read_to_string(FORWARDING).map_err(broken)?.trim() == "0" {
            std::fs::write(FORWARDING, "1").map_err(broken)?;
        }
        Ok(())
    }

    fn is_there(&self) -> bool {
        Path::new("/sys/class/net").join(&self.bridge).exists()
    }

    /// Takes it away, if it is there.
    pub fn delete(folder: &Path) -> Result<(), CommandError> {
        if !folder.join(FILE).exists() {
            return Ok(());
        }
        let network = Network::open(folder)?;
        if network.is_there() {
            tools::run("ip", &["link", "delete", &network.bridge])?;
        }
        let table = network.bridge.replace('-', "_");
        let delete = format!("table ip {table} {{}}\ndelete table ip {table}\n");
        tools::run_with_input("nft", &["-f", "-"], &delete)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_the_lowest_free_address_of_their_network_and_never_the_hosts() {
        let gateway = Ipv4Addr::new(10, 9, 16, 1);
        let network = Network { bridge: "pintle-x".to_owned(), gateway };
        let taken: BTreeSet<Ipv4Addr> = [2, 4].map(|last| Ipv4Addr::new(10, 9, 16, last)).into();
        assert_eq!(network.lowest_free_address(&BTreeSet::new()), Ok(Ipv4Addr::new(10, 9, 16, 2)));
        assert_eq!(network.lowest_free_address(&taken), Ok(Ipv4Addr::new(10, 9, 16, 3)));
        let all = (u32::from(gateway)..=u32::from(Ipv4Addr::new(10, 9, 31, 254))).map(Ipv4Addr::from);
        assert!(network.lowest_free_address(&all.collect()).is_err(), "10.9.31.255 is everybody's");
    }
}
