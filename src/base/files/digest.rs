//! BLAKE3 digests: how content and keys are named.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;
use std::{fmt, io, iter, panic, thread};

use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::open_regular;
use crate::units;

/// 32 bytes of BLAKE3, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn hash(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 hex digits: enough for display, and for a file name and the seal of a line inside one store.
    pub fn short(&self) -> String {
        hex(&self.0[..8])
    }
}

/// Not by `blake3`, which takes as long as for hashing a short text.
fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for Digest {
    type Err = blake3::HexError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(Self(*blake3::Hash::from_hex(s)?.as_bytes()))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_str(&hex(&self.0)) } else { self.0.serialize(s) }
    }
}

/// Not copied where it is read from memory.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            let Text(text) = Deserialize::deserialize(d)?;
            text.parse().map_err(serde::de::Error::custom)
        } else {
            Ok(Self(<[u8; 32]>::deserialize(d)?))
        }
    }
}

/// Hashes fields with their lengths, so that `("ab","c")` and `("a","bc")` differ.
#[derive(Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn field(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

// The digest of a file, read in parts by all cores.
//
// A file is read, never mapped: one that another process makes shorter meanwhile would end this process with SIGBUS.

/// A larger file is hashed by several cores.
const PART: u64 = 1 << 20;
/// What one core then reads and hashes at a time. Each keeps this much memory.
const LEAF: u64 = 1 << 18;

/// A larger file must have data: a digest is that of all bytes, so a hole of a terabyte takes as long as a terabyte.
const MOST_HOLES: u64 = 1 << 36;

thread_local! {
    /// A core's leaf: fresh memory would be cleared by the kernel for each.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Digest {
    /// Of a file with `size` bytes: the same as of these bytes in memory.
    ///
    /// # Errors
    ///
    /// Those of reading, that the file has become shorter, and that it is almost nothing but holes.
    pub fn of_file(file: &File, size: u64) -> io::Result<Self> {
        if size > MOST_HOLES {
            refuse_holes(&file.metadata()?)?;
        }
        if size <= PART {
            return whole(file, size);
        }
        let left = left_subtree_len(size);
        let tree = || join(|| subtree(file, 0, left), || subtree(file, left, size - left));
        let (one, other) = shared_pool().map_or_else(tree, |pool| pool.install(tree));
        Ok(Self::from_bytes(*merge_subtrees_root(&one?, &other?, Mode::Hash).as_bytes()))
    }
}

fn refuse_holes(metadata: &Metadata) -> io::Result<()> {
    let size = metadata.len();
    if size > MOST_HOLES && metadata.blocks() < size / 512 / 64 {
        let text = format!("it has {} and almost no data: its holes are not read", units::size(size));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(())
}

/// Of a small file. The kernel's own files have a size of 0 and a content.
fn whole(file: &File, size: u64) -> io::Result<Digest> {
    // One more byte shows the end: two reads, and no third buffer.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(2 * PART).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == 2 * PART {
        return Err(io::Error::other("it grew while it was read"));
    }
    Ok(Digest::hash(&bytes))
}

fn subtree(file: &File, at: u64, length: u64) -> io::Result<ChainingValue> {
    if length <= LEAF {
        return BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(length as usize, 0);
            read_part(file, at, buffer)?;
            Ok(blake3::Hasher::new().set_input_offset(at).update(buffer).finalize_non_root())
        });
    }
    let left = left_subtree_len(length);
    let (one, other) = join(|| subtree(file, at, left), || subtree(file, at + left, length - left));
    Ok(merge_subtrees_non_root(&one?, &other?, Mode::Hash))
}

/// Runs both on two cores, or one after the other when called from outside the thread pool.
fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_thread_index().is_some() { rayon::join(one, other) } else { (one(), other()) }
}

fn read_part(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(into, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it became shorter while it was read"),
        _ => error,
    })
}

// SHA-256: the digest that MLPerf's rules and published data sets use. Regatta's own is another ([`super::Digest`]).

/// A digest in the making.
#[derive(Clone, Debug, Default)]
pub struct Sha256Of(Sha256);

impl Sha256Of {
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    /// 64 hexadecimal digits.
    pub fn finish(self) -> String {
        format!("{:x}", self.0.finalize())
    }
}

/// Of a file, read in pieces. What [`Digest::of_file`] refuses as nothing but holes is refused here, too.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let (file, metadata) = open_regular(path)?;
    refuse_holes(&metadata)?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    Ok(format!("{:x}", digest.finalize()))
}

// The machine's cores, and threads for work that all of them share.

/// How many cores this process may use; 1 where the system does not report it. To ask it reads files of cgroups.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// A thread for each core, started once; fewer where the system gives no more of them (`ulimit -u`). `None` where it
/// gives none: then the caller does the work. Rayon's own pool, which starts when it is first used, would panic
/// instead.
pub fn shared_pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let mut fewer = iter::successors(Some(cores()), |count| Some(count / 2).filter(|half| *half > 0));
        let build =
            |count| ThreadPoolBuilder::new().num_threads(count).thread_name(|_| "cores".to_owned()).build().ok();
        fewer.find_map(build)
    };
    POOL.get_or_init(start).as_ref()
}

/// Applies `work` to each part of `size` items, and returns the results in order. The first part is done by the calling
/// thread; each other one by a thread of its own with a stack of `stack` bytes, or by the caller if no thread can be
/// started.
pub fn in_parts<T: Sync, R: Send>(items: &[T], size: usize, stack: usize, work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let mut parts = items.chunks(size.max(1));
    let Some(first) = parts.next() else { return Vec::new() };
    thread::scope(|scope| {
        let work = &work;
        let start =
            |part| (part, thread::Builder::new().stack_size(stack).spawn_scoped(scope, move || work(part)).ok());
        let others: Vec<_> = parts.map(start).collect();
        let ended = others.into_iter().map(|(part, thread)| match thread {
            Some(thread) => thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause)),
            None => work(part),
        });
        iter::once(work(first)).chain(ended).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use super::*;
    use crate::files::open_regular;

    #[test]
    fn it_is_the_digest_of_the_bytes_for_every_shape_of_the_tree() {
        let part = PART as usize;
        for length in [0, 1, 1024, part - 1, part, part + 1, 2 * part, 2 * part + 1, 3 * part + 5, 5 * part + 1025] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let (file, _) = open_regular(file.path()).unwrap();
            assert_eq!(Digest::of_file(&file, length as u64).unwrap(), Digest::hash(&bytes), "{length}");
        }
    }

    #[test]
    fn without_a_thread_to_spare_it_is_the_same() {
        let part = PART as usize;
        let bytes: Vec<u8> = (0..5 * part + 1025).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let (left, length) = (left_subtree_len(bytes.len() as u64), bytes.len() as u64);
        // On this thread, which does not belong to the pool.
        let (one, other) = join(|| subtree(file.as_file(), 0, left), || subtree(file.as_file(), left, length - left));
        let root = merge_subtrees_root(&one.unwrap(), &other.unwrap(), Mode::Hash);
        assert_eq!(Digest::from_bytes(*root.as_bytes()), Digest::hash(&bytes));
    }

    #[test]
    fn a_file_of_the_kernel_has_a_content() {
        let (file, metadata) = open_regular(Path::new("/proc/version")).unwrap();
        assert_eq!(metadata.len(), 0);
        assert_eq!(Digest::of_file(&file, 0).unwrap(), Digest::hash(&std::fs::read("/proc/version").unwrap()));
    }

    #[test]
    fn a_file_of_holes_is_refused_and_not_read_for_hours() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = named.as_file();
        let sizes = [MOST_HOLES + 1, 1 << 40];
        for size in sizes.into_iter().filter(|size| file.set_len(*size).is_ok()) {
            for error in [Digest::of_file(file, size).unwrap_err(), sha256_of_file(named.path()).unwrap_err()] {
                let error = error.to_string();
                assert!(error.ends_with("and almost no data: its holes are not read"), "{error}");
            }
        }
        file.set_len(4 * PART).unwrap();
        assert_eq!(Digest::of_file(file, 4 * PART).unwrap(), Digest::hash(&vec![0; 4 * PART as usize]));
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PART).unwrap();
        let error = Digest::of_file(&file, 4 * PART).unwrap_err();
        assert_eq!(error.to_string(), "it became shorter while it was read");
    }
}
