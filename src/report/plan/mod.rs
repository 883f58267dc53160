//! What a plan would do: the decision for each task, the graph of tasks, and the commands that servers start with.

mod decisions;
mod estimate;
mod graph;
mod launch;

pub use decisions::{DecisionKind, DecisionRow, decisions_text, write_decisions_json};
pub use estimate::{BenchEstimate, EstimateBasis, EstimatedLoad, estimates_note};
pub use graph::{graph_dot, graph_mermaid};
pub use launch::{LaunchKind, LaunchRow, launch_json, launch_problems, launch_text};
