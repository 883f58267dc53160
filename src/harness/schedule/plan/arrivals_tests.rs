//! Arrivals follow the law that they name, and do not depend on how many workers send them.

use std::time::Duration;

use proptest::prelude::*;

use super::tests::{requests, server, spec};
use super::*;
use crate::schedule::arrivals;
use crate::{LoadLevel, LoadSegment};
use base::spec::{Arrivals, StopAfter};

proptest! {
    #[test]
    fn a_longer_plan_extends_a_shorter_one(seed: u64, short in 1u64..50, more in 0u64..50, law in 0usize..3) {
        let law = [Arrivals::Poisson, Arrivals::Constant, Arrivals::Gamma { cv: 2.0 }][law];
        let short_plan = plan(&spec(server(40.0), law, requests(short), seed)).unwrap();
        let long_plan = plan(&spec(server(40.0), law, requests(short + more), seed)).unwrap();
        prop_assert_eq!(&long_plan.requests.to_vec()[..short as usize], &short_plan.requests.to_vec()[..]);
        prop_assert_eq!(long_plan.digest == short_plan.digest, more == 0);
        prop_assert!(long_plan.requests.iter().is_sorted_by_key(|request| request.at_ns));
    }

    #[test]
    fn requests_and_duration_take_whichever_is_longer(seed: u64, count in 1u64..100, ms in 1u64..2000) {
        let both = StopAfter { requests: Some(count), duration: Some(Duration::from_millis(ms).into()) };
        let plan = plan(&spec(server(50.0), Arrivals::Poisson, both, seed)).unwrap();
        let before = plan.requests.iter().filter(|request| request.at_ns < ms * 1_000_000).count();
        prop_assert_eq!(plan.requests.len(), before.max(count as usize));
    }

    #[test]
    fn a_ramp_brings_as_many_as_its_area_says(
        seed: u64,
        from in 0.0f64..50.0,
        to in 1.0f64..200.0,
        seconds in 5.0f64..40.0,
    ) {
        let rate = LoadLevel::Ramp(vec![LoadSegment { from, to, seconds }]);
        let expected = rate.area(seconds);
        let until = StopAfter { requests: None, duration: Some(Duration::from_secs_f64(seconds).into()) };
        let load = LoadPattern::Server { rate };
        let poisson = plan(&spec(load.clone(), Arrivals::Poisson, until.clone(), seed)).unwrap();
        prop_assert!(poisson.requests.iter().is_sorted_by_key(|request| request.at_ns));
        // A Poisson count is within 6 deviations of its mean, always in practice.
        prop_assert!((poisson.requests.len() as f64 - expected).abs() < 6.0 * expected.sqrt() + 1.0);
        let constant = plan(&spec(load, Arrivals::Constant, until, seed)).unwrap();
        prop_assert!((constant.requests.len() as f64 - expected).abs() <= 1.0);
    }

    #[test]
    fn neither_workers_nor_connections_nor_servers_are_in_the_plan(
        seed: u64,
        servers in 1usize..4,
        clients in 1u32..5,
    ) {
        let one = spec(server(40.0), Arrivals::Poisson, requests(20), seed);
        let mut other = one.clone();
        other.endpoints = vec![one.endpoints[0].clone(); servers];
        (other.clients, other.frontends) = (clients, 2);
        prop_assert_eq!(plan(&one).unwrap(), plan(&other).unwrap());
    }
}

#[test]
fn gaps_pass_a_kolmogorov_smirnov_test_whatever_the_law_and_the_ramp() {
    let ramp = LoadLevel::Ramp(vec![
        LoadSegment { from: 10.0, to: 200.0, seconds: 20.0 },
        LoadSegment { from: 40.0, to: 40.0, seconds: 10.0 },
    ]);
    for (rate, law) in [
        (LoadLevel::Fixed(100.0), Arrivals::Poisson),
        (ramp.clone(), Arrivals::Poisson),
        (LoadLevel::Fixed(100.0), Arrivals::Gamma { cv: 2.5 }),
        (LoadLevel::Fixed(100.0), Arrivals::Gamma { cv: 0.3 }),
        (ramp, Arrivals::Gamma { cv: 1.5 }),
    ] {
        for seed in 0..20 {
            let plan = plan(&spec(LoadPattern::Server { rate: rate.clone() }, law, requests(3_000), seed)).unwrap();
            let at: Vec<u64> = plan.scheduled().collect();
            let (distance, critical) = arrivals::distance_from_law(&rate, law, at.iter().copied(), at.len()).unwrap();
            assert!(distance < critical, "{law:?}, seed {seed}: {distance}");
            // And another law does not pass.
            let other = if law == Arrivals::Poisson { Arrivals::Gamma { cv: 0.5 } } else { Arrivals::Poisson };
            let (distance, critical) = arrivals::distance_from_law(&rate, other, at.iter().copied(), at.len()).unwrap();
            assert!(distance > critical, "{law:?} passes for {other:?}, seed {seed}");
        }
    }
}

#[test]
fn burstier_gaps_vary_by_the_coefficient_that_was_asked_for() {
    for cv in [0.25, 1.0, 3.0] {
        let plan = plan(&spec(server(50.0), Arrivals::Gamma { cv }, requests(20_000), 3)).unwrap();
        let at: Vec<u64> = plan.scheduled().collect();
        let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 0.02).abs() < 0.02 * 6.0 * cv / 20_000f64.sqrt(), "{mean}");
        assert!((deviation / mean - cv).abs() < 0.15 * cv, "{} is not {cv}", deviation / mean);
    }
}

#[test]
fn arrivals_are_scaled_only_to_a_number_of_requests() {
    let timed = StopAfter { duration: Some(Duration::from_secs(9).into()), ..requests(40) };
    let error = plan(&spec(server(50.0), Arrivals::PoissonScaled, timed, 3)).unwrap_err().to_string();
    assert!(error.contains("neither a duration"), "{error}");
}

#[test]
fn constant_arrivals_are_exact() {
    let plan = plan(&spec(server(3.0), Arrivals::Constant, requests(3_001), 0)).unwrap().requests.to_vec();
    assert_eq!(plan[1].at_ns, 333_333_333);
    assert_eq!(plan[3_000].at_ns, 1_000_000_000_000);
}

#[test]
fn requests_of_one_message_arrive_together_at_the_rate_of_requests() {
    let mut batched = spec(server(10.0), Arrivals::Constant, requests(5), 0);
    batched.request.batch = Some(2);
    let at: Vec<u64> = plan(&batched).unwrap().requests.iter().map(|request| request.at_ns / 1_000_000).collect();
    assert_eq!(at, [0, 0, 200, 200, 400]);
}

#[test]
fn offline_arrives_at_once() {
    let plan = plan(&spec(LoadPattern::Offline, Arrivals::Poisson, requests(10), 0)).unwrap();
    assert!(plan.requests.len() == 10 && plan.requests.iter().all(|request| request.at_ns == 0));
}
