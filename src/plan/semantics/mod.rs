//! What the types cannot express about a rendered stage: names, paths, durations, numbers that must fit each other.

mod bench_values;
mod compare;
mod container;
mod engine;
mod engine_and_server;
mod engine_numbers;
mod git;
mod gpu_clocks;
mod host;
mod load_keys;
mod mlperf;
mod own_variables;
mod packaging;
mod protocol;
mod repository_parameters;
mod retry;
mod serve;
mod simulated_engine;
mod speculative_decoding;
mod sweep;
mod trtllm;
mod weights;

pub use engine_and_server::across;
pub use packaging::packages;
pub use speculative_decoding::speculative_decoding;

use std::fmt::Write as _;

use crate::actions::{ActionFacts, BY_THIS_PROGRAM, Check};
use crate::manifest::model::{
    Bench, Data, Host, InputPaths, Repository, RepositoryLayout, ShellScript, Stage, Template,
};
use crate::manifest::{Node, targets};
use base::diag::{Diagnostic, Diagnostics, did_you_mean};
use base::event::EndpointError;
use base::spec::{
    Arrivals, CancelBy, GoodputLimit, Interface, Length, Protocol, Request, Scenario, SloLimits, StreamMode, WordList,
};
use base::units::{has_secret_parameter, is_identifier};

use super::PlanReference;

const MODELS: [&str; 5] = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"];

/// Models of NVIDIA's `all_models/multimodal` and `all_models/whisper`.
const OTHER_LAYOUTS: [&str; 2] = ["multimodal_encoders", "whisper_bls"];

/// Reports everything wrong with one stage, at its places. `written`: the stage before its texts were rendered.
pub fn check(stage: &Stage, node: &Node, written: &Node, name: &str, found: &mut Diagnostics) {
    let mut checker = StageChecker { node, written, name, found };
    checker.common(stage);
    checker.containers(stage);
    if let Some(host) = stage.host.as_deref().and_then(Host::remote) {
        checker.check_remote_stage(stage, &host);
    }
    stage.check_action(&mut checker);
}

/// Reports what is wrong with one stage.
pub struct StageChecker<'a> {
    node: &'a Node,
    written: &'a Node,
    name: &'a str,
    found: &'a mut Diagnostics,
}

impl<'a> StageChecker<'a> {
    /// For checks against other stages, after all are rendered.
    const fn new(node: &'a Node, name: &'a str, found: &'a mut Diagnostics) -> Self {
        Self { node, written: node, name, found }
    }
}

impl StageChecker<'_> {
    fn push_error(&mut self, path: &[&str], what: &str, label: &str, hint: Option<String>) {
        let message = format!("{} {what}", self.key_name(path));
        self.found.push(Diagnostic::error(message).at(self.node.place(path), label).maybe_hint(hint));
    }

    /// Without the line of the manifest, which has the secret in it.
    fn push_credentials_error(&mut self, path: &[&str]) {
        let message = format!("{}: {}", self.key_name(path), EndpointError::Credentials);
        self.found.push(Diagnostic::error(message));
    }

    /// The stage's key as messages name it.
    fn key_name(&self, path: &[&str]) -> String {
        let mut message = format!("`stages.{}", self.name);
        for step in path {
            let index = step.bytes().all(|byte| byte.is_ascii_digit());
            let _ = if index { write!(message, "[{step}]") } else { write!(message, ".{step}") };
        }
        message.push('`');
        message
    }

    fn common(&mut self, stage: &Stage) {
        self.retry(stage);
        self.gpu_clocks(stage);
        if !stage.strict && !matches!(stage.shell.as_deref(), Some(ShellScript::Text(_))) {
            let hint = Some("remove it".to_owned());
            self.push_error(&["strict"], "has no effect", "only a `shell` text runs in a shell", hint);
        }
        if stage.confine && (stage.shell.is_none() || stage.container.is_some()) {
            let hint = Some("remove it".to_owned());
            let label = if stage.shell.is_none() {
                "only a `shell` is confined"
            } else {
                "a container sees only what is mounted into it"
            };
            self.push_error(&["confine"], "has no effect", label, hint);
        }
        if stage.timeout.as_ref().is_some_and(|timeout| timeout.time().is_zero()) {
            self.push_error(&["timeout"], "must be above 0", "the stage would end at once", None);
        }
        for name in stage.env.keys() {
            self.variable(&["env", name], name);
        }
        self.own_variables(stage);
        for (index, name) in stage.secrets.iter().enumerate() {
            self.variable(&["secrets", &index.to_string()], name);
        }
        for (index, path) in stage.outputs.iter().enumerate() {
            let index = index.to_string();
            if path.is_empty() || path.starts_with('/') || escapes_folder(path) {
                let hint = Some("it is relative to the output folder, $OUT".to_owned());
                self.push_error(&["outputs", &index], "must lie in the output folder", "outside", hint);
            } else if path.contains(['*', '?']) {
                let hint = Some("name each file, or the folder that they are in".to_owned());
                self.push_error(&["outputs", &index], "must be a path", "outputs are no globs, as inputs are", hint);
            }
        }
        for (name, paths) in &stage.inputs {
            let list = match paths {
                InputPaths::One(path) => std::slice::from_ref(path),
                InputPaths::Many(paths) => paths.as_slice(),
            };
            for (index, path) in list.iter().enumerate() {
                let index = index.to_string();
                let many = matches!(paths, InputPaths::Many(_));
                let place: &[&str] = if many { &["inputs", name, &index] } else { &["inputs", name] };
                if path.is_empty() {
                    self.push_error(place, "is empty", "no path", None);
                } else if path.starts_with("~/") {
                    let hint = Some("write the whole path, or declare a parameter `path: required`".to_owned());
                    self.push_error(place, "begins with `~`", "it stands for no home folder here", hint);
                } else if PlanReference::all_in(path).iter().any(|one| matches!(one, PlanReference::Input(_))) {
                    self.push_error(place, "refers to an input", "inputs cannot be made of inputs", None);
                } else if !path.starts_with('/') && !path.contains('⟦') && escapes_folder(path) {
                    let hint = Some("give an absolute path to something outside of it".to_owned());
                    self.push_error(place, "leaves the project folder", "outside", hint);
                }
            }
        }
    }

    fn variable(&mut self, path: &[&str], name: &str) {
        if !is_identifier(name) {
            let message = format!("`{name}` cannot be the name of an environment variable");
            let place = match path {
                ["env", name] => self.node.get("env").and_then(|env| env.node.get(name)).map(|entry| entry.key.clone()),
                _ => None,
            };
            let place = place.unwrap_or_else(|| self.node.place(path));
            self.found
                .push(Diagnostic::error(message).at(place, "letters, digits and `_`, not beginning with a digit"));
        }
    }

    fn word(&mut self, path: &[&str], word: &str, known: &[&str]) {
        if !known.contains(&word) {
            let hint = did_you_mean(word, known.iter().copied());
            self.push_error(path, &format!("cannot be `{word}`"), "not known", hint);
        }
    }

    /// A search decides the rate itself, by the limits.
    fn search(&mut self, bench: &Bench) {
        let Some(search) = &bench.search else { return };
        let key = ["bench", "search"];
        if bench.loadgen.is_none() && bench.scenario != Scenario::Server {
            let hint = Some("`scenario: server`".to_owned());
            self.push_error(&key, "needs the scenario `server`", "only there requests arrive at a rate", hint);
        }
        if bench.loadgen.is_none() && bench.rate.is_some() {
            self.push_error(
                &key,
                "cannot be combined with `rate`",
                "it finds the rate",
                Some("take `rate` away".to_owned()),
            );
        }
        let needs_limits = bench.loadgen.is_none();
        if needs_limits
            && bench
                .limits
                .as_ref()
                .is_none_or(|limits| limits.latencies().next().is_none() && limits.goodput.is_none())
        {
            let hint = Some("add `limits: { ttft_p99: 2s, tpot_p99: 200ms }`".to_owned());
            self.push_error(&key, "needs `limits`", "without a limit every rate is good enough", hint);
        }
        let least = bench.limits.as_ref().and_then(|limits| limits.goodput);
        if bench.loadgen.is_none() && matches!(least, Some(GoodputLimit::PerSecond(_))) {
            let hint = Some("as a share of the requests: `goodput: 95%`".to_owned());
            let why = "no rate below that many requests per second can have as much goodput";
            self.push_error(&["bench", "limits", "goodput"], "must be a share with `search`", why, hint);
        }
        if !(search.low > 0.0 && search.low < search.high && search.high.is_finite()) {
            self.push_error(
                &["bench", "search", "low"],
                "must be above 0 and below `high`",
                "requests per second",
                None,
            );
        }
        if search.start.is_some_and(|start| !(search.low..=search.high).contains(&start)) {
            self.push_error(
                &["bench", "search", "start"],
                "must be between `low` and `high`",
                "requests per second",
                None,
            );
        }
        if search.start_from.is_some() {
            let path = ["bench", "search", "start_from"];
            if search.start.is_some() {
                let hint = Some("take one of them away".to_owned());
                self.push_error(&path, "cannot be combined with `start`", "both set the first rate", hint);
            }
            if bench.loadgen.is_some() {
                let hint = Some("remove it, or raise `low`".to_owned());
                self.push_error(
                    &path,
                    "cannot be combined with `loadgen`",
                    "LoadGen's tests are tried from `low` on",
                    hint,
                );
            }
        }
        if !(search.precision > 0.0 && search.precision < 1.0) {
            self.push_error(&["bench", "search", "precision"], "must be between 0 and 1", "a share: 0.02 is 2 %", None);
        }
    }

    /// Reports a level of the load that is there, with an expression that gives none.
    fn is_none(&mut self, written: &Node, key: &str) -> bool {
        let Some(entry) = written.get("bench").and_then(|bench| bench.node.get(key)) else { return false };
        let message = format!("{} is `none` here", self.key_name(&["bench", key]));
        let hint = "an expression that gives `none` is as if the key were not there".to_owned();
        self.found
            .push(Diagnostic::error(message).at(entry.node.span.first_line(), "this scenario needs it").hint(hint));
        true
    }

    /// When requests come, and where their prompts come from.
    fn load(&mut self, bench: &Bench, written: &Node) {
        let concurrency = bench.scenario == Scenario::Concurrency;
        if concurrency && bench.concurrency.is_none() && bench.ramp.is_none() && !self.is_none(written, "concurrency") {
            let hint = Some("add `concurrency: 16`: users".to_owned());
            self.push_error(&["bench", "scenario"], "needs `concurrency`", "here users take turns", hint);
        }
        if bench.ramp.is_some() && (bench.rate.is_some() || bench.concurrency.is_some()) {
            let what = "stands in place of `rate` or `concurrency`";
            self.push_error(&["bench", "ramp"], what, "both are given", Some("take one of them away".to_owned()));
        }
        if let Arrivals::Gamma { cv } = bench.arrivals
            && !(cv > 0.0 && cv <= 100.0)
        {
            self.push_error(
                &["bench", "arrivals", "gamma", "cv"],
                "must be above 0 and at most 100",
                "1 is Poisson",
                None,
            );
        }
        let Some(data) = &bench.data else {
            if bench.scenario == Scenario::Trace {
                let hint = Some("`data: { mooncake: trace.jsonl }`, or `jsonl` with `timestamp`".to_owned());
                self.push_error(&["bench", "scenario"], "needs `data` with time stamps", "a trace of what?", hint);
            }
            for (key, length) in [("input_tokens", &bench.input_tokens), ("output_tokens", &bench.output_tokens)] {
                if *length == Length::Given {
                    let hint = Some(format!("`{key}: {{ fixed: 128 }}`, or `data` with it"));
                    self.push_error(&["bench"], &format!("needs `{key}`"), "there are no data to take it from", hint);
                }
            }
            return;
        };
        let prompts = data.files().filter(|(key, _)| !matches!(*key, "lengths" | "output_lengths")).count();
        if prompts != 1 {
            let hint = Some("one of `jsonl`, `sharegpt`, `mooncake`, `input_ids`, `plan`".to_owned());
            self.push_error(
                &["bench", "data"],
                "needs exactly one file of prompts",
                &format!("it has {prompts}"),
                hint,
            );
        }
    }

    /// Runs are repeated where one measurement is one run.
    fn repeat(&mut self, bench: &Bench) {
        let key = ["bench", "repeat"];
        let hint = || Some("take `repeat` away".to_owned());
        if bench.repeat > 1 && bench.search.is_some() {
            self.push_error(&key, "cannot be combined with `search`", "a search has several runs of its own", hint());
        }
        if bench.repeat > 1 && bench.loadgen.is_some() {
            self.push_error(
                &key,
                "cannot be combined with `loadgen`",
                "MLPerf's rules set how often a test is run",
                hint(),
            );
        }
    }

    fn bench(&mut self, bench: &Bench) {
        let written = self.written;
        self.sweep(bench);
        self.load_keys(bench, written);
        // A point of the sweep is checked as a benchmark of its own.
        let bench = &*bench.at_first_level();
        self.search(bench);
        self.repeat(bench);
        // With LoadGen, LoadGen decides when requests come, how many, and with what.
        let is_ours = bench.loadgen.is_none();
        if is_ours && !self.is_loadgens(bench) {
            self.load(bench, written);
        } else if !is_ours {
            self.loadgen(bench);
        }
        if is_ours
            && bench.scenario == Scenario::Server
            && bench.rate.is_none()
            && bench.ramp.is_none()
            && bench.search.is_none()
            && !self.is_none(written, "rate")
        {
            let hint = Some("add `rate: 10`: requests per second".to_owned());
            let message = format!("`stages.{}.bench` needs a `rate`", self.name);
            let place = self.node.place(&["bench", "scenario"]);
            self.found.push(Diagnostic::error(message).at(place, "here requests arrive at a rate").maybe_hint(hint));
        }
        if let Some(rate) = bench.rate
            && !(rate > 0.0 && rate.is_finite())
        {
            self.push_error(&["bench", "rate"], "must be greater than 0", "requests per second", None);
        }
        // With data each record is sent once.
        if is_ours && bench.stop.requests.is_none() && bench.stop.duration.is_none() && bench.data.is_none() {
            let hint = Some("give `requests: 1000`, `duration: 60s`, or both".to_owned());
            self.push_error(&["bench", "stop"], "needs `requests` or `duration`", "it would never end", hint);
        }
        if bench.stop.time().is_some_and(|time| time.is_zero()) {
            self.push_error(&["bench", "stop", "duration"], "must be above 0", "no request would be sent", None);
        }
        if bench.scenario == Scenario::Offline && bench.stop.requests.is_none() && bench.stop.duration.is_some() {
            let hint = Some("give `requests: 1000`".to_owned());
            self.push_error(&["bench", "stop"], "needs `requests`", "offline sends everything at once", hint);
        }
        if let Some(limits) = &bench.limits {
            let has_slo = bench.slo.as_ref().is_some_and(|slo| *slo != SloLimits::default())
                || limits.ttft_p99.is_some()
                || limits.tpot_p99.is_some();
            if limits.goodput.is_some() && !has_slo {
                let hint = Some("add `slo: { ttft: 450ms, tpot: 40ms }`".to_owned());
                self.push_error(
                    &["bench", "limits", "goodput"],
                    "needs `slo`",
                    "goodput counts the requests that keep it",
                    hint,
                );
            }
        }
        self.length("input_tokens", &bench.input_tokens);
        self.length("output_tokens", &bench.output_tokens);
        self.request_faults(bench);
        self.bench_values(bench, written);
        self.sending(bench);
        self.protocol(bench, written);
        self.target(&bench.target);
        if bench.endpoint.as_deref().is_some_and(has_secret_parameter) {
            self.push_credentials_error(&["bench", "endpoint"]);
        }
    }

    fn sending(&mut self, bench: &Bench) {
        if bench.stream == StreamMode::Shared {
            let spoken = targets(&bench.target).unwrap_or_default().protocol(bench.protocol);
            if spoken != Protocol::Kserve {
                let hint = Some("`protocol: kserve`, or leave `stream` out".to_owned());
                self.push_error(&["bench", "stream"], "cannot be `shared` over HTTP", "gRPC's streams are meant", hint);
            }
            if bench.request.cancel.as_ref().is_some_and(|cancel| cancel.by == CancelBy::Rpc) {
                let label = "cancelling the call would end every request on the shared stream";
                let hint = Some("add `by: stop`, or `stream: per_request`".to_owned());
                self.push_error(
                    &["bench", "request", "cancel"],
                    "cannot be by `rpc` with `stream: shared`",
                    label,
                    hint,
                );
            }
        }
        if bench.retries.as_ref().is_some_and(|retries| retries.on.is_empty()) {
            let hint = Some("`on: [connect, refused]`".to_owned());
            self.push_error(&["bench", "retries", "on"], "names no failure", "nothing would be sent again", hint);
        }
    }

    /// The checks of the request block that need no model; the rest is checked against the server before the first request.
    fn request(&mut self, request: &Request) {
        if request.repetition_penalty == Some(0.0) {
            self.push_error(&["bench", "request", "repetition_penalty"], "must be greater than 0", "1 is none", None);
        }
        if request.beam_width > Some(1) && request.streaming == Some(true) {
            let label = "every response would hold all tokens so far";
            let hint = Some("set `streaming: false`".to_owned());
            self.push_error(&["bench", "request", "beam_width"], "cannot stream above 1", label, hint);
        }
        for (key, words) in [("stop_words", &request.stop_words), ("bad_words", &request.bad_words)] {
            let Some(words) = words else { continue };
            let (kind, is_empty, expected) = match words {
                WordList::Ids(ids) => ("ids", ids.is_empty() || ids.iter().any(Vec::is_empty), Interface::TokenIds),
                WordList::Texts(texts) => {
                    ("texts", texts.is_empty() || texts.iter().any(String::is_empty), Interface::Text)
                }
            };
            if is_empty {
                self.push_error(
                    &["bench", "request", key, kind],
                    "must have entries",
                    "here is an empty one, or none",
                    None,
                );
            }
            if request.interface.is_some_and(|interface| interface != expected) {
                let hint = Some("`ids` go with token ids, `texts` with text models".to_owned());
                self.push_error(
                    &["bench", "request", key, kind],
                    "does not fit `interface`",
                    "entries of the other kind",
                    hint,
                );
            }
        }
        if let Some(cancel) = &request.cancel {
            if request.streaming == Some(false) {
                let hint = Some("remove `streaming: false`".to_owned());
                self.push_error(
                    &["bench", "request", "cancel"],
                    "needs streaming",
                    "it counts tokens as they come",
                    hint,
                );
            }
            if cancel.by == CancelBy::Stop && request.interface == Some(Interface::Text) {
                let hint = Some("use `by: rpc`".to_owned());
                self.push_error(
                    &["bench", "request", "cancel", "by"],
                    "cannot be `stop`",
                    "text models have no such input",
                    hint,
                );
            }
        }
    }

    fn length(&mut self, key: &str, length: &Length) {
        match length {
            Length::Empirical(values)
                if values
                    .iter()
                    .any(|value| value.tokens == 0 || !(value.weight >= 0.0 && value.weight.is_finite()))
                    || values.iter().map(|value| value.weight).sum::<f64>() <= 0.0 =>
            {
                let hint = Some("for example `[{ tokens: 128, weight: 3 }, { tokens: 2048, weight: 1 }]`".to_owned());
                self.push_error(&["bench", key, "empirical"], "needs lengths of at least 1 with weights", "", hint);
            }
            Length::Lognormal { mean, stddev, min, max }
                if !(*mean > 0.0 && *stddev >= 0.0 && min <= max && *min > 0) =>
            {
                let what = "needs a mean above 0, a stddev not below, and `min` not above `max`";
                self.push_error(&["bench", key, "lognormal"], what, "", None);
            }
            Length::Fixed(0) => self.push_error(&["bench", key, "fixed"], "must be at least 1", "no tokens", None),
            Length::Uniform { min, max } | Length::Normal { min, max, .. } if min > max => {
                let kind = if matches!(length, Length::Uniform { .. }) { "uniform" } else { "normal" };
                let label = format!("{min} is greater than {max}");
                self.push_error(&["bench", key, kind, "min"], "must not be greater than `max`", &label, None);
            }
            Length::Normal { mean, stddev, .. } if *stddev < 0.0 || !mean.is_finite() || !stddev.is_finite() => {
                self.push_error(&["bench", key, "normal", "stddev"], "must not be negative", "", None);
            }
            _ => {
                if let Some(fault) = length.fault() {
                    self.push_error(&["bench", key], fault, "", None);
                }
            }
        }
    }

    fn target(&mut self, target: &str) {
        let references = PlanReference::all_in(target);
        if let [PlanReference::Service(_)] = references.as_slice() {
            return;
        }
        let hint = Some("use {{ stages.NAME }} of a `serve` stage, or `host:port,port|host:port`".to_owned());
        if !references.is_empty() {
            self.push_error(&["bench", "target"], "must be a server", "this is a folder or a file", hint);
            return;
        }
        match targets(target) {
            Ok(_) => {}
            Err(error) if error.is_of_credentials() => self.push_credentials_error(&["bench", "target"]),
            Err(_) if target.starts_with("sim:") => {
                let hint = "serve a simulator in a stage of its own, and name that: target: \"{{ stages.NAME }}\"; `regatta bench sim: --dry-run` prints such a manifest";
                let why = "`sim:` is a target of `regatta bench` only";
                self.push_error(&["bench", "target"], "must name servers", why, Some(hint.to_owned()));
            }
            Err(error) => self.push_error(&["bench", "target"], "must name servers", &error.to_string(), hint),
        }
    }
}

impl Check for ShellScript {
    const FACTS: ActionFacts =
        ActionFacts { is_repeatable: true, is_command: true, runs_programs: true, ..ActionFacts::STEP };

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        if self.is_empty() {
            checker.push_error(&["shell"], "needs a command", "it is empty", None);
        }
    }
}

impl Check for Template {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        needs_memory: false,
        container_obstacle: BY_THIS_PROGRAM,
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        vec![("template.from", self.from.as_str())]
    }

    fn check(&self, _: &Stage, _: &mut StageChecker<'_>) {}
}

impl Check for Repository {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        is_of_server: true,
        is_checked_across_stages: true,
        needs_memory: false,
        container_obstacle: BY_THIS_PROGRAM,
        sharing_obstacle: Some("a model repository names its engine by a path of this machine, and is made in no time"),
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        std::iter::once(("repository.engine", self.engine.as_str()))
            .chain(self.tokenizer.as_deref().map(|path| ("repository.tokenizer", path)))
            .chain(self.files.as_deref().map(|path| ("repository.files", path)))
            .collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        for (index, model) in self.models.iter().enumerate() {
            let path = ["repository", "models", &index.to_string()];
            if OTHER_LAYOUTS.contains(&model.as_str()) {
                let hint = Some("serve it with `serve: command` or attach to it, and measure that server".to_owned());
                let what = format!(
                    "cannot be `{model}`: repositories of multimodal and encoder-decoder models are not made here"
                );
                checker.push_error(&path, &what, "another layout", hint);
            } else {
                checker.word(&path, model, &MODELS);
            }
        }
        if self.layout == RepositoryLayout::Five && self.triton_num_models_per_server.is_some() {
            let path = ["repository", "triton_num_models_per_server"];
            let hint = Some("write `layout: harness`, or remove it".to_owned());
            checker.push_error(&path, "needs the harness layout", "here", hint);
        }
        checker.repository_flags(self);
    }
}

impl Check for Bench {
    const FACTS: ActionFacts = ActionFacts {
        measures: true,
        writes_provenance: true,
        container_obstacle: BY_THIS_PROGRAM,
        ..ActionFacts::MEASUREMENT
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let tokenizer = self.tokenizer.as_deref().map(|path| ("bench.tokenizer", path));
        let loadgen = self.loadgen.iter().flat_map(|loadgen| loadgen.reads());
        let earlier = self.search.iter().filter_map(|search| search.start_from.as_deref());
        let earlier = earlier.map(|path| ("bench.search.start_from", path));
        self.data.iter().flat_map(Data::inputs).chain(tokenizer).chain(loadgen).chain(earlier).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.bench(self);
    }
}

/// Whether a relative path climbs out of where it begins.
fn escapes_folder(path: &str) -> bool {
    let mut depth = 0_i32;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}
