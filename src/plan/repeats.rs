//! Measurements that are made several times: `--repeat N`, and variants of one stage that take turns.
//!
//! One benchmark repeats by itself, inside its stage (`bench.repeat`). Where a `foreach` makes several variants of it,
//! all first runs come before all second runs, A B A B: what changes on the machine with time then changes all variants
//! alike. Each run is a task, and the task of the stage sums its runs up:
//!
//! ```text
//!  measure/a@1  measure/b@1  measure/a@2  measure/b@2  →  measure/a  measure/b
//! ```
//!
//! The order is that of the plan, which the schedule follows: where not all servers can be up at a time, it makes all
//! runs of one variant while its server is up, and then those of the next.
//!
//! How many measurements a benchmark is, and the least time that they take: a sweep with repeats is easily an hour.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::time::Duration;

use crate::manifest::model::{Action, Bench, RepeatRole};
use crate::{Lifetime, Need, Plan, PlanReference, Task, TaskPart, UnknownReference, UnwritableAction};
use base::event::TaskId;
use base::spec::BenchSweep;

/// The input of a task that sums runs up: their folders, in order.
pub const REPEATED_RUNS: &str = "runs";

/// Why a plan cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum RepeatError {
    #[error(
        "--repeat: no benchmark of this plan can be repeated: `search`, `loadgen` and `trtllm_bench` are measured \
         once\n  \
         `--repeat-number 2` measures them once more and keeps the first result"
    )]
    NoBenchmark,
    #[error(transparent)]
    Unwritable(#[from] UnwritableAction),
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    #[error(transparent)]
    Reference(#[from] UnknownReference),
}

/// The plan with each benchmark measured `times` times, where that is given, and with variants in turn.
///
/// # Errors
/// `times` is given, and no benchmark of the plan can be repeated.
pub fn repeated(mut plan: Plan, times: Option<u32>) -> Result<Plan, RepeatError> {
    let benches: Vec<Option<Bench>> = plan.tasks.iter().map(|task| bench(task, times)).collect();
    if times.is_some() && benches.iter().all(Option::is_none) {
        return Err(RepeatError::NoBenchmark);
    }
    for (task, bench) in plan.tasks.iter_mut().zip(&benches) {
        if let Some(bench) = bench.as_ref().filter(|_| times.is_some()) {
            task.action = Some(TaskPart::new(Action::Bench(bench.clone()))?);
            // As in a manifest with `bench.repeat`: what was measured before it was cut off is kept.
            task.resume |= task.host.is_none() && bench.repeat > 1;
        }
    }
    let variants = variants(&plan, &benches);
    if variants.is_empty() { Ok(plan) } else { in_turn(plan, &benches, &variants) }
}

/// The benchmark of a task as often as it is to be measured, where it can be repeated.
fn bench(task: &Task, times: Option<u32>) -> Option<Bench> {
    let bench = task.bench().filter(|bench| bench.search.is_none() && bench.loadgen.is_none())?;
    Some(Bench { repeat: times.unwrap_or(bench.repeat), ..bench.clone() })
}

/// For each task that takes turns: the last task of its stage. A job elsewhere has a machine of its own, and repeats by
/// itself there.
fn variants(plan: &Plan, benches: &[Option<Bench>]) -> BTreeMap<usize, usize> {
    let mut stages: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (ix, (task, bench)) in plan.tasks.iter().zip(benches).enumerate() {
        // The points of a sweep repeat one by one, inside its stage.
        let is_repeated = |bench: &Bench| bench.repeat > 1 && bench.sweep.is_none();
        if bench.as_ref().is_some_and(is_repeated) && task.host.is_none() {
            stages.entry(task.stage.as_str()).or_default().push(ix);
        }
    }
    let several = stages.into_values().filter(|tasks| tasks.len() > 1);
    several.flat_map(|tasks| tasks.iter().map(|ix| (*ix, tasks[tasks.len() - 1])).collect::<Vec<_>>()).collect()
}

/// Where a task belongs in the order: by the place of its stage's last task, the number of its run, and its own place.
type Rank = (usize, u32, usize);

fn in_turn(plan: Plan, benches: &[Option<Bench>], variants: &BTreeMap<usize, usize>) -> Result<Plan, RepeatError> {
    let mut tasks: Vec<(Rank, Task)> = Vec::new();
    // The place of each task of the old plan among `tasks`; needs are translated by it.
    let mut place = Vec::with_capacity(plan.tasks.len());
    for (ix, mut task) in plan.tasks.into_iter().enumerate() {
        for need in &mut task.needs {
            need.task = place[need.task as usize];
        }
        if let (Some(last), Some(bench)) = (variants.get(&ix), &benches[ix]) {
            let runs: Vec<Task> =
                (1..=bench.repeat).map(|number| run(&task, bench, number)).collect::<Result<_, _>>()?;
            let first = tasks.len() as u32;
            task = sum(task, bench, &runs, first, &tasks)?;
            tasks.extend((1..).zip(runs).map(|(number, run)| ((*last, number, ix), run)));
        }
        place.push(tasks.len() as u32);
        tasks.push(((ix, 0, 0), task));
    }
    Ok(Plan { tasks: sorted(tasks), ..plan })
}

/// The run of this number, as a task.
fn run(task: &Task, bench: &Bench, number: u32) -> Result<Task, UnwritableAction> {
    let mut bench = Bench { repeat: 1, turn: Some(RepeatRole::Run), ..bench.clone() };
    bench.seed = bench.seed.wrapping_add(u64::from(number - 1));
    if number > 1 {
        // Whether this machine can make the load is tried once, before the first run.
        bench.preflight = crate::manifest::model::Preflight::Off;
    }
    let id = TaskId::new(format!("{}@{number}", task.id));
    Ok(Task { id, action: Some(TaskPart::new(Action::Bench(bench))?), resume: false, ..task.clone() })
}

/// The task of the stage: it needs its runs, and no server.
fn sum(task: Task, bench: &Bench, runs: &[Task], first: u32, before: &[(Rank, Task)]) -> Result<Task, RepeatError> {
    let bench = Bench { turn: Some(RepeatRole::Sum), ..bench.clone() };
    let action = TaskPart::new(Action::Bench(bench))?;
    let without_servers = |text: &str| {
        PlanReference::replace_in(text, |reference| match reference {
            PlanReference::Service(server) => Some(server.to_string()),
            other => Some(other.token()),
        })
    };
    let is_service = |need: &Need| before[need.task as usize].1.lifetime == Lifetime::Service;
    let mut needs: Vec<Need> = task.needs.iter().filter(|need| !is_service(need)).copied().collect();
    needs.extend((first..).zip(runs).map(|(task, _)| Need { task, data: true }));
    let env = task.env.iter().map(|(name, value)| Ok((name.clone(), without_servers(value)?)));
    let env = env.collect::<Result<_, UnknownReference>>()?;
    let mut inputs = task.inputs.clone();
    let folders = runs.iter().map(|run| PlanReference::OutputFolder(run.id.clone()).token()).collect();
    inputs.insert(REPEATED_RUNS.to_owned(), folders);
    Ok(Task {
        action: Some(TaskPart::from_json(&without_servers(action.json())?)?),
        needs,
        env,
        inputs,
        container: None,
        gpus: 0,
        cpus: Some(1),
        retry: None,
        // What is measured again each time is summed up again by itself.
        cache: task.cache || task.external.is_some(),
        external: None,
        resume: false,
        ..task
    })
}

/// Tasks after everything that they need, by rank as far as that allows.
fn sorted(tasks: Vec<(Rank, Task)>) -> Vec<Task> {
    let mut missing: Vec<usize> = tasks.iter().map(|(_, task)| task.needs.len()).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (at, (_, task)) in tasks.iter().enumerate() {
        for need in &task.needs {
            dependents[need.task as usize].push(at);
        }
    }
    let mut ready: BinaryHeap<Reverse<(Rank, usize)>> = tasks
        .iter()
        .enumerate()
        .filter(|(at, _)| missing[*at] == 0)
        .map(|(at, (rank, _))| Reverse((*rank, at)))
        .collect();
    let mut order = Vec::with_capacity(tasks.len());
    while let Some(Reverse((_, at))) = ready.pop() {
        order.push(at);
        for dependent in &dependents[at] {
            missing[*dependent] -= 1;
            if missing[*dependent] == 0 {
                ready.push(Reverse((tasks[*dependent].0, *dependent)));
            }
        }
    }
    let mut place = vec![0u32; tasks.len()];
    for (to, from) in order.iter().enumerate() {
        place[*from] = to as u32;
    }
    let mut tasks: Vec<Option<Task>> = tasks.into_iter().map(|(_, task)| Some(task)).collect();
    let mut sorted: Vec<Task> = order.iter().filter_map(|from| tasks[*from].take()).collect();
    for task in &mut sorted {
        for need in &mut task.needs {
            need.task = place[need.task as usize];
        }
        task.needs.sort();
    }
    sorted
}

/// More than one measurement in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasurementCost {
    /// Of a sweep; a sweep that finds its own levels has at least this many.
    points: u32,
    finds_levels: bool,
    /// Of each point.
    runs: u32,
    /// The schedule of one measurement, where it has a length.
    each: Option<Duration>,
}

impl MeasurementCost {
    /// `None`: the task measures once, or is not a benchmark.
    pub fn from_task(task: &Task) -> Option<Self> {
        // In turns, each run is a task of its own.
        let bench = task.bench().filter(|bench| bench.turn.is_none())?;
        let points = bench.sweep.as_ref().map_or(1, |sweep| match sweep {
            // One idle, and two to see that more users bring no more.
            BenchSweep::Auto(rates) => rates + 3,
            other => other
                .levels()
                .and_then(|levels| levels.ascending(other.is_whole()).ok())
                .map_or(1, |it| it.len() as u32),
        });
        let finds_levels = matches!(bench.sweep, Some(BenchSweep::Auto(_)));
        let cost = Self { points, finds_levels, runs: bench.repeat.max(1), each: bench.stop.time() };
        (cost.points > 1 || cost.runs > 1).then_some(cost)
    }
}

/// `measures 18 times: 6 points, 3 runs each; at least 9 min`
impl fmt::Display for MeasurementCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { points, finds_levels, runs, each } = *self;
        let times = points.saturating_mul(runs);
        let at_least = if finds_levels { "at least " } else { "" };
        write!(f, "measures {at_least}{times} times")?;
        match (points, runs) {
            (_, 1) | (1, _) => {}
            _ => write!(f, ": {points} points, {runs} runs each")?,
        }
        match each.map(|each| each.saturating_mul(times).as_secs()) {
            Some(seconds) if seconds >= 120 => write!(f, "; at least {} min", seconds.div_ceil(60)),
            Some(seconds) => write!(f, "; at least {seconds} s"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand;

    const TWO: &str = "regatta: 1
name: two
stages:
  server:
    foreach: { system: [a, b] }
    serve: { attach: { endpoints: 'localhost:1' } }
  measure:
    foreach: { system: [a, b] }
    bench: { target: '{{ stages.server }}', scenario: offline, stop: { requests: 9 }, seed: 7, input_tokens: { fixed: \
    1 }, output_tokens: { fixed: 1 } }
  after: { shell: 'cat {{ stages.measure.outs | join(\" \") }} > out' }
";

    fn plan(text: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let library = crate::manifest::ManifestLibrary::new(folder.path());
        let manifest = crate::manifest::load(&library, "m.yaml", &crate::manifest::GivenValues::default());
        expand(&manifest.unwrap_or_else(|wrong| panic!("{wrong:?}"))).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    fn plan_text(plan: &Plan) -> String {
        let name = |need: &Need| plan.tasks[need.task as usize].id.to_string();
        let needs = |task: &Task| task.needs.iter().map(name).collect::<Vec<_>>().join(" ");
        let line = |task: &Task| format!("{} ← {}", task.id, needs(task)).trim_end().to_owned();
        plan.tasks.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn variants_take_turns() {
        let plan = repeated(plan(TWO), Some(2)).unwrap();
        insta::assert_snapshot!(plan_text(&plan), @r"
        server/a ←
        server/b ←
        measure/a@1 ← server/a
        measure/b@1 ← server/b
        measure/a@2 ← server/a
        measure/a ← measure/a@1 measure/a@2
        measure/b@2 ← server/b
        measure/b ← measure/b@1 measure/b@2
        after ← measure/a measure/b
        ");
        let seeds: Vec<String> = plan
            .tasks
            .iter()
            .filter(|task| task.id.as_str().starts_with("measure/a"))
            .map(|task| {
                let action: serde_json::Value = serde_json::from_str(task.action_text()).unwrap();
                format!("{} {} {}", action["bench"]["seed"], action["bench"]["turn"], action["bench"]["target"])
            })
            .collect();
        insta::assert_snapshot!(seeds.join("\n"), @r#"
        7 "run" "⟦service:server/a⟧"
        8 "run" "⟦service:server/a⟧"
        7 "sum" "server/a"
        "#);
    }

    #[test]
    fn one_variant_repeats_inside_its_stage_and_one_run_is_the_plan_as_it_was() {
        let single_variant = TWO.replace("[a, b]", "[a]");
        let repeated_one = repeated(plan(&single_variant), Some(3)).unwrap();
        assert_eq!(repeated_one.tasks.len(), 3);
        assert!(repeated_one.tasks[1].action_text().contains("\"repeat\":3"));
        assert_eq!(repeated(plan(TWO), Some(1)).unwrap(), plan(TWO));
        assert_eq!(repeated(plan(TWO), None).unwrap(), plan(TWO));
    }

    #[test]
    fn what_cannot_be_repeated_is_an_error() {
        let none = "regatta: 1\nname: m\nstages:\n  a: { shell: 'true' }\n";
        let reason = repeated(plan(none), Some(2)).unwrap_err().to_string();
        assert!(reason.contains("no benchmark of this plan"), "{reason}");
    }

    #[test]
    fn the_cost_is_every_run_of_every_point() {
        let cost = MeasurementCost { points: 6, finds_levels: false, runs: 3, each: Some(Duration::from_secs(30)) };
        assert_eq!(cost.to_string(), "measures 18 times: 6 points, 3 runs each; at least 9 min");
        assert_eq!(MeasurementCost { runs: 1, ..cost }.to_string(), "measures 6 times; at least 3 min");
        assert_eq!(MeasurementCost { points: 1, each: None, ..cost }.to_string(), "measures 3 times");
        let cost = MeasurementCost { points: 11, finds_levels: true, runs: 1, each: Some(Duration::from_secs(5)) };
        assert_eq!(cost.to_string(), "measures at least 11 times; at least 55 s");
    }
}
