//! The load of a benchmark: which of its keys go together, and numbers that a load cannot have.
//!
//! Keys of `bench` that only some scenarios read: next to a scenario that does not read them they are an error.
//!
//! `bench.sweep:` sets one value of its benchmark at each point, so that nothing else may set it.

use super::bench::{Bench, RateSearch};
use super::{StageChecker, faults};
use crate::manifest::Node;
use base::diag::Diagnostic;
use base::spec::{Arrivals, BenchSweep, GoodputLimit, Length, MOST_USERS, Ramp, Scenario, sets_length};

/// When the requests of a benchmark are sent. What [`Load::parse`] makes has the level that its scenario needs, and one
/// only.
#[derive(Clone, Copy, Debug)]
pub enum Load<'a> {
    /// Requests arrive at a rate, per second.
    Server(LevelSetting<'a>),
    /// Requests arrive at rates that are tried, until the highest is found that keeps the limits.
    Search(&'a RateSearch),
    /// Users take turns.
    Concurrency(LevelSetting<'a>),
    /// All at once.
    Offline,
    /// At the times of a trace.
    Trace { speed: f64 },
    /// When LoadGen issues them, in this scenario.
    LoadGen(Scenario),
}

/// A rate, or a number of users.
#[derive(Clone, Copy, Debug)]
pub enum LevelSetting<'a> {
    Fixed(f64),
    Ramp(&'a Ramp),
}

/// Keys of a benchmark that do not go together, or one that its load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {what}: {label}; {hint}", .key.join("."))]
pub struct LoadFault {
    key: &'static [&'static str],
    place: &'static [&'static str],
    what: &'static str,
    label: &'static str,
    hint: &'static str,
    /// The level that is not given; an expression may have left it empty.
    level: Option<&'static str>,
}

const SCENARIO: &[&str] = &["bench", "scenario"];
const SEARCH: &[&str] = &["bench", "search"];
const RAMP: &[&str] = &["bench", "ramp"];
const ADD_USERS: &str = "add `concurrency: 16`: users";

impl LoadFault {
    const fn new(key: &'static [&'static str], what: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self { key, place: key, what, label, hint, level: None }
    }
}

impl<'a> Load<'a> {
    /// The load of one measurement: of a sweep, each point is one. The one place that knows which keys of a load go
    /// together.
    ///
    /// # Errors
    /// Every fault, with its key.
    pub fn parse(bench: &'a Bench) -> Result<Self, Vec<LoadFault>> {
        if bench.loadgen.is_some() {
            return match bench.scenario {
                Scenario::Trace | Scenario::Concurrency => {
                    let hint = "LoadGen has `offline`, `server`, `interactive`, `single_stream`";
                    Err(vec![LoadFault::new(SCENARIO, "is not one of LoadGen's", "`loadgen` is also given", hint)])
                }
                scenario => Ok(Self::LoadGen(scenario)),
            };
        }
        let mut faults = Vec::new();
        if bench.search.is_some() {
            faults.extend(search_faults(bench));
        }
        let is_of_loadgen = matches!(bench.scenario, Scenario::Interactive | Scenario::SingleStream);
        if bench.ramp.is_some() && (bench.rate.is_some() || bench.concurrency.is_some()) && !is_of_loadgen {
            let message = "replaces `rate` or `concurrency`";
            faults.push(LoadFault::new(RAMP, message, "both are given", "remove one of them"));
        }
        let level = |fixed: Option<f64>| {
            let ramp = bench.ramp.as_ref().map(LevelSetting::Ramp);
            ramp.or(fixed.map(LevelSetting::Fixed))
        };
        let load = match bench.scenario {
            Scenario::Offline => Ok(Self::Offline),
            Scenario::Trace if bench.data.is_some() => Ok(Self::Trace { speed: bench.speed.unwrap_or(1.0) }),
            Scenario::Trace => {
                let hint = "`data: { mooncake: trace.jsonl }`, or `jsonl` with `timestamp`";
                Err(LoadFault::new(SCENARIO, "needs `data` with time stamps", "a trace of what?", hint))
            }
            Scenario::Server => {
                bench.search.as_ref().map(Self::Search).or(level(bench.rate).map(Self::Server)).ok_or(LoadFault {
                    key: &["bench"],
                    place: SCENARIO,
                    what: "needs a `rate`",
                    label: "here requests arrive at a rate",
                    hint: "add `rate: 10`: requests per second. Other loads: `concurrency: 16`, `scenario: offline`",
                    level: Some("rate"),
                })
            }
            Scenario::Concurrency => level(bench.concurrency.map(f64::from)).map(Self::Concurrency).ok_or(LoadFault {
                level: Some("concurrency"),
                ..LoadFault::new(SCENARIO, "needs `concurrency`", "here users take turns", ADD_USERS)
            }),
            Scenario::Interactive | Scenario::SingleStream => {
                let hint = "add `loadgen`, or choose `server`";
                let label = "without `loadgen`";
                Err(LoadFault::new(SCENARIO, "is a scenario of LoadGen's", label, hint))
            }
        };
        match load {
            Ok(load) if faults.is_empty() => Ok(load),
            Ok(_) => Err(faults),
            Err(fault) => Err(faults.into_iter().chain([fault]).collect()),
        }
    }
}

/// A search decides the rate itself, by the limits.
fn search_faults(bench: &Bench) -> impl Iterator<Item = LoadFault> {
    let limits = bench.limits.as_ref();
    let has_limits = limits.is_some_and(|limits| limits.latencies().next().is_some() || limits.goodput.is_some());
    let faults = [
        (bench.scenario != Scenario::Server).then_some((
            "needs the scenario `server`",
            "only there requests arrive at a rate",
            "`scenario: server`",
        )),
        bench.rate.map(|_| ("cannot be combined with `rate`", "it finds the rate", "remove `rate`")),
        (!has_limits).then_some((
            "needs `limits`",
            "without a limit every rate is good enough",
            "add `limits: { ttft_p99: 2s, tpot_p99: 200ms }`",
        )),
    ];
    faults.into_iter().flatten().map(|(what, label, hint)| LoadFault::new(SEARCH, what, label, hint))
}

impl StageChecker<'_> {
    /// Reports each fault of the load at its key.
    pub(super) fn load(&mut self, bench: &Bench) {
        for fault in Load::parse(bench).err().unwrap_or_default() {
            if fault.level.is_some_and(|level| self.is_none(level)) {
                continue;
            }
            let place = self.node.place(fault.place);
            let message = format!("{} {}", self.key_name(fault.key), fault.what);
            self.found.push(Diagnostic::error(message).at(place, fault.label).hint(fault.hint));
        }
    }

    /// The numbers of a search, and the keys of its start.
    pub(super) fn search(&mut self, bench: &Bench) {
        let Some(search) = &bench.search else { return };
        let least = bench.limits.as_ref().and_then(|limits| limits.goodput);
        let starts_from = search.start_from.is_some();
        faults! { self;
            ["bench", "limits", "goodput"],
                bench.loadgen.is_none() && matches!(least, Some(GoodputLimit::PerSecond(_))),
                "must be a share with `search`", "no rate below that many requests per second can have as much goodput",
                "as a share of the requests: `goodput: 95%`";
            ["bench", "search", "low"], !(search.low > 0.0 && search.low < search.high && search.high.is_finite()),
                "must be above 0 and below `high`", "requests per second";
            ["bench", "search", "start"],
                search.start.is_some_and(|start| !(search.low..=search.high).contains(&start)),
                "must be between `low` and `high`", "requests per second";
            ["bench", "search", "start_from"], starts_from && search.start.is_some(),
                "cannot be combined with `start`", "both set the first rate", "remove one of them";
            ["bench", "search", "start_from"], starts_from && bench.loadgen.is_some(),
                "cannot be combined with `loadgen`", "LoadGen's tests are tried from `low` on",
                "remove it, or raise `low`";
            ["bench", "search", "precision"], !(search.precision > 0.0 && search.precision < 1.0),
                "must be between 0 and 1", "a share: 0.02 is 2 %";
        }
    }

    /// Reports a level of the load that is there, with an expression that gives none.
    fn is_none(&mut self, key: &str) -> bool {
        let Some(entry) = self.written.get("bench").and_then(|bench| bench.node.get(key)) else { return false };
        let message = format!("{} is `none` here", self.key_name(&["bench", key]));
        let hint = "a key whose expression is `none` counts as not given".to_owned();
        self.found
            .push(Diagnostic::error(message).at(entry.node.span.first_line(), "this scenario needs it").hint(hint));
        true
    }

    /// Arrivals, and where the prompts come from.
    pub(super) fn content(&mut self, bench: &Bench) {
        if let Arrivals::Gamma { cv } = bench.arrivals
            && !(cv > 0.0 && cv <= 100.0)
        {
            self.fault(&["bench", "arrivals", "gamma", "cv"], "must be above 0 and at most 100", "1 is Poisson");
        }
        let Some(data) = &bench.data else {
            for (key, length) in [("input_tokens", &bench.input_tokens), ("output_tokens", &bench.output_tokens)] {
                if *length == Length::Given {
                    self.fault(&["bench"], &format!("needs `{key}`"), "required without `data`")
                        .hint(format!("`{key}: {{ fixed: 128 }}`, or `data` with lengths"));
                }
            }
            return;
        };
        let prompts = data.files().filter(|(key, _)| !matches!(*key, "lengths" | "output_lengths")).count();
        if prompts != 1 {
            self.fault(&["bench", "data"], "needs exactly one file of prompts", &format!("it has {prompts}"))
                .hint("one of `jsonl`, `sharegpt`, `mooncake`, `input_ids`, `plan`");
        }
    }

    /// Runs are repeated where one measurement is one run.
    pub(super) fn repeat(&mut self, bench: &Bench) {
        let is_repeated = bench.repeat > 1;
        faults! { self;
            ["bench", "repeat"], is_repeated && bench.search.is_some(), "cannot be combined with `search`",
                "a search has several runs of its own", "remove `repeat`";
            ["bench", "repeat"], is_repeated && bench.loadgen.is_some(), "cannot be combined with `loadgen`",
                "MLPerf's rules set how often a test is run", "remove `repeat`";
        }
    }

    pub(super) fn length(&mut self, key: &str, length: &Length) {
        match length {
            Length::Empirical(values)
                if values
                    .iter()
                    .any(|value| value.tokens == 0 || !(value.weight >= 0.0 && value.weight.is_finite()))
                    || values.iter().map(|value| value.weight).sum::<f64>() <= 0.0 =>
            {
                self.fault(&["bench", key, "empirical"], "needs lengths of at least 1 with weights", "")
                    .hint("for example `[{ tokens: 128, weight: 3 }, { tokens: 2048, weight: 1 }]`");
            }
            Length::Lognormal { mean, stddev, min, max }
                if !(*mean > 0.0 && *stddev >= 0.0 && min <= max && *min > 0) =>
            {
                let message = "needs a mean above 0, a stddev not below, and `min` not above `max`";
                self.fault(&["bench", key, "lognormal"], message, "");
            }
            Length::Fixed(0) => {
                self.fault(&["bench", key, "fixed"], "must be at least 1", "no tokens");
            }
            Length::Uniform { min, max } | Length::Normal { min, max, .. } if min > max => {
                let kind = if matches!(length, Length::Uniform { .. }) { "uniform" } else { "normal" };
                let label = format!("{min} is greater than {max}");
                self.fault(&["bench", key, kind, "min"], "must not be greater than `max`", &label);
            }
            Length::Normal { mean, stddev, .. } if *stddev < 0.0 || !mean.is_finite() || !stddev.is_finite() => {
                self.fault(&["bench", key, "normal", "stddev"], "must not be negative", "");
            }
            _ => {
                if let Some(fault) = length.fault() {
                    self.fault(&["bench", key], fault, "");
                }
            }
        }
    }

    /// As it is written: a sweep sets its level itself. LoadGen has rules of its own.
    pub(super) fn load_keys(&mut self, bench: &Bench, written: &Node) {
        self.time_fault(&["bench", "stall_timeout"], Some(bench.stall_timeout.time()), "every request would fail");
        faults! { self;
            ["bench", "ready_timeout"], bench.ready_timeout.as_ref().is_some_and(|limit| limit.time().is_zero()),
                "must be above 0", "nothing is waited for", "remove it: a server has to be ready then";
        }
        let is_loadgens = matches!(bench.scenario, Scenario::Interactive | Scenario::SingleStream);
        if bench.loadgen.is_some() || is_loadgens {
            return;
        }
        let is_users = bench.scenario == Scenario::Concurrency;
        let has_arrivals = self.node.entry(&["bench", "arrivals"]).is_some();
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
            let reason = match key {
                "think_time" => "without turns, users do not pause",
                "arrivals" => "only there requests arrive at a rate",
                _ => "another scenario has no such value",
            };
            self.key_fault(&["bench", key], "has no effect", reason)
                .hint(format!("remove it, or set `scenario: {scenario}`"));
        }
        self.beyond_length(bench, written);
    }

    /// An answer that ends before the tokens have come is never cancelled; servers refuse a minimum above the maximum.
    fn beyond_length(&mut self, bench: &Bench, written: &Node) {
        let (request, extra, longest) = (&bench.request, &bench.extra, bench.output_tokens.longest());
        let is_swept = matches!(bench.sweep, Some(BenchSweep::OutputTokens(_)));
        // With these a server may answer with more.
        let is_open = bench.output_tokens.is_given() || is_swept || sets_length(extra) || extra.contains_key("n");
        if is_open || !are_written_together(written, "output_tokens", "request") {
            return;
        }
        let tokens = longest.saturating_mul(request.sequences()).saturating_mul(request.batch.unwrap_or(1));
        let mut beyond = |key: &[&str], problem: &str, tokens: u32| {
            let label = format!("no request has more than {tokens} tokens in its answer");
            self.fault(key, problem, &label).hint("lower it, or raise `output_tokens`");
        };
        if request.cancel.as_ref().is_some_and(|cancel| cancel.after_tokens > tokens) {
            beyond(&["bench", "request", "cancel", "after_tokens"], "has no effect", tokens);
        }
        if request.min_length.is_some_and(|least| i64::from(least) > i64::from(longest)) {
            beyond(&["bench", "request", "min_length"], "is more than `output_tokens`", longest);
        }
    }

    pub(super) fn sweep(&mut self, bench: &Bench) {
        let Some(sweep) = &bench.sweep else { return };
        let key = ["bench", "sweep", sweep.key()];
        match sweep.levels().map(|levels| levels.ascending(sweep.is_whole())) {
            Some(Err(error)) => {
                self.fault(&key, &format!("has no usable levels: {error}"), "here");
            }
            Some(Ok(levels))
                if matches!(sweep, BenchSweep::Concurrency(_))
                    && levels.last().is_some_and(|level| *level > f64::from(MOST_USERS)) =>
            {
                self.fault(&key, &format!("must be at most {MOST_USERS}"), "more users than can be measured");
            }
            _ => {}
        }
        if matches!(sweep, BenchSweep::Auto(count) if !(1..=200).contains(count)) {
            self.fault(&key, "must be from 1 to 200", "the number of rates that are measured");
        }
        let scenario = match sweep {
            BenchSweep::Concurrency(_) => Some((Scenario::Concurrency, "concurrency")),
            BenchSweep::Rate(_) | BenchSweep::Auto(_) => Some((Scenario::Server, "server")),
            BenchSweep::InputTokens(_) | BenchSweep::OutputTokens(_) => None,
        };
        if let Some((_, name)) = scenario.filter(|(scenario, _)| *scenario != bench.scenario) {
            self.fault(&key, &format!("needs the scenario `{name}`"), "another scenario has no such value")
                .hint(format!("`scenario: {name}`"));
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
            self.fault(&key, &format!("cannot be combined with `{other}`"), "both are given")
                .hint(format!("remove `{other}` or `sweep`"));
        }
    }
}

/// Whether a key is meant for the scenario of its stage: they are written together. An argument is for this stage
/// alone, so only other tasks of it may read it.
fn is_for_scenario(stage: &Node, key: &str) -> bool {
    let value = |key| Some(&stage.get("bench")?.node.get(key)?.node);
    let Some(given) = value(key) else { return false };
    // Without a scenario a level decides which it is.
    let Some(scenario) = value("scenario") else { return true };
    if given.span.source().is_argument() {
        return !scenario.has_template() || stage.get("foreach").is_none();
    }
    are_written_together(stage, "scenario", key)
}

/// Whether two keys of a `bench` are meant for each other: both are literals of one file. Next to an expression, or in
/// another file or a setting, one may be there for another scenario or protocol.
pub(super) fn are_written_together(stage: &Node, one: &str, other: &str) -> bool {
    let literal = |key| {
        let entry = stage.get("bench")?.node.get(key)?;
        (!entry.node.has_template()).then_some(entry.node.span.source())
    };
    literal(one).zip(literal(other)).is_some_and(|(one, other)| one.is(other))
}
