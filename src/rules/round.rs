//! The tables of the rounds: data under `manifests/rounds/`, each also a manifest that others can include.

use std::collections::BTreeMap;

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
    /// Release → SHA-1 of its `results.cc`, as its logs have it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub results_cc: BTreeMap<String, String>,
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

impl Seeds {
    /// With LoadGen's names.
    pub const fn named(&self) -> [(&'static str, u64); 3] {
        [("qsl", self.qsl), ("sample_index", self.sample_index), ("schedule", self.schedule)]
    }
}

/// A benchmark as one round defines it.
#[base::omit_empty(except(required, accuracy, tests))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// LoadGen's name of the model in user.conf: it has other names than the benchmark's, and ignores unknown ones.
    pub loadgen_model: String,
    /// Samples of the data set.
    pub dataset_samples: u64,
    pub performance_samples: u64,
    /// Where it is not the whole data set.
    pub accuracy_samples: Option<u64>,
    pub offline_min_samples: u64,
    /// Every one of these must be in a closed submission.
    pub required: Vec<MlperfScenario>,
    /// At least one of these must be, too (where there are any).
    pub one_of: Vec<MlperfScenario>,
    pub latency: IndexMap<MlperfScenario, LatencyLimits>,
    /// The most that LoadGen's `target_latency` of a whole query may be in Server and Interactive.
    pub target_latency_ms: Option<f64>,
    /// Metric (`ROUGE1`, `exact_match`, `TOKENS_PER_SAMPLE`, `GEN_LEN` …) → bounds of a closed submission.
    pub accuracy: IndexMap<String, Accuracy>,
    pub max_output_tokens: u32,
    pub min_output_tokens: Option<u32>,
    /// In accuracy mode, where it is another.
    pub accuracy_max_output_tokens: Option<u32>,
    /// Where a closed server may decode speculatively: the tokens that it then drafts in each step.
    pub speculative_tokens: IndexMap<MlperfScenario, u64>,
    /// Token ids that end an answer, of which TEST06 allows one at most.
    pub end_ids: Vec<i32>,
    /// Audit tests that a closed submission must pass: `test06`, `test07`, `test09`.
    pub tests: Vec<TestMode>,
    /// What those tests demand that is the benchmark's own.
    pub audits: IndexMap<TestMode, Audit>,
}

/// One audit test of one benchmark.
#[base::omit_empty]
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
    pub exact_match: Option<Accuracy>,
    /// TEST09: mean tokens of an answer.
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

#[base::omit_empty]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

impl Accuracy {
    /// What a value breaks: `the least is 44.387`.
    pub fn broken_by(self, value: f64) -> Option<String> {
        let least = self.min.filter(|min| value < *min).map(|min| format!("the least is {min}"));
        least.or_else(|| self.max.filter(|max| value > *max).map(|max| format!("the most is {max}")))
    }
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
    ("v4.1", include_str!("../../manifests/rounds/v4.1.yaml")),
    ("v5.0", include_str!("../../manifests/rounds/v5.0.yaml")),
    ("v5.1", include_str!("../../manifests/rounds/v5.1.yaml")),
    ("v6.0", include_str!("../../manifests/rounds/v6.0.yaml")),
    ("v6.1", include_str!("../../manifests/rounds/v6.1.yaml")),
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
mod tests {
    //! The tables against `tests/golden/mlperf/rounds.json`, which has the same from other sources.

    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::{Accuracy, Benchmark, Round};
    use crate::MlperfScenario;
    use base::spec::TestMode;

    #[test]
    fn every_table_can_be_read_and_carries_its_name() {
        for name in Round::NAMES {
            assert_eq!(Round::named(name).unwrap().name, name);
        }
        assert_eq!(Round::named("v0.5"), None);
    }

    fn golden() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mlperf/rounds.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn scenarios(json: &Value) -> Vec<String> {
        let mut names: Vec<String> =
            json.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    fn titles(list: &[MlperfScenario]) -> Vec<String> {
        let mut names: Vec<String> = list.iter().map(|scenario| scenario.title().to_owned()).collect();
        names.sort();
        names
    }

    /// `["ROUGE1", 44.3, …]`
    fn pairs(json: &Value) -> BTreeMap<String, f64> {
        let list = json.as_array().cloned().unwrap_or_default();
        list.chunks(2).map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_f64().unwrap())).collect()
    }

    fn bounds(ours: &Benchmark, bound: impl Fn(&Accuracy) -> Option<f64>) -> BTreeMap<String, f64> {
        ours.accuracy.iter().filter_map(|(metric, limits)| Some((metric.clone(), bound(limits)?))).collect()
    }

    fn same(ours: &BTreeMap<String, f64>, expected: &BTreeMap<String, f64>, of: &str) {
        assert_eq!(ours.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{of}");
        for (metric, value) in ours {
            assert!((value - expected[metric]).abs() < 1e-7, "{of} {metric}: {value}, not {}", expected[metric]);
        }
    }

    #[test]
    fn the_tables_say_what_the_rounds_checkers_say() {
        let golden = golden();
        let rounds = golden["rounds"].as_object().unwrap();
        assert_eq!(rounds.len(), Round::NAMES.len());
        for (name, golden_round) in rounds {
            let round = Round::named(name).unwrap();
            let seeds = &golden_round["seeds"];
            assert_eq!(seeds["qsl_rng_seed"].as_u64(), Some(round.loadgen.seeds.qsl), "{name}");
            assert_eq!(seeds["sample_index_rng_seed"].as_u64(), Some(round.loadgen.seeds.sample_index), "{name}");
            assert_eq!(seeds["schedule_rng_seed"].as_u64(), Some(round.loadgen.seeds.schedule), "{name}");
            assert!(round.loadgen.accepted.contains(&round.loadgen.version), "{name}");
            let models = golden_round["models"].as_object().unwrap();
            let mut names: Vec<_> = round.benchmarks.keys().collect();
            names.sort();
            let mut expected: Vec<_> = models.keys().collect();
            expected.sort();
            assert_eq!(names, expected, "{name}");
            for (model, golden_model) in models {
                let label = format!("{name} {model}");
                let ours = &round.benchmarks[model];
                assert_eq!(titles(&ours.required), scenarios(&golden_model["required"]), "{label}");
                assert_eq!(titles(&ours.one_of), scenarios(&golden_model["optional"]), "{label}");
                same(&bounds(ours, |limits| limits.min), &pairs(&golden_model["accuracy_min"]), &label);
                same(&bounds(ours, |limits| limits.max), &pairs(&golden_model["accuracy_max"]), &label);
                assert_eq!(
                    Some(ours.performance_samples),
                    golden_model["performance_sample_count"].as_u64(),
                    "{label}"
                );
                assert_eq!(Some(ours.dataset_samples), golden_model["dataset_size"].as_u64(), "{label}");
                assert_eq!(ours.accuracy_samples, golden_model["accuracy_sample_count"].as_u64(), "{label}");
                assert_eq!(Some(ours.offline_min_samples), golden_model["offline_min_samples"].as_u64(), "{label}");
                for scenario in ours.scenarios() {
                    let json = &golden_model["latency_ms"][scenario.title()];
                    let ours = ours.latency.get(&scenario);
                    assert_eq!(ours.map(|limit| limit.ttft_ms), json["ttft"].as_f64(), "{label} {scenario:?}");
                    assert_eq!(ours.map(|limit| limit.tpot_ms), json["tpot"].as_f64(), "{label} {scenario:?}");
                }
                assert_eq!(ours.target_latency_ms, golden_model["target_latency_ms"].as_f64(), "{label}");
                assert_eq!(titles_of_tests(&ours.tests), scenarios(&golden_model["tests"]), "{label}");
            }
        }
    }

    fn titles_of_tests(tests: &[TestMode]) -> Vec<String> {
        tests.iter().map(|test| format!("{test:?}").to_uppercase()).collect()
    }

    #[test]
    fn what_the_tables_leave_out_has_no_place_in_them() {
        for name in Round::NAMES {
            for (model, benchmark) in Round::named(name).unwrap().benchmarks {
                let label = format!("{name} {model}");
                assert!(
                    benchmark.latency.keys().all(|one| benchmark.scenarios().any(|allowed| allowed == *one)),
                    "{label}"
                );
                assert!(benchmark.audits.keys().all(|test| benchmark.tests.contains(test)), "{label}");
                assert_eq!(benchmark.end_ids.is_empty(), !benchmark.tests.contains(&TestMode::Test06), "{label}");
                let bounded_tests = benchmark.tests.iter().filter(|test| **test != TestMode::Test06);
                assert!(bounded_tests.into_iter().all(|test| benchmark.audits.contains_key(test)), "{label}");
                assert!(!benchmark.loadgen_model.contains('.') && !benchmark.loadgen_model.contains("-99"), "{label}");
            }
        }
    }

    #[test]
    fn the_tests_bounds_are_those_of_the_compliance_folder() {
        let round = Round::named("v6.1").unwrap();
        let audits = &round.benchmarks["gpt-oss-120b"].audits;
        let accuracy = audits[&TestMode::Test07].exact_match.unwrap();
        assert_eq!((accuracy.min, accuracy.max), (Some(60.698), None));
        let lengths = audits[&TestMode::Test09].output_tokens.unwrap();
        assert_eq!((lengths.min, lengths.max), (Some(1150.38), Some(1406.02)));
        assert_eq!((audits[&TestMode::Test07].samples, audits[&TestMode::Test09].samples), (990, 6396));
    }
}
