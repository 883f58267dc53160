//! One test binary: the manual by example. Each file is a chapter.

#![allow(clippy::disallowed_methods, reason = "tests start programs to see what becomes of them")]

mod architecture;
mod cli;
mod diagnostics;
mod faults;
mod git;
mod harness;
mod language;
mod manual;
mod processes;
mod report;
mod scripted;
mod simulator;
mod stages;
mod triton;
mod world;
