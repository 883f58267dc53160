//! The schedule: every arrival and every length, before anything runs. Pure.

use super::arrival::Times;
use super::payload::{self, GENERATOR};
use super::{HarnessError, Spec};
use crate::event::{Digest, Hasher};

/// A frozen schedule. Prompts are not kept; `prompt` draws them again.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub requests: Vec<Planned>,
    /// Of all offsets and lengths, and of what prompts are drawn from. Equal digests: equal requests at equal times.
    pub digest: Digest,
    seed: u64,
    vocab_size: u32,
    end_id: i32,
}

/// One request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Intended arrival, ns from the start.
    pub at_ns: u64,
    /// Tokens.
    pub input_len: u32,
    /// Tokens asked for.
    pub output_len: u32,
}

/// A schedule is kept whole, 16 bytes a request; beyond this something was mistyped.
const MOST: usize = 50_000_000;

/// Draws the schedule. Errors name what the spec lacks.
pub fn plan(spec: &Spec) -> Result<Schedule, HarnessError> {
    spec.check()?;
    let least = spec.stop.requests.unwrap_or(0);
    let until_ns = spec.stop.duration.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let is_timed = matches!(spec.scenario, super::Scenario::Server { .. });
    // The rate is that of requests: messages of several arrive so much more rarely.
    let batch = spec.request.batch();
    let scenario = match spec.scenario {
        super::Scenario::Server { rate } => super::Scenario::Server { rate: rate / batch as f64 },
        offline @ super::Scenario::Offline => offline,
    };
    let messages = Times::new(scenario, spec.arrivals, spec.seed);
    let mut requests = Vec::new();
    for (index, at_ns) in messages.flat_map(|at_ns| std::iter::repeat_n(at_ns, batch)).enumerate() {
        let index = index as u64;
        if index >= least && !(is_timed && at_ns < until_ns) {
            break;
        }
        if requests.len() == MOST {
            return Err(HarnessError::Spec(format!("the schedule has more than {MOST} requests")));
        }
        requests.push(Planned {
            at_ns,
            input_len: payload::length(&spec.input_len, "input", spec.seed, index),
            output_len: payload::length(&spec.output_len, "output", spec.seed, index),
        });
    }
    if requests.is_empty() {
        return Err(HarnessError::Spec("no request arrives before the duration is over".to_owned()));
    }
    let mut hasher = Hasher::new();
    hasher.field(GENERATOR.as_bytes()).field(&spec.seed.to_le_bytes());
    hasher.field(&spec.vocab_size.to_le_bytes()).field(&spec.end_id.to_le_bytes());
    if batch > 1 {
        hasher.field(&(batch as u64).to_le_bytes());
    }
    for request in &requests {
        hasher.field(&request.at_ns.to_le_bytes());
        hasher.field(&request.input_len.to_le_bytes()).field(&request.output_len.to_le_bytes());
    }
    let digest = hasher.finish();
    Ok(Schedule { requests, digest, seed: spec.seed, vocab_size: spec.vocab_size, end_id: spec.end_id })
}

impl Schedule {
    /// The prompt of request `index`, or of a warm-up request when the index lies beyond the schedule.
    pub fn prompt(&self, index: u64, input_len: u32) -> Vec<i32> {
        payload::prompt(self.seed, index, input_len, self.vocab_size, self.end_id)
    }

    /// From the first to the last intended arrival, ns.
    pub(super) fn span_ns(&self) -> u64 {
        match (self.requests.first(), self.requests.last()) {
            (Some(first), Some(last)) => last.at_ns - first.at_ns,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::selfcheck::ks_distance_to_exponential;
    use super::super::{Arrivals, Length, Limits, Request, Scenario, Slo, Until};
    use super::*;

    fn spec(scenario: Scenario, arrivals: Arrivals, stop: Until, seed: u64) -> Spec {
        Spec {
            endpoints: vec!["127.0.0.1:1".parse().unwrap()],
            protocol: crate::harness::Protocol::Kserve,
            model: "tensorrt_llm".to_owned(),
            scenario,
            arrivals,
            stop,
            input_len: Length::Uniform { min: 5, max: 50 },
            output_len: Length::Normal { mean: 20.0, stddev: 5.0, min: 1, max: 40 },
            seed,
            warmup: 0,
            frontends: 1,
            clients: 1,
            stall_timeout: Duration::from_secs(1),
            limits: Limits::default(),
            slo: Slo::default(),
            timelines: false,
            vocab_size: 1000,
            end_id: 2,
            request: Request::default(),
        }
    }

    fn requests(count: u64) -> Until {
        Until { requests: Some(count), duration: None }
    }

    proptest! {
        #[test]
        fn a_longer_plan_extends_a_shorter_one(seed: u64, short in 1u64..50, more in 0u64..50, poisson: bool) {
            let law = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let server = Scenario::Server { rate: 40.0 };
            let short_plan = plan(&spec(server, law, requests(short), seed)).unwrap();
            let long_plan = plan(&spec(server, law, requests(short + more), seed)).unwrap();
            prop_assert_eq!(&long_plan.requests[..short as usize], &short_plan.requests[..]);
            prop_assert_eq!(long_plan.digest == short_plan.digest, more == 0);
            prop_assert!(long_plan.requests.is_sorted_by_key(|request| request.at_ns));
        }

        #[test]
        fn requests_and_duration_take_whichever_is_longer(seed: u64, count in 1u64..100, ms in 1u64..2000) {
            let server = Scenario::Server { rate: 50.0 };
            let both = Until { requests: Some(count), duration: Some(Duration::from_millis(ms)) };
            let plan = plan(&spec(server, Arrivals::Poisson, both, seed)).unwrap();
            let before = plan.requests.iter().filter(|request| request.at_ns < ms * 1_000_000).count();
            prop_assert_eq!(plan.requests.len(), before.max(count as usize));
        }
    }

    #[test]
    fn poisson_gaps_pass_a_kolmogorov_smirnov_test() {
        // Fixed seeds: the outcome is the same for ever. 1.95/√n is the critical distance at 0.1 %.
        for seed in 0..20 {
            let server = Scenario::Server { rate: 100.0 };
            let plan = plan(&spec(server, Arrivals::Poisson, requests(4_000), seed)).unwrap();
            let at: Vec<u64> = plan.requests.iter().map(|request| request.at_ns).collect();
            let distance = ks_distance_to_exponential(&at, 100.0).unwrap();
            assert!(distance < 1.95 / (3_999f64).sqrt(), "seed {seed}: {distance}");
        }
    }

    #[test]
    fn requests_of_one_message_arrive_together_at_the_rate_of_requests() {
        let mut batched = spec(Scenario::Server { rate: 10.0 }, Arrivals::Constant, requests(5), 0);
        batched.request.batch = Some(2);
        let at: Vec<u64> = plan(&batched).unwrap().requests.iter().map(|request| request.at_ns / 1_000_000).collect();
        assert_eq!(at, [0, 0, 200, 200, 400]);
    }

    #[test]
    fn constant_arrivals_are_exact() {
        let plan =
            plan(&spec(Scenario::Server { rate: 3.0 }, Arrivals::Constant, requests(3_001), 0)).unwrap().requests;
        assert_eq!(plan[1].at_ns, 333_333_333);
        assert_eq!(plan[3_000].at_ns, 1_000_000_000_000);
    }

    #[test]
    fn offline_arrives_at_once() {
        let plan = plan(&spec(Scenario::Offline, Arrivals::Poisson, requests(10), 0)).unwrap();
        assert!(plan.requests.len() == 10 && plan.requests.iter().all(|request| request.at_ns == 0));
    }

    #[test]
    fn what_cannot_be_planned_says_why() {
        let server = Scenario::Server { rate: 0.0 };
        let why = |spec: &Spec| plan(spec).unwrap_err().to_string();
        assert!(why(&spec(server, Arrivals::Poisson, requests(1), 0)).contains("rate above 0"));
        assert!(why(&spec(Scenario::Offline, Arrivals::Poisson, Until::default(), 0)).contains("number of requests"));
        let mut wrong = spec(Scenario::Offline, Arrivals::Poisson, requests(1), 0);
        wrong.input_len = Length::Uniform { min: 9, max: 3 };
        assert!(why(&wrong).contains("min is above max"));
    }
}
