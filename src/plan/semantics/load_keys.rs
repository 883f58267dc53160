//! Keys of `bench` that only some scenarios read: next to a scenario that does not read them they are an error.

use super::StageChecker;
use crate::manifest::Node;
use crate::manifest::model::Bench;
use crate::spec::Scenario;

impl StageChecker<'_> {
    /// As it is written: a sweep sets its level itself. LoadGen has rules of its own.
    pub(super) fn load_keys(&mut self, bench: &Bench, written: &Node) {
        if bench.stall_timeout.time().is_zero() {
            self.push_error(&["bench", "stall_timeout"], "must be above 0", "every request would fail", None);
        }
        let is_loadgens = matches!(bench.scenario, Scenario::Interactive | Scenario::SingleStream);
        if bench.loadgen.is_some() || is_loadgens {
            return;
        }
        let is_users = bench.scenario == Scenario::Concurrency;
        let has_turns = bench.sessions.is_some() || bench.data.is_some();
        let idle = [
            ("rate", bench.rate.is_some() && bench.search.is_none() && bench.scenario != Scenario::Server, "server"),
            ("concurrency", bench.concurrency.is_some() && !is_users, "concurrency"),
            ("speed", bench.speed.is_some() && bench.scenario != Scenario::Trace, "trace"),
            ("think_time", bench.think_time.is_some() && !is_users && !has_turns, "concurrency"),
        ];
        for (key, _, scenario) in idle.into_iter().filter(|(key, is_idle, _)| *is_idle && is_for_scenario(written, key))
        {
            let why = match key {
                "think_time" => "no user pauses, and there are no turns",
                _ => "another scenario has no such value",
            };
            let hint = Some(format!("remove it, or set `scenario: {scenario}`"));
            self.at_key(&["bench", key], "has no effect", why, hint);
        }
    }
}

/// Whether a key is meant for the scenario of its stage. In the manifest: both are literals of one file; next to an expression, or in
/// another file, it may be there for another scenario. An argument is for this stage alone, so only other tasks of it may read it.
fn is_for_scenario(stage: &Node, key: &str) -> bool {
    let value = |key| Some(&stage.get("bench")?.node.get(key)?.node);
    let (Some(scenario), Some(value)) = (value("scenario"), value(key)) else { return false };
    let is_same = !scenario.has_template();
    if value.span.source().is_argument() {
        return is_same || stage.get("foreach").is_none();
    }
    is_same && !value.has_template() && scenario.span.source().is(value.span.source())
}
