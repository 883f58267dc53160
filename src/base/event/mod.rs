//! The types of what can happen in a run: ids, digests, events, outcomes, and the stop request.
//!
//! It holds data only; nothing here reads a clock, a file or the environment.

mod endpoint;
mod gpu_id;
mod id;
mod moving_source;
mod out_of_memory;
mod outcome;
mod run_event;
mod run_tag;
mod stop;

pub use endpoint::{Endpoint, EndpointError, host_port};
pub use gpu_id::{GpuId, GpuIdError};
pub use id::{RunId, TaskId};
pub use moving_source::{MovingSource, RemoteRef};
pub use out_of_memory::{MemoryKind, OutOfMemory, ReducedSetting};
pub use outcome::{Done, Failure, FailureKind, Verdict};
pub use run_event::{Event, ExternalResource, LiveMeasurement, TaskTally};
pub use run_tag::{NotTag, RunTag};
pub use stop::Stop;
