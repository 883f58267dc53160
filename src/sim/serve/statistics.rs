//! A server's counts for each model, as Triton's statistics extension defines them. Times are simulated.
//!
//! A request to an ensemble or to the BLS model counts there, in the engine model under it, and in the text models beside
//! that. Time in the queue ends when the engine's scheduler gives the request its first place in a step; computing ends with
//! its last token. The text models take no simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::extra_outputs::RequestTimes;
use super::loaded_model::{LoadedModel, ModelKind};
use super::request::version;
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

    pub fn model(&self, model: &str) -> Option<&ModelStatistics> {
        self.0.get(model).map(|statistics| &**statistics)
    }

    /// The models that a request to `model` passes through.
    pub fn route(&self, model: &LoadedModel) -> Route {
        let find = |names: &[String]| names.iter().filter_map(|name| self.0.get(name)).cloned().collect();
        let own = self.0.get(&model.name).cloned();
        match &model.kind {
            ModelKind::Text { engine, before, after } => Route {
                whole: own.into_iter().chain(self.0.get(engine).cloned()).collect(),
                before: find(before),
                after: find(after),
            },
            _ => Route { whole: own.into_iter().collect(), ..Route::default() },
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
    /// A part of the request has its last token. `responses` is how many the engine made of it, `is_last` whether it was the
    /// request's last part.
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
