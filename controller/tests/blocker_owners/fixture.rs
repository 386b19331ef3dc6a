//! The fixture of these tests: the causes of an entity, and the session of a machine agent.

use crate::support::*;
use api::{GetWhy, Handle, SetMachineToken};
use state::terms::cause::{Cause, Entity};
use state::terms::names::{UnitName, Uuid};
use test_support::memory_store::MemoryStore;

pub type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

pub async fn causes(fixture: &MemoryFixture, entity: &str) -> Vec<Cause> {
    fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect("it exists").causes
}

/// Returns the first cause of `entity`.
pub fn cause_of<'a>(causes: &'a [Cause], entity: &Entity) -> &'a Cause {
    let found = causes.iter().find(|cause| cause.entity == *entity);
    found.unwrap_or_else(|| panic!("{entity:?} in {causes:#?}"))
}

pub fn unit(name: &str) -> UnitName {
    name.parse().expect("a unit's name")
}

pub fn now(fixture: &MemoryFixture) -> Option<i64> {
    use controller::Environment as _;
    Some(fixture.controller.environment.wall_ms())
}

/// Opens the session of a machine's agent.
pub async fn machine_agent(
    fixture: &MemoryFixture,
    machine: Uuid,
) -> controller::AuthenticatedCaller<MemoryStore, FakeEnvironment> {
    let token = "ab".repeat(32);
    fixture
        .admin
        .handle(SetMachineToken { machine, token: token.to_owned() })
        .await
        .expect("the token is stored");
    fixture.controller.authenticate(&token).await.expect("the token is valid")
}
