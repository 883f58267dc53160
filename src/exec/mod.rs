//! Where and how a command runs: as a process that is followed and stopped for certain, or in a container.

pub mod container;
pub mod process;
