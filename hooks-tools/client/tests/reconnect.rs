//! Tests of the delays between attempts to reach an agent.

use hook_client::reconnect::{DELAY_MAX_MS, DELAY_SUM_MAX_MS, ReconnectDelays};

#[test]
fn the_total_delay_is_thirty_seconds() {
    assert_eq!(DELAY_SUM_MAX_MS, 30_000);
    assert_eq!(ReconnectDelays::new().sum::<u32>(), 30_000);
}

#[test]
fn delays_begin_small_and_grow_to_a_constant() {
    let delays: Vec<u32> = ReconnectDelays::new().collect();
    assert!(delays[0] <= 10);
    let but_the_last = &delays[..delays.len() - 1];
    assert!(but_the_last.is_sorted());
    assert_eq!(but_the_last.last(), Some(&DELAY_MAX_MS));
}
