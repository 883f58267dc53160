//! What a run would do, without doing it: `regatta plan`.

use std::collections::BTreeMap;

use crate::store::{Digests, Lookup, OutputCache, TaskRecord};
use base::event::TaskId;
use base::files::Digest;
use plan::{Lifetime, Need, Plan, Task};

use super::keying::{Keyed, key_of, look_up, reasons};
use super::options::{RunOptions, TaskRole};
use super::{OpenFact, TaskExecutor, result_age};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    Run,
    Cached,
    Skipped,
}

/// What would happen to one task, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: TaskId,
    pub stage: String,
    pub verdict: Prediction,
    pub reasons: Vec<String>,
    /// It cannot succeed; `reasons` has why.
    pub fails: bool,
    /// It runs only because a task above runs: it is cached after all where that one makes the same output again.
    pub may_be_cached: bool,
}

/// Why a service is not started.
const NOT_NEEDED: &str = "everything that needs it is cached";

enum PredictedOutput {
    Digest(Digest),
    /// What it is or makes is not known before the run, and why.
    Open(String),
    Nothing,
}

/// One decision for each task that is part of the run, in the plan's order. Reads inputs and outputs, writes nothing. Facts that only
/// a run looks up are taken to be as they were last.
pub fn predict(
    plan: &Plan,
    work: &impl TaskExecutor,
    output_cache: &OutputCache,
    digests: &Digests,
    options: &RunOptions,
) -> Vec<Decision> {
    let count = plan.tasks.len();
    let (known, as_before, lowered) = (Vec::with_capacity(count), vec![false; count], Vec::new());
    let mut predictor = Predictor { plan, work, output_cache, digests, options, known, as_before, lowered };
    let mut decisions: Vec<Option<Decision>> = (0..count).map(|ix| predictor.decide(ix)).collect();
    settle_services(plan, &mut decisions);
    for (ix, why) in predictor.lowered {
        if let Some(decision) = decisions[ix].as_mut().filter(|decision| decision.verdict == Prediction::Run) {
            decision.reasons.push(why);
        }
    }
    decisions.into_iter().flatten().collect()
}

/// Decides about the tasks of a plan, in its order.
struct Predictor<'a, W> {
    plan: &'a Plan,
    work: &'a W,
    output_cache: &'a OutputCache,
    digests: &'a Digests,
    options: &'a RunOptions,
    /// Of each task that is decided.
    known: Vec<PredictedOutput>,
    /// Of each task: its output is in the cache, as the last run left it.
    as_before: Vec<bool>,
    /// Tasks whose retry rule has lowered a number, and why.
    lowered: Vec<(usize, String)>,
}

impl<W: TaskExecutor> Predictor<'_, W> {
    /// `None`: it is no part of the run.
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
        let task = &self.plan.tasks[ix];
        if let Some(why) = &task.skipped {
            return (PredictedOutput::Nothing, decision(task, Prediction::Skipped, vec![why.clone()]));
        }
        if !self.options.forced[ix]
            && let Some(record) =
                self.options.unchanged.record(self.work, self.plan, ix as u32, &self.as_before, self.output_cache)
        {
            self.as_before[ix] = true;
            let decision = decision(task, Prediction::Cached, self.source_notice(task, &record).into_iter().collect());
            return (PredictedOutput::Digest(record.digest), decision);
        }
        let open_facts = self.work.open_facts(task);
        let facts = with_last_facts(self.work.facts(task), self.plan, task, &open_facts, self.output_cache);
        let upstream = |need: u32| match &self.known[need as usize] {
            PredictedOutput::Digest(digest) => Some(*digest),
            _ => None,
        };
        let keyed = match key_of(self.plan, task, facts, upstream, self.output_cache, self.digests) {
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

    fn source_notice(&self, task: &Task, record: &TaskRecord) -> Option<String> {
        record.done.source.as_ref().and_then(|source| self.work.source_notice(&task.stage, source))
    }

    /// Why data that a task needs is not known before the run.
    fn open_needs(&self, task: &Task) -> Vec<String> {
        let why = |need: &Need| match &self.known[need.task as usize] {
            PredictedOutput::Open(why) if need.data => Some(why.clone()),
            _ => None,
        };
        task.needs.iter().filter_map(why).collect()
    }

    fn step(
        &mut self,
        ix: usize,
        keyed: &Keyed,
        open: Vec<String>,
        open_facts: &[OpenFact],
    ) -> (PredictedOutput, Decision) {
        let Self { plan, output_cache, options, .. } = *self;
        let task = &plan.tasks[ix];
        let forced = options.forced[ix];
        let look = if open.is_empty() {
            look_up(self.work, plan, task, &keyed.digest, output_cache)
        } else {
            Ok(Lookup::Absent)
        };
        let look = match look {
            Ok(look) => look,
            Err(_) if forced || !task.cache => Lookup::Absent,
            Err(error) => return will_fail(task, &error.to_string()),
        };
        match look {
            Lookup::Hit(record) if !forced && task.cache => {
                let age = result_age::notice(task, &keyed.key, &record).map(|(_, text)| text);
                let conditions = open_facts.iter().map(|fact| format!("if {}", fact.condition));
                let reasons = age.into_iter().chain(self.source_notice(task, &record)).chain(conditions).collect();
                self.as_before[ix] = options.unchanged.is_output_as_before(ix as u32, &record);
                (PredictedOutput::Digest(record.digest), decision(task, Prediction::Cached, reasons))
            }
            // A run takes it from the cache, if what it is made from comes out as it was.
            _ if options.roles[ix] == TaskRole::Restore && !open.is_empty() => {
                let mut why = open;
                why.push("it must be in the cache then, because --only leaves it out".to_owned());
                (will_run(task), decision(task, Prediction::Run, why))
            }
            _ if options.roles[ix] == TaskRole::Restore && task.cache => {
                will_fail(task, "it is not done yet, and --only leaves it out")
            }
            look => {
                let is_own = open.is_empty() || forced || !task.cache;
                let mut why = if open.is_empty() || forced {
                    reasons(plan, task, keyed, &look, output_cache, forced)
                } else {
                    own_changes(plan, task, keyed, output_cache)
                };
                let may_be_cached = !is_own && why.is_empty();
                why.extend(open);
                let decision = decision(task, Prediction::Run, why);
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
        let why = open_facts.iter().map(|fact| format!("{}: only a run sees if {}", task.id, fact.condition));
        PredictedOutput::Open(why.collect::<Vec<_>>().join(", "))
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

/// The facts, with open ones as they were in the task's last key.
fn with_last_facts(
    mut facts: BTreeMap<String, String>,
    plan: &Plan,
    task: &Task,
    open: &[OpenFact],
    output_cache: &OutputCache,
) -> BTreeMap<String, String> {
    if !open.is_empty()
        && let Some(last) = output_cache.last(&plan.name, &task.id).and_then(|last| last.key_fields())
    {
        let is_open = |name: &str| open.iter().any(|fact| name.starts_with(&fact.names));
        facts.extend(last.facts.into_iter().filter(|(name, _)| is_open(name)));
    }
    facts
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
fn own_changes(plan: &Plan, task: &Task, keyed: &Keyed, output_cache: &OutputCache) -> Vec<String> {
    let Some(old) = output_cache.last(&plan.name, &task.id).and_then(|last| last.key_fields()) else {
        return vec!["not in cache".to_owned()];
    };
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
