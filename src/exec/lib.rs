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
//! | `process/log`, `process/mpi_log`, `process/diagnose` | the end of a log, by rank, and its likely cause |
//! | `process/orphans`, `process/watchdog`, `process/reexec` | what is left of commands and of a killed runner |
//! | `process/procfs`, `process/process_ref`, `process/busy_process` | what the machine knows about processes |

pub mod container;
pub mod process;
