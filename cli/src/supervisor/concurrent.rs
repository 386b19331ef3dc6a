//! Runs a task for each of many items at once, with a bound.
//!
//! Used to stop machines: each takes seconds, in which this process only waits.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// A task that runs, with the index of its item.
type Running<'a, R> = (usize, Pin<Box<dyn Future<Output = R> + 'a>>);

/// Runs `task` for each item, at most `max` of them at once. Returns the results in the order of the items.
pub async fn for_each<T, R>(max: usize, items: &[T], task: impl AsyncFn(&T) -> R) -> Vec<R> {
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let mut waiting = items.iter().enumerate();
    let mut running: Vec<Running<'_, R>> = Vec::new();
    poll_fn(|context| {
        loop {
            while running.len() < max.max(1)
                && let Some((index, item)) = waiting.next()
            {
                running.push((index, Box::pin(task(item))));
            }
            let before = running.len();
            running.retain_mut(|(index, future)| match future.as_mut().poll(context) {
                Poll::Ready(result) => {
                    results[*index] = Some(result);
                    false
                }
                Poll::Pending => true,
            });
            if running.is_empty() && waiting.len() == 0 {
                return Poll::Ready(());
            }
            if running.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    #[tokio::test(flavor = "current_thread")]
    async fn items_are_done_at_once_up_to_the_bound_and_results_keep_their_order() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let started = Instant::now();
        let items: Vec<u64> = (0..16).collect();
        let results = for_each(8, &items, async |item| {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            // the first ones take longest
            sleep(Duration::from_millis(116 - item)).await;
            running.set(running.get() - 1);
            item * 2
        })
        .await;
        assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(most.get(), 8);
        // one after the other it would be 1.7 s
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_items_and_results_without_waiting_are_fine() {
        let none: [u8; 0] = [];
        assert_eq!(for_each(4, &none, async |item| *item).await, none);
        assert_eq!(for_each(0, &[1, 2, 3], async |item| *item).await, [1, 2, 3]);
    }
}
