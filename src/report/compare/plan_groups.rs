//! The runs of one side by their plan: arrivals, lengths and prompts.
//!
//! Runs of one plan meet in the same queues and differ by the server's noise alone. That says nothing about another plan, so they
//! are one observation, their mean, wherever the other side had other plans.

use super::ComparedResult;

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
    pub fn of(runs: &[ComparedResult]) -> Option<Self> {
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

    /// For each plan, the place of the same plan on the other side; `None` where one of the two has a plan that the other does not.
    pub fn partners(&self, other: &Self) -> Option<Vec<usize>> {
        let partner = |group: &PlanGroup| other.groups.iter().position(|it| it.plan == group.plan);
        self.groups.iter().map(partner).collect::<Option<Vec<usize>>>().filter(|_| self.count() == other.count())
    }
}
