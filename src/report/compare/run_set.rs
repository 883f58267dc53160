//! One side of a comparison: the runs of one measurement.

use super::{ComparedResult, Measure};
use base::diag::ErrorText;
use base::event::Verdict;

/// Runs that were made the same way, with different seeds or at different times. At least one.
#[derive(Clone, Debug)]
pub struct RunSet {
    pub name: String,
    runs: Vec<ComparedResult>,
}

/// Why results are not runs of one measurement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunSetError {
    #[error("{name} has no result")]
    Empty { name: String },
    #[error(
        "{}",
        ErrorText::new(format_args!(
            "{} has results that are not runs of one measurement: {} and {} differ in {}",
            .name, .first, .other, .unlike.join("; ")
        ))
        .hint("name one of them")
    )]
    Unlike { name: String, first: String, other: String, unlike: Vec<String> },
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
    pub fn new(name: impl Into<String>, runs: Vec<ComparedResult>) -> Result<Self, RunSetError> {
        let name = name.into();
        let Some((first, others)) = runs.split_first() else { return Err(RunSetError::Empty { name }) };
        for other in others {
            let (mut unlike, _) = first.unlike_load(other);
            unlike.extend(super::identity::simulated_and_real(first, other));
            unlike.extend(super::identity::other_server(first, other));
            if !unlike.is_empty() {
                let (first, other) = (first.name.clone(), other.name.clone());
                return Err(RunSetError::Unlike { name, first, other, unlike });
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
        let badness = |run: &&ComparedResult| match run.verdict {
            Some(Verdict::InvalidServer) => 5,
            Some(Verdict::InvalidClient) => 4,
            Some(Verdict::InvalidLoad) => 3,
            Some(Verdict::ValidWithWarnings) => 2,
            None => 1,
            Some(Verdict::Valid) => 0,
        };
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
