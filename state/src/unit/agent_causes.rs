//! The causes for a unit agent that does not run, or whose folder shows a problem.
//!
//! The controller derives them from the reports of the machine agent, and `pintle-agent why` from the unit's folder, which
//! alone shows refused requests and missing hook tools. `machine` is the name of the unit's machine, if known.

use crate::terms::cause::{Actor, Cause, Duty, Entity};
use crate::terms::health::UnitHealth;
use crate::terms::names::UnitName;

fn cause(unit: &UnitName, duty: Duty, actor: Actor) -> Cause {
    Cause::new(Entity::Unit(unit.clone()), duty, actor)
}

/// The agent of the unit's machine.
pub(super) fn machine_agent(machine: Option<&str>) -> Actor {
    machine.map_or(Actor::OwnMachineAgent, |name| Actor::MachineAgent(name.to_owned()))
}

/// The cause for an agent that cannot continue or has ended: a person has to clear its fault; without a fault, its
/// machine agent has to start it again. None if neither was observed.
pub fn failed_agent(unit: &UnitName, machine: Option<&str>, health: &UnitHealth) -> Option<Cause> {
    let name = machine.map(str::to_owned);
    let (since_ms, last_error) =
        health.exit.as_ref().map_or((None, None), |exit| (Some(exit.since_ms), exit.last_error.clone()));
    let cause = match (health.fault(), &health.exit) {
        (Some(fault), _) => cause(unit, Duty::ClearFault { fault, machine: name }, Actor::Operator),
        (None, Some(exit)) => {
            let duty = Duty::RestartUnitAgent { machine: name, exit: exit.clone() };
            cause(unit, duty, machine_agent(machine))
        }
        (None, None) => return None,
    };
    Some(cause.since(since_ms).last_error(last_error))
}

/// The cause for damaged files that were set aside; none without such files.
pub fn set_aside(unit: &UnitName, machine: Option<&str>, files: Vec<String>) -> Option<Cause> {
    let duty = |files| Duty::InspectSetAside { files, machine: machine.map(str::to_owned) };
    (!files.is_empty()).then(|| cause(unit, duty(files), Actor::Operator))
}

/// The cause for an agent that is to be started.
pub fn not_started(unit: &UnitName, machine: Option<&str>) -> Cause {
    cause(unit, Duty::StartUnitAgent { machine: machine.map(str::to_owned) }, machine_agent(machine))
}

/// The cause for an agent that runs, and whose requests the controller does not accept.
pub fn refused_requests(unit: &UnitName) -> Cause {
    cause(unit, Duty::AcceptRequests, Actor::Controller)
}

/// The cause for an agent that does not start because the program behind the hook tools is missing.
pub fn missing_hook_tools(unit: &UnitName) -> Cause {
    cause(unit, Duty::InstallHookTools, Actor::Operator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::health::{Fault, ProcessEnd, UnitAgentExit};

    #[test]
    fn a_person_clears_a_fault_and_the_machine_agent_restarts_the_rest() {
        let unit = UnitName::new("web", 0);
        let exit = |fault| {
            let exit = UnitAgentExit {
                end: ProcessEnd::Code(1),
                fault,
                last_error: Some("x".to_owned()),
                since_ms: 5,
                at_ms: 6,
                count: 1,
            };
            UnitHealth { exit: Some(exit), ..UnitHealth::default() }
        };
        let actor =
            |machine, health: &UnitHealth| failed_agent(&unit, machine, health).map(|cause| cause.actor);
        assert_eq!(actor(Some("0"), &exit(Some(Fault::Disk))), Some(Actor::Operator));
        assert_eq!(actor(Some("0"), &exit(None)), Some(Actor::MachineAgent("0".to_owned())));
        assert_eq!(actor(None, &exit(None)), Some(Actor::OwnMachineAgent));
        assert_eq!(actor(Some("0"), &UnitHealth::default()), None);
        let ended = failed_agent(&unit, None, &exit(None)).expect("it has ended");
        assert_eq!((ended.since_ms, ended.last_error.is_some()), (Some(5), true));
    }
}
