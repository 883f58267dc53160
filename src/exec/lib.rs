//! Where and how a command runs: as a process that is followed and stopped for certain, or in a container.
//!
//! ```text
//!  a command, what it may see ─container→ a command line ─process→ a process group ─→ a log file, how it ended
//! ```
//!
//! Nothing here knows what a stage is.
//!
//! | file | what it does |
//! |---|---|
//! | `container` | the command line of docker, podman, enroot or apptainer |
//! | `process/command`, `process/running` | what to start and how it ended; the command while it runs |
//! | `process/query`, `process/line_pipe` | a short question to a program; a conversation with one |
//! | `process/confinement`, `process/private_values` | which files it may use; what no file may keep of it |
//! | `process/log`, `process/diagnose` | the end of a log, by rank, and its likely cause |
//! | `process/orphans`, `process/watchdog` | what is left of commands and of a killed runner |
//! | `process/procfs`, `process/process_ref` | what the machine knows about processes |

pub mod container;
pub mod process {
    //! Starts a command, streams it, stops it for certain.
    //!
    //! The only room that starts programs. A child runs in its own process group, with nothing on its standard input
    //! and its output in a log file. When it has ended, whatever it left running is ended too and named. Nothing here
    //! knows what a stage is.

    mod command;
    mod confinement;
    mod diagnose;
    mod log;
    mod orphans;
    mod process_ref;
    mod query;

    mod private_values;
    mod procfs;
    mod running;
    mod watchdog;

    pub use command::{
        ExitKind, Leftover, ProcessCommand, ProcessExit, SpawnError, StreamCopies, first_line, reexec, shown,
    };
    pub use confinement::{Confinement, ConfinementError};
    pub use diagnose::{Diagnosis, diagnose, diagnose_server, exhausted_memory};
    pub use log::{AttemptLog, FollowedLog, Splitter, first_to_fail, tail, untagged};
    pub use orphans::{adopt_orphans, is_inside, mark_descendants, orders, remove_all, remove_shared_memory, sweep};
    pub use private_values::{PrivateValues, redacted};
    pub use process_ref::{ProcessRef, below, children, processor_time};
    pub use procfs::{BusyProcess, PortOwner, ProcessorTimes, is_alive, listener, variable};
    pub use query::{LineReader, LineWriter, ProbeOutput, ProbeResult, probe, query};
    pub use running::{Running, SIGN_KEY_VARIABLE, protect_key_text, run};
    pub use watchdog::{HOME, RUN, TASK, WatchdogHandle, end_leftovers, run_watchdog};
}

#[cfg(test)]
#[path = "../../tests/bench/simulated_seeds.rs"]
mod simulated_seeds;
