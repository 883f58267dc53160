//! Sorting what memory is not to hold: sorted runs in a file, then all runs merged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;

use crate::spool::blocks::{BlockFile, BlockReader, BlockWriter};
use crate::spool::{Spool, SpoolContext, SpoolValue, SpoolWriter};

/// Of a run: each run costs a block of memory when they are merged.
const FEWEST: usize = 256;

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

/// Values in the order of their keys, with no more of them in memory than the context allows; equal keys stay as they come.
pub(super) fn sorted<T: SpoolValue, K: Ord>(
    values: impl Iterator<Item = T>,
    key: impl Fn(&T) -> K,
    context: &SpoolContext,
) -> Spool<T> {
    let mut values = values.peekable();
    let most = context.room::<T>().max(FEWEST);
    // One vector for all runs, which does not grow: what it grew out of would stay with the process for a while.
    let mut run: Vec<T> = Vec::with_capacity(most);
    let mut next_run = |run: &mut Vec<T>| {
        run.clear();
        run.extend(values.by_ref().take(most));
        run.sort_by_key(&key);
        values.peek().is_none()
    };
    let mut is_last = next_run(&mut run);
    if is_last {
        return Spool::of(run, context);
    }
    let mut write = || {
        let mut file = BlockWriter::new()?;
        let mut ends = Vec::new();
        loop {
            run.iter().try_for_each(|value| file.push(value))?;
            ends.push(file.end_block()?);
            if is_last {
                return Ok::<_, io::Error>((file.end()?, ends));
            }
            is_last = next_run(&mut run);
        }
    };
    let written = write();
    drop(run);
    match written {
        Ok((file, ends)) => merged(&file, &ends, key, context),
        Err(error) => {
            context.fail(error);
            Spool::of([], context)
        }
    }
}

fn merged<T: SpoolValue, K: Ord>(
    file: &BlockFile,
    ends: &[usize],
    key: impl Fn(&T) -> K,
    context: &SpoolContext,
) -> Spool<T> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let mut runs: Vec<BlockReader<'_, T>> =
        starts.zip(ends).map(|(from, to)| BlockReader::new(file, from..*to, context)).collect();
    let head = |run: usize, value: T| Reverse(Head { key: key(&value), run, value });
    let mut heads: BinaryHeap<_> =
        runs.iter_mut().enumerate().filter_map(|(number, run)| Some(head(number, run.next()?))).collect();
    let mut writer = SpoolWriter::new(context.clone());
    while let Some(Reverse(Head { run, value, .. })) = heads.pop() {
        writer.push(value);
        heads.extend(runs[run].next().map(|value| head(run, value)));
    }
    writer.end()
}
