//! A run between its measurement and its verdict: its numbers, and what else is learned of it meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gpu::{GpuTrace, GpusUsage};
use crate::measure::latency::FULL;
use crate::verdict::set_verdict;
use crate::{
    BenchSpec, HostShare, LoadgenResult, Measured, RequestRecords, RunIdentity, RunResult, ServerIdentity, Versions,
    gpu, preflight,
};
use base::event::ReducedSetting;
use triton::{Scrape, ServerMetrics};

/// A run that has no verdict yet. Everything that is known of it is put in before [`UnjudgedRun::judge`], which is the
/// only way to its result.
#[derive(Debug)]
pub struct UnjudgedRun {
    spec: Arc<BenchSpec>,
    measured: Measured,
    evidence: Evidence,
}

impl UnjudgedRun {
    pub(crate) fn new(spec: Arc<BenchSpec>, measured: Measured) -> Self {
        Self { spec, measured, evidence: Evidence::default() }
    }

    /// What another process measured by this spec and wrote: its requests and its plan are in its files only, and its
    /// own verdict does not count.
    pub fn elsewhere(spec: BenchSpec, result: RunResult, zero: Instant) -> Self {
        Self::new(Arc::new(spec), Measured::from_other_process(result, zero))
    }

    /// By index. Arrivals that were not sent have none.
    pub const fn requests(&self) -> &RequestRecords {
        &self.measured.requests
    }

    /// What all stamps count from.
    pub const fn zero(&self) -> Instant {
        self.measured.zero
    }

    /// From the schedule's start to the end of the last successful request.
    pub fn window(&self) -> Duration {
        Duration::try_from_secs_f64(self.measured.result.rates.window_s).unwrap_or_default()
    }

    pub const fn versions(&self) -> &Versions {
        &self.measured.result.versions
    }

    /// The servers' own metrics, where they were scraped.
    pub const fn scrape(&self) -> Option<&Scrape> {
        self.measured.scrape.as_ref()
    }

    /// Activity of the servers' GPUs, where it was read.
    pub const fn gpu(&self) -> Option<&GpusUsage> {
        self.measured.result.gpu.as_ref()
    }

    /// What each host did, where there are several.
    pub fn hosts_mut(&mut self) -> &mut [HostShare] {
        &mut self.measured.result.hosts
    }

    /// The run was stopped before its end, whether or not a request was cancelled by that.
    pub(crate) const fn stopped(&mut self) {
        self.evidence.was_stopped = true;
    }

    /// Finding of the stage that watches the server: it died or stopped answering during the measurement.
    pub fn server_lost(&mut self, why: impl Into<String>) {
        self.evidence.server_lost = Some(why.into());
    }

    /// What the servers' metrics counted meanwhile, and all that was read of them.
    pub fn server_counted(&mut self, metrics: ServerMetrics, scrape: Scrape) {
        self.measured.result.server_metrics = Some(metrics);
        self.measured.scrape = Some(scrape);
    }

    /// What was read of the servers' GPUs. The window and its tokens come from this run.
    pub fn gpus_read(&mut self, trace: GpuTrace, usage: GpusUsage) {
        let result = &mut self.measured.result;
        let usage = GpusUsage { window: FULL.to_owned(), window_s: result.rates.window_s, ..usage };
        result.gpu = Some(gpu::summarize(&trace, usage, result.rates.output_tokens, &result.tokens.source));
        self.measured.gpu = Some(trace);
    }

    /// What the servers had less of than the manifest sets, because memory ran out with more.
    pub fn lowered(&mut self, lowered: &[ReducedSetting]) {
        self.evidence.lowered = lowered.to_vec();
    }

    /// What LoadGen reported of the run that it drove.
    pub fn loadgen_reported(&mut self, reported: LoadgenResult) {
        self.measured.result.loadgen = Some(reported);
    }

    /// What a trial before it found out about this machine.
    pub fn preflight(&mut self, found: preflight::PreflightResult) {
        self.measured.result.preflight = Some(found);
    }

    /// What was measured. `before` is what the servers reported before the first request, the identity has what they
    /// reported after the last answer.
    pub fn identify(&mut self, before: &[ServerIdentity], identity: RunIdentity) {
        self.evidence.servers_before = before.to_vec();
        self.measured.result.identity = Some(identity);
    }

    /// The result with its verdict.
    pub fn judge(self) -> Measured {
        let Self { spec, mut measured, evidence } = self;
        let reasons = set_verdict(&spec, &measured.result, &evidence);
        measured.result.judged(reasons);
        measured
    }
}

#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The run was stopped before its end.
    pub was_stopped: bool,
    /// Why a server was lost.
    pub server_lost: Option<String>,
    /// What the servers had less of than the manifest sets.
    pub lowered: Vec<ReducedSetting>,
    /// The servers before the first request; after the last answer they are in the result's identity.
    pub servers_before: Vec<ServerIdentity>,
}
