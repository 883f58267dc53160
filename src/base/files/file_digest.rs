//! The digest of a file, read in parts by all cores.
//!
//! A file is read, never mapped: one that another process makes shorter meanwhile would end this process with SIGBUS.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use super::{Digest, shared_pool};

/// A larger file is hashed by several cores.
const PART: u64 = 1 << 20;
/// What one core then reads and hashes at a time. Each keeps this much memory.
const LEAF: u64 = 1 << 18;

thread_local! {
    /// A core's leaf: fresh memory would be cleared by the kernel for each.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Digest {
    /// Of a file with `size` bytes: the same as of these bytes in memory.
    ///
    /// # Errors
    ///
    /// Those of reading, and that the file has become shorter.
    pub fn of_file(file: &File, size: u64) -> io::Result<Self> {
        if size <= PART {
            return whole(file, size);
        }
        let left = left_subtree_len(size);
        let tree = || join(|| subtree(file, 0, left), || subtree(file, left, size - left));
        let (one, other) = shared_pool().map_or_else(tree, |pool| pool.install(tree));
        Ok(Self::from_bytes(*merge_subtrees_root(&one?, &other?, Mode::Hash).as_bytes()))
    }
}

/// Of a small file. The kernel's own files have a size of 0 and a content.
fn whole(file: &File, size: u64) -> io::Result<Digest> {
    // One more byte shows the end: two reads, and no third buffer.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(2 * PART).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == 2 * PART {
        return Err(io::Error::other("it grows while it is read"));
    }
    Ok(Digest::of(&bytes))
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

/// By two cores; one after the other on a thread that is not one of theirs.
fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_thread_index().is_some() { rayon::join(one, other) } else { (one(), other()) }
}

fn read_part(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(into, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it became shorter while it was read"),
        _ => error,
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
            assert_eq!(Digest::of_file(&file, length as u64).unwrap(), Digest::of(&bytes), "{length}");
        }
    }

    #[test]
    fn without_a_thread_to_spare_it_is_the_same() {
        let part = PART as usize;
        let bytes: Vec<u8> = (0..5 * part + 1025).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let (left, length) = (left_subtree_len(bytes.len() as u64), bytes.len() as u64);
        // On this thread, which is no core's.
        let (one, other) = join(|| subtree(file.as_file(), 0, left), || subtree(file.as_file(), left, length - left));
        let root = merge_subtrees_root(&one.unwrap(), &other.unwrap(), Mode::Hash);
        assert_eq!(Digest::from_bytes(*root.as_bytes()), Digest::of(&bytes));
    }

    #[test]
    fn a_file_of_the_kernel_has_a_content() {
        let (file, metadata) = open_regular(Path::new("/proc/version")).unwrap();
        assert_eq!(metadata.len(), 0);
        assert_eq!(Digest::of_file(&file, 0).unwrap(), Digest::of(&std::fs::read("/proc/version").unwrap()));
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PART).unwrap();
        let error = Digest::of_file(&file, 4 * PART).unwrap_err();
        assert_eq!(error.to_string(), "it became shorter while it was read");
    }
}
