//! `bench.loadgen` and `mlperf:` against the rules, before hours are spent.

use crate::actions::{ActionFacts, Check};
use crate::manifest::model::{Bench, Mlperf, MlperfOutputs, Stage};
use crate::manifest::{Node, targets};
use base::diag::{did_you_mean, list_of};
use base::spec::{Interface, Protocol, Scenario, TestMode, requests_token_ids};
use rules::{Round, RuleError, conf};

use super::super::loadgen::test_request;
use super::StageChecker;

/// What LoadGen decides itself, and why it cannot be set beside it.
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
                ("mlperf.verify.performance", verify.performance.as_deref()),
                ("mlperf.verify.dataset", verify.dataset.as_deref()),
                ("mlperf.verify.tokenizer", verify.tokenizer.as_deref()),
            ]),
            Self::Package(package) => {
                reads.push(("mlperf.package.source", package.source.as_deref()));
                reads.push(("mlperf.package.documentation", package.documentation.as_deref()));
                reads.push(("mlperf.package.checker", package.checker.as_deref()));
                reads.push(("mlperf.package.nvidia_smi", package.nvidia_smi.as_deref()));
                for results in &package.results {
                    let outputs = [&results.performance, &results.accuracy, &results.score];
                    let outputs = outputs.into_iter().chain(results.audits.values()).chain(results.verified.values());
                    let paths = outputs.flat_map(MlperfOutputs::all);
                    reads.extend(paths.map(|path| ("mlperf.package.results", Some(path.as_str()))));
                }
            }
        }
        reads.into_iter().filter_map(|(key, path)| Some((key, path?))).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.mlperf(self);
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
            let is_written = self.node.get("bench").is_some_and(|bench| bench.node.get(key).is_some());
            if is_written {
                self.at_key(&["bench", key], "cannot be combined with `loadgen`", why, Some("remove it".to_owned()));
            }
        }
        if bench.search.is_some() {
            self.searched(bench);
        }
        self.has_token_ids(bench);
        let Some(request) = test_request(bench) else {
            let known = ["offline", "server", "interactive", "single_stream"];
            let hint = Some(format!("LoadGen has {}", list_of(known)));
            self.push_error(&["bench", "scenario"], "is none of LoadGen's", "`loadgen` is also given", hint);
            return;
        };
        for wrong in conf::check(&request) {
            self.push_rule_error(&wrong);
        }
    }

    /// LoadGen's samples are token ids, and it is given those of each answer: not every protocol has them.
    fn has_token_ids(&mut self, bench: &Bench) {
        let label = "LoadGen's samples are token ids, and it is given the token ids of each answer";
        if bench.request.interface == Some(Interface::Text) {
            let hint = Some("`interface: token_ids`".to_owned());
            self.push_error(&["bench", "request", "interface"], "cannot be combined with `loadgen`", label, hint);
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
                "`extra: { detokenize: false }` requests them of trtllm-serve, `extra: { return_token_ids: true }` of vLLM; a Triton \
                 model with `output_ids` has them over `protocol: kserve`",
            ),
            Protocol::Generate | Protocol::OpenaiChat => (
                "cannot be combined with `loadgen`",
                "`protocol: kserve`, or `openai-completions` with `extra: { detokenize: false }` (trtllm-serve) or \
                 `extra: { return_token_ids: true }` (vLLM)",
            ),
        };
        let key = if bench.protocol.is_some() { "protocol" } else { "target" };
        self.push_error(&["bench", key], what, label, Some(hint.to_owned()));
    }

    /// Without `loadgen` two scenarios mean nothing. Returns whether that was reported.
    pub(super) fn is_loadgens(&mut self, bench: &Bench) -> bool {
        let is_theirs = matches!(bench.scenario, Scenario::Interactive | Scenario::SingleStream);
        if is_theirs {
            let hint = Some("add `loadgen`, or choose `server`".to_owned());
            self.push_error(&["bench", "scenario"], "is a scenario of LoadGen's", "and there is no `loadgen`", hint);
        }
        is_theirs
    }

    /// A search for the highest rate under LoadGen's own rules.
    fn searched(&mut self, bench: &Bench) {
        let key = ["bench", "search"];
        if !matches!(bench.scenario, Scenario::Server | Scenario::Interactive) {
            let hint = Some("`scenario: server` or `interactive`".to_owned());
            self.push_error(
                &key,
                "needs the scenario `server` or `interactive`",
                "only there requests arrive at a rate",
                hint,
            );
        }
        if let Some(loadgen) = &bench.loadgen {
            if loadgen.target_qps.is_some() {
                let hint = Some("remove it".to_owned());
                self.push_error(
                    &["bench", "loadgen", "target_qps"],
                    "cannot be combined with `search`",
                    "it is what is searched",
                    hint,
                );
            }
            if loadgen.mode != TestMode::Performance {
                let hint = Some("`mode: performance`".to_owned());
                self.push_error(
                    &["bench", "loadgen", "mode"],
                    "cannot be searched in",
                    "only performance has limits",
                    hint,
                );
            }
        }
    }

    fn push_rule_error(&mut self, wrong: &RuleError) {
        let path: Vec<&str> = match wrong.at.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["scenario"] => vec!["bench", "scenario"],
            below => ["bench", "loadgen"].into_iter().chain(below.iter().copied()).collect(),
        };
        if wrong.is_of_key || wrong.at.is_empty() {
            self.at_key(&path, &wrong.what, &wrong.rule, wrong.hint.clone());
        } else {
            self.push_error(&path, &wrong.what, &wrong.rule, wrong.hint.clone());
        }
    }

    /// As `say`, but at the key, not at its value.
    pub(super) fn at_key(&mut self, path: &[&str], what: &str, label: &str, hint: Option<String>) {
        let before = self.found.len();
        self.push_error(path, what, label, hint);
        let Some((last, above)) = path.split_last() else { return };
        let mut node: Option<&Node> = Some(self.node);
        for step in above {
            node = node.and_then(|node| node.get(step)).map(|entry| &entry.node);
        }
        if let Some(entry) = node.and_then(|node| node.get(last)) {
            self.found.move_to(before, entry.key.clone());
        }
    }

    /// An `mlperf` step: its round and its benchmark.
    pub(super) fn mlperf(&mut self, step: &Mlperf) {
        let (word, round, benchmarks): (&str, &str, Vec<&str>) = match step {
            Mlperf::Loadgen(step) => ("loadgen", &step.round, vec![]),
            Mlperf::Dataset(step) => ("dataset", &step.round, vec![&step.benchmark]),
            Mlperf::Score(step) => ("score", &step.round, vec![&step.benchmark]),
            Mlperf::Verify(step) => ("verify", &step.round, vec![&step.benchmark]),
            Mlperf::Package(step) => {
                ("package", &step.round, step.results.iter().map(|entry| entry.benchmark.as_str()).collect())
            }
        };
        if let Mlperf::Package(step) = step {
            for (index, results) in step.results.iter().enumerate() {
                let Err((key, what)) = results.entries() else { continue };
                let index = index.to_string();
                let mut path = vec!["mlperf", "package", "results", &index];
                path.extend(key.iter().map(String::as_str));
                let hint = Some("`{{ stages.NAME.outs }}` of a stage with `foreach: { scenario: … }`".to_owned());
                self.push_error(&path, &what, "one for each scenario, in their order", hint);
            }
        }
        let Some(table) = Round::named(round) else {
            let hint = did_you_mean(round, Round::NAMES);
            self.push_error(
                &["mlperf", word, "round"],
                &format!("cannot be `{round}`"),
                "there is no table of it",
                hint,
            );
            return;
        };
        if matches!(step, Mlperf::Loadgen(_)) && !table.loadgen.is_packaged {
            let hint = Some(format!("`regatta mlperf check DIR --round {round}` checks results of it"));
            let what = format!("cannot be `{round}`");
            self.push_error(&["mlperf", word, "round"], &what, "its LoadGen was not published as a package", hint);
        }
        for (index, name) in benchmarks.iter().enumerate() {
            if table.benchmarks.contains_key(*name) {
                continue;
            }
            let index = index.to_string();
            let path: &[&str] = match step {
                Mlperf::Package(_) => &["mlperf", "package", "results", &index, "benchmark"],
                _ => &["mlperf", word, "benchmark"],
            };
            let known = || table.benchmarks.keys().map(String::as_str);
            let (label, hint) = match table.left_out(name) {
                Some(why) => {
                    (format!("of {round}, but left out here: {why}"), Some(format!("there are {}", list_of(known()))))
                }
                None => (format!("not a benchmark of {round}"), did_you_mean(name, known())),
            };
            self.push_error(path, &format!("cannot be `{name}`"), &label, hint);
        }
    }
}
