//! Maps a slice on several threads.

use std::thread;

/// More threads than this do not make `stat` calls and decoding quicker.
const MOST_THREADS: usize = 8;

/// What `map` makes of each item, in their order. `least`: items of a thread, at least.
pub(super) fn parallel_map<T: Sync, R: Send>(items: &[T], least: usize, map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let size = items.len().div_ceil(cores).max(least).max(1);
    let part = |items: &[T]| items.iter().map(&map).collect::<Vec<R>>();
    thread::scope(|scope| {
        let part = &part;
        let mut parts = items.chunks(size);
        let mine = parts.next();
        // This thread does the parts of those that cannot be started.
        let start = |items| (items, thread::Builder::new().spawn_scoped(scope, move || part(items)).ok());
        let others: Vec<_> = parts.map(start).collect();
        let mut results = mine.map(part).unwrap_or_default();
        for (items, other) in others {
            results.extend(match other {
                Some(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                None => part(items),
            });
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for (count, least) in [(0, 1), (1, 1), (7, 1), (7, 100), (1000, 1), (1001, 64)] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(parallel_map(&items, least, |item| item + 1), (1..=count).collect::<Vec<usize>>());
        }
    }
}
