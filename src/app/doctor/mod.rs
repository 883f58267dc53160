//! What a plan needs of a machine, what the machine has, and what to do about the difference.
//!
//! ```text
//!  Plan ─needs→ Needs ─┐
//!                      ├─examine→ DoctorFinding, … ─→ report
//!  the machine ────────┘
//! ```
//!
//! [`needs()`] is pure: it reads what the planned tasks will start. [`examine()`] queries the machine, with short calls of
//! programs that are there anyway (`nvidia-smi`, `docker version`, …), and changes nothing. A secret is only "set" or "not set".

mod checkpoint_disk;
pub(super) mod command;
mod containers;
mod gpus;
mod hosts;
mod limits;
mod machine_facts;
mod needs;
mod run_checks;
mod secrets;
mod served_models;
mod shell;
mod store_keys;
mod tools;

pub use gpus::names as gpu_names;
pub use machine_facts::{machine, versions};
pub use needs::{needs, needs_of_tasks};
pub use run_checks::examine;
