//! The network of nspawn machines: a bridge per data folder, and network address translation to other networks.
//!
//! The first address of the network belongs to this host. The network is chosen once and stored in `network.yaml`, so
//! that the addresses of machines never change. Created by the nspawn provider, deleted by `down`.

use crate::command_error::CommandError;
use crate::supervisor::host_programs;
use host::file::{ignore_not_found, write_atomic};
use host::program::QUICK;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

const FILE: &str = "network.yaml";
/// A /20 network has 2^12 - 2 = 4094 addresses: one for this host and 4093 for machines.
const PREFIX: u32 = 20;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// Number of random networks that are tried before giving up.
const ATTEMPTS_MAX: u32 = 50;

/// A network, as stored in `network.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The name of the bridge, at most 15 characters. The nftables table has the same name, with `_` for `-`.
    pub bridge: String,
    /// The address of this host.
    pub gateway: Ipv4Addr,
}

impl Network {
    /// Reads the stored network of the folder, or chooses and stores one that is free on this host.
    ///
    /// # Errors
    /// If no network is free, or the file cannot be written.
    pub async fn open(folder: &Path) -> Result<Network, CommandError> {
        let path = folder.join(FILE);
        let stored = ignore_not_found(std::fs::read_to_string(&path));
        let stored =
            stored.map_err(|error| CommandError::new(format!("cannot read {}: {error}", path.display())))?;
        if let Some(text) = stored {
            return charms::yaml::from_str(&text)
                .map_err(|error| CommandError::new(format!("{} is damaged: {error}", path.display())));
        }
        let network = Network::choose().await?;
        network.save(folder)?;
        Ok(network)
    }

    fn save(&self, folder: &Path) -> Result<(), CommandError> {
        let text = charms::yaml::to_string(self).expect("plain data");
        let path = folder.join(FILE);
        write_atomic(&path, text.as_bytes())
            .map_err(|error| CommandError::new(format!("cannot write {}: {error}", path.display())))
    }

    /// A random /20 network of 10.0.0.0/8 for whose /16 this host has no route.
    async fn choose() -> Result<Network, CommandError> {
        let known = host_programs::run("ip", &["-4", "route", "show", "table", "all"], QUICK).await?;
        for _ in 0..ATTEMPTS_MAX {
            let random = host::random::random_u128().to_be_bytes();
            let (second, third) = (random[0], random[1] & 0xf0);
            if !known.contains(&format!("10.{second}.")) {
                let bridge = format!("pintle-{:02x}{:02x}{:02x}", random[2], random[3], random[4]);
                let gateway = Ipv4Addr::new(10, second, third, 1);
                return Ok(Network { bridge, gateway });
            }
        }
        Err(CommandError::new(
            "cannot choose a network for machines: no part of 10.0.0.0/8 is free on this host",
        ))
    }

    /// The address with the prefix length, for an interface: `10.1.16.2/20`.
    pub fn with_prefix(&self, address: Ipv4Addr) -> String {
        format!("{address}/{PREFIX}")
    }

    /// The lowest address that is not in `taken`. An error if all are taken.
    pub fn lowest_free_address(&self, taken: &BTreeSet<Ipv4Addr>) -> Result<Ipv4Addr, CommandError> {
        let first = u32::from(self.gateway);
        let last = first | (u32::MAX >> PREFIX);
        let free = (first + 1..last).map(Ipv4Addr::from).find(|address| !taken.contains(address));
        free.ok_or_else(|| {
            CommandError::new(format!("cannot choose an address: all addresses of {} are taken", self.bridge))
        })
    }

    /// Creates the bridge, the translation rules and forwarding. Parts that exist already are kept.
    ///
    /// # Errors
    /// If `ip` or `nft` fails.
    pub async fn create(&self) -> Result<(), CommandError> {
        if !self.exists() {
            host_programs::run("ip", &["link", "add", &self.bridge, "type", "bridge"], QUICK).await?;
        }
        let address = self.with_prefix(self.gateway);
        host_programs::run("ip", &["address", "replace", &address, "dev", &self.bridge], QUICK).await?;
        host_programs::run("ip", &["link", "set", &self.bridge, "up"], QUICK).await?;
        let network = Ipv4Addr::from(u32::from(self.gateway) & !(u32::MAX >> PREFIX));
        let network = self.with_prefix(network);
        // The table is deleted and created again in one transaction, so that repeating it changes nothing.
        let table = self.bridge.replace('-', "_");
        let rules = format!(
            "table ip {table} {{}}\ndelete table ip {table}\ntable ip {table} {{\n  chain out {{\n    \
             type nat hook postrouting priority srcnat;\n    \
             ip saddr {network} ip daddr != {network} masquerade\n  }}\n}}\n"
        );
        host_programs::run_with_input("nft", &["-f", "-"], &rules, QUICK).await?;
        let to_error =
            |error: std::io::Error| CommandError::new(format!("cannot write {FORWARDING}: {error}"));
        // Forwarding is never disabled again, because other programs of this host may depend on it by then.
        if std::fs::read_to_string(FORWARDING).map_err(to_error)?.trim() == "0" {
            std::fs::write(FORWARDING, "1").map_err(to_error)?;
        }
        Ok(())
    }

    fn exists(&self) -> bool {
        Path::new("/sys/class/net").join(&self.bridge).exists()
    }

    /// Deletes the network, if it exists.
    ///
    /// # Errors
    /// If `ip` or `nft` fails.
    pub async fn delete(folder: &Path) -> Result<(), CommandError> {
        if !folder.join(FILE).exists() {
            return Ok(());
        }
        let network = Network::open(folder).await?;
        if network.exists() {
            host_programs::run("ip", &["link", "delete", &network.bridge], QUICK).await?;
        }
        let table = network.bridge.replace('-', "_");
        let delete = format!("table ip {table} {{}}\ndelete table ip {table}\n");
        host_programs::run_with_input("nft", &["-f", "-"], &delete, QUICK).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_gets_the_lowest_free_address_and_never_that_of_the_host() {
        let gateway = Ipv4Addr::new(10, 9, 16, 1);
        let network = Network { bridge: "pintle-x".to_owned(), gateway };
        let taken: BTreeSet<Ipv4Addr> = [2, 4].map(|last| Ipv4Addr::new(10, 9, 16, last)).into();
        assert_eq!(network.lowest_free_address(&BTreeSet::new()), Ok(Ipv4Addr::new(10, 9, 16, 2)));
        assert_eq!(network.lowest_free_address(&taken), Ok(Ipv4Addr::new(10, 9, 16, 3)));
        let all = (u32::from(gateway)..=u32::from(Ipv4Addr::new(10, 9, 31, 254))).map(Ipv4Addr::from);
        assert!(network.lowest_free_address(&all.collect()).is_err(), "10.9.31.255 is the broadcast address");
    }

    /// Another network would leave the machines of the first one without a gateway.
    #[tokio::test]
    async fn a_network_that_cannot_be_read_is_not_replaced() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join(FILE);
        std::os::unix::fs::symlink(&path, &path).expect("it is a new folder");
        assert!(Network::open(folder.path()).await.is_err());
        assert!(path.is_symlink());
    }
}
