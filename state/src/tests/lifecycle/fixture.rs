//! The fixture of the tests of the lifecycles.

use crate::lifecycle::unit;
use crate::lifecycle::unit::Destroyed;
use crate::tests::*;

pub fn machine_of(world: &World, unit: Uuid) -> Uuid {
    read(world.reader(), &MODEL.unit(unit)).expect("the unit exists").machine
}

pub fn destroy_unit(world: &mut World, id: Uuid) -> Destroyed {
    world.run(|draft, _| unit::destroy(draft, MODEL, id, 60)).expect("the removal is accepted")
}
