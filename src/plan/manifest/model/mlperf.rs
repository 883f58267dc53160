//! `mlperf:` and `bench.loadgen` — runs by MLPerf Inference's rules. Names are those of the rules and of LoadGen.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{Division, MOST_REQUESTS, Scenario, TestMode};

/// One step of a submission.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mlperf {
    /// LoadGen of a round, built into a shared library.
    Loadgen(LoadgenLibrary),
    /// The data set of a benchmark, as the harness reads it.
    Dataset(MlperfDataset),
    /// The scores of an accuracy run: `accuracy.txt`.
    Score(MlperfScore),
    /// The result of an audit test: `verify_accuracy.txt` and similar files.
    Verify(MlperfVerify),
    /// The result directory of a submission, and its check.
    Package(Box<MlperfPackage>),
}

/// Gets the round's LoadGen, unaltered, and builds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadgenLibrary {
    /// `v4.1`, `v5.0`, `v5.1`, `v6.0`, `v6.1`.
    pub round: String,
    /// A source distribution of `mlcommons-loadgen` that is here already, file or folder; else it is fetched with pip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdist: Option<String>,
    /// The Python whose pip fetches it.
    #[serde(default = "python3")]
    pub python: String,
    /// The C++ compiler.
    #[serde(default = "gxx")]
    pub cxx: String,
}

fn python3() -> String {
    "python3".to_owned()
}
fn gxx() -> String {
    "g++".to_owned()
}

/// Either a processed data set, or a stand-in for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfDataset {
    pub round: String,
    /// The name in the round: `llama2-70b-99.9`.
    pub benchmark: String,
    /// The processed data set in the form it is published in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Synthetic, with its shape and its lengths. Results with it cannot be submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<Synthetic>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    #[serde(default)]
    pub seed: u64,
    /// Use N samples instead of the whole data set: for rehearsals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub samples: Option<u64>,
    /// Samples of this part of the data set only: `gpqa_diamond` of gpt-oss-120b for TEST07.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfScore {
    pub round: String,
    pub benchmark: String,
    /// The output of the accuracy run.
    pub accuracy: String,
    /// The output of the `dataset` stage.
    pub dataset: String,
    /// A `tokenizer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// NLTK's model of English sentences, the folder `punkt_tab/english` of its data: for ROUGE-Lsum and lengths of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentences: Option<String>,
    /// What the reference's evaluator printed of this run's accuracy log: a file. Scores that it has and that are not computed
    /// here, such as the exact match of programs, are taken from it; it becomes a part of `accuracy.txt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub official: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfVerify {
    pub round: String,
    pub benchmark: String,
    /// The output of the audit run.
    pub audit: String,
    /// TEST07: the output of a `score` stage of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
    /// TEST06: token ids that end an answer. [default: those of the round's table]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub end_ids: Vec<i32>,
    /// The output of the performance run with the same settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance: Option<String>,
    /// The output of the `dataset` stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// A `tokenizer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
}

/// `bench.loadgen`: MLPerf's LoadGen schedules the requests and decides `rate`, `stop`, `seed` and `data`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loadgen {
    /// The output of the `loadgen` stage.
    pub library: String,
    /// The output of the `dataset` stage.
    pub dataset: String,
    pub round: String,
    /// The name in the round: `llama2-70b-99.9`.
    pub benchmark: String,
    #[serde(default)]
    pub division: Division,
    #[serde(default)]
    pub mode: TestMode,
    /// Queries per second: of Server and Interactive the rate of arrivals, of Offline what is expected (it decides how many samples there are).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_qps: Option<f64>,
    /// More settings of user.conf, by LoadGen's names, without model and scenario: `min_duration: 600000`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub user_conf: IndexMap<String, serde_json::Value>,
    /// All rules but the durations; the results cannot be submitted.
    #[serde(default)]
    pub rehearse: bool,
}

/// Everything that the result directory needs and that runs do not provide.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfPackage {
    pub round: String,
    #[serde(default)]
    pub division: Division,
    /// Your organization, as registered for the round.
    pub submitter: String,
    /// The name of the system: of its file, and of its folder under `results`.
    pub system: String,
    /// Fields of the system's JSON. Facts that Regatta can detect need not be given.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub system_json: serde_json::Map<String, serde_json::Value>,
    /// Fields of every `measurements.json`.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub measurements: serde_json::Map<String, serde_json::Value>,
    pub results: Vec<MlperfResults>,
    /// What goes into `src/`: a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What goes into `documentation/`: a folder (calibration, bandwidth, licenses).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// A clone of mlcommons/inference, whose checker decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checker: Option<String>,
    /// The Python that runs the checker, with numpy, pandas and pyyaml.
    #[serde(default = "python3")]
    pub python: String,
    /// What `nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits` printed: a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvidia_smi: Option<String>,
    /// Results for 99.9 % of the reference's accuracy are packed for 99 %, too. The round must have both.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub also_99: bool,
    /// Pack a rehearsal: everything that makes it one is reported, and marked in the package.
    #[serde(default)]
    pub rehearse: bool,
}

/// Results of one benchmark: outputs of its stages. A list has one value for each scenario, in their order:
/// `{{ stages.performance.outs }}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfResults {
    pub benchmark: String,
    /// `offline`, `server`, `interactive`, `single_stream`, or a list of them.
    pub scenario: MlperfScenarios,
    pub performance: MlperfOutputs,
    pub accuracy: MlperfOutputs,
    pub score: MlperfOutputs,
    /// Of each audit test the outputs of its runs.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub audits: IndexMap<String, MlperfOutputs>,
    /// Of each audit test the outputs of its `verify` stages.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub verified: IndexMap<String, MlperfOutputs>,
}

/// One scenario, or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MlperfScenarios {
    One(Scenario),
    Many(Vec<Scenario>),
}

/// The output of one stage, or of several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MlperfOutputs {
    One(String),
    Many(Vec<String>),
}

impl MlperfOutputs {
    pub(crate) fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// One benchmark in one scenario: outputs of its stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MlperfEntry {
    pub benchmark: String,
    pub scenario: Scenario,
    pub performance: String,
    pub accuracy: String,
    pub score: String,
    /// By audit test.
    pub audits: IndexMap<String, String>,
    /// By audit test.
    pub verified: IndexMap<String, String>,
}

impl MlperfResults {
    /// One entry for each scenario. On error: the key that has not one value for each, and what it has.
    pub fn entries(&self) -> Result<Vec<MlperfEntry>, (Vec<String>, String)> {
        let scenarios = match &self.scenario {
            MlperfScenarios::One(one) => std::slice::from_ref(one),
            MlperfScenarios::Many(many) => many,
        };
        let single = [("performance", &self.performance), ("accuracy", &self.accuracy), ("score", &self.score)];
        let tests = [("audits", &self.audits), ("verified", &self.verified)];
        let single = single.into_iter().map(|(key, outputs)| (vec![key.to_owned()], outputs));
        let of_tests = tests.into_iter().flat_map(|(key, by_test)| {
            by_test.iter().map(move |(test, outputs)| (vec![key.to_owned(), test.clone()], outputs))
        });
        for (key, outputs) in single.chain(of_tests) {
            let (has, needs) = (outputs.all().len(), scenarios.len());
            if has != needs {
                return Err((key, format!("has {has} outputs for {needs} scenarios")));
            }
        }
        let entry = |(index, scenario): (usize, &Scenario)| {
            let of = |outputs: &MlperfOutputs| outputs.all()[index].clone();
            let by_test = |all: &IndexMap<String, MlperfOutputs>| {
                all.iter().map(|(test, outputs)| (test.clone(), of(outputs))).collect()
            };
            MlperfEntry {
                benchmark: self.benchmark.clone(),
                scenario: *scenario,
                performance: of(&self.performance),
                accuracy: of(&self.accuracy),
                score: of(&self.score),
                audits: by_test(&self.audits),
                verified: by_test(&self.verified),
            }
        };
        Ok(scenarios.iter().enumerate().map(entry).collect())
    }
}

impl MlperfPackage {
    /// One for each benchmark and scenario, as far as the lists fit each other; whether they do is checked before.
    pub fn entries(&self) -> Vec<MlperfEntry> {
        self.results.iter().filter_map(|results| results.entries().ok()).flatten().collect()
    }
}

impl Loadgen {
    /// Files and folders that it reads, by the key that names them.
    pub fn reads(&self) -> [(&'static str, &str); 2] {
        [("bench.loadgen.library", &self.library), ("bench.loadgen.dataset", &self.dataset)]
    }
}
