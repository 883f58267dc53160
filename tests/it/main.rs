//! One test binary: the manual by example. Each file is a chapter.

mod cli;
mod processes;
mod report;
