//! One test binary: the manual by example. Each file is a chapter.

mod cli;
mod diagnostics;
mod faults;
mod language;
mod processes;
mod report;
mod simulator;
mod triton;
mod world;
