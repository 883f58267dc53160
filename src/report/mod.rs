//! Folds events and results into a story and tells it: terminal, JSON, HTML.
//!
//! [`Story`] is the one fold; [`Live`] tells it while it happens, [`summary()`] at the end, [`html`] for keeps. What a
//! plan would do is told by [`decisions`], [`graph`] and [`launch`], what there is by [`tables`]. The room reads no file and
//! decides nothing: whoever calls it hands over what is to be told. Everything except [`Live`] gives a `String`.

pub mod decisions;
pub mod graph;
pub mod html;
pub mod launch;
mod paint;
#[cfg(test)]
mod sample;
pub mod server;
mod story;
mod summary;
pub mod tables;
mod terminal;

pub use decisions::{Choice, Decision};
pub use launch::{Launch, Starts};
pub use paint::{Paint, duration};
pub use server::{MetricTold, ModelFacts, ModelTold, ServerTold, TensorFacts};
pub use story::{Chapter, Finished, Notice, Progress, State, Story};
pub use summary::{Places, summary};
pub use tables::{Listed, Shown};
pub use terminal::{Live, Look};
