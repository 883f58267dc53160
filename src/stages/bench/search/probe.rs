//! One probe of a search: a whole measurement at one rate, with arrivals of its own, kept in `probes/<n>-<rate>` with its margin.

use std::fs;
use std::path::{Path, PathBuf};

use super::output::PROBES;
use crate::bench::measurement::measure;
use crate::bench::resume::Servers;
use crate::bench::saved_run::{before, keep};
use crate::task_context::TaskContext;
use base::event::{Failure, FailureKind, Verdict};
use base::files::read_bytes;
use base::stats::ProbeOutcome;
use harness::{BenchSpec, LimitJudgement, LoadPattern, RateProbe, Reason, ReasonSeverity, RunResult, SearchProbe};
use plan::manifest::model::Telemetry;

/// Beside the result of a probe.
const MARGIN: &str = "margin.json";

/// What all probes of a search share.
pub(super) struct Prober<'a> {
    pub(super) context: &'a TaskContext,
    pub(super) spec: &'a BenchSpec,
    pub(super) watched: Telemetry,
    pub(super) servers: &'a Servers,
}

/// A probe that was judged by the limits of the stage.
pub(super) type LimitProbe = SearchProbe<LimitJudgement>;

/// The warning about it, where the rate was measured twice.
pub(super) fn measured_again(probe: &LimitProbe) -> Option<String> {
    let why = probe.judgement.first_invalid.as_ref()?;
    Some(format!("search: the probe at {} req/s was measured twice, because of the client: {why}", probe.probe.rate))
}

impl Prober<'_> {
    /// Measures at one rate, or reads what an earlier attempt of this stage measured there. `number` counts from 0.
    ///
    /// A probe that is INVALID(client) is measured once more: a stall of a moment is no reason to lose the other probes. A
    /// client that is too slow for the rate is too slow the second time, too, and that ends the search.
    pub(super) async fn probe(&self, rate: f64, number: usize) -> Result<LimitProbe, Failure> {
        // The same arrivals, only faster, would have the same luck in every probe.
        let seed = self.spec.seed.wrapping_add(number as u64);
        let spec = BenchSpec { scenario: LoadPattern::Server { rate: rate.into() }, seed, ..self.spec.clone() };
        let mut folder = Path::new(PROBES).join(format!("{:02}-{rate}", number + 1));
        let label = format!("probe {} at {rate} req/s", number + 1);
        let (mut result, mut margin) = Box::pin(self.measured(&spec, rate, &folder, &label)).await?;
        let mut first_invalid = None;
        if let Some(why) = client_fault(&result) {
            self.context
                .lease
                .notice(format!("{label}: the client was disturbed, and it is measured once more: {why}"));
            first_invalid = Some(why);
            folder = second_folder(&folder);
            (result, margin) = Box::pin(self.measured(&spec, rate, &folder, &format!("{label}, again"))).await?;
        }
        if let Some(why) = client_fault(&result) {
            return Err(client_failure(&format!("{rate} req/s"), &result, why));
        }
        let met = margin.whole < 0.0;
        // Why a probe missed is no warning; all other messages of one that held are.
        let warnings = result.reasons().iter().filter(|reason| met || reason.severity == ReasonSeverity::Warning);
        let judgement =
            LimitJudgement { margin, verdict: result.verdict(), first_invalid, warnings: warnings.cloned().collect() };
        Ok(SearchProbe {
            probe: RateProbe { rate, met },
            judgement,
            ttft_p99_ms: result.latency.ttft.p99,
            tpot_p99_ms: result.latency.tpot.p99,
            output_tokens_per_s: result.rates.output_tokens,
            why: result.reasons().first().map(Reason::line).filter(|_| !met),
            folder,
        })
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
        let measured = Box::pin(measure(self.context, spec, self.watched, label, None)).await?;
        if self.context.lease.stop.is_requested() && self.context.lease.stop.reason().is_none() {
            return Err(Failure::new(FailureKind::Interrupted, "stopped in the middle of a probe"));
        }
        if let Some(lost) = measured.result.server_lost() {
            // No lower rate would meet the limits without a server.
            let what = format!("at {rate} req/s the server failed");
            let kind = FailureKind::Invalid(measured.result.verdict());
            return Err(Failure::new(kind, what).cause(lost.text.clone()));
        }
        let margin = measured.margin(spec, rate);
        keep_margin(path, &margin)?;
        Ok((Box::pin(keep(path, Box::new(measured))).await?, margin))
    }
}

/// Why it is the client that was measured, if it is.
pub(super) fn client_fault(result: &RunResult) -> Option<String> {
    let is_client = result.verdict() == Verdict::InvalidClient;
    is_client.then(|| result.reasons().first().map(Reason::line).unwrap_or_default())
}

/// A client that cannot keep up is no evidence about the server. `rate` is shown with its unit.
pub(super) fn client_failure(rate: &str, result: &RunResult, why: String) -> Failure {
    let what = format!("at {rate} it is the client that is measured, not the server");
    let failure = Failure::new(FailureKind::Invalid(result.verdict()), what).cause(why);
    failure.hint("give the client more cores or connections, or search below this rate")
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
    written
        .map_err(|error| Failure::new(FailureKind::System, format!("`{}` cannot be written: {error}", path.display())))
}
