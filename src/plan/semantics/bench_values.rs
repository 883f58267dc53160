//! Values of a `bench` that fit their types, and that no measurement can be made from.

use super::StageChecker;
use crate::manifest::model::Bench;
use crate::manifest::{Map, Node};
use base::spec::{History, Retries, SloLimits, ThinkTime};

impl StageChecker<'_> {
    pub(super) fn bench_values(&mut self, bench: &Bench, written: &Node) {
        self.prompts(bench);
        self.sessions(bench);
        if bench.speed.is_some_and(|speed| !(speed > 0.0 && speed.is_finite())) {
            self.push_error(&["bench", "speed"], "must be above 0", "1 is that of the trace", None);
        }
        if let Some(ThinkTime::Uniform { min, max }) = &bench.think_time
            && min.time() > max.time()
        {
            let label = format!("{min} is longer than {max}");
            self.push_error(&["bench", "think_time", "uniform", "min"], "must not be longer than `max`", &label, None);
        }
        if let Some(fault) = bench.retries.as_ref().filter(|retries| !retries.on.is_empty()).and_then(Retries::problem)
        {
            self.push_error(&["bench", "retries"], "cannot be used", fault, None);
        }
        self.limits(bench);
        self.slo(bench, written);
    }

    fn prompts(&mut self, bench: &Bench) {
        if bench.prefixes.is_some_and(|prefixes| prefixes.fault().is_some()) {
            let path = ["bench", "prefixes", "zipf"];
            self.push_error(&path, "must be 0 or more", "an exponent; 0 makes all equally frequent", None);
        }
        if bench.distinct_prompts.is_some() && bench.data.is_some() {
            let hint = Some("remove it, or use `first` and `repeat` of `data`".to_owned());
            let path = ["bench", "distinct_prompts"];
            self.at_key(&path, "cannot be combined with `data`", "the prompts come from the data", hint);
        }
    }

    fn sessions(&mut self, bench: &Bench) {
        let Some(sessions) = &bench.sessions else { return };
        if let Some(fault) = sessions.turns.fault() {
            self.push_error(&["bench", "sessions", "turns"], fault, "turns of a session", None);
        }
        if sessions.history == History::Answers && bench.request.sequences() > 1 {
            let label = "which of the answers does the session continue?";
            let what = "cannot be `answers` with `num_return_sequences` above 1";
            self.push_error(&["bench", "sessions", "history"], what, label, None);
        }
    }

    fn limits(&mut self, bench: &Bench) {
        let limits = bench.limits.iter().flat_map(|limits| limits.latencies());
        for key in limits.filter(|limit| limit.ms <= 0.0).map(|limit| limit.key()).collect::<Vec<_>>() {
            self.push_error(&["bench", "limits", &key], "must be above 0", "no answer comes at once", None);
        }
    }

    fn slo(&mut self, bench: &Bench, written: &Node) {
        let Some(slo) = &bench.slo else { return };
        let SloLimits { ttft, tpot, e2e } = slo;
        for (key, limit) in [("ttft", ttft), ("tpot", tpot), ("e2e", e2e)] {
            if limit.as_ref().is_some_and(|limit| limit.time().is_zero()) {
                self.push_error(&["bench", "slo", key], "must be above 0", "no answer comes at once", None);
            }
        }
        // One that an expression left empty is none.
        let given = written.get("bench").and_then(|bench| bench.node.get("slo"));
        if given.and_then(|slo| slo.node.map()).is_some_and(Map::is_empty) {
            let hint = Some("add `ttft: 450ms`, `tpot: 40ms` or `e2e: 10s`, or remove it".to_owned());
            self.push_error(&["bench", "slo"], "has no limit", "every request would keep it", hint);
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
            self.push_error(&path, what, "", None);
        }
    }
}
