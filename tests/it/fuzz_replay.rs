//! The readers of `tests/fuzz` on their seeds, on what failed once, and on seeds changed in the same ways each time. No fuzzer and
//! no nightly toolchain is needed; the long search is `tests/fuzz/run`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

#[path = "../fuzz/src/readers.rs"]
mod readers;
#[path = "../fuzz/src/seeds.rs"]
mod seeds;

/// Changed seeds of each reader.
const CHANGED: usize = 400;
/// What readers stumble over.
const WORDS: [&[u8]; 16] = [
    b"18446744073709551616",
    b"9223372036854775807",
    b"-1",
    b"1e999",
    b"NaN",
    b"4294967295",
    b"\0",
    b"\xff\xfe",
    b"\n",
    b"\r\n\r\n",
    b"{{",
    b"}}",
    b"[[[[[[[[",
    b"\"",
    b"\xe2\x80\xa8",
    b"null",
];

/// One to four changes: a bit, a piece removed, repeated or taken from another seed, a word, a cut.
fn change(seed: &[u8], other: &[u8], random: &mut Pcg64) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(0..=32)).min(bytes.len());
        match random.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            3 if !other.is_empty() => {
                let from = random.random_range(0..other.len());
                let to = (from + 64).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            4 => drop(bytes.splice(at..end, WORDS[random.random_range(0..WORDS.len())].iter().copied())),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn holds(reader: fn(&[u8]), name: &str, what: &str, bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| reader(bytes))).is_err() {
        let path = std::env::temp_dir().join(format!("regatta-{name}-finding"));
        std::fs::write(&path, bytes).expect("a file");
        panic!("{name} panics at {what}; its bytes are in {}: keep them in tests/fuzz/findings/{name}", path.display());
    }
}

fn replay(name: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (_, reader) = *readers::READERS.iter().find(|(known, _)| *known == name).expect("a reader");
    for (path, bytes) in seeds::findings(&tests, name) {
        holds(reader, name, &path.display().to_string(), &bytes);
    }
    let seeds = seeds::seeds(&tests, name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (number, seed) in seeds.iter().enumerate() {
        holds(reader, name, &format!("seed {number}"), seed);
    }
    let mut random = Pcg64::seed_from_u64(20_261_124);
    for number in 0..CHANGED {
        let [seed, other] = [&seeds[random.random_range(0..seeds.len())], &seeds[random.random_range(0..seeds.len())]];
        holds(reader, name, &format!("changed seed {number}"), &change(seed, other, &mut random));
    }
}

macro_rules! replays {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_reader_has_its_replay() {
            assert_eq!(readers::READERS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

replays!(
    manifest,
    expression,
    model_config,
    grpc_answer,
    sse,
    http,
    journal,
    records,
    lock_file,
    loadgen_log,
    import_line,
    import_results,
    npy,
    prompts
);
