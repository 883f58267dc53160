//! Files that are only caches: a BLAKE3 digest, then postcard. One that was cut off or altered is as good as absent.
//!
//! ```text
//! digest of the rest | value
//! digest of the rest | head | length, 256 items | length, 256 items | …
//! ```
//!
//! The second form is a list, whose pieces are read on several threads.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::durable::{PathError, replace_cache};
use base::files::{Digest, cores, in_parts, read_bytes};

/// Bytes of the digest.
const SEAL: usize = 32;
/// Items of a list that are read one after the other.
const PIECE: usize = 256;
/// Bytes of a piece's length.
const LENGTH: usize = size_of::<u32>();

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<(), PathError> {
    // The seal's place, then the body: a large one is not copied.
    seal_and_write(path, postcard::to_extend(value, vec![0; SEAL])).map(drop)
}

/// `None` for what is not there, and for anything odd about it.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = read_bytes(path).ok()?;
    postcard::from_bytes(unseal(&bytes)?).ok()
}

/// A value with a long list apart from it. Returns the digest that the file begins with.
pub(super) fn write_list<T: Serialize>(
    path: &Path,
    head: &impl Serialize,
    items: impl Iterator<Item = T>,
) -> Result<Digest, PathError> {
    seal_and_write(path, list_bytes(head, items))
}

fn list_bytes<T: Serialize>(head: &impl Serialize, items: impl Iterator<Item = T>) -> postcard::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(head, vec![0; SEAL])?;
    let mut items = items.peekable();
    while items.peek().is_some() {
        let begin = bytes.len() + LENGTH;
        bytes.extend([0; LENGTH]);
        for item in items.by_ref().take(PIECE) {
            bytes = postcard::to_extend(&item, bytes)?;
        }
        let length = u32::try_from(bytes.len() - begin).map_err(|_| postcard::Error::SerializeBufferFull)?;
        bytes[begin - LENGTH..begin].copy_from_slice(&length.to_le_bytes());
    }
    Ok(bytes)
}

/// The head, and of each item what `take` makes of it; `None` for what is not there, and for anything odd about it.
pub(super) fn read_list<H: DeserializeOwned, T: DeserializeOwned, R: Send>(
    path: &Path,
    take: impl Fn(T) -> R + Sync,
) -> Option<(H, Vec<R>)> {
    list_of_bytes(&read_bytes(path).ok()?, take)
}

/// Like `read_list`, of a file that begins with this digest; `None` for another one, which is not checked any further.
pub(super) fn read_list_with<H: DeserializeOwned, T: DeserializeOwned, R: Send>(
    digest: &Digest,
    path: &Path,
    take: impl Fn(T) -> R + Sync,
) -> Option<(H, Vec<R>)> {
    let bytes = read_bytes(path).ok()?;
    bytes.starts_with(digest.bytes()).then(|| list_of_bytes(&bytes, take)).flatten()
}

fn list_of_bytes<H: DeserializeOwned, T: DeserializeOwned, R: Send>(
    bytes: &[u8],
    take: impl Fn(T) -> R + Sync,
) -> Option<(H, Vec<R>)> {
    let (head, mut rest) = postcard::take_from_bytes::<H>(unseal(bytes)?).ok()?;
    let mut pieces = Vec::new();
    while let Some((length, others)) = rest.split_first_chunk::<LENGTH>() {
        let (piece, others) = others.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        // None was written, and each takes room below.
        if piece.is_empty() {
            return None;
        }
        pieces.push(piece);
        rest = others;
    }
    let items = |piece: &&[u8]| {
        let (mut items, mut rest) = (Vec::with_capacity(PIECE), *piece);
        while !rest.is_empty() {
            let (item, others) = postcard::take_from_bytes::<T>(rest).ok()?;
            // An item without bytes would never end.
            if others.len() == rest.len() {
                return None;
            }
            items.push(take(item));
            rest = others;
        }
        Some(items)
    };
    let read = parallel_map(&pieces, 1, items);
    let mut items_read = Vec::with_capacity(pieces.len() * PIECE);
    for items in read {
        items_read.append(&mut items?);
    }
    rest.is_empty().then_some((head, items_read))
}

/// `bytes`: room for the seal, then the body.
fn seal_and_write(path: &Path, bytes: postcard::Result<Vec<u8>>) -> Result<Digest, PathError> {
    let mut bytes = bytes.unwrap_or_else(|_| vec![0; SEAL]);
    let seal = Digest::hash(&bytes[SEAL..]);
    bytes[..SEAL].copy_from_slice(seal.bytes());
    replace_cache(path, &bytes).map(|()| seal)
}

/// The body, if the seal is its own.
fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (seal, body) = bytes.split_at_checked(SEAL)?;
    (Digest::hash(body).bytes() == seal).then_some(body)
}

/// More threads than this do not make `stat` calls and decoding quicker.
const MOST_THREADS: usize = 8;
/// Bytes of a thread's stack: the usual ones.
const STACK: usize = 2 << 20;

/// What `map` makes of each item, in their order. `least`: items of a thread, at least.
pub(super) fn parallel_map<T: Sync, R: Send>(items: &[T], least: usize, map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let size = items.len().div_ceil(cores().min(MOST_THREADS)).max(least);
    in_parts(items, size, STACK, |part| part.iter().map(&map).collect::<Vec<R>>()).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn list(items: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        write_list(&path, &("head", items), (0..items).map(|n| (n, n.to_string()))).unwrap();
        (folder, path)
    }

    #[test]
    fn a_list_is_read_as_it_was_written_however_long_it_is() {
        for count in [0, 1, 255, 256, 257, 5000] {
            let (_folder, path) = list(count);
            let read = read_list(&path, |(n, text): (u32, String)| format!("{n}{text}")).unwrap();
            assert_eq!(read, (("head".to_owned(), count), (0..count).map(|n| format!("{n}{n}")).collect()));
        }
    }

    #[test]
    fn a_list_that_was_cut_or_altered_or_holds_other_items_is_absent() {
        let (_folder, path) = list(600);
        let whole = fs::read(&path).unwrap();
        let read = || read_list::<(String, u32), (u32, String), ()>(&path, drop);
        assert!(read().is_some());
        for at in (0..whole.len()).step_by(97) {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            fs::write(&path, altered).unwrap();
            assert!(read().is_none(), "byte {at} altered");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(read().is_none(), "cut at {at}");
        }
        // Sealed, and yet no such list: cut in the last piece, in a length and before the head; a piece without items.
        let without_items = [&whole[SEAL..], &[0; LENGTH]].concat();
        for body in [&whole[SEAL..whole.len() - 1], &whole[SEAL..SEAL + 9], &[], &without_items] {
            seal_and_write(&path, Ok([&[0; SEAL], body].concat())).unwrap();
            assert!(read().is_none(), "{} bytes", body.len());
        }
        fs::write(&path, &whole).unwrap();
        assert!(read_list::<(String, u32), (u32, Vec<String>), ()>(&path, drop).is_none());
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for (count, least) in [(0, 1), (1, 1), (7, 1), (7, 100), (1000, 1), (1001, 64)] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(parallel_map(&items, least, |item| item + 1), (1..=count).collect::<Vec<usize>>());
        }
    }
}
