//! The tables of the rounds: data under `manifests/rounds/`, each also a manifest that others can include.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::MlperfScenario;
use base::spec::TestMode;

/// One round of MLPerf Inference. Latencies in milliseconds, lengths in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// `v6.1`.
    pub name: String,
    /// Where the numbers are from.
    pub source: String,
    pub loadgen: LoadgenPin,
    pub benchmarks: IndexMap<String, Benchmark>,
    /// Benchmarks of the round that are not run here → a short reason.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub left_out: IndexMap<String, String>,
}

/// Which LoadGen the round takes. Its seeds are built into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadgenPin {
    /// The version of `mlcommons-loadgen` that is fetched.
    pub version: String,
    /// All released versions with the round's seeds.
    pub accepted: Vec<String>,
    /// Further versions in logs that MLCommons published for the round: built from the repository, between releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<String>,
    /// Whether it can be fetched and run. The LoadGen of v4.1 cannot: it was no package, and read its rules from a
    /// file.
    #[serde(default = "is_packaged", skip_serializing_if = "Clone::clone")]
    pub is_packaged: bool,
    pub seeds: Seeds,
}

fn is_packaged() -> bool {
    true
}

/// LoadGen's three random seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    pub qsl: u64,
    pub sample_index: u64,
    pub schedule: u64,
}

/// A benchmark as one round defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// LoadGen's name of the model in user.conf: it has other names than the benchmark's, and ignores unknown ones.
    pub loadgen_model: String,
    /// Samples of the data set.
    pub dataset_samples: u64,
    pub performance_samples: u64,
    /// Where it is not the whole data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_samples: Option<u64>,
    pub offline_min_samples: u64,
    /// Every one of these must be in a closed submission.
    pub required: Vec<MlperfScenario>,
    /// At least one of these must be, too (where there are any).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<MlperfScenario>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub latency: IndexMap<MlperfScenario, LatencyLimits>,
    /// The most that LoadGen's `target_latency` of a whole query may be in Server and Interactive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_latency_ms: Option<f64>,
    /// Metric (`ROUGE1`, `exact_match`, `TOKENS_PER_SAMPLE`, `GEN_LEN` …) → bounds of a closed submission.
    pub accuracy: IndexMap<String, Accuracy>,
    pub max_output_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_output_tokens: Option<u32>,
    /// In accuracy mode, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_max_output_tokens: Option<u32>,
    /// Where a closed server may decode speculatively: the tokens that it then drafts in each step.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub speculative_tokens: IndexMap<MlperfScenario, u64>,
    /// Token ids that end an answer, of which TEST06 allows one at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub end_ids: Vec<i32>,
    /// Audit tests that a closed submission must pass: `test06`, `test07`, `test09`.
    pub tests: Vec<TestMode>,
    /// What those tests demand that is the benchmark's own.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub audits: IndexMap<TestMode, Audit>,
}

/// One audit test of one benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// Samples that are issued.
    pub samples: u64,
    /// How many of them LoadGen should log (more than there are: all).
    pub sampling_target: u64,
    /// Each sample exactly once.
    pub issue_unique: bool,
    /// TEST07, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<Accuracy>,
    /// TEST09: mean tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Accuracy>,
}

impl Benchmark {
    /// All scenarios that a closed submission may hold.
    pub fn scenarios(&self) -> impl Iterator<Item = MlperfScenario> + '_ {
        self.required.iter().chain(&self.one_of).copied()
    }

    /// LoadGen's name of the model in a scenario. Interactive is its Server under another name.
    pub fn loadgen_model(&self, scenario: MlperfScenario) -> String {
        match scenario {
            MlperfScenario::Interactive => format!("{}-interactive", self.loadgen_model),
            _ => self.loadgen_model.clone(),
        }
    }

    /// This benchmark with the samples and the bounds that the answers of a run are scored by.
    pub fn scored_in(&self, mode: TestMode) -> Self {
        let Some(audit) = self.audits.get(&mode).filter(|_| mode == TestMode::Test07) else { return self.clone() };
        let accuracy = audit.exact_match.iter().map(|bounds| ("exact_match".to_owned(), *bounds)).collect();
        Self { accuracy, accuracy_samples: Some(audit.samples), ..self.clone() }
    }

    /// The longest requested answer.
    pub fn max_output_tokens(&self, mode: TestMode) -> u32 {
        match mode {
            TestMode::Accuracy => self.accuracy_max_output_tokens.unwrap_or(self.max_output_tokens),
            _ => self.max_output_tokens,
        }
    }
}

/// 99th percentiles that a run must keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyLimits {
    pub ttft_ms: f64,
    pub tpot_ms: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// A file of `manifests/rounds/`: a manifest with the table in `vars.round`.
#[derive(Deserialize)]
struct File {
    vars: Vars,
}

#[derive(Deserialize)]
struct Vars {
    round: Round,
}

const TABLES: [(&str, &str); 5] = [
    ("v4.1", include_str!("../../../manifests/rounds/v4.1.yaml")),
    ("v5.0", include_str!("../../../manifests/rounds/v5.0.yaml")),
    ("v5.1", include_str!("../../../manifests/rounds/v5.1.yaml")),
    ("v6.0", include_str!("../../../manifests/rounds/v6.0.yaml")),
    ("v6.1", include_str!("../../../manifests/rounds/v6.1.yaml")),
];

impl Round {
    /// The supported rounds, oldest first.
    pub const NAMES: [&str; TABLES.len()] = {
        let mut names = [""; TABLES.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = TABLES[at].0;
            at += 1;
        }
        names
    };

    /// The benchmark for 99 % of the reference's accuracy beside one for 99.9 %, where the round has both.
    pub fn lower_accuracy(&self, benchmark: &str) -> Option<String> {
        const HIGH: &str = "-99.9";
        const LOW: &str = "-99";
        let low = format!("{}{LOW}", benchmark.strip_suffix(HIGH)?);
        self.benchmarks.contains_key(&low).then_some(low)
    }

    /// Why a benchmark of the round is not here, where that is so; `gptj-99` is a `gptj`.
    pub fn left_out(&self, benchmark: &str) -> Option<&str> {
        let is_it =
            |name: &str| benchmark.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("-99"));
        self.left_out.iter().find(|(name, _)| is_it(name)).map(|(_, why)| why.as_str())
    }

    /// The round with this name, such as `v5.1`; `None` if it is unknown.
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = TABLES.iter().find(|(known, _)| *known == name)?;
        let file: File = serde_yaml::from_str(text).expect("a shipped table is well-formed; a test reads them all");
        Some(file.vars.round)
    }
}

#[cfg(test)]
mod tests;
