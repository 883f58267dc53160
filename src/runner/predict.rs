//! What a run would do, without doing it: `regatta plan`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::keying::Keyed;
use super::run::age_notice;
use crate::store::{Lookup, PathError, TaskKey, TaskRecord, WatchedOutput, WatchedTask};
use crate::{KeyContext, OpenFact, RunOptions, TaskExecutor, TaskRole};
use base::event::{Decision, Failure, Prediction, TaskId};
use base::files::Digest;
use plan::{Lifetime, Need, Plan, Task};

/// Why a service is not started.
const NOT_NEEDED: &str = "everything that needs it is cached";

enum PredictedOutput {
    Digest(Digest),
    /// What it is or makes is not known before the run, and why.
    Open(String),
    Nothing,
}

/// One decision for each task that is part of the run, in the plan's order. Reads inputs and outputs, writes nothing.
/// Facts that only a run looks up are taken to be as they were last.
pub fn predict(context: &KeyContext<'_, impl TaskExecutor>, options: &RunOptions) -> Vec<Decision> {
    let count = context.plan.tasks.len();
    let (known, as_before, lowered) = (Vec::with_capacity(count), vec![false; count], Vec::new());
    let mut predictor = Predictor { context, options, known, as_before, lowered };
    let mut decisions: Vec<Option<Decision>> = (0..count).map(|ix| predictor.decide(ix)).collect();
    settle_services(context.plan, &mut decisions);
    for (ix, why) in predictor.lowered {
        if let Some(decision) = decisions[ix].as_mut().filter(|decision| decision.verdict == Prediction::Run) {
            decision.reasons.push(why);
        }
    }
    decisions.into_iter().flatten().collect()
}

/// Decides about the tasks of a plan, in its order.
struct Predictor<'a, W> {
    context: &'a KeyContext<'a, W>,
    options: &'a RunOptions,
    /// Of each task that is decided.
    known: Vec<PredictedOutput>,
    /// Of each task: its output is in the cache, as the last run left it.
    as_before: Vec<bool>,
    /// Tasks whose retry rule has lowered a number, and why.
    lowered: Vec<(usize, String)>,
}

impl<W: TaskExecutor> Predictor<'_, W> {
    /// `None`: the run does not include it.
    fn decide(&mut self, ix: usize) -> Option<Decision> {
        let (output, decision) = if self.options.roles[ix] == TaskRole::NotNeeded {
            (PredictedOutput::Nothing, None)
        } else {
            let (output, decision) = self.task(ix);
            (output, Some(decision))
        };
        self.known.push(output);
        decision
    }

    fn task(&mut self, ix: usize) -> (PredictedOutput, Decision) {
        let task = &self.context.plan.tasks[ix];
        if let Some(why) = &task.skipped {
            return (PredictedOutput::Nothing, decision(task, Prediction::Skipped, vec![why.clone()]));
        }
        if !self.options.forced[ix]
            && let Some(record) = self.options.unchanged.record(self.context, ix as u32, &self.as_before)
        {
            self.as_before[ix] = true;
            let decision = decision(task, Prediction::Cached, self.source_notice(task, &record).into_iter().collect());
            return (PredictedOutput::Digest(record.digest), decision);
        }
        let open_facts = self.context.work.open_facts(task);
        let facts = self.facts(task, &open_facts);
        let upstream = |need: u32| match &self.known[need as usize] {
            PredictedOutput::Digest(digest) => Some(*digest),
            _ => None,
        };
        let keyed = match self.context.key_of(task, facts, upstream) {
            Ok(keyed) => keyed,
            Err(failure) => return will_fail(task, &failure.what),
        };
        if let Some(less) = &keyed.lowered {
            self.lowered.push((ix, less.because()));
        }
        let open = self.open_needs(task);
        match task.lifetime {
            Lifetime::Service => service(task, &keyed, open, &open_facts),
            Lifetime::Step => self.step(ix, &keyed, open, &open_facts),
        }
    }

    /// Those of a task, with open ones as they were in its last key.
    fn facts(&self, task: &Task, open: &[OpenFact]) -> BTreeMap<String, String> {
        let mut facts = self.context.work.facts(task);
        if !open.is_empty()
            && let Some(last) = self.context.last_key(task)
        {
            let is_open = |name: &str| open.iter().any(|fact| name.starts_with(&fact.names));
            facts.extend(last.facts.into_iter().filter(|(name, _)| is_open(name)));
        }
        facts
    }

    fn source_notice(&self, task: &Task, record: &TaskRecord) -> Option<String> {
        record.done.source.as_ref().and_then(|source| self.context.work.source_notice(&task.stage, source))
    }

    /// Why data that a task needs is not known before the run.
    fn open_needs(&self, task: &Task) -> Vec<String> {
        let open_reason = |need: &Need| match &self.known[need.task as usize] {
            PredictedOutput::Open(why) if need.data => Some(why.clone()),
            _ => None,
        };
        task.needs.iter().filter_map(open_reason).collect()
    }

    fn step(
        &mut self,
        ix: usize,
        keyed: &Keyed,
        open: Vec<String>,
        open_facts: &[OpenFact],
    ) -> (PredictedOutput, Decision) {
        let Self { context, options, .. } = *self;
        let task = &context.plan.tasks[ix];
        let forced = options.forced[ix];
        let look = if open.is_empty() { context.look_up(task, &keyed.digest) } else { Ok(Lookup::Absent) };
        let look = match look {
            Ok(look) => look,
            Err(_) if forced || !task.cache => Lookup::Absent,
            Err(error) => return will_fail(task, &error.to_string()),
        };
        match look {
            Lookup::Hit(record) if !forced && task.cache => {
                let age = age_notice(task, &keyed.key, &record).map(|(_, text)| text);
                let conditions = open_facts.iter().map(|fact| format!("if {}", fact.condition));
                let reasons = age.into_iter().chain(self.source_notice(task, &record)).chain(conditions).collect();
                self.as_before[ix] = options.unchanged.is_output_as_before(ix as u32, &record);
                (PredictedOutput::Digest(record.digest), decision(task, Prediction::Cached, reasons))
            }
            // A run takes it from the cache, if what it is made from comes out as it was.
            _ if options.roles[ix] == TaskRole::Restore && !open.is_empty() => {
                let mut reasons_open = open;
                reasons_open.push("it must be in the cache then, because --only leaves it out".to_owned());
                (will_run(task), decision(task, Prediction::Run, reasons_open))
            }
            _ if options.roles[ix] == TaskRole::Restore && task.cache => {
                will_fail(task, "it has not finished yet, and --only excludes it")
            }
            look => {
                let is_own = open.is_empty() || forced || !task.cache;
                let mut run_reasons = if open.is_empty() || forced {
                    context.reasons(task, keyed, &look, forced)
                } else {
                    own_changes(keyed, context.last_key(task))
                };
                let may_be_cached = !is_own && run_reasons.is_empty();
                run_reasons.extend(open);
                let decision = decision(task, Prediction::Run, run_reasons);
                (will_run(task), Decision { may_be_cached, ..decision })
            }
        }
    }
}

/// A service whose key is known runs; whether anything needs it is not looked at yet.
fn service(task: &Task, keyed: &Keyed, open: Vec<String>, open_facts: &[OpenFact]) -> (PredictedOutput, Decision) {
    if !open.is_empty() {
        return (will_run(task), decision(task, Prediction::Run, open));
    }
    let output = if open_facts.is_empty() {
        PredictedOutput::Digest(keyed.digest)
    } else {
        let conditions = open_facts.iter().map(|fact| format!("{}: only a run sees if {}", task.id, fact.condition));
        PredictedOutput::Open(conditions.collect::<Vec<_>>().join(", "))
    };
    (output, decision(task, Prediction::Run, Vec::new()))
}

fn decision(task: &Task, verdict: Prediction, reasons: Vec<String>) -> Decision {
    Decision { id: task.id.clone(), stage: task.stage.clone(), verdict, reasons, fails: false, may_be_cached: false }
}

fn will_fail(task: &Task, why: &str) -> (PredictedOutput, Decision) {
    let decision = decision(task, Prediction::Run, vec![format!("will fail: {why}")]);
    (will_run(task), Decision { fails: true, ..decision })
}

fn will_run(task: &Task) -> PredictedOutput {
    PredictedOutput::Open(format!("{} will run", task.id))
}

/// Like `predict`, where the last run of this plan finished everything and nothing has changed since.
pub fn predict_no_op(plan: &Plan, options: &RunOptions) -> Vec<Decision> {
    let tasks = plan.tasks.iter().zip(&options.roles).filter(|(_, role)| **role != TaskRole::NotNeeded);
    let decide = |(task, _): (&Task, &TaskRole)| {
        let (verdict, reasons) = match (&task.skipped, task.lifetime) {
            (Some(why), _) => (Prediction::Skipped, vec![why.clone()]),
            (None, Lifetime::Service) => (Prediction::Skipped, vec![NOT_NEEDED.to_owned()]),
            (None, Lifetime::Step) => (Prediction::Cached, Vec::new()),
        };
        decision(task, verdict, reasons)
    };
    tasks.map(decide).collect()
}

/// Changes of the task itself, beside those that its upstream will bring.
fn own_changes(keyed: &Keyed, last: Option<TaskKey>) -> Vec<String> {
    let Some(old) = last else { return vec!["not in cache".to_owned()] };
    let mut new = keyed.key.clone();
    new.upstream.clone_from(&old.upstream);
    crate::store::explain(&old, &new)
}

/// A service runs only if something that needs it runs.
fn settle_services(plan: &Plan, decisions: &mut [Option<Decision>]) {
    for ix in (0..plan.tasks.len()).rev() {
        if plan.tasks[ix].lifetime != Lifetime::Service || plan.tasks[ix].skipped.is_some() {
            continue;
        }
        let needed_by: Vec<String> = plan
            .tasks
            .iter()
            .enumerate()
            .filter(|(d, task)| {
                task.needs.iter().any(|n| n.task as usize == ix)
                    && decisions[*d].as_ref().is_some_and(|d| d.verdict == Prediction::Run)
            })
            .map(|(_, task)| format!("needed by {}", task.id))
            .collect();
        let Some(decision) = &mut decisions[ix] else { continue };
        if decision.verdict != Prediction::Run || decision.fails {
            continue;
        }
        if needed_by.is_empty() {
            decision.verdict = Prediction::Skipped;
            decision.reasons = vec![NOT_NEEDED.to_owned()];
        } else {
            decision.reasons = needed_by;
        }
    }
}

// What is known of each task's key before anything runs: all but what its upstream will make.

/// For each task of the plan; `None` for a task that is skipped or not part of the run. A key without upstream is not
/// yet the key of a task that has any.
pub fn predict_keys(
    context: &KeyContext<'_, impl TaskExecutor>,
    options: &RunOptions,
) -> Vec<Option<Result<TaskKey, Failure>>> {
    let key = |(task, part): (&plan::Task, &TaskRole)| {
        if *part == TaskRole::NotNeeded || task.skipped.is_some() {
            return None;
        }
        Some(context.key_of(task, context.work.facts(task), |_| None).map(|keyed| keyed.key))
    };
    context.plan.tasks.iter().zip(&options.roles).map(key).collect()
}

// How far each task is, without running any: its key, and whether the cache has its output.

/// One step of a plan.
#[derive(Clone, Debug)]
pub struct TaskStatus {
    pub task: TaskId,
    /// `None`: something upstream is nowhere, so what this one is made from is not known yet.
    pub key: Option<(TaskKey, Digest)>,
    /// In the cache, and whole.
    pub record: Option<Arc<TaskRecord>>,
}

/// Every step that is part of `options`, in the plan's order. `elsewhere` is queried for what is not here; the keys
/// downstream use the digest of an output that it knows, and a record that it gives is here from then on.
///
/// # Errors
/// An output here cannot be looked at.
pub fn task_statuses(
    context: &KeyContext<'_, impl TaskExecutor>,
    options: &RunOptions,
    mut elsewhere: impl FnMut(&TaskStatus) -> (Option<Digest>, Option<Arc<TaskRecord>>),
) -> Result<Vec<TaskStatus>, PathError> {
    let plan = context.plan;
    let mut upstream_digests: Vec<Option<Digest>> = Vec::with_capacity(plan.tasks.len());
    let mut standings = Vec::new();
    for (ix, task) in plan.tasks.iter().enumerate() {
        if options.roles[ix] == TaskRole::NotNeeded || task.skipped.is_some() {
            upstream_digests.push(None);
            continue;
        }
        let is_open = |need: &plan::Need| {
            let at = need.task as usize;
            need.data
                && upstream_digests[at].is_none()
                && plan.tasks[at].skipped.is_none()
                && options.roles[at] != TaskRole::NotNeeded
        };
        let keyed = (!task.needs.iter().any(is_open))
            .then(|| context.key_of(task, context.work.facts(task), |need| upstream_digests[need as usize]).ok())
            .flatten();
        if task.lifetime == Lifetime::Service {
            upstream_digests.push(keyed.map(|keyed| keyed.digest));
            continue;
        }
        let mut standing = TaskStatus { task: task.id.clone(), key: keyed.map(|k| (k.key, k.digest)), record: None };
        if let Some((_, digest)) = &standing.key
            && let Lookup::Hit(record) = context.look_up(task, digest)?
        {
            standing.record = Some(record);
        }
        let digest = match &standing.record {
            Some(record) => Some(record.digest),
            None => match &standing.key {
                Some((_, digest)) if !context.is_made_by_another(task, digest) => {
                    let (digest, record) = elsewhere(&standing);
                    standing.record = record;
                    digest
                }
                _ => None,
            },
        };
        upstream_digests.push(digest);
        standings.push(standing);
    }
    Ok(standings)
}

// Tasks that need not be looked at again: what they depend on looks as the last run of the same plan left it.

/// What the last run of the same plan looked at, by the task's index in the plan.
#[derive(Clone, Debug, Default)]
pub struct UnchangedTasks(HashMap<u32, (WatchedTask, bool)>);

impl UnchangedTasks {
    /// `watched`: of the last run. Looks at all of it now; the caller holds the project's lock.
    pub fn new(watched: Vec<WatchedTask>) -> Self {
        let same = WatchedTask::unchanged(&watched);
        Self(watched.into_iter().zip(same).map(|(task, same)| (task.task, (task, same))).collect())
    }

    /// What the last run left, if all of it still looks the same.
    pub(super) fn unchanged(&self, task: u32) -> Option<&WatchedTask> {
        self.0.get(&task).filter(|(_, same)| *same).map(|(task, _)| task)
    }

    /// The record of a task that need not be looked at: all that it depends on looks as the last run of this plan left
    /// it, and its upstream made what it had made then. `is_as_before`: for each task of the plan.
    pub(super) fn record(
        &self,
        context: &KeyContext<'_, impl TaskExecutor>,
        task: u32,
        is_as_before: &[bool],
    ) -> Option<Arc<TaskRecord>> {
        let output = self.unchanged(task)?.output.as_ref()?;
        let KeyContext { plan, work, output_cache: cache, .. } = context;
        let task = &plan.tasks[task as usize];
        let is_skipped = |need: &Need| plan.tasks[need.task as usize].skipped.is_some();
        if !task.cache || !task.needs.iter().all(|need| is_as_before[need.task as usize] || is_skipped(need)) {
            return None;
        }
        // What an output names is not among what is looked at.
        cache.whole_record(output).filter(|record| work.unusable_reason(task, &cache.folder(record)).is_none())
    }

    /// Whether what is built on this output can be what it was.
    pub(super) fn is_output_as_before(&self, task: u32, record: &TaskRecord) -> bool {
        self.output_before(task).is_some_and(|before| before.digest == record.digest)
    }

    /// The output that the last run left, whatever it is now.
    pub(super) fn output_before(&self, task: u32) -> Option<&WatchedOutput> {
        self.0.get(&task)?.0.output.as_ref()
    }
}
