//! Fleets in virtual time: replicas behind balancers, for a day whose rate changes, with replicas that fail.
//!
//! A balancer has its own replicas and an equal share of the arrivals; balancers do not know of each other, so they are
//! simulated on several threads, with the same result as on one. Memory is bounded by the requests that are inside at
//! the same time: latencies are kept as histograms.

mod arrivals;
mod disaggregated;
mod replica;
mod result;
mod run;

pub(super) use arrivals::FleetArrival;
pub use arrivals::{Balancer, Failures, RateOverTime, RateOverTimeError};
pub use disaggregated::Disaggregation;
pub(super) use disaggregated::{DisaggregatedAnswer, ServerFailures, run_disaggregated};
pub use result::{FleetHour, FleetResult};
pub use run::{Fleet, run_fleet};
