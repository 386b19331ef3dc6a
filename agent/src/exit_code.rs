//! The exit codes of the agents.
//!
//! The machine agent and systemd derive from them whether an agent is restarted; the machine agent reports the fault. A
//! unit agent that cannot continue ends with the code of its fault, because on a full disk no report can be written.

use state::terms::health::Fault;

/// The agent received a signal or must restart. It is started again unless the machine agent stopped it.
pub const SIGNALLED: u8 = 15;
/// An agent that may not serve the unit or machine: another agent locks the folder, or the folder is a copy or has
/// diverged.
pub const NOT_OWNER: u8 = 5;
/// An agent whose disk failed (EX_IOERR of sysexits).
pub const DISK: u8 = 74;
/// The first fault of [`Fault::ALL`]; the next ones follow. No program and no shell uses these.
const FAULT_FIRST: u8 = 80;

/// The exit code of an agent that ends because of this fault.
pub fn of_fault(fault: Fault) -> u8 {
    let index = Fault::ALL.iter().position(|known| *known == fault).unwrap_or_default();
    FAULT_FIRST + u8::try_from(index).unwrap_or_default()
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
        assert_eq!(fault(i32::from(SIGNALLED)), None, "an agent that restarts");
        assert_eq!(fault(127), None, "a program that a shell does not find");
    }
}
