//! Loads on disaggregated servers in virtual time.

use super::capacity::{Capacity, CapacityError, judged_count, search};
use super::latencies::VirtualResult;
use super::workload::VirtualWorkload;
use crate::core::{EngineLimits, NeverFits, Served, SimulatedRequest};
use crate::fleet::{DisaggregatedAnswer, Disaggregation, FleetArrival, ServerFailures, run_disaggregated};
use base::spec::LatencyLimit;

/// Context servers and generation servers, each a copy of one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct DisaggregatedServers {
    pub server: EngineLimits,
    pub setup: Disaggregation,
}

impl DisaggregatedServers {
    /// Poisson arrivals at a rate, or all requests at once.
    pub fn served(
        &self,
        workload: &VirtualWorkload,
        count: usize,
        rate: Option<f64>,
    ) -> Result<VirtualResult, NeverFits> {
        let load = workload.requests(count, rate);
        let mut served = vec![Served::default(); load.len()];
        let arrivals = load.iter().map(arrival);
        let work = run_disaggregated(&self.server, &self.setup, None, ServerFailures::default(), arrivals, |answer| {
            let DisaggregatedAnswer { number, arrival, first, last, pauses } = answer;
            served[number as usize] = Served { first, last, tokens: arrival.osl, pauses };
        })?;
        let mut result = VirtualResult::default();
        result.add(&load, &served, work.steps);
        result.sort();
        Ok(result)
    }

    /// Like `served`, for a load of a time in which limits can be judged.
    pub fn judged_at(
        &self,
        workload: &VirtualWorkload,
        count: usize,
        limits: &[LatencyLimit],
        rate: f64,
    ) -> Result<VirtualResult, NeverFits> {
        self.served(workload, judged_count(count, limits, rate), Some(rate))
    }

    /// The highest rate at which the limits hold and the servers keep up.
    pub fn capacity(
        &self,
        workload: &VirtualWorkload,
        count: usize,
        limits: &[LatencyLimit],
    ) -> Result<Capacity, CapacityError> {
        let full = self.served(workload, count, None)?;
        search(&full, |rate| self.judged_at(workload, count, limits, rate), limits)
    }
}

const fn arrival(request: &SimulatedRequest) -> FleetArrival {
    let SimulatedRequest { at, isl, osl, adapter } = *request;
    FleetArrival { at, isl, osl, prefix: None, adapter }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::spec;
    use crate::fleet::Balancer;
    use crate::served_limits::{EngineServing, served_limits};
    use crate::virtual_load::served_at;
    use base::spec::{Length, LimitedMetric, SimCalibration, SimScheduler, Statistic};

    fn servers(scheduler: SimScheduler, contexts: usize, generations: usize, kv_link_gbs: f64) -> DisaggregatedServers {
        let calibration = SimCalibration { scheduler, ..SimCalibration::default() };
        let spec = crate::EngineSpec { calibration, ..spec() };
        DisaggregatedServers {
            server: served_limits(&spec, &EngineServing::default()).unwrap(),
            setup: Disaggregation {
                context_servers: contexts,
                generation_servers: generations,
                router: Balancer::LeastLoad,
                kv_link_gbs,
            },
        }
    }

    fn workload(isl: u32, osl: u32) -> VirtualWorkload {
        VirtualWorkload {
            input_tokens: Length::Fixed(isl),
            output_tokens: Length::Fixed(osl),
            adapters: Vec::new(),
            seed: 4,
        }
    }

    fn number(result: &VirtualResult, metric: LimitedMetric, statistic: Statistic) -> f64 {
        result.statistic(metric, statistic).unwrap().unwrap()
    }

    #[test]
    fn a_request_alone_waits_for_its_cache_to_cross_the_link() {
        for scheduler in [SimScheduler::TensorrtLlm, SimScheduler::Vllm] {
            let ttft = |gbs| {
                let servers = servers(scheduler, 1, 1, gbs);
                let result = servers.served(&workload(1500, 20), 1, Some(1.0)).unwrap();
                assert_eq!((result.requests, result.output_tokens), (1, 20));
                (number(&result, LimitedMetric::Ttft, Statistic::P50), servers.server.kv_bytes_per_token)
            };
            let ((fast, bytes), (slow, _)) = (ttft(100.0), ttft(1.0));
            // ms: bytes of the cache over GB/s.
            let longer = bytes * 1500.0 / 1e6 * (1.0 - 0.01);
            assert!((slow - fast - longer).abs() < 0.01, "{scheduler:?} {slow} {fast} {longer}");
        }
    }

    #[test]
    fn every_request_is_answered_once_with_all_of_its_tokens() {
        for scheduler in [SimScheduler::TensorrtLlm, SimScheduler::Vllm] {
            for osl in [1, 2, 30] {
                let result = servers(scheduler, 2, 3, 20.0).served(&workload(300, osl), 500, Some(80.0)).unwrap();
                assert_eq!((result.requests, result.output_tokens), (500, 500 * u64::from(osl)));
                assert!(result.ttft.iter().all(|ttft| *ttft > 0.0));
                let again = servers(scheduler, 2, 3, 20.0).served(&workload(300, osl), 500, Some(80.0)).unwrap();
                assert_eq!(result, again);
            }
        }
    }

    /// What disaggregation is for: prompts do not delay the tokens of others.
    #[test]
    fn prompts_no_longer_delay_the_tokens_of_others() {
        let workload = workload(2000, 100);
        let apart = servers(SimScheduler::Vllm, 2, 2, 50.0);
        let p99 = |result: &VirtualResult| number(result, LimitedMetric::Tpot, Statistic::P99);
        let together = served_at(&apart.server, 4, &workload, 2000, 60.0).unwrap();
        let disaggregated = apart.served(&workload, 2000, Some(60.0)).unwrap();
        assert!(p99(&disaggregated) < 0.8 * p99(&together), "{} {}", p99(&disaggregated), p99(&together));
        // Too few context servers are the limit of all.
        let few = servers(SimScheduler::Vllm, 1, 3, 50.0);
        let tokens =
            |servers: &DisaggregatedServers| servers.served(&workload, 2000, None).unwrap().tokens_per_second();
        assert!(tokens(&few) < tokens(&apart));
    }
}
