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
pub use happening::{Event, Outliving, Tally};
pub use id::{RunId, TaskId};
pub use memory::{Lowered, Memory, OutOfMemory};
pub use outcome::{Done, Ended, Failure, FailureKind, Verdict};
pub use size::size;
pub use stop::Stop;
