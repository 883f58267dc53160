//! A run on a terminal: while it happens ([`LiveDisplay`]) and at its end ([`summary()`]); and the styles, tables and numbers
//! that everything on a terminal is made of.

mod bars;
mod line;
mod live;
pub(super) mod percent;
pub(super) mod styler;
pub(super) mod summary;
mod sweep_table;
mod tool_metrics;
mod wrap;

pub use live::{LiveDisplay, LiveOptions};
pub use percent::signed_percent;
pub use styler::{Styler, TextRole, clean, cut, table};
pub use summary::{RunPaths, summary};
pub(crate) use sweep_table::from_zero_points;
pub use sweep_table::sweep_table;
pub use tool_metrics::tool_metrics;
