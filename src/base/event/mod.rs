//! The types of what can happen in a run: ids, digests, events, outcomes, and the stop request.
//!
//! It holds data only; nothing here reads a clock, a file or the environment.

mod endpoint;
mod id;
mod outcome;
mod run_event;
mod stop;

pub use endpoint::{Endpoint, EndpointError, host_port};
pub use id::{GpuId, GpuIdError, NotTag, RunId, RunTag, TaskId};
pub use outcome::{
    Decision, Done, Failure, FailureKind, MemoryKind, MovingSource, OutOfMemory, Prediction, ReducedSetting, RemoteRef,
    Verdict,
};
pub use run_event::{Event, ExternalResource, LiveMeasurement, TaskTally};
pub use stop::Stop;
