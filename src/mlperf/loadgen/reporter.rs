//! The one thread that reports first tokens and answers to LoadGen.
//!
//! Load workers put their events into a channel and continue. Waiting events are reported in one batch: all first
//! tokens before all answers, so that no answer overtakes its own first token.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use hdrhistogram::Histogram;

use super::ffi::Reporter;
use harness::{ExternalObserver, LoadgenComparison, ReportingDelay, RequestEnd, RequestRecord, UnjudgedRun};
use rules::MlperfScenario;
use rules::log::Detail;

/// The most events in one batch, so that the first of them does not wait for the last.
const AT_ONCE: usize = 256;

/// An event from a load worker.
pub enum WorkerMessage {
    First { ticket: u64, token: i32, read: Instant },
    Done { ticket: u64, tokens: Vec<i32>, has_failed: bool, read: Instant },
}

/// A worker's end of the channel.
pub struct CompletionSender(pub Sender<WorkerMessage>);

impl ExternalObserver for CompletionSender {
    fn first(&self, ticket: u64, token: i32, read: Instant) {
        // No receiver is left: the run has ended.
        let _ = self.0.send(WorkerMessage::First { ticket, token, read });
    }

    fn done(&self, ticket: u64, tokens: Vec<i32>, ended: &RequestEnd, read: Instant) {
        let has_failed = *ended != RequestEnd::Ok;
        let _ = self.0.send(WorkerMessage::Done { ticket, tokens, has_failed, read });
    }
}

/// Reports until every sender is closed. `wants_firsts`: LoadGen requires first tokens in this scenario.
pub fn report(receiver: &Receiver<WorkerMessage>, mut loadgen: Reporter<'_>, wants_firsts: bool) -> ReporterOutput {
    let mut firsts: Vec<(u64, Vec<i32>, Instant)> = Vec::new();
    let mut answers: Vec<(u64, Vec<i32>, Instant)> = Vec::new();
    let mut tally = Tally::default();
    while let Ok(one) = receiver.recv() {
        let waiting = std::iter::once(one).chain(receiver.try_iter()).take(AT_ONCE);
        for one in waiting {
            match one {
                WorkerMessage::First { ticket, token, read } if wants_firsts => {
                    firsts.push((ticket, vec![token], read));
                }
                WorkerMessage::First { .. } => {}
                WorkerMessage::Done { ticket, tokens, has_failed, read } => {
                    if wants_firsts && tokens.is_empty() {
                        // LoadGen reads the first-token time of every finished sample.
                        firsts.push((ticket, Vec::new(), read));
                    }
                    tally.failed += u64::from(has_failed);
                    tally.too_short += u64::from(!has_failed && tokens.len() < 2);
                    answers.push((ticket, if has_failed { Vec::new() } else { tokens }, read));
                }
            }
        }
        tally.firsts.report_batch(&mut firsts, |batch| loadgen.first_tokens(batch));
        tally.answers.report_batch(&mut answers, |batch| loadgen.completions(batch));
    }
    ReporterOutput {
        reporting: tally.reporting_delay(),
        firsts: tally.firsts.reported,
        answers: tally.answers.reported,
    }
}

/// The output of the reporter.
pub struct ReporterOutput {
    pub reporting: ReportingDelay,
    /// When the report reached LoadGen, by ticket.
    pub firsts: Vec<(u64, Instant)>,
    pub answers: Vec<(u64, Instant)>,
}

#[derive(Default)]
struct Tally {
    firsts: DeliveryStats,
    answers: DeliveryStats,
    too_short: u64,
    failed: u64,
}

/// From the socket to LoadGen.
struct DeliveryStats {
    /// ns
    before: Histogram<u64>,
    in_calls_ns: u64,
    count: u64,
    reported: Vec<(u64, Instant)>,
}

impl Default for DeliveryStats {
    fn default() -> Self {
        let before =
            Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!("fixed bounds"));
        Self { before, in_calls_ns: 0, count: 0, reported: Vec::new() }
    }
}

impl DeliveryStats {
    fn report_batch(&mut self, batch: &mut Vec<(u64, Vec<i32>, Instant)>, call: impl FnOnce(&[(u64, &[i32])])) {
        if batch.is_empty() {
            return;
        }
        let answers: Vec<(u64, &[i32])> = batch.iter().map(|(ticket, data, _)| (*ticket, data.as_slice())).collect();
        let begun = Instant::now();
        call(&answers);
        self.in_calls_ns += begun.elapsed().as_nanos() as u64;
        self.count += answers.len() as u64;
        for (ticket, _, read) in &*batch {
            self.reported.push((*ticket, begun));
            self.before.saturating_record(begun.saturating_duration_since(*read).as_nanos() as u64);
        }
        batch.clear();
    }

    fn at(&self, quantile: f64) -> Option<f64> {
        (self.count > 0).then(|| self.before.value_at_quantile(quantile) as f64 / 1e3)
    }

    fn call_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.in_calls_ns as f64 / self.count as f64 / 1e3)
    }
}

impl Tally {
    fn reporting_delay(&self) -> ReportingDelay {
        ReportingDelay {
            first_token_p50_us: self.firsts.at(0.5),
            first_token_p99_us: self.firsts.at(0.99),
            completion_p50_us: self.answers.at(0.5),
            completion_p99_us: self.answers.at(0.99),
            first_token_call_us: self.firsts.call_us(),
            completion_call_us: self.answers.call_us(),
            too_short: self.too_short,
            failed: self.failed,
        }
    }
}

// LoadGen's numbers, and the same from our own records by its definitions.
//
// Its percentiles are the sorted element floor(N·p); its clock starts when it begins to issue, ours when it issues the
// first sample; its answer ends when the report reaches it, ours when the stream ends.

const NS: f64 = 1e9;
/// A nanosecond in ms.
const MS: f64 = 1e-6;

/// Every number that decides the scenario, and the secondary ones.
pub fn compare_percentiles(
    detail: &Detail,
    scenario: MlperfScenario,
    measured: &UnjudgedRun,
    reported: &ReporterOutput,
) -> Vec<LoadgenComparison> {
    let read = HarnessTimes::new(&measured.requests().to_vec());
    let harness_times =
        HarnessTimes::new(&with_reported_times(measured, reported, scenario != MlperfScenario::Offline));
    let mut comparisons = Vec::new();
    let mut compare = |key: &str, unit: &str, scale: f64, value: &dyn Fn(&HarnessTimes) -> Option<f64>| {
        if let Some(number) = detail.number(key) {
            comparisons.push(LoadgenComparison::new(key, unit, number * scale, value(&read), value(&harness_times)));
        }
    };
    if let Some([tokens, samples]) = scenario.rates() {
        // Offline's samples are one query; else the first query begins the time.
        let (first, end): (f64, fn(&HarnessTimes) -> u64) = match scenario {
            MlperfScenario::Offline => (0.0, |ours| ours.last_end),
            _ => (1.0, |ours| ours.end_of_last),
        };
        compare(samples, "1/s", 1.0, &|ours| ours.per_second(ours.count() - first, end(ours)));
        compare(tokens, "1/s", 1.0, &|ours| ours.per_second(ours.tokens, end(ours)));
    }
    if scenario != MlperfScenario::Offline {
        for (name, p) in [("50.00", 0.5), ("99.00", 0.99)] {
            compare(&format!("result_first_token_{name}_percentile_latency_ns"), "ms", MS, &|ours| at(&ours.ttft, p));
            compare(&format!("result_time_per_output_token_{name}_percentile_ns"), "ms", MS, &|ours| at(&ours.tpot, p));
        }
        compare("result_first_token_mean_latency_ns", "ms", MS, &|ours| mean(&ours.ttft));
        compare("result_time_to_output_token_mean", "ms", MS, &|ours| mean(&ours.tpot));
    }
    for (name, p) in [("50.00", 0.5), ("99.00", 0.99)] {
        compare(&format!("result_{name}_percentile_latency_ns"), "ms", MS, &|ours| at(&ours.latency, p));
    }
    compare("result_mean_latency_ns", "ms", MS, &|ours| mean(&ours.latency));
    comparisons
}

/// The same requests with the instants at which LoadGen received the reports; it numbers them as we do, in call order.
fn with_reported_times(measured: &UnjudgedRun, reported: &ReporterOutput, has_firsts: bool) -> Vec<RequestRecord> {
    let mut records = measured.requests().to_vec();
    let at = |instant: Instant| instant.saturating_duration_since(measured.zero()).as_nanos() as u64;
    let place: HashMap<u64, usize> = records.iter().enumerate().map(|(place, record)| (record.index, place)).collect();
    for (ticket, instant) in reported.firsts.iter().filter(|_| has_firsts) {
        if let Some(record) = place.get(ticket).map(|place| &mut records[*place]) {
            record.t_first = Some(at(*instant));
        }
    }
    for (ticket, instant) in &reported.answers {
        if let Some(record) = place.get(ticket).map(|place| &mut records[*place]) {
            record.t_end = at(*instant);
        }
    }
    records
}

/// ms where they are times, sorted.
struct HarnessTimes {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    latency: Vec<f64>,
    tokens: f64,
    /// ns from the first call to the last end of any request, and to the end of the request that was issued last.
    last_end: u64,
    end_of_last: u64,
}

impl HarnessTimes {
    fn new(records: &[RequestRecord]) -> Self {
        let good: Vec<&RequestRecord> = records.iter().filter(|record| record.ended == RequestEnd::Ok).collect();
        let sorted = |value: &dyn Fn(&RequestRecord) -> Option<f64>| {
            let mut values: Vec<f64> = good.iter().filter_map(|record| value(record)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let since = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
        Self {
            ttft: sorted(&|record| Some(since(record.t_sched, record.t_first?))),
            tpot: sorted(&|record| {
                (record.tokens > 1).then_some(())?;
                Some(since(record.t_first?, record.t_end) / f64::from(record.tokens - 1))
            }),
            latency: sorted(&|record| Some(since(record.t_sched, record.t_end))),
            tokens: good.iter().map(|record| f64::from(record.tokens)).sum(),
            last_end: good.iter().map(|record| record.t_end).max().unwrap_or(0),
            end_of_last: good.iter().max_by_key(|record| record.index).map_or(0, |record| record.t_end),
        }
    }

    fn count(&self) -> f64 {
        self.latency.len() as f64
    }

    fn per_second(&self, count: f64, ns: u64) -> Option<f64> {
        (ns > 0 && !self.latency.is_empty()).then(|| count / (ns as f64 / NS))
    }
}

fn at(sorted: &[f64], p: f64) -> Option<f64> {
    sorted.get((sorted.len() as f64 * p) as usize).copied()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// One line: the number that decides the scenario.
pub fn headline(detail: &Detail, scenario: MlperfScenario) -> String {
    let per_second = |key: &str, what: &str| detail.number(key).map(|value| format!("{value:.2} {what}"));
    let ms = |key: &str, what: &str| detail.number(key).map(|ns| format!("{what} {:.2} ms", ns / 1e6));
    let rates =
        scenario.rates().map(|[tokens, samples]| [per_second(tokens, "tok/s"), per_second(samples, "samples/s")]);
    let latencies = match scenario {
        MlperfScenario::Offline => [None, None],
        MlperfScenario::Server | MlperfScenario::Interactive => [
            ms("result_first_token_99.00_percentile_latency_ns", "TTFT p99"),
            ms("result_time_per_output_token_99.00_percentile_ns", "TPOT p99"),
        ],
        MlperfScenario::SingleStream => [
            ms("result_90.00_percentile_latency_ns", "latency p90"),
            ms("result_first_token_90.00_percentile_latency_ns", "TTFT p90"),
        ],
    };
    rates.into_iter().flatten().chain(latencies).flatten().collect::<Vec<_>>().join("  ")
}
