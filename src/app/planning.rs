//! `regatta plan`: what a run would do, and why. Writes nothing.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::path::Path;

use crate::before_run::{decide, environment_faults, unread_variables};
use crate::cli::{CliExit, Global, KeyValueArg, PlanRequest, Select};
use crate::console::{print, print_as, print_error, print_json};
use crate::error::CommandError;
use crate::project::{Project, options};
use crate::simulate::ServedTwin;
use crate::store;
use base::event::Prediction;
use base::spec::{Length, LimitedMetric, Scenario, Statistic};
use mlperf::dataset::{LengthDistribution, assumed_lengths};
use plan::manifest::model::{Bench, RepeatRole};
use plan::{MeasurementCost, Plan, Task, loadgen};
use report::{BenchEstimate, DecisionRow, EstimateBasis, EstimatedLoad, estimates_note};
use rules::MlperfScenario;
use runner::RunOptions;
use sim::{EngineLimits, VirtualBenchmark, VirtualResult, VirtualWorkload};
use stages::previews;
use triton::launch::{LaunchPreview, ServePreview};

pub(super) fn plan(global: &Global, request: &PlanRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    // Its memory goes with the process: to free it task by task takes a tenth of the command's time.
    let plan = ManuallyDrop::new(project.plan(&request.subject, &request.select)?);
    if request.launch {
        return launches(global, &project, &plan, &request.select, request.json);
    }
    let options = options(&plan, &request.select)?;
    let chosen: Vec<bool> = options.roles.iter().map(|part| *part != runner::TaskRole::NotNeeded).collect();
    let mut notes = [plan.idle(&chosen), unread_variables(), loadgen::notes(&plan, Path::new("/"))].concat();
    let mut tasks = plan.tasks.iter();
    let mut estimates = PlanEstimates::new(&project, request, &plan);
    let mut decisions = Vec::new();
    let predicted = decide(&project, &request.subject, &request.select, &plan, &options)?;
    for mut decision in predicted {
        // Decisions have the order of the plan.
        let task = tasks.find(|task| task.id == decision.id);
        debug_assert!(task.is_some(), "{} is out of order", decision.id);
        // To read every action of a large plan takes its time; a cached one costs nothing.
        let task = task.filter(|_| decision.verdict == Prediction::Run);
        let cost = task.and_then(MeasurementCost::from_task).map(|cost| cost.to_string());
        decision.reasons.extend(task.map(environment_faults).into_iter().flatten());
        let estimate = task.and_then(|task| estimates.estimate_task(task));
        decisions.push(DecisionRow { decision, cost, estimate });
    }
    notes.extend(estimates.note());
    // A plan is made without a network.
    if let Some(store) = store::address(None)?
        && decisions.iter().any(|row| row.decision.verdict == Prediction::Run)
    {
        let name = &request.subject.manifest;
        notes.push(format!("{store} was not queried: `regatta store status {name}` shows what it has"));
    }
    let styler = global.styler();
    if request.json {
        print_json(|out| report::write_decisions_json(&decisions, out));
    } else {
        print(&report::decisions_text(&decisions, styler));
        for note in notes {
            print(&styler.fit(format!("{note}\n")));
        }
    }
    refuse_impossible_launches(&project, &plan, &options)
}

/// The servers that the chosen `serve` tasks will start. Servers that cannot start are reported with all reasons.
fn launches(
    global: &Global,
    project: &Project,
    plan: &Plan,
    select: &Select,
    json: bool,
) -> Result<CliExit, CommandError> {
    let options = options(plan, select)?;
    let launches = launch_previews(project, plan, &options)?;
    let text = |styler| report::launch_text(&launches, styler);
    print_as(global.styler(), json, || report::launch_json(&launches), text);
    Ok(refuse(&report::launch_problems(&launches)))
}

/// Prints why servers of a plan cannot be started, whatever its earlier stages make: before the first of them runs.
pub(super) fn refuse_impossible_launches(
    project: &Project,
    plan: &Plan,
    options: &RunOptions,
) -> Result<CliExit, CommandError> {
    let is_certain =
        |preview: &ServePreview| matches!(preview.launch, LaunchPreview::Impossible { is_certain: true, .. });
    let impossible: Vec<ServePreview> =
        launch_previews(project, plan, options)?.into_iter().filter(is_certain).collect();
    Ok(refuse(&report::launch_problems(&impossible)))
}

/// Prints problems as errors. Exit code 0 without problems.
fn refuse(problems: &str) -> CliExit {
    if problems.is_empty() {
        return CliExit::Done;
    }
    print_error(problems);
    CliExit::Usage
}

fn launch_previews(project: &Project, plan: &Plan, options: &RunOptions) -> Result<Vec<ServePreview>, CommandError> {
    let chosen: Vec<bool> = options.roles.iter().map(|part| *part != runner::TaskRole::NotNeeded).collect();
    let serves = plan.tasks.iter().zip(&chosen).any(|(task, chosen)| *chosen && task.kind.facts().is_service);
    // To read every action of a large plan takes its time.
    if serves { Ok(previews(plan, &chosen, project.home.project())?) } else { Ok(Vec::new()) }
}

/// Requests of a load that are simulated, for each server that has requests of its own.
const SAMPLE: usize = 5000;
/// Requests of a load that are simulated at most, for all servers together: what needs more to be told has no estimate.
const LARGEST_SAMPLE: usize = 1_000_000;
/// Tokens of answers that are simulated at most, for all servers together: 50 servers with 5,000 answers of 4,000
/// tokens each.
const MOST_TOKENS: f64 = 1e9;
/// Requests come faster than the servers answer them beyond this share of what full servers do: the end of a finite
/// load, when few requests are left, hides a part of that.
const BEHIND: f64 = 1.1;
/// Probes of a search, at most.
const PROBES: f64 = 12.0;

/// The estimates of one plan.
pub(super) struct PlanEstimates<'a> {
    project: &'a Project,
    request: &'a PlanRequest,
    plan: &'a Plan,
    /// Of the simulated system with the name of the real one; compiled when it is needed first.
    twin: OnceCell<Option<(String, Plan)>>,
    /// What was simulated already: loads are often the same.
    known: HashMap<String, EstimatedTime>,
    all: Vec<BenchEstimate>,
    basis: EstimateBasis,
}

/// Requests as one measurement sends them.
#[derive(Clone, Copy, Debug)]
enum SentLoad {
    AtOnce { count: f64 },
    Arrivals { count: f64, rate: f64 },
    Users { users: usize, count: f64, seconds: f64 },
}

impl SentLoad {
    /// The same load of this many requests.
    fn with_requests(self, count: f64) -> Self {
        match self {
            Self::AtOnce { .. } => Self::AtOnce { count },
            Self::Arrivals { rate, .. } => Self::Arrivals { count, rate },
            Self::Users { users, .. } => Self::Users { users, count, seconds: 0.0 },
        }
    }
}

/// Of one measurement.
#[derive(Clone, Copy, Debug, Default)]
struct EstimatedTime {
    seconds: f64,
    requests: f64,
    tokens: f64,
    falls_behind: bool,
    sustained: f64,
}

/// Servers that are alike, and how their time passes.
struct Servers {
    limits: EngineLimits,
    count: usize,
    /// Simulated seconds per second.
    speed: f64,
}

impl<'a> PlanEstimates<'a> {
    pub(super) fn new(project: &'a Project, request: &'a PlanRequest, plan: &'a Plan) -> Self {
        Self {
            project,
            request,
            plan,
            twin: OnceCell::new(),
            known: HashMap::new(),
            all: Vec::new(),
            basis: EstimateBasis::default(),
        }
    }

    /// Of a benchmark that will run. `None`: no twin of its servers is known, or its load is not known beforehand.
    pub(super) fn estimate_task(&mut self, task: &Task) -> Option<BenchEstimate> {
        let bench = task.bench().filter(|bench| bench.turn != Some(RepeatRole::Sum))?;
        let own_servers = ServedTwin::served(self.plan, task);
        let is_simulated = own_servers.speed.is_some();
        let servers = if is_simulated { own_servers } else { self.servers_of_twin(task)? };
        let (spec, serving) = servers.simulated()?;
        let limits = sim::served_limits(&spec, &serving).ok()?;
        let (gpus, count) = servers.sizes();
        let speed = servers.speed.filter(|_| is_simulated).unwrap_or(1.0);
        let mut estimate = self.estimate(bench, &Servers { limits, count, speed })?;
        estimate.gpus = if is_simulated { 0 } else { gpus };
        // The rate of a simulated system is small on purpose.
        let target = bench.loadgen.as_ref().map_or(bench.rate, |test| test.target_qps);
        let target = target.filter(|_| !is_simulated && self.plan.params.contains_key("target_qps"));
        if let (Some(target), Some(load)) = (target, &mut estimate.load) {
            let (low, high) = spec.basis().band();
            load.doubtful_target = Some(target).filter(|_| !(low..=high).contains(&(target / load.sustained)));
        }
        self.basis.servers.insert((spec.model.name.clone(), spec.gpu.name.clone(), spec.basis()));
        if !is_simulated {
            self.basis.twin = self.twin.get().and_then(Option::as_ref).map(|(name, _)| name.clone());
        }
        self.all.push(estimate);
        Some(estimate)
    }

    /// The sum, and what it rests on.
    pub(super) fn note(&self) -> Option<String> {
        Some(estimates_note(&self.all, &self.basis)).filter(|note| !note.is_empty())
    }

    /// The servers of the same task with the simulated system of the same name, where it has the same model.
    fn servers_of_twin(&self, task: &Task) -> Option<ServedTwin> {
        let (_, twin) = self.twin.get_or_init(|| self.twin_plan()).as_ref()?;
        let same = twin.tasks.iter().find(|other| other.id == task.id && other.skipped.is_none())?;
        let servers = ServedTwin::served(twin, same);
        let model = servers.engine.as_ref().map(|engine| plain(&engine.model.name)).unwrap_or_default();
        let is_other = self.plan.params.get("model").is_some_and(|chosen| !plain(chosen).contains(&model));
        Some(servers).filter(|servers| servers.speed.is_some() && !is_other)
    }

    fn twin_plan(&self) -> Option<(String, Plan)> {
        let name = format!("sim-{}", self.plan.params.get("system")?);
        self.project.manifests.find(&format!("{}/{name}", self.request.subject.manifest))?;
        let mut subject = self.request.subject.clone();
        subject.settings.retain(|one| one.key != "system");
        subject.settings.push(KeyValueArg { key: "system".to_owned(), value: name.clone() });
        // What only the real system can be given has no twin.
        let plan = self.project.expanded(&subject, &self.request.select).ok()?;
        Some((name, plan))
    }

    fn estimate(&mut self, bench: &Bench, servers: &Servers) -> Option<BenchEstimate> {
        if bench.data.is_some() || bench.sessions.is_some() || bench.ramp.is_some() || bench.think_time.is_some() {
            return None;
        }
        if bench.search.is_some() {
            return search(bench);
        }
        let points = bench.points()?;
        let mut sum = EstimatedTime::default();
        for point in &points {
            let estimate = self.measurement(point, servers)?;
            sum.seconds += estimate.seconds;
            sum.requests += estimate.requests;
            sum.tokens += estimate.tokens;
            sum.falls_behind |= estimate.falls_behind;
            sum.sustained = estimate.sustained;
        }
        // With `turn`, each repeat is a separate task.
        let runs = if bench.turn.is_some() { 1.0 } else { f64::from(bench.repeat.max(1)) };
        let load = EstimatedLoad {
            requests: sum.requests * runs,
            requests_per_second: sum.requests / sum.seconds.max(f64::MIN_POSITIVE),
            tokens_per_second: sum.tokens / sum.seconds.max(f64::MIN_POSITIVE),
            falls_behind: sum.falls_behind,
            sustained: sum.sustained,
            doubtful_target: None,
        };
        Some(BenchEstimate { seconds: sum.seconds * runs, is_at_most: false, gpus: 0, load: Some(load) })
    }

    fn measurement(&mut self, bench: &Bench, servers: &Servers) -> Option<EstimatedTime> {
        let (workload, is_assumed) = workload(bench)?;
        let load = sent_load(bench)?;
        let warmup = bench.warmup_time.as_ref().map_or(0.0, |time| time.time().as_secs_f64());
        let key = format!("{load:?} {workload:?} {warmup} {} {:?}", bench.warmup, (&servers.limits, servers.count));
        self.basis.has_assumed_lengths |= is_assumed;
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let (mut found, is_sampled) = servers.time(load, &workload)?;
        if bench.warmup > 0 {
            let (warm_up, _) = servers.time(load.with_requests(f64::from(bench.warmup)), &workload)?;
            found.seconds += warm_up.seconds;
        }
        found.seconds += warmup;
        if is_sampled {
            self.basis.sample = SAMPLE;
        }
        self.known.insert(key, found);
        Some(found)
    }
}

impl Servers {
    /// What a load takes, and whether only a part of it was simulated. `None`: they never hold such a request, or too
    /// much would have to be simulated.
    fn time(&self, load: SentLoad, workload: &VirtualWorkload) -> Option<(EstimatedTime, bool)> {
        // Full servers are so only in a load of several times what they hold.
        let most = self.count.saturating_mul(SAMPLE.max(self.limits.max_batch_size.saturating_mul(2)));
        let part = |count: f64, most: usize| (count.ceil() as usize).clamp(1, most);
        let simulated = match load {
            SentLoad::Users { users, .. } => SAMPLE.max(users.saturating_mul(2)),
            SentLoad::AtOnce { count } => part(count, most),
            SentLoad::Arrivals { .. } => most,
        };
        if simulated > LARGEST_SAMPLE || simulated as f64 * workload.output_tokens.mean() > MOST_TOKENS {
            return None;
        }
        let estimated = |result: &VirtualResult, requests: f64, seconds: f64| EstimatedTime {
            seconds: seconds / self.speed,
            requests,
            tokens: result.output_tokens as f64 / result.requests.max(1) as f64 * requests,
            falls_behind: false,
            sustained: requests / seconds * self.speed,
        };
        let paced = |result: &VirtualResult, requests: f64| result.seconds * requests / result.requests.max(1) as f64;
        let benchmark = VirtualBenchmark::new(&self.limits, self.count, workload);
        Some(match load {
            SentLoad::AtOnce { count } => {
                let result = benchmark.served(part(count, most), None).ok()?;
                let seconds = paced(&result, count);
                (estimated(&result, count, seconds), count > most as f64)
            }
            SentLoad::Arrivals { count, rate } => {
                let rate = rate / self.speed;
                let result = benchmark.served(part(count, SAMPLE), Some(rate)).ok()?;
                let answer =
                    result.statistic(LimitedMetric::E2e, Statistic::Mean).ok().flatten().unwrap_or_default() / 1e3;
                let full = benchmark.served(most, None).ok()?;
                let sustained = 1.0 / paced(&full, 1.0);
                let falls_behind = rate > BEHIND * sustained;
                let seconds = if falls_behind { paced(&full, count) } else { count / rate + answer };
                let estimated = estimated(&result, count, seconds);
                (EstimatedTime { falls_behind, sustained, ..estimated }, count > SAMPLE as f64)
            }
            SentLoad::Users { users, count, seconds } => {
                let most = simulated;
                let simulated = if count > 0.0 { part(count, most) } else { most };
                let result = sim::with_users(&self.limits, self.count, workload, simulated, users).ok()?;
                let pace = result.requests as f64 / result.seconds.max(f64::MIN_POSITIVE);
                let count = count.max(seconds * self.speed * pace);
                (estimated(&result, count, count / pace), count > most as f64)
            }
        })
    }
}

/// Letters and digits: `Llama-3.1-8B` and `llama3.1-8b` are the same.
fn plain(name: &str) -> String {
    name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The longest that the probes of a search take; how many there are is known when it ends.
fn search(bench: &Bench) -> Option<BenchEstimate> {
    let bounds = bench.search.as_ref()?;
    let seconds = loadgen::Cost::estimate(bench).map_or_else(
        || {
            let arrivals = bench.stop.requests.map_or(0.0, |count| count as f64 / bounds.low.max(f64::MIN_POSITIVE));
            PROBES * arrivals.max(bench.stop.time().map_or(0.0, |time| time.as_secs_f64()))
        },
        |cost| cost.most_s,
    );
    (seconds > 0.0).then_some(BenchEstimate { seconds, is_at_most: true, gpus: 0, load: None })
}

/// Its lengths, and whether they are assumed. `None`: they are in its data.
fn workload(bench: &Bench) -> Option<(VirtualWorkload, bool)> {
    // Any seed will do: runs with different seeds take equally long.
    let seed = 0;
    let (input_tokens, output_tokens) = match &bench.loadgen {
        Some(test) => assumed_lengths(&test.benchmark).map(|(inputs, answers)| (length(&inputs), length(&answers)))?,
        None => (bench.input_tokens.clone(), bench.output_tokens.clone()),
    };
    let adapters = bench.request.lora_task_id.clone();
    let is_known = input_tokens != Length::Given && output_tokens != Length::Given;
    is_known.then_some((VirtualWorkload { input_tokens, output_tokens, adapters, seed }, bench.loadgen.is_some()))
}

fn length(assumed: &LengthDistribution) -> Length {
    let LengthDistribution { mean, sigma, min, max, .. } = *assumed;
    if sigma <= 0.0 {
        return Length::Fixed(mean as u32);
    }
    Length::Lognormal { mean, stddev: mean * libm::sqrt(libm::exp(sigma * sigma) - 1.0), min, max }
}

/// What one measurement sends. `None`: that is not known beforehand.
fn sent_load(bench: &Bench) -> Option<SentLoad> {
    if bench.loadgen.is_some() {
        let test = loadgen::queries(bench)?;
        let count = test.queries as f64;
        return Some(match test.scenario {
            MlperfScenario::Offline => SentLoad::AtOnce { count },
            MlperfScenario::SingleStream => SentLoad::Users { users: 1, count, seconds: 0.0 },
            MlperfScenario::Server | MlperfScenario::Interactive => SentLoad::Arrivals { count, rate: test.target_qps },
        });
    }
    let count = bench.stop.requests.map_or(0.0, |count| count as f64);
    let seconds = bench.stop.time().map_or(0.0, |time| time.as_secs_f64());
    let has_end = count > 0.0 || seconds > 0.0;
    match bench.scenario {
        Scenario::Offline => (count > 0.0).then_some(SentLoad::AtOnce { count }),
        Scenario::Server | Scenario::Interactive => {
            let rate = bench.rate.filter(|rate| *rate > 0.0 && has_end)?;
            Some(SentLoad::Arrivals { count: count.max(rate * seconds), rate })
        }
        Scenario::Concurrency => {
            let users = bench.concurrency.filter(|_| has_end)? as usize;
            Some(SentLoad::Users { users, count, seconds })
        }
        Scenario::SingleStream => has_end.then_some(SentLoad::Users { users: 1, count, seconds }),
        Scenario::Trace => None,
    }
}
