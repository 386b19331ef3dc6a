//! Refusals of requests about machines and their instances, in English.

use crate::text::refusal::refusal_text::{RefusalText, plain, with_hint};
use state::terms::names::UnitName;
use state::terms::refusal::instance::InstanceRefusal;
use state::terms::refusal::machine::MachineRefusal;

pub(super) fn text(reason: &MachineRefusal) -> RefusalText {
    match reason {
        MachineRefusal::NotAlive { machine } => {
            plain(format!("cannot assign a unit to machine {machine}: the machine is not alive"))
        }
        MachineRefusal::Full { machine, max } => with_hint(
            format!("cannot assign a unit to machine {machine}: it has {max} units, the maximum"),
            "use another machine, or remove a unit from this one",
        ),
        MachineRefusal::WithoutAgent { machine } => plain(format!(
            "cannot place a unit on machine {machine}: it belongs to a fake application and has no agent"
        )),
        MachineRefusal::UnitsAlive { machine, units } => {
            let names = units.iter().map(UnitName::to_string).collect::<Vec<_>>().join(", ");
            let assigned = match units.len() {
                1 => format!("unit {names} is"),
                _ => format!("units {names} are"),
            };
            plain(format!("cannot remove machine {machine}: {assigned} assigned to it"))
        }
        MachineRefusal::InstanceBeingReleased { machine } => plain(format!(
            "cannot keep the instance of machine {machine}: the machine is Dead and its instance is being terminated"
        )),
        MachineRefusal::NoInstance { machine } => {
            plain(format!("cannot keep the instance of machine {machine}: no instance has been started"))
        }
        MachineRefusal::Alive { machine } => plain(format!("machine {machine} is alive")),
        MachineRefusal::UnitsAssigned { machine } => {
            plain(format!("machine {machine} cannot be dead: units are assigned to it"))
        }
        MachineRefusal::NoUnit { machine } => with_hint(
            format!(
                "cannot run commands on machine {machine}: no unit is assigned to it, and the agent of a unit runs them"
            ),
            format!("pintle ssh {machine} -- COMMAND"),
        ),
        MachineRefusal::NotDead { machine } => {
            plain(format!("cannot remove machine {machine}: it is not dead"))
        }
    }
}

pub(super) fn instance(reason: &InstanceRefusal) -> RefusalText {
    plain(match reason {
        InstanceRefusal::MachineNotAlive => "cannot start an instance: the machine is not alive".to_owned(),
        InstanceRefusal::NonceNotReserved => {
            "cannot record the instance: its nonce was not reserved".to_owned()
        }
        InstanceRefusal::NoProvisioningError { machine } => {
            format!("machine {machine} has no provisioning error")
        }
        InstanceRefusal::NotManual { machine } => {
            format!("machine {machine} is made by its provider: it needs no token")
        }
        InstanceRefusal::AlreadyEnrolled { machine } => {
            format!("machine {machine} has been enrolled already")
        }
        InstanceRefusal::InvalidAddress { address } => {
            format!("invalid machine address {address:?}: expected an IP address")
        }
        InstanceRefusal::TokenInvalid => "not authorised: the enrolment token was revoked or used".to_owned(),
        InstanceRefusal::MachineBeingRemoved { machine } => format!("machine {machine} is being removed"),
    })
}
