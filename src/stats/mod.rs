//! Estimators and tests of measured series: what a number is worth, whether a queue grows, which rate a server holds. Pure.
//!
//! Nothing here knows requests, files or units: a caller hands in numbers and gets numbers with their uncertainty.

mod growth;
mod level;
mod rate_search;

pub use growth::Growth;
pub use level::{LevelChange, Observation, separated_floors};
pub use rate_search::{Margin, RateEstimate, RateSearch, RateStep};
