//! `bench:` — requests on schedule, answers measured, a verdict.

pub mod identity;
mod loadgen;
mod measurement;
mod preflight;
mod resume;
mod search;
mod series;
mod spec;
mod telemetry;

use std::borrow::Cow;

use crate::Run;
use crate::serve::attach;
use crate::task_context::TaskContext;
use base::event::{Done, Endpoint, Failure};
use base::spec::Protocol;
use harness::{BenchSpec, SentHeaders};
use loadgen::LoadgenStage;
use measurement::{MeasurementPlace, measure, task_outcome};
use plan::REPEATED_RUNS;
use plan::manifest::model::{Bench, RepeatRole};
use plan::manifest::targets;
use spec::{fill_in_known_ports, instead_of_proxy, spec, unused_proxy};
pub use telemetry::is_here;

impl Run for Bench {
    // 2: with the servers' own metrics. 3: with GPUs, a preflight, and answers tokenized again. 4: with LoadGen, too,
    // a plan, metrics and GPUs. 5: all settings of a request over `generate`, warm-up as the load comes, goodput of a
    // TPOT.
    const FORMAT: Option<u32> = Some(5);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let detected = detected(self, &context.lease.assignment.endpoints);
        let bench = detected.as_ref();
        if self.turn == Some(RepeatRole::Sum) {
            let runs = context.lease.assignment.inputs.get(REPEATED_RUNS);
            return Box::pin(series::summarize(context, self, runs.map_or(&[], Vec::as_slice))).await;
        }
        let mut spec = spec(bench, &context.lease.project).map_err(|error| Failure::refused(error.to_string()))?;
        fill_in_known_ports(&mut spec.endpoints, &context.lease.assignment.endpoints);
        for lowered in &context.lease.assignment.lowered {
            context.lease.notice(format!("its server runs with {lowered}, because memory ran out with more"));
        }
        if let Some(limit) = &bench.ready_timeout {
            spec::await_servers(context, &spec, limit.time()).await?;
        }
        match spec.protocol {
            harness::Transport::Kserve => check_servers(context, bench, &spec).await?,
            harness::Transport::Http(_) => {
                require_http_port(context, &spec)?;
                if let Some(notice) = spec.endpoints.first().and_then(|endpoint| unused_proxy(&endpoint.host)) {
                    context.lease.notice(notice);
                }
            }
        }
        if let Some(loadgen) = &bench.loadgen {
            let stage = LoadgenStage { context, bench, loadgen };
            return Box::pin(stage.perform(spec)).await;
        }
        if let Some(search) = &bench.search {
            return Box::pin(search::perform(context, bench, spec, search)).await;
        }
        if let Some(sweep) = &bench.sweep {
            return Box::pin(series::perform_sweep(context, &spec, bench, sweep)).await;
        }
        let before = Box::pin(preflight::preflight(context, &spec, bench.preflight)).await;
        if bench.repeat > 1 {
            return Box::pin(series::perform_repeats(context, &spec, bench, before)).await;
        }
        let measured = Box::pin(measure(context, &spec, bench.telemetry, MeasurementPlace::default(), before)).await?;
        let result = Box::pin(resume::write(&context.lease.out, Box::new(measured))).await?;
        context.check_not_stopped("stopped before all requests were answered")?;
        task_outcome(bench, &result)
    }
}

/// Protocol and model as `regatta bench` finds them, where the manifest has neither and its servers have one port, for
/// HTTP.
fn detected<'a>(bench: &'a Bench, servers: &[Endpoint]) -> Cow<'a, Bench> {
    let is_http = |target: &Endpoint| {
        let server = servers.iter().find(|server| (&server.host, server.grpc) == (&target.host, target.grpc));
        server.is_some_and(|server| server.http == Some(server.grpc))
    };
    let target = targets(&bench.target).unwrap_or_default();
    let is_known = bench.protocol.or(target.protocol).is_some() || target.endpoints.is_empty();
    if is_known || !target.endpoints.iter().all(is_http) {
        return Cow::Borrowed(bench);
    }
    let is_usual = bench.model == Bench::USUAL_MODEL;
    let model = if is_usual { String::new() } else { bench.model.clone() };
    Cow::Owned(Bench { protocol: Some(Protocol::OpenaiChat), model, ..bench.clone() })
}

/// A service of ours without an HTTP port cannot be queried over HTTP.
fn require_http_port(context: &TaskContext, spec: &BenchSpec) -> Result<(), Failure> {
    let ours = &context.lease.assignment.endpoints;
    match spec.endpoints.iter().find(|endpoint| endpoint.http.is_none() && ours.contains(endpoint)) {
        None => Ok(()),
        Some(endpoint) => {
            let message = format!("the server at {endpoint} (gRPC) has no HTTP port, but the protocol uses HTTP");
            Err(Failure::refused(message).hint("`protocol: kserve` uses gRPC"))
        }
    }
}

/// Queries the servers whether they are what the benchmark needs, before anything is sent.
async fn check_servers(context: &TaskContext, bench: &Bench, spec: &BenchSpec) -> Result<(), Failure> {
    let headers = SentHeaders::of_run(spec).map_err(|error| measurement::failure(&error))?.map();
    let expected = attach::ExpectedServer { headers, ..attach::ExpectedServer::of_bench(bench) };
    let checking = attach::check(&spec.endpoints, &expected);
    let checked = context.unless_stopped(checking, "stopped while its servers were queried").await?;
    let notices = checked.map_err(|failure| {
        match spec.endpoints.first().and_then(|endpoint| instead_of_proxy(&endpoint.host)) {
            Some(hint) if failure.hint.is_none() => failure.hint(hint),
            _ => failure,
        }
    })?;
    // Ours were started from a known configuration; others are described for the user.
    if context.lease.assignment.endpoints.is_empty() {
        for notice in notices {
            context.lease.notice(notice);
        }
    }
    Ok(())
}
