//! What a server counts: of each model as Triton's statistics extension defines it, of each engine as vLLM's metrics
//! do. Times are simulated.
//!
//! A request to an ensemble or to the BLS model counts there, in the engine model under it, and in the text models
//! beside that. Time in the queue ends when the engine's scheduler gives the request its first place in a step;
//! computing ends with its last token. The text models take no simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::answer::RequestTimes;
use super::load::{LoadedModel, ModelKind};
use super::request::version;
use crate::core::CoreTokens;
use triton::proto::inference::{InferBatchStatistics, InferStatistics, ModelStatistics as Message, StatisticDuration};

/// How often something happened, and how long it took in all.
#[derive(Debug, Default)]
pub(super) struct Timed {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Timed {
    fn add(&self, ns: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub fn us(&self) -> u64 {
        self.ns.load(Ordering::Relaxed) / 1_000
    }

    fn message(&self) -> StatisticDuration {
        StatisticDuration { count: self.count(), ns: self.ns.load(Ordering::Relaxed) }
    }
}

/// The counters of one model.
#[derive(Debug, Default)]
pub(super) struct ModelStatistics {
    /// Requests that were answered: all their parts, the last token included.
    pub success: Timed,
    pub fail: Timed,
    pub queue: Timed,
    pub compute_infer: Timed,
    /// Parts of requests (rows and sequences).
    pub inferences: AtomicU64,
    pub executions: AtomicU64,
    /// Unix time, ms.
    last_inference: AtomicU64,
}

impl ModelStatistics {
    fn executed(&self) {
        self.inferences.fetch_add(1, Ordering::Relaxed);
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.last_inference.store(milliseconds(), Ordering::Relaxed);
    }

    fn answered(&self, times: &RequestTimes) {
        self.success.add(times.last_token.saturating_sub(times.arrival));
        self.queue.add(times.scheduled.saturating_sub(times.arrival));
        self.compute_infer.add(times.last_token.saturating_sub(times.scheduled));
    }

    pub fn message(&self, model: &LoadedModel) -> Message {
        // Inputs and outputs take no simulated time.
        let at_once = StatisticDuration { count: self.queue.count(), ns: 0 };
        let executions = self.executions.load(Ordering::Relaxed);
        let batch = InferBatchStatistics {
            batch_size: 1,
            compute_input: Some(StatisticDuration { count: executions, ns: 0 }),
            compute_infer: Some(StatisticDuration { count: executions, ..self.compute_infer.message() }),
            compute_output: Some(StatisticDuration { count: executions, ns: 0 }),
        };
        Message {
            name: model.name.clone(),
            version: version(model),
            last_inference: self.last_inference.load(Ordering::Relaxed),
            inference_count: self.inferences.load(Ordering::Relaxed),
            execution_count: executions,
            inference_stats: Some(InferStatistics {
                success: Some(self.success.message()),
                fail: Some(self.fail.message()),
                queue: Some(self.queue.message()),
                compute_input: Some(at_once),
                compute_infer: Some(self.compute_infer.message()),
                compute_output: Some(at_once),
                cache_hit: Some(StatisticDuration::default()),
                cache_miss: Some(StatisticDuration::default()),
            }),
            batch_stats: if executions > 0 { vec![batch] } else { Vec::new() },
            ..Message::default()
        }
    }
}

/// The counters of all models.
#[derive(Debug)]
pub(super) struct Statistics(BTreeMap<String, Arc<ModelStatistics>>);

impl Statistics {
    pub fn new<'a>(models: impl Iterator<Item = &'a String>) -> Self {
        Self(models.map(|name| (name.clone(), Arc::default())).collect())
    }

    pub fn get(&self, model: &str) -> Option<&ModelStatistics> {
        self.0.get(model).map(|statistics| &**statistics)
    }

    /// The models that a request to `model` passes through.
    pub fn route(&self, model: &LoadedModel) -> Route {
        let find = |names: &[String]| names.iter().filter_map(|name| self.0.get(name)).cloned().collect();
        let counters = self.0.get(&model.name).cloned();
        match &model.kind {
            ModelKind::Text { engine, before, after } => Route {
                whole: counters.into_iter().chain(self.0.get(engine).cloned()).collect(),
                before: find(before),
                after: find(after),
            },
            _ => Route { whole: counters.into_iter().collect(), ..Route::default() },
        }
    }
}

/// The models that one request passes through.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    /// The called model, and the engine model under it: they have the request from its arrival to its end.
    whole: Vec<Arc<ModelStatistics>>,
    /// Run once for each part.
    before: Vec<Arc<ModelStatistics>>,
    /// Run for each response of the engine.
    after: Vec<Arc<ModelStatistics>>,
}

impl Route {
    /// A part of the request has its last token. `responses` is how many the engine made of it, `is_last` whether it
    /// was the request's last part.
    pub fn answered(&self, times: &RequestTimes, responses: u64, is_last: bool) {
        for model in &self.whole {
            model.executed();
            if is_last {
                model.answered(times);
            }
        }
        let at_once = RequestTimes::default();
        for (models, runs) in [(&self.before, 1), (&self.after, responses)] {
            for model in models {
                for _ in 0..runs {
                    model.executed();
                    model.answered(&at_once);
                }
            }
        }
    }

    /// The request failed `ns` after its arrival.
    pub fn failed(&self, ns: u64) {
        self.whole.iter().for_each(|model| model.fail.add(ns));
    }
}

fn milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

// What vLLM's server counts of one engine, by its definitions: `vllm/v1/metrics/stats.py` and
// `vllm/v1/spec_decode/metrics.py` of vLLM 0.24. Times are simulated seconds.

/// Seconds, of the histograms with the name's times.
const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const BETWEEN_TOKENS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Tokens of a step.
const STEP: [f64; 13] = [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
/// Of the parameter `n`.
const SEQUENCES: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// A histogram of each engine.
pub(super) struct HistogramRow {
    pub name: &'static str,
    pub help: &'static str,
    /// Empty: those of tokens, up to the longest sequence.
    limits: &'static [f64],
}

/// In the order of vLLM's page.
pub(super) const HISTOGRAMS: [HistogramRow; 15] = [
    row("request_prompt_tokens", "Number of prefill tokens processed.", &[]),
    row("request_generation_tokens", "Number of generation tokens processed.", &[]),
    row("iteration_tokens_total", "Histogram of number of tokens per engine_step.", &STEP),
    row("request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", &[]),
    row("request_params_n", "Histogram of the n request parameter.", &SEQUENCES),
    row("request_params_max_tokens", "Histogram of the max_tokens request parameter.", &[]),
    row("time_to_first_token_seconds", "Histogram of time to first token in seconds.", &FIRST_TOKEN),
    row("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &BETWEEN_TOKENS),
    row(
        "request_time_per_output_token_seconds",
        "Histogram of time_per_output_token_seconds per request.",
        &BETWEEN_TOKENS,
    ),
    row("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &REQUEST),
    row("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &REQUEST),
    row("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", &REQUEST),
    row("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", &REQUEST),
    row("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", &REQUEST),
    row(
        "request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        &[],
    ),
];

const fn row(name: &'static str, help: &'static str, limits: &'static [f64]) -> HistogramRow {
    HistogramRow { name, help, limits }
}

/// The counts of one copy of an engine since its start.
#[derive(Clone, Debug, Default)]
pub(super) struct EngineCounts {
    /// Steps in which drafts of a request were verified, and those drafts.
    pub drafts: u64,
    pub draft_tokens: u64,
    /// For each position of a draft: how many were accepted.
    pub accepted: Vec<u64>,
    /// Of requests that have their first token.
    pub prompt_tokens: u64,
    pub generation_tokens: u64,
    /// Requests that ended with `max_tokens`, and before.
    pub ended_by_length: u64,
    pub ended_by_stop: u64,
    /// Of each row of [`HISTOGRAMS`].
    pub histograms: Vec<Histogram>,
    /// Tokens of the step that is being counted, and of the prompts whose first token it made.
    step_tokens: u64,
}

/// One request, when the tokens of a step are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedRequest {
    pub prompt_tokens: u64,
    pub max_tokens: u64,
    /// When its tokens before those came, simulated ns.
    pub previous_token: u64,
    pub times: RequestTimes,
    /// From its arrival to the scheduler, simulated ns.
    pub frontend: u64,
}

impl EngineCounts {
    pub(super) fn new(draft_len: u64, max_seq_len: u64) -> Self {
        Self {
            accepted: vec![0; draft_len as usize],
            histograms: HISTOGRAMS.iter().map(|row| Histogram::new(row.limits, max_seq_len)).collect(),
            ..Self::default()
        }
    }

    /// A request has tokens of the step that ended at `times.last_token`.
    pub(super) fn tokens(&mut self, tokens: &CoreTokens, request: &CountedRequest) {
        if let Some(accepted) = tokens.accepted {
            self.drafts += 1;
            self.draft_tokens += self.accepted.len() as u64;
            self.accepted.iter_mut().take(accepted as usize).for_each(|count| *count += 1);
        }
        self.generation_tokens += tokens.count;
        self.step_tokens += tokens.count;
        let now = request.times.last_token;
        if tokens.index == 0 {
            self.prompt_tokens += request.prompt_tokens;
            self.step_tokens += request.prompt_tokens;
            self.observe("time_to_first_token_seconds", seconds(request.times.arrival, now));
        } else {
            self.observe("inter_token_latency_seconds", seconds(request.previous_token, now));
        }
        if tokens.is_last {
            self.ended(tokens.index + tokens.count, request);
        }
    }

    fn observe(&mut self, name: &str, value: f64) {
        if let Some(at) = HISTOGRAMS.iter().position(|row| row.name == name) {
            self.histograms[at].observe(value);
        }
    }

    fn ended(&mut self, made: u64, request: &CountedRequest) {
        let CountedRequest { prompt_tokens, max_tokens, times, frontend, .. } = *request;
        let RequestTimes { arrival, scheduled, first_token, last_token } = times;
        if made < max_tokens {
            self.ended_by_stop += 1;
        } else {
            self.ended_by_length += 1;
        }
        let decode = seconds(first_token, last_token);
        self.observe("e2e_request_latency_seconds", seconds(arrival, last_token));
        self.observe("request_queue_time_seconds", seconds(arrival + frontend, scheduled));
        self.observe("request_prefill_time_seconds", seconds(scheduled, first_token));
        self.observe("request_inference_time_seconds", seconds(scheduled, last_token));
        self.observe("request_decode_time_seconds", decode);
        // Without a prefix cache all of a prompt is computed.
        self.observe("request_prefill_kv_computed_tokens", prompt_tokens as f64);
        self.observe("request_prompt_tokens", prompt_tokens as f64);
        self.observe("request_generation_tokens", made as f64);
        self.observe("request_time_per_output_token_seconds", if made > 1 { decode / (made - 1) as f64 } else { 0.0 });
        self.observe("request_params_max_tokens", max_tokens as f64);
        // Each sequence is a request of its own.
        self.observe("request_max_num_generation_tokens", made as f64);
        self.observe("request_params_n", 1.0);
    }

    /// The step has no more tokens. vLLM does not count one that made none.
    pub(super) fn step_ended(&mut self) {
        if self.step_tokens > 0 {
            self.observe("iteration_tokens_total", self.step_tokens as f64);
        }
        self.step_tokens = 0;
    }
}

fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

// A histogram with the bucket limits of Prometheus: of each limit, how many values are at most so large.

/// Values so far.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Rising; the last bucket, without a limit, is not among them.
    limits: Vec<f64>,
    /// One for each limit, and one for what is above them all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// Without limits it has vLLM's for tokens: 1, 2 and 5 times the powers of ten, up to `most`.
    fn new(limits: &[f64], most: u64) -> Self {
        let powers = std::iter::successors(Some(1), |power: &u64| power.checked_mul(10));
        let tokens = powers.flat_map(|power| [1, 2, 5].map(|times: u64| times.saturating_mul(power)));
        let tokens = || tokens.take_while(|limit| *limit <= most).map(|limit| limit as f64).collect();
        let limits = if limits.is_empty() { tokens() } else { limits.to_vec() };
        Self { counts: vec![0; limits.len() + 1], limits, sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        self.counts[self.limits.partition_point(|limit| *limit < value)] += 1;
        self.sum += value;
    }

    pub const fn sum(&self) -> f64 {
        self.sum
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each limit, infinity at last, and the values that are at most so large.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let limits = self.limits.iter().copied().chain([f64::INFINITY]);
        limits.zip(self.counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_value_is_in_each_bucket_whose_limit_it_does_not_exceed() {
        let mut histogram = Histogram::new(&[1.0, 2.0], 0);
        for value in [1.0, 1.5, 7.0] {
            histogram.observe(value);
        }
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 1), (2.0, 2), (f64::INFINITY, 3)]);
        assert_eq!((histogram.count(), histogram.sum()), (3, 9.5));
    }

    #[test]
    fn limits_of_tokens_end_at_the_longest_sequence() {
        let limits = |most| Histogram::new(&[], most).limits;
        assert_eq!(limits(100), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(limits(99).last(), Some(&50.0));
        assert_eq!(limits(131_072).last(), Some(&100_000.0));
    }
}
