//! What a fleet did, in a size that does not grow with the number of its requests.

use hdrhistogram::Histogram;

/// Latencies are counted in µs, up to a day.
const MOST: u64 = 86_400_000_000;
/// Significant digits: of the whole time, and of an hour.
const DIGITS: u8 = 3;
const HOUR_DIGITS: u8 = 2;
const HOUR: u64 = 3_600_000_000_000;

/// One hour: the requests that arrived in it, with their latencies, and the tokens of the answers that ended in it.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetHour {
    pub requests: u64,
    /// Of servers that fall behind less than what the requests of this hour want.
    pub output_tokens: u64,
    /// µs.
    pub ttft: Histogram<u64>,
    pub tpot: Histogram<u64>,
}

/// The result of a fleet. All of its numbers are whole: sums of parts are the same in any order.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetResult {
    pub arrived: u64,
    pub answered: u64,
    pub output_tokens: u64,
    /// Failures of replicas, and requests that began again because of them.
    pub failures: u64,
    pub retried: u64,
    /// Requests whose prefix was in the KV cache.
    pub prefix_hits: u64,
    /// Replicas that were simulated, the time in which they computed, and their steps.
    pub replicas: u64,
    pub busy_ns: u64,
    pub steps: u64,
    /// The length of the load, and when the last token came, nanoseconds.
    pub load_ns: u64,
    pub end: u64,
    /// µs.
    pub ttft: Histogram<u64>,
    pub tpot: Histogram<u64>,
    pub e2e: Histogram<u64>,
    pub hours: Vec<FleetHour>,
}

fn histogram(digits: u8) -> Histogram<u64> {
    // The bounds are right: it cannot fail.
    Histogram::new_with_bounds(1, MOST, digits).expect("bounds of a histogram")
}

impl FleetResult {
    pub(super) fn empty(seconds: f64) -> Self {
        let hour =
            FleetHour { requests: 0, output_tokens: 0, ttft: histogram(HOUR_DIGITS), tpot: histogram(HOUR_DIGITS) };
        Self {
            arrived: 0,
            answered: 0,
            output_tokens: 0,
            failures: 0,
            retried: 0,
            prefix_hits: 0,
            replicas: 0,
            busy_ns: 0,
            steps: 0,
            load_ns: (seconds * 1e9) as u64,
            end: 0,
            ttft: histogram(DIGITS),
            tpot: histogram(DIGITS),
            e2e: histogram(DIGITS),
            hours: vec![hour; ((seconds / 3600.0).ceil() as usize).max(1)],
        }
    }

    fn hour(&mut self, at: u64) -> &mut FleetHour {
        let last = self.hours.len() - 1;
        &mut self.hours[((at / HOUR) as usize).min(last)]
    }

    pub(super) fn arrived(&mut self, at: u64) {
        self.arrived += 1;
        self.hour(at).requests += 1;
    }

    pub(super) fn answered(&mut self, arrival: u64, first: u64, last: u64, tokens: u64) {
        self.answered += 1;
        self.output_tokens += tokens;
        self.end = self.end.max(last);
        let us = |from: u64, to: u64| (to.saturating_sub(from) / 1000).max(1);
        let ttft = us(arrival, first);
        self.ttft.saturating_record(ttft);
        self.e2e.saturating_record(us(arrival, last));
        let tpot = (tokens > 1).then(|| us(first, last) / (tokens - 1));
        self.tpot.saturating_record_n(tpot.unwrap_or(1), u64::from(tpot.is_some()));
        // What is produced after the load is of none of its hours.
        if last < self.load_ns {
            self.hour(last).output_tokens += tokens;
        }
        let hour = self.hour(arrival);
        hour.ttft.saturating_record(ttft);
        hour.tpot.saturating_record_n(tpot.unwrap_or(1), u64::from(tpot.is_some()));
    }

    pub(super) fn failed(&mut self, requests: u64) {
        self.failures += 1;
        self.retried += requests;
    }

    /// The part of some replicas.
    pub(super) fn served_by(&mut self, replicas: usize, busy_ns: u64, steps: u64) {
        self.replicas += replicas as u64;
        self.busy_ns += busy_ns;
        self.steps += steps;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.answered += other.answered;
        self.output_tokens += other.output_tokens;
        self.failures += other.failures;
        self.retried += other.retried;
        self.prefix_hits += other.prefix_hits;
        self.replicas += other.replicas;
        self.busy_ns += other.busy_ns;
        self.steps += other.steps;
        self.end = self.end.max(other.end);
        // Of the same bounds: adding cannot fail.
        for (sum, part) in [(&mut self.ttft, &other.ttft), (&mut self.tpot, &other.tpot), (&mut self.e2e, &other.e2e)] {
            sum.add(part).expect("histograms of the same bounds");
        }
        for (sum, part) in self.hours.iter_mut().zip(&other.hours) {
            sum.requests += part.requests;
            sum.output_tokens += part.output_tokens;
            sum.ttft.add(&part.ttft).expect("histograms of the same bounds");
            sum.tpot.add(&part.tpot).expect("histograms of the same bounds");
        }
    }

    /// How long after the end of the load the last token came, seconds.
    pub fn late_s(&self) -> f64 {
        self.end.saturating_sub(self.load_ns) as f64 / 1e9
    }

    /// The share of the replicas' time in which they computed.
    pub fn busy_share(&self) -> f64 {
        let time = self.replicas as f64 * self.end as f64;
        if time > 0.0 { self.busy_ns as f64 / time } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn tokens_are_of_the_hour_in_which_their_answer_ends() {
        let mut result = FleetResult::empty(7_200.0);
        for ([arrival, first, last], tokens) in
            [([10, 11, 20], 100), ([3_590, 3_595, 3_610], 50), ([7_190, 7_195, 7_300], 30)]
        {
            let at = |seconds: u64| seconds * 1_000_000_000;
            result.arrived(at(arrival));
            result.answered(at(arrival), at(first), at(last), tokens);
        }
        let hours: Vec<(u64, u64)> = result.hours.iter().map(|hour| (hour.requests, hour.output_tokens)).collect();
        assert_eq!(hours, [(2, 100), (1, 50)]);
        // The last answer is of the fleet, and of no hour of the load.
        assert_eq!((result.output_tokens, result.late_s()), (180, 100.0));
    }
}
