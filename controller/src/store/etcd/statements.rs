//! The statements of controllers about agents in etcd: one key for each agent and topic, which ends with the lease of the
//! controller that has written it last.
//!
//! The mirror has the keys (`known_statements`), because its watch delivers them in the same order as the commits. They are no
//! documents and no commits. What they mean is in [`state::status::shared_presence`], and who writes them in `presence`.

use super::client::CallError;
use super::known_statements::{StatementValue, stated_by};
use super::layout::{
    delete, delete_range, get, get_operation, lease_of, put_with_lease, revision_operation, written_at,
};
use super::messages::{Compare, RequestOp, TxnRequest, TxnResponse};
use super::shared::Core;
use crate::store::outage::Outage;
use crate::store::shared_presence::{
    OtherController, SharedStatements, Stated, StatementChange, StatementReceiver,
};
use futures::future::BoxFuture;
use state::status::shared_presence::{BootChange, Boots, Statement, Topic};
use state::terms::names::Uuid;
use std::sync::{Arc, Weak};

/// The length of the lease of a controller, in seconds: half of the time after which a silent agent is shown as lost, so
/// that the agents of a controller that has died are shown as lost after 90 s at most if they do not find another one.
const LEASE_SECONDS: i64 = api::LOST_AFTER_MS as i64 / 2_000;
/// The changes of one transaction. Most have a comparison and an operation of some 500 bytes.
const CHANGES_PER_TRANSACTION: usize = 64;
/// The bytes of the statements of one transaction, unless one alone is larger: a third of the 1.5 MiB that etcd accepts,
/// because keys and comparisons are not counted.
const BYTES_PER_TRANSACTION: usize = 512 << 10;
/// How often the boots of an agent are read again because another controller has changed them in between.
const ATTEMPTS_MAX: usize = 5;

/// The statements of one store in etcd.
#[derive(Clone)]
pub struct EtcdStatements(Arc<Core>);

impl EtcdStatements {
    pub(super) fn new(core: Arc<Core>) -> EtcdStatements {
        EtcdStatements(core)
    }

    fn stated(&self, agent: Uuid, topic: Topic) -> Option<Stated> {
        self.0.mirror().statements.stated(agent, topic)
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

    /// The next statement takes another lease. One that was taken meanwhile stays.
    async fn forget_lease(&self, ended: i64) {
        self.0.lease.lock().await.take_if(|lease| *lease == ended);
    }

    async fn renew(&self, address: &str) -> Result<(), CallError> {
        let core = &self.0;
        let before = *core.lease.lock().await;
        if let Some(before) = before
            && !core.client.renew_lease(before).await?
        {
            self.forget_lease(before).await;
        }
        let is_known = core.mirror().statements.is_known();
        if !is_known {
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
        let lease = success.iter().find_map(lease_of);
        let response = core.client.idempotent_txn(TxnRequest { compare, success, failure }).await;
        if response.as_ref().is_err_and(is_lease_ended)
            && let Some(lease) = lease
        {
            self.forget_lease(lease).await; // etcd refuses one that has ended
        }
        let response = response?;
        if response.succeeded {
            let revision = response.header.clone().unwrap_or_default().revision.unsigned_abs();
            core.wait_reached(revision).await.map_err(CallError::Unknown)?;
        }
        Ok(response)
    }

    async fn change(&self, mut changes: Vec<StatementChange>) -> Result<(), CallError> {
        {
            let mut too_large = self.0.too_large.lock().expect("no holder panics");
            changes.retain(|change| {
                too_large.get(&(change.agent, change.topic)).is_none_or(|known| *known != change.statement)
            });
            changes.iter().for_each(|change| drop(too_large.remove(&(change.agent, change.topic))));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let lease = self.lease().await?;
        for chunk in batches(changes) {
            self.change_batch(chunk, lease).await?;
        }
        Ok(())
    }

    /// Makes the changes of one transaction. Those that another controller has overtaken are left out, and the rest is
    /// written again at once: two controllers that take over the agents of a third one have the same changes.
    async fn change_batch(&self, mut changes: Vec<StatementChange>, lease: i64) -> Result<(), CallError> {
        while !changes.is_empty() {
            let (compares, operations): (Vec<_>, Vec<_>) =
                changes.iter().map(|change| self.operation(change, lease)).unzip();
            let key = |change: &StatementChange| self.0.layout.statement(change.agent, change.topic);
            let reads = changes.iter().map(|change| revision_operation(key(change))).collect();
            let written = match self.write_or_read(compares, operations, reads).await {
                // it would be in the next list again, and nothing behind it would be stated
                Err(CallError::TooLarge(why)) if changes.len() == 1 => {
                    let StatementChange { agent, topic, statement, .. } = changes.remove(0);
                    tracing::warn!("a statement about agent {agent} is not written: {why}");
                    let mut too_large = self.0.too_large.lock().expect("no holder panics");
                    too_large.insert((agent, topic), statement);
                    return Ok(());
                }
                written => written?,
            };
            if written.succeeded {
                return Ok(());
            }
            // The revision of the response may be that of a key that the mirror does not follow. A key that was deleted is none
            // of these: its change stays in the list, and is written below.
            let overtaking = written.responses.iter().filter_map(|response| response.range.as_ref());
            let newest =
                overtaking.flat_map(|range| &range.kvs).map(|kv| kv.mod_revision.unsigned_abs()).max();
            self.0.wait_reached(newest.unwrap_or_default()).await.map_err(CallError::Unknown)?;
            let before = changes.len();
            changes.retain(|change| {
                let stated = self.stated(change.agent, change.topic);
                stated.map_or(0, |stated| stated.revision) == change.replaces
            });
            if changes.len() == before {
                break;
            }
        }
        // The mirror does not have what has overtaken them: the end of a statement, or one that this version cannot read.
        for change in changes {
            let (compare, operation) = self.operation(&change, lease);
            self.write(vec![compare], vec![operation]).await?;
        }
        Ok(())
    }

    async fn change_boots(&self, agent: Uuid, known: Boots, change: BootChange) -> Result<(), CallError> {
        let mut stated = self.stated(agent, Topic::Boots);
        for _ in 0..ATTEMPTS_MAX {
            let replaces = stated.as_ref().map_or(0, |stated| stated.revision);
            let boots = match stated.map(|stated| stated.statement) {
                Some(Statement::Boots(boots)) => boots.at(replaces),
                _ => known.clone(),
            };
            let Some(boots) = boots.after(&change) else { return Ok(()) };
            let statement = Some(Statement::Boots(boots));
            let changed = StatementChange { agent, topic: Topic::Boots, statement, replaces };
            let (compare, operation) = self.operation(&changed, self.lease().await?);
            let read = get_operation(self.0.layout.statement(agent, Topic::Boots));
            let written = match self.write_or_read(vec![compare], vec![operation], vec![read]).await {
                // the next attempt takes another lease: the attach need not be refused
                Err(error) if is_lease_ended(&error) => {
                    stated = self.stated(agent, Topic::Boots);
                    continue;
                }
                written => written?,
            };
            if written.succeeded {
                return Ok(());
            }
            // another controller has overtaken this change
            let newer = written.responses.first().and_then(|response| response.range.as_ref()?.kvs.first());
            stated = newer.and_then(|kv| {
                stated_by(&kv.value, &self.0.handle, Topic::Boots, kv.mod_revision.unsigned_abs())
            });
        }
        Err(CallError::NotDone(Outage::Refused(OVERTAKEN.to_owned())))
    }

    async fn remove(&self, agent: Uuid) -> Result<(), CallError> {
        self.0.too_large.lock().expect("no holder panics").retain(|(of, _), _| *of != agent);
        let has_any = self.0.mirror().statements.has_any(agent);
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
        // etcd can be used: the next statement takes another lease, or the attach is repeated
        let is_of_store = !is_lease_ended(&error) && !is_overtaken(&error);
        let outage = error.outage();
        if is_of_store {
            self.0.health.record_outage(&outage);
        }
        outage
    }
}

/// Whether etcd refuses a lease that has ended.
fn is_lease_ended(error: &CallError) -> bool {
    matches!(error, CallError::NotDone(Outage::Refused(why)) if why.contains("lease not found"))
}

/// Why the boots of an agent were not stated.
const OVERTAKEN: &str = "the boots of an agent are changed all the time";

fn is_overtaken(error: &CallError) -> bool {
    matches!(error, CallError::NotDone(Outage::Refused(why)) if why == OVERTAKEN)
}

/// Divides changes into those of one transaction each.
fn batches(changes: Vec<StatementChange>) -> Vec<Vec<StatementChange>> {
    let mut batches: Vec<Vec<StatementChange>> = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let added = serde_json::to_string(&change.statement).expect("plain data").len();
        let has_room = |batch: &&mut Vec<StatementChange>| {
            batch.len() < CHANGES_PER_TRANSACTION && bytes + added <= BYTES_PER_TRANSACTION
        };
        match batches.last_mut().filter(has_room) {
            Some(batch) => {
                batch.push(change);
                bytes += added;
            }
            None => {
                batches.push(vec![change]);
                bytes = added;
            }
        }
    }
    batches
}

/// Ends the statements of a handle whose process has ended: they would be taken for those of a controller that serves. Whose
/// it is, is never concluded from an address, which another controller may have, too.
pub(super) async fn end_handle(core: &Core, handle: &str) -> Result<(), CallError> {
    let found = core.client.range(get(core.layout.controller(handle))).await?.kvs;
    if let Some(kv) = found.first()
        && kv.lease != 0
    {
        core.client.revoke_lease(kv.lease).await.ok(); // it has ended by itself meanwhile
    }
    Ok(())
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

    fn change_boots(
        &self,
        agent: Uuid,
        known: Boots,
        change: BootChange,
    ) -> BoxFuture<'_, Result<(), Outage>> {
        Box::pin(
            async move { self.change_boots(agent, known, change).await.map_err(|error| self.outage(error)) },
        )
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
        self.0.mirror().statements.others()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::status::shared_presence::AgentStatement;

    #[test]
    fn a_transaction_has_few_changes_and_few_bytes_unless_one_is_larger() {
        let change = |bytes: usize| StatementChange {
            agent: Uuid(1),
            topic: Topic::Agent,
            statement: Some(Statement::Agent(AgentStatement {
                obstructed_recalls: [(Uuid(2), "x".repeat(bytes))].into(),
                ..AgentStatement::default()
            })),
            replaces: 0,
        };
        let sizes = |bytes: &[usize]| {
            let changes = bytes.iter().map(|bytes| change(*bytes)).collect();
            batches(changes).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[100; 130]), [64, 64, 2]);
        assert_eq!(sizes(&[100 << 10; 11]), [5, 5, 1], "512 KiB have room for five");
        assert_eq!(sizes(&[1, 600 << 10, 1, 1]), [1, 1, 2]);
    }
}
