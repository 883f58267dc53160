//! `mlperf:` and `bench.loadgen` — runs by MLPerf Inference's rules. Names are those of the rules and of LoadGen.
//!
//! `bench.loadgen` and `mlperf:` against the rules, before hours are spent.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, Check, StageChecker, faults};
use crate::loadgen::test_request;
use crate::manifest::model::{Bench, OneOrMany, Stage};
use crate::manifest::targets;
use base::diag::did_you_mean;
use base::spec::{Division, Interface, MOST_REQUESTS, Protocol, Scenario, TestMode, requests_token_ids};
use rules::{ResolvedTest, Round, RuleError, conf};

/// One step of a submission.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mlperf {
    /// LoadGen of a round, built into a shared library.
    Loadgen(LoadgenLibrary),
    /// The data set of a benchmark, as the harness reads it.
    Dataset(MlperfDataset),
    /// Score an accuracy run: `accuracy.txt`.
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
    /// A source distribution of `mlcommons-loadgen`, file or folder. [default: fetched with pip]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdist: Option<String>,
    /// The Python whose pip fetches it.
    #[serde(default = "super::python3")]
    pub python: String,
    /// The C++ compiler.
    #[serde(default = "super::gxx")]
    pub cxx: String,
}

/// Either a processed data set, or a stand-in for it.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfDataset {
    pub round: String,
    /// The name in the round: `llama2-70b-99.9`.
    pub benchmark: String,
    /// The processed data set in the form it is published in.
    pub from: Option<String>,
    /// A synthetic data set of the same shape and lengths, for rehearsals: results cannot be submitted.
    pub synthetic: Option<Synthetic>,
}

#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    #[serde(default)]
    pub seed: u64,
    /// Use N samples instead of the whole data set.
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub samples: Option<u64>,
    /// Only this part of the data set: `gpqa_diamond` of gpt-oss-120b for TEST07.
    pub part: Option<String>,
}

#[base::omit_empty]
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
    pub tokenizer: Option<String>,
    /// NLTK's `punkt_tab/english`, for ROUGE-Lsum and lengths of texts.
    pub sentences: Option<String>,
    /// The output of the reference's evaluator for this accuracy log. Scores that Regatta does not compute, such as the
    /// exact match of programs, are taken from it; `accuracy.txt` includes it.
    pub official: Option<String>,
}

#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfVerify {
    pub round: String,
    pub benchmark: String,
    /// The output of the audit run.
    pub audit: String,
    /// TEST07: the output of a `score` stage of that run.
    pub score: Option<String>,
    /// TEST06: token ids that end an answer. [default: those of the round's table]
    pub end_ids: Vec<i32>,
}

/// `bench.loadgen`: MLPerf's LoadGen schedules the requests and decides `rate`, `stop`, `seed` and `data`.
#[base::omit_empty]
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
    /// Queries per second: the rate of Server and Interactive; for Offline the expected rate, which decides the number
    /// of samples.
    pub target_qps: Option<f64>,
    /// Other settings of user.conf, without model and scenario: `min_duration: 600000`.
    pub user_conf: IndexMap<String, serde_json::Value>,
    /// All rules except durations. Results cannot be submitted.
    #[serde(default)]
    pub rehearse: bool,
    /// Measures power during the performance run. LoadGen runs twice, `ranging` and `testing`.
    pub power: Option<PowerMeter>,
}

/// A power meter behind PTDaemon, as the client and the server of mlcommons/power-dev use it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerMeter {
    /// The machine with the meter and power-dev's server: `HOST`, or `HOST:PORT` if the port is not 4950.
    pub server: String,
    /// The NTP server of both machines.
    pub ntp: String,
    /// power-dev's client: a program on PATH, or the path of its `client.py`.
    #[serde(default = "super::power_client")]
    pub client: String,
}

impl PowerMeter {
    /// The arguments of the client that runs a shell command under the meter. `logs`: where the command lets LoadGen
    /// write. `output`: a folder outside of it, in which each session has its own.
    pub fn arguments(&self, command: &str, logs: &Path, output: &Path) -> Vec<OsString> {
        let (host, port) = self.address();
        let named: [(&str, &OsStr); 6] = [
            ("--addr", host.as_ref()),
            ("--port", port.as_ref()),
            ("--ntp", self.ntp.as_ref()),
            ("--run-workload", command.as_ref()),
            ("--loadgen-logs", logs.as_ref()),
            ("--output", output.as_ref()),
        ];
        named.into_iter().flat_map(|(name, value)| [name.into(), value.to_owned()]).collect()
    }

    /// Host and port of the server.
    fn address(&self) -> (&str, &str) {
        self.server.rsplit_once(':').unwrap_or((&self.server, "4950"))
    }

    /// Whether what follows the host is a port.
    fn has_valid_server(&self) -> bool {
        let (host, port) = self.address();
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    }
}

/// Everything that the result directory needs and that runs do not provide.
#[base::omit_empty(except(results))]
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
    /// Fields of the system's JSON, except those that Regatta detects.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub system_json: serde_json::Map<String, serde_json::Value>,
    /// Fields of every `measurements.json`.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub measurements: serde_json::Map<String, serde_json::Value>,
    pub results: Vec<MlperfResults>,
    /// What goes into `src/`: a folder.
    pub source: Option<String>,
    /// What goes into `documentation/`: a folder (calibration, bandwidth, licenses).
    pub documentation: Option<String>,
    /// A clone of mlcommons/inference, whose checker decides.
    pub checker: Option<String>,
    /// The Python that runs the checker, with numpy, pandas and pyyaml.
    #[serde(default = "super::python3")]
    pub python: String,
    /// A file with the output of `nvidia-smi --query-gpu=name,memory.total,driver_version
    /// --format=csv,noheader,nounits`.
    pub nvidia_smi: Option<String>,
    /// Pack results for 99.9 % also for 99 %. The round must have both.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub also_99: bool,
    /// Pack a rehearsal. It is marked as one, with the reasons.
    #[serde(default)]
    pub rehearse: bool,
}

/// Results of one benchmark: outputs of its stages. A list has one value for each scenario, in their order:
/// `{{ stages.performance.outs }}`.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlperfResults {
    pub benchmark: String,
    /// `offline`, `server`, `interactive`, `single_stream`, or a list of them.
    pub scenario: OneOrMany<Scenario>,
    pub performance: OneOrMany<String>,
    pub accuracy: OneOrMany<String>,
    pub score: OneOrMany<String>,
    /// Of each audit test the outputs of its runs.
    pub audits: IndexMap<String, OneOrMany<String>>,
    /// Of each audit test the outputs of its `verify` stages.
    pub verified: IndexMap<String, OneOrMany<String>>,
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
        let scenarios = self.scenario.all();
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
            let output_of = |outputs: &OneOrMany<String>| outputs.all()[index].clone();
            let by_test = |all: &IndexMap<String, OneOrMany<String>>| {
                all.iter().map(|(test, outputs)| (test.clone(), output_of(outputs))).collect()
            };
            MlperfEntry {
                benchmark: self.benchmark.clone(),
                scenario: *scenario,
                performance: output_of(&self.performance),
                accuracy: output_of(&self.accuracy),
                score: output_of(&self.score),
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

/// Keys that cannot be set together with `loadgen`, and what LoadGen does instead.
const DECIDED: [(&str, &str); 15] = [
    ("rate", "LoadGen schedules the requests: `loadgen.target_qps`"),
    ("ramp", "LoadGen schedules the requests: `loadgen.target_qps`"),
    ("arrivals", "LoadGen's arrivals are Poisson, from the round's seed"),
    ("concurrency", "LoadGen's scenarios have no users"),
    ("think_time", "LoadGen's scenarios have no users"),
    ("sessions", "LoadGen's queries do not follow each other"),
    ("speed", "it is for traces"),
    ("max_in_flight", "what LoadGen issues is sent at once; `user_conf.max_async_queries` is LoadGen's own"),
    ("stop", "LoadGen decides when it ends: `user_conf.min_duration`, `min_query_count`"),
    ("seed", "the round's seeds are built into LoadGen"),
    ("data", "`loadgen.dataset` decides it"),
    ("distinct_prompts", "`loadgen.dataset` decides it"),
    ("prefixes", "`loadgen.dataset` decides it"),
    ("limits", "the round has its own limits; `slo` is for goodput in addition to them"),
    ("retries", "a query that failed has failed"),
];
/// Likewise: the benchmark has them.
const OF_THE_BENCHMARK: [&str; 2] = ["input_tokens", "output_tokens"];

impl Check for Mlperf {
    const FACTS: ActionFacts =
        ActionFacts { is_checked_across_stages: true, writes_provenance: true, ..ActionFacts::MEASUREMENT };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let mut reads: Vec<(&'static str, Option<&str>)> = Vec::new();
        match self {
            Self::Loadgen(library) => reads.push(("mlperf.loadgen.sdist", library.sdist.as_deref())),
            Self::Dataset(dataset) => reads.push(("mlperf.dataset.from", dataset.from.as_deref())),
            Self::Score(score) => reads.extend([
                ("mlperf.score.accuracy", Some(score.accuracy.as_str())),
                ("mlperf.score.dataset", Some(&score.dataset)),
                ("mlperf.score.tokenizer", score.tokenizer.as_deref()),
                ("mlperf.score.sentences", score.sentences.as_deref()),
                ("mlperf.score.official", score.official.as_deref()),
            ]),
            Self::Verify(verify) => reads.extend([
                ("mlperf.verify.audit", Some(verify.audit.as_str())),
                ("mlperf.verify.score", verify.score.as_deref()),
            ]),
            Self::Package(package) => {
                reads.push(("mlperf.package.source", package.source.as_deref()));
                reads.push(("mlperf.package.documentation", package.documentation.as_deref()));
                reads.push(("mlperf.package.checker", package.checker.as_deref()));
                reads.push(("mlperf.package.nvidia_smi", package.nvidia_smi.as_deref()));
                for results in &package.results {
                    let outputs = [&results.performance, &results.accuracy, &results.score];
                    let outputs = outputs.into_iter().chain(results.audits.values()).chain(results.verified.values());
                    let paths = outputs.flat_map(OneOrMany::all);
                    reads.extend(paths.map(|path| ("mlperf.package.results", Some(path.as_str()))));
                }
            }
        }
        reads.into_iter().filter_map(|(key, path)| Some((key, path?))).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        // Its round and its benchmark.
        let (word, round, benchmarks): (&str, &str, Vec<&str>) = match self {
            Self::Loadgen(step) => ("loadgen", &step.round, vec![]),
            Self::Dataset(step) => ("dataset", &step.round, vec![&step.benchmark]),
            Self::Score(step) => ("score", &step.round, vec![&step.benchmark]),
            Self::Verify(step) => ("verify", &step.round, vec![&step.benchmark]),
            Self::Package(step) => {
                ("package", &step.round, step.results.iter().map(|entry| entry.benchmark.as_str()).collect())
            }
        };
        if let Self::Package(step) = self {
            for (index, results) in step.results.iter().enumerate() {
                let Err((key, what)) = results.entries() else { continue };
                let index = index.to_string();
                let mut path = vec!["mlperf", "package", "results", &index];
                path.extend(key.iter().map(String::as_str));
                checker
                    .fault(&path, &what, "one for each scenario, in their order")
                    .hint("`{{ stages.NAME.outs }}` of a stage with `foreach: { scenario: … }`");
            }
        }
        let Some(table) = Round::named(round) else {
            let hint = did_you_mean(round, Round::NAMES);
            checker
                .fault(&["mlperf", word, "round"], &format!("cannot be `{round}`"), "it has no table")
                .maybe_hint(hint);
            return;
        };
        faults! { checker;
            ["mlperf", word, "round"], matches!(self, Self::Loadgen(_)) && !table.loadgen.is_packaged,
                &format!("cannot be `{round}`"), "its LoadGen was not published as a package",
                format!("`regatta mlperf check DIR --round {round}` checks results of it");
        }
        for (index, name) in benchmarks.iter().enumerate() {
            let Err(wrong) = ResolvedTest::named(round, name) else { continue };
            let index = index.to_string();
            let path: &[&str] = match self {
                Self::Package(_) => &["mlperf", "package", "results", &index, "benchmark"],
                _ => &["mlperf", word, "benchmark"],
            };
            checker.fault(path, &wrong.what, &wrong.rule).maybe_hint(wrong.hint);
        }
    }
}

impl StageChecker<'_> {
    /// A `bench` with `loadgen`.
    pub(super) fn loadgen(&mut self, bench: &Bench) {
        let lengths = OF_THE_BENCHMARK.map(|key| (key, "the data set and the benchmark decide it"));
        let parsed = targets(&bench.target).unwrap_or_default();
        let is_over_http = parsed.protocol(bench.protocol) != Protocol::Kserve;
        for (key, why) in DECIDED.into_iter().chain(lengths) {
            // Over HTTP each sample under way has a connection of its own, and a server has only this many.
            if key == "max_in_flight" && (is_over_http || bench.max_in_flight.is_none()) {
                continue;
            }
            let path = ["bench", key];
            if self.node.entry(&path).is_some() {
                self.key_fault(&path, "cannot be combined with `loadgen`", why).hint("remove it");
            }
        }
        if bench.search.is_some() {
            self.searched(bench);
        }
        self.has_power(bench);
        self.has_token_ids(bench);
        // A scenario that LoadGen does not have is a fault of the load.
        let Some(request) = test_request(bench) else { return };
        for wrong in conf::check(&request) {
            self.push_rule_error(&wrong);
        }
    }

    /// Power is measured beside the one run that is a result.
    fn has_power(&mut self, bench: &Bench) {
        let Some(loadgen) = bench.loadgen.as_deref() else { return };
        let Some(power) = &loadgen.power else { return };
        faults! { self;
            ["bench", "loadgen", "power"], loadgen.mode != TestMode::Performance,
                &format!("cannot be combined with `mode: {}`", loadgen.mode.as_str()),
                "the rules measure the power of performance runs only", "remove it";
            ["bench", "loadgen", "power"], bench.search.is_some(), "cannot be combined with `search`",
                "LoadGen runs once for each rate", "remove it";
            ["bench", "loadgen", "power", "server"], !power.has_valid_server(), "must be a host, or a host and a port",
                "the machine with the power meter", "`HOST` or `HOST:4950`";
        }
    }

    /// LoadGen's samples are token ids, and it is given those of each answer: not every protocol has them.
    fn has_token_ids(&mut self, bench: &Bench) {
        let label = "LoadGen's samples are token ids, and it is given the token ids of each answer";
        faults! { self;
            ["bench", "request", "interface"], bench.request.interface == Some(Interface::Text),
                "cannot be combined with `loadgen`", label, "`interface: token_ids`";
        }
        let parsed = targets(&bench.target).unwrap_or_default();
        let (what, hint) = match parsed.protocol(bench.protocol) {
            Protocol::Kserve => return,
            Protocol::OpenaiCompletions if requests_token_ids(&bench.extra) => {
                if bench.request.interface.is_some() {
                    return;
                }
                ("needs prompts of token ids for `loadgen`", "`request: { interface: token_ids }`")
            }
            Protocol::OpenaiCompletions => (
                "needs answers with token ids for `loadgen`",
                "`extra: { detokenize: false }` requests them of trtllm-serve, `extra: { return_token_ids: true }` of \
                 vLLM; a Triton \
                 model with `output_ids` has them over `protocol: kserve`",
            ),
            Protocol::Generate | Protocol::OpenaiChat => (
                "cannot be combined with `loadgen`",
                "`protocol: kserve`, or `openai-completions` with `extra: { detokenize: false }` (trtllm-serve) or \
                 `extra: { return_token_ids: true }` (vLLM)",
            ),
        };
        let key = if bench.protocol.is_some() { "protocol" } else { "target" };
        self.fault(&["bench", key], what, label).hint(hint);
    }

    /// A search for the highest rate under LoadGen's own rules.
    fn searched(&mut self, bench: &Bench) {
        let Some(loadgen) = &bench.loadgen else { return };
        faults! { self;
            ["bench", "search"], !matches!(bench.scenario, Scenario::Server | Scenario::Interactive),
                "needs the scenario `server` or `interactive`", "only there requests arrive at a rate",
                "`scenario: server` or `interactive`";
            ["bench", "loadgen", "target_qps"], loadgen.target_qps.is_some(), "cannot be combined with `search`",
                "it is what is searched", "remove it";
            ["bench", "loadgen", "mode"], loadgen.mode != TestMode::Performance, "cannot be searched in",
                "only performance has limits", "`mode: performance`";
        }
    }

    fn push_rule_error(&mut self, wrong: &RuleError) {
        let path: Vec<&str> = match wrong.at.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["scenario"] => vec!["bench", "scenario"],
            below => ["bench", "loadgen"].into_iter().chain(below.iter().copied()).collect(),
        };
        let is_at_key = wrong.is_of_key || wrong.at.is_empty();
        let report = if is_at_key { Self::key_fault } else { Self::fault };
        report(self, &path, &wrong.what, &wrong.rule).maybe_hint(wrong.hint.clone());
    }
}
