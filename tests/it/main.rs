//! One test binary: the manual by example. Each file is a chapter.

mod architecture;
mod campaign;
mod cli;
mod crash;
mod diagnostics;
mod faults;
mod git;
mod harness;
mod language;
mod processes;
mod report;
mod scripted;
mod simulator;
mod stages;
mod triton;
mod world;
