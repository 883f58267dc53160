//! Where fuzzing begins: the golden files of the tests, and what was found before.
#![allow(dead_code, reason = "the fuzzer writes them into files, the test reads them")]

use std::fs;
use std::path::{Path, PathBuf};

/// Longer files are left out: the fuzzer shortens what it can, and a short seed is read more often.
const LONGEST: u64 = 24 << 10;

/// A reader; folders under `tests`; the ends of names to take from them; and what is put in front of each file: the byte by which
/// the reader chooses a format.
type Source = (&'static str, &'static [&'static str], &'static [&'static str], &'static [u8]);

const SOURCES: [Source; 27] = [
    ("manifest", &["golden/broken", "golden/good", "golden/launch/manifests", "../manifests"], &[".yaml", ".bin"], &[]),
    ("expression", &["fuzz/seeds/expression"], &[""], &[]),
    ("model_config", &["golden/repository", "../templates/triton"], &[".pbtxt", ".j2"], &[]),
    ("grpc_answer", &["golden/peers", "fuzz/seeds/grpc_answer"], &[".grpc", ""], &[0, 1]),
    ("sse", &["fuzz/seeds/sse"], &[""], &[0, 1, 2]),
    ("http", &["golden/peers", "fuzz/seeds/http"], &[".http"], &[0, 1, 2]),
    ("server_reports", &["fuzz/seeds/server_reports"], &[""], &[]),
    ("server_metrics", &["fuzz/seeds/server_metrics"], &[""], &[]),
    ("journal", &["fuzz/seeds/journal"], &[""], &[]),
    ("records", &["fuzz/seeds/records"], &[""], &[]),
    ("state_caches", &["fuzz/seeds/state_caches"], &[""], &[]),
    ("job_messages", &["fuzz/seeds/job_messages"], &[""], &[]),
    ("shared_outputs", &["fuzz/seeds/shared_outputs"], &[""], &[]),
    ("lock_file", &["fuzz/seeds/lock_file"], &[""], &[]),
    ("loadgen_log", &["golden/mlperf/logs"], &[""], &[]),
    ("import_line", &["golden/translate", "golden/pasted"], &[".line", ".lines", ".sh", ".py", ".sub"], &[]),
    (
        "import_results",
        &["golden/results", "golden/sweeps", "golden/mlperf/logs"],
        &[".json", ".jsonl", ".txt"],
        &[0, 1, 2, 3, 4, 5],
    ),
    ("own_results", &["golden/results/benchmark", "fuzz/seeds/own_results"], &[".json", ".jsonl"], &[0, 1, 2, 3]),
    ("npy", &["fuzz/seeds/npy"], &[""], &[]),
    ("prompts", &["fuzz/seeds/prompts"], &[""], &[0, 1, 2, 3]),
    ("hub_listing", &["fuzz/seeds/hub_listing"], &[""], &[]),
    ("checkpoint", &["fuzz/seeds/checkpoint"], &[""], &[]),
    ("engine_config", &["fuzz/seeds/engine_config"], &[""], &[]),
    ("tokenizer", &["golden/mlperf", "fuzz/seeds/tokenizer"], &["tokenizer.json"], &[]),
    ("submission", &["fuzz/seeds/submission"], &[""], &[]),
    ("mlperf_data", &["fuzz/seeds/mlperf_data"], &[""], &[]),
    ("program_output", &["fuzz/seeds/program_output"], &[""], &[]),
];

fn files(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        if path.is_dir() {
            files(&path, ends, found);
        } else if ends.iter().any(|end| path.to_string_lossy().ends_with(end))
            && entry.metadata().expect("a file").len() <= LONGEST
        {
            found.push(path);
        }
    }
}

/// The seeds of a reader, in a fixed order. `tests` is the folder of the tests.
pub fn seeds(tests: &Path, reader: &str) -> Vec<Vec<u8>> {
    let (_, folders, ends, choices) = SOURCES.iter().find(|(name, ..)| *name == reader).expect("a reader");
    let mut paths = Vec::new();
    for folder in *folders {
        files(&tests.join(folder), ends, &mut paths);
    }
    paths.sort();
    let mut seeds = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).expect("a seed");
        if choices.is_empty() {
            seeds.push(bytes);
        } else {
            seeds.extend(choices.iter().map(|choice| [&[*choice], &bytes[..]].concat()));
        }
    }
    seeds
}

/// Inputs on which a reader failed once, with their paths; each is mended.
pub fn findings(tests: &Path, reader: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = tests.join("fuzz/findings").join(reader);
    let mut paths = Vec::new();
    if folder.is_dir() {
        files(&folder, &[""], &mut paths);
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).expect("a finding");
            (path, bytes)
        })
        .collect()
}

/// Writes the seeds of a reader into `corpus/<reader>`, and what failed once.
pub fn write_corpus(reader: &str) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = fuzz.parent().expect("a parent");
    let folder = fuzz.join("corpus").join(reader);
    fs::create_dir_all(&folder).expect("a folder");
    let known = findings(tests, reader).into_iter().map(|(_, bytes)| bytes);
    for (number, bytes) in seeds(tests, reader).into_iter().chain(known).enumerate() {
        fs::write(folder.join(format!("seed-{number}")), bytes).expect("a seed");
    }
}
