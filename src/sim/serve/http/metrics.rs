//! Prometheus text in the names of Triton and of its TensorRT-LLM backend, from the state of the simulated engines.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::driver::ServerCounters;
use super::super::request::version;
use super::super::service::ServiceInner;
use super::super::statistics::ModelStatistics;
use crate::core::{CoreLoad, SchedulerPolicy};
use crate::serve::load::{LoadedModel, ModelKind};

type Counter = fn(&ServerCounters) -> &AtomicU64;
/// Name, help and value of a counter that every model has.
type Inference = (&'static str, &'static str, fn(&ModelStatistics) -> u64);

const INFERENCE: [Inference; 8] = [
    ("nv_inference_request_success", "Number of successful inference requests, all batch sizes", |s| s.success.count()),
    ("nv_inference_count", "Number of inferences performed (does not include cached requests)", |s| {
        s.inferences.load(Ordering::Relaxed)
    }),
    ("nv_inference_exec_count", "Number of model executions performed (does not include cached requests)", |s| {
        s.executions.load(Ordering::Relaxed)
    }),
    (
        "nv_inference_request_duration_us",
        "Cumulative inference request duration in microseconds (includes cached requests)",
        |s| s.success.us(),
    ),
    (
        "nv_inference_queue_duration_us",
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
        |s| s.queue.us(),
    ),
    (
        "nv_inference_compute_input_duration_us",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        |_| 0,
    ),
    (
        "nv_inference_compute_infer_duration_us",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        |s| s.compute_infer.us(),
    ),
    (
        "nv_inference_compute_output_duration_us",
        "Cumulative inference compute output duration in microseconds (does not include cached requests)",
        |_| 0,
    ),
];

pub(super) fn text(inner: &ServiceInner) -> String {
    let mut page = Page(String::new());
    let models = || inner.models.values().filter_map(|model| Some((model, inner.statistics.get(&model.name)?)));
    for (name, help, of) in INFERENCE {
        page.head(name, help, "counter");
        for (model, statistics) in models() {
            page.line(name, model, &[], of(statistics));
        }
    }
    page.head("nv_inference_request_failure", "Number of failed inference requests, all batch sizes", "counter");
    for (model, statistics) in models() {
        let failed = statistics.fail.count();
        for (reason, count) in [("REJECTED", 0), ("CANCELED", 0), ("BACKEND", failed), ("OTHER", 0)] {
            page.line("nv_inference_request_failure", model, &[("reason", reason)], count);
        }
    }
    let name = "nv_inference_pending_request_count";
    page.head(name, "Instantaneous number of pending requests awaiting execution per-model.", "gauge");
    for (model, _, all) in engines(inner) {
        page.line(name, model, &[], all.waiting as u64);
    }
    if trt_llm(inner).next().is_some() {
        engine_gauges(inner, &mut page);
        token_counters(inner, &mut page);
    }
    page.0
}

fn engine_gauges(inner: &ServiceInner, page: &mut Page) {
    let name = "nv_trt_llm_request_metrics";
    page.head(name, "TRT LLM request metrics", "gauge");
    for (model, _, all) in trt_llm(inner) {
        let ModelKind::Engine(engine) = &model.kind else { continue };
        let max = engine.limits.max_batch_size * engine.instances;
        let values = [
            ("waiting", all.waiting),
            ("context", all.contexts),
            ("scheduled", all.contexts + all.generating),
            ("max", max),
            ("active", all.active),
        ];
        for (kind, value) in values {
            page.line(name, model, &[("request_type", kind)], value as u64);
        }
    }
    let name = "nv_trt_llm_runtime_memory_metrics";
    page.head(name, "TRT LLM runtime memory metrics", "gauge");
    for (model, _, _) in trt_llm(inner) {
        let ModelKind::Engine(engine) = &model.kind else { continue };
        for (kind, value) in [("pinned", 0), ("gpu", engine.runtime_bytes * engine.instances as u64), ("cpu", 0)] {
            page.line(name, model, &[("memory_type", kind)], value);
        }
    }
    let name = "nv_trt_llm_kv_cache_block_metrics";
    page.head(name, "TRT LLM KV cache block metrics", "gauge");
    for (model, _, all) in trt_llm(inner) {
        let ModelKind::Engine(engine) = &model.kind else { continue };
        let max = engine.limits.blocks * engine.instances as u64;
        let values = [
            ("tokens_per", engine.limits.tokens_per_block as f64),
            ("used", all.used_blocks as f64),
            ("free", max.saturating_sub(all.used_blocks) as f64),
            ("max", max as f64),
            ("fraction", if max == 0 { 0.0 } else { all.used_blocks as f64 / max as f64 }),
            // The simulated engine does not reuse blocks: it has no such cache.
            ("reused", 0.0),
        ];
        for (kind, value) in values {
            page.line(name, model, &[("kv_cache_block_type", kind)], value);
        }
    }
    batcher_gauges(inner, page);
    let name = "nv_trt_llm_general_metrics";
    page.head(name, "General TRT LLM metrics", "gauge");
    for (model, _, all) in trt_llm(inner) {
        page.line(name, model, &[("general_type", "iteration_counter")], all.steps);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        page.line(name, model, &[("general_type", "timestamp")], now);
    }
    let name = "nv_trt_llm_disaggregated_serving_metrics";
    page.head(name, "TRT LLM disaggregated serving metrics", "counter");
    for (model, _, _) in trt_llm(inner) {
        // No simulated engine hands its KV cache to another.
        for kind in ["kv_cache_transfer_ms", "request_count"] {
            page.line(name, model, &[("disaggregated_serving_type", kind)], 0);
        }
    }
}

/// In-flight batching has metrics of its own, and so has the static batching of `V1`: a model has one of both.
fn batcher_gauges(inner: &ServiceInner, page: &mut Page) {
    let is_static =
        |model: &LoadedModel| model.engine().is_some_and(|engine| engine.limits.policy == SchedulerPolicy::StaticBatch);
    let name = "nv_trt_llm_inflight_batcher_metrics";
    page.head(name, "TRT LLM inflight_batcher-specific metrics", "gauge");
    for (model, _, all) in trt_llm(inner).filter(|(model, ..)| !is_static(model)) {
        let values = [
            ("micro_batch_id", 0),
            ("generation_requests", all.generating as u64),
            ("total_context_tokens", all.context_tokens),
            ("paused_requests", all.pauses),
        ];
        for (kind, value) in values {
            page.line(name, model, &[("inflight_batcher_specific_metric", kind)], value);
        }
    }
    if !trt_llm(inner).any(|(model, ..)| is_static(model)) {
        return;
    }
    let name = "nv_trt_llm_v1_metrics";
    page.head(name, "TRT LLM v1-specific metrics", "gauge");
    for (model, _, all) in trt_llm(inner).filter(|(model, ..)| is_static(model)) {
        let ModelKind::Engine(engine) = &model.kind else { continue };
        let slots = engine.limits.max_batch_size * engine.instances;
        let values = [
            ("total_generation_tokens", all.generating as u64),
            ("empty_generation_slots", slots.saturating_sub(all.active) as u64),
            ("total_context_tokens", all.context_tokens),
        ];
        for (kind, value) in values {
            page.line(name, model, &[("v1_specific_metric", kind)], value);
        }
    }
}

fn token_counters(inner: &ServiceInner, page: &mut Page) {
    let counters: [(&str, &str, Counter); 2] = [
        ("nv_llm_input_token_len", "total_input_tokens", |s| &s.input_tokens),
        ("nv_llm_output_token_len", "total_output_tokens", |s| &s.tokens),
    ];
    for (name, kind, of) in counters {
        page.head(name, "TRT LLM response metrics", "counter");
        for (model, shared, _) in trt_llm(inner) {
            page.line(name, model, &[("response_metric_type", kind)], of(shared).load(Ordering::Relaxed));
        }
    }
}

/// The engines that stand for TensorRT-LLM's: vLLM's have names of their own.
fn trt_llm(inner: &ServiceInner) -> impl Iterator<Item = (&LoadedModel, &ServerCounters, CoreLoad)> {
    engines(inner).filter(|(model, ..)| model.engine().is_some_and(|engine| !engine.is_vllm()))
}

/// Each engine model with what its copies count and hold together.
fn engines(inner: &ServiceInner) -> impl Iterator<Item = (&LoadedModel, &ServerCounters, CoreLoad)> {
    inner.drivers.iter().filter_map(|(name, (drivers, shared))| {
        let sum = |all: CoreLoad, one: CoreLoad| CoreLoad {
            active: all.active + one.active,
            waiting: all.waiting + one.waiting,
            deferred: all.deferred + one.deferred,
            contexts: all.contexts + one.contexts,
            context_tokens: all.context_tokens + one.context_tokens,
            generating: all.generating + one.generating,
            used_blocks: all.used_blocks + one.used_blocks,
            steps: all.steps + one.steps,
            pauses: all.pauses + one.pauses,
        };
        let holding = drivers.iter().map(super::super::driver::Driver::holding).fold(CoreLoad::default(), sum);
        Some((inner.models.get(name)?, &**shared, holding))
    })
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, model: &LoadedModel, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "{name}{{model=\"{}\",", model.name);
        for (label, value) in labels {
            let _ = write!(self.0, "{label}=\"{value}\",");
        }
        let _ = writeln!(self.0, "version=\"{}\"}} {value}", version(model));
    }
}
