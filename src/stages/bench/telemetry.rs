//! What is watched beside a measurement: the GPUs, by `nvidia-smi` where the servers are on this host, else by the
//! servers' own `/metrics`; and these metrics themselves.
//!
//! It explains a measurement and never decides one: whatever goes wrong here is a notice. nvidia-smi runs in the
//! task's own environment and process groups, so it ends with the task, however that ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use super::identity;
use super::measurement::failure;
use super::preflight::Sidecar;
use crate::task_context::{TaskContext, ended};
use base::diag::ErrorText;
use base::event::{Endpoint, Failure, GpuId};
use exec::process::{ExitKind, SpawnError};
use harness::gpu::{self, GpuDevice, GpuTrace, GpusUsage, NvidiaSmi, SmiError};
use harness::{Api, BenchSpec, SentHeaders, ServerIdentity, Transport, UnjudgedRun, host_of};
use plan::manifest::model::Telemetry as Wanted;
use triton::{HttpAddress, HttpClient, Scraper, ServerMetrics, is_own_address, summarize, summarize_part};

/// The driver's own power is a mean over a second on most boards; twice as often loses nothing of it.
const EVERY: Duration = Duration::from_millis(500);
/// A failing GPU can block nvidia-smi.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// From its start to its first line, and for a last one after the end.
const FIRST: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(5);
/// How often the file is looked at while a line is waited for.
const LOOK: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_secs(2);
/// signal(7)
const SIGTERM: i32 = 15;
/// Beyond this the two clocks diverged: the wall clock was set.
const APART: f64 = 0.1;

/// All that is watched beside a measurement.
pub struct Observers<'a> {
    context: &'a TaskContext,
    spec: &'a BenchSpec,
    wanted: Wanted,
    /// As the servers described themselves before the first request.
    before: Vec<ServerIdentity>,
    sampler: Option<TelemetrySampler>,
    polled: Vec<Endpoint>,
    scraper: Option<Scraper>,
}

impl<'a> Observers<'a> {
    /// Starts them. `before`: as the servers describe themselves.
    pub async fn start(
        context: &'a TaskContext,
        spec: &'a BenchSpec,
        before: Vec<ServerIdentity>,
        wanted: Wanted,
    ) -> Result<Self, Failure> {
        let sampler = Box::pin(start(context, spec, &before, wanted)).await;
        let polled = polled(context, spec, &before);
        let scraper = start_scraper(spec, &polled)?;
        Ok(Self { context, spec, wanted, before, sampler, polled, scraper })
    }

    /// How many GPUs the servers have, if the watched GPUs are the servers'.
    pub fn gpus_of_servers(&self) -> Option<u32> {
        let sampler = self.sampler.as_ref()?;
        let count = sampler.gpus.len();
        gpu::are_of_servers(&sampler.population, count as u64).then_some(count as u32)
    }

    /// Ends them; what they saw becomes part of the measurement, with what else is known of it: why its servers were
    /// `lost`, and who they are.
    pub async fn finish(self, measured: &mut UnjudgedRun, lost: Option<String>) {
        if let Some(scraper) = self.scraper {
            finish(scraper, &self.polled, measured).await;
        }
        if let Some(sampler) = self.sampler {
            sampler.finish(self.context, measured).await;
        }
        of_servers(self.wanted, measured);
        if let Some(why) = lost {
            measured.server_lost(why);
        }
        measured.lowered(&self.context.lease.assignment.lowered);
        identity::identify(self.context, self.spec, &self.before, measured).await;
    }
}

/// An nvidia-smi that runs. Dropping it ends it.
struct TelemetrySampler {
    sampler: Sidecar,
    smi: NvidiaSmi,
    gpus: Vec<GpuDevice>,
    population: String,
    /// The same moment on both clocks.
    anchor: (Instant, Timestamp),
    cuda: Option<String>,
    notes: Vec<String>,
}

impl TelemetrySampler {
    /// Waits until this many lines have come, as long as they can.
    async fn lines(&mut self, context: &TaskContext, count: usize, limit: Duration) {
        let enough = async {
            // A file that cannot be read is reported when all of it is.
            while self.sampler.count_lines().unwrap_or_default() < count {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = enough => {}
            () = sleep(limit) => {}
            () = context.lease.stop.requested() => {}
        }
    }

    /// How it ended, if it did so by itself.
    async fn ended_early(&mut self) -> Option<ExitKind> {
        tokio::select! {
            biased;
            how = self.sampler.ended() => Some(how),
            // Once round the reactor, so that an end that is there is seen.
            () = sleep(LOOK) => None,
        }
    }

    /// Ends it; all readings are written beside the measurement, and their summary into the result.
    async fn finish(mut self, context: &TaskContext, measured: &mut UnjudgedRun) {
        let seconds = self.sampler.seconds();
        let mut early = self.ended_early().await;
        if early.is_none() {
            // One line of each that is later than the end, so that the end lies between two.
            let before = self.sampler.count_lines().unwrap_or_default();
            self.lines(context, before + self.gpus.len(), LAST).await;
        }
        let apart =
            self.anchor.1.duration_until(Timestamp::now()).as_secs_f64() - self.anchor.0.elapsed().as_secs_f64();
        let how = self.sampler.stop(context, GRACE).await;
        early = early.or_else(|| is_its_own(how).then_some(how));
        let (trace, malformed) = match self.sampler.written() {
            Ok(text) => self.read(&text, measured.zero()),
            Err(error) => {
                self.notes.push(format!("cannot read the output of nvidia-smi: {error}"));
                (GpuTrace { gpus: self.gpus.clone(), readings: Vec::new() }, Vec::new())
            }
        };
        if let Some(how) = early {
            let how = ended(how);
            let text = malformed.last().map_or_else(String::new, |line| format!(": {line}"));
            self.notes.push(format!("nvidia-smi ended before the measurement did, within {seconds:.1} s, {how}{text}"));
        }
        if apart.abs() > APART {
            self.notes.push(format!(
                "the wall clock was set by {apart:.1} s meanwhile: times of readings are off by as much"
            ));
        }
        for note in &self.notes {
            context.lease.notice(format!("GPU telemetry: {note}"));
        }
        let usage = GpusUsage {
            source: "nvidia-smi".to_owned(),
            population: std::mem::take(&mut self.population),
            interval_s: EVERY.as_secs_f64(),
            malformed: malformed.len() as u64,
            first_malformed: malformed.into_iter().next(),
            cuda: self.cuda.take(),
            notes: std::mem::take(&mut self.notes),
            ..GpusUsage::default()
        };
        measured.gpus_read(trace, usage);
    }

    fn read(&self, text: &str, zero: Instant) -> (GpuTrace, Vec<String>) {
        let since_anchor = zero.duration_since(self.anchor.0).as_secs_f64();
        let mut trace = GpuTrace { gpus: self.gpus.clone(), readings: Vec::new() };
        let mut malformed = Vec::new();
        for line in text.split_inclusive('\n').filter(|line| !line.trim().is_empty()) {
            let answer = self.smi.answer(line.trim_end());
            let gpu = answer.as_ref().and_then(|a| self.gpus.iter().position(|gpu| gpu.index == Some(a.index)));
            match (answer, gpu) {
                (Some(answer), Some(gpu)) => {
                    let at_s = self.anchor.1.duration_until(answer.at).as_secs_f64() - since_anchor;
                    trace.readings.push(gpu::GpuReading { at_s, gpu, ..answer.reading });
                }
                // Our own stop may have cut the last line.
                _ if !line.ends_with('\n') => {}
                _ => malformed.push(line.trim().chars().take(160).collect()),
            }
        }
        (trace, malformed)
    }
}

/// Starts it where there is something to watch, and waits for its first line. `servers`: as they describe themselves.
async fn start(
    context: &TaskContext,
    spec: &BenchSpec,
    servers: &[ServerIdentity],
    wanted: Wanted,
) -> Option<TelemetrySampler> {
    let is_asked = match wanted {
        Wanted::Auto => false,
        Wanted::NvidiaSmi => true,
        Wanted::Off | Wanted::Metrics => return None,
    };
    let gone = |why: &str| {
        if is_asked {
            context.lease.notice(format!("no GPU telemetry: {why}"));
        }
        None::<TelemetrySampler>
    };
    if !context.command(vec!["nvidia-smi".into()]).is_found() {
        return gone("`nvidia-smi` is not in PATH");
    }
    if !all_here(&spec.endpoints).await {
        return gone("the servers are not on this host, and nvidia-smi reports this host's GPUs only");
    }
    if servers.iter().any(ServerIdentity::is_simulated) {
        return gone("the server is the simulator, which uses no GPU");
    }
    let leased = &context.lease.assignment.gpus;
    if leased.iter().any(|gpu| matches!(gpu, GpuId::Mig(_))) {
        return gone("the servers have MIG instances, of which nvidia-smi has no readings");
    }
    let unwatched = |why: ErrorText| {
        if !context.lease.stop.is_requested() {
            context.lease.notice(format!("no GPU telemetry: {why}; `telemetry: off` turns it off"));
        }
    };
    watch(context, leased).await.map_err(unwatched).ok()
}

async fn watch(context: &TaskContext, leased: &[GpuId]) -> Result<TelemetrySampler, ErrorText> {
    let mut smi = NvidiaSmi::default();
    let gpus = loop {
        let (how, text) = run_probe(context, smi.probe(leased)).await?;
        let gpus = smi.identities(&text);
        if how.is_success() && !gpus.is_empty() {
            break gpus;
        }
        if let SmiError::Message(message) = smi.refusal(&text) {
            return Err(ErrorText::new(format_args!("nvidia-smi printed: {message}")));
        }
    };
    let population = if leased.is_empty() { gpu::HOST_GPUS } else { gpu::LEASED_GPUS }.to_owned();
    let cuda = match run_probe(context, gpu::versions_query_argv()).await {
        Ok((how, text)) if how.is_success() => gpu::cuda_version(&text),
        // One from before this query; the rest goes on.
        _ => None,
    };
    let anchor = (Instant::now(), Timestamp::now());
    let sampler = launch(context, smi.sampler(leased, EVERY.as_millis() as u64)).map_err(ErrorText::new)?;
    let mut telemetry = TelemetrySampler { sampler, smi, gpus, population, anchor, cuda, notes: Vec::new() };
    telemetry.lines(context, 1, FIRST).await;
    Ok(telemetry)
}

/// Runs it to its end, with all that it wrote.
async fn run_probe(context: &TaskContext, argv: Vec<String>) -> Result<(ExitKind, String), ErrorText> {
    let mut probe = launch(context, argv).map_err(ErrorText::new)?;
    let how = tokio::select! {
        ended = timeout(QUERY_TIMEOUT, probe.ended()) => {
            ended.map_err(|_| ErrorText::new(format_args!("nvidia-smi did not answer within {QUERY_TIMEOUT:?}")))?
        }
        () = context.lease.stop.requested() => return Err(ErrorText::new("stopped")),
    };
    let unreadable = |error| ErrorText::new(format_args!("cannot read the output of nvidia-smi: {error}"));
    Ok((how, probe.written().map_err(unreadable)?))
}

fn launch(context: &TaskContext, argv: Vec<String>) -> Result<Sidecar, SpawnError> {
    // It stamps local time without its zone.
    Sidecar::start(context, argv, &[("TZ", "UTC0"), ("LC_ALL", "C")], "gpu")
}

/// Whether an end was not the one that we requested.
const fn is_its_own(how: ExitKind) -> bool {
    match how {
        ExitKind::Code(code) => code != 0 && code != 128 + SIGTERM,
        ExitKind::Signal(signal) => signal != SIGTERM,
        ExitKind::Stopped => false,
    }
}

/// The servers' metrics of their GPUs, where no closer source exists.
fn of_servers(wanted: Wanted, measured: &mut UnjudgedRun) {
    if measured.gpu().is_some() || !matches!(wanted, Wanted::Auto | Wanted::Metrics) {
        return;
    }
    let Some(scrape) = measured.scrape() else { return };
    let trace = gpu::served(scrape, measured.zero());
    if trace.gpus.is_empty() {
        return;
    }
    let usage = GpusUsage {
        source: "the servers' /metrics (nv_gpu_*, which Triton has from DCGM)".to_owned(),
        population: gpu::REPORTED_GPUS.to_owned(),
        interval_s: scrape.interval.as_secs_f64(),
        ..GpusUsage::default()
    };
    measured.gpus_read(trace, usage);
}

const LOCATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether every server is on this host.
pub async fn all_here(endpoints: &[Endpoint]) -> bool {
    let mut hosts: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    for host in hosts {
        if !is_here(host).await {
            return false;
        }
    }
    !endpoints.is_empty()
}

/// Whether a host name or address is this machine's.
pub async fn is_here(host: &str) -> bool {
    match timeout(LOCATION_TIMEOUT, lookup_host((host, 0))).await {
        Ok(Ok(mut addresses)) => addresses.any(|address| is_own_address(address.ip())),
        _ => false,
    }
}

/// Often enough for minutes of load, and seldom enough to cost nothing that can be measured.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// The servers of a measurement with their ports for metrics: where none is known, those with OpenAI's interfaces have
/// them beside these, if they could be read there. `described`: what each server reported of itself.
fn polled(context: &TaskContext, spec: &BenchSpec, described: &[ServerIdentity]) -> Vec<Endpoint> {
    let is_openai = matches!(&spec.protocol, Transport::Http(http) if http.api != Api::Generate);
    let with_metrics = |(endpoint, server): (&Endpoint, &ServerIdentity)| {
        // Of other servers it is not known that they have metrics.
        let has_usual_metrics = matches!(server.kind.as_deref(), Some("vllm" | "sglang" | "trtllm-serve"));
        if let Some(why) = server.metrics_not_read.as_ref().filter(|_| has_usual_metrics) {
            context.lease.notice(format!("the numbers of {endpoint}'s /metrics are not in the result: {why}"));
        }
        let has_metrics = is_openai && server.is_known() && server.metrics_not_read.is_none();
        Endpoint { metrics: endpoint.metrics.or(has_metrics.then(|| endpoint.http_port())), ..endpoint.clone() }
    };
    spec.endpoints.iter().zip(described).map(with_metrics).collect()
}

/// Starts polling where there is something to poll.
fn start_scraper(spec: &BenchSpec, endpoints: &[Endpoint]) -> Result<Option<Scraper>, Failure> {
    let headers = SentHeaders::of_run(spec).map_err(|error| failure(&error))?.map();
    let client = |endpoint: &Endpoint| {
        let port = endpoint.metrics?;
        let client = HttpClient::new(HttpAddress { host: endpoint.host.clone(), port });
        // A key is for the port of the requests alone.
        let is_beside = matches!(spec.protocol, Transport::Http(_)) && port == endpoint.http_port();
        Some(if is_beside { client.headers(headers.clone()) } else { client })
    };
    let clients: Vec<HttpClient> = endpoints.iter().filter_map(client).collect();
    if clients.is_empty() {
        return Ok(None);
    }
    Scraper::start(clients, SCRAPE_INTERVAL)
        .map(Some)
        .map_err(|error| Failure::system(format!("cannot start the thread that reads the servers' metrics: {error}")))
}

/// Ends it; all readings are written beside the measurement, and their summary into the result.
async fn finish(scraper: Scraper, endpoints: &[Endpoint], measured: &mut UnjudgedRun) {
    let scrape = scraper.finish().await;
    let (window, zero) = (measured.window(), measured.zero());
    for share in measured.hosts_mut() {
        // The queried servers that are on this host.
        let is_measured = |server: &HttpAddress| {
            endpoints
                .iter()
                .any(|one| host_of(one) == share.host && one.host == server.host && one.metrics == Some(server.port))
        };
        share.server_metrics = scrape
            .servers
            .iter()
            .any(is_measured)
            .then(|| ServerMetrics { series: BTreeMap::new(), ..summarize_part(&scrape, is_measured, zero, window) });
    }
    measured.server_counted(summarize(&scrape, zero, window), scrape);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_host_is_known_by_its_addresses() {
        assert!(is_here("127.0.0.1").await && is_here("localhost").await && is_here("::1").await);
        // Documentation addresses (RFC 5737) belong to no host.
        assert!(!is_here("192.0.2.7").await);
        assert!(!is_here("no-such-host.invalid").await);
        assert!(!all_here(&[]).await);
    }
}
