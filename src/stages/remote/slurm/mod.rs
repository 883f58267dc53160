//! `host: slurm` — a stage as a job of its own.
//!
//! The run writes down what is to be done ([`job_files`]), submits a script that starts this program again on a node
//! ([`batch_script`]), and follows the job ([`run_attempt`]): by the shared folder, which shows what the stage does and
//! how it ended, and by the queue, which knows what a job cannot report itself (that its time limit was reached, that
//! its node is gone). On the node the same code runs the stage as on this machine ([`work()`]).
//!
//! # What holds, whatever happens
//!
//! - An attempt runs at the most once: its job claims the folder, and a second job for the same folder ends at once.
//! - Each attempt has its own output folder, log and job name. Output that an interrupted attempt still writes is not
//!   read.
//! - The end is what the job recorded. The queue's state counts only without such a record, and a missing entry
//!   only after some minutes without heartbeats.
//! - Tasks of a `foreach` that become ready together are one array ([`submission`]); each element has its own folder,
//!   and with it its own claim, log and end.
//! - The run may die: the next one finds the folder and goes on with the job.

mod allocation;
mod batch_script;
mod cancel_jobs;
pub mod commands;
mod job_end;
mod job_files;
mod node_worker;
mod queue_interpreter;
mod run_attempt;
#[cfg(test)]
mod simulated_world;
#[cfg(test)]
mod stand_in;
mod submission;

pub use allocation::{AllocationRun, in_allocation, reachable};
pub use batch_script::srun_container_argv;
pub use cancel_jobs::end_abandoned;
pub use job_end::time_left;
pub use node_worker::{AttemptClaim, NodeWorkerError, devices, work};
pub use run_attempt::perform;
pub use submission::SlurmContext;
