//! The types of what can happen in a run: ids, digests, events, outcomes, and the stop request.
//!
//! A leaf: it uses no other room, and every room may use it. It holds data only; nothing here reads a
//! clock, a file or the environment, but for files whose bytes or digest are wanted, which must have an end, and for whether a file
//! is there.

mod absence;
mod cores;
mod digest;
mod endpoint;
mod file_digest;
mod gpu_id;
mod id;
mod memory;
mod outcome;
mod run_event;
mod run_tag;
mod stop;
mod system_folders;

pub use absence::{is_absence, metadata_if_there};
pub use cores::cores;
pub use digest::{Digest, Hasher};
pub use endpoint::{Endpoint, EndpointError};
pub use file_digest::{open_regular, read_regular, read_regular_bytes};
pub use gpu_id::{GpuId, GpuIdError};
pub use id::{RunId, TaskId};
pub use memory::{MemoryKind, OutOfMemory, ReducedSetting};
pub use outcome::{Done, Failure, FailureKind, Verdict};
pub use run_event::{Event, ExternalResource, LiveMeasurement, TaskTally};
pub use run_tag::{NotTag, RunTag};
pub use stop::Stop;
pub use system_folders::SYSTEM_FOLDERS;
