//! What is where in a submission folder, by names alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::SubmissionLayout;
use base::files::read_bytes;
use base::spec::TestMode;
use rules::MlperfScenario;
use rules::log::Detail;

/// One submitter in one division.
#[derive(Clone, Debug)]
pub(super) struct Submitter {
    pub division: String,
    pub name: String,
    pub folder: PathBuf,
    pub systems: Vec<SystemEntry>,
    /// Of Open: a folder's name → the benchmark that it is of.
    pub model_mapping: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(super) struct SystemEntry {
    pub name: String,
    pub benchmarks: Vec<BenchmarkEntry>,
}

#[derive(Clone, Debug)]
pub(super) struct BenchmarkEntry {
    pub name: String,
    pub folder: PathBuf,
    pub scenarios: Vec<String>,
}

impl Submitter {
    /// All folders of benchmarks, each with its system.
    pub(super) fn benchmarks(&self) -> impl Iterator<Item = (&SystemEntry, &BenchmarkEntry)> {
        self.systems.iter().flat_map(|system| system.benchmarks.iter().map(move |found| (system, found)))
    }
}

/// What the description of a system decides about its results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SystemTraits {
    /// `datacenter`, `edge` or both; empty where the description cannot be read.
    pub system_type: String,
    /// LoadGen is on another machine.
    pub is_network: bool,
}

/// One result: a benchmark on a system in a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultEntry<'a> {
    pub submitter: &'a Submitter,
    pub system: &'a str,
    pub traits: &'a SystemTraits,
    /// The name of its folder.
    pub benchmark: &'a str,
    /// The round's name of it.
    pub official: &'a str,
    /// The name of its folder.
    pub scenario: &'a str,
    /// `v6.1`.
    pub round: &'a str,
    pub layout: SubmissionLayout,
}

impl ResultEntry<'_> {
    pub(super) fn folder(&self) -> PathBuf {
        self.submitter.folder.join(self.layout.result(self.system, self.benchmark, self.scenario))
    }

    pub(super) fn performance(&self) -> PathBuf {
        self.folder().join("performance/run_1")
    }

    pub(super) fn accuracy(&self) -> PathBuf {
        self.folder().join("accuracy")
    }

    pub(super) fn audit(&self, test: TestMode) -> PathBuf {
        self.submitter.folder.join(self.layout.audit(self.system, self.benchmark, self.scenario, test))
    }

    pub(super) fn measurements(&self) -> PathBuf {
        self.submitter.folder.join(self.layout.measurements(self.system, self.benchmark, self.scenario))
    }

    /// The scenario that a log here is judged in: the folder's, or SingleStream, from which an edge system may infer Offline.
    pub(super) fn scenario_of_run(&self, detail: &Detail, scenario: MlperfScenario) -> MlperfScenario {
        let single = MlperfScenario::SingleStream;
        let is_inferred = scenario == MlperfScenario::Offline
            && self.traits.system_type.contains("edge")
            && detail.text("effective_scenario") == Some(single.loadgen());
        if is_inferred { single } else { scenario }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.submitter.division != "open"
    }
}

pub(crate) const DIVISIONS: [&str; 3] = ["closed", "open", "network"];

/// The folder above the division that a path is, or is in.
pub(super) fn above_division(path: &Path) -> Option<PathBuf> {
    let is_division = |folder: &&Path| DIVISIONS.iter().any(|name| folder.ends_with(name));
    let above = path.ancestors().find(is_division)?.parent()?;
    Some(if above.as_os_str().is_empty() { PathBuf::from(".") } else { above.to_owned() })
}

pub(super) fn submitters(root: &Path) -> Vec<Submitter> {
    let mut found = Vec::new();
    for division in DIVISIONS {
        for name in folders(&root.join(division)) {
            let folder = root.join(division).join(&name);
            let results = folder.join("results");
            let systems = folders(&results)
                .into_iter()
                .map(|system| {
                    let above = results.join(&system);
                    let benchmarks = folders(&above)
                        .into_iter()
                        .map(|name| {
                            let folder = above.join(&name);
                            BenchmarkEntry { scenarios: folders(&folder), name, folder }
                        })
                        .collect();
                    SystemEntry { name: system, benchmarks }
                })
                .collect();
            let model_mapping = if division == "open" { model_mapping(&folder) } else { BTreeMap::new() };
            found.push(Submitter { division: division.to_owned(), name, folder, systems, model_mapping });
        }
    }
    found
}

fn model_mapping(submitter: &Path) -> BTreeMap<String, String> {
    let read = read_bytes(submitter.join("model_mapping.json")).ok();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Names of folders in a folder, sorted. None that cannot be read.
pub(super) fn folders(path: &Path) -> Vec<String> {
    names(path, fs::Metadata::is_dir)
}

pub(super) fn files(path: &Path) -> Vec<String> {
    names(path, fs::Metadata::is_file)
}

fn names(path: &Path, wanted: impl Fn(&fs::Metadata) -> bool) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|item| fs::metadata(item.path()).is_ok_and(|meta| wanted(&meta)))
        .map(|item| item.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
