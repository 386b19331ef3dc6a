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

#[cfg(feature = "etcd")]
use super::etcd::EtcdLeases;
use super::outage::Outage;
use state::terms::names::Uuid;

/// The leases of a store. Uninhabited if no engine of this program keeps leases.
#[derive(Clone)]
pub enum LeaderLeases {
    /// In etcd.
    #[cfg(feature = "etcd")]
    Etcd(EtcdLeases),
}

/// Evaluates an expression for the engine that is open.
macro_rules! of_engine {
    ($leases:expr, $of:ident => $value:expr) => {
        match *$leases {
            #[cfg(feature = "etcd")]
            LeaderLeases::Etcd(ref $of) => $value,
        }
    };
}

#[cfg_attr(not(feature = "etcd"), expect(unused_variables, reason = "there is no engine with leases"))]
impl LeaderLeases {
    /// Returns the unit that holds the lease of an application, as far as is known here: only [`Self::take`] decides.
    pub fn holder(&self, application: Uuid) -> Option<Uuid> {
        of_engine!(self, leases => leases.holder(application))
    }

    /// Takes the lease of an application for a unit, or renews it. Returns whether the unit holds it: from the call on for
    /// [`LEASE_MS`](state::lifecycle::leadership::LEASE_MS) at least. The lease of `gone`, a unit that can never lead again,
    /// is replaced.
    ///
    /// # Errors
    /// If etcd cannot be used. The unit may hold the lease then.
    pub async fn take(&self, application: Uuid, unit: Uuid, gone: Option<Uuid>) -> Result<bool, Outage> {
        of_engine!(self, leases => leases.take(application, unit, gone).await)
    }

    /// Ends the lease of an application if this unit holds it. A failure is logged: the lease then ends by itself.
    pub async fn release(&self, application: Uuid, unit: Uuid) {
        of_engine!(self, leases => leases.release(application, unit).await)
    }

    /// Takes the lease of each of these leaders that has none: a start of a controller counts as a renewal, because another
    /// engine, or an etcd that was restored since, may have told it that it leads. By application, the unit.
    ///
    /// # Errors
    /// If etcd cannot be used.
    pub async fn take_for_leaders(&self, leaders: Vec<(Uuid, Uuid)>) -> Result<(), Outage> {
        of_engine!(self, leases => leases.take_for_leaders(leaders).await)
    }
}
