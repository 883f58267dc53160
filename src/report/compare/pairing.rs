//! Which values of two sides are tested, and whether they belong together one by one.
//!
//! A value is the mean over the runs of one plan. The same plans on both sides, which the same seeds give, make pairs.

use serde::Serialize;

use super::RunSet;
use super::plan_groups::PlanGroups;

/// How runs of two sides are judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pairing {
    /// Pairs of plans; 0 where the sides are judged unpaired.
    pub pairs: usize,
    /// Why they are paired, or why not.
    pub why: String,
    /// For each plan of the first side, its partner on the other.
    #[serde(skip)]
    partners: Vec<usize>,
    /// How the runs of each side become values: `None`, each for itself.
    #[serde(skip)]
    groups: [Option<PlanGroups>; 2],
}

impl Pairing {
    /// `unlike_load`: in what the requested load differs.
    pub(super) fn of(a: &RunSet, b: &RunSet, unlike_load: &[String]) -> Self {
        let [of_a, of_b] = [a, b].map(|set| PlanGroups::of(set.runs()));
        let (partners, why, groups) = match partners([a, b], [of_a.as_ref(), of_b.as_ref()], unlike_load) {
            Ok(partners) => (partners, "the same arrivals and prompts".to_owned(), [of_a, of_b]),
            // What differs between these runs is noise around this one plan: they are judged on it.
            Err(reason @ NotPaired::OnePlan) => (Vec::new(), reason.to_string(), [None, None]),
            Err(reason) => (Vec::new(), reason.to_string(), [of_a, of_b]),
        };
        Self { pairs: partners.len(), why, partners, groups }
    }

    /// A tested value is the mean of several runs.
    pub(super) fn has_means(&self) -> bool {
        self.groups.iter().flatten().any(PlanGroups::has_repeated)
    }

    pub const fn is_paired(&self) -> bool {
        self.pairs > 0
    }

    /// `paired by seed: 5 pairs of runs, each with the same arrivals and prompts`
    pub fn describe(&self) -> String {
        let of = if self.has_means() { "means over runs" } else { "runs" };
        match self.pairs {
            0 => format!("not paired: {}", self.why),
            pairs => format!("paired by seed: {pairs} pairs of {of}, each with {}", self.why),
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

    /// The first side, 0 or 1, of whose several runs all had one plan that the other side's had not, or not only: how much plans
    /// differ is not known.
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
        Some(partners) => Ok(partners),
        None if of_a.count() != of_b.count() => {
            let of = if of_a.has_repeated() || of_b.has_repeated() { "plans" } else { "runs" };
            Err(NotPaired::Counts(of_a.count(), of_b.count(), of))
        }
        None => Err(if has_same_seeds { NotPaired::Plans } else { NotPaired::Seeds }),
    }
}
