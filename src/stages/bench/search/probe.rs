//! One probe of a search: a whole measurement at one rate, with arrivals of its own, kept in `probes/<n>-<rate>` with
//! its margin. With `search.start_from` the first probe is at the rate that an earlier search found, if that was for
//! the same model and limits; its probes do not count, since the server may have changed.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{FILE, PROBES, with_identity};
use crate::bench::measurement::{MeasurementPlace, is_only_noticed, measure};
use crate::bench::resume::{Servers, before, copy, keep};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::files::{Digest, read_bytes, read_bytes_up_to};
use base::spec::GoodputLimit;
use base::stats::{ProbeOutcome, RateSearcher};
use harness::{
    BenchSpec, EarlierSearch, LimitJudgement, LimitSearch, LoadPattern, RateProbe, Reason, ReasonSeverity, RunResult,
    SearchGoal, SearchProbe, SearchReport, SearchRules,
};
use plan::manifest::model::Bench;
use runner::store::WithPath as _;

/// Beside the result of a probe.
const MARGIN: &str = "margin.json";

/// What all probes of a search share.
pub(super) struct Prober<'a> {
    pub(super) context: &'a TaskContext,
    pub(super) spec: &'a BenchSpec,
    pub(super) bench: &'a Bench,
    pub(super) servers: &'a Servers,
}

/// A probe that was judged by the limits of the stage.
pub(super) type LimitProbe = SearchProbe<LimitJudgement>;

/// The warning about it, where the rate was measured twice.
pub(super) fn measured_again(probe: &LimitProbe) -> Option<String> {
    let reason = probe.judgement.first_invalid.as_ref()?;
    Some(format!(
        "search: the probe at {} req/s was measured twice, because the client was too slow: {reason}",
        probe.probe.rate
    ))
}

impl Prober<'_> {
    /// Measures at one rate, or reads what an earlier attempt of this stage measured there. `number` counts from 0.
    ///
    /// A probe that is INVALID(client) is measured once more: a brief stall should not cost the other probes. A client
    /// that is too slow for the rate is too slow the second time, too, and that ends the search.
    pub(super) async fn probe(&self, rate: f64, number: usize) -> Result<ControlFlow<Done, LimitProbe>, Failure> {
        // The same arrivals, only faster, would have the same luck in every probe.
        let seed = self.spec.seed.wrapping_add(number as u64);
        let spec = BenchSpec { scenario: LoadPattern::Server { rate: rate.into() }, seed, ..self.spec.clone() };
        let mut folder = Path::new(PROBES).join(format!("{:02}-{rate}", number + 1));
        let label = format!("probe {} at {rate} req/s", number + 1);
        let (mut result, mut margin) = Box::pin(self.measured(&spec, rate, &folder, &label)).await?;
        let mut first_invalid = None;
        if let Some(why) = client_fault(&result) {
            self.context.lease.notice(format!("{label}: the client was disturbed; measuring again: {why}"));
            first_invalid = Some(why);
            folder = second_folder(&folder);
            (result, margin) = Box::pin(self.measured(&spec, rate, &folder, &format!("{label}, again"))).await?;
        }
        if client_fault(&result).is_some() {
            return client_end(self.context, self.bench, (&format!("{rate} req/s"), &folder), &result).await;
        }
        let met = margin.whole < 0.0;
        // The reason for a miss is not a warning; all messages of a probe that held are.
        let warnings = result.reasons().iter().filter(|reason| met || reason.severity == ReasonSeverity::Warning);
        let judgement =
            LimitJudgement { margin, verdict: result.verdict(), first_invalid, warnings: warnings.cloned().collect() };
        Ok(ControlFlow::Continue(SearchProbe {
            probe: RateProbe { rate, met },
            judgement,
            ttft_p99_ms: result.latency.ttft.p99,
            tpot_p99_ms: result.latency.tpot.p99,
            output_tokens_per_s: result.rates.output_tokens,
            why: result.reasons().first().map(Reason::line).filter(|_| !met),
            folder,
        }))
    }

    async fn measured(
        &self,
        spec: &BenchSpec,
        rate: f64,
        folder: &Path,
        label: &str,
    ) -> Result<(RunResult, ProbeOutcome), Failure> {
        let path = &self.context.lease.out.join(folder);
        if let Some(earlier) = Box::pin(probe_before(path, spec, self.servers)).await {
            return Ok(earlier);
        }
        let measured = Box::pin(measure(
            self.context,
            spec,
            self.bench.telemetry,
            MeasurementPlace { name: label, later: None },
            None,
        ))
        .await?;
        self.context.check_not_stopped("stopped in the middle of a probe")?;
        require_server(&measured.result, &format!("{rate} req/s"))?;
        let margin = measured.margin(spec, rate);
        keep_margin(path, &margin)?;
        Ok((Box::pin(keep(path, Box::new(measured))).await?, margin))
    }
}

/// No lower rate would meet the limits without a server. `rate` is shown with its unit.
pub(super) fn require_server(result: &RunResult, rate: &str) -> Result<(), Failure> {
    let Some(lost) = result.server_lost() else { return Ok(()) };
    let failure = Failure::new(FailureKind::Invalid(result.verdict()), format!("at {rate} the server failed"));
    Err(failure.cause(lost.text.clone()))
}

/// Why it is the client that was measured, if it is.
pub(super) fn client_fault(result: &RunResult) -> Option<String> {
    let is_client = result.verdict() == Verdict::InvalidClient;
    is_client.then(|| result.reasons().first().map(Reason::line).unwrap_or_default())
}

/// A client that cannot keep up says nothing about the server, and ends the search: as a failure, or, where `when_busy`
/// makes a notice of it, with the files of the probe in place of a rate. `rate` is shown with its unit.
pub(super) async fn client_end<P>(
    context: &TaskContext,
    bench: &Bench,
    (rate, folder): (&str, &Path),
    result: &RunResult,
) -> Result<ControlFlow<Done, P>, Failure> {
    let why = client_fault(result).unwrap_or_default();
    let message = format!("at {rate} it is the client that is measured, not the server");
    if is_only_noticed(bench, result.verdict(), result.reasons()) {
        copy(&context.lease.out.join(folder), &context.lease.out, true).await?;
        return Ok(ControlFlow::Break(Done { warnings: vec![why], ..with_identity(&context.lease.out, &message) }));
    }
    let failure = Failure::new(FailureKind::Invalid(result.verdict()), message).cause(why);
    Err(failure.hint("give the client more cores or connections, or search below this rate"))
}

/// Where the second measurement of a probe is, beside the first, which does not count.
pub(super) fn second_folder(folder: &Path) -> PathBuf {
    let mut second = folder.as_os_str().to_owned();
    second.push("-again");
    PathBuf::from(second)
}

/// What `before` finds, with its margin.
async fn probe_before(path: &Path, spec: &BenchSpec, servers: &Servers) -> Option<(RunResult, ProbeOutcome)> {
    let margin = serde_json::from_slice(&read_bytes(path.join(MARGIN)).ok()?).ok()?;
    Some((Box::pin(before(path, spec, servers)).await?, margin))
}

fn keep_margin(path: &Path, margin: &ProbeOutcome) -> Result<(), Failure> {
    let bytes = serde_json::to_vec_pretty(margin).unwrap_or_default();
    let written = fs::create_dir_all(path).and_then(|()| fs::write(path.join(MARGIN), bytes));
    Ok(written.at("write", &path.join(MARGIN))?)
}

/// The earlier search that a search begins from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StartPoint(pub(super) EarlierSearch);

const USE: &str = "`start_from` is the `search.json` of a finished search, or the folder that has it";

/// Bytes of the largest `search.json` that is read; twelve probes take some tens of kB.
const LARGEST: u64 = 16 << 20;

/// What a search with this load is for.
pub(super) fn goal_of(spec: &BenchSpec) -> SearchGoal {
    let mut limits = limits(spec);
    if spec.limits.goodput.is_some() {
        let slo_limits = [("TTFT", spec.slo.ttft_ms), ("TPOT", spec.slo.tpot_ms), ("E2E", spec.slo.e2e_ms)];
        let slo_limits = slo_limits.into_iter().filter_map(|(name, ms)| Some((name, ms?)));
        limits.extend(slo_limits.map(|(name, ms)| format!("slo {name} ≤ {}", duration(ms))));
    }
    limits.extend(spec.limits.failure_budget().map(|share| format!("failures ≤ {} %", share * 100.0)));
    limits.sort();
    SearchGoal { model: spec.model.clone(), limits }
}

/// How the goal of an earlier search differs, if it does.
fn difference(goal: &SearchGoal, earlier: &SearchGoal) -> Option<String> {
    if goal.model != earlier.model {
        return Some(format!("its model is `{}`, this one's is `{}`", earlier.model, goal.model));
    }
    let list = |goal: &SearchGoal| goal.limits.join(", ");
    (goal.limits != earlier.limits)
        .then(|| format!("its limits are {}, this search's are {}", list(earlier), list(goal)))
}

impl StartPoint {
    /// `given` is relative to `project`.
    pub(super) fn read(given: &str, project: &Path, goal: &SearchGoal) -> Result<Self, Failure> {
        let refused = |what: String, hint: &str| Failure::refused(what).hint(hint);
        let path = project.join(given);
        let (path, shown) = if path.is_dir() {
            (path.join(FILE), format!("{}/{}", given.trim_end_matches('/'), FILE))
        } else {
            (path, given.to_owned())
        };
        let bytes = read_bytes_up_to(&path, LARGEST)
            .map_err(|error| refused(format!("cannot read `{shown}`: {error}"), USE))?;
        let no_search = || refused(format!("`{shown}` is not a result of a search"), USE);
        let report: SearchReport =
            serde_json::from_slice(&bytes).map_err(|error| no_search().cause(error.to_string()))?;
        let SearchRules::Limits(LimitSearch { goal: earlier_goal, estimate, .. }) = report.rules else {
            let message = format!("`{shown}` searched by LoadGen's rules; this search uses the stage's limits");
            return Err(refused(message, "`start: RATE` begins at a known rate"));
        };
        let earlier =
            EarlierSearch { path: given.to_owned(), digest: Digest::hash(&bytes), found: report.found, estimate };
        if earlier.rate() <= 0.0 {
            return Err(no_search());
        }
        let Some(earlier_goal) = earlier_goal else {
            let problem = format!("`{shown}` does not name its model and limits");
            return Err(refused(problem, &format!("`start: {:.4}` begins at its rate", earlier.rate())));
        };
        if let Some(difference) = difference(goal, &earlier_goal) {
            let problem = format!("`{shown}` is a search for something else: {difference}");
            return Err(refused(problem, "remove `start_from`, or name a search with the same model and limits"));
        }
        Ok(Self(earlier))
    }

    /// The search with its first rates from here.
    pub(super) fn begin(&self, search: RateSearcher) -> RateSearcher {
        match &self.0.estimate {
            Some(estimate) => search.near(estimate),
            // The rate is above the highest that held, and how far is not known.
            None => RateSearcher { start: self.0.found.at_least.clamp(search.low, search.high), ..search },
        }
    }

    pub(super) fn notice(&self) -> String {
        let interval = self.0.found;
        let rate = match (&self.0.estimate, interval.below) {
            (Some(estimate), _) => format!("{:.1}", estimate.rate),
            (None, Some(_)) => interval.at_least.to_string(),
            (None, None) => format!("{} or more", interval.at_least),
        };
        format!("the first probes are near {rate} req/s, which {} found; its probes are not reused", self.0.path)
    }
}

/// Limits of latency and goodput as they are shown.
pub(super) fn limits(spec: &BenchSpec) -> Vec<String> {
    let latencies = spec.limits.latencies().map(|limit| format!("{} ≤ {}", limit.name(), duration(limit.ms)));
    let goodput = spec.limits.goodput.map(|goodput| match goodput {
        GoodputLimit::Share(percent) => format!("goodput ≥ {} %", percent.share() * 100.0),
        GoodputLimit::PerSecond(rate) => format!("goodput ≥ {rate}/s"),
    });
    latencies.chain(goodput).collect()
}

fn duration(ms: f64) -> String {
    format!("{:?}", Duration::from_secs_f64(ms / 1e3))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn goal(model: &str, limit: &str) -> SearchGoal {
        SearchGoal { model: model.to_owned(), limits: vec![limit.to_owned()] }
    }

    fn read(content: &Value) -> Result<StartPoint, Failure> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("search.json"), content.to_string()).unwrap();
        StartPoint::read(".", folder.path(), &goal("tiny", "TTFT p99 ≤ 400ms"))
    }

    fn search(model: &str, limit: &str) -> Value {
        json!({
            "model": model, "limits": [limit],
            "found": { "at_least": 110.0, "below": 121.0 },
            "estimate": { "rate": 115.2, "low": 110.0, "high": 121.0, "probes": 6, "slope": 8.0 },
        })
    }

    #[test]
    fn a_search_begins_around_the_rate_of_an_earlier_one() {
        let cold = RateSearcher { low: 10.0, high: 160.0, start: 10.0, second: None, precision: 0.02, most: 11 };
        let warm = read(&search("tiny", "TTFT p99 ≤ 400ms")).unwrap().begin(cold);
        assert!(warm.start < 115.2 && warm.second.is_some_and(|second| second > 115.2), "{warm:?}");
        let mut held = search("tiny", "TTFT p99 ≤ 400ms");
        held["estimate"] = Value::Null;
        let warm = read(&held).unwrap().begin(cold);
        assert_eq!((warm.start, warm.second), (110.0, None));
    }

    #[test]
    fn a_file_that_is_no_search_for_the_same_is_refused() {
        let error = |content: &Value| read(content).unwrap_err().what;
        assert!(error(&search("other", "TTFT p99 ≤ 400ms")).contains("its model is `other`, this one's is `tiny`"));
        let limits = error(&search("tiny", "TTFT p99 ≤ 1s"));
        assert!(limits.contains("its limits are TTFT p99 ≤ 1s, this search's are TTFT p99 ≤ 400ms"), "{limits}");
        assert!(error(&json!({ "verdict": "valid" })).contains("`./search.json` is not a result of a search"));
        let mut loadgen = search("tiny", "TTFT p99 ≤ 400ms");
        loadgen["judge"] = json!("loadgen");
        assert!(error(&loadgen).contains("LoadGen's rules"));
        let mut old = search("tiny", "TTFT p99 ≤ 400ms");
        old.as_object_mut().unwrap().remove("model");
        assert!(error(&old).contains("does not name its model"));
    }
}
