//! Where and how a command runs: as a process that is followed and stopped for certain, or in a container.
//!
//! ```text
//!  a command, what it may see ─container→ a command line ─process→ a process group ─→ a log file, how it ended
//! ```
//!
//! Nothing here knows what a stage is.

pub mod container;
pub mod process;
