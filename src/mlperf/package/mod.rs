//! The result directory of a submission, from the outputs of stages.

mod copy_files;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{PACKAGE_LOCK_FILE, PackageProvenance, ProvenanceStage, REHEARSAL_FILE, SubmissionLayout};
use crate::accuracy::{AccuracyReport, ScoringMethod};
use crate::layout::test_folder;
use crate::{LockedRun, accuracy};
use base::files::read_text;
use base::spec::{Division, TestMode};
use rules::log::{ACCURACY_FILE, AnswerLog, Width};
use rules::system::Accelerator;
use rules::{GivenDescription, MlperfScenario, Round, system};

/// A package that was written.
#[derive(Clone, Debug)]
pub struct WrittenPackage {
    pub lock: PackageProvenance,
    /// `closed/<submitter>`, below the output.
    pub submitter: PathBuf,
}

/// Writes the package into `out`.
pub fn pack(order: &PackageRequest, out: &Path) -> Result<WrittenPackage, Unpacked> {
    let description = order.given_description().completed(order.machine.as_deref(), &order.gpus);
    let missing = description.missing();
    let mut problems = Vec::new();
    let mut snippet = None;
    if !missing.is_empty() {
        problems.push(format!("values that are not known ({}): {}", missing.len(), missing.join(", ")));
        snippet = Some(system::snippet(&description.missing_fields, &description.missing_measurements));
    }
    problems.extend(name_problems(order));
    let tests = copy_files::read_tests(order, &mut problems);
    if !problems.is_empty() {
        return Err(Unpacked::Incomplete { problems, snippet });
    }
    let submitter = Path::new(order.division.as_str()).join(&order.submitter);
    let to = copy_files::SubmitterFolder {
        root: out.join(&submitter),
        layout: SubmissionLayout::for_round(&order.round.name),
    };
    to.json(&Path::new("systems").join(format!("{}.json", order.system)), &Value::Object(description.system_json))?;
    let results = order
        .results
        .iter()
        .zip(tests)
        .map(|(entry, tests)| copy_files::result(&to, order, entry, tests))
        .collect::<Result<Vec<_>, _>>()?;
    to.tree(order.source.as_deref(), to.layout.source())?;
    to.tree(order.documentation.as_deref(), "documentation")?;
    let own_text = order.documentation.iter().any(|folder| folder.join(CALIBRATION_FILE).is_file());
    if order.division == Division::Closed && !own_text {
        to.text(&Path::new("documentation").join(CALIBRATION_FILE), &calibration(order))?;
    }
    let lock = PackageProvenance {
        regatta: order.version.clone(),
        round: order.round.name.clone(),
        division: order.division.as_str().to_owned(),
        submitter: order.submitter.clone(),
        system: order.system.clone(),
        rehearsal: order.rehearse,
        results,
        stages: order.upstream_tasks.iter().map(|made| made.stage.clone()).collect::<Vec<ProvenanceStage>>(),
    };
    if to.layout == SubmissionLayout::Split {
        // Until v5.1 power needs descriptions, which hold for all results of the system.
        let measurements = Path::new("measurements").join(&order.system);
        order.documentation.iter().try_for_each(|folder| to.described_power(folder, &measurements))?;
        // Until v5.1 each benchmark has a folder of its own there.
        for benchmark in order.results.iter().map(|entry| &entry.benchmark) {
            let folder = Path::new(to.layout.source()).join(benchmark);
            if !to.root.join(&folder).exists() {
                to.text(&folder.join("README.md"), &source(order))?;
            }
        }
    }
    // What was run is source, too: enough to make it again.
    let world = Path::new(to.layout.source()).join(&order.system);
    for (path, text) in &order.manifest_files {
        to.text(&world.join(path), text)?;
    }
    to.text(&world.join("README.md"), &source(order))?;
    to.json(&Path::new("documentation").join(PACKAGE_LOCK_FILE), &serde_json::to_value(&lock).unwrap_or_default())?;
    if order.rehearse {
        to.text(&Path::new("documentation").join(REHEARSAL_FILE), REHEARSAL)?;
    }
    Ok(WrittenPackage { lock, submitter })
}

fn name_problems(order: &PackageRequest) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, name) in [("submitter", &order.submitter), ("system", &order.system)] {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c)) {
            problems
                .push(format!("`{key}` becomes the name of a folder, with letters, digits, . _ - + only: {name:?}"));
        }
    }
    let benchmark_names = || order.round.benchmarks.keys().map(String::as_str);
    for entry in &order.results {
        if !order.round.benchmarks.contains_key(&entry.benchmark) {
            let hint = base::diag::did_you_mean(&entry.benchmark, benchmark_names())
                .unwrap_or_else(|| format!("there are {}", benchmark_names().collect::<Vec<_>>().join(", ")));
            problems.push(format!("{} has no benchmark `{}`: {hint}", order.round.name, entry.benchmark));
        }
    }
    for (index, entry) in order.results.iter().enumerate() {
        let same = |other: &PackageEntry| other.benchmark == entry.benchmark && other.scenario == entry.scenario;
        if order.results[..index].iter().any(same) {
            problems.push(format!("{} {} is twice under `results`", entry.benchmark, entry.scenario.title()));
        }
    }
    problems
}

// What a result was made from: the lock's stages, and what was under test.

/// A finished task with the folder of its output.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedTask {
    pub stage: ProvenanceStage,
    /// None of a service.
    pub folder: Option<PathBuf>,
}

/// The kinds of stages that make up a system under test.
const SYSTEM: [&str; 3] = ["engine", "repository", "serve"];

/// The task that has this folder as its output, and what it measured.
fn origins(made: &[FinishedTask], folder: &Path) -> (Option<String>, BTreeMap<String, BTreeSet<String>>) {
    let mut under_test: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let Some(first) = made.iter().find(|made| made.folder.as_deref() == Some(folder)) else {
        return (None, under_test);
    };
    let mut open = vec![&first.stage];
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(stage) = open.pop() {
        if !seen.insert(&stage.task) {
            continue;
        }
        if SYSTEM.contains(&stage.kind.as_str()) {
            under_test.entry(stage.kind.clone()).or_default().insert(identity(stage));
        }
        open.extend(
            stage
                .upstream
                .keys()
                .filter_map(|task| made.iter().find(|made| made.stage.task == *task))
                .map(|made| &made.stage),
        );
    }
    (Some(first.stage.task.clone()), under_test)
}

/// The digest of the output. A service has none: then what it was started with, its upstream tasks by their digests, so
/// that two stages with other names and the same content are the same.
fn identity(stage: &ProvenanceStage) -> String {
    if let Some(digest) = &stage.digest {
        return digest.clone();
    }
    let mut action = stage.action.to_string();
    for (task, digest) in &stage.upstream {
        action = action
            .replace(&format!(":{task}⟧"), &format!(":{digest}⟧"))
            .replace(&format!(":{task}:"), &format!(":{digest}:"));
    }
    format!("{:x}", Sha256::digest(action.as_bytes()))
}

// What is to be packed, and why it was not.

/// What is to be packed.
#[derive(Clone, Debug)]
pub struct PackageRequest {
    pub round: Round,
    pub division: Division,
    pub submitter: String,
    pub system: String,
    /// The user's description of the system; it takes precedence over the machine's facts.
    pub system_json: Map<String, Value>,
    pub measurements: Map<String, Value>,
    /// The root folder of the machine that was measured, `/`. None: it is not this one.
    pub machine: Option<PathBuf>,
    pub gpus: Vec<Accelerator>,
    pub results: Vec<PackageEntry>,
    pub source: Option<PathBuf>,
    pub documentation: Option<PathBuf>,
    pub rehearse: bool,
    /// The version of Regatta, and what identifies that program.
    pub version: String,
    /// The manifest and what it includes: path in a project, and text.
    pub manifest_files: Vec<(PathBuf, String)>,
    /// The command that makes it all again: `regatta run … a=b`.
    pub command: String,
    /// Everything that the results were made from.
    pub upstream_tasks: Vec<FinishedTask>,
}

impl PackageRequest {
    fn given_description(&self) -> GivenDescription<'_> {
        GivenDescription {
            division: self.division,
            submitter: &self.submitter,
            system: &self.system,
            system_json: &self.system_json,
            measurements: &self.measurements,
        }
    }
}

/// One benchmark in one scenario: outputs of its stages.
#[derive(Clone, Debug)]
pub struct PackageEntry {
    pub benchmark: String,
    /// The benchmark whose runs these are, where it is another: that for 99.9 % of one for 99 %.
    pub copy_of: Option<String>,
    pub scenario: MlperfScenario,
    pub performance: PathBuf,
    pub accuracy: PathBuf,
    pub score: PathBuf,
    pub audits: IndexMap<TestMode, PathBuf>,
    pub verified: IndexMap<TestMode, PathBuf>,
}

impl PackageEntry {
    /// The type of token ids in the accuracy log. Where no answer has one, that which LoadGen is given.
    fn token_ids(&self) -> Width {
        let report = read_text(self.score.join(accuracy::ACCURACY_FILE)).ok();
        let report: Option<AccuracyReport> = report.and_then(|text| serde_json::from_str(&text).ok());
        report.and_then(|report| report.log.token_ids).unwrap_or(Width::Int32)
    }

    /// The type of token ids in the log of an audit. None: no answer there has one.
    fn audit_token_ids(&self, mode: TestMode) -> Option<Width> {
        let log = AnswerLog::open(&self.audits.get(&mode)?.join(ACCURACY_FILE)).ok()?;
        log.map_while(Result::ok).find_map(|answer| Width::guess(&answer))
    }

    /// The same result for 99 % of the reference's accuracy. None: it is not for 99.9 %, or the round has no other.
    pub fn lowered(&self, round: &Round) -> Option<Self> {
        let low = round.lower_accuracy(&self.benchmark)?;
        Some(Self { benchmark: low, copy_of: Some(self.benchmark.clone()), ..self.clone() })
    }
}

/// Why nothing was packed: all of it at once.
#[derive(Debug, thiserror::Error)]
pub enum Unpacked {
    #[error("{}", .problems.join("\n"))]
    Incomplete {
        problems: Vec<String>,
        /// What the user must add, as a part of a manifest.
        snippet: Option<String>,
    },
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
}

// The texts of a package: how to make each result again, as it was made.

const REHEARSAL: &str = "# Rehearsal\n\nThis package is for practice: it has shortened durations or synthetic data.\n\
    It must not be submitted.\n";

/// Of one result.
fn result(order: &PackageRequest, entry: &PackageEntry, runs: &IndexMap<TestMode, LockedRun>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# {} {} on {}\n", entry.benchmark, entry.scenario.title(), order.system);
    if order.rehearse {
        text.push_str("**A rehearsal: not for submission.**\n\n");
    }
    let (round, regatta) = (&order.round, &order.version);
    let loadgen = runs.values().find_map(|run| Some(&run.test.as_ref()?.loadgen_version));
    let loadgen = loadgen.unwrap_or(&round.loadgen.version);
    let _ = writeln!(text, "MLPerf Inference {}, mlcommons-loadgen {loadgen}, Regatta {regatta}.\n", round.name);
    let source = SubmissionLayout::for_round(&order.round.name).source();
    let _ = writeln!(
        text,
        "## All of it\n\nIn `{source}/{}` of the submitter's folder, which has the manifest and the files that it \
         includes:\n\n```\n{}\n```\n\n## One by one\n",
        order.system, order.command
    );
    for (mode, run) in runs {
        let command = match &run.task {
            Some(task) => format!("{} --until {task}", order.command),
            None => order.command.clone(),
        };
        let _ = writeln!(text, "{}:\n\n```\n{command}\n```\n", test_folder(*mode));
    }
    let test06 = runs.contains_key(&TestMode::Test06).then(|| entry.audit_token_ids(TestMode::Test06)).flatten();
    text.push_str(&official_scripts(&entry.benchmark, entry.token_ids(), test06));
    let stages = upstream(order, runs);
    if !stages.is_empty() {
        text.push_str("## What was run\n\nIn this order; keys and digests are in `documentation/regatta.lock`.\n\n");
        for stage in stages {
            write_stage(&mut text, stage);
        }
    }
    text
}

/// How the scripts of mlcommons/inference read the logs: they differ in the type of token ids that they expect. The
/// runs may have been made by different versions of Regatta, so the log of TEST06 has a type of its own.
fn official_scripts(benchmark: &str, token_ids: Width, test06: Option<Width>) -> String {
    let scorer =
        ScoringMethod::for_benchmark(benchmark).map(|method| (method.script(), token_ids, method.has_dtype_option()));
    let test06 = test06.map(|width| ("compliance/TEST06/run_verification.py", width, true));
    let mut text = format!(
        "## Scripts of mlcommons/inference\n\nToken ids in the accuracy log are {}, lowest byte first:\n\n",
        token_ids.dtype()
    );
    for (script, token_ids, has_option) in scorer.into_iter().chain(test06) {
        let how = if has_option {
            format!("`--dtype {}`", token_ids.dtype())
        } else if token_ids == Width::Int32 {
            "its own type, without an option".to_owned()
        } else {
            "it reads int32 alone, and misreads these".to_owned()
        };
        let _ = writeln!(text, "- `{script}`: {how}");
    }
    text + "\n"
}

/// The name of the text that explains how a model was quantized.
pub const CALIBRATION_FILE: &str = "calibration.md";

/// How a line begins that the submitter has to complete.
const FILL_IN: &str = "FILL IN: ";

/// Whether a text on calibration is the template with a line that is still to be completed.
pub fn is_calibration_template(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(FILL_IN))
}

/// The settings of a stage that decide how its model is quantized, by their place in its action.
const QUANTIZATION: &str = "\
    /weights/hf /engine/precision /engine/checkpoint /engine/checkpoint_flags /serve/trtllm_serve/model \
    /serve/trtllm_serve/options/kv_cache_config/dtype /serve/trtllm_serve/options/quant_config /serve/vllm/model \
    /serve/vllm/options/quantization /serve/vllm/options/kv_cache_dtype";

/// A template of `documentation/calibration.md`: what the stages set, and what only the submitter knows.
fn calibration(order: &PackageRequest) -> String {
    // Without the system: packages of several systems that are quantized alike become one submission.
    let mut text = "# Calibration and quantization of the model\n\n".to_owned();
    for name in ["starting_weights_filename", "weight_data_types", "weight_transformations", "retraining"] {
        let value = order.measurements.get(name).and_then(Value::as_str).unwrap_or("not given");
        let _ = writeln!(text, "- {name}: {value}");
    }
    text.push_str("\n## Settings of the stages\n\nEach stage that Regatta ran, with its settings of quantization:\n\n");
    for stage in order.upstream_tasks.iter().map(|made| &made.stage) {
        let settings = QUANTIZATION.split(' ').filter_map(|path| Some((path, stage.action.pointer(path)?)));
        for (path, value) in settings.filter(|(_, value)| !value.is_null()) {
            let _ = writeln!(text, "- {}: `{}: {value}`", stage.task, path[1..].replace('/', "."));
        }
    }
    text.push_str("\n## Method\n\n");
    for question in [
        "the calibration data (one of those that the rules list for the benchmark), and which samples of it",
        "how the scales of weights, activations and the KV cache were chosen: by maximum, percentile or other means",
        "their granularity: for a tensor, a channel or a block of so many values",
        "layers that were left in a higher precision, and why",
    ] {
        let _ = writeln!(text, "{FILL_IN}{question}");
    }
    text
}

/// Of the folder with the manifest.
fn source(order: &PackageRequest) -> String {
    let mut text = format!(
        "# What made these results\n\nRegatta {}, in this folder:\n\n```\n{}\n```\n\nBelow, each stage has the \
         digests of its output and of what it read: data, weights, images.\n\n",
        order.version, order.command
    );
    for made in &order.upstream_tasks {
        write_stage(&mut text, &made.stage);
    }
    text
}

fn upstream<'a>(order: &'a PackageRequest, runs: &IndexMap<TestMode, LockedRun>) -> Vec<&'a ProvenanceStage> {
    let stage = |task: &str| order.upstream_tasks.iter().map(|made| &made.stage).find(|stage| stage.task == task);
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&ProvenanceStage> = runs.values().filter_map(|run| stage(run.task.as_deref()?)).collect();
    while let Some(next) = open.pop() {
        if wanted.insert(&next.task) {
            open.extend(next.upstream.keys().filter_map(|task| stage(task)));
        }
    }
    order.upstream_tasks.iter().map(|made| &made.stage).filter(|stage| wanted.contains(stage.task.as_str())).collect()
}

/// One stage as the manifest meant it. A script is shown as it was typed.
fn write_stage(text: &mut String, stage: &ProvenanceStage) {
    let commit = stage.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    let key = stage.key.as_ref().map(|key| format!(", key {}", key.get(..12).unwrap_or(key))).unwrap_or_default();
    let _ = writeln!(text, "### {} ({}{key}{commit})\n", stage.task, stage.kind);
    let digests = stage.digest.iter().map(|digest| ("output", digest));
    let named = stage.facts.iter().chain(&stage.inputs).map(|(name, value)| (name.as_str(), value));
    for (name, value) in digests.chain(named) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let yaml = serde_yaml::to_string(&stage.action).unwrap_or_default();
    let _ = writeln!(text, "\n```yaml\n{}\n```\n", yaml.trim_end());
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn made(task: &str, kind: &str, digest: Option<&str>, action: &str, upstream: &[(&str, &str)]) -> FinishedTask {
        FinishedTask {
            folder: digest.map(|_| PathBuf::from(format!("/out/{task}"))),
            stage: ProvenanceStage {
                task: task.to_owned(),
                kind: kind.to_owned(),
                key: None,
                digest: digest.map(str::to_owned),
                commit: None,
                action: action.into(),
                facts: BTreeMap::new(),
                inputs: BTreeMap::new(),
                upstream: upstream.iter().map(|(task, digest)| ((*task).to_owned(), (*digest).to_owned())).collect(),
            },
        }
    }

    #[test]
    fn two_servers_of_one_engine_are_one_system_and_of_two_engines_are_not() {
        let entries = [
            made("engine/a", "engine", Some("e1"), "", &[]),
            made("engine/b", "engine", Some("e1"), "", &[]),
            made("engine/c", "engine", Some("e2"), "", &[]),
            made("server/a", "serve", None, "start ⟦out:engine/a⟧", &[("engine/a", "e1")]),
            made("server/b", "serve", None, "start ⟦out:engine/b⟧", &[("engine/b", "e1")]),
            made("server/c", "serve", None, "start ⟦out:engine/c⟧", &[("engine/c", "e2")]),
            made("bench/a", "bench", Some("1"), "", &[("server/a", "k")]),
            made("bench/b", "bench", Some("2"), "", &[("server/b", "k")]),
            made("bench/c", "bench", Some("3"), "", &[("server/c", "k")]),
        ];
        let under = |task: &str| origins(&entries, Path::new(&format!("/out/{task}"))).1;
        assert_eq!(under("bench/a"), under("bench/b"));
        assert_ne!(under("bench/a"), under("bench/c"));
        assert_eq!(under("bench/c")["engine"], BTreeSet::from(["e2".to_owned()]));
        assert_eq!(origins(&entries, Path::new("/elsewhere")), (None, BTreeMap::new()));
    }

    #[test]
    fn an_audits_log_has_a_type_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("none");
        let entry = PackageEntry {
            benchmark: "deepseek-r1".to_owned(),
            copy_of: None,
            scenario: MlperfScenario::Offline,
            performance: nowhere.clone(),
            accuracy: nowhere.clone(),
            score: nowhere,
            audits: IndexMap::from([(TestMode::Test06, folder.path().to_owned())]),
            verified: IndexMap::new(),
        };
        let width_in = |answers: &str| {
            fs::write(folder.path().join(ACCURACY_FILE), answers).unwrap();
            entry.audit_token_ids(TestMode::Test06)
        };
        let answer = |data: &str, count: u64| {
            format!(r#"{{"seq_id": 0, "qsl_idx": 0, "data": "{data}", "token_count": {count}}}"#)
        };
        let (empty, narrow) = (answer("", 0), answer("0500000006000000", 2));
        assert_eq!(width_in(&format!("[{empty},{narrow}]")), Some(Width::Int32));
        assert_eq!(width_in(&format!("[{}]", answer("0500000000000000", 1))), Some(Width::Int64));
        assert_eq!(width_in(&format!("[{empty}]")), None);
        assert_eq!(entry.audit_token_ids(TestMode::Test09), None);
    }

    #[test]
    fn the_options_that_official_scripts_need_are_those_of_the_log() {
        let text = official_scripts("llama3.1-8b", Width::Int64, Some(Width::Int32));
        assert!(text.contains("- `language/llama3.1-8b/evaluation.py`: `--dtype int64`\n"), "{text}");
        assert!(text.contains("- `compliance/TEST06/run_verification.py`: `--dtype int32`\n"), "{text}");
        let text = official_scripts("llama2-70b-99.9", Width::Int64, None);
        assert!(text.ends_with("- `language/llama2-70b/evaluate-accuracy.py`: `--dtype int64`\n\n"), "{text}");
        let text = official_scripts("gpt-oss-120b", Width::Int32, None);
        assert!(text.ends_with("eval_mlperf_accuracy.py`: its own type, without an option\n\n"), "{text}");
        let text = official_scripts("gpt-oss-120b", Width::Int64, None);
        assert!(text.contains("it reads int32 alone"), "{text}");
    }
}
