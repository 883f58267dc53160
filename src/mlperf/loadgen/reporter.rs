//! The one thread that reports first tokens and answers to LoadGen.
//!
//! Load workers put their events into a channel and continue. Waiting events are reported in one batch: all first tokens
//! before all answers, so that no answer overtakes its own first token.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use hdrhistogram::Histogram;

use super::ffi::Reporter;
use harness::{ExternalObserver, ReportingDelay, RequestEnd};

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
