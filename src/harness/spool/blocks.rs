//! Values in a temporary file, in blocks of whole values. Each block is written at once by a thread of its own, so that
//! a slow disk does not delay the requests of the worker that made the values. A whole file is read in order and
//! decoded on several cores, because decoding a value takes longer than most uses of it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::io::Write as _;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::spool::{SpoolContext, SpoolValue};
use base::files::cores;

/// Bytes of a block, about.
const BLOCK: usize = 64 << 10;
/// Blocks that wait to be written, at most: a disk that falls further behind slows down what makes the values.
const WAITING: usize = 64;

/// Blocks in a file without a name.
#[derive(Debug)]
pub(crate) struct BlockFile {
    file: File,
    blocks: Vec<Block>,
    values: usize,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    at: u64,
    bytes: usize,
    values: usize,
}

impl BlockFile {
    pub const fn values(&self) -> usize {
        self.values
    }

    pub const fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// What `take` makes of each value of a block, in place of what the buffer held.
    pub(super) fn decode<T: SpoolValue, R>(
        &self,
        block: usize,
        buffer: &mut BlockBuffer<R>,
        take: impl Fn(T) -> Option<R>,
    ) -> io::Result<()> {
        let Block { at, bytes, values } = self.blocks[block];
        buffer.bytes.resize(bytes, 0);
        self.file.read_exact_at(&mut buffer.bytes, at)?;
        buffer.values.clear();
        let mut rest = &buffer.bytes[..];
        for _ in 0..values {
            let (value, others) = postcard::take_from_bytes(rest).map_err(io::Error::other)?;
            buffer.values.extend(take(value));
            rest = others;
        }
        Ok(())
    }
}

/// One decoded block. It is used for many: memory that is given back and requested again for each of thousands of
/// blocks stays with the process for a while, and that is more than all blocks in use need.
#[derive(Debug)]
pub(super) struct BlockBuffer<R> {
    bytes: Vec<u8>,
    pub values: VecDeque<R>,
}

impl<R> Default for BlockBuffer<R> {
    fn default() -> Self {
        Self { bytes: Vec::new(), values: VecDeque::new() }
    }
}

/// Where temporary files that may become large go: `TMPDIR`, else a folder on a disk, for `/tmp` may be memory.
fn folder() -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    if std::env::var_os("TMPDIR").is_none() && on_disk.is_dir() { on_disk.to_owned() } else { std::env::temp_dir() }
}

#[derive(Debug)]
pub(super) struct BlockWriter {
    pending: Vec<u8>,
    pending_values: usize,
    blocks: Vec<Block>,
    next: u64,
    values: usize,
    full: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<File>>,
}

impl BlockWriter {
    pub fn new() -> io::Result<Self> {
        let mut file = tempfile::tempfile_in(folder())?;
        let (full, blocks) = sync_channel::<Vec<u8>>(WAITING);
        let thread = std::thread::Builder::new().name("spool".to_owned()).spawn(move || {
            for block in blocks {
                file.write_all(&block)?;
            }
            Ok(file)
        })?;
        Ok(Self { pending: Vec::new(), pending_values: 0, blocks: Vec::new(), next: 0, values: 0, full, thread })
    }

    pub fn push<T: SpoolValue>(&mut self, value: &T) -> io::Result<()> {
        postcard::to_io(value, &mut self.pending).map_err(io::Error::other)?;
        self.pending_values += 1;
        self.values += 1;
        if self.pending.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    /// Ends the block, so that the next value begins one; returns how many blocks there are.
    pub fn end_block(&mut self) -> io::Result<usize> {
        self.flush()?;
        Ok(self.blocks.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.pending, Vec::with_capacity(BLOCK + BLOCK / 8));
        self.blocks.push(Block { at: self.next, bytes: block.len(), values: self.pending_values });
        self.next += block.len() as u64;
        self.pending_values = 0;
        // A thread that has ended has an error, which `end` returns.
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.full.send(block).map_err(ended)
    }

    pub fn end(mut self) -> io::Result<BlockFile> {
        let flushed = self.flush();
        drop(self.full);
        let file = self.thread.join().map_err(|_| io::Error::other("the thread that writes it panicked"))??;
        flushed?;
        Ok(BlockFile { file, blocks: self.blocks, values: self.values })
    }
}

/// Reads the values of some blocks, one block after the other. Holds one block and one value, because a merge has many
/// readers.
pub(crate) struct BlockReader<'f, T> {
    file: &'f BlockFile,
    rest: Range<usize>,
    block: Vec<u8>,
    /// In the block.
    at: usize,
    left: usize,
    context: &'f SpoolContext,
    of: PhantomData<T>,
}

impl<'f, T: SpoolValue> BlockReader<'f, T> {
    pub fn new(file: &'f BlockFile, blocks: Range<usize>, context: &'f SpoolContext) -> Self {
        Self { file, rest: blocks, block: Vec::new(), at: 0, left: 0, context, of: PhantomData }
    }

    fn read(&mut self) -> io::Result<Option<T>> {
        while self.left == 0 {
            let Some(next) = self.rest.next().and_then(|block| self.file.blocks.get(block)) else { return Ok(None) };
            self.block.resize(next.bytes, 0);
            self.file.file.read_exact_at(&mut self.block, next.at)?;
            (self.at, self.left) = (0, next.values);
        }
        let whole = &self.block[self.at..];
        let (value, rest) = postcard::take_from_bytes(whole).map_err(io::Error::other)?;
        self.at += whole.len() - rest.len();
        self.left -= 1;
        Ok(Some(value))
    }
}

impl<T: SpoolValue> Iterator for BlockReader<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.read().unwrap_or_else(|error| {
            self.context.fail(error);
            (self.rest, self.left) = (0..0, 0);
            None
        })
    }
}

/// Cores that decode at once, a block each: a decoded block of records has about half a MB.
const MOST_CORES: usize = 8;

/// Threads of its own, so that decoding does not wait for files that are hashed. `None` where no threads can be had:
/// then blocks are decoded one by one.
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

    /// Decodes the next blocks into the buffers of the previous ones. Returns false at the end of the file.
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
