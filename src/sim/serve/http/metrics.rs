//! Prometheus text in the names of Triton and of its TensorRT-LLM backend, from the state of the simulated engines.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::driver::{Driver, ServerCounters};
use super::super::request::version;
use super::super::service::ServiceInner;
use super::super::statistics::ModelStatistics;
use crate::core::{CoreLoad, SchedulerPolicy};
use crate::serve::load::{LoadedEngine, LoadedModel};

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
    for it in engines(inner) {
        page.line(name, it.model, &[], it.load.waiting);
    }
    let served: Vec<ServedEngine<'_>> = trt_llm(inner).collect();
    if !served.is_empty() {
        engine_gauges(&served, &mut page);
        batcher_gauges(&served, &mut page);
        general_metrics(&served, &mut page);
    }
    page.0
}

fn engine_gauges(served: &[ServedEngine<'_>], page: &mut Page) {
    let requests = |ServedEngine { engine, load, .. }: &ServedEngine<'_>| {
        [
            ("waiting", load.waiting),
            ("context", load.contexts),
            ("scheduled", load.contexts + load.generating),
            ("max", engine.limits.max_batch_size * engine.instances),
            ("active", load.active),
        ]
    };
    page.family("nv_trt_llm_request_metrics", "TRT LLM request metrics", "gauge", "request_type", served, requests);
    let name = "nv_trt_llm_runtime_memory_metrics";
    page.family(name, "TRT LLM runtime memory metrics", "gauge", "memory_type", served, |it| {
        [("pinned", 0), ("gpu", it.engine.runtime_bytes * it.engine.instances as u64), ("cpu", 0)]
    });
    let blocks = |ServedEngine { engine, load, .. }: &ServedEngine<'_>| {
        let max = engine.limits.blocks * engine.instances as u64;
        [
            ("tokens_per", engine.limits.tokens_per_block as f64),
            ("used", load.used_blocks as f64),
            ("free", max.saturating_sub(load.used_blocks) as f64),
            ("max", max as f64),
            ("fraction", if max == 0 { 0.0 } else { load.used_blocks as f64 / max as f64 }),
            // The simulated engine does not reuse blocks: it has no such cache.
            ("reused", 0.0),
        ]
    };
    let name = "nv_trt_llm_kv_cache_block_metrics";
    page.family(name, "TRT LLM KV cache block metrics", "gauge", "kv_cache_block_type", served, blocks);
}

/// In-flight batching has metrics of its own, and so has the static batching of `V1`: a model has one of both.
fn batcher_gauges(served: &[ServedEngine<'_>], page: &mut Page) {
    let (fixed, in_flight): (Vec<_>, Vec<_>) =
        served.iter().partition(|it| it.engine.limits.policy == SchedulerPolicy::StaticBatch);
    let (name, label) = ("nv_trt_llm_inflight_batcher_metrics", "inflight_batcher_specific_metric");
    page.family(name, "TRT LLM inflight_batcher-specific metrics", "gauge", label, in_flight, |it| {
        [
            ("micro_batch_id", 0),
            ("generation_requests", it.load.generating as u64),
            ("total_context_tokens", it.load.context_tokens),
            ("paused_requests", it.load.pauses),
        ]
    });
    if fixed.is_empty() {
        return;
    }
    let name = "nv_trt_llm_v1_metrics";
    page.family(name, "TRT LLM v1-specific metrics", "gauge", "v1_specific_metric", fixed, |it| {
        let slots = it.engine.limits.max_batch_size * it.engine.instances;
        [
            ("total_generation_tokens", it.load.generating as u64),
            ("empty_generation_slots", slots.saturating_sub(it.load.active) as u64),
            ("total_context_tokens", it.load.context_tokens),
        ]
    });
}

fn general_metrics(served: &[ServedEngine<'_>], page: &mut Page) {
    let name = "nv_trt_llm_general_metrics";
    page.family(name, "General TRT LLM metrics", "gauge", "general_type", served, |it| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        [("iteration_counter", it.load.steps), ("timestamp", now)]
    });
    let (name, label) = ("nv_trt_llm_disaggregated_serving_metrics", "disaggregated_serving_type");
    // No simulated engine hands its KV cache to another.
    page.family(name, "TRT LLM disaggregated serving metrics", "counter", label, served, |_| {
        [("kv_cache_transfer_ms", 0), ("request_count", 0)]
    });
    let counters: [(&str, &str, Counter); 2] = [
        ("nv_llm_input_token_len", "total_input_tokens", |s| &s.input_tokens),
        ("nv_llm_output_token_len", "total_output_tokens", |s| &s.tokens),
    ];
    for (name, kind, count) in counters {
        page.family(name, "TRT LLM response metrics", "counter", "response_metric_type", served, |it| {
            [(kind, count(it.counters).load(Ordering::Relaxed))]
        });
    }
}

/// An engine model with what its copies count and hold together.
struct ServedEngine<'a> {
    model: &'a LoadedModel,
    engine: &'a LoadedEngine,
    counters: &'a ServerCounters,
    load: CoreLoad,
}

/// The engines that stand for TensorRT-LLM's: vLLM's have names of their own.
fn trt_llm(inner: &ServiceInner) -> impl Iterator<Item = ServedEngine<'_>> {
    engines(inner).filter(|it| !it.engine.is_vllm())
}

fn engines(inner: &ServiceInner) -> impl Iterator<Item = ServedEngine<'_>> {
    inner.drivers.iter().filter_map(|(name, (drivers, counters))| {
        let model = inner.models.get(name)?;
        let sum = |sum: CoreLoad, load: CoreLoad| CoreLoad {
            active: sum.active + load.active,
            waiting: sum.waiting + load.waiting,
            deferred: sum.deferred + load.deferred,
            contexts: sum.contexts + load.contexts,
            context_tokens: sum.context_tokens + load.context_tokens,
            generating: sum.generating + load.generating,
            used_blocks: sum.used_blocks + load.used_blocks,
            steps: sum.steps + load.steps,
            pauses: sum.pauses + load.pauses,
        };
        let load = drivers.iter().map(Driver::holding).fold(CoreLoad::default(), sum);
        Some(ServedEngine { model, engine: model.engine()?, counters, load })
    })
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A line for each engine and value of the label.
    fn family<'a, const N: usize, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        label: &str,
        served: impl IntoIterator<Item = &'a ServedEngine<'a>>,
        values: impl Fn(&ServedEngine<'a>) -> [(&'static str, V); N],
    ) {
        self.head(name, help, kind);
        for it in served {
            for (of_kind, value) in values(it) {
                self.line(name, it.model, &[(label, of_kind)], value);
            }
        }
    }

    fn line(&mut self, name: &str, model: &LoadedModel, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "{name}{{model=\"{}\",", model.name);
        for (label, value) in labels {
            let _ = write!(self.0, "{label}=\"{value}\",");
        }
        let _ = writeln!(self.0, "version=\"{}\"}} {value}", version(model));
    }
}
