//! Leases of leaders that the store keeps for all controllers (design 13).
//!
//! The embedded engine keeps none: its one controller has them in memory ([`crate::leases`]). With etcd each application has
//! one lease in etcd, and the absence of its key is the only expiry.
//!
//! A unit is told that it leads only if it holds the lease *and* the leader document names it afterwards. A unit that holds
//! the lease may take the document over from any other unit, because no other unit can be told so until the lease ends:
//!
//! 1. B finds no lease of A and takes it.
//! 2. A asks another controller to renew: the lease is that of B, so A is told that it does not lead, although the document
//!    still names it.
//! 3. B takes the document over.

use super::outage::Outage;
use futures::future::BoxFuture;
use state::terms::names::Uuid;
use std::sync::Arc;

/// The leases of a store. Clones share them.
pub type StoreLeases = Arc<dyn LeaderLeases>;

/// A port to the leases of a store.
pub trait LeaderLeases: Send + Sync {
    /// Returns the unit that holds the lease of an application, as far as is known here: only [`Self::take`] decides.
    fn holder(&self, application: Uuid) -> Option<Uuid>;

    /// Takes the lease of an application for a unit, or renews it. Returns whether the unit holds it: from the call on for
    /// [`LEASE_MS`](state::lifecycle::leadership::LEASE_MS) at least. The lease of `ended`, a unit that can never lead again,
    /// is replaced.
    ///
    /// # Errors
    /// If etcd cannot be used. The unit may hold the lease then.
    fn take(&self, application: Uuid, unit: Uuid, ended: Option<Uuid>)
    -> BoxFuture<'_, Result<bool, Outage>>;

    /// Ends the lease of an application if this unit holds it. A failure is logged: the lease then ends by itself.
    fn release(&self, application: Uuid, unit: Uuid) -> BoxFuture<'_, ()>;

    /// Takes the lease of each of these leaders that has none: a start of a controller counts as a renewal, because another
    /// engine, or an etcd that was restored since, may have granted its leadership. Nothing happens while another
    /// controller serves: it has renewed the lease of each leader that is there. By application, the unit.
    ///
    /// # Errors
    /// If etcd cannot be used.
    fn take_for_leaders(&self, leaders: Vec<(Uuid, Uuid)>) -> BoxFuture<'_, Result<(), Outage>>;
}
