//! One attempt of one step: a new folder, the work, the checks, the hash. Everything here may run beside the loop.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use super::keying::{Keyed, PROJECT, Quoting, TaskOutput, outside_links_notice, own_patterns, resolve};
use crate::store::{
    ContentChange, Digests, FinishedOutput, HashedFolder, OutputCache, PathStamps, Resumes, TaskRecord, discard,
    has_result, is_there, items_in, left_running, list_folder, path_stamps, replaced_path,
};
use crate::{BatchSlot, EventEmitter, Lease, ResolvedTask, TaskExecutor, UpstreamProvenance, upstream_provenance};
use base::diag::panic_text;
use base::event::{Done, Endpoint, Event, Failure, FailureKind, GpuId, RunId, Stop, TaskId};
use plan::{Need, Plan, PlanReference, SharedTask, Task};

/// What an attempt needs, gathered by the loop.
pub(super) struct AttemptInputs {
    pub plan: Arc<Plan>,
    pub task: SharedTask,
    pub keyed: Arc<Keyed>,
    pub attempt: u32,
    /// Nothing of a measurement that was interrupted counts.
    pub is_anew: bool,
    pub gpus: Vec<GpuId>,
    pub batch_slot: Option<BatchSlot>,
    /// For each need, by its place in `task.needs`.
    pub outputs: Vec<TaskOutput>,
    pub run: RunId,
    pub cache: Arc<OutputCache>,
    pub digests: Arc<Digests>,
    pub stop: Stop,
    pub emit: EventEmitter,
    pub ready: Option<oneshot::Sender<Vec<Endpoint>>>,
    /// Called when a step has ended and its output is so large that hashing it takes a while.
    pub on_hashing: Box<dyn FnOnce() + Send>,
}

/// What a task made: of a step also its output, and a path of what it read that was changed and restored meanwhile.
pub(super) type WorkResult = (Done, Option<HashedFolder>, Option<PathBuf>);

/// What an attempt left.
pub(super) struct AttemptOutcome {
    pub result: Result<WorkResult, Box<Failure>>,
    pub folder: Option<PathBuf>,
    pub seconds: f64,
}

impl AttemptInputs {
    pub(super) async fn run<W: TaskExecutor>(self, work: Arc<W>) -> AttemptOutcome {
        let begun = Instant::now();
        // The loop waits for the end of each attempt.
        let folder = match panic_is_failure("preparing its output folder", || self.folder()) {
            Ok(folder) => folder,
            Err(failure) => return AttemptOutcome { result: Err(Box::new(failure)), folder: None, seconds: 0.0 },
        };
        let result = catch_panics("its attempt", self.work_in(&folder, work)).await.map_err(Box::new);
        AttemptOutcome { result, folder: Some(folder), seconds: begun.elapsed().as_secs_f64() }
    }

    /// Where it works: a new folder, or that of a job which an earlier run left running.
    fn folder(&self) -> Result<PathBuf, Failure> {
        if self.attempt == 1 && self.task.host.is_some() {
            let left = left_running(self.cache.home(), &self.task.id, &self.keyed.digest);
            // Not to be tried again: a second attempt would take the place of a job that may still run.
            let left = left.map_err(|error| Failure { kind: FailureKind::Refused, ..error.into() })?;
            if let Some(folder) = left {
                return Ok(folder);
            }
        }
        let resumes: Resumes = if self.task.bench().is_some() { is_cut_off } else { |_| true };
        let folder = self.cache.new_folder(&self.task.id, &self.keyed.digest, self.task.resume.then_some(resumes))?;
        // A forced measurement is made as a whole: nothing of one that was cut off counts.
        if self.is_anew && self.attempt == 1 && self.task.bench().is_some() {
            for item in items_in(&folder)? {
                discard(&item)?;
            }
        }
        Ok(folder)
    }

    async fn work_in<W: TaskExecutor>(mut self, folder: &Path, work: Arc<W>) -> Result<WorkResult, Failure> {
        let assignment = self.assignment()?;
        for (name, state) in &self.keyed.inputs {
            if let Some(text) = lfs_notice(name, &state.lfs_pointers()).filter(|_| self.attempt == 1) {
                (self.emit)(Event::Notice { task: Some(self.task.id.clone()), text });
            }
        }
        // The links in `latest` are pointed elsewhere by this run itself.
        let (home, mut ways) = (self.cache.home(), self.keyed_paths());
        ways.retain(|path| !path.starts_with(home.latest()));
        let ways = path_stamps(ways, home.project());
        let stop = self.stop.clone();
        let lease = Lease {
            task: self.task.clone(),
            attempt: self.attempt,
            assignment,
            out: folder.to_owned(),
            log: self.cache.home().log(&self.run, &self.task.id),
            project: self.cache.home().project().to_owned(),
            gpus: std::mem::take(&mut self.gpus),
            lowered: self.keyed.lowered.clone(),
            batch_slot: self.batch_slot.take(),
            stop: stop.clone(),
            ready: self.ready.take(),
            emit: Arc::clone(&self.emit),
            origins: self.origins(),
        };
        // Elsewhere it counts from its start there: waiting in a queue does not count.
        let limit = self.task.timeout.filter(|_| self.task.host.is_none());
        let worker = Arc::clone(&work);
        let working = async move { worker.perform(lease).await };
        // Work that blocks its thread must not delay its own time limit.
        let done = match limit {
            Some(_) => within(limit, &stop, isolate_panics(working)).await?,
            None => catch_panics(STAGE_CODE, working).await?,
        };
        if self.task.lifetime == plan::Lifetime::Service {
            return Ok((done, None, None));
        }
        self.check_outputs(folder)?;
        let restored = self.check_inputs(&ways)?;
        if let Some(path) = &restored {
            let text = format!("{} changed while it ran and is as before; its output is not cached", path.display());
            (self.emit)(Event::Notice { task: Some(self.task.id.clone()), text });
        }
        let listed = list_folder(folder)?;
        if let Some(text) = outside_links_notice(&listed, || self.keyed_paths())? {
            (self.emit)(Event::Notice { task: Some(self.task.id.clone()), text });
        }
        let portable = work.portable_digests(&self.task, folder, &|| self.places())?;
        let is_large = listed.is_large();
        // Hashing a large output is work for another core, not for the loop. A stop request waits for it, so that
        // finished work is not lost; a second stop request does not wait. Weights may be links to files of the project.
        let may_name = self.keyed.names_project || self.task.kind.facts().names_project;
        let project = may_name.then(|| self.cache.home().project().to_owned());
        let seal = move || listed.seal(project.as_deref());
        let sealed = if is_large {
            (self.on_hashing)();
            tokio::select! {
                sealed = tokio::task::spawn_blocking(seal) => sealed
                    .map_err(|e| Failure::new(FailureKind::System, format!("its output could not be hashed: {e}")))?,
                () = stop.hard_requested() => {
                    return Err(Failure::new(FailureKind::Interrupted, "stopped before its output was read to the end"));
                }
            }
        } else {
            seal()
        };
        Ok((done, Some(sealed?.with_digests(&portable)), restored))
    }

    fn assignment(&self) -> Result<ResolvedTask, Failure> {
        let needs: BTreeMap<&str, &TaskOutput> =
            self.task.needs.iter().zip(&self.outputs).map(|(need, made)| (self.id_of(*need).as_str(), made)).collect();
        let made = |id: &str| needs.get(id).copied();
        let mut inputs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for (name, patterns) in &self.task.inputs {
            let paths = match self.keyed.inputs.get(name) {
                Some(state) => state.paths.clone(),
                None => patterns
                    .iter()
                    .map(|p| resolve(p, Quoting::AsIs, &self.cache, &BTreeMap::new(), &made).map(PathBuf::from))
                    .collect::<Result<_, _>>()?,
            };
            for path in &paths {
                if !is_there(path)? {
                    let message = format!("input {name}: {} does not exist", path.display());
                    return Err(Failure::new(FailureKind::Files, message));
                }
            }
            inputs.insert(name.clone(), paths);
        }
        let outputs = self.task.needs.iter().zip(&self.outputs).filter_map(|(need, made)| match made {
            TaskOutput::Output(record) if need.data => Some(self.cache.folder(record)),
            _ => None,
        });
        let outputs = outputs.collect();
        let action = resolve(self.task.action_text(), Quoting::Json, &self.cache, &inputs, &made)?;
        let container = match &self.task.container {
            Some(container) => Some(resolve(container.json(), Quoting::Json, &self.cache, &inputs, &made)?),
            None => None,
        };
        let env = self
            .task
            .env
            .iter()
            .map(|(name, value)| Ok((name.clone(), resolve(value, Quoting::AsIs, &self.cache, &inputs, &made)?)))
            .collect::<Result<_, Failure>>()?;
        let (mut endpoints, mut gpus, mut lowered) = (Vec::new(), Vec::new(), Vec::new());
        for made in &self.outputs {
            if let TaskOutput::Service { endpoints: own, gpus: leased, lowered: less, .. } = made {
                endpoints.extend(own.iter().cloned());
                gpus.extend(leased);
                lowered.extend(less.iter().cloned());
            }
        }
        let host = self
            .task
            .host
            .as_ref()
            .map(|host| resolve(host.json(), Quoting::Json, &self.cache, &inputs, &made))
            .transpose()?;
        Ok(ResolvedTask { action, container, inputs, outputs, env, endpoints, gpus, host, lowered })
    }

    /// Whose content is in its key: its own inputs, and the outputs that it reads.
    fn keyed_paths(&self) -> Vec<PathBuf> {
        let inputs = self.keyed.inputs.values().flat_map(|input| input.paths.iter().cloned());
        let outputs = self.outputs.iter().filter_map(|made| match made {
            TaskOutput::Output(record) => Some(self.cache.folder(record)),
            _ => None,
        });
        inputs.chain(outputs).collect()
    }

    /// Folders of this machine that its output may name, and what stands for each: where they are does not count, and
    /// what is in them does, for what reads this output has no other key of them.
    fn places(&self) -> Vec<(PathBuf, String)> {
        let upstream = self.task.needs.iter().zip(&self.outputs).filter_map(|(need, made)| match made {
            TaskOutput::Output(record) => {
                let reference = PlanReference::OutputFolder(self.id_of(*need).clone());
                Some((self.cache.folder(record), format!("{}{}", reference.token(), record.digest)))
            }
            _ => None,
        });
        let inputs = self.keyed.inputs.iter().filter_map(|(name, input)| match &input.paths[..] {
            [path] => Some((path.clone(), format!("{}{}", PlanReference::Input(name.clone()).token(), input.digest))),
            _ => None,
        });
        let project = (self.cache.home().project().to_owned(), PROJECT.to_owned());
        upstream.chain(inputs).chain([project]).collect()
    }

    /// What it was made from, computed on demand.
    fn origins(&self) -> Arc<dyn Fn() -> UpstreamProvenance + Send + Sync> {
        let (plan, output_cache, task) = (Arc::clone(&self.plan), Arc::clone(&self.cache), self.task.clone());
        Arc::new(move || upstream_provenance(&plan, &output_cache, &task))
    }

    fn id_of(&self, need: Need) -> &TaskId {
        &self.plan.tasks[need.task as usize].id
    }

    /// After the work: outputs are there.
    fn check_outputs(&self, folder: &Path) -> Result<(), Failure> {
        let mut missing: Vec<&str> = Vec::new();
        for name in &self.task.outputs {
            if !is_there(&folder.join(name))? {
                missing.push(name);
            }
        }
        if !missing.is_empty() {
            return Err(Failure::new(FailureKind::Files, format!("it did not write {}", missing.join(", "))).hint(
                "a stage runs in its own output folder, $OUT; files named under `outputs:` must be there at the end",
            ));
        }
        Ok(())
    }

    /// After the work: inputs and upstream outputs are what they were. `Some`: one that was something else meanwhile.
    fn check_inputs(&self, ways: &PathStamps) -> Result<Option<PathBuf>, Failure> {
        let mut restored = replaced_path(ways).map(Path::to_owned);
        for (name, state) in &self.keyed.inputs {
            let patterns = &self.task.inputs[name];
            if own_patterns(patterns) {
                match self.digests.change(self.cache.home().project(), patterns, state)? {
                    ContentChange::Same => {}
                    ContentChange::Restored(path) => restored = Some(path),
                    ContentChange::Changed(how) => {
                        return Err(Failure::new(FailureKind::InputChanged, format!("input {name} {how}")));
                    }
                }
            }
        }
        for (need, made) in self.task.needs.iter().zip(&self.outputs) {
            let TaskOutput::Output(record) = made else { continue };
            match self.cache.compare(record)? {
                ContentChange::Same => {}
                ContentChange::Restored(path) => restored = Some(path),
                ContentChange::Changed(what) => {
                    return Err(Failure::new(
                        FailureKind::Refused,
                        format!("it wrote into the output of {}: {what}", self.id_of(*need)),
                    )
                    .hint("outputs are shared and must not be written to; copy what has to change into $OUT"));
                }
            }
        }
        Ok(restored)
    }
}

/// A folder may have pointers that no stage reads, as a repository without its large files has.
fn lfs_notice(input: &str, pointers: &[&Path]) -> Option<String> {
    let first = pointers.first()?.display();
    let files = match pointers.len() {
        1 => format!("{first} is a Git LFS pointer, and the file itself has not been fetched"),
        count => format!("{count} files, the first is {first}, are Git LFS pointers and have not been fetched"),
    };
    Some(format!("input {input}: {files}; if the stage reads it, run `git lfs pull` in its repository"))
}

/// Whether a measurement has no result yet. One that is INVALID has, which stays as the result of its run.
fn is_cut_off(folder: &Path) -> bool {
    !has_result(folder)
}

/// The record an output was accepted under. `restored`: what it was made from was something else meanwhile, so no later
/// run finds it by its key.
pub(super) fn accept(
    output_cache: &OutputCache,
    run: &RunId,
    manifest: &str,
    task: &Task,
    keyed: &Keyed,
    output: FinishedOutput,
    restored: Option<&Path>,
) -> Result<(Arc<TaskRecord>, bool), Failure> {
    let mut key = Cow::Borrowed(&keyed.key);
    if let Some(path) = restored {
        key.to_mut().facts.insert(format!("changed while it ran in {run}"), path.display().to_string());
    }
    let accepted = output_cache.accept(run, manifest, &task.id, &key, output)?;
    output_cache.clear_failed(&task.id, &keyed.digest);
    Ok(accepted)
}

// Limits a stage's work: its `timeout`, and isolation of its panics. The caller decides when the time starts.

/// What panics where a stage does.
pub(super) const STAGE_CODE: &str = "the stage's own code";

/// Work as a task of its own, so that a panic in a stage is a failure of that stage and not the end of the run, and
/// work that blocks its thread delays neither the time limit nor a heartbeat of the caller.
pub fn isolate_panics<W>(work: W) -> impl Future<Output = Result<Done, Failure>>
where
    W: Future<Output = Result<Done, Failure>> + Send + 'static,
{
    let working = tokio::spawn(work);
    async { working.await.unwrap_or_else(|panic| Err(panicked(STAGE_CODE, &panic))) }
}

/// Work whose panic is a failure of its task, on the caller's own thread: for a caller that does nothing else
/// meanwhile, and that would otherwise not learn of its end. `what`: what panicked.
pub(super) async fn catch_panics<T>(what: &str, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(what, &panic_text(&*panic))))
}

/// Like `catch_panics`, for work that does not wait.
pub(super) fn panic_is_failure<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(what, &panic_text(&*panic))))
}

fn panicked(what: &str, panic: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureKind::System, format!("{what} panicked: {panic}"))
}

/// Work with its time limit. At the limit it is requested to stop, waited for, and has failed regardless of its result;
/// unless it had to stop before the limit.
pub async fn within(
    limit: Option<Duration>,
    stop: &Stop,
    work: impl Future<Output = Result<Done, Failure>>,
) -> Result<Done, Failure> {
    let mut work = pin!(work);
    let Some(limit) = limit else { return work.await };
    if let Ok(done) = tokio::time::timeout(limit, &mut work).await {
        return done;
    }
    if stop.is_requested() {
        return work.await;
    }
    stop.request();
    let mut failure = work.await.err().unwrap_or_else(|| Failure::new(FailureKind::Timeout, ""));
    failure.kind = FailureKind::Timeout;
    failure.what = format!("it ran past its timeout of {}", shown(limit));
    Err(failure)
}

fn shown(time: Duration) -> String {
    let s = time.as_secs();
    match (s / 3600, s % 3600 / 60, s % 60) {
        (0, 0, _) => format!("{} s", time.as_secs_f64()),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::StateFolder;
    use base::files::Digest;

    #[test]
    fn pointers_in_a_folder_are_named_once_for_an_input() {
        let (one, other) = (Path::new("w/a.safetensors"), Path::new("w/b.safetensors"));
        assert_eq!(lfs_notice("model", &[]), None);
        let text = lfs_notice("model", &[one]).unwrap();
        assert!(text.starts_with("input model: w/a.safetensors is a Git LFS pointer"), "{text}");
        let text = lfs_notice("model", &[one, other]).unwrap();
        assert!(text.starts_with("input model: 2 files, the first is w/a.safetensors, are Git LFS pointers"), "{text}");
    }

    #[test]
    fn a_measurement_goes_on_until_it_has_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let cache = OutputCache::open(&StateFolder::new(folder.path().into(), folder.path().join(".regatta"))).unwrap();
        cache.begin().unwrap();
        let next = || cache.new_folder(&TaskId::new("measure"), &Digest::hash(b"key"), Some(is_cut_off)).unwrap();
        let first = next();
        assert_eq!(next(), first);
        fs::write(first.join("result.json"), "{").unwrap();
        assert_eq!(next(), first, "it was killed while it wrote its result");
        fs::write(first.join("result.json"), "{}").unwrap();
        let second = next();
        assert_ne!(second, first);
        assert_eq!(next(), second);
        assert!(first.join("result.json").exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_timed_out_task_is_stopped_and_fails_even_if_it_exits_0() {
        let stop = Stop::new();
        let until_stop_requested = || async {
            stop.requested().await;
            Ok(Done::default())
        };
        let late = within(Some(Duration::from_secs(90)), &stop, until_stop_requested()).await.unwrap_err();
        assert_eq!((late.kind, late.what.as_str()), (FailureKind::Timeout, "it ran past its timeout of 1 min 30 s"));
        assert!(
            within(Some(Duration::from_secs(1)), &stop, until_stop_requested()).await.is_ok(),
            "stopped already, and in time"
        );
        assert!(within(None, &stop, until_stop_requested()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_past_its_timeout_after_a_stop_request_is_interrupted() {
        let stop = Stop::new();
        let work = async {
            stop.requested().await;
            tokio::time::sleep(Duration::from_mins(2)).await;
            Err(Failure::new(FailureKind::Interrupted, "stopped"))
        };
        let request = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            stop.request();
        };
        let (ended, ()) = tokio::join!(within(Some(Duration::from_secs(90)), &stop, work), request);
        assert_eq!(ended.unwrap_err(), Failure::new(FailureKind::Interrupted, "stopped"));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_of_its_stage() {
        let none: Vec<Done> = Vec::new();
        let failure = isolate_panics(async move { Ok(none[0].clone()) }).await.unwrap_err();
        assert!(failure.what.starts_with("the stage's own code panicked: "), "{}", failure.what);
        let none: Vec<Done> = Vec::new();
        let failure = catch_panics(STAGE_CODE, async move { Ok(none[0].clone()) }).await.unwrap_err();
        assert!(failure.what.starts_with("the stage's own code panicked: index out of bounds"), "{}", failure.what);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_blocks_its_thread_delays_no_timer_of_the_caller() {
        let (send, receive) = std::sync::mpsc::channel();
        let blocks = isolate_panics(async move {
            receive.recv().unwrap();
            Ok(Done::default())
        });
        let timer = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            send.send(()).unwrap();
        };
        let (done, ()) = tokio::join!(blocks, timer);
        assert!(done.is_ok());
    }
}
