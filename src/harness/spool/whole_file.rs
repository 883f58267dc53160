//! Reads a whole file of values in order, decoded on several cores: decoding a value takes longer than most uses of it.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::thread;
use std::vec::IntoIter;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::blocks::BlockFile;
use super::context::{SpoolContext, SpoolValue};

/// Cores that decode at once, a block each: a decoded block of records has about half a MB.
const MOST_CORES: usize = 8;

/// Threads of its own, so that decoding does not wait for files that are hashed. `None` where no threads can be had: then blocks are
/// decoded one by one.
fn decoders() -> Option<&'static ThreadPool> {
    static DECODERS: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_CORES);
        ThreadPoolBuilder::new().num_threads(cores).thread_name(|_| "decode".to_owned()).build().ok()
    };
    DECODERS.get_or_init(start).as_ref()
}

/// What `take` makes of some values, in order.
pub(super) fn filter_map_to_vec<T: SpoolValue, R: Send>(
    file: &BlockFile,
    context: &SpoolContext,
    take: impl Fn(T) -> Option<R> + Sync,
) -> Vec<R> {
    // To grow a vector of millions copies it, and holds both.
    let (mut all, mut rest) = (Vec::with_capacity(file.values()), 0..file.blocks());
    while let Some(some) = next_blocks(&mut rest) {
        match decoded(file, some, &take) {
            Ok(blocks) => blocks.into_iter().for_each(|block| all.extend(block)),
            Err(error) => {
                context.fail(error);
                break;
            }
        }
    }
    all
}

fn next_blocks(rest: &mut Range<usize>) -> Option<Range<usize>> {
    let next = rest.start..rest.end.min(rest.start + decoders().map_or(1, ThreadPool::current_num_threads));
    rest.start = next.end;
    (!next.is_empty()).then_some(next)
}

fn decoded<T: SpoolValue, R: Send>(
    file: &BlockFile,
    blocks: Range<usize>,
    take: impl Fn(T) -> Option<R> + Sync,
) -> io::Result<Vec<Vec<R>>> {
    let decode = |block| file.decode(block, &take);
    match decoders() {
        Some(decoders) => decoders.install(|| blocks.into_par_iter().map(decode).collect()),
        None => blocks.map(decode).collect(),
    }
}

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
}

impl<T: SpoolValue> Iterator for WholeFileReader<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(value) = self.values.next() {
                return Some(value);
            }
            if let Some(block) = self.blocks.next() {
                self.values = block.into_iter();
                continue;
            }
            match decoded(self.file, next_blocks(&mut self.rest)?, Some) {
                Ok(blocks) => self.blocks = blocks.into_iter(),
                Err(error) => {
                    self.context.fail(error);
                    self.rest = 0..0;
                }
            }
        }
    }
}
