//! Whether the runs of two sides belong together one by one: the same requests at the same times, which the same seed gives.

use serde::Serialize;

use super::{ComparedResult, RunSet};

/// How runs of two sides are judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pairing {
    /// Pairs of runs; 0 where they are judged unpaired.
    pub pairs: usize,
    /// Why they are paired, or why not.
    pub why: String,
    /// For each run of the first side, its partner on the other.
    #[serde(skip)]
    partners: Vec<usize>,
}

impl Pairing {
    /// `unlike_load`: in what the requested load differs.
    pub(super) fn of(a: &RunSet, b: &RunSet, unlike_load: &[String]) -> Self {
        match partners(a.runs(), b.runs(), unlike_load) {
            Ok(partners) => Self { pairs: partners.len(), why: "the same arrivals and prompts".to_owned(), partners },
            Err(reason) => Self { pairs: 0, why: reason.to_string(), partners: Vec::new() },
        }
    }

    pub const fn is_paired(&self) -> bool {
        self.pairs > 0
    }

    /// `paired by seed: 5 pairs of runs, each with the same arrivals and prompts`
    pub fn describe(&self) -> String {
        match self.pairs {
            0 => format!("not paired: {}", self.why),
            pairs => format!("paired by seed: {pairs} pairs of runs, each with {}", self.why),
        }
    }

    /// The other side's values in the order of their partners.
    pub(super) fn ordered(&self, values: &[f64]) -> Vec<f64> {
        self.partners.iter().map(|partner| values[*partner]).collect()
    }
}

/// Why the runs of two sides have no partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotPaired {
    #[error("one run on a side")]
    OneRun,
    #[error("the load differs")]
    Load,
    #[error("{0} and {1} runs")]
    Counts(usize, usize),
    #[error("the arrivals and prompts of a run are not known")]
    Unknown,
    #[error("several runs of one side had the same arrivals and prompts")]
    Repeated,
    #[error("the seeds are the same, and arrivals or prompts differ")]
    Plans,
    #[error("the seeds differ")]
    Seeds,
}

/// Plans prove what seeds only suggest: a seed gives the same requests only with the same data, lengths and rate.
fn partners(a: &[ComparedResult], b: &[ComparedResult], unlike_load: &[String]) -> Result<Vec<usize>, NotPaired> {
    if a.len() < 2 || b.len() < 2 {
        return Err(NotPaired::OneRun);
    }
    if !unlike_load.is_empty() {
        return Err(NotPaired::Load);
    }
    if a.len() != b.len() {
        return Err(NotPaired::Counts(a.len(), b.len()));
    }
    let (Some(plans_of_a), Some(plans_of_b)) = (plans(a), plans(b)) else {
        return Err(NotPaired::Unknown);
    };
    if has_equal(&plans_of_a) || has_equal(&plans_of_b) {
        return Err(NotPaired::Repeated);
    }
    let partner = |plan: &&str| plans_of_b.iter().position(|other| other == plan);
    let partners: Option<Vec<usize>> = plans_of_a.iter().map(partner).collect();
    partners.ok_or_else(|| {
        let seeds = |runs: &[ComparedResult]| {
            let mut seeds: Vec<Option<String>> = runs.iter().map(|run| run.settings().get("seed").cloned()).collect();
            seeds.sort();
            seeds
        };
        if seeds(a) == seeds(b) { NotPaired::Plans } else { NotPaired::Seeds }
    })
}

/// The digest of each run's arrivals, lengths and prompts; `None` where a run has none.
fn plans(runs: &[ComparedResult]) -> Option<Vec<&str>> {
    runs.iter().map(|run| run.digest.as_deref()).collect()
}

fn has_equal(plans: &[&str]) -> bool {
    plans.iter().enumerate().any(|(at, plan)| plans[..at].contains(plan))
}
