//! Loads in virtual time: requests drawn from distributions, the servers that share them, and the highest rate at which
//! limits hold. Hours of load take seconds.

mod capacity;
mod workload;

pub use capacity::DisaggregatedServers;
pub use capacity::{Capacity, CapacityError, UnknownMetric, capacity, judged_at, offline, served_at};
pub(super) use workload::LengthSampler;
pub use workload::VirtualWorkload;
pub use workload::with_users;
pub use workload::{VirtualResult, is_in_virtual_time};
