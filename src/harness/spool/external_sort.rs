//! Sorting what memory is not to hold: sorted runs in a file, then all runs merged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;

use super::blocks::{BlockFile, BlockReader, BlockWriter};
use super::{Spool, SpoolFault, SpoolValue, SpoolWriter};

/// The next value of a run. Of equal keys the earlier run's comes first, so that the sort is stable.
struct Head<K, T> {
    key: K,
    run: usize,
    value: T,
}

impl<K: Ord, T> Ord for Head<K, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.run.cmp(&other.run))
    }
}

impl<K: Ord, T> PartialOrd for Head<K, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, T> PartialEq for Head<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K: Ord, T> Eq for Head<K, T> {}

/// Values in the order of their keys, with at most `most` of them in memory; equal keys stay as they come.
pub(super) fn sorted<T: SpoolValue, K: Ord>(
    values: impl Iterator<Item = T>,
    key: impl Fn(&T) -> K,
    most: usize,
    fault: &SpoolFault,
) -> Spool<T> {
    let mut values = values;
    let mut next_run = || {
        let mut run: Vec<T> = values.by_ref().take(most.max(1)).collect();
        run.sort_by_key(&key);
        run
    };
    let first = next_run();
    let mut run = next_run();
    if run.is_empty() {
        return Spool::of(first, fault);
    }
    let write = || {
        let mut file = BlockWriter::new()?;
        let mut ends = Vec::new();
        let mut put = |run: Vec<T>| {
            run.iter().try_for_each(|value| file.push(value))?;
            ends.push(file.end_block()?);
            Ok::<_, io::Error>(())
        };
        put(first)?;
        while !run.is_empty() {
            put(run)?;
            run = next_run();
        }
        Ok((file.end()?, ends))
    };
    match write() {
        Ok((file, ends)) => merged(&file, &ends, key, fault),
        Err(error) => {
            fault.set(error);
            Spool::of([], fault)
        }
    }
}

fn merged<T: SpoolValue, K: Ord>(
    file: &BlockFile,
    ends: &[usize],
    key: impl Fn(&T) -> K,
    fault: &SpoolFault,
) -> Spool<T> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let mut runs: Vec<BlockReader<'_, T>> =
        starts.zip(ends).map(|(from, to)| BlockReader::new(file, from..*to, fault)).collect();
    let head = |run: usize, value: T| Reverse(Head { key: key(&value), run, value });
    let mut heads: BinaryHeap<_> =
        runs.iter_mut().enumerate().filter_map(|(number, run)| Some(head(number, run.next()?))).collect();
    let mut writer = SpoolWriter::new(fault.clone());
    while let Some(Reverse(Head { run, value, .. })) = heads.pop() {
        writer.push(value);
        heads.extend(runs[run].next().map(|value| head(run, value)));
    }
    writer.end()
}
