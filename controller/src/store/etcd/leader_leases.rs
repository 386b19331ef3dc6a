//! The leases of leaders in etcd: one key for each application, with a lease that ends when nobody renews it (design 13).
//!
//! The mirror has the keys, so that the claim of a unit that does not lead needs no request of etcd; only etcd itself decides
//! who holds a lease. A renewal is no write. What a lease means is in [`crate::store::leader_leases`].

use super::client::CallError;
use super::layout::{get, put_with_lease, written_at};
use super::messages::TxnRequest;
use super::mirror::LeaderKey;
use super::shared::Core;
use crate::store::leader_leases::LeaderLeases;
use crate::store::outage::Outage;
use futures::future::BoxFuture;
use futures::stream::{StreamExt as _, TryStreamExt as _};
use state::documents::draft::Revision;
use state::lifecycle::leadership::LEASE_MS;
use state::terms::names::Uuid;
use std::sync::Arc;

/// The length of a lease, in seconds.
const LEASE_SECONDS: i64 = LEASE_MS as i64 / 1_000;
const _: () = assert!(LEASE_SECONDS as u64 * 1_000 == LEASE_MS);
/// How often the lease is read again because another controller has changed it in between.
const ATTEMPTS_MAX: usize = 5;
/// The leases that a start takes at the same time: 1,000 applications then take some 125 commits of etcd, a second.
const TAKEN_AT_ONCE: usize = 16;

/// The leases of one store in etcd.
#[derive(Clone)]
pub struct EtcdLeases(Arc<Core>);

impl EtcdLeases {
    pub(super) fn new(core: Arc<Core>) -> EtcdLeases {
        EtcdLeases(core)
    }

    fn holder(&self, application: Uuid) -> Option<Uuid> {
        self.0.mirror().leader(application)?.unit
    }

    async fn take(&self, application: Uuid, unit: Uuid, ended: Option<Uuid>) -> Result<bool, Outage> {
        let taken = self.try_take(application, unit, ended).await;
        taken.map_err(|error| {
            let outage = error.outage();
            self.0.health.record_outage(&outage);
            outage
        })
    }

    async fn try_take(&self, application: Uuid, unit: Uuid, ended: Option<Uuid>) -> Result<bool, CallError> {
        let mut key = self.0.mirror().leader(application);
        for _ in 0..ATTEMPTS_MAX {
            match &key {
                Some(key) if key.unit == Some(unit) => {
                    // A lease that was revoked or has expired is not renewed: the key is read again.
                    if self.0.client.renew_lease(key.lease).await? {
                        return Ok(true);
                    }
                }
                Some(key) if key.unit.is_none() || key.unit == ended => {
                    if self.put(application, unit, key.revision).await? {
                        self.0.client.revoke_lease(key.lease).await.ok(); // it has no key, and ends by itself
                        return Ok(true);
                    }
                }
                Some(_) => return Ok(false),
                None => {
                    if self.put(application, unit, 0).await? {
                        return Ok(true);
                    }
                }
            }
            key = self.read(application).await?;
        }
        Ok(false)
    }

    /// Writes the key with a new lease, if it still has this revision.
    async fn put(&self, application: Uuid, unit: Uuid, revision: Revision) -> Result<bool, CallError> {
        let core = &self.0;
        let lease = core.client.grant_lease(LEASE_SECONDS).await?;
        let key = core.layout.leader(application);
        let request = TxnRequest {
            compare: vec![
                written_at(core.layout.store(), core.store_revision),
                written_at(key.clone(), revision),
            ],
            success: vec![put_with_lease(key, &unit.to_string(), lease)],
            failure: Vec::new(),
        };
        let is_put = core.client.idempotent_txn(request).await?.succeeded;
        if !is_put {
            core.client.revoke_lease(lease).await.ok(); // it has no key, and ends by itself
        }
        Ok(is_put)
    }

    async fn read(&self, application: Uuid) -> Result<Option<LeaderKey>, CallError> {
        let found = self.0.client.range(get(self.0.layout.leader(application))).await?.kvs;
        Ok(found.first().map(|kv| LeaderKey::new(&kv.value, kv.mod_revision.unsigned_abs(), kv.lease)))
    }

    async fn release(&self, application: Uuid, unit: Uuid) {
        let released = async {
            match self.read(application).await? {
                Some(key) if key.unit == Some(unit) => self.0.client.revoke_lease(key.lease).await,
                _ => Ok(()),
            }
        };
        if let Err(error) = released.await {
            tracing::warn!("cannot release the lease of the leader of {application}: {}", error.outage());
        }
    }

    async fn take_for_leaders(&self, leaders: Vec<(Uuid, Uuid)>) -> Result<(), Outage> {
        if !self.0.mirror().statements.others().is_empty() {
            return Ok(()); // they have renewed the leases all the time: a leader without one is gone
        }
        let without =
            leaders.into_iter().filter(|(application, _)| self.0.mirror().leader(*application).is_none());
        let taken = futures::stream::iter(without).map(|(application, unit)| self.put(application, unit, 0));
        let taken = taken.buffer_unordered(TAKEN_AT_ONCE).try_for_each(|_| async { Ok(()) });
        taken.await.map_err(CallError::outage)
    }
}

impl LeaderLeases for EtcdLeases {
    fn holder(&self, application: Uuid) -> Option<Uuid> {
        self.holder(application)
    }

    fn take(
        &self,
        application: Uuid,
        unit: Uuid,
        ended: Option<Uuid>,
    ) -> BoxFuture<'_, Result<bool, Outage>> {
        Box::pin(self.take(application, unit, ended))
    }

    fn release(&self, application: Uuid, unit: Uuid) -> BoxFuture<'_, ()> {
        Box::pin(self.release(application, unit))
    }

    fn take_for_leaders(&self, leaders: Vec<(Uuid, Uuid)>) -> BoxFuture<'_, Result<(), Outage>> {
        Box::pin(self.take_for_leaders(leaders))
    }
}
