//! The names of machines: each nspawn machine resolves its own name and those of all others.
//!
//! This host writes the names of the other machines to a file that each machine mounts. A systemd unit in the machine
//! copies them to its `/etc/hosts`, because this host must not write there after the first boot, and charms may write
//! there, too.

use super::instance::Instance;
use super::machine_folder::folders;
use crate::data_dir::DataDir;
use host::file::write_atomic;
use std::io;

/// The folder, beside the machine's root, that the machine mounts as `/etc/pintle`. It holds `names` and a
/// copy of `agent.yaml`.
pub(super) const CONFIG_DIR: &str = "agent";
/// The domain of machines. `.internal` is reserved for private networks.
const DOMAIN: &str = "pintle.internal";
/// The comment at the end of each line of `/etc/hosts` that this host maintains.
const MARK: &str = "# another machine";
/// In a machine: copies the names of the other machines to `/etc/hosts`, and leaves the other lines unchanged.
const SERVICE: &str = "[Unit]\nDescription=Names of the other machines in /etc/hosts\n\
    Before=pintle-machine.service\n\n[Service]\nType=oneshot\n\
    ExecStart=/bin/sh -c '{ grep -v \"# another machine$\" /etc/hosts; cat /etc/pintle/names; } > /etc/hosts.new \
    && chmod 644 /etc/hosts.new && mv /etc/hosts.new /etc/hosts'\n";
/// Starts the service after each change.
const PATH: &str = "[Unit]\nDescription=Names of the other machines\n\n\
    [Path]\nPathChanged=/etc/pintle/names\nUnit=machine-names.service\n";
/// The systemd units that each machine has.
pub(super) const UNITS: [(&str, &str); 2] =
    [("machine-names.service", SERVICE), ("machine-names.path", PATH)];

/// The line of `/etc/hosts` for a machine. The first name is what `hostname -f` prints.
pub(super) fn line(address: &str, name: &str) -> String {
    format!("{address} {name}.{DOMAIN} {name}\n")
}

/// Writes the file of each machine.
pub(super) fn write(dir: &DataDir) -> io::Result<()> {
    let mut instances = Vec::new();
    for path in [dir.machines(), dir.kept_instances()] {
        for folder in folders(&path)? {
            // an instance that cannot be read is reported by `list`
            instances.extend(Instance::read(&folder).ok().flatten().map(|instance| (folder, instance)));
        }
    }
    for (folder, own) in instances.iter().filter(|(folder, _)| folder.join(CONFIG_DIR).is_dir()) {
        let others = instances.iter().map(|(_, other)| other).filter(|other| other.nonce != own.nonce);
        let marked = |other: &Instance| {
            let line = line(&other.address, &other.hostname);
            format!("{} {MARK}\n", line.trim_end())
        };
        let text: String = others.map(marked).collect();
        write_atomic(&folder.join(CONFIG_DIR).join("names"), text.as_bytes())?;
    }
    Ok(())
}
