//! A model with many units whose agents have run their first hooks. One unit does so through the handlers; the other units
//! get copies of its documents, because a bench must not take hours.

use super::Admin;
use api::{AddUnits, Attach, Commit, Handle};
use controller::Controller;
use controller::host_environment::HostEnvironment;
use controller::store::sqlite::Sqlite;
use state::documents::draft::{read, read_all};
use state::documents::prelude::{
    BagDoc, GLOBAL, Kind, Model, ReplicaDoc, ScopeDoc, TokenHolder, UnitDoc, last_id,
};
use state::status::unit::next_act;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{CharmRef, Operation};
use state::terms::owner::Owner;
use state::unit::record::{Outcome, Record};
use state::unit::resolve::Act;
use state::unit::writes::Writes;
use std::collections::BTreeSet;
use std::sync::Arc;

pub type BenchController = Controller<Sqlite, HostEnvironment>;

/// The model of [`super::model_with_application`].
pub const MODEL: Model = Model(Uuid(3));
/// Units whose documents one transaction copies: six each.
const COPIED_PER_TRANSACTION: usize = 15;
/// Units that one request adds.
const ADDED: u32 = 1_000;

/// Adds units to the application, whose first hooks have run and which have entered its relations. Returns them.
pub async fn fill(admin: &Admin, units: u32) -> Vec<Uuid> {
    add(admin, 1).await;
    let (first, _) = names(&admin.controller).await.remove(0);
    BenchAgent::attach(&admin.controller, first).await.run_until(|_| false).await;
    for missing in (1..units).rev().step_by(ADDED as usize) {
        add(admin, missing.min(ADDED)).await;
    }
    let all = names(&admin.controller).await;
    assert_eq!(all.len(), units as usize);
    let copied = admin.controller.read(move |reader| {
        let session = read(reader, &MODEL.session(first)).expect("it is attached");
        let agent_status = read(reader, &MODEL.agent_status(first)).expect("it has one");
        let relations: Vec<(Uuid, ScopeDoc, BagDoc)> = read_all::<()>(reader, &MODEL.scopes_of(first))
            .iter()
            .filter_map(|(key, ())| {
                let relation = last_id(key)?;
                let scope = read(reader, &MODEL.scope(relation, relation, first))?;
                Some((relation, scope, read(reader, &MODEL.bag(relation, first))?))
            })
            .collect();
        (read(reader, &MODEL.replica(first)).expect("it has run"), session, agent_status, relations)
    });
    let (replica, session, agent_status, relations) = copied.await;
    for chunk in all.chunks(COPIED_PER_TRANSACTION) {
        let (chunk, replica, relations) = (chunk.to_vec(), replica.clone(), relations.clone());
        let (session, agent_status) = (session.clone(), agent_status.clone());
        let written = admin.controller.run(move |draft| {
            for (id, name) in &chunk {
                let mut own: ReplicaDoc = replica.clone();
                (own.local.unit, own.local.name) = (*id, name.clone());
                draft.put(&MODEL.replica(*id), &own);
                draft.put(&MODEL.session(*id), &session);
                draft.put(&MODEL.agent_status(*id), &agent_status);
                for (relation, scope, bag) in &relations {
                    let scope = ScopeDoc { unit: name.clone(), ..scope.clone() };
                    let bag = BagDoc { owner: Owner::Unit(name.clone()), ..bag.clone() };
                    draft.put(&MODEL.scope(*relation, *relation, *id), &scope);
                    draft.put(&MODEL.scope_of(*id, *relation), &());
                    draft.put(&MODEL.bag(*relation, *id), &bag);
                }
            }
            Ok(())
        });
        written.await.expect("there is room");
    }
    all.into_iter().map(|(id, _)| id).collect()
}

/// Adds units in one request. Returns their names.
pub async fn add(admin: &Admin, units: u32) -> Vec<UnitName> {
    let add = AddUnits { attach_storage: Vec::new(), application: "bench".to_owned(), units, to: None };
    admin.handle(add).await.expect("they are added").answer
}

async fn names(controller: &BenchController) -> Vec<(Uuid, UnitName)> {
    let named = |(key, doc): (String, UnitDoc)| Some((last_id(&key)?, doc.name));
    controller
        .read(move |reader| {
            read_all(reader, &MODEL.prefix(Kind::Unit)).into_iter().filter_map(named).collect()
        })
        .await
}

/// What acts as the agent of one unit, through the handlers.
pub struct BenchAgent {
    unit: Uuid,
    /// The endpoints of its charm.
    endpoints: BTreeSet<String>,
    caller: Admin,
    epoch: u64,
    sequence: u64,
    previous_digest: String,
}

impl BenchAgent {
    /// Attaches as the first agent of a unit.
    pub async fn attach(controller: &Arc<BenchController>, unit: Uuid) -> BenchAgent {
        let endpoints = controller.read(|reader| {
            let charm = read(reader, &GLOBAL.archive("bench")).expect("it is registered");
            charm.charm.map(|charm| charm.endpoints.keys().cloned().collect()).unwrap_or_default()
        });
        let endpoints = endpoints.await;
        let caller = controller.caller(TokenHolder::Unit { model: MODEL, unit });
        let attach = Attach {
            nonce: Uuid(4),
            epoch: 0,
            store_generation: None,
            teardown_started: false,
            boot: String::new(),
        };
        let epoch = caller.handle(attach).await.expect("it is the first").answer.epoch;
        BenchAgent { unit, endpoints, caller, epoch, sequence: 0, previous_digest: String::new() }
    }

    /// Runs what the unit does next, until `is_last` is true for that or it does nothing any more. Returns what it would do
    /// next.
    pub async fn run_until(&mut self, is_last: impl Fn(&Operation) -> bool) -> Option<Operation> {
        loop {
            let operation = self.next().await?;
            if is_last(&operation) {
                return Some(operation);
            }
            self.commit(operation, Writes::default()).await;
        }
    }

    /// What the unit does next.
    async fn next(&self) -> Option<Operation> {
        if self.sequence == 0 {
            return Some(Operation::InstallCharm(CharmRef {
                url: "local:bench-0".to_owned(),
                sha256: "bench".to_owned(),
                revision: 0,
                endpoints: self.endpoints.clone(),
                resources: String::new(),
            }));
        }
        let unit = self.unit;
        match self.caller.controller.read(move |reader| next_act(reader, MODEL, unit, String::new())).await {
            Some(Act::Start(run)) => Some(run.operation),
            // a scope entry runs no program
            Some(Act::RecordOutcome(record)) => Some(record.operation),
            _ => None,
        }
    }

    /// Commits the next record.
    pub async fn commit(&mut self, operation: Operation, writes: Writes) {
        self.sequence += 1;
        let record = Record {
            sequence: self.sequence,
            previous_digest: std::mem::take(&mut self.previous_digest),
            run: self.sequence,
            operation,
            outcome: Outcome::Ok,
            episode: None,
            leader_generation: None,
            reboot: None,
            deleted_files: Default::default(),
            resync_local: None,
            writes,
            hook_log: None,
            reports: Vec::new(),
            at_ms: 5,
        };
        self.previous_digest = record.digest();
        let commit = Commit { epoch: self.epoch, record };
        let outcome = self.caller.handle(commit).await.expect("it is the next one").answer;
        assert_eq!(outcome.refusal, None);
    }
}
