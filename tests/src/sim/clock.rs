//! The agent's clock: virtual, since the boot of its machine.

use crate::sim::machine::Machine;
use crate::sim::world::World;
use agent::ports::Clock;
use state::names::Uuid;

pub struct SimClock {
    pub world: World,
    pub machine: Machine,
}

impl Clock for SimClock {
    fn boot(&self) -> String {
        self.machine.boot().0
    }
    fn since_boot_ms(&self) -> u64 {
        self.world.now_ms() - self.machine.boot().1
    }
    fn wall_ms(&self) -> i64 {
        self.world.wall_ms()
    }
    async fn sleep_until(&self, since_boot_ms: u64) {
        // one millisecond at least: a wait gives way
        let at_ms = self.machine.boot().1.saturating_add(since_boot_ms);
        self.world.sleep_until(at_ms.max(self.world.now_ms() + 1)).await;
    }
    fn fresh(&self) -> Uuid {
        Uuid(self.world.bits())
    }
}
