//! Loads in virtual time: requests drawn from distributions, the servers that share them, and the highest rate at which limits
//! hold. Hours of load take seconds.

mod capacity;
mod disaggregated;
mod latencies;
mod users;
mod workload;

pub use capacity::{Capacity, CapacityError, UnknownMetric, capacity, judged_at, offline, served_at};
pub use disaggregated::DisaggregatedServers;
pub use latencies::{VirtualResult, is_in_virtual_time};
pub use users::with_users;
pub(super) use workload::LengthSampler;
pub use workload::VirtualWorkload;
