//! Runs of an earlier try that need not be measured again, and keeping a run for a later one.

use std::fs;
use std::path::Path;

use super::measurement::failure;
use super::resume::Servers;
use crate::event::{Failure, FailureKind, Verdict};
use crate::harness::{self, BenchSpec, LoadPattern, RunResult};

/// A finished probe of the same schedule; the servers may have other ports now. `result.json` is written last, so one that can
/// be read is whole, and so are the files beside it. One that was limited by its own client is no evidence about the server,
/// and is measured again.
pub(super) fn before(path: &Path, spec: &BenchSpec, servers: &Servers) -> Option<RunResult> {
    let result = harness::read_result(&path.join("result.json")).ok()?;
    // Users that send for a time draw as many requests as the server answers: their plan has no end to compare.
    let is_open = matches!(spec.scenario, LoadPattern::Concurrency { .. }) && spec.stop.duration.is_some();
    let same = result.requested.scenario == spec.scenario
        && if is_open {
            result.requested.is_load_of(spec)
        } else {
            result.schedule_digest == harness::plan(spec).ok()?.digest.to_string()
        }
        && servers.are_those_of(&result);
    (same && result.verdict() != Verdict::InvalidClient).then_some(result)
}

pub(super) fn keep(path: &Path, measured: &harness::Measured) -> Result<(), Failure> {
    fs::create_dir_all(path)
        .map_err(|error| Failure::new(FailureKind::System, format!("`{}` cannot be made: {error}", path.display())))?;
    harness::write(path, measured).map_err(|error| failure(&error))
}
