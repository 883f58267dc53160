//! Sorting what memory is not to hold: sorted runs in a file, then all runs merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use crate::spool::blocks::{BlockFile, BlockReader, BlockWriter};
use crate::spool::{Spool, SpoolContext, SpoolValue, SpoolWriter};

/// Of a run: each run costs a block of memory when they are merged.
const FEWEST: usize = 256;

/// Values in the order of their keys, with no more of them in memory than the context allows; equal keys stay as they
/// come.
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
        return Spool::collect(run, context);
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
            Spool::collect([], context)
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
    let mut values: Vec<Option<T>> = runs.iter_mut().map(Iterator::next).collect();
    // Of equal keys the earlier run's comes first, so that the sort is stable.
    let head = |run: usize, value: &T| Reverse((key(value), run));
    let mut heads: BinaryHeap<_> =
        values.iter().enumerate().filter_map(|(run, value)| Some(head(run, value.as_ref()?))).collect();
    let mut writer = SpoolWriter::new(context.clone());
    while let Some(Reverse((_, run))) = heads.pop() {
        let value = std::mem::replace(&mut values[run], runs[run].next());
        if let Some(value) = value {
            writer.push(value);
        }
        heads.extend(values[run].as_ref().map(|value| head(run, value)));
    }
    writer.end()
}
