//! Tests of the delays between attempts to reach an agent.

use hook_client::reconnect::{PAUSE_MAX_MS, Pauses, WAIT_MAX_MS};

#[test]
fn the_total_delay_is_thirty_seconds() {
    assert_eq!(WAIT_MAX_MS, 30_000);
    assert_eq!(Pauses::new().sum::<u32>(), 30_000);
}

#[test]
fn delays_begin_small_and_grow_to_a_constant() {
    let pauses: Vec<u32> = Pauses::new().collect();
    assert!(pauses[0] <= 10);
    let but_the_last = &pauses[..pauses.len() - 1];
    assert!(but_the_last.is_sorted());
    assert_eq!(but_the_last.last(), Some(&PAUSE_MAX_MS));
}
