//! Starts a command, streams it, stops it for certain.
//!
//! The only room that starts programs. A child runs in its own process group, with nothing on its standard input
//! and its output in a log file. When it has ended, whatever it left running is ended too and named. Nothing here
//! knows what a stage is.

mod command;
mod diagnose;
mod family;
mod go_on;
mod kin;
mod listener;
mod log;
mod orphans;

mod outliving;
mod probe;
mod procfs;
mod ranks;
mod redact;
mod running;
pub mod slurm;
mod ssh;
mod talk;
mod warden;

pub use command::{ProcessCommand, ProcessExit, How, Leftover, SpawnError, shown};
pub use diagnose::{Diagnosis, Shortage, diagnose, diagnose_server, shortage};
pub use go_on::{first_line, go_on_as};
pub use kin::{ProcessRef, below, children};
pub use listener::{PortOwner, listener};
pub use log::tail;
pub use orphans::{adopt_orphans, sweep};
pub use outliving::{orders, remove, remove_shared_memory};
pub use probe::{ProbeOutput, ProbeResult, probe};
pub use ranks::{Splitter, first_to_fail, untagged};
pub use running::{Running, run};
pub use ssh::{NO_FOLDER, NO_PROGRAM, Ssh, complaint, host_name, remote};
pub use talk::{LineReader, LineWriter};
pub use warden::{HOME, RUN, TASK, Watchdog, reap, warden};
