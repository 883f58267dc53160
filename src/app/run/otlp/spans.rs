//! A run as a trace: a span of the run, below it one of each task that started, below these their phases.

use std::path::Path;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Span as _, SpanBuilder, Status, TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use super::OtlpRecorder;
use base::event::TaskId;
use report::{RunState, TaskPhase, TaskState};

/// Hands the spans to the provider, and returns the trace's id and their number.
pub(super) fn record(recorder: &OtlpRecorder, provider: &SdkTracerProvider) -> (String, usize) {
    let state = recorder.state();
    let tracer = provider.tracer("regatta");
    let zero = state.started_at.parse::<jiff::Timestamp>().map_or_else(|_| SystemTime::now(), SystemTime::from);
    let end = state.finished.map_or(0.0, |finished| finished.seconds);
    let mut run = tracer.build_with_context(
        SpanBuilder::from_name(format!("regatta run {}", manifest_name(&state.manifest)))
            .with_start_time(zero)
            .with_attributes(of_run(state)),
        &Context::new(),
    );
    if let Some(exit) = state.finished.map(|finished| finished.exit).filter(|exit| *exit != 0) {
        run.set_status(Status::error(format!("exit code {exit}")));
    }
    let run = Context::new().with_span(run);
    let mut spans = 1;
    for (id, task) in &state.tasks {
        let Some(from) = task.started else { continue };
        let to = task.ended.unwrap_or(end).max(from);
        spans += record_task(recorder, &tracer, &run, zero, (id, task), (from, to));
    }
    let span = run.span();
    span.end_with_timestamp(at(zero, end));
    (span.span_context().trace_id().to_string(), spans)
}

/// The span of a task, and those of its phases.
fn record_task(
    recorder: &OtlpRecorder,
    tracer: &SdkTracer,
    run: &Context,
    zero: SystemTime,
    (id, task): (&TaskId, &TaskState),
    (from, to): (f64, f64),
) -> usize {
    let named = SpanBuilder::from_name(id.to_string()).with_start_time(at(zero, from)).with_attributes(of_task(task));
    let mut span = tracer.build_with_context(named, run);
    if let Some(failure) = task.failure.as_ref().filter(|_| task.state == TaskPhase::Failed) {
        span.set_status(Status::error(failure.what.clone()));
    }
    if let Some(ready) = task.ready {
        span.add_event_with_timestamp("ready", at(zero, from + ready), Vec::new());
    }
    let below = run.with_span(span);
    let parts = recorder.parts(id);
    for part in parts {
        let named = SpanBuilder::from_name(part.name.clone()).with_start_time(at(zero, part.from));
        tracer.build_with_context(named, &below).end_with_timestamp(at(zero, part.to.max(part.from)));
    }
    below.span().end_with_timestamp(at(zero, to));
    1 + parts.len()
}

/// A manifest that was given as a file, without its folder.
fn manifest_name(manifest: &str) -> String {
    let stem = Path::new(manifest).file_stem().filter(|_| manifest.contains('/'));
    stem.map_or_else(|| manifest.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn at(zero: SystemTime, seconds: f64) -> SystemTime {
    zero + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn of_run(state: &RunState) -> Vec<KeyValue> {
    let run = state.run.as_ref().map_or("", |run| run.as_str()).to_owned();
    let mut all = vec![KeyValue::new("regatta.run", run), KeyValue::new("regatta.manifest", state.manifest.clone())];
    all.extend(state.params.iter().map(|(name, value)| KeyValue::new(format!("regatta.param.{name}"), value.clone())));
    let tally = state.tally;
    for (name, count) in [
        ("ran", tally.ran),
        ("cached", tally.cached),
        ("skipped", tally.skipped),
        ("failed", tally.failed),
        ("cancelled", tally.cancelled),
    ] {
        all.push(KeyValue::new(format!("regatta.tasks.{name}"), count as i64));
    }
    all
}

fn of_task(task: &TaskState) -> Vec<KeyValue> {
    let mut all = vec![
        KeyValue::new("regatta.task.state", task.label()),
        KeyValue::new("regatta.task.service", task.service),
        KeyValue::new("regatta.task.attempts", i64::from(task.attempts)),
    ];
    all.extend(task.headline.clone().map(|headline| KeyValue::new("regatta.task.result", headline)));
    all
}
