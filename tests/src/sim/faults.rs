//! Faults that strike between two polls: who dies, freezes, is cut off, loses what.

use crate::sim::fleet::AgentFleet;
use crate::sim::network::{Way, Wire};
use crate::sim::profile::FaultProfile;
use crate::sim::world::{TaskId, Tasks, World};
use state::terms::names::Uuid;

/// Longest partition, and longest time that a disk is full.
const PARTITION_MS: u64 = 40_000;
const FULL_MS: u64 = 20_000;
/// How long an agent is frozen: a few seconds, a minute, an hour.
const FROZEN_MS: [u64; 8] = [3_000, 3_000, 3_000, 20_000, 60_000, 60_000, 60_000, 3_600_000];
/// Ten years in milliseconds: how far the wall clock jumps, either way.
const TEN_YEARS_MS: u64 = 10 * 365 * 24 * 3_600 * 1_000;

/// What concerns the controller or the provider, which are not in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Restarts,
    DiskFull(u64),
    /// A copy of its store is put by, or the one there is is put back.
    Copy,
    Restore,
    /// A machine's instance ends by itself.
    InstanceEnds,
    /// It is gone, with all that is in it.
    InstanceIsLost,
}

/// Perhaps a fault, after `task` was polled and goes on.
pub fn strike(
    (world, wire): (&World, &Wire),
    tasks: &mut Tasks,
    fleet: &mut AgentFleet,
    task: TaskId,
) -> Option<Controller> {
    let mix = world.mix();
    if let Some(folder) = fleet.folder_of(task) {
        at_agent((world, wire), tasks, fleet, folder);
    } else if let Some(machine) = fleet.machine_of(task) {
        if world.strikes(mix.machine_agent_crash) {
            world.tell(|| format!("machine {}: its agent dies", machine.id));
            fleet.start_machine(tasks, machine);
        } else if world.strikes(mix.partition) {
            let (until_ms, way) =
                (world.now_ms() + world.below(PARTITION_MS), Way::ALL[world.below(3) as usize]);
            world.tell(|| format!("network: machine {} is cut off ({way:?}) until {until_ms}", machine.id));
            wire.cut_off(machine.id, until_ms, way);
        }
    } else if tasks.is_message(task) && world.strikes(mix.message_crash) {
        world.tell(|| "controller: a request is dropped half way");
        tasks.drop_task(task);
    }
    // once in so many polls of anybody, where it happens at all
    match world.below(1_000) {
        0 if world.strikes(mix.reboot) => {
            let machines = fleet.machines();
            if let Some(machine) = machines.get(world.below(machines.len() as u64) as usize) {
                fleet.reboot(tasks, machine);
            }
        }
        1 if world.strikes(mix.clock_jumps * 100) => {
            let by = i64::try_from(world.below(2 * TEN_YEARS_MS)).unwrap_or(0) - TEN_YEARS_MS as i64;
            world.tell(|| format!("clocks: set by {by} ms"));
            world.set_wall_clock(by);
        }
        2 => return world.strikes(mix.disk_full * 100).then(|| Controller::DiskFull(world.below(FULL_MS))),
        3..=5 => return world.strikes(mix.restored * 200).then_some(Controller::Copy),
        6..=7 => return world.strikes(mix.restored * 200).then_some(Controller::Restore),
        8 if world.strikes(mix.instance_ends) => return Some(Controller::InstanceEnds),
        9 if world.strikes(mix.instance_lost) => return Some(Controller::InstanceIsLost),
        10..=300 => return world.strikes(mix.controller_crash).then_some(Controller::Restarts),
        _ => {}
    }
    None
}

fn at_agent((world, wire): (&World, &Wire), tasks: &mut Tasks, fleet: &mut AgentFleet, id: Uuid) {
    let mix: &FaultProfile = world.mix();
    let now_ms = world.now_ms();
    let name =
        |fleet: &AgentFleet| fleet.folder(id).map_or(String::new(), |folder| folder.at.name.to_string());
    if world.strikes(mix.agent_crash) {
        fleet.crash(tasks, id);
    } else if world.strikes(mix.partition) {
        let (until_ms, way) = (now_ms + world.below(PARTITION_MS), Way::ALL[world.below(3) as usize]);
        world.tell(|| format!("network: {} is cut off ({way:?}) until {until_ms}", name(fleet)));
        wire.cut_off(id, until_ms, way);
    } else if world.strikes(mix.process_killed) {
        fleet.kill_process(id);
    } else if world.strikes(mix.disk_full) {
        world.tell(|| format!("{}: the disk is full", name(fleet)));
        if let Some(folder) = fleet.folder(id) {
            folder.at.machine.fill(now_ms + world.below(FULL_MS));
        }
    } else if world.below(10) == 0 {
        // rarer ones
        if world.strikes(mix.folder_lost * 10) {
            fleet.lose(tasks, id);
        } else if world.strikes(mix.corrupted * 100) {
            fleet.corrupt(tasks, id);
        } else if mix.copied > 0 && world.chance_of(mix.copied * 10) {
            fleet.copy(tasks, id);
        } else if world.strikes(mix.frozen * 10) {
            let for_ms = FROZEN_MS[world.below(FROZEN_MS.len() as u64) as usize];
            world.tell(|| format!("{}: its agent is frozen for {} s", name(fleet), for_ms / 1000));
            fleet.freeze(tasks, id, now_ms + for_ms);
        }
    }
}
