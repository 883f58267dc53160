//! The requests that reach one balancer.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::rate_over_time::RateOverTime;
use crate::virtual_load::{LengthSampler, VirtualWorkload};
use base::spec::Prefixes;

/// One request. `prefix`: which of the shared beginnings its prompt has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetArrival {
    /// Nanoseconds.
    pub(crate) at: u64,
    pub(crate) isl: u64,
    pub(crate) osl: u64,
    pub(crate) prefix: Option<u32>,
    pub(crate) adapter: Option<u64>,
}

/// Poisson arrivals at a rate that changes: those of its highest rate, thinned.
pub(super) struct FleetArrivals<'a> {
    rate: &'a RateOverTime,
    /// The balancers that share the rate.
    share: f64,
    highest: f64,
    seconds: f64,
    random: Pcg64,
    lengths: LengthSampler<'a>,
    workload: &'a VirtualWorkload,
    count: usize,
    prefixes: Option<(Prefixes, Vec<f64>)>,
}

impl<'a> FleetArrivals<'a> {
    pub(super) fn new(
        rate: &'a RateOverTime,
        balancers: usize,
        workload: &'a VirtualWorkload,
        prefixes: Option<Prefixes>,
        seed: u64,
    ) -> Self {
        Self {
            rate,
            share: balancers as f64,
            highest: rate.highest() / balancers as f64,
            seconds: 0.0,
            random: Pcg64::seed_from_u64(seed ^ 0x6172_7269_7665),
            lengths: workload.lengths(seed),
            workload,
            count: 0,
            prefixes: prefixes.map(|prefixes| (prefixes, cumulated(prefixes))),
        }
    }
}

/// The shares of the first, the first two, … prefixes.
fn cumulated(prefixes: Prefixes) -> Vec<f64> {
    let exponent = prefixes.zipf.unwrap_or(0.0);
    let mut sum = 0.0;
    let mut shares: Vec<f64> = (1..=prefixes.count)
        .map(|rank| {
            sum += libm::pow(f64::from(rank), -exponent);
            sum
        })
        .collect();
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

impl Iterator for FleetArrivals<'_> {
    type Item = FleetArrival;

    fn next(&mut self) -> Option<FleetArrival> {
        loop {
            // 1 − u is above 0.
            self.seconds -= libm::log(1.0 - self.random.random::<f64>()) / self.highest;
            if self.seconds >= self.rate.seconds() {
                return None;
            }
            if self.random.random::<f64>() * self.highest < self.rate.at(self.seconds) / self.share {
                break;
            }
        }
        let (isl, osl) = self.lengths.next();
        let adapter = self.workload.adapter(self.count);
        self.count += 1;
        let mut request = FleetArrival { at: (self.seconds * 1e9) as u64, isl, osl, prefix: None, adapter };
        if let Some((prefixes, shares)) = &self.prefixes {
            let drawn = self.random.random::<f64>();
            let prefix = shares.partition_point(|share| *share <= drawn).min(shares.len() - 1);
            request.prefix = Some(prefix as u32);
            request.isl += u64::from(prefixes.tokens);
        }
        Some(request)
    }
}
