//! Other tools of this field: their command lines, their result files, and what their metrics mean.

pub mod command_line;
pub mod export;
pub mod import;
pub mod metrics;
