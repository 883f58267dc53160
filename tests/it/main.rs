//! One test binary: the manual by example. Each file is a chapter.

mod harness;
mod scripted;
