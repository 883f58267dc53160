//! What the types cannot express about `bench:`.
//!
//! Values of a `bench` that fit their types, and that no measurement can be made from.

use super::{ActionFacts, BY_THIS_PROGRAM, Check, PlanReference, StageChecker, faults};
use crate::manifest::model::{Bench, Data, Stage};
use crate::manifest::{Map, Node, targets};
use base::spec::{
    CancelBy, History, Interface, Protocol, Request, Retries, Scenario, SloLimits, StreamMode, ThinkTime, TimeSpan,
    WordList,
};
use base::units::has_secret_parameter;

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
        let written = checker.written;
        checker.sweep(self);
        checker.load_keys(self, written);
        // A point of the sweep is checked as a benchmark of its own.
        let bench = &*self.at_first_level();
        checker.search(bench);
        checker.repeat(bench);
        checker.load(bench);
        // With LoadGen, LoadGen decides when requests come, how many, and with what.
        let is_ours = bench.loadgen.is_none();
        if !is_ours {
            checker.loadgen(bench);
        } else if !matches!(bench.scenario, Scenario::Interactive | Scenario::SingleStream) {
            checker.content(bench);
        }
        checker.number_fault(&["bench", "rate"], bench.rate, "requests per second");
        let has_slo = bench.slo.as_ref().is_some_and(|slo| *slo != SloLimits::default());
        let lacks_slo = bench.limits.as_ref().is_some_and(|limits| {
            limits.goodput.is_some() && !has_slo && limits.ttft_p99.is_none() && limits.tpot_p99.is_none()
        });
        let (counts, ends) = (bench.stop.requests.is_some(), bench.stop.duration.is_some());
        faults! { checker;
            // With data each record is sent once.
            ["bench", "stop"], is_ours && !counts && !ends && bench.data.is_none(),
                "needs `requests` or `duration`", "it would never end",
                "give `requests: 1000`, `duration: 60s`, or both";
            ["bench", "stop", "duration"], bench.stop.time().is_some_and(|time| time.is_zero()),
                "must be above 0", "no request would be sent";
            ["bench", "stop"], bench.scenario == Scenario::Offline && !counts && ends,
                "needs `requests`", "offline sends everything at once", "give `requests: 1000`";
            ["bench", "limits", "goodput"], lacks_slo, "needs `slo`", "goodput counts the requests that keep it",
                "add `slo: { ttft: 450ms, tpot: 40ms }`";
        }
        checker.length("input_tokens", &bench.input_tokens);
        checker.length("output_tokens", &bench.output_tokens);
        checker.request_faults(bench);
        checker.bench_values(bench, written);
        checker.sending(bench);
        checker.protocol(bench, written);
        checker.target(&bench.target);
        if bench.endpoint.as_deref().is_some_and(has_secret_parameter) {
            checker.push_credentials_error(&["bench", "endpoint"]);
        }
    }
}

impl StageChecker<'_> {
    pub(super) fn sending(&mut self, bench: &Bench) {
        let is_shared = bench.stream == StreamMode::Shared;
        let is_over_http = || targets(&bench.target).unwrap_or_default().protocol(bench.protocol) != Protocol::Kserve;
        let is_cancelled_by_rpc = bench.request.cancel.as_ref().is_some_and(|cancel| cancel.by == CancelBy::Rpc);
        faults! { self;
            ["bench", "stream"], is_shared && is_over_http(), "cannot be `shared` over HTTP",
                "gRPC's streams are meant", "`protocol: kserve`, or leave `stream` out";
            ["bench", "request", "cancel"], is_shared && is_cancelled_by_rpc,
                "cannot be by `rpc` with `stream: shared`",
                "cancelling the call would end every request on the shared stream",
                "add `by: stop`, or `stream: per_request`";
            ["bench", "retries", "on"], bench.retries.as_ref().is_some_and(|retries| retries.on.is_empty()),
                "names no failure", "nothing would be sent again", "`on: [connect, refused]`";
        }
    }

    /// The checks of the request block that need no model; the rest is checked against the server before the first
    /// request.
    pub(super) fn request(&mut self, request: &Request) {
        faults! { self;
            ["bench", "request", "repetition_penalty"], request.repetition_penalty == Some(0.0),
                "must be greater than 0", "1 is none";
            ["bench", "request", "beam_width"], request.beam_width > Some(1) && request.streaming == Some(true),
                "cannot stream above 1", "every response would hold all tokens so far", "set `streaming: false`";
        }
        for (key, words) in [("stop_words", &request.stop_words), ("bad_words", &request.bad_words)] {
            let Some(words) = words else { continue };
            let (kind, is_empty, expected) = match words {
                WordList::Ids(ids) => ("ids", ids.is_empty() || ids.iter().any(Vec::is_empty), Interface::TokenIds),
                WordList::Texts(texts) => {
                    ("texts", texts.is_empty() || texts.iter().any(String::is_empty), Interface::Text)
                }
            };
            faults! { self;
                ["bench", "request", key, kind], is_empty, "must have entries", "here is an empty one, or none";
                ["bench", "request", key, kind], request.interface.is_some_and(|interface| interface != expected),
                    "does not fit `interface`", "entries of the other kind",
                    "`ids` go with token ids, `texts` with text models";
            }
        }
        if let Some(cancel) = &request.cancel {
            faults! { self;
                ["bench", "request", "cancel"], request.streaming == Some(false), "needs streaming",
                    "it counts tokens as they come", "remove `streaming: false`";
                ["bench", "request", "cancel", "by"],
                    cancel.by == CancelBy::Stop && request.interface == Some(Interface::Text),
                    "cannot be `stop`", "text models have no such input", "use `by: rpc`";
            }
        }
    }

    pub(super) fn target(&mut self, target: &str) {
        let references = PlanReference::all_in(target);
        if let [PlanReference::Service(_)] = references.as_slice() {
            return;
        }
        let hint = "the server of a `serve` stage is \"{{ stages.NAME }}\", in quotes; one that runs already is \
                    `http://host:port` (OpenAI), or `host:port,port|host:port` (Triton's gRPC)";
        if !references.is_empty() {
            self.fault(&["bench", "target"], "must be a server", "this is a folder or a file").hint(hint);
            return;
        }
        match targets(target) {
            Ok(_) => {}
            Err(error) if error.is_of_credentials() => self.push_credentials_error(&["bench", "target"]),
            Err(_) if target.starts_with("sim:") => {
                let hint = "serve a simulator in a stage of its own, and name that: target: \"{{ stages.NAME }}\"; \
                 `regatta bench sim: --dry-run` prints such a manifest";
                let reason = "`sim:` is a target of `regatta bench` only";
                self.fault(&["bench", "target"], "must name servers", reason).hint(hint);
            }
            Err(error) => self.fault(&["bench", "target"], "must name servers", &error.to_string()).hint(hint),
        }
    }

    pub(super) fn bench_values(&mut self, bench: &Bench, written: &Node) {
        self.prompts(bench);
        self.sessions(bench);
        self.number_fault(&["bench", "speed"], bench.speed, "1 is that of the trace");
        if let Some(ThinkTime::Uniform { min, max }) = &bench.think_time
            && min.time() > max.time()
        {
            let label = format!("{min} is longer than {max}");
            self.fault(&["bench", "think_time", "uniform", "min"], "must not be longer than `max`", &label);
        }
        if let Some(fault) = bench.retries.as_ref().filter(|retries| !retries.on.is_empty()).and_then(Retries::problem)
        {
            self.fault(&["bench", "retries"], "cannot be used", fault);
        }
        self.limits(bench);
        self.slo(bench, written);
    }

    fn prompts(&mut self, bench: &Bench) {
        faults! { self;
            ["bench", "prefixes", "zipf"], bench.prefixes.is_some_and(|prefixes| prefixes.fault().is_some()),
                "must be 0 or more", "an exponent; 0 makes all equally frequent";
        }
        if bench.distinct_prompts.is_some() && bench.data.is_some() {
            let path = ["bench", "distinct_prompts"];
            self.key_fault(&path, "cannot be combined with `data`", "the prompts come from the data")
                .hint("remove it, or use `first` and `repeat` of `data`");
        }
    }

    fn sessions(&mut self, bench: &Bench) {
        let Some(sessions) = &bench.sessions else { return };
        if let Some(fault) = sessions.turns.fault() {
            self.fault(&["bench", "sessions", "turns"], fault, "turns of a session");
        }
        faults! { self;
            ["bench", "sessions", "history"], sessions.history == History::Answers && bench.request.sequences() > 1,
                "cannot be `answers` with `num_return_sequences` above 1",
                "which of the answers does the session continue?";
        }
    }

    fn limits(&mut self, bench: &Bench) {
        let limits = bench.limits.iter().flat_map(|limits| limits.latencies());
        for key in limits.filter(|limit| limit.ms <= 0.0).map(|limit| limit.key()).collect::<Vec<_>>() {
            self.fault(&["bench", "limits", &key], "must be above 0", "no answer comes at once");
        }
    }

    fn slo(&mut self, bench: &Bench, written: &Node) {
        let Some(slo) = &bench.slo else { return };
        let SloLimits { ttft, tpot, e2e } = slo;
        for (key, limit) in [("ttft", ttft), ("tpot", tpot), ("e2e", e2e)] {
            self.time_fault(&["bench", "slo", key], limit.as_ref().map(TimeSpan::time), "no answer comes at once");
        }
        // If an expression leaves `slo` empty, no limits are set.
        let given = written.entry(&["bench", "slo"]);
        if given.and_then(|slo| slo.node.map()).is_some_and(Map::is_empty) {
            self.fault(&["bench", "slo"], "has no limit", "every request would keep it")
                .hint("add `ttft: 450ms`, `tpot: 40ms` or `e2e: 10s`, or remove it");
        }
    }

    /// What the request's own check finds, where nothing of it is reported at its place yet.
    pub(super) fn request_faults(&mut self, bench: &Bench) {
        let before = self.found.len();
        self.request(&bench.request);
        if self.found.len() > before {
            return;
        }
        for fault in bench.request.faults(bench.vocab_size) {
            let (key, what) = fault.split_once(' ').unwrap_or((&fault, "is wrong"));
            let path: Vec<&str> = std::iter::once("bench").chain(key.split('.')).collect();
            self.fault(&path, what, "");
        }
    }
}
