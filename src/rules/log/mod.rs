//! What LoadGen writes: the detail log, the summary, the accuracy log.

mod accuracy;
mod detail;
mod summary;
mod width;

#[cfg(test)]
mod tests;

pub use accuracy::{AnswerLog, EntryError, LogError, LoggedAnswer};
pub use detail::{Detail, DetailError, LoggedError};
pub use summary::LoadgenSummary;
pub use width::{TokenBytesError, Width};

/// The file of [`Detail`].
pub const DETAIL_FILE: &str = "mlperf_log_detail.txt";
/// The file of [`LoadgenSummary`].
pub const SUMMARY_FILE: &str = "mlperf_log_summary.txt";
/// The file of [`AnswerLog`].
pub const ACCURACY_FILE: &str = "mlperf_log_accuracy.json";
