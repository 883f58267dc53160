//! Reads a whole file of values in order, decoded on several cores: decoding a value takes longer than most uses of it.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::blocks::{BlockBuffer, BlockFile};
use super::context::{SpoolContext, SpoolValue};
use base::files::cores;

/// Cores that decode at once, a block each: a decoded block of records has about half a MB.
const MOST_CORES: usize = 8;

/// Threads of its own, so that decoding does not wait for files that are hashed. `None` where no threads can be had: then blocks are
/// decoded one by one.
fn decoders() -> Option<&'static ThreadPool> {
    static DECODERS: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let cores = cores().min(MOST_CORES);
        ThreadPoolBuilder::new().num_threads(cores).thread_name(|_| "decode".to_owned()).build().ok()
    };
    DECODERS.get_or_init(start).as_ref()
}

/// What `take` makes of some values, in order, in place of what `into` held.
pub(super) fn filter_map_into<T: SpoolValue, R: Send>(
    file: &BlockFile,
    context: &SpoolContext,
    into: &mut Vec<R>,
    take: impl Fn(T) -> Option<R> + Sync,
) {
    into.clear();
    // To grow a vector of millions copies it, and holds both.
    into.reserve_exact(file.values());
    let mut blocks = DecodedBlocks::new(file);
    loop {
        match blocks.decode_next(&take) {
            Ok(true) => blocks.buffers.iter_mut().for_each(|buffer| into.extend(buffer.values.drain(..))),
            Ok(false) => return,
            Err(error) => return context.fail(error),
        }
    }
}

/// Some blocks of a file, decoded at once.
struct DecodedBlocks<'f, R> {
    file: &'f BlockFile,
    /// Blocks that are not decoded yet.
    rest: Range<usize>,
    buffers: Vec<BlockBuffer<R>>,
}

impl<'f, R: Send> DecodedBlocks<'f, R> {
    fn new(file: &'f BlockFile) -> Self {
        Self { file, rest: 0..file.blocks(), buffers: Vec::new() }
    }

    /// The next ones, in place of those that are decoded. False: there are none.
    fn decode_next<T: SpoolValue>(&mut self, take: impl Fn(T) -> Option<R> + Sync) -> io::Result<bool> {
        let at_once = decoders().map_or(1, ThreadPool::current_num_threads);
        let next = self.rest.start..self.rest.end.min(self.rest.start + at_once);
        self.rest.start = next.end;
        self.buffers.resize_with(next.len(), BlockBuffer::default);
        let decode = |(buffer, block): (&mut BlockBuffer<R>, usize)| self.file.decode(block, buffer, &take);
        match decoders() {
            Some(decoders) => decoders
                .install(|| self.buffers.par_iter_mut().zip(next.clone().into_par_iter()).try_for_each(decode))?,
            None => self.buffers.iter_mut().zip(next.clone()).try_for_each(decode)?,
        }
        Ok(!next.is_empty())
    }

    /// What follows an error is not read.
    fn end(&mut self) {
        self.rest = 0..0;
        self.buffers.clear();
    }
}

pub(crate) struct WholeFileReader<'f, T> {
    blocks: DecodedBlocks<'f, T>,
    /// Which of them is being read.
    at: usize,
    context: &'f SpoolContext,
}

impl<'f, T: SpoolValue> WholeFileReader<'f, T> {
    pub fn new(file: &'f BlockFile, context: &'f SpoolContext) -> Self {
        Self { blocks: DecodedBlocks::new(file), at: 0, context }
    }
}

impl<T: SpoolValue> Iterator for WholeFileReader<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            let Some(block) = self.blocks.buffers.get_mut(self.at) else {
                self.at = 0;
                match self.blocks.decode_next(Some) {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => {
                        self.context.fail(error);
                        self.blocks.end();
                        return None;
                    }
                }
            };
            match block.values.pop_front() {
                Some(value) => return Some(value),
                None => self.at += 1,
            }
        }
    }
}
