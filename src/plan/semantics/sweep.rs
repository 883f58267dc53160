//! `bench.sweep:` sets one value of its benchmark at each point, so that nothing else may set it.

use super::StageChecker;
use crate::manifest::model::Bench;
use base::spec::{BenchSweep, Length, MOST_USERS, Scenario};

impl StageChecker<'_> {
    pub(super) fn sweep(&mut self, bench: &Bench) {
        let Some(sweep) = &bench.sweep else { return };
        let key = ["bench", "sweep", sweep.key()];
        match sweep.levels().map(|levels| levels.ascending(sweep.is_whole())) {
            Some(Err(error)) => self.push_error(&key, &format!("has no usable levels: {error}"), "here", None),
            Some(Ok(levels))
                if matches!(sweep, BenchSweep::Concurrency(_))
                    && levels.last().is_some_and(|level| *level > f64::from(MOST_USERS)) =>
            {
                self.push_error(
                    &key,
                    &format!("must be at most {MOST_USERS}"),
                    "more users than can be measured",
                    None,
                );
            }
            _ => {}
        }
        if matches!(sweep, BenchSweep::Auto(count) if !(1..=200).contains(count)) {
            self.push_error(&key, "must be from 1 to 200", "the number of rates that are measured", None);
        }
        let scenario = match sweep {
            BenchSweep::Concurrency(_) => Some((Scenario::Concurrency, "concurrency")),
            BenchSweep::Rate(_) | BenchSweep::Auto(_) => Some((Scenario::Server, "server")),
            BenchSweep::InputTokens(_) | BenchSweep::OutputTokens(_) => None,
        };
        if let Some((scenario, name)) = scenario.filter(|(scenario, _)| *scenario != bench.scenario) {
            let hint = Some(format!("`scenario: {}`", if scenario == Scenario::Server { "server" } else { name }));
            self.push_error(&key, &format!("needs the scenario `{name}`"), "another scenario has no such value", hint);
        }
        let is_set = match sweep {
            BenchSweep::Concurrency(_) => bench.concurrency.is_some().then_some("concurrency"),
            BenchSweep::Rate(_) | BenchSweep::Auto(_) => bench.rate.is_some().then_some("rate"),
            BenchSweep::InputTokens(_) => (bench.input_tokens != Length::Given).then_some("input_tokens"),
            BenchSweep::OutputTokens(_) => (bench.output_tokens != Length::Given).then_some("output_tokens"),
        };
        let others = [
            (is_set.is_some(), is_set.unwrap_or_default()),
            (bench.ramp.is_some(), "ramp"),
            (bench.search.is_some(), "search"),
            (bench.loadgen.is_some(), "loadgen"),
        ];
        for (_, other) in others.into_iter().filter(|(is_given, _)| *is_given) {
            let hint = Some(format!("take `{other}` or `sweep` away"));
            self.push_error(&key, &format!("cannot be combined with `{other}`"), "both are given", hint);
        }
    }
}
