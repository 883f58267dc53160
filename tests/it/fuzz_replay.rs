//! The readers of `tests/fuzz` on their seeds, on what failed once, and on seeds changed in the same ways each time. No fuzzer and
//! no nightly toolchain is needed; the long search is `tests/fuzz/run`.
//!
//! Each reader runs in a process of its own, whose memory and time the kernel bounds as the fuzzer does: some findings took gigabytes, or hours.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

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

/// Address space of a process that replays, bytes: the fuzzer's limit, and what the test program has at its start.
const MEMORY: u64 = (2 << 30) + (1 << 30);
/// Time of the processor that one input may take, s: the fuzzer allows 20 s for a program that is several times as quick as a test's. A
/// busy machine does not count.
const SECONDS: u64 = 60;
/// Names the folder of a process that replays.
const FOLDER: &str = "REGATTA_REPLAY";

/// A process that replays, and has limits.
struct Replay {
    /// Where it keeps what it reads at the moment.
    folder: PathBuf,
    seconds: u64,
}

impl Replay {
    /// `None` in the test itself.
    fn of_this_process(seconds: u64) -> Option<Self> {
        let folder = std::env::var_os(FOLDER)?.into();
        limit(Resource::As, MEMORY);
        limit(Resource::Core, 0);
        Some(Self { folder, seconds })
    }

    fn holds(&self, reader: fn(&[u8]), what: &str, bytes: &[u8]) {
        std::fs::write(self.folder.join("what"), what).expect("a file");
        std::fs::write(self.folder.join("bytes"), bytes).expect("a file");
        let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec as u64;
        limit(Resource::Cpu, used + 1 + self.seconds);
        reader(bytes);
    }

    fn all(&self, name: &str) {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let (_, reader) = *readers::READERS.iter().find(|(known, _)| *known == name).expect("a reader");
        for (path, bytes) in seeds::findings(&tests, name) {
            self.holds(reader, &path.display().to_string(), &bytes);
        }
        let seeds = seeds::seeds(&tests, name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (number, seed) in seeds.iter().enumerate() {
            self.holds(reader, &format!("seed {number}"), seed);
        }
        let mut random = Pcg64::seed_from_u64(20_261_124);
        for number in 0..CHANGED {
            let mut any = || &seeds[random.random_range(0..seeds.len())];
            let [seed, other] = [any(), any()];
            self.holds(reader, &format!("changed seed {number}"), &change(seed, other, &mut random));
        }
    }
}

/// For this process, and for what it does from now on. The hard limit stays, so that the next input can have a later one.
fn limit(resource: Resource, most: u64) {
    setrlimit(resource, Rlimit { current: Some(most), ..getrlimit(resource) }).expect("a limit");
}

/// Does a test in a process of its own: this program with this test alone.
fn in_bounds(test: &str, env: &[(&str, &str)]) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    // Two threads: with one a test would run on the main thread, whose stack is larger.
    command.args(["--exact", &format!("fuzz_replay::{test}"), "--test-threads=2"]);
    command.env(FOLDER, folder.path()).envs(env.iter().copied());
    let ended = command.output().expect("this program");
    let output = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if ended.status.success() {
        assert!(output.contains("1 passed"), "there is no test {test}: {output}");
        return Ok(());
    }
    let what = std::fs::read_to_string(folder.path().join("what")).unwrap_or_else(|_| "its start".to_owned());
    let kept = std::env::temp_dir().join(format!("regatta-{test}-finding"));
    let _ = std::fs::copy(folder.path().join("bytes"), &kept);
    Err(format!(
        "{test} panics, or takes too much memory or time, at {what} ({}); its bytes are in {}: keep them in \
         tests/fuzz/findings/{test}\n{output}",
        ended.status,
        kept.display()
    ))
}

fn replay(name: &str) {
    match Replay::of_this_process(SECONDS) {
        Some(replay) => replay.all(name),
        None => in_bounds(name, &[]).unwrap_or_else(|finding| panic!("{finding}")),
    }
}

#[test]
fn a_reader_that_panics_or_takes_too_much_is_found() {
    const TEST: &str = "a_reader_that_panics_or_takes_too_much_is_found";
    /// Names one of them for the process that replays.
    const READER: &str = "REGATTA_REPLAY_READER";
    let bad: [(&str, readers::Reader, &str); 3] = [
        ("panics", |_| panic!("found"), "exit status: 101"),
        ("takes memory", |_| drop(std::hint::black_box(vec![1_u8; 4 << 30])), "SIGABRT"),
        ("takes time", |_| while std::hint::black_box(true) {}, "SIGXCPU"),
    ];
    if let Some(replay) = Replay::of_this_process(1) {
        let name = std::env::var(READER).expect("a name");
        let (_, reader, _) = bad.iter().find(|(known, ..)| *known == name).expect("a reader");
        return replay.holds(*reader, "an input", b"bytes");
    }
    for (name, _, found) in bad {
        let finding = in_bounds(TEST, &[(READER, name)]).expect_err(name);
        assert!(finding.contains("at an input (") && finding.contains(found), "{name}: {finding}");
    }
}

macro_rules! replays {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_reader_has_its_replay_and_is_documented() {
            assert_eq!(readers::READERS.map(|(name, _)| name), [$(stringify!($name)),*]);
            let page = include_str!("../../CONTRIBUTING.md");
            for (name, _) in readers::READERS {
                assert!(page.contains(&format!("`{name}`")), "{name}");
            }
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
    server_reports,
    server_metrics,
    journal,
    records,
    state_caches,
    job_messages,
    shared_outputs,
    lock_file,
    loadgen_log,
    import_line,
    import_results,
    own_results,
    npy,
    prompts,
    hub_listing,
    checkpoint,
    engine_config,
    tokenizer,
    submission,
    mlperf_data,
    program_output
);
