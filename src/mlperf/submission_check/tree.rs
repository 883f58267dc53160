//! Finds submitters, systems and results in a submission folder by the names of its folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::checks::{
    FindingWeight, REPACK_POWER, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings,
};
use crate::layout::scenario_titled;
use crate::package::{CALIBRATION_FILE, is_calibration_template};
use crate::{PackageProvenance, REHEARSAL_FILE, REPORT_FOLDER, SubmissionLayout};
use base::files::{read_description, read_document};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail, SUMMARY_FILE};
use rules::{Benchmark, MlperfScenario, Round};

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
    /// The benchmark's name in the round.
    pub official: &'a str,
    /// The round's rules for the benchmark.
    pub table: &'a Benchmark,
    /// The name of its folder.
    pub scenario: &'a str,
    /// The scenario of that name.
    pub titled: MlperfScenario,
    pub round: &'a Round,
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

    /// The scenario that a log here is judged in: the folder's, or SingleStream, from which an edge system may infer
    /// Offline.
    pub(super) fn scenario_of_run(&self, detail: &Detail) -> MlperfScenario {
        let single = MlperfScenario::SingleStream;
        let is_inferred = self.titled == MlperfScenario::Offline
            && self.traits.system_type.contains("edge")
            && detail.text("effective_scenario") == Some(single.loadgen());
        if is_inferred { single } else { self.titled }
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
    let mut submitters = Vec::new();
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
            submitters.push(Submitter { division: division.to_owned(), name, folder, systems, model_mapping });
        }
    }
    submitters
}

fn model_mapping(submitter: &Path) -> BTreeMap<String, String> {
    let read = read_description(submitter.join("model_mapping.json")).ok();
    read.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Names of folders in a folder, sorted. None that cannot be read.
pub(crate) fn folders(path: &Path) -> Vec<String> {
    names(path, fs::Metadata::is_dir)
}

pub(crate) fn files(path: &Path) -> Vec<String> {
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

// Which benchmarks and scenarios the round has, and which of them must be there together.

/// How the round knows the folder of a benchmark.
pub(super) enum BenchmarkFolder<'a> {
    /// The round's name of it, and its table.
    Known(&'a str, &'a Benchmark),
    /// A benchmark of the round that is not examined here, and why.
    LeftOut(&'a str),
    /// Not a benchmark of the round; a finding reports it.
    Unknown,
}

/// The benchmark that a folder is of; reports one that the round does not have.
pub(super) fn folder<'a>(
    to: &mut SubmissionFindings,
    submitter: &Submitter,
    round: &'a Round,
    found: &BenchmarkEntry,
) -> BenchmarkFolder<'a> {
    let is_of_round = |name: &str| round.benchmarks.contains_key(name) || round.left_out(name).is_some();
    let listed = |kind: &str, is_it: &dyn Fn(&str) -> bool| {
        let mut rows =
            include_str!("other-names.txt").lines().filter_map(|line| line.strip_prefix(kind)?.split_once(' '));
        rows.find(|(known, _)| is_it(known)).map(|(_, name)| name.to_owned())
    };
    let name = if is_of_round(&found.name) {
        found.name.clone()
    } else {
        listed("is ", &|known| known == found.name)
            .or_else(|| submitter.model_mapping.get(&found.name).cloned())
            .or_else(|| listed("has ", &|known| found.name.contains(known)))
            .unwrap_or_else(|| found.name.clone())
    };
    if let Some((name, benchmark)) = round.benchmarks.get_key_value(&name) {
        return BenchmarkFolder::Known(name, benchmark);
    }
    if let Some(rule) = round.left_out(&name) {
        return BenchmarkFolder::LeftOut(rule);
    }
    let others: Vec<&str> = Round::NAMES
        .into_iter()
        .filter(|name| Round::named(name).is_some_and(|other| other.benchmarks.contains_key(&found.name)))
        .collect();
    let names = round.benchmarks.keys().map(String::as_str);
    if others.is_empty() {
        let near = base::diag::did_you_mean(&found.name, names.clone());
        finding!(to; Refused, Benchmark, &found.folder, format!("{} is not a benchmark of {}", found.name, round.name),
            "nothing below it is judged; in Open, model_mapping.json names the benchmark of a model",
            near.unwrap_or_else(|| format!("take one of {}", names.collect::<Vec<_>>().join(", "))));
    } else {
        finding!(to; Refused, Benchmark, &found.folder,
            format!("{} has no benchmark {}; it was one in {}", round.name, found.name, others.join(", ")),
            "a round has its own benchmarks", format!("take one of {}", names.collect::<Vec<_>>().join(", ")));
    }
    BenchmarkFolder::Unknown
}

/// The scenarios of one benchmark, by their folders.
pub(super) fn check(to: &mut SubmissionFindings, submitter: &Submitter, found: &BenchmarkEntry, benchmark: &Benchmark) {
    let may: Vec<MlperfScenario> = benchmark.required.iter().chain(&benchmark.one_of).copied().collect();
    let mut there = Vec::new();
    for name in &found.scenarios {
        let at = found.folder.join(name);
        let Some(scenario) = scenario_titled(name) else {
            finding!(to; Refused, Scenario, &at, format!("{name:?} is not a scenario"),
                "scenarios are Offline, Server, Interactive", "remove it");
            continue;
        };
        if scenario.title() != name {
            finding!(to; Review, Scenario, &at, format!("it is called {name:?}"),
                "other scripts distinguish upper and lower case", format!("call it {}", scenario.title()));
        }
        there.push(scenario);
        if submitter.division != "open" && !may.contains(&scenario) {
            finding!(to; Refused, Scenario, &at, format!("{name} is not a scenario of {}", found.name),
                "a closed result is in one of the benchmark's scenarios", "remove it, or submit it to Open");
        }
    }
    if submitter.division == "open" {
        return;
    }
    for scenario in benchmark.required.iter().filter(|scenario| !there.contains(scenario)) {
        finding!(to; Refused, MissingScenario, &found.folder, format!("{} is missing", scenario.title()),
            "a closed benchmark has all its required scenarios", "run it, or submit to Open");
    }
    if !benchmark.one_of.is_empty() && !benchmark.one_of.iter().any(|scenario| there.contains(scenario)) {
        let names: Vec<&str> = benchmark.one_of.iter().map(|scenario| scenario.title()).collect();
        finding!(to; Refused, MissingScenario, &found.folder, format!("none of {} is there", names.join(", ")),
            "a closed benchmark has one of them in addition to Offline", "run one of them");
    }
}

// The folders of a submission beside its results: source, documentation, and what lies where nothing belongs.

/// Folders of a clone that are no part of the submission.
const BESIDE: [&str; 4] = [".git", ".github", "assets", REPORT_FOLDER];

/// Checks that the folder above the submitters holds only divisions and texts for readers.
pub(super) fn root(to: &mut SubmissionFindings, root: &Path, layout: SubmissionLayout) {
    let older = FindingWeight::of_older_checker(layout);
    let is_text = |name: &str| [".md", ".pdf"].iter().any(|end| name.ends_with(end));
    let is_known = |name: &str| DIVISIONS.contains(&name) || BESIDE.contains(&name);
    let in_divisions = DIVISIONS.iter().flat_map(|division| {
        let below = files(&root.join(division)).into_iter().map(move |name| Path::new(division).join(name));
        below.map(move |path| (older, path, "it is outside of every submitter's folder"))
    });
    let above = files(root).into_iter().filter(|name| !is_text(name));
    let above = above.map(|name| (older, PathBuf::from(name), "it is outside of every division"));
    let others = folders(root).into_iter().filter(|name| !is_known(name));
    let others = others.map(|name| (Review, PathBuf::from(name), "it is not a division"));
    for (weight, below, finding) in above.chain(others).chain(in_divisions) {
        finding!(to; weight, StrayFile, &root.join(below), finding,
            "next to closed/, open/ and network/ only texts (.md, .pdf) are allowed", "remove it");
    }
}

/// A folder below a division without `results/`. The checkers until v5.1 pass it over.
pub(super) fn no_results(to: &mut SubmissionFindings, submitter: &Submitter, layout: SubmissionLayout) {
    findings! { to;
        FindingWeight::of_newer_checker(layout), Layout, &submitter.folder,
            (!submitter.folder.join("results").is_dir()).then_some("it has no results/, and is not a submitter's"),
            "since v6.0 the official checker ends at a folder below a division without results/, and judges nothing",
            "remove it";
    }
}

/// Checks the source, the documentation and stray folders of one submitter with results.
pub(super) fn submitter(to: &mut SubmissionFindings, submitter: &Submitter, round: &Round) {
    let layout = SubmissionLayout::for_round(&round.name);
    let source = submitter.folder.join(layout.source());
    let documentation = submitter.folder.join("documentation");
    // The files that packing writes there explain nothing.
    let is_own = |name: &str| name == REHEARSAL_FILE || PackageProvenance::is_file_name(name);
    let calibrations = ["calibration.md", "documentation/calibration.md"];
    let paths = calibrations.map(|name| submitter.folder.join(name));
    let texts: Vec<String> = paths.iter().filter_map(|path| read_document(path).ok()).collect();
    // Published ones have at least 187 characters, or none, or `Dummy`.
    let longest = texts.iter().map(|text| text.trim().len()).max().filter(|length| *length < 20);
    let (templates, complete): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| is_calibration_template(text));
    let quantized = "a closed result explains how its model was quantized";
    let uncalibrated = if templates.is_empty() {
        "there is no calibration.md, here or in the submitter's folder"
    } else {
        "calibration.md is the template that packing writes, with lines to fill in"
    };
    findings! { to;
        Refused, Source, &source,
            files_of(&source)
                .next()
                .is_none()
                .then(|| if source.is_dir() { "it has no file with content" } else { "it is missing" }),
            "the code that made the results goes with them",
            format!("`mlperf.package.source: FOLDER`; {}/ in a folder of `assemble --logs`", layout.source());
        Review, Documentation, &documentation,
            files_of(&documentation)
                .all(|name| is_own(&name) || name == CALIBRATION_FILE && complete.is_empty())
                .then_some("there is none"),
            "calibration and bandwidth are explained there", "`mlperf.package.documentation: FOLDER`";
        FindingWeight::of_older_checker(layout), Calibration, &documentation,
            (submitter.division != "open" && complete.is_empty()).then_some(uncalibrated),
            quantized, "write documentation/calibration.md";
        Review, Calibration, paths.iter().find(|path| path.is_file()).unwrap_or(&documentation),
            longest.filter(|_| submitter.division != "open").map(|length| match length {
                0 => "it is empty".to_owned(),
                _ => format!("it has only {length} characters"),
            }), quantized, "write it";
    }
    // Folders that only the other layout has.
    let (name, strays): (_, &[&str]) = match layout {
        SubmissionLayout::Single => ("v5.1", &["measurements", "compliance", "code"]),
        SubmissionLayout::Split => ("v6.0", &["src"]),
    };
    for stray in strays.iter().map(|name| submitter.folder.join(name)).filter(|path| path.is_dir()) {
        let rule = "has its own layout; the official checker does not look here";
        finding!(to; Review, Layout, &stray, format!("this folder belongs to the layout of {name}"),
            format!("{} {rule} ({} is the source there)", round.name, layout.source()), "pack again for this round");
    }
}

/// Files that no check minds.
const IGNORED: [&str; 3] = ["mlperf_log_trace.json", "results.json", ".gitkeep"];

/// Reports files beside the logs of a result, which the checkers until v5.1 refuse, and other runs, for review.
pub(super) fn run_files(to: &mut SubmissionFindings, entry: &ResultEntry) {
    let above = entry.folder().join("performance");
    for name in folders(&above).into_iter().filter(|name| name.starts_with("run_") && name != "run_1") {
        finding!(to; Review, StrayFile, &above.join(name), "it is another run, which is not checked",
            "the result is run_1", "remove it");
    }
    let logs = [SUMMARY_FILE, DETAIL_FILE, ACCURACY_FILE, "accuracy.txt"];
    // A performance run with power has more files, which `power` checks.
    let has_power = above.join("power").is_dir();
    let runs = [entry.accuracy()].into_iter().chain((!has_power).then(|| entry.performance()));
    let runs = runs.filter(|_| entry.layout == SubmissionLayout::Split);
    runs.for_each(|folder| exactly(to, &folder, &[], &logs));
}

/// Refuses a folder that lacks one of the files, or has another one.
pub(super) fn exactly(to: &mut SubmissionFindings, folder: &Path, needed: &[&str], allowed: &[&str]) {
    let there = files(folder);
    for name in needed.iter().filter(|name| !there.iter().any(|file| file == *name)) {
        finding!(to; Refused, Power, &folder.join(name), "it is missing",
            "a result with power has exactly these files", REPACK_POWER);
    }
    let is_known = |name: &str| [needed, allowed, &IGNORED].iter().any(|names| names.contains(&name));
    for name in there.iter().filter(|name| !is_known(name)) {
        finding!(to; Refused, StrayFile, &folder.join(name), "it is not a file of such a run",
            "the official checker takes exactly the files of a run there, of any result until v5.1", "remove it");
    }
}

/// Names of all files below a folder, but for empty ones.
pub(super) fn files_of(folder: &Path) -> impl Iterator<Item = String> {
    let walk = walkdir::WalkDir::new(folder).into_iter().flatten();
    let has_bytes = |item: &walkdir::DirEntry| item.metadata().is_ok_and(|meta| !meta.is_dir() && meta.len() > 0);
    walk.filter(has_bytes).map(|item| item.file_name().to_string_lossy().into_owned())
}
