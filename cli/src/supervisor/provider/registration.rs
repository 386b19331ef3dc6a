//! Decides whether a container is registered with systemd-machined, and returns the arguments of systemd-nspawn for it.
//!
//! A registered container is shown by `machinectl`; nothing of Pintle depends on that, so that containers also run on
//! hosts without systemd. This module registers nothing itself and has no part in the registration of machines with the
//! controller (`provisioner`). Called by `nspawn` before each start of a container.

use host::program::{self, HostProgram};
use std::path::Path;

/// Whether `machinectl` shows machines on this host: it runs systemd, and systemd-machined answers on the bus.
pub(super) async fn is_possible() -> bool {
    // what sd_booted(3) examines
    Path::new("/run/systemd/system").is_dir()
        && HostProgram::new("machinectl", ["--no-pager", "--no-legend", "list"], program::QUICK)
            .run()
            .await
            .is_ok()
}

/// The arguments that decide whether a container is registered. A registered one gets a scope of its own: with
/// `--keep-unit`, `machinectl terminate` would end what started `pintle up`, and in a user session systemd-nspawn refuses
/// it. Without systemd there is no scope that it could make.
pub(super) fn arguments(is_registered: bool) -> &'static [&'static str] {
    match is_registered {
        true => &["--register=yes"],
        false => &["--register=no", "--keep-unit"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_container_has_a_scope_of_its_own_and_no_other_asks_the_bus() {
        assert_eq!(arguments(true), ["--register=yes"]);
        assert_eq!(arguments(false), ["--register=no", "--keep-unit"]);
    }

    #[tokio::test]
    async fn without_systemd_nothing_is_registered() {
        let is_booted = Path::new("/run/systemd/system").is_dir();
        assert!(is_booted || !is_possible().await);
    }
}
