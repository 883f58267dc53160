//! Fleets in virtual time: replicas behind balancers, for a day whose rate changes, with replicas that fail.
//!
//! A balancer has its own replicas and an equal share of the arrivals; balancers do not know of each other, so they are
//! simulated on several threads, with the same result as on one. Memory is bounded by the requests that are inside at the same time:
//! latencies are kept as histograms.

mod arrivals;
mod balanced;
mod balancer;
mod disaggregated;
mod failures;
mod prefix_cache;
mod rate_over_time;
mod replica;
mod result;
mod run;

pub(super) use arrivals::FleetArrival;
pub use balancer::Balancer;
pub use disaggregated::Disaggregation;
pub(super) use disaggregated::{DisaggregatedAnswer, ServerFailures, run_disaggregated};
pub use failures::Failures;
pub use rate_over_time::{RateOverTime, RateOverTimeError};
pub use result::{FleetHour, FleetResult};
pub use run::{Fleet, run_fleet};
