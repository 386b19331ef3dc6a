//! The exit codes of the agents.
//!
//! An agent is started again unless its code is 0: by systemd, or a unit agent that is a child process by its machine
//! agent, or a machine agent that is a child process by the supervisor of `pintle up`. The machine agent starts a child
//! with [`RESTART`] again without a delay, and one with any other code with a back-off. It reports the fault of a code. A
//! unit agent that cannot continue ends with the code of its fault, because on a full disk no report can be written.

use state::terms::health::Fault;

/// The agent received SIGTERM, its configuration changed, its tool socket was deleted, or it must attach again. It has not
/// failed and is started again, unless it was stopped on purpose: by systemd after `RestartSec=1`, by the machine agent at
/// once, up to a number of times in a row (`host::restart`).
pub const RESTART: u8 = 15;
/// An agent that may not serve the unit or machine: another agent locks the folder, or the folder is a copy, has
/// diverged or has the state of another unit.
pub const NOT_OWNER: u8 = 5;
/// The agent cannot load or save its state, and the error is no [`Fault`] (EX_IOERR of sysexits). A disk that returns errors
/// has the code of [`Fault::Disk`].
pub const STATE_ERROR: u8 = 74;
/// The first fault of [`Fault::ALL`]; the next ones follow. They lie between those of sysexits (64 to 78) and
/// of shells (from 126).
const FAULT_FIRST: u8 = 80;

/// The exit code of an agent that ends because of this fault.
pub fn of_fault(fault: Fault) -> u8 {
    let index = Fault::ALL.iter().position(|known| *known == fault).expect("ALL has every fault");
    FAULT_FIRST + u8::try_from(index).expect("few faults")
}

/// The fault with this exit code. None if no fault has it.
pub fn fault(code: i32) -> Option<Fault> {
    let index = usize::try_from(code - i32::from(FAULT_FIRST)).ok()?;
    Fault::ALL.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_survives_the_end_of_its_process_as_an_exit_code() {
        for known in Fault::ALL {
            assert_eq!(fault(i32::from(of_fault(*known))), Some(*known));
        }
        assert_eq!(fault(1), None);
        assert_eq!(fault(i32::from(RESTART)), None, "an agent that restarts");
        assert_eq!(fault(127), None, "a program that a shell does not find");
    }
}
