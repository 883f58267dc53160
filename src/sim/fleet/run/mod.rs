//! All balancers of a fleet, on several threads.

use std::thread;

use super::arrivals::{Balancer, FailureTimes, Failures, FleetArrivals, PrefixCache, RateOverTime};
use super::disaggregated::{Disaggregation, ServerFailures, run_disaggregated};
use super::replica::{Balanced, Replica};
use super::result::FleetResult;
use crate::core::{EngineLimits, NeverFits};
use crate::random::mix;
use crate::virtual_load::VirtualWorkload;
use base::spec::Prefixes;

/// A fleet and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Each replica is one copy of this engine.
    pub server: EngineLimits,
    pub policy: Balancer,
    /// Balancers, each with an equal share of the arrivals and its own replicas.
    pub balancers: usize,
    /// Of each balancer.
    pub replicas: usize,
    /// How many of the balancers are simulated; the others are like them.
    pub simulated: usize,
    pub rate: RateOverTime,
    pub workload: VirtualWorkload,
    pub prefixes: Option<Prefixes>,
    pub failures: Option<Failures>,
    /// Each replica is this many context servers and generation servers; all of a balancer are behind one router.
    pub disaggregation: Option<Disaggregation>,
}

/// Simulates the balancers on this many threads. The number of threads does not change the result.
pub fn run_fleet(fleet: &Fleet, threads: usize) -> Result<FleetResult, NeverFits> {
    let simulated = fleet.simulated.clamp(1, fleet.balancers.max(1));
    let threads = threads.clamp(1, simulated);
    let mut result = FleetResult::empty(fleet.rate.seconds());
    let parts: Vec<Result<FleetResult, NeverFits>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let mut sum = FleetResult::empty(fleet.rate.seconds());
                    for place in (worker..simulated).step_by(threads) {
                        sum.add(&one(fleet, place)?);
                    }
                    Ok(sum)
                })
            })
            .collect();
        // A thread of the simulation that panics has found a fault in it.
        workers.into_iter().map(|worker| worker.join().expect("a simulation's thread")).collect()
    });
    for part in parts {
        result.add(&part?);
    }
    Ok(result)
}

fn one(fleet: &Fleet, place: usize) -> Result<FleetResult, NeverFits> {
    let seed = mix(fleet.workload.seed.wrapping_add(mix(place as u64)));
    let arrivals = FleetArrivals::new(&fleet.rate, fleet.balancers.max(1), &fleet.workload, fleet.prefixes, seed);
    let failures = |servers: usize| {
        let times = |server| FailureTimes::new(fleet.failures, mix(seed.wrapping_add(server as u64)));
        (0..servers).map(times).collect::<Vec<_>>()
    };
    if let Some(setup) = fleet.disaggregation {
        let setup = setup.times(fleet.replicas.max(1));
        let servers = setup.context_servers + setup.generation_servers;
        let mut result = FleetResult::empty(fleet.rate.seconds());
        let fail = ServerFailures(failures(servers));
        let work = run_disaggregated(&fleet.server, &setup, fleet.prefixes, fail, arrivals, |answer| {
            result.arrived(answer.arrival.at);
            result.answered(answer.arrival.at, answer.first, answer.last, answer.arrival.osl);
        })?;
        result.served_by(servers, work.busy_ns.iter().sum(), work.steps);
        result.prefix_hits = work.prefix_hits;
        (result.failures, result.retried) = (work.failures, work.retried);
        return Ok(result);
    }
    let (prefixes, limits) = PrefixCache::new(&fleet.server, fleet.prefixes);
    let replicas = (0..fleet.replicas.max(1)).map(|_| Replica::new(&limits, prefixes.clone())).collect();
    let failures = failures(fleet.replicas.max(1));
    Balanced::new(fleet.policy, replicas, failures, FleetResult::empty(fleet.rate.seconds())).run(arrivals)
}

#[cfg(test)]
mod tests;
