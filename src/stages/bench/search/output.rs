//! Files of a search, and what its task reports.

use std::path::Path;

use crate::bench::measurement::headline_details;
use base::event::Done;
use harness::RunResult;

/// Where probes are kept, below the stage's output.
pub(super) const PROBES: &str = "probes";

/// Written when all probes were made.
pub(super) const FILE: &str = "search.json";

/// A search's headline with what its last measurement in `out` was of, and `SIMULATED` and `REHEARSAL` before it.
pub(super) fn with_identity(out: &Path, headline: &str) -> Done {
    let result = harness::read_result(&out.join(harness::RESULT)).ok();
    let simulated = if result.as_ref().is_some_and(RunResult::is_simulated) { "SIMULATED  " } else { "" };
    let rehearsal = if result.as_ref().is_some_and(RunResult::is_rehearsal) { "REHEARSAL  " } else { "" };
    Done {
        headline: Some(format!("{simulated}{rehearsal}{headline}")),
        below: result.as_ref().map(headline_details).unwrap_or_default(),
        ..Done::default()
    }
}
