//! Files of a search, and what its task reports.

use std::path::Path;

use crate::event::Done;
use crate::harness::{self, RunResult};
use crate::stages::bench::measurement::headline_details;

/// Where probes are kept, below the stage's output.
pub(super) const PROBES: &str = "probes";

/// Written when all probes were made.
pub(super) const FILE: &str = "search.json";

/// A search's headline with what its last measurement in `out` was of, and `SIMULATED` before it.
pub(super) fn with_identity(out: &Path, headline: String) -> Done {
    let result = harness::read_result(&out.join(harness::RESULT)).ok();
    let is_simulated = result.as_ref().is_some_and(RunResult::is_simulated);
    let headline = if is_simulated { format!("SIMULATED  {headline}") } else { headline };
    Done {
        headline: Some(headline),
        below: result.as_ref().map(headline_details).unwrap_or_default(),
        ..Done::default()
    }
}
