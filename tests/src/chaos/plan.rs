//! The faults of a run, which are drawn from its seed: the same seed and numbers of processes give the same plan.

use std::fmt;

/// What a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A member of etcd.
    Member(usize),
    /// A controller.
    Controller(usize),
    /// The agent of a unit.
    Agent(usize),
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is killed with SIGKILL, and started again in the end.
    Kill,
    /// It is stopped with SIGSTOP, and continued in the end.
    Stop,
    /// What it sends is dropped until the end.
    CutOff,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it begins, after the start of the run.
    pub begin_ms: u64,
    /// When it ends.
    pub end_ms: u64,
    /// What it strikes.
    pub target: Target,
    /// What happens.
    pub fault: Fault,
}

/// The numbers of processes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The members of etcd.
    pub members: usize,
    /// The controllers.
    pub controllers: usize,
    /// The units that pass balls.
    pub units: usize,
    /// Whether processes can be cut off, which needs root.
    pub can_cut_off: bool,
}

/// The most faults at once.
const FAULTS_AT_ONCE: usize = 2;
/// The bounds of the pause before the next fault begins.
const PAUSE_MS: (u64, u64) = (500, 4_000);
/// The bounds of the length of most faults.
const SHORT_MS: (u64, u64) = (300, 8_000);
/// One fault of so many is long: longer than the 30 s of the lease with which a controller states what it knows.
const LONG_OF: u64 = 12;
/// The bounds of its length. Below the 60 s after which a controller that waits for an outcome exits.
const LONG_MS: (u64, u64) = (32_000, 45_000);

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn between(&mut self, bounds: (u64, u64)) -> u64 {
        bounds.0 + self.below(bounds.1 - bounds.0)
    }
}

/// Draws the faults that begin and end within a time.
pub fn plan(seed: u64, length_ms: u64, sizes: Sizes) -> Vec<Planned> {
    let mut random = Random(seed);
    let mut planned: Vec<Planned> = Vec::new();
    let mut now = 0;
    loop {
        now += random.between(PAUSE_MS);
        let is_long = random.below(LONG_OF) == 0 && length_ms > 4 * LONG_MS.1;
        let length = random.between(if is_long { LONG_MS } else { SHORT_MS });
        // Members and controllers are struck as often as each other, and agents half as often.
        let target = match random.below(5) {
            0 | 1 => Target::Member(random.below(sizes.members as u64) as usize),
            2 | 3 => Target::Controller(random.below(sizes.controllers as u64) as usize),
            _ => Target::Agent(random.below(sizes.units as u64) as usize),
        };
        let fault = match (target, random.below(3)) {
            (Target::Agent(_), _) | (_, 0) => Fault::Kill,
            (_, 1) if sizes.can_cut_off => Fault::CutOff,
            _ => Fault::Stop,
        };
        if now >= length_ms {
            return planned;
        }
        let running: Vec<&Planned> = planned.iter().filter(|other| other.end_ms > now).collect();
        if running.len() < FAULTS_AT_ONCE && running.iter().all(|other| other.target != target) {
            planned.push(Planned { begin_ms: now, end_ms: (now + length).min(length_ms), target, fault });
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.fault {
            Fault::Kill => "kill",
            Fault::Stop => "stop",
            Fault::CutOff => "cut off",
        };
        let seconds = (self.end_ms - self.begin_ms) as f64 / 1_000.0;
        match self.target {
            Target::Member(number) => write!(out, "{verb} member {number}, {seconds:.1} s"),
            Target::Controller(number) => write!(out, "{verb} controller {number}, {seconds:.1} s"),
            Target::Agent(number) => write!(out, "{verb} the agent of unit {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { members: 3, controllers: 3, units: 20, can_cut_off: true };

    #[test]
    fn the_same_seed_gives_the_same_faults_and_each_kind_occurs() {
        let faults = plan(1, 600_000, SIZES);
        assert_eq!(faults, plan(1, 600_000, SIZES));
        assert_ne!(faults, plan(2, 600_000, SIZES));
        for fault in [Fault::Kill, Fault::Stop, Fault::CutOff] {
            for is_member in [true, false] {
                let strikes =
                    |it: &&Planned| it.fault == fault && matches!(it.target, Target::Member(_)) == is_member;
                assert!(faults.iter().any(|it| strikes(&it)), "{fault:?}");
            }
        }
        assert!(faults.iter().any(|it| it.end_ms - it.begin_ms > 30_000));
        assert!(
            plan(1, 600_000, Sizes { can_cut_off: false, ..SIZES })
                .iter()
                .all(|it| it.fault != Fault::CutOff)
        );
    }

    #[test]
    fn a_process_has_one_fault_at_a_time_and_all_end() {
        let faults = plan(7, 600_000, SIZES);
        for (index, fault) in faults.iter().enumerate() {
            let overlaps = |it: &&Planned| it.begin_ms < fault.end_ms && fault.begin_ms < it.end_ms;
            let others = faults.iter().skip(index + 1).filter(overlaps);
            assert!(others.clone().all(|it| it.target != fault.target), "{fault:?}");
            assert!(fault.begin_ms < fault.end_ms && fault.end_ms <= 600_000);
        }
    }
}
