//! Keys of `bench` that only some scenarios read: next to a scenario that does not read them they are an error.

use super::StageChecker;
use crate::manifest::Node;
use crate::manifest::model::Bench;
use base::spec::{BenchSweep, Scenario, sets_length};

impl StageChecker<'_> {
    /// As it is written: a sweep sets its level itself. LoadGen has rules of its own.
    pub(super) fn load_keys(&mut self, bench: &Bench, written: &Node) {
        if bench.stall_timeout.time().is_zero() {
            self.push_error(&["bench", "stall_timeout"], "must be above 0", "every request would fail", None);
        }
        if bench.ready_timeout.as_ref().is_some_and(|limit| limit.time().is_zero()) {
            let hint = Some("remove it: a server has to be ready then".to_owned());
            self.push_error(&["bench", "ready_timeout"], "must be above 0", "nothing is waited for", hint);
        }
        let is_loadgens = matches!(bench.scenario, Scenario::Interactive | Scenario::SingleStream);
        if bench.loadgen.is_some() || is_loadgens {
            return;
        }
        let is_users = bench.scenario == Scenario::Concurrency;
        let has_arrivals = self.node.get("bench").is_some_and(|bench| bench.node.get("arrivals").is_some());
        let has_turns = bench.sessions.is_some() || bench.data.is_some();
        let idle = [
            ("rate", bench.rate.is_some() && bench.search.is_none() && bench.scenario != Scenario::Server, "server"),
            ("concurrency", bench.concurrency.is_some() && !is_users, "concurrency"),
            ("speed", bench.speed.is_some() && bench.scenario != Scenario::Trace, "trace"),
            ("arrivals", has_arrivals && bench.scenario != Scenario::Server, "server"),
            ("think_time", bench.think_time.is_some() && !is_users && !has_turns, "concurrency"),
        ];
        let is_meant = |key: &str| is_for_scenario(written, key);
        for (key, _, scenario) in idle.into_iter().filter(|(key, is_idle, _)| *is_idle && is_meant(key)) {
            let why = match key {
                "think_time" => "no user pauses, and there are no turns",
                "arrivals" => "only there requests arrive at a rate",
                _ => "another scenario has no such value",
            };
            let hint = Some(format!("remove it, or set `scenario: {scenario}`"));
            self.at_key(&["bench", key], "has no effect", why, hint);
        }
        self.late_cancel(bench, written);
    }

    /// An answer that ends before the tokens have come is never cancelled.
    fn late_cancel(&mut self, bench: &Bench, written: &Node) {
        let Some(cancel) = &bench.request.cancel else { return };
        // Then a server may answer with more.
        if sets_length(&bench.extra) || bench.extra.contains_key("n") {
            return;
        }
        let is_swept = matches!(bench.sweep, Some(BenchSweep::OutputTokens(_)));
        let answers = bench.request.sequences().saturating_mul(bench.request.batch.unwrap_or(1));
        let longest = bench.output_tokens.longest().saturating_mul(answers);
        if bench.output_tokens.is_given() || is_swept || cancel.after_tokens <= longest {
            return;
        }
        if are_written_together(written, "output_tokens", "request") {
            let label = format!("no request has more than {longest} tokens in its answer");
            let hint = Some("lower it, or raise `output_tokens`".to_owned());
            self.push_error(&["bench", "request", "cancel", "after_tokens"], "has no effect", &label, hint);
        }
    }
}

/// Whether a key is meant for the scenario of its stage: they are written together. An argument is for this stage alone, so only other
/// tasks of it may read it.
fn is_for_scenario(stage: &Node, key: &str) -> bool {
    let value = |key| Some(&stage.get("bench")?.node.get(key)?.node);
    let (Some(scenario), Some(given)) = (value("scenario"), value(key)) else { return false };
    if given.span.source().is_argument() {
        return !scenario.has_template() || stage.get("foreach").is_none();
    }
    are_written_together(stage, "scenario", key)
}

/// Whether two keys of a `bench` are meant for each other: both are literals of one file. Next to an expression, or in another file or a
/// setting, one may be there for another scenario or protocol.
pub(super) fn are_written_together(stage: &Node, one: &str, other: &str) -> bool {
    let literal = |key| {
        let entry = stage.get("bench")?.node.get(key)?;
        (!entry.node.has_template()).then_some(entry.node.span.source())
    };
    literal(one).zip(literal(other)).is_some_and(|(one, other)| one.is(other))
}
