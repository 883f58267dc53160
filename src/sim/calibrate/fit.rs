//! The fit, and what it is worth.

use super::{LoggedStep, ObservationKind, TimedSteps, non_negative, observe};
use crate::timing::{GpuTiming, ModelOnGpus, Parallelism, Precision, derive};
use base::diag::ErrorText;
use base::spec::{ModelShape, SimCalibration, SimScheduler};

/// What the log was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationTarget {
    pub model: ModelShape,
    pub gpu: GpuTiming,
    pub precision: Precision,
    pub kv: Precision,
    pub parallelism: Parallelism,
    pub scheduler: SimScheduler,
    /// Of vLLM: the largest step with a CUDA graph, tokens.
    pub max_cudagraph_capture_size: u32,
    /// What the log is, for the preset.
    pub source: String,
}

impl CalibrationTarget {
    const fn with<'a>(&'a self, calibration: &'a SimCalibration) -> ModelOnGpus<'a> {
        let Self { model, gpu, precision, kv, parallelism, .. } = self;
        ModelOnGpus { model, gpu, precision: *precision, kv: *kv, parallelism: *parallelism, calibration }
    }
}

/// The mean and the largest error of the steps of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionError {
    pub region: &'static str,
    pub count: usize,
    /// Mean of (modeled − measured) / measured.
    pub bias: f64,
    /// Mean of its absolute value.
    pub mean: f64,
    pub largest: f64,
}

/// One observation beside its model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedStep {
    pub step: u64,
    /// Steps that the time is a sum of.
    pub steps: usize,
    /// Requests that generate in the first of them.
    pub batch: u64,
    pub prompt_tokens: u64,
    /// Seconds.
    pub measured: f64,
    pub modeled: f64,
}

/// A calibration, and its errors.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTimeFit {
    pub calibration: SimCalibration,
    /// Of all observations, in the units of time.
    pub r_squared: f64,
    /// Mean absolute error over all observations, as a share of each.
    pub mean_error: f64,
    /// The same of the held-out loads, with coefficients fitted to the other loads.
    pub held_out_error: Option<f64>,
    pub loads: usize,
    pub logged_steps: usize,
    pub regions: Vec<RegionError>,
    pub rows: Vec<FittedStep>,
    /// What the log does not show, and was assumed.
    pub assumed: Vec<&'static str>,
}

const FEWEST: usize = 20;

/// The linear coefficients: base, tokens above the free ones, pairs, requests, KV tokens, steps with prompts, turns of
/// a client, prompts, steps that no CUDA graph covers.
const COLUMNS: usize = 9;
const PAIRS: usize = 2;

/// Fits the coefficients to the log's steps, then once more to every second load, to see the error on the others.
pub fn calibrate(target: &CalibrationTarget, logs: &[Vec<LoggedStep>]) -> Result<StepTimeFit, ErrorText> {
    if target.model.experts().is_some() {
        let message = "a fit needs a dense model: how many experts a batch touched is not in the log";
        return Err(ErrorText::new(message));
    }
    let mut observed: Vec<TimedSteps> = Vec::new();
    for log in logs {
        let before = observed.last().map_or(0, |last| last.load + 1);
        observed.extend(observe(log).into_iter().map(|one| TimedSteps { load: before + one.load, ..one }));
    }
    let logged_steps = logs.iter().map(Vec::len).sum();
    if observed.len() < FEWEST {
        return Err(ErrorText::new(format_args!(
            "{} usable times in {logged_steps} steps are too few for a fit; a log needs steady batches of several \
             sizes, and prompts: at least {FEWEST}",
            observed.len()
        )));
    }
    let observations: Vec<&TimedSteps> = observed.iter().collect();
    let whole = Linear::fit(target, &observations);
    let mut loads: Vec<usize> = observed.iter().map(|one| one.load).collect();
    loads.dedup();
    let is_held_out =
        |one: &TimedSteps| loads.iter().position(|load| *load == one.load).is_some_and(|place| place % 2 == 1);
    let (held_out, kept): (Vec<_>, Vec<_>) = observations.iter().copied().partition(|one| is_held_out(one));
    let held_out_error = (held_out.len() >= FEWEST && kept.len() >= FEWEST).then(|| {
        let half = Linear::fit(target, &kept);
        mean(held_out.iter().map(|one| half.error(one).abs()))
    });
    let (calibration, assumed) = whole.calibration(target);
    let rows = observed
        .iter()
        .map(|one| FittedStep {
            step: one.first_step,
            steps: one.steps.len(),
            batch: one.steps[0].decode_requests,
            prompt_tokens: one.steps.iter().map(|step| step.prefill_tokens).sum(),
            measured: one.seconds,
            modeled: whole.seconds(one),
        })
        .collect();
    Ok(StepTimeFit {
        calibration,
        r_squared: r_squared(&observed, &whole),
        mean_error: mean(observed.iter().map(|one| whole.error(one).abs())),
        held_out_error,
        loads: loads.len(),
        logged_steps,
        regions: regions(&observed, &whole),
        rows,
        assumed,
    })
}

/// The linear form of the step time.
struct Linear {
    /// Tokens that hide behind reading the weights.
    free_tokens: u64,
    found: [f64; COLUMNS],
    /// Seconds of a pair where the log does not show it.
    assumed_pair: f64,
    pairs_are_assumed: bool,
    /// Steps of more tokens have no CUDA graph. `None`: no step of the software is known to have one.
    graph_tokens: Option<u64>,
}

/// The most tokens that could hide behind reading the weights, and the grid on which they are sought.
const MOST_FREE: u64 = 1024;
const FREE_GRID: usize = 4;

impl Linear {
    fn fit(target: &CalibrationTarget, observed: &[&TimedSteps]) -> Self {
        let (defaults, _) = derive(&target.with(&SimCalibration::default()));
        let graph_tokens =
            (target.scheduler == SimScheduler::Vllm).then_some(u64::from(target.max_cudagraph_capture_size));
        let (zeros, assumed_pair) = ([0.0; COLUMNS], defaults.pair);
        let best = |pairs_are_assumed: bool| {
            let mut best: Option<(f64, Self)> = None;
            for free_tokens in (0..=MOST_FREE).step_by(FREE_GRID) {
                let mut candidate = Self { free_tokens, found: zeros, assumed_pair, pairs_are_assumed, graph_tokens };
                let rows: Vec<_> = observed
                    .iter()
                    .map(|time| {
                        (candidate.columns(time), time.seconds - candidate.offset(time), 1.0 / time.seconds.powi(2))
                    })
                    .collect();
                candidate.found = non_negative(&rows);
                let error: f64 = observed.iter().map(|time| candidate.error(time).powi(2)).sum();
                // The free tokens compute while the weights are read, which cannot take longer than the whole base.
                let is_possible = candidate.found[1] * free_tokens as f64 <= candidate.found[0];
                if is_possible && best.as_ref().is_none_or(|(least, _)| error < *least) {
                    best = Some((error, candidate));
                }
            }
            best.map(|(_, one)| one)
        };
        // Nothing hides: always possible.
        let nothing = Self { free_tokens: 0, found: zeros, assumed_pair, pairs_are_assumed: false, graph_tokens };
        let free = best(false).unwrap_or(nothing);
        if free.found[PAIRS] > 0.0 {
            return free;
        }
        best(true).unwrap_or(free)
    }

    fn columns(&self, time: &TimedSteps) -> [f64; COLUMNS] {
        let mut sums = [0.0; COLUMNS];
        for step in &time.steps {
            let tokens = step.prefill_tokens + step.decode_tokens;
            sums[0] += 1.0;
            sums[1] += tokens.saturating_sub(self.free_tokens) as f64;
            sums[PAIRS] += if self.pairs_are_assumed { 0.0 } else { pairs(step) };
            sums[3] += step.decode_requests as f64;
            sums[4] += step.decode_kv as f64;
            sums[5] += if step.prefill_requests > 0 { 1.0 } else { 0.0 };
            sums[7] += step.prefill_requests as f64;
            sums[8] += if self.graph_tokens.is_some_and(|most| tokens > most) { 1.0 } else { 0.0 };
        }
        sums[6] = if time.kind == ObservationKind::Prefill { 1.0 } else { 0.0 };
        sums
    }

    fn offset(&self, time: &TimedSteps) -> f64 {
        if self.pairs_are_assumed { self.assumed_pair * time.steps.iter().map(pairs).sum::<f64>() } else { 0.0 }
    }

    fn seconds(&self, time: &TimedSteps) -> f64 {
        let columns = self.columns(time);
        self.offset(time) + columns.iter().zip(self.found).map(|(column, found)| column * found).sum::<f64>()
    }

    fn error(&self, time: &TimedSteps) -> f64 {
        self.seconds(time) / time.seconds - 1.0
    }

    /// The coefficients as shares of the GPU's numbers.
    fn calibration(&self, target: &CalibrationTarget) -> (SimCalibration, Vec<&'static str>) {
        let [base, token, pair, request, kv_token, context, turn, prompt, launch] = self.found;
        let mut assumed = Vec::new();
        let defaults = SimCalibration::default();
        // Shares are inversely proportional to times: one derivation with whole shares has all the factors.
        let ideal = SimCalibration {
            weights_bandwidth: 1.0,
            kv_bandwidth: 1.0,
            compute: 1.0,
            compute_fp4: Some(1.0),
            attention: 1.0,
            all_reduce_us: 0.0,
            link: defaults.link,
            ..defaults.clone()
        };
        let (ideal, _) = derive(&target.with(&ideal));
        let token = token.max(f64::MIN_POSITIVE);
        let hidden = token * self.free_tokens as f64;
        let split = target.parallelism.tensor > 1;
        let link = if split { ideal.all_reduce } else { 0.0 };
        let share = |ideal: f64, found: f64| (1e4 * ideal / found).round() / 1e4;
        let mut weights_bandwidth = share(ideal.weights, hidden.max(f64::MIN_POSITIVE));
        let mut overlap = 1.0;
        if !(0.5..=1.05).contains(&weights_bandwidth) {
            assumed.push("weights_bandwidth: how much of a step reads weights is not visible in the log");
            weights_bandwidth = defaults.weights_bandwidth;
            overlap = (hidden / (ideal.weights / weights_bandwidth)).min(1.0);
        }
        let reduce_us = if split { defaults.all_reduce_us } else { 0.0 };
        let reduces = 2.0 * f64::from(target.model.num_hidden_layers) * reduce_us * 1e-6;
        let step = (base - ideal.weights / weights_bandwidth - reduces).max(0.0);
        let attention = if self.pairs_are_assumed || pair == 0.0 {
            assumed.push("attention: prompts in the log are too short to show it");
            defaults.attention
        } else {
            share(ideal.pair, pair)
        };
        let kv_bandwidth = if kv_token > 0.0 {
            share(ideal.kv_token, kv_token)
        } else {
            assumed.push("kv_bandwidth: the log has too few context lengths");
            defaults.kv_bandwidth
        };
        if turn == 0.0 {
            assumed.push("frontend_ms: the log has no prompts one after the other");
        }
        // Of a token's time, what moves its activations, and what its arithmetic would take at the peak.
        let of_token = |compute: f64, weights_bandwidth: f64| {
            let calibration =
                SimCalibration { compute, compute_fp4: Some(compute), weights_bandwidth, ..defaults.clone() };
            derive(&target.with(&calibration)).0.token
        };
        let activations = of_token(f64::INFINITY, weights_bandwidth);
        let arithmetic = of_token(1.0, f64::INFINITY);
        let compute = share(arithmetic, (token - link - activations).max(f64::MIN_POSITIVE));
        let (compute, compute_fp4) = if target.precision == Precision::Fp4 {
            assumed.push("compute: the log is of 4 bits");
            (defaults.compute, Some(compute))
        } else {
            (compute, defaults.compute_fp4)
        };
        let thousandths = |value: f64| (1e3 * value).round() / 1e3;
        let calibration = SimCalibration {
            source: target.source.clone(),
            parameters: Some(target.model.parameters),
            scheduler: target.scheduler,
            weights_bandwidth,
            kv_bandwidth,
            compute,
            compute_fp4,
            attention,
            overlap: thousandths(overlap),
            step_ms: thousandths(step * 1e3),
            layer_us: thousandths(launch * 1e6 / f64::from(target.model.num_hidden_layers.max(1))),
            cuda_graph_tokens: self.graph_tokens.unwrap_or(0),
            context_ms: thousandths(context * 1e3),
            request_us: thousandths(request * 1e6),
            prompt_us: thousandths(prompt * 1e6),
            frontend_ms: thousandths(turn * 1e3),
            ..defaults
        };
        (calibration, assumed)
    }
}

/// Pairs of a new and an older token: the prompts of a step are taken as equally long.
fn pairs(step: &LoggedStep) -> f64 {
    let each = step.prefill_tokens as f64 / step.prefill_requests.max(1) as f64;
    each * step.prefill_kv as f64 + each * step.prefill_tokens as f64 / 2.0
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn r_squared(observed: &[TimedSteps], fit: &Linear) -> f64 {
    let average = mean(observed.iter().map(|one| one.seconds));
    let around: f64 = observed.iter().map(|one| (one.seconds - average).powi(2)).sum();
    let left: f64 = observed.iter().map(|one| (one.seconds - fit.seconds(one)).powi(2)).sum();
    1.0 - left / around
}

/// Errors by what the steps compute.
fn regions(observed: &[TimedSteps], fit: &Linear) -> Vec<RegionError> {
    const REGIONS: [&str; 6] = [
        "generating, batch 1 to 8",
        "generating, batch 9 to 32",
        "generating, batch 33 to 128",
        "generating, batch above 128",
        "prompts beside generating",
        "one prompt alone",
    ];
    let place = |one: &TimedSteps| match (one.kind, one.steps[0].decode_requests) {
        (ObservationKind::Decode, ..=8) => 0,
        (ObservationKind::Decode, 9..=32) => 1,
        (ObservationKind::Decode, 33..=128) => 2,
        (ObservationKind::Decode, _) => 3,
        (ObservationKind::Mixed, _) => 4,
        (ObservationKind::Prefill, _) => 5,
    };
    let mut region_errors = Vec::new();
    for (at, region) in REGIONS.into_iter().enumerate() {
        let errors: Vec<f64> = observed.iter().filter(|one| place(one) == at).map(|one| fit.error(one)).collect();
        if errors.is_empty() {
            continue;
        }
        let bias = mean(errors.iter().copied());
        let average = mean(errors.iter().map(|error| error.abs()));
        let largest = errors.iter().fold(0.0_f64, |most, error| most.max(error.abs()));
        region_errors.push(RegionError { region, count: errors.len(), bias, mean: average, largest });
    }
    region_errors
}
