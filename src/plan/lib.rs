//! Expands a manifest and its parameters into a frozen graph of tasks; pure data, printable, diffable.
//!
//! `plan` does no I/O and starts nothing. Output folders and endpoints are not known yet when a plan is made, so
//! a reference such as `{{ stages.engine.out }}` becomes a [`PlanReference`] in the text of the action; the runner
//! replaces it when the task starts. That also keeps absolute paths out of every key.
//!
//! ```text
//!  Manifest ─expand→ Plan: each Task with its typed action, PlanReference in its texts ─→ its needs, their order
//! ```
//!
//! `actions` lists all actions. A new one is a row there, a file there with its settings and `Check`, and a file in
//! `stages` with `Run`.
//!
//! | file | what it does |
//! |---|---|
//! | `manifest` | text → a checked `Manifest`; `manifest/model` has its types, but for those of the stages |
//! | `actions` | the settings of each action and of each stage, and their checks |
//! | `expand` | the way from a manifest to a plan: `instance` makes the tasks, `task_builder` renders each |
//! | `references`, `task_part` | what a text has for things that are known at the start; typed parts of a task |
//! | `task` | the frozen graph |
//! | `repeats` | measurements that are made several times; how many they are, and their time |
//! | `loadgen` | what MLPerf's rules require of the LoadGen tests in a plan |

mod actions;
mod expand;
mod instance;
pub mod loadgen;
pub mod manifest;
mod references;
mod repeats;
mod task;
mod task_builder;
mod task_part;

pub use actions::{ActionFacts, ActionKind};
pub use expand::{expand, load};
pub use references::{PlanReference, UnknownReference};
pub use repeats::{MeasurementCost, REPEATED_RUNS, RepeatError, repeated};
pub use task::{Lifetime, Need, OomReductionRule, Plan, RetryRule, SharedTask, Task, UnreadablePlan};
pub use task_part::{ActionError, TaskPart, UnwritableAction, read_action};
