//! Runs of an earlier attempt that need not be measured again, and keeping a run for a later one. The files are
//! large, and planning a load reads them: both wait on threads of their own.

use std::fs;
use std::path::Path;

use tokio::task::spawn_blocking;

use super::measurement::failure;
use super::resume::Servers;
use base::event::{Failure, Verdict};
use harness::{BenchSpec, LoadPattern, Measured, RESULT, RUN_FILES, RunResult};
use runner::store::{PathError, WithPath as _, is_there};

/// A finished probe of the same schedule; the servers may have other ports now. `result.json` is written last, so one
/// that can be read is complete, and so are the other files. One that was limited by its own client says nothing about
/// the server, and is measured again.
pub(super) async fn before(path: &Path, spec: &BenchSpec, servers: &Servers) -> Option<RunResult> {
    let result = harness::read_result(&path.join(RESULT)).ok()?;
    let is_usable = result.requested.scenario == spec.scenario
        && servers.are_those_of(&result)
        && result.verdict() != Verdict::InvalidClient;
    if !is_usable {
        return None;
    }
    // Users that send for a time draw as many requests as the server answers: their plan has no end to compare.
    let is_open = matches!(spec.scenario, LoadPattern::Concurrency { .. }) && spec.stop.duration.is_some();
    let same = if is_open {
        result.requested.is_load_of(spec)
    } else {
        let spec = spec.clone();
        let digest = spawn_blocking(move || harness::plan(&spec).map(|planned| planned.digest)).await.ok()?.ok()?;
        result.schedule_digest == digest.to_string()
    };
    same.then_some(result)
}

/// Writes a run into a folder that may be new.
pub(super) async fn keep(path: &Path, measured: Box<Measured>) -> Result<RunResult, Failure> {
    fs::create_dir_all(path)
        .map_err(|error| Failure::system(format!("`{}` cannot be made: {error}", path.display())))?;
    write(path, measured).await
}

/// Writes a run into a folder that is there. It is large, and moved from thread to thread: in a box.
pub(super) async fn write(path: &Path, measured: Box<Measured>) -> Result<RunResult, Failure> {
    let path = path.to_owned();
    let write = move || harness::write(&path, &measured).map(|()| measured);
    let written = spawn_blocking(write).await.map_err(|error| Failure::system(error.to_string()))?;
    written.map(|measured| measured.result).map_err(|error| failure(&error))
}

/// Copies the files of a run, its result last where it is wanted; which of the others there are depends on what was
/// measured.
pub(super) async fn copy(from: &Path, to: &Path, with_result: bool) -> Result<(), Failure> {
    let (from, to) = (from.to_owned(), to.to_owned());
    let copied = spawn_blocking(move || copy_files(&from, &to, with_result)).await;
    Ok(copied.map_err(|error| Failure::system(error.to_string()))??)
}

fn copy_files(from: &Path, to: &Path, with_result: bool) -> Result<(), PathError> {
    for name in RUN_FILES.into_iter().chain(with_result.then_some(RESULT)) {
        let from = from.join(name);
        if is_there(&from)? {
            fs::copy(&from, to.join(name)).at("copy", &from)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_run_may_be_absent_and_must_not_be_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join(RESULT), "{}").unwrap();
        copy_files(&from, &to, false).unwrap();
        assert!(!to.join(RESULT).exists());
        copy_files(&from, &to, true).unwrap();
        assert_eq!(fs::read_to_string(to.join(RESULT)).unwrap(), "{}");
        // Like a file that cannot be read.
        fs::create_dir(from.join("requests.jsonl")).unwrap();
        let reason = copy_files(&from, &to, true).unwrap_err().to_string();
        assert!(reason.starts_with("cannot copy ") && reason.contains("requests.jsonl"), "{reason}");
    }
}
