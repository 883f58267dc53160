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
        let is_meant = |key: &str| are_written_together(written, "scenario", key);
        for (key, _, scenario) in idle.into_iter().filter(|(key, is_idle, _)| *is_idle && is_meant(key)) {
            let why = match key {
                "think_time" => "no user pauses, and there are no turns",
                _ => "another scenario has no such value",
            };
            let hint = Some(format!("remove it, or set `scenario: {scenario}`"));
            self.at_key(&["bench", key], "has no effect", why, hint);
        }
    }
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
