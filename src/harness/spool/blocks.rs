//! Values in a temporary file, in blocks of whole values. Each block is written at once by a thread of its own, so that a disk
//! that is slow does not delay the requests of the worker that made the values.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::context::{SpoolContext, SpoolValue};

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

/// One decoded block. It is used for many: memory that is given back and requested again for each of thousands of blocks stays
/// with the process for a while, and that is more than all blocks in use need.
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

/// Reads the values of some blocks, one block after the other. Holds one block and one value, because a merge has many readers.
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
