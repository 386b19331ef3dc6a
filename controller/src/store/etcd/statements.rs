//! The statements of controllers about agents in etcd: one key for each agent and topic, which ends with the lease of the
//! controller that has written it last.
//!
//! The mirror has the keys (`KnownStatements`), because its watch delivers them in the same order as the commits. They are no
//! documents and no commits. What they mean is in [`state::status::shared_presence`], and who writes them in `presence`.

use super::client::CallError;
use super::layout::{delete, delete_range, get_operation, put_with_lease, written_at};
use super::messages::{Compare, RequestOp, TxnRequest, TxnResponse};
use super::shared::Core;
use crate::store::outage::Outage;
use crate::store::shared_presence::{
    OtherController, SharedStatements, Stated, StatementChange, StatementReceiver,
};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use state::documents::draft::Revision;
use state::status::shared_presence::{BootChange, Boots, Statement, Topic};
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// The length of the lease of a controller, in seconds: half of the time after which a silent agent is shown as lost, so
/// that the agents of a controller that has died are shown as lost after 90 s at most if they do not find another one.
const LEASE_SECONDS: i64 = api::LOST_AFTER_MS as i64 / 2_000;
/// The changes of one transaction. Each has a comparison and an operation of some 500 bytes.
const CHANGES_PER_TRANSACTION: usize = 64;
/// How often the boots of an agent are read again because another controller has changed them in between.
const ATTEMPTS_MAX: usize = 5;

/// The value of a key.
#[derive(Serialize, Deserialize)]
struct StatementValue {
    /// The handle of the controller that has written it.
    by: String,
    statement: Statement,
}

/// Reads the value of a key; none if this version cannot.
fn stated_by(value: &[u8], handle: &str, topic: Topic, revision: Revision) -> Option<Stated> {
    let StatementValue { by, statement } = serde_json::from_slice(value).ok()?;
    (statement.topic() == topic).then(|| Stated { statement, is_own: by == handle, revision })
}

/// The statements that the mirror has.
pub(super) struct KnownStatements {
    /// The name of this handle.
    handle: String,
    stated: BTreeMap<(Uuid, Topic), Stated>,
    /// The address and the lease of each controller, by handle.
    controllers: BTreeMap<String, (String, i64)>,
    receiver: Option<Weak<dyn StatementReceiver>>,
}

impl KnownStatements {
    pub fn new(handle: String) -> KnownStatements {
        let (stated, controllers) = (BTreeMap::new(), BTreeMap::new());
        KnownStatements { handle, stated, controllers, receiver: None }
    }

    /// A key was written, or deleted if there is no value. One that this version cannot read counts as deleted.
    pub fn set(&mut self, agent: Uuid, topic: Topic, value: Option<&[u8]>, revision: Revision) {
        let stated = value.and_then(|value| stated_by(value, &self.handle, topic, revision));
        let before = match &stated {
            Some(stated) => self.stated.insert((agent, topic), stated.clone()),
            None => self.stated.remove(&(agent, topic)),
        };
        if before == stated {
            return; // of a list that has nothing new
        }
        if let Some(receiver) = self.receiver.as_ref().and_then(Weak::upgrade) {
            receiver.receive(agent, topic, stated.as_ref());
        }
    }

    /// A controller serves at this address; none if it has ended.
    pub fn set_controller(&mut self, handle: &str, address: Option<&[u8]>, lease: i64) {
        match address {
            Some(address) => {
                let address = String::from_utf8_lossy(address).into_owned();
                self.controllers.insert(handle.to_owned(), (address, lease));
            }
            None => drop(self.controllers.remove(handle)),
        }
    }

    /// Removes what a list of all keys does not contain.
    pub fn retain(&mut self, listed: &BTreeSet<(Uuid, Topic)>, controllers: &BTreeSet<String>) {
        let ended: Vec<_> = self.stated.keys().filter(|key| !listed.contains(key)).copied().collect();
        for (agent, topic) in ended {
            self.set(agent, topic, None, 0);
        }
        self.controllers.retain(|handle, _| controllers.contains(handle));
    }

    fn follow(&mut self, receiver: Weak<dyn StatementReceiver>) {
        if let Some(receiver) = receiver.upgrade() {
            self.stated
                .iter()
                .for_each(|((agent, topic), stated)| receiver.receive(*agent, *topic, Some(stated)));
        }
        self.receiver = Some(receiver);
    }
}

/// The statements of one store in etcd.
#[derive(Clone)]
pub struct EtcdStatements(Arc<Core>);

impl EtcdStatements {
    pub(super) fn new(core: Arc<Core>) -> EtcdStatements {
        EtcdStatements(core)
    }

    fn stated(&self, agent: Uuid, topic: Topic) -> Option<Stated> {
        self.0.mirror().statements.stated.get(&(agent, topic)).cloned()
    }

    /// Returns the lease of this controller; takes one if it has none.
    async fn lease(&self) -> Result<i64, CallError> {
        let mut lease = self.0.lease.lock().await;
        if let Some(lease) = *lease {
            return Ok(lease);
        }
        let granted = self.0.client.grant_lease(LEASE_SECONDS).await?;
        *lease = Some(granted);
        Ok(granted)
    }

    async fn renew(&self, address: &str) -> Result<(), CallError> {
        let core = &self.0;
        let before = *core.lease.lock().await;
        if let Some(before) = before
            && !core.client.renew_lease(before).await?
        {
            *core.lease.lock().await = None;
        }
        let (is_known, predecessors) = {
            let mirror = core.mirror();
            let at_address = mirror.statements.controllers.iter().filter(|(_, (known, _))| known == address);
            let (own, others): (Vec<_>, Vec<_>) = at_address.partition(|(handle, _)| **handle == core.handle);
            (!own.is_empty(), others.into_iter().map(|(_, (_, lease))| *lease).collect::<Vec<_>>())
        };
        if !is_known {
            for lease in predecessors {
                core.client.revoke_lease(lease).await.ok(); // it has ended by itself meanwhile
            }
            let lease = self.lease().await?;
            let put = put_with_lease(core.layout.controller(&core.handle), address, lease);
            self.write(Vec::new(), vec![put]).await?;
        }
        Ok(())
    }

    /// Ends the lease of this controller, and with it its statements.
    async fn end(&self) -> Result<(), CallError> {
        match self.0.lease.lock().await.take() {
            Some(lease) => self.0.client.revoke_lease(lease).await,
            None => Ok(()),
        }
    }

    /// The comparison and the operation of a change.
    fn operation(&self, change: &StatementChange, lease: i64) -> (Compare, RequestOp) {
        let core = &self.0;
        let key = core.layout.statement(change.agent, change.topic);
        let compare = written_at(key.clone(), change.replaces);
        let operation = match &change.statement {
            Some(statement) => {
                let value = StatementValue { by: core.handle.clone(), statement: statement.clone() };
                put_with_lease(key, &serde_json::to_string(&value).expect("plain data"), lease)
            }
            None => delete(key),
        };
        (compare, operation)
    }

    /// Executes operations if the comparisons hold. Returns whether they did, after the mirror has what was written.
    async fn write(&self, compare: Vec<Compare>, success: Vec<RequestOp>) -> Result<bool, CallError> {
        Ok(self.write_or_read(compare, success, Vec::new()).await?.succeeded)
    }

    /// As `write`; executes other operations if a comparison does not hold.
    async fn write_or_read(
        &self,
        mut compare: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> Result<TxnResponse, CallError> {
        let core = &self.0;
        compare.push(written_at(core.layout.store(), core.store_revision));
        let response = core.client.idempotent_txn(TxnRequest { compare, success, failure }).await;
        if matches!(&response, Err(CallError::NotDone(Outage::Refused(why))) if why.contains("lease not found"))
        {
            *core.lease.lock().await = None; // etcd refuses one that has ended: the next attempt takes another one
        }
        let response = response?;
        if response.succeeded {
            let revision = response.header.clone().unwrap_or_default().revision.unsigned_abs();
            core.wait_reached(revision).await.map_err(CallError::Unknown)?;
        }
        Ok(response)
    }

    async fn change(&self, changes: Vec<StatementChange>) -> Result<(), CallError> {
        if changes.is_empty() {
            return Ok(());
        }
        let lease = self.lease().await?;
        for chunk in changes.chunks(CHANGES_PER_TRANSACTION) {
            let (compares, operations): (Vec<_>, Vec<_>) =
                chunk.iter().map(|change| self.operation(change, lease)).unzip();
            if self.write(compares, operations).await? || chunk.len() == 1 {
                continue;
            }
            for change in chunk {
                let (compare, operation) = self.operation(change, lease);
                self.write(vec![compare], vec![operation]).await?;
            }
        }
        Ok(())
    }

    async fn change_boots(&self, agent: Uuid, change: BootChange) -> Result<(), CallError> {
        let mut stated = self.stated(agent, Topic::Boots);
        for _ in 0..ATTEMPTS_MAX {
            let replaces = stated.as_ref().map_or(0, |stated| stated.revision);
            let boots = match stated.map(|stated| stated.statement) {
                Some(Statement::Boots(boots)) => boots.at(replaces),
                _ => Boots::default(),
            };
            let Some(boots) = boots.after(&change) else { return Ok(()) };
            let statement = Some(Statement::Boots(boots));
            let changed = StatementChange { agent, topic: Topic::Boots, statement, replaces };
            let (compare, operation) = self.operation(&changed, self.lease().await?);
            let read = get_operation(self.0.layout.statement(agent, Topic::Boots));
            let written = self.write_or_read(vec![compare], vec![operation], vec![read]).await?;
            if written.succeeded {
                return Ok(());
            }
            // another controller has overtaken this change
            let newer = written.responses.first().and_then(|response| response.range.as_ref()?.kvs.first());
            stated = newer.and_then(|kv| {
                stated_by(&kv.value, &self.0.handle, Topic::Boots, kv.mod_revision.unsigned_abs())
            });
        }
        Err(CallError::NotDone(Outage::Refused("the boots of an agent are changed all the time".to_owned())))
    }

    async fn remove(&self, agent: Uuid) -> Result<(), CallError> {
        let has_any = {
            let mirror = self.0.mirror();
            mirror.statements.stated.range((agent, Topic::Agent)..=(agent, Topic::Removed)).next().is_some()
        };
        if !has_any {
            return Ok(());
        }
        let lease = self.lease().await?;
        let (key, range_end) = self.0.layout.statements_of(agent);
        let removed = StatementChange {
            agent,
            topic: Topic::Removed,
            statement: Some(Statement::Removed),
            replaces: 0,
        };
        let (_, operation) = self.operation(&removed, lease);
        self.write(Vec::new(), vec![operation]).await?;
        self.write(Vec::new(), vec![delete_range(key, range_end)]).await?;
        Ok(())
    }

    fn outage(&self, error: CallError) -> Outage {
        let outage = error.outage();
        self.0.health.record_outage(&outage);
        outage
    }
}

impl SharedStatements for EtcdStatements {
    fn follow(&self, receiver: Weak<dyn StatementReceiver>) {
        self.0.mirror().statements.follow(receiver);
    }

    fn stated(&self, agent: Uuid, topic: Topic) -> Option<Stated> {
        self.stated(agent, topic)
    }

    fn change(&self, changes: Vec<StatementChange>) -> BoxFuture<'_, Result<(), Outage>> {
        Box::pin(async { self.change(changes).await.map_err(|error| self.outage(error)) })
    }

    fn change_boots(&self, agent: Uuid, change: BootChange) -> BoxFuture<'_, Result<(), Outage>> {
        Box::pin(async move { self.change_boots(agent, change).await.map_err(|error| self.outage(error)) })
    }

    fn remove(&self, agent: Uuid) -> BoxFuture<'_, Result<(), Outage>> {
        Box::pin(async move { self.remove(agent).await.map_err(|error| self.outage(error)) })
    }

    fn renew<'a>(&'a self, address: &str) -> BoxFuture<'a, Result<(), Outage>> {
        let address = address.to_owned();
        Box::pin(async move { self.renew(&address).await.map_err(|error| self.outage(error)) })
    }

    fn end(&self) -> BoxFuture<'_, Result<(), Outage>> {
        Box::pin(async move { self.end().await.map_err(|error| self.outage(error)) })
    }

    fn others(&self) -> Vec<OtherController> {
        let mirror = self.0.mirror();
        let others = mirror.statements.controllers.iter().filter(|(handle, _)| **handle != self.0.handle);
        others.map(|(_, (address, _))| OtherController { address: address.clone() }).collect()
    }
}
