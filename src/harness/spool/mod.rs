//! A sequence that may be longer than memory is to hold: up to some MB of it are in memory, and beyond that all of it
//! is in a temporary file without a name, which ends with the process. It is read in order, and sorted without being in
//! memory as a whole.
//!
//! What a disk refuses does not stop a run in the middle of its load: the first error is kept, the sequence ends there,
//! and [`SpoolContext::check`] reports it before a result is made of it. A file is decoded some blocks at a time, so
//! that it may end before the block with the error.

mod blocks;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::spool::blocks::{BlockFile, BlockReader, BlockWriter, WholeFileReader};

/// A sequence that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Spool<T> {
    values: Stored<T>,
    context: SpoolContext,
}

#[derive(Clone, Debug)]
enum Stored<T> {
    Memory(Arc<Vec<T>>),
    File(Arc<BlockFile>),
}

impl<T: SpoolValue> Spool<T> {
    pub fn collect(values: impl IntoIterator<Item = T>, context: &SpoolContext) -> Self {
        let mut writer = SpoolWriter::new(context.clone());
        values.into_iter().for_each(|value| writer.push(value));
        writer.end()
    }

    pub fn len(&self) -> usize {
        match &self.values {
            Stored::Memory(values) => values.len(),
            Stored::File(file) => file.values(),
        }
    }

    pub const fn context(&self) -> &SpoolContext {
        &self.context
    }

    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.borrowed().map(Cow::into_owned)
    }

    /// Like [`Self::iter`], for a pass that keeps none of the values: those in memory are not copied.
    pub fn borrowed(&self) -> impl Iterator<Item = Cow<'_, T>> {
        let (in_memory, file) = match &self.values {
            Stored::Memory(values) => (values.as_slice(), None),
            Stored::File(file) => (&[][..], Some(WholeFileReader::new(file, &self.context))),
        };
        in_memory.iter().map(Cow::Borrowed).chain(file.into_iter().flatten().map(Cow::Owned))
    }

    /// What `take` makes of some values, in their order, in place of what `into` held. It may be called on several
    /// threads.
    pub fn filter_map_into<R: Send>(&self, into: &mut Vec<R>, take: impl Fn(&T) -> Option<R> + Sync) {
        match &self.values {
            Stored::Memory(values) => {
                into.clear();
                into.extend(values.iter().filter_map(take));
            }
            Stored::File(file) => blocks::filter_map_into(file, &self.context, into, |value| take(&value)),
        }
    }

    pub fn mapped<U: SpoolValue>(&self, of: impl Fn(T) -> U) -> Spool<U> {
        Spool::collect(self.iter().map(of), &self.context)
    }

    /// In the order of a key; equal ones stay as they are.
    pub fn sorted_by_key<K: Ord>(&self, key: impl Fn(&T) -> K) -> Self {
        match &self.values {
            _ if self.borrowed().is_sorted_by_key(|value| key(&value)) => self.clone(),
            Stored::Memory(values) => {
                let mut sorted = Vec::clone(values);
                sorted.sort_by_key(key);
                Self { values: Stored::Memory(Arc::new(sorted)), context: self.context.clone() }
            }
            Stored::File(_) => sorted(self.iter(), key, &self.context),
        }
    }

    /// Several sequences as one, in the order of a key. It has the error of any of them.
    pub fn merged<K: Ord>(parts: Vec<Self>, key: impl Fn(&T) -> K) -> Self {
        let context = parts.first().map_or_else(SpoolContext::default, |part| part.context.another());
        let sorted = sorted(parts.iter().flat_map(Self::iter), key, &context);
        for part in parts {
            part.context.check().unwrap_or_else(|error| context.fail(error));
        }
        sorted
    }
}

impl<T: SpoolValue + Ord> Spool<T> {
    pub fn sorted(&self) -> Self {
        self.sorted_by_key(T::clone)
    }
}

/// Values up to which a sequence takes no more memory than it has values: most are short.
const FEW: usize = 1024;

/// Takes a sequence, value after value.
#[derive(Debug)]
pub(crate) struct SpoolWriter<T> {
    memory: Vec<T>,
    /// Values beyond which all of them go into the file.
    most: usize,
    file: Option<BlockWriter>,
    context: SpoolContext,
}

impl<T: SpoolValue> SpoolWriter<T> {
    pub fn new(context: SpoolContext) -> Self {
        Self::one_of(1, context)
    }

    /// Of several writers that together hold as much as one.
    pub fn one_of(writers: usize, context: SpoolContext) -> Self {
        Self { memory: Vec::new(), most: context.room::<T>() / writers.max(1), file: None, context }
    }

    #[cfg(test)]
    pub const fn context(&self) -> &SpoolContext {
        &self.context
    }

    pub fn push(&mut self, value: T) {
        if self.file.is_none() && self.memory.len() < self.most {
            if self.memory.len() == FEW {
                // From here on it does not grow: what it grew out of would stay with the process for a while.
                self.memory.reserve_exact(self.most.saturating_sub(FEW));
            }
            return self.memory.push(value);
        }
        if self.context.has_failed() {
            return;
        }
        if let Err(error) = self.append_to_file(&value) {
            self.context.fail(error);
        }
    }

    fn append_to_file(&mut self, value: &T) -> io::Result<()> {
        if self.file.is_none() {
            let mut file = BlockWriter::new()?;
            std::mem::take(&mut self.memory).iter().try_for_each(|value| file.push(value))?;
            self.file = Some(file);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.push(value))
    }

    pub fn end(self) -> Spool<T> {
        let Self { memory, file, context, .. } = self;
        let values = match file.map(BlockWriter::end) {
            None => Stored::Memory(Arc::new(memory)),
            Some(Ok(file)) => Stored::File(Arc::new(file)),
            Some(Err(error)) => {
                context.fail(error);
                Stored::Memory(Arc::default())
            }
        };
        Spool { values, context }
    }
}

/// Of a sequence, that is held in memory.
const IN_MEMORY: usize = 32 << 20;

/// What one value of a sequence must be able to do: be written into a file, and read again on any core.
pub(crate) trait SpoolValue: Clone + Send + Serialize + DeserializeOwned {}
impl<T: Clone + Send + Serialize + DeserializeOwned> SpoolValue for T {}

/// What some sequences that belong together share: the first error of their files, and how much of each is in memory.
#[derive(Clone, Debug)]
pub(crate) struct SpoolContext(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    error: OnceLock<io::Error>,
    /// Bytes of a sequence.
    in_memory: usize,
}

impl Default for SpoolContext {
    fn default() -> Self {
        Self::with_memory(IN_MEMORY)
    }
}

impl SpoolContext {
    pub fn with_memory(bytes: usize) -> Self {
        Self(Arc::new(Shared { error: OnceLock::new(), in_memory: bytes }))
    }

    /// With as much memory, and no error.
    pub(super) fn another(&self) -> Self {
        Self::with_memory(self.0.in_memory)
    }

    pub(super) fn fail(&self, error: io::Error) {
        let _ = self.0.error.set(error);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.error.get().is_some()
    }

    /// How many values of a sequence are held in memory.
    pub(super) fn room<T>(&self) -> usize {
        self.0.in_memory / size_of::<T>().max(1)
    }

    /// An error if any of the sequences is not whole.
    pub fn check(&self) -> io::Result<()> {
        self.0.error.get().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
    }
}

// Sorting what memory is not to hold: sorted runs in a file, then all runs merged.

/// Of a run: each run costs a block of memory when they are merged.
const FEWEST: usize = 256;

/// Values in the order of their keys, with no more of them in memory than the context allows; equal keys stay as they
/// come.
fn sorted<T: SpoolValue, K: Ord>(
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
        run.shrink_to_fit();
        return Spool { values: Stored::Memory(Arc::new(run)), context: context.clone() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_the_same_in_memory_and_in_a_file() {
        let key = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50;
        let values: Vec<(u64, String)> = (0..40_000_u64).map(|at| (key(at), "x".repeat(at as usize % 9))).collect();
        let mut expected = values.clone();
        expected.sort_by_key(|(key, _)| *key);
        for bytes in [16 << 20, 30_000, 0] {
            let spool = Spool::collect(values.iter().cloned(), &SpoolContext::with_memory(bytes));
            assert_eq!(matches!(spool.values, Stored::File(_)), bytes < 1 << 20);
            assert!(spool.len() == values.len() && spool.iter().eq(values.iter().cloned()));
            assert!(spool.borrowed().map(Cow::into_owned).eq(values.iter().cloned()));
            let even = |(key, text): &(u64, String)| (key % 2 == 0).then(|| (text.clone(), *key));
            let mut evens = vec![("before".to_owned(), 1)];
            spool.filter_map_into(&mut evens, even);
            assert!(evens.into_iter().eq(values.iter().filter_map(even)));
            if bytes > 0 {
                let sorted = spool.sorted_by_key(|(key, _)| *key);
                assert!(sorted.iter().eq(expected.iter().cloned()), "equal keys stay in their order");
                let parts = values.chunks(9_000).map(|part| Spool::collect(part.iter().cloned(), spool.context()));
                let merged = Spool::merged(parts.collect(), |(key, _)| *key);
                assert!(merged.iter().eq(expected.iter().cloned()) && merged.len() == values.len());
            }
            spool.context().check().unwrap();
        }
    }

    #[test]
    fn a_value_that_cannot_be_written_is_an_error_and_no_shorter_sequence() {
        let mut writer = SpoolWriter::new(SpoolContext::with_memory(8));
        writer.push(1_u64);
        writer.context.fail(io::Error::from(io::ErrorKind::StorageFull));
        writer.push(2);
        let merged = Spool::merged(vec![Spool::collect([3], &SpoolContext::default()), writer.end()], |value| *value);
        assert_eq!(merged.context().check().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
