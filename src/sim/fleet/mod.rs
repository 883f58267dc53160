//! Fleets in virtual time: replicas behind balancers, for a day whose rate changes, with replicas that fail.
//!
//! A balancer has its own replicas and an equal share of the arrivals; balancers do not know of each other, so they are
//! simulated on several threads, with the same result as on one. Memory is bounded by the requests that are inside at
//! the same time: latencies are kept as histograms.

mod arrivals;
mod disaggregated;
mod replica;
mod result;

use std::thread;

use self::arrivals::{FailureTimes, FleetArrivals, PrefixCache};
use self::replica::{Balanced, Replica};
use crate::core::{EngineLimits, NeverFits};
use crate::random::mix;
use crate::virtual_load::VirtualWorkload;
pub(super) use arrivals::FleetArrival;
pub use arrivals::{Balancer, Failures, RateOverTime, RateOverTimeError};
use base::spec::Prefixes;
pub use disaggregated::Disaggregation;
pub(super) use disaggregated::{DisaggregatedAnswer, ServerFailures, run_disaggregated};
pub use result::{FleetHour, FleetResult};

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
        result.served_by(servers, work.busy_ns, work.steps);
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
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::core::tests::GOLDEN;
    use crate::core::{Chunking, Core, CoreRequest, SchedulerPolicy, SimulatedRequest, simulate};
    use crate::timing::Coefficients;
    use base::spec::Length;

    fn server(policy: SchedulerPolicy) -> EngineLimits {
        EngineLimits {
            policy,
            chunking: Chunking::FirstComeFirstServed,
            max_batch_size: 16,
            max_num_tokens: 2048,
            blocks: 400,
            tokens_per_block: 32,
            timing: Coefficients { frontend: 2e-3, ..GOLDEN },
            speculation: None,
            lora: None,
            kv_bytes_per_token: 131_072.0,
        }
    }

    fn fleet(policy: Balancer) -> Fleet {
        Fleet {
            server: server(SchedulerPolicy::Vllm),
            policy,
            balancers: 3,
            replicas: 4,
            simulated: 3,
            rate: RateOverTime::parse("0,150\n60,340\n120,150").unwrap(),
            workload: VirtualWorkload {
                input_tokens: Length::Lognormal { mean: 300.0, stddev: 200.0, min: 16, max: 1024 },
                output_tokens: Length::Lognormal { mean: 80.0, stddev: 50.0, min: 1, max: 400 },
                adapters: Vec::new(),
                seed: 11,
            },
            prefixes: None,
            failures: None,
            disaggregation: None,
        }
    }

    fn requests(fleet: &Fleet, seed: u64) -> Vec<SimulatedRequest> {
        FleetArrivals::new(&fleet.rate, fleet.balancers, &fleet.workload, None, seed)
            .map(|request| SimulatedRequest::new(request.at, request.isl, request.osl))
            .collect()
    }

    /// Every replica makes every step, and the balancer sees them all after each.
    fn eager(limits: &EngineLimits, replicas: usize, load: &[SimulatedRequest]) -> FleetResult {
        struct One {
            core: Core,
            now: u64,
            end: Option<u64>,
            entering: Vec<(u64, usize)>,
            inside: usize,
        }
        let mut result = FleetResult::empty(120.0);
        let mut first = vec![0; load.len()];
        let mut servers: Vec<One> = (0..replicas)
            .map(|_| One { core: Core::new(limits.clone()), now: 0, end: None, entering: Vec::new(), inside: 0 })
            .collect();
        let mut turn = 0;
        let mut advance = |one: &mut One, until: u64, result: &mut FleetResult| loop {
            if let Some(end) = one.end {
                if end > until {
                    return;
                }
                (one.end, one.now) = (None, end);
                one.core.finish(true, |token| {
                    let request = load[token.id as usize];
                    if token.index == 0 {
                        first[token.id as usize] = end;
                    }
                    if token.is_last {
                        one.inside -= 1;
                        result.answered(request.at, first[token.id as usize], end, request.osl);
                    }
                });
            }
            while one.entering.first().is_some_and(|(at, _)| *at <= one.now) {
                let (_, id) = one.entering.remove(0);
                one.core
                    .arrive(CoreRequest {
                        id: id as u64,
                        isl: load[id].isl,
                        osl: load[id].osl,
                        ..CoreRequest::default()
                    })
                    .unwrap();
            }
            if one.now >= until {
                return;
            }
            if let Some(step) = one.core.begin(one.now) {
                one.end = Some(step.end);
            } else if let Some((at, _)) = one.entering.first().filter(|(at, _)| *at < until) {
                one.now = *at;
            } else {
                return;
            }
        };
        for (id, request) in load.iter().enumerate() {
            result.arrived(request.at);
            for one in &mut servers {
                advance(one, request.at, &mut result);
            }
            let at = (0..replicas).map(|step| (turn + step) % replicas).min_by_key(|&at| servers[at].inside).unwrap();
            turn = at + 1;
            servers[at].inside += 1;
            servers[at].entering.push((request.at + limits.timing.frontend_ns(), id));
        }
        for one in &mut servers {
            advance(one, u64::MAX, &mut result);
        }
        result
    }

    #[test]
    fn a_fleet_of_one_is_a_server() {
        let fleet = Fleet {
            balancers: 1,
            replicas: 1,
            simulated: 1,
            rate: RateOverTime::day(0.01, 0.02),
            ..fleet(Balancer::RoundRobin)
        };
        let load = requests(&fleet, mix(fleet.workload.seed.wrapping_add(mix(0))));
        let ran = simulate(&fleet.server, &load).unwrap();
        let mut expected = FleetResult::empty(fleet.rate.seconds());
        for (request, served) in load.iter().zip(&ran.requests) {
            expected.arrived(request.at);
            expected.answered(request.at, served.first, served.last, served.tokens);
        }
        let result = run_fleet(&fleet, 2).unwrap();
        assert!(result.answered > 1000);
        assert_eq!((result.steps, result.end), (ran.steps, ran.end));
        assert_eq!(
            (result.ttft, result.tpot, result.e2e, result.hours),
            (expected.ttft, expected.tpot, expected.e2e, expected.hours)
        );
    }

    #[test]
    fn threads_do_not_change_the_result() {
        let fleet =
            Fleet { failures: Some(Failures { mean_time_between: 60.0, repair: 5.0 }), ..fleet(Balancer::LeastLoad) };
        let single_threaded = run_fleet(&fleet, 1).unwrap();
        assert_eq!(run_fleet(&fleet, 3).unwrap(), single_threaded);
    }

    #[test]
    fn every_request_is_answered_though_replicas_fail() {
        let calm = run_fleet(&fleet(Balancer::LeastLoad), 2).unwrap();
        let failures = Some(Failures { mean_time_between: 20.0, repair: 5.0 });
        let stormy = run_fleet(&Fleet { failures, ..fleet(Balancer::LeastLoad) }, 2).unwrap();
        assert_eq!((calm.failures, calm.retried), (0, 0));
        assert!(stormy.failures > 20 && stormy.retried > 50, "{} {}", stormy.failures, stormy.retried);
        assert_eq!(
            (stormy.arrived, stormy.answered, stormy.output_tokens),
            (calm.arrived, calm.answered, calm.output_tokens)
        );
        assert!(stormy.e2e.value_at_quantile(0.99) > calm.e2e.value_at_quantile(0.99));
    }

    #[test]
    fn requests_wait_while_no_replica_is_up() {
        let failures = Some(Failures { mean_time_between: 10.0, repair: 10.0 });
        let alone = Fleet {
            replicas: 1,
            failures,
            rate: RateOverTime::parse("0,3\n60,3").unwrap(),
            ..fleet(Balancer::RoundRobin)
        };
        let result = run_fleet(&alone, 1).unwrap();
        assert!(result.failures > 3, "{}", result.failures);
        assert_eq!(result.answered, result.arrived);
        assert!(result.ttft.max() > 2_000_000, "{}", result.ttft.max());
    }

    #[test]
    fn the_least_loaded_replica_answers_sooner_and_prefixes_are_found_where_they_are() {
        let ttft = |policy| run_fleet(&fleet(policy), 2).unwrap().ttft.value_at_quantile(0.99);
        let (least, in_turn) = (ttft(Balancer::LeastLoad), ttft(Balancer::RoundRobin));
        assert!(least < in_turn, "{least} µs, {in_turn} µs");
        let shared = |policy| {
            let prefixes = Some(Prefixes { count: 60, tokens: 256, zipf: Some(1.0) });
            let rate = RateOverTime::parse("0,100\n60,100").unwrap();
            run_fleet(&Fleet { rate, prefixes, ..fleet(policy) }, 2).unwrap()
        };
        let (aware, least) = (shared(Balancer::PrefixAware), shared(Balancer::LeastLoad));
        assert_eq!(aware.arrived, least.arrived);
        assert!(aware.prefix_hits > least.prefix_hits, "{} {}", aware.prefix_hits, least.prefix_hits);
        assert!(aware.ttft.mean() < least.ttft.mean(), "{} {}", aware.ttft.mean(), least.ttft.mean());
    }

    /// Two context and three generation servers, twice behind each balancer.
    fn disaggregated(policy: SchedulerPolicy, failures: Option<Failures>) -> Fleet {
        let setup = Disaggregation {
            context_servers: 2,
            generation_servers: 3,
            router: Balancer::LeastLoad,
            kv_link_gbs: 10.0,
        };
        Fleet {
            server: server(policy),
            replicas: 2,
            failures,
            disaggregation: Some(setup),
            rate: RateOverTime::parse("0,60\n60,200\n120,60").unwrap(),
            ..fleet(Balancer::LeastLoad)
        }
    }

    #[test]
    fn replicas_of_context_and_generation_servers_are_that_many_times_as_many() {
        let twice = disaggregated(SchedulerPolicy::Vllm, None);
        let setup = twice.disaggregation.map(|setup| setup.times(2));
        let once = Fleet { replicas: 1, disaggregation: setup, ..twice.clone() };
        let result = run_fleet(&twice, 2).unwrap();
        assert_eq!(result, run_fleet(&once, 2).unwrap());
        assert_eq!((result.replicas, result.failures), (3 * 2 * (2 + 3), 0));
        assert_eq!(result.answered, result.arrived);
    }

    #[test]
    fn every_request_is_answered_though_context_and_generation_servers_fail() {
        for policy in [SchedulerPolicy::Vllm, SchedulerPolicy::GuaranteedNoEvict] {
            let calm = run_fleet(&disaggregated(policy, None), 2).unwrap();
            let failures = Some(Failures { mean_time_between: 20.0, repair: 5.0 });
            let stormy = run_fleet(&disaggregated(policy, failures), 2).unwrap();
            assert!(stormy.failures > 50 && stormy.retried > 50, "{} {}", stormy.failures, stormy.retried);
            assert_eq!(
                (stormy.arrived, stormy.answered, stormy.output_tokens),
                (calm.arrived, calm.answered, calm.output_tokens)
            );
            assert!(stormy.e2e.value_at_quantile(0.99) > calm.e2e.value_at_quantile(0.99));
            assert_eq!(run_fleet(&disaggregated(policy, failures), 1).unwrap(), stormy);
            // Failures that never come change nothing.
            let rare = Some(Failures { mean_time_between: 1e12, repair: 5.0 });
            assert_eq!(run_fleet(&disaggregated(policy, rare), 2).unwrap(), calm);
        }
    }

    #[test]
    fn prompts_and_caches_wait_while_no_server_for_them_is_up() {
        let failures = Some(Failures { mean_time_between: 10.0, repair: 10.0 });
        let setup = Disaggregation {
            context_servers: 1,
            generation_servers: 1,
            router: Balancer::RoundRobin,
            kv_link_gbs: 10.0,
        };
        let alone = Fleet {
            replicas: 1,
            balancers: 1,
            simulated: 1,
            disaggregation: Some(setup),
            rate: RateOverTime::parse("0,3\n60,3").unwrap(),
            ..disaggregated(SchedulerPolicy::Vllm, failures)
        };
        let result = run_fleet(&alone, 1).unwrap();
        assert!(result.failures > 3 && result.arrived > 100, "{} {}", result.failures, result.arrived);
        assert_eq!(result.answered, result.arrived);
        assert!(result.ttft.max() > 2_000_000, "{}", result.ttft.max());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// A replica's clock may lag the balancer's until it matters; the result is that of clocks that all advance
        /// together.
        #[test]
        fn clocks_behind_are_the_same_as_clocks_together(
            seed in 0_u64..1000,
            replicas in 1_usize..6,
            policy in prop_oneof![
                Just(SchedulerPolicy::Vllm), Just(SchedulerPolicy::GuaranteedNoEvict),
                Just(SchedulerPolicy::MaxUtilization)
            ],
        ) {
            let fleet = Fleet {
                server: server(policy),
                balancers: 1,
                replicas,
                simulated: 1,
                rate: RateOverTime::parse("0,5\n10,40\n20,5").unwrap(),
                workload: VirtualWorkload { seed, ..fleet(Balancer::LeastLoad).workload },
                ..fleet(Balancer::LeastLoad)
            };
            let result = run_fleet(&fleet, 1).unwrap();
            let load = requests(&fleet, mix(seed.wrapping_add(mix(0))));
            let expected = eager(&fleet.server, replicas, &load);
            prop_assert_eq!(
                (result.answered, result.end, result.output_tokens),
                (expected.answered, expected.end, expected.output_tokens)
            );
            prop_assert_eq!((result.ttft, result.tpot, result.e2e), (expected.ttft, expected.tpot, expected.e2e));
        }
    }
}
