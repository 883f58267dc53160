//! Loads in virtual time: requests drawn from distributions, the servers that share them, and the highest rate at which
//! limits hold. Hours of load take seconds.

mod capacity;
mod workload;

pub use capacity::{
    Capacity, CapacityError, DisaggregatedServers, UnknownMetric, capacity, judged_at, offline, served_at,
};
pub(super) use workload::LengthSampler;
pub use workload::{VirtualResult, VirtualWorkload, is_in_virtual_time, with_users};
