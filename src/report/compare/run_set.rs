//! One side of a comparison: the runs of one measurement, what they were measured on, and how runs of two sides are
//! paired.
//!
//! A tested value is the mean over the runs of one plan (arrivals, lengths and prompts). Runs of one plan meet in the
//! same queues and differ by the server's noise alone. That says nothing about another plan, so they are one
//! observation, their mean, wherever the other side had other plans. The same plans on both sides, which the same
//! seeds give, make pairs.

use super::{ComparedResult, Comparison, Measure};
use base::diag::ErrorText;
use base::event::Verdict;
use harness::{IdentityDifference, RunIdentity, identity_differences};
use serde::Serialize;
use serde_json::{Value, json as value};

/// Runs that were made the same way, with different seeds or at different times. At least one.
#[derive(Clone, Debug)]
pub struct RunSet {
    pub name: String,
    runs: Vec<ComparedResult>,
}

/// A metric and a statistic of all runs.
pub(super) struct RunSetRow<'a> {
    /// As the first run has it.
    pub measure: &'a Measure,
    pub stat: &'static str,
    /// One for each run.
    pub values: Vec<f64>,
}

impl RunSet {
    /// `Err`: why they are not runs of one measurement.
    pub fn new(name: impl Into<String>, runs: Vec<ComparedResult>) -> Result<Self, ErrorText> {
        let name = name.into();
        let Some((first, others)) = runs.split_first() else {
            return Err(ErrorText::new(format_args!("{name} has no result")));
        };
        for other in others {
            let (mut unlike, _) = first.unlike_load(other);
            unlike.extend(simulated_and_real(first, other));
            unlike.extend(other_server(first, other));
            if !unlike.is_empty() {
                let (first, other, unlike) = (&first.name, &other.name, unlike.join("; "));
                let error = ErrorText::new(format_args!(
                    "{name} has results that are not runs of one measurement: {first} and {other} differ in {unlike}"
                ));
                return Err(error.hint("name one of them"));
            }
        }
        Ok(Self { name, runs })
    }

    /// One run alone.
    pub fn single(run: ComparedResult) -> Self {
        Self { name: run.name.clone(), runs: vec![run] }
    }

    pub fn first(&self) -> &ComparedResult {
        &self.runs[0]
    }

    pub fn runs(&self) -> &[ComparedResult] {
        &self.runs
    }

    /// The seeds of its runs, each once, by number; `None` where that of a run is not known.
    pub(super) fn seeds(&self) -> Option<Vec<String>> {
        let seeds: Option<Vec<String>> = self.runs.iter().map(|run| run.settings().get("seed").cloned()).collect();
        let mut seeds = seeds?;
        seeds.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        seeds.dedup();
        Some(seeds)
    }

    /// The run with the worst verdict.
    pub fn worst(&self) -> &ComparedResult {
        // A run that is not judged may have something to mind.
        let badness = |run: &&ComparedResult| run.verdict.unwrap_or(Verdict::ValidWithWarnings);
        // Of equally bad ones the first.
        self.runs.iter().rev().max_by_key(badness).unwrap_or_else(|| self.first())
    }

    /// Numbers that every run has, with one meaning.
    pub(super) fn rows(&self) -> impl Iterator<Item = RunSetRow<'_>> {
        self.rows_of(|run| &run.measures)
    }

    /// Like `rows`, of what only a gate looks at.
    pub(super) fn gate_rows(&self) -> impl Iterator<Item = RunSetRow<'_>> {
        self.rows_of(|run| &run.gate_measures)
    }

    fn rows_of<'a>(
        &'a self,
        measures: impl Fn(&'a ComparedResult) -> &'a [Measure] + Copy + 'a,
    ) -> impl Iterator<Item = RunSetRow<'a>> {
        measures(self.first()).iter().flat_map(move |measure| {
            measure.stats.iter().filter_map(move |(stat, _)| {
                let of = |run| measures(run).iter().find(|other| other.key == measure.key && other.is_like(measure));
                let values: Option<Vec<f64>> = self.runs.iter().map(|run| of(run)?.stat(stat)).collect();
                Some(RunSetRow { measure, stat, values: values? })
            })
        })
    }
}

/// The runs of one side, those of a plan together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanGroups {
    groups: Vec<PlanGroup>,
    runs: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PlanGroup {
    plan: String,
    /// Places among the runs of the side.
    runs: Vec<usize>,
}

impl PlanGroups {
    /// In the order of the first run of each; `None` where the plan of a run is not known.
    pub fn new(runs: &[ComparedResult]) -> Option<Self> {
        let mut groups: Vec<PlanGroup> = Vec::new();
        for (place, run) in runs.iter().enumerate() {
            let plan = run.plan()?;
            match groups.iter_mut().find(|group| group.plan == plan) {
                Some(group) => group.runs.push(place),
                None => groups.push(PlanGroup { plan: plan.to_owned(), runs: vec![place] }),
            }
        }
        Some(Self { groups, runs: runs.len() })
    }

    /// How many distinct plans there are.
    pub const fn count(&self) -> usize {
        self.groups.len()
    }

    /// Several runs had one plan.
    pub const fn has_repeated(&self) -> bool {
        self.groups.len() < self.runs
    }

    /// All runs had one plan, and there are several of them.
    pub const fn is_one_repeated(&self) -> bool {
        self.groups.len() == 1 && self.runs > 1
    }

    /// The mean of each plan's runs, of one value for each run.
    pub fn means(&self, values: &[f64]) -> Vec<f64> {
        let mean = |group: &PlanGroup| group.runs.iter().map(|run| values[*run]).sum::<f64>() / group.runs.len() as f64;
        self.groups.iter().map(mean).collect()
    }

    /// For each plan, the place of the same plan on the other side; `None` where one of the two has a plan that the
    /// other does not.
    pub fn partners(&self, other: &Self) -> Option<Vec<usize>> {
        let partner = |group: &PlanGroup| other.groups.iter().position(|it| it.plan == group.plan);
        self.groups.iter().map(partner).collect::<Option<Vec<usize>>>().filter(|_| self.count() == other.count())
    }
}

/// Which runs of two sides are partners. Whether a row is judged in these pairs is its metric's own rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pairing {
    /// Pairs of plans; 0 where no row is judged in pairs.
    pub pairs: usize,
    /// Why they are paired, or why not.
    pub why: String,
    /// Requests come at times that do not depend on answers.
    #[serde(skip)]
    pub(super) has_arrivals: bool,
    /// For each plan of the first side, its partner on the other.
    #[serde(skip)]
    partners: Vec<usize>,
    /// How the runs of each side become values: `None`, each for itself.
    #[serde(skip)]
    groups: [Option<PlanGroups>; 2],
}

impl Pairing {
    /// `unlike_load`: in what the requested load differs.
    pub(super) fn new(a: &RunSet, b: &RunSet, unlike_load: &[String]) -> Self {
        let [of_a, of_b] = [a, b].map(|set| PlanGroups::new(set.runs()));
        let (partners, why, groups) = match partners([a, b], [of_a.as_ref(), of_b.as_ref()], unlike_load) {
            Ok(partners) => (partners, "the same arrivals and prompts".to_owned(), [of_a, of_b]),
            // What differs between these runs is noise around this one plan: they are judged on it.
            Err(reason @ NotPaired::OnePlan) => (Vec::new(), reason.to_string(), [None, None]),
            Err(reason) => (Vec::new(), reason.to_string(), [of_a, of_b]),
        };
        Self { pairs: partners.len(), why, has_arrivals: a.first().has_arrivals, partners, groups }
    }

    /// A tested value is the mean of several runs.
    pub(super) fn has_means(&self) -> bool {
        self.groups.iter().flatten().any(PlanGroups::has_repeated)
    }

    pub const fn is_paired(&self) -> bool {
        self.pairs > 0
    }

    /// `paired by seed where requests make the noise: 5 pairs of runs, each with the same arrivals and prompts`
    pub fn describe(&self) -> String {
        let values = if self.has_means() { "means over runs" } else { "runs" };
        let Self { pairs, why, .. } = self;
        match pairs {
            0 => format!("not paired: {why}"),
            _ => format!("paired by seed where requests make the noise: {pairs} pairs of {values}, each with {why}"),
        }
    }

    /// What is tested of one number of each run: a value for each plan, in the order of the pairs.
    pub(super) fn values(&self, of_a: &[f64], of_b: &[f64]) -> [Vec<f64>; 2] {
        let means = |groups: &Option<PlanGroups>, values: &[f64]| {
            groups.as_ref().map_or_else(|| values.to_vec(), |groups| groups.means(values))
        };
        let [of_a, of_b] = [means(&self.groups[0], of_a), means(&self.groups[1], of_b)];
        if !self.is_paired() {
            return [of_a, of_b];
        }
        [of_a, self.partners.iter().map(|partner| of_b[*partner]).collect()]
    }

    /// The first side, 0 or 1, of whose several runs all had one plan that the other side's had not, or not only: how
    /// much plans differ is not known.
    pub(super) fn side_of_one_plan(&self) -> Option<usize> {
        if self.is_paired() {
            return None;
        }
        self.groups.iter().position(|groups| groups.as_ref().is_some_and(PlanGroups::is_one_repeated))
    }
}

/// Why the runs of two sides have no partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotPaired {
    #[error("one run on a side")]
    OneRun,
    #[error("the load differs")]
    Load,
    #[error("{0} and {1} {2}")]
    Counts(usize, usize, &'static str),
    #[error("the arrivals and prompts of a run are not known, or how many there were depended on the server")]
    Unknown,
    #[error("all runs of both sides had the same arrivals and prompts")]
    OnePlan,
    /// Runs of a closed loop, or with all requests at once, differ by the server's noise.
    #[error("the load has no random arrivals, and all requests have the same length")]
    AllAlike,
    #[error("the seeds are the same, and arrivals or prompts differ")]
    Plans,
    #[error("the seeds differ")]
    Seeds,
}

/// Plans prove what seeds only suggest: a seed gives the same requests only with the same data, lengths and rate.
fn partners(
    [a, b]: [&RunSet; 2],
    groups: [Option<&PlanGroups>; 2],
    unlike_load: &[String],
) -> Result<Vec<usize>, NotPaired> {
    let has_same_seeds = a.seeds() == b.seeds();
    let (a, b) = (a.runs(), b.runs());
    if a.len() < 2 || b.len() < 2 {
        return Err(NotPaired::OneRun);
    }
    if !unlike_load.is_empty() {
        return Err(NotPaired::Load);
    }
    let [Some(of_a), Some(of_b)] = groups else {
        return Err(if a.len() == b.len() { NotPaired::Unknown } else { NotPaired::Counts(a.len(), b.len(), "runs") });
    };
    match of_a.partners(of_b) {
        Some(partners) if partners.len() == 1 => Err(NotPaired::OnePlan),
        Some(partners) if a[0].has_arrivals || a[0].has_lengths => Ok(partners),
        Some(_) => Err(NotPaired::AllAlike),
        None if of_a.count() != of_b.count() => {
            let of = if of_a.has_repeated() || of_b.has_repeated() { "plans" } else { "runs" };
            Err(NotPaired::Counts(of_a.count(), of_b.count(), of))
        }
        None => Err(if has_same_seeds { NotPaired::Plans } else { NotPaired::Seeds }),
    }
}

/// Why a simulated and a real server cannot be compared. `None` if both are of the same kind, or if that is unknown.
pub(super) fn simulated_and_real(a: &ComparedResult, b: &ComparedResult) -> Option<String> {
    let (one, other) = (a.identity.as_ref()?.simulated, b.identity.as_ref()?.simulated);
    let word = |simulated| if simulated { "SIMULATED" } else { "a real server" };
    (one != other).then(|| {
        format!(
            "measured on: {} / {}; a difference between simulated and real is neither better nor worse",
            word(one),
            word(other)
        )
    })
}

/// How the servers differ, beyond where they run and where their files are; `None` where they are equal or not known.
pub(super) fn other_server(a: &ComparedResult, b: &ComparedResult) -> Option<String> {
    let names = |identity: &RunIdentity| {
        let mut names: Vec<String> = identity.servers.iter().map(|server| server.without_place().describe()).collect();
        names.sort();
        names.dedup();
        names.join(", ")
    };
    let (one, other) = match (&a.identity, &b.identity) {
        (Some(one), Some(other)) => (names(one), names(other)),
        (None, None) => (a.settings().get("model")?.clone(), b.settings().get("model")?.clone()),
        _ => return None,
    };
    (one != other).then(|| format!("measured on: {one} / {other}"))
}

/// In what the two differ, as far as it is known: the workload first, then what it was measured on.
pub(super) fn differences(a: &ComparedResult, b: &ComparedResult) -> Vec<IdentityDifference> {
    let workloads = a.workload.as_ref().zip(b.workload.as_ref());
    let mut differences = workloads.map(|(one, other)| one.differences(other)).unwrap_or_default();
    let identities = a.identity.as_ref().zip(b.identity.as_ref());
    for difference in identities.map(|(one, other)| identity_differences(one, other)).unwrap_or_default() {
        // The requested model is also the one that the server names.
        if differences.iter().all(|listed| listed.name != difference.name) {
            differences.push(difference);
        }
    }
    let model = |side: &ComparedResult| side.settings().get("model").cloned();
    if workloads.is_none()
        && let (Some(a), Some(b)) = (model(a), model(b))
        && a != b
    {
        differences.insert(0, IdentityDifference { name: "model".to_owned(), a: Some(a), b: Some(b) });
    }
    // It only says that there are others.
    if differences.len() > 1 {
        differences.retain(|difference| difference.name != "manifest digest");
    }
    differences
}

/// The sides with what their numbers mean, and the differences.
pub fn json(sets: &[RunSet], comparisons: &[Comparison]) -> Value {
    let verdict =
        |sheet: &ComparedResult| sheet.verdict.map_or_else(|| value!("not_judged"), |verdict| value!(verdict));
    let results: Vec<Value> = sets
        .iter()
        .map(|set| {
            let meanings: serde_json::Map<String, Value> = set
                .first()
                .measures
                .iter()
                .map(|measure| (measure.key.clone(), value!({ "unit": measure.unit, "meaning": measure.meaning })))
                .collect();
            let runs: Vec<Value> = set
                .runs()
                .iter()
                .map(|run| {
                    let failed = run.failed;
                    value!({ "name": run.name, "verdict": verdict(run), "failed": failed, "identity": run.identity })
                })
                .collect();
            value!({
                "name": set.name, "verdict": verdict(set.worst()), "as": set.first().tool.as_str(),
                "simulated": set.first().identity.as_ref().map(|identity| identity.simulated), "runs": runs,
                "metrics": meanings,
            })
        })
        .collect();
    value!({ "results": results, "comparisons": comparisons })
}
