//! The load generator with few units: they come up, their controller is killed and started again, and all of them are back.

use tests::host::programs;
use tests::swarm::scenario::Swarm;

const UNITS: usize = 20;

#[test]
fn all_units_are_back_after_the_controller_was_killed_and_no_record_is_lost() {
    let program = programs().join("pintle-controller");
    let scratch = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let records = tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut swarm = Swarm::new(&program, scratch.path(), UNITS, UNITS / 2).await.expect("it starts");
        swarm.come_up().await.expect("all units come up");
        let idle = swarm.restart(false).await.expect("all units are back");
        assert!(idle.counts.answered >= UNITS as u64, "each opened its watch: {:?}", idle.counts);
        swarm.restart(true).await.expect("all units are back");
        swarm.relate().await.expect("all units join");
        swarm.verify_nothing_lost().await.expect("nothing was lost")
    });
    // each unit has installed its charm and run three first hooks, a changed setting, and entered and joined a relation
    assert!(records >= UNITS as u64 * 7, "{records}");
}
