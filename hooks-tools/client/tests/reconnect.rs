//! How long a tool looks for an agent that is being restarted.

use hook_client::reconnect::{PAUSE_MS_MAX, Pauses, WAIT_MS_MAX};

#[test]
fn waiting_is_bounded_by_thirty_seconds_in_all() {
    assert_eq!(WAIT_MS_MAX, 30_000);
    assert_eq!(Pauses::new().sum::<u32>(), 30_000);
}

#[test]
fn pauses_begin_small_and_grow_to_an_even_pace() {
    let pauses: Vec<u32> = Pauses::new().collect();
    assert!(pauses[0] <= 10);
    let but_the_last = &pauses[..pauses.len() - 1];
    assert!(but_the_last.is_sorted());
    assert_eq!(but_the_last.last(), Some(&PAUSE_MS_MAX));
}
