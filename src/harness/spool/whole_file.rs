//! Reads a whole file of values in order, decoded on all cores: to decode a value takes longer than most of what is asked of it.

use std::io;
use std::ops::Range;
use std::vec::IntoIter;

use rayon::prelude::*;

use super::blocks::BlockFile;
use super::context::{SpoolContext, SpoolValue};

/// Blocks that each core decodes before their values are taken: a decoded one has about half a MB.
const BLOCKS_OF_A_CORE: usize = 2;
/// Cores that decode: the one that takes the values keeps no more of them busy.
const MOST_CORES: usize = 8;

pub(in crate::harness) struct WholeFileReader<'f, T> {
    file: &'f BlockFile,
    /// Blocks that are not decoded yet.
    rest: Range<usize>,
    blocks: IntoIter<Vec<T>>,
    values: IntoIter<T>,
    context: &'f SpoolContext,
}

impl<'f, T: SpoolValue> WholeFileReader<'f, T> {
    pub fn new(file: &'f BlockFile, context: &'f SpoolContext) -> Self {
        let (blocks, values) = (Vec::new().into_iter(), Vec::new().into_iter());
        Self { file, rest: 0..file.blocks(), blocks, values, context }
    }

    fn decode(&mut self) -> io::Result<()> {
        let count = BLOCKS_OF_A_CORE * rayon::current_num_threads().min(MOST_CORES);
        let some = self.rest.start..self.rest.end.min(self.rest.start + count);
        self.rest.start = some.end;
        let decoded: Vec<Vec<T>> =
            some.into_par_iter().map(|block| self.file.decode(block)).collect::<io::Result<_>>()?;
        self.blocks = decoded.into_iter();
        Ok(())
    }
}

impl<T: SpoolValue> Iterator for WholeFileReader<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(value) = self.values.next() {
                return Some(value);
            }
            match self.blocks.next() {
                Some(block) => self.values = block.into_iter(),
                None if self.rest.is_empty() => return None,
                None => self.decode().unwrap_or_else(|error| {
                    self.context.fail(error);
                    self.rest = 0..0;
                }),
            }
        }
    }
}
