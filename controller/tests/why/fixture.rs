//! The fixture of the tests of `why`: agents that run until they are idle, and the causes of an entity.

use crate::support::*;
use api::{GetWhy, Handle};
use controller::AuthenticatedCaller;
use state::status::unit::next_act;
use state::terms::activity::Activity;
use state::terms::cause::{Cause, Duty};
use state::terms::operation::{CharmRef, Operation};
use state::unit::resolve::Act;
use std::collections::BTreeSet;
use test_support::memory_store::MemoryStore;

pub type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

pub async fn causes(fixture: &MemoryFixture, entity: &str) -> Vec<Cause> {
    fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect("it exists").causes
}

/// The most operations that a unit of these tests has to run until it is idle: each runs fewer than ten hooks.
const OPERATIONS_MAX: usize = 40;

/// Commits the operations of a unit's agent until it has nothing to do.
pub async fn run_until_idle(
    fixture: &MemoryFixture,
    agent: &mut Agent<AuthenticatedCaller<MemoryStore, FakeEnvironment>>,
    unit: &str,
) {
    let (id, model) = (fixture.unit(unit).await, fixture.model);
    for _ in 0..OPERATIONS_MAX {
        match fixture.controller.read(move |reader| next_act(reader, model, id, String::new())).await {
            Some(Act::Start(run)) => agent.commit(agent.record(run.operation)).await,
            Some(Act::RecordOutcome(record)) => agent.commit(agent.record(record.operation)).await,
            Some(Act::Wait(_) | Act::Finish) => return,
            act => panic!("{unit}: the test performs no {act:?}"),
        };
    }
    panic!("{unit} is not idle after {OPERATIONS_MAX} operations");
}

/// Attaches a unit's agent and runs it until it is idle.
pub async fn idle_agent(
    fixture: &MemoryFixture,
    unit: &str,
) -> Agent<AuthenticatedCaller<MemoryStore, FakeEnvironment>> {
    let application = unit.split('/').next().expect("a unit's name").to_owned();
    let mut agent = fixture.attach_agent(unit).await;
    let endpoint = if application == "db" { "server" } else { "db" };
    let charm = CharmRef {
        url: format!("local:{application}-0"),
        sha256: application,
        revision: 0,
        endpoints: BTreeSet::from([endpoint.to_owned()]),
        resources: String::new(),
    };
    agent.commit(agent.record(Operation::InstallCharm(charm))).await;
    run_until_idle(fixture, &mut agent, unit).await;
    agent
}

/// Returns the unit's only pending operation and the time since which it is pending.
pub async fn pending(fixture: &MemoryFixture, unit: &str) -> (Activity, Option<i64>) {
    let all = causes(fixture, unit).await;
    let pending = all.iter().filter_map(|cause| match &cause.duty {
        Duty::Start { activity, .. } => Some((activity.clone(), cause.since_ms)),
        _ => None,
    });
    let [pending] = &pending.collect::<Vec<_>>()[..] else {
        panic!("{unit}: expected one pending operation, got {all:?}")
    };
    pending.clone()
}
