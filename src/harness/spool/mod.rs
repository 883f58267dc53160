//! A sequence that may be longer than memory is to hold: up to some MB of it are in memory, and beyond that all of it is in a
//! temporary file without a name, which ends with the process. It is read in order, and sorted without being in memory as a whole.
//!
//! What a disk refuses does not stop a run in the middle of its load: the first error is kept, the sequence ends there, and
//! [`SpoolFault::check`] reports it before a result is made of it.

mod blocks;
mod external_sort;

use std::io;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::blocks::{BlockFile, BlockReader, BlockWriter};

/// Of a sequence, that is held in memory.
const IN_MEMORY: usize = 16 << 20;

/// What one value of a sequence must be able to do: be written into a file, and read again.
pub(in crate::harness) trait SpoolValue: Clone + Serialize + DeserializeOwned {}
impl<T: Clone + Serialize + DeserializeOwned> SpoolValue for T {}

/// The first error of the files of some sequences that belong together.
#[derive(Clone, Debug, Default)]
pub(in crate::harness) struct SpoolFault(Arc<OnceLock<io::Error>>);

impl SpoolFault {
    fn set(&self, error: io::Error) {
        let _ = self.0.set(error);
    }

    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// An error if any of the sequences is not whole.
    pub fn check(&self) -> io::Result<()> {
        self.0.get().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
    }
}

/// A sequence that is complete.
#[derive(Clone, Debug)]
pub(in crate::harness) struct Spool<T> {
    values: Stored<T>,
    fault: SpoolFault,
}

#[derive(Clone, Debug)]
enum Stored<T> {
    Memory(Arc<Vec<T>>),
    File(Arc<BlockFile>),
}

impl<T: SpoolValue> Spool<T> {
    pub fn of(values: impl IntoIterator<Item = T>, fault: &SpoolFault) -> Self {
        let mut writer = SpoolWriter::new(fault.clone());
        values.into_iter().for_each(|value| writer.push(value));
        writer.end()
    }

    pub fn len(&self) -> usize {
        match &self.values {
            Stored::Memory(values) => values.len(),
            Stored::File(file) => file.values(),
        }
    }

    pub const fn fault(&self) -> &SpoolFault {
        &self.fault
    }

    pub fn iter(&self) -> SpoolReader<'_, T> {
        match &self.values {
            Stored::Memory(values) => SpoolReader::Memory(values.iter()),
            Stored::File(file) => SpoolReader::File(BlockReader::new(file, 0..file.blocks(), &self.fault)),
        }
    }

    pub fn mapped<U: SpoolValue>(&self, of: impl Fn(T) -> U) -> Spool<U> {
        Spool::of(self.iter().map(of), &self.fault)
    }

    /// In the order of a key; equal ones stay as they are.
    pub fn sorted_by_key<K: Ord>(&self, key: impl Fn(&T) -> K) -> Self {
        match &self.values {
            _ if self.iter().is_sorted_by_key(|value| key(&value)) => self.clone(),
            Stored::Memory(values) => {
                let mut sorted = Vec::clone(values);
                sorted.sort_by_key(key);
                Self { values: Stored::Memory(Arc::new(sorted)), fault: self.fault.clone() }
            }
            Stored::File(_) => external_sort::sorted(self.iter(), key, in_memory::<T>(), &self.fault),
        }
    }

    /// Several sequences as one, in the order of a key. It has the error of any of them.
    pub fn merged<K: Ord>(parts: Vec<Self>, key: impl Fn(&T) -> K) -> Self {
        let fault = SpoolFault::default();
        let sorted = external_sort::sorted(parts.iter().flat_map(Self::iter), key, in_memory::<T>(), &fault);
        for part in parts {
            part.fault.check().unwrap_or_else(|error| fault.set(error));
        }
        sorted
    }
}

impl<T: SpoolValue + Ord> Spool<T> {
    pub fn sorted(&self) -> Self {
        self.sorted_by_key(T::clone)
    }
}

/// How many values are held in memory.
const fn in_memory<T>() -> usize {
    IN_MEMORY / if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
}

/// Reads a sequence from its beginning.
pub(in crate::harness) enum SpoolReader<'s, T> {
    Memory(std::slice::Iter<'s, T>),
    File(BlockReader<'s, T>),
}

impl<T: SpoolValue> Iterator for SpoolReader<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Memory(values) => values.next().cloned(),
            Self::File(reader) => reader.next(),
        }
    }
}

/// Takes a sequence, value after value.
#[derive(Debug)]
pub(in crate::harness) struct SpoolWriter<T> {
    memory: Vec<T>,
    /// Values beyond which all of them go into the file.
    most: usize,
    file: Option<BlockWriter>,
    fault: SpoolFault,
}

impl<T: SpoolValue> SpoolWriter<T> {
    pub const fn new(fault: SpoolFault) -> Self {
        Self::with_room(in_memory::<T>(), fault)
    }

    /// Of several writers that together hold as much as one.
    pub fn one_of(writers: usize, fault: SpoolFault) -> Self {
        Self::with_room(in_memory::<T>() / writers.max(1), fault)
    }

    pub const fn with_room(most: usize, fault: SpoolFault) -> Self {
        Self { memory: Vec::new(), most, file: None, fault }
    }

    pub fn push(&mut self, value: T) {
        if self.file.is_none() && self.memory.len() < self.most {
            return self.memory.push(value);
        }
        if self.fault.is_set() {
            return;
        }
        if let Err(error) = self.to_file(&value) {
            self.fault.set(error);
        }
    }

    fn to_file(&mut self, value: &T) -> io::Result<()> {
        if self.file.is_none() {
            let mut file = BlockWriter::new()?;
            std::mem::take(&mut self.memory).iter().try_for_each(|value| file.push(value))?;
            self.file = Some(file);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.push(value))
    }

    pub fn end(self) -> Spool<T> {
        let Self { memory, file, fault, .. } = self;
        let values = match file.map(BlockWriter::end) {
            None => Stored::Memory(Arc::new(memory)),
            Some(Ok(file)) => Stored::File(Arc::new(file)),
            Some(Err(error)) => {
                fault.set(error);
                Stored::Memory(Arc::default())
            }
        };
        Spool { values, fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_the_same_in_memory_and_in_a_file() {
        let values: Vec<(u64, String)> = (0..40_000_u64)
            .map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50, "x".repeat(at as usize % 9)))
            .collect();
        let spool = |most: usize| {
            let mut writer = SpoolWriter::with_room(most, SpoolFault::default());
            values.iter().for_each(|value| writer.push(value.clone()));
            writer.end()
        };
        let mut expected = values.clone();
        expected.sort_by_key(|(key, _)| *key);
        for most in [1_000_000, 10, 0] {
            let spool = spool(most);
            assert_eq!(matches!(spool.values, Stored::File(_)), most < 40_000);
            assert!(spool.len() == values.len() && spool.iter().eq(values.iter().cloned()));
            let sorted = spool.sorted_by_key(|(key, _)| *key);
            assert!(sorted.iter().eq(expected.iter().cloned()), "equal keys stay in their order");
            let runs = external_sort::sorted(spool.iter(), |(key, _)| *key, 1_000, &spool.fault);
            assert!(runs.iter().eq(expected.iter().cloned()) && runs.len() == values.len());
            spool.fault().check().unwrap();
        }
    }

    #[test]
    fn a_value_that_cannot_be_written_is_an_error_and_no_shorter_sequence() {
        let mut writer = SpoolWriter::with_room(1, SpoolFault::default());
        writer.push(1_u64);
        writer.fault.set(io::Error::from(io::ErrorKind::StorageFull));
        writer.push(2);
        let error = writer.end().fault().check().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
