//! `regatta.lock`: the requests and outcomes of the last good runs, as a file that people commit and read; and how
//! two such differ.
//!
//! ```text
//!  Plan, keys ─→ requested ┐
//!                          ├─→ LockedTask, … ─→ LockSection ─→ LockFile ─write→ text ─read→ LockFile
//!  outputs    ─→ resolved  ┘                         └─compare→ LockDifference, …
//! ```
//!
//! `requested` is known before anything runs, `resolved` only afterwards. There are no times, no folders of the machine
//! and no secrets in it, and measurements are left out: another run of the same writes the same bytes. Pure: the caller
//! reads and writes the file, and starts what is requested.

pub(super) mod command;
mod compare;
mod display;
mod format;
pub(super) mod run_section;

pub use compare::{DifferenceWeight, LockDifference, LockExtent, LockPart, compare, outcome};
pub use exec::process::PrivateValues;
pub use format::{LockFile, LockFileError, LockSection, LockedTask, measured, pin, read, splice, write};
