//! Tests of presence without a shared store.

use super::*;
use state::terms::activity::Activity;
use state::terms::hook_name::HookName;

#[test]
fn an_agent_is_late_after_twenty_silent_seconds_and_lost_after_sixty() {
    let presence = Presence::new(1_000);
    let (here, never) = (Uuid(1), Uuid(2));
    presence.record_request(here, 30_000);
    let presence = |now_ms: u64| presence.snapshot(now_ms, 1_700_000_000_000 + now_ms as i64);
    assert!(!presence(50_000).is_late(here));
    assert!(presence(50_001).is_late(here));
    assert!(!presence(90_000).is_lost(here));
    assert!(presence(90_001).is_lost(here));
    assert_eq!(presence(90_001).last_request_ms(here), 1_700_000_030_000);
    assert!(!presence(61_000).is_lost(never), "the controller itself has just started");
    assert!(presence(61_001).is_lost(never));
    assert_eq!(presence(61_001).last_request_ms(never), 1_700_000_001_000, "since it started");
}

#[test]
fn the_time_of_the_last_request_does_not_waver_and_follows_the_wall_clock() {
    let presence = Presence::new(1_000);
    presence.record_request(Uuid(1), 2_000);
    let last_ms = |now_ms, wall_ms| presence.snapshot(now_ms, wall_ms).last_request_ms(Uuid(1));
    let wall_ms = |now_ms: u64| 1_700_000_000_000 + now_ms as i64;
    assert_eq!(last_ms(5_000, wall_ms(5_000)), wall_ms(2_000));
    assert_eq!(last_ms(6_000, wall_ms(6_000) + 1), wall_ms(2_000), "the clocks are read one after the other");
    assert_eq!(last_ms(7_000, wall_ms(7_000) - 9_000), wall_ms(2_000) - 9_000, "the wall clock was set back");
}

#[test]
fn applying_a_record_ends_its_run_and_keeps_the_next_one() {
    let presence = Presence::new(0);
    let (agent, activity) = (Uuid(1), Activity::hook(HookName::ConfigChanged));
    let executing = |run| Some(ExecutingRun { run, activity: activity.clone(), since_ms: 5 });
    presence.set_executing(agent, executing(4), 1_000);
    presence.clear_executing(agent, 4);
    assert_eq!(presence.snapshot(1_000, 0).executing(agent), None);
    presence.set_executing(agent, executing(5), 1_000);
    presence.clear_executing(agent, 4);
    assert_eq!(presence.snapshot(1_000, 0).executing(agent), executing(5));
}

/// A container reboots by itself. Its agent reports before those of its units attach again, or after them.
#[test]
fn a_unit_has_not_reported_in_the_boot_that_its_machine_has_reported_since_it_attached() {
    let presence = Presence::new(0);
    let (unit, machine) = (Uuid(1), Uuid(2));
    let has_rebooted = || presence.snapshot(9_000, 0).has_rebooted_since_attach(unit, machine);
    presence.change_boots(unit, &BootChange::Attached("first".to_owned()), 1_000);
    assert!(!has_rebooted(), "the boot of the machine is not known");
    presence.change_boots(machine, &BootChange::Reported("first".to_owned()), 2_000);
    assert!(!has_rebooted());
    presence.change_boots(machine, &BootChange::Reported("second".to_owned()), 3_000);
    assert!(has_rebooted());
    presence.change_boots(unit, &BootChange::Attached("second".to_owned()), 4_000);
    assert!(!has_rebooted());
    presence.change_boots(unit, &BootChange::Attached("third".to_owned()), 5_000);
    presence.change_boots(machine, &BootChange::Reported("second".to_owned()), 6_000);
    assert!(!has_rebooted(), "the machine has not reported its third boot yet");
}

#[test]
fn a_report_after_the_record_of_its_run_has_no_effect() {
    let presence = Presence::new(0);
    let (agent, activity) = (Uuid(1), Activity::hook(HookName::Remove));
    let executing = |run| Some(ExecutingRun { run, activity: activity.clone(), since_ms: 5 });
    presence.clear_executing(agent, 4);
    presence.set_executing(agent, executing(4), 1_000);
    assert_eq!(presence.snapshot(1_000, 0).executing(agent), None);
}
