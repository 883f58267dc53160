//! What a load measured, in virtual time.

use super::capacity::{CapacityError, UnknownMetric};
use crate::core::{Served, SimulatedRequest};
use base::spec::{LatencyLimit, LimitedMetric, Statistic};

/// Servers that end later than this share of the load's time have fallen behind.
const BEHIND: f64 = 0.03;

/// Per-token gaps are not kept.
pub const fn is_in_virtual_time(metric: LimitedMetric) -> bool {
    matches!(metric, LimitedMetric::Ttft | LimitedMetric::Tpot | LimitedMetric::E2e)
}

/// The result of a load on one or several servers. Latencies are sorted, ms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VirtualResult {
    pub requests: usize,
    pub output_tokens: u64,
    /// From the first arrival to the last token, seconds.
    pub seconds: f64,
    /// Of the last arrival, seconds.
    pub last_arrival: f64,
    /// The longest time from a first token to the last one, seconds.
    pub longest_answer: f64,
    pub steps: u64,
    /// How often a request lost its KV cache and computed again.
    pub pauses: u64,
    pub ttft: Vec<f64>,
    pub tpot: Vec<f64>,
    pub e2e: Vec<f64>,
}

impl VirtualResult {
    /// Adds the requests of one server.
    pub(super) fn add(&mut self, load: &[SimulatedRequest], served: &[Served], steps: u64) {
        self.steps += steps;
        for (request, served) in load.iter().zip(served) {
            self.requests += 1;
            self.output_tokens += served.tokens;
            self.pauses += u64::from(served.pauses);
            self.seconds = self.seconds.max(served.last as f64 / 1e9);
            self.last_arrival = self.last_arrival.max(request.at as f64 / 1e9);
            self.longest_answer = self.longest_answer.max(served.last.saturating_sub(served.first) as f64 / 1e9);
            let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
            self.ttft.push(ms(request.at, served.first));
            self.e2e.push(ms(request.at, served.last));
            if served.tokens > 1 {
                self.tpot.push(ms(served.first, served.last) / (served.tokens - 1) as f64);
            }
        }
    }

    /// This many servers that did the same. The latencies are those of one.
    pub(super) fn times(&mut self, servers: usize) {
        self.requests *= servers;
        self.output_tokens *= servers as u64;
        self.steps *= servers as u64;
        self.pauses *= servers as u64;
    }

    pub(super) fn sort(&mut self) {
        for values in [&mut self.ttft, &mut self.tpot, &mut self.e2e] {
            values.sort_by(f64::total_cmp);
        }
    }

    pub fn tokens_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.output_tokens as f64 / self.seconds } else { 0.0 }
    }

    /// One number of one latency, ms. `None`: no request has this latency, as answers of one token have no TPOT.
    pub fn statistic(&self, metric: LimitedMetric, statistic: Statistic) -> Result<Option<f64>, UnknownMetric> {
        let values = match metric {
            LimitedMetric::Ttft => &self.ttft,
            LimitedMetric::Tpot => &self.tpot,
            LimitedMetric::E2e => &self.e2e,
            LimitedMetric::Itl | LimitedMetric::Icl | LimitedMetric::MaxStall => return Err(UnknownMetric),
        };
        if values.is_empty() {
            return Ok(None);
        }
        Ok(Some(match statistic.quantile() {
            None => values.iter().sum::<f64>() / values.len() as f64,
            Some(share) => values[((values.len() as f64 * share) as usize).min(values.len() - 1)],
        }))
    }

    /// Whether the servers kept up: they end not much later than the last request would alone.
    fn keeps_up(&self) -> bool {
        self.seconds - self.last_arrival <= self.longest_answer + BEHIND * self.last_arrival
    }

    /// Whether the servers keep up and every limit holds.
    pub(super) fn holds(&self, limits: &[LatencyLimit]) -> Result<bool, CapacityError> {
        if !self.keeps_up() {
            return Ok(false);
        }
        for limit in limits {
            let found = self.statistic(limit.metric, limit.statistic)?;
            if found.ok_or(CapacityError::NoValue { limit: *limit })? > limit.ms {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
