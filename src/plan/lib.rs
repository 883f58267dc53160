//! Expands a manifest and its parameters into a frozen graph of tasks; pure data, printable, diffable.
//!
//! `plan` does no I/O and starts nothing. Output folders and endpoints are not known yet when a plan is made, so
//! a reference such as `{{ stages.engine.out }}` becomes a [`PlanReference`] in the text of the action; the runner
//! replaces it when the task starts. That also keeps absolute paths out of every key.
//!
//! ```text
//!  Manifest ─expand→ Plan: each Task with its action, PlanReference in its text ─→ what it needs, in which order
//! ```

mod actions;
mod expand;
mod expression_names;
mod external_servers;
mod instance;
pub mod loadgen;
pub mod manifest;
mod measurement_cost;
mod plan_builder;
mod reference;
mod repeats;
mod select;
mod semantics;
mod several_tasks;
mod shared_task;
mod task;
mod task_part;

pub use actions::{ActionFacts, ActionKind};
pub use expand::{expand, load};
pub use measurement_cost::MeasurementCost;
pub use reference::{PlanReference, UnknownReference};
pub use repeats::{REPEATED_RUNS, RepeatError, repeated};
pub use shared_task::SharedTask;
pub use task::{Lifetime, Need, OomReductionRule, Plan, RetryRule, Task, UnreadablePlan};
pub use task_part::{ActionError, TaskPart, UnwritableAction, key_action, read_action};
