//! A run on a terminal, while it happens.
//!
//! [`LiveDisplay`] folds each event into its state and prints what a user needs now: on a terminal with bars, elsewhere as
//! plain lines with the same facts and no control codes, or as one JSON object per line. It never decides anything
//! and never waits: an event costs a fold and at most one write, redrawing is bound to [`LiveDisplay::tick`].

mod bars;
mod line;
mod live;

pub use live::{LiveDisplay, LiveOptions};
