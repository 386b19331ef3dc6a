//! Fault injection between two polls: crashes, freezes, partitions, full disks and lost data.
//!
//! The profile of the seed decides how often each fault occurs. Called by `system` after each poll during chaos.

use crate::sim::fleet::AgentFleet;
use crate::sim::network::{Direction, SimNetwork};
use crate::sim::profile::FaultProfile;
use crate::sim::world::tasks::Tasks;
use crate::sim::world::{TaskId, World};
use state::terms::names::Uuid;

/// Longest partition, and longest time that a disk is full.
const PARTITION_MS: u64 = 40_000;
const FULL_MS: u64 = 20_000;
/// How long an agent is frozen: seconds, a minute or an hour.
const FROZEN_MS: [u64; 8] = [3_000, 3_000, 3_000, 20_000, 60_000, 60_000, 60_000, 3_600_000];
/// Ten years in milliseconds: how far the wall clock jumps in either direction.
const TEN_YEARS_MS: u64 = 10 * 365 * 24 * 3_600 * 1_000;

/// A fault of the controller or the provider, which `system` applies because they are not in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerFault {
    Restarts,
    DiskFull(u64),
    /// A backup of the store is made, or the store is restored from it.
    Backup,
    Restore,
    /// The instance of a machine stops by itself.
    InstanceEnds,
    /// The instance of a machine vanishes with everything on it.
    InstanceIsLost,
}

/// Injects a fault at random after `task` was polled and did not finish.
pub fn inject(
    (world, network): (&World, &SimNetwork),
    tasks: &mut Tasks,
    fleet: &mut AgentFleet,
    task: TaskId,
) -> Option<ControllerFault> {
    let profile = world.profile();
    if let Some(folder) = fleet.folder_of(task) {
        inject_into_agent((world, network), tasks, fleet, folder);
    } else if let Some(machine) = fleet.machine_of(task) {
        if world.draws_fault(profile.machine_agent_crash) {
            world.trace(|| format!("machine {}: the agent crashes", machine.id));
            fleet.start_machine(tasks, machine);
        } else if world.draws_fault(profile.partition) {
            let (until_ms, direction) =
                (world.now_ms() + world.below(PARTITION_MS), Direction::ALL[world.below(3) as usize]);
            world.trace(|| {
                format!("network: machine {} is cut off ({direction:?}) until {until_ms}", machine.id)
            });
            network.cut_off(machine.id, until_ms, direction);
        }
    } else if tasks.is_message(task) && world.draws_fault(profile.message_crash) {
        world.trace(|| "controller: a request is dropped half way");
        tasks.drop_task(task);
    }
    // the range of a fault sets how often it is considered, in polls of all tasks; the profile sets its chance
    // then
    match world.below(1_000) {
        0 if world.draws_fault(profile.reboot) => {
            let machines = fleet.machines();
            if let Some(machine) = machines.get(world.below(machines.len() as u64) as usize) {
                fleet.reboot(tasks, machine);
            }
        }
        1 if world.draws_fault(profile.clock_jumps * 100) => {
            let by = i64::try_from(world.below(2 * TEN_YEARS_MS)).unwrap_or(0) - TEN_YEARS_MS as i64;
            world.trace(|| format!("clocks: set by {by} ms"));
            world.set_wall_clock(by);
        }
        2 => {
            return world
                .draws_fault(profile.disk_full * 100)
                .then(|| ControllerFault::DiskFull(world.below(FULL_MS)));
        }
        3..=5 => return world.draws_fault(profile.restored * 200).then_some(ControllerFault::Backup),
        6..=7 => return world.draws_fault(profile.restored * 200).then_some(ControllerFault::Restore),
        8 if world.draws_fault(profile.instance_ends) => return Some(ControllerFault::InstanceEnds),
        9 if world.draws_fault(profile.instance_lost) => return Some(ControllerFault::InstanceIsLost),
        10..=300 => return world.draws_fault(profile.controller_crash).then_some(ControllerFault::Restarts),
        _ => {}
    }
    None
}

fn inject_into_agent(
    (world, network): (&World, &SimNetwork),
    tasks: &mut Tasks,
    fleet: &mut AgentFleet,
    id: Uuid,
) {
    let profile: &FaultProfile = world.profile();
    let now_ms = world.now_ms();
    let name = |fleet: &AgentFleet| {
        fleet.folder(id).map_or(String::new(), |folder| folder.location.name.to_string())
    };
    if world.draws_fault(profile.agent_crash) {
        fleet.crash(tasks, id);
    } else if world.draws_fault(profile.partition) {
        let (until_ms, direction) =
            (now_ms + world.below(PARTITION_MS), Direction::ALL[world.below(3) as usize]);
        world.trace(|| format!("network: {} is cut off ({direction:?}) until {until_ms}", name(fleet)));
        network.cut_off(id, until_ms, direction);
    } else if world.draws_fault(profile.process_killed) {
        fleet.kill_process(id);
    } else if world.draws_fault(profile.disk_full) {
        world.trace(|| format!("{}: the disk is full", name(fleet)));
        if let Some(folder) = fleet.folder(id) {
            folder.location.machine.fill(now_ms + world.below(FULL_MS));
        }
    } else if world.below(10) == 0 {
        // rarer faults
        if world.draws_fault(profile.folder_lost * 10) {
            fleet.lose_folder(tasks, id);
        } else if world.draws_fault(profile.corrupted * 100) {
            fleet.corrupt(tasks, id);
        } else if profile.folder_copied > 0 && world.chance_of(profile.folder_copied * 10) {
            fleet.copy(tasks, id);
        } else if world.draws_fault(profile.agent_frozen * 10) {
            let for_ms = FROZEN_MS[world.below(FROZEN_MS.len() as u64) as usize];
            world.trace(|| format!("{}: its agent is frozen for {} s", name(fleet), for_ms / 1000));
            fleet.freeze(tasks, id, now_ms + for_ms);
        }
    }
}
