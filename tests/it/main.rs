//! One test binary: the manual by example. Each file is a chapter.

mod diagnostics;
mod git;
mod language;
mod processes;
mod simulator;
mod stages;
mod triton;
