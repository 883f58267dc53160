//! A measurement of several parts (repeats, probes) that was cut off: which of its finished parts still count and need
//! not be measured again. The files are large, and planning a load reads them: both wait on threads of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::identity;
use super::measurement::failure;
use crate::task_context::TaskContext;
use base::event::{Failure, Verdict};
use base::files::is_whole_json;
use harness::{BenchSpec, LoadPattern, Measured, RESULT, RUN_FILES, RunResult, ServerIdentity, changes_of_servers};
use runner::store::{PathError, WithPath as _, discard, is_there};

/// The servers as they are when the stage goes on.
pub(super) struct Servers {
    now: Vec<ServerIdentity>,
    /// Whether the run started them: then they are other processes each time.
    is_ours: bool,
}

impl Servers {
    async fn now(context: &TaskContext, spec: &BenchSpec) -> Self {
        Self { now: identity::of_servers(spec).await, is_ours: context.lease.task.external.is_none() }
    }

    /// Whether a finished part measured these servers, as they report what they are.
    pub fn are_those_of(&self, result: &RunResult) -> bool {
        self.difference(result).is_none()
    }

    /// Why a finished part is not known to have measured these servers. Of servers that others start a restart is a
    /// change, and one that does not report when it started may have been restarted.
    fn difference(&self, result: &RunResult) -> Option<&'static str> {
        const CHANGED: &str = "the server is another one now";
        const RESTARTED: &str = "the server has been started again since";
        const UNKNOWN: &str = "the server does not report when it started, so it may be another one now";
        let before = result.identity.as_ref().map_or(&[][..], |identity| &identity.servers);
        if result.identity.is_some() && !changes_of_servers(before, &self.now).is_empty() {
            return Some(CHANGED);
        }
        let started = |servers: &[ServerIdentity]| -> Option<Vec<f64>> {
            servers.iter().map(|server| server.start_time_seconds).collect()
        };
        match (started(before), started(&self.now)) {
            _ if self.is_ours => None,
            (Some(before), Some(now)) if !now.is_empty() => (before != now).then_some(RESTARTED),
            _ => Some(UNKNOWN),
        }
    }
}

/// Begins or resumes a measurement of several parts: see [`discard_parts_if_finished`]. A notice shows how many
/// finished parts are measured again because their servers are not known to be those that are there now.
pub(super) async fn begin(
    context: &TaskContext,
    spec: &BenchSpec,
    end: &Path,
    parts: &str,
) -> Result<Servers, Failure> {
    let out = &context.lease.out;
    discard_parts_if_finished(out, end, parts)?;
    let servers = Servers::now(context, spec).await;
    let items: Vec<_> = walkdir::WalkDir::new(out.join(parts)).into_iter().flatten().collect();
    let mut matches = Vec::new();
    for path in items.iter().map(walkdir::DirEntry::path).filter(|path| path.ends_with(harness::RESULT)) {
        let Ok(result) = harness::read_result(path) else { continue };
        if let (Some(why), Some(part)) = (servers.difference(&result), path.parent()) {
            // It would be taken for one of those that are measured now. A mean of repeats does not count as a run.
            matches.extend(result.repeats.is_none().then_some(why));
            discard(part).map_err(|error| Failure::system(error.to_string()))?;
        }
    }
    if let Some(why) = matches.first() {
        let count = match matches.len() {
            1 => "1 finished measurement is repeated".to_owned(),
            count => format!("{count} finished measurements are repeated"),
        };
        context.lease.notice(format!("{count}: {why}"));
    }
    Ok(servers)
}

/// Where it is noted that a measurement has ended without a result.
fn mark(out: &Path, parts: &str) -> PathBuf {
    out.join(format!("{parts}.ended"))
}

/// The failure of a measurement that has ended without a result. Its parts stay for its reader, and the next one
/// measures again.
pub(super) fn ended_without_result(out: &Path, parts: &str, failure: Failure) -> Failure {
    match fs::write(mark(out, parts), "") {
        Ok(()) => failure,
        Err(error) => failure.hint(format!("it would continue from {parts}, which cannot be marked: {error}")),
    }
}

/// Removes the parts if the stage had finished, which `end` shows, or had ended without a result: it resumes only if it
/// was interrupted. What was finished once is measured again, because a selection of successful parts would be biased.
fn discard_parts_if_finished(out: &Path, end: &Path, parts: &str) -> Result<(), Failure> {
    let (mark, parts) = (mark(out, parts), out.join(parts));
    if parts.is_dir() && (is_whole_json(end) || mark.is_file()) {
        fs::remove_dir_all(&parts).at("remove", &parts)?;
    }
    // After the parts: what a crash leaves of them is not resumed.
    for path in [end, &mark] {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.at("remove", path)?,
        }
    }
    Ok(())
}

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
    fs::create_dir_all(path).at("create", path)?;
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
    fn parts_of_an_unfinished_measurement_stay_and_those_of_a_finished_one_go() {
        let out = tempfile::tempdir().unwrap();
        let (part, end) = (out.path().join("probes/01-10"), out.path().join("search.json"));
        fs::create_dir_all(&part).unwrap();
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert!(part.is_dir());
        fs::write(&end, "{}").unwrap();
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert!(!part.exists() && !end.exists());
        fs::create_dir_all(&part).unwrap();
        let failure = Failure::system("missed");
        assert_eq!(ended_without_result(out.path(), "probes", failure.clone()), failure);
        assert!(part.is_dir());
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
        fs::create_dir_all(&part).unwrap();
        fs::write(&end, "{").unwrap();
        discard_parts_if_finished(out.path(), &end, "probes").unwrap();
        assert!(part.is_dir(), "it was killed while it wrote its end");
    }

    #[test]
    fn a_part_that_another_server_answered_does_not_count() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        result.identity.as_mut().unwrap().servers.iter_mut().for_each(|server| server.start_time_seconds = Some(0.5));
        let now = result.identity.as_ref().unwrap().servers.clone();
        let servers = |change: fn(&mut ServerIdentity), is_ours| {
            let mut now = now.clone();
            now.iter_mut().for_each(change);
            Servers { now, is_ours }
        };
        assert!(servers(|_| {}, false).are_those_of(&result));
        assert!(!servers(|server| server.version = Some("99".to_owned()), true).are_those_of(&result));
        // Its own servers are started anew each time; another's are not.
        assert!(servers(|server| server.start_time_seconds = Some(1.0), true).are_those_of(&result));
        assert!(!servers(|server| server.start_time_seconds = Some(1.0), false).are_those_of(&result));
        // One that does not report its start may be another one.
        let mut unknown = result.clone();
        unknown.identity.as_mut().unwrap().servers.iter_mut().for_each(|server| server.start_time_seconds = None);
        assert!(!servers(|server| server.start_time_seconds = None, false).are_those_of(&unknown));
        assert!(servers(|server| server.start_time_seconds = None, true).are_those_of(&unknown));
        unknown.identity = None;
        assert!(!servers(|_| {}, false).are_those_of(&unknown));
    }

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
