//! One benchmark of one point: the twin of its server, its load, and what the twin answers.

use base::diag::ErrorText;
use base::spec::{LatencyLimit, LimitedMetric, Statistic};
use report::{NearbyTtft, WhatIfNumbers, WhatIfRow};
use sim::{EngineLimits, EngineServing, VirtualBenchmark, VirtualResult, VirtualWorkload};

/// Rates of a curve, as shares of the highest one.
const CURVE: [f64; 9] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 1.0, 1.05];

/// One benchmark of one point.
#[derive(Clone)]
pub(super) struct Question {
    pub row: WhatIfRow,
    pub twin: Option<(sim::EngineSpec, EngineServing)>,
    pub workload: VirtualWorkload,
    pub is_offline: bool,
    /// The benchmark's own number, where a setting of the grid gives it.
    pub requests: Option<usize>,
    /// Empty: measure at the rate.
    pub limits: Vec<LatencyLimit>,
    pub rate: Option<f64>,
    /// The command's words without the rate, and the key of the rate.
    pub rate_key: String,
}

impl Question {
    pub fn answer(&self, requests: usize, has_curve: bool) -> WhatIfRow {
        let mut row = self.row.clone();
        if let Some((spec, serving)) = &self.twin {
            let server = sim::served_limits(spec, serving).map_err(ErrorText::new);
            row.outcome = server.clone().and_then(|server| self.numbers(&server, requests));
            if let (Ok(server), Ok(WhatIfNumbers { rate: Some(rate), .. })) = (&server, &row.outcome) {
                let at = |share: f64| self.at(server, requests, share * rate);
                row.nearby = Some(nearby(at, spec.basis().band()));
                if has_curve {
                    let numbers = |share| Some(numbers_of(Some(share * rate), &at(share)?));
                    row.curve = CURVE.into_iter().filter_map(numbers).collect();
                }
            }
        }
        if let Ok(WhatIfNumbers { rate: Some(rate), .. }) = row.outcome {
            // A rate that was given is that one; one that was found is not rounded up, where the limits may not hold.
            let rate = if self.limits.is_empty() { rate } else { rounded_down(rate) };
            row.command = with_rate(&row.command, &self.rate_key, rate);
        }
        row
    }

    fn numbers(&self, server: &EngineLimits, requests: usize) -> Result<WhatIfNumbers, ErrorText> {
        let (benchmark, count) = (self.benchmark(server), self.count(server, requests));
        if self.is_offline || self.limits.is_empty() {
            let rate = if self.is_offline { None } else { self.rate };
            return Ok(numbers_of(rate, &benchmark.served(count, rate).map_err(ErrorText::new)?));
        }
        let capacity = benchmark.capacity(count, &self.limits).map_err(ErrorText::new)?;
        if capacity.rate == 0.0 {
            return Err(ErrorText::new("the limits do not hold at any rate"));
        }
        Ok(numbers_of(Some(capacity.rate), &capacity.result))
    }

    fn benchmark<'a>(&'a self, server: &'a EngineLimits) -> VirtualBenchmark<'a> {
        VirtualBenchmark::new(server, self.row.servers, &self.workload)
    }

    /// Each server has enough requests to fill it several times; at once, until its beginning and its end are a small
    /// part of the time.
    fn count(&self, server: &EngineLimits, requests: usize) -> usize {
        let fillings = if self.is_offline { 20 } else { 4 };
        self.requests.unwrap_or_else(|| requests.max(self.row.servers * server.max_batch_size * fillings))
    }

    /// The same load at another rate.
    fn at(&self, server: &EngineLimits, requests: usize, rate: f64) -> Option<VirtualResult> {
        let (benchmark, count) = (self.benchmark(server), self.count(server, requests));
        let result = match &self.limits[..] {
            [] => benchmark.served(count, Some(rate)),
            limits => benchmark.judged_at(count, limits, rate),
        };
        result.ok()
    }
}

/// TTFT near a rate, with the result at a multiple of it. Servers that are slower by a share are as full at the rate as
/// the simulated ones at a higher one, and all that they do takes longer by as much.
fn nearby(at: impl Fn(f64) -> Option<VirtualResult>, (low, high): (f64, f64)) -> NearbyTtft {
    let ttft = |rate: f64, time: f64| {
        let numbers = numbers_of(None, &at(rate).filter(VirtualResult::keeps_up)?);
        Some((time * numbers.ttft_p50?, time * numbers.ttft_p99?))
    };
    let with_speed = |speed: f64| if speed > 0.0 { ttft(1.0 / speed, 1.0 / speed) } else { None };
    let one_percent_more_requests = ttft(1.01, 1.0);
    NearbyTtft {
        one_percent_more_requests,
        upper_end_of_band: with_speed(high),
        // Servers that fall behind at a little more would at much more, which takes long to simulate.
        lower_end_of_band: one_percent_more_requests.and_then(|_| with_speed(low)),
    }
}

/// A command with its rate, in place of one that was given.
fn with_rate(command: &str, key: &str, rate: f64) -> String {
    let is_given = |word: &str| word.strip_prefix(key).is_some_and(|rest| rest.starts_with('='));
    let words: Vec<&str> = command.split(' ').filter(|word| !is_given(word)).collect();
    format!("{} {key}={rate}", words.join(" "))
}

/// To two decimals, and below 1 to three digits that count.
fn rounded_down(rate: f64) -> f64 {
    let decimals = 2 - (rate.log10().floor() as i32).min(0);
    let scale = 10f64.powi(decimals);
    // The rounding error of the multiplication must not push the result a step lower.
    (rate * scale * (1.0 + f64::EPSILON)).floor() / scale
}

fn numbers_of(rate: Option<f64>, result: &VirtualResult) -> WhatIfNumbers {
    // TTFT and TPOT are kept in virtual time.
    let value = |metric, statistic| result.statistic(metric, statistic).ok().flatten();
    WhatIfNumbers {
        rate,
        tokens_per_second: VirtualResult::tokens_per_second(result),
        ttft_p50: value(LimitedMetric::Ttft, Statistic::P50),
        ttft_p99: value(LimitedMetric::Ttft, Statistic::P99),
        tpot_p50: value(LimitedMetric::Tpot, Statistic::P50),
        tpot_p99: value(LimitedMetric::Tpot, Statistic::P99),
        pauses: result.pauses,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn servers_that_are_half_as_fast_are_as_full_at_half_the_rate_and_take_twice_as_long() {
        let at = |rate: f64| Some(VirtualResult { ttft: vec![100.0 * rate], ..VirtualResult::default() });
        let near = nearby(at, (0.5, 2.0));
        assert_eq!(near.one_percent_more_requests, Some((101.0, 101.0)));
        assert_eq!(near.lower_end_of_band, Some((400.0, 400.0)));
        assert_eq!(near.upper_end_of_band, Some((25.0, 25.0)));
        assert_eq!(nearby(at, (0.0, 2.0)).lower_end_of_band, None);
    }

    #[test]
    fn a_rate_takes_the_place_of_the_given_one() {
        let command = with_rate("regatta run quickstart scenarios=server rate=5 rates=[1, 2]", "rate", 32.37);
        assert_eq!(command, "regatta run quickstart scenarios=server rates=[1, 2] rate=32.37");
    }

    #[test]
    fn a_low_rate_is_not_rounded_to_another_one() {
        let rounded =
            [0.008, 0.019, 0.012_345_6, 0.29, 4.119, 57.125, 1234.567].map(|rate| rounded_down(rate).to_string());
        assert_eq!(rounded, ["0.008", "0.019", "0.0123", "0.29", "4.11", "57.12", "1234.56"]);
    }
}
