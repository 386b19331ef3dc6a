//! Writes the ssh keys of the model into `authorized_keys` of the machine, when the view shows other keys than were
//! written last. A write that fails is repeated with the back-off of the machine's plan. Called by the machine agent's
//! loop.

use crate::ports::AuthorizedKeys;
use state::terms::ssh_key::SshKey;
use std::cell::RefCell;

/// What this agent has done with the keys.
#[derive(Debug, Default)]
pub(super) struct SshKeysProgress {
    /// The keys that it has written; none before the first time.
    written: RefCell<Option<Vec<SshKey>>>,
    /// The last logged error.
    error: RefCell<Option<String>>,
}

impl SshKeysProgress {
    /// Writes the keys. Returns true if that failed and must be repeated.
    pub(super) async fn apply(&self, host: &impl AuthorizedKeys, keys: &[SshKey]) -> bool {
        if self.written.borrow().as_deref() == Some(keys) {
            return false;
        }
        let error = host.set_ssh_keys(keys).await.err().map(|error| format!("{error:#}"));
        match &error {
            None => drop(self.written.replace(Some(keys.to_vec()))),
            Some(error) if self.error.borrow().as_ref() != Some(error) => {
                tracing::warn!("cannot write the ssh keys of the model, retrying: {error}");
            }
            Some(_) => {}
        }
        let is_incomplete = error.is_some();
        self.error.replace(error);
        is_incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Fails `failures_left` times, and counts its calls.
    struct Host {
        failures_left: Cell<u32>,
        calls: Cell<u32>,
    }

    impl AuthorizedKeys for Host {
        async fn set_ssh_keys(&self, _: &[SshKey]) -> anyhow::Result<()> {
            self.calls.set(self.calls.get() + 1);
            anyhow::ensure!(self.failures_left.get() == 0, "the disk is full");
            Ok(())
        }
    }

    #[tokio::test]
    async fn keys_are_written_until_that_has_succeeded_and_again_when_they_change() {
        let host = Host { failures_left: Cell::new(1), calls: Cell::new(0) };
        let progress = SshKeysProgress::default();
        assert!(progress.apply(&host, &[]).await, "it must be repeated");
        host.failures_left.set(0);
        for _ in 0..2 {
            assert!(!progress.apply(&host, &[]).await);
        }
        assert_eq!(host.calls.get(), 2);
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ me"
            .parse()
            .unwrap();
        assert!(!progress.apply(&host, &[key]).await);
        assert_eq!(host.calls.get(), 3);
    }
}
