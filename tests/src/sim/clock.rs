//! The clock of an agent: virtual time since the boot of its machine, and the virtual wall clock.

use crate::sim::machine::Machine;
use crate::sim::mutants::Mutant;
use crate::sim::world::World;
use agent::ports::Clock;
use state::terms::names::Uuid;

pub struct SimClock {
    pub world: World,
    pub machine: Machine,
}

impl SimClock {
    /// The deviation of the wall clock, for the mutant that makes the time since boot follow it; otherwise 0.
    fn skew_ms(&self) -> i64 {
        if self.world.profile().has(Mutant::TimersFollowWallClock) { self.world.wall_skew_ms() } else { 0 }
    }
}

impl Clock for SimClock {
    fn boot(&self) -> String {
        self.machine.boot()
    }
    fn since_boot_ms(&self) -> u64 {
        let since_ms = self.world.now_ms() - self.machine.booted_ms();
        since_ms.saturating_add_signed(self.skew_ms())
    }
    fn wall_ms(&self) -> i64 {
        self.world.wall_ms()
    }
    async fn sleep_until(&self, since_boot_ms: u64) {
        // at least one millisecond, so that a wait always yields
        let at_ms =
            self.machine.booted_ms().saturating_add(since_boot_ms).saturating_add_signed(-self.skew_ms());
        self.world.sleep_until(at_ms.max(self.world.now_ms() + 1)).await;
    }
    fn random_uuid(&self) -> Uuid {
        Uuid(self.world.random_u128())
    }
}
