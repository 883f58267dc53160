//! The words for what can happen in a run: ids, digests, events, outcomes, and the request to stop.
//!
//! A leaf: it uses no other room, and every room may use it. It holds data only; nothing here reads a
//! clock, a file or the environment.

mod digest;
mod endpoint;
mod happening;
mod id;
mod memory;
mod outcome;
mod size;
mod stop;

pub use digest::{Digest, Hasher};
pub use endpoint::Endpoint;
pub use happening::{Event, ExternalResource, TaskTally};
pub use id::{RunId, TaskId};
pub use memory::{Lowered, MemoryKind, OutOfMemory};
pub use outcome::{Done, TaskOutcome, Failure, FailureKind, Verdict};
pub use size::size;
pub use stop::Stop;
