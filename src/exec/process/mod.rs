//! Starts a command, streams it, stops it for certain.
//!
//! The only room that starts programs. A child runs in its own process group, with nothing on its standard input
//! and its output in a log file. When it has ended, whatever it left running is ended too and named. Nothing here
//! knows what a stage is.

mod command;
mod confinement;
mod diagnose;
mod line_pipe;
mod log;
mod mpi_log;
mod orphans;
mod process_ref;
mod query;

mod busy_process;
mod private_values;
mod procfs;
mod reexec;
mod running;
mod watchdog;

pub use busy_process::{BusyProcess, ProcessorTimes};
pub use command::{ExitKind, Leftover, ProcessCommand, ProcessExit, SpawnError, StreamCopies, shown};
pub use confinement::{Confinement, ConfinementError};
pub use diagnose::{Diagnosis, Shortage, diagnose, diagnose_server, shortage};
pub use line_pipe::{LineReader, LineWriter};
pub use log::{AttemptLog, tail};
pub use mpi_log::{Splitter, first_to_fail, untagged};
pub use orphans::{adopt_orphans, mark_descendants, orders, remove_all, remove_shared_memory, sweep};
pub use private_values::{PrivateValues, redacted};
pub use process_ref::{ProcessRef, below, children, processor_time};
pub use procfs::{PortOwner, is_alive, listener};
pub use query::{ProbeOutput, ProbeResult, probe, query};
pub use reexec::{first_line, reexec};
pub use running::{Running, SIGN_KEY_VARIABLE, protect_key_text, run};
pub use watchdog::{HOME, RUN, TASK, WatchdogHandle, end_leftovers, run_watchdog};
