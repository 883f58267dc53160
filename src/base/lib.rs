//! What every other crate builds on: errors, events, files, settings, statistics, and numbers as text.
//!
//! ```text
//!  units ← files ← event
//!    ↑ spec, stats          diag
//! ```
//!
//! Pure but for `files`, which reads; nothing here starts a program, uses the network or prints.

pub mod diag;
pub mod event;
pub mod files;
pub mod spec;
pub mod stats;
pub mod units;
