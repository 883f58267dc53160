//! What a run would do, without doing it: `regatta plan`.

use std::collections::BTreeMap;

use crate::event::TaskId;
use crate::files::Digest;
use crate::plan::{Lifetime, Plan, Task};
use crate::runner::store::{Digests, Lookup, OutputCache};

use super::keying::{key_of, look_up, reasons};
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
    let mut known: Vec<PredictedOutput> = Vec::with_capacity(plan.tasks.len());
    let mut decisions: Vec<Option<Decision>> = Vec::with_capacity(plan.tasks.len());
    let mut lowered = Vec::new();
    let mut as_before = vec![false; plan.tasks.len()];
    for (ix, task) in plan.tasks.iter().enumerate() {
        let decide = |verdict, reasons| {
            let (id, stage) = (task.id.clone(), task.stage.clone());
            Some(Decision { id, stage, verdict, reasons, fails: false })
        };
        let will_fail = |why: &str| {
            let decision = decide(Prediction::Run, vec![format!("will fail: {why}")]);
            (will_run(task), decision.map(|decision| Decision { fails: true, ..decision }))
        };
        if options.roles[ix] == TaskRole::NotNeeded {
            known.push(PredictedOutput::Nothing);
            decisions.push(None);
            continue;
        }
        if let Some(why) = &task.skipped {
            known.push(PredictedOutput::Nothing);
            decisions.push(decide(Prediction::Skipped, vec![why.clone()]));
            continue;
        }
        if !options.forced[ix]
            && let Some(record) = options.unchanged.record(work, plan, ix as u32, &as_before, output_cache)
        {
            as_before[ix] = true;
            known.push(PredictedOutput::Digest(record.digest));
            decisions.push(decide(Prediction::Cached, Vec::new()));
            continue;
        }
        let why_open = |need: &crate::plan::Need| match &known[need.task as usize] {
            PredictedOutput::Open(why) if need.data => Some(why.clone()),
            _ => None,
        };
        let open: Vec<String> = task.needs.iter().filter_map(why_open).collect();
        let upstream = |need: u32| match &known[need as usize] {
            PredictedOutput::Digest(digest) => Some(*digest),
            _ => None,
        };
        let open_facts = work.open_facts(task);
        let facts = with_last_facts(work.facts(task), plan, task, &open_facts, output_cache);
        let keyed = key_of(plan, task, facts, upstream, output_cache, digests);
        if let Ok(Some(less)) = keyed.as_ref().map(|keyed| &keyed.lowered) {
            lowered.push((ix, less.because()));
        }
        let (now, decision) = match (keyed, task.lifetime) {
            (Err(failure), _) => will_fail(&failure.what),
            (Ok(_), Lifetime::Service) if !open.is_empty() => (will_run(task), decide(Prediction::Run, open)),
            (Ok(_), Lifetime::Service) if !open_facts.is_empty() => {
                let why = open_facts.iter().map(|fact| format!("{}: only a run sees if {}", task.id, fact.condition));
                (PredictedOutput::Open(why.collect::<Vec<_>>().join(", ")), decide(Prediction::Run, Vec::new()))
            }
            (Ok(keyed), Lifetime::Service) => {
                (PredictedOutput::Digest(keyed.digest), decide(Prediction::Run, Vec::new()))
            }
            (Ok(keyed), Lifetime::Step) => {
                let forced = options.forced[ix];
                let look = if open.is_empty() {
                    look_up(work, plan, task, &keyed.digest, output_cache)
                } else {
                    Ok(Lookup::Absent)
                };
                let look = match look {
                    Err(_) if forced || !task.cache => Ok(Lookup::Absent),
                    look => look,
                };
                match look {
                    Err(error) => will_fail(&error.to_string()),
                    Ok(Lookup::Hit(record)) if !forced && task.cache => {
                        let age = result_age::notice(task, &keyed.key, &record).map(|(_, text)| text);
                        let conditions = open_facts.iter().map(|fact| format!("if {}", fact.condition));
                        let reasons = age.into_iter().chain(conditions).collect();
                        as_before[ix] = options.unchanged.is_output_as_before(ix as u32, &record);
                        (PredictedOutput::Digest(record.digest), decide(Prediction::Cached, reasons))
                    }
                    // A run takes it from the cache, if what it is made from comes out as it was.
                    _ if options.roles[ix] == TaskRole::Restore && !open.is_empty() => {
                        let mut why = open;
                        why.push("it must be in the cache then, because --only leaves it out".to_owned());
                        (will_run(task), decide(Prediction::Run, why))
                    }
                    _ if options.roles[ix] == TaskRole::Restore && task.cache => {
                        will_fail("it is not done yet, and --only leaves it out")
                    }
                    Ok(look) => {
                        let mut why = if open.is_empty() || forced {
                            reasons(plan, task, &keyed, &look, output_cache, forced)
                        } else {
                            own_changes(plan, task, &keyed, output_cache)
                        };
                        why.extend(open);
                        (will_run(task), decide(Prediction::Run, why))
                    }
                }
            }
        };
        known.push(now);
        decisions.push(decision);
    }
    settle_services(plan, &mut decisions);
    for (ix, why) in lowered {
        if let Some(decision) = decisions[ix].as_mut().filter(|decision| decision.verdict == Prediction::Run) {
            decision.reasons.push(why);
        }
    }
    decisions.into_iter().flatten().collect()
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

/// The same where the last run of this plan finished everything and nothing has changed since.
pub fn predict_no_op(plan: &Plan, options: &RunOptions) -> Vec<Decision> {
    let tasks = plan.tasks.iter().zip(&options.roles).filter(|(_, role)| **role != TaskRole::NotNeeded);
    let decide = |(task, _): (&Task, &TaskRole)| {
        let (verdict, reasons) = match (&task.skipped, task.lifetime) {
            (Some(why), _) => (Prediction::Skipped, vec![why.clone()]),
            (None, Lifetime::Service) => (Prediction::Skipped, vec![NOT_NEEDED.to_owned()]),
            (None, Lifetime::Step) => (Prediction::Cached, Vec::new()),
        };
        Decision { id: task.id.clone(), stage: task.stage.clone(), verdict, reasons, fails: false }
    };
    tasks.map(decide).collect()
}

/// Changes of the task itself, beside those that its upstream will bring.
fn own_changes(plan: &Plan, task: &Task, keyed: &super::keying::Keyed, output_cache: &OutputCache) -> Vec<String> {
    let Some(old) = output_cache.last(&plan.name, &task.id).and_then(|last| last.key_fields()) else {
        return vec!["not in cache".to_owned()];
    };
    let mut new = keyed.key.clone();
    new.upstream.clone_from(&old.upstream);
    crate::runner::store::explain(&old, &new)
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
