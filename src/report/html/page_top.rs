//! What stands at the top of a page: one sentence, three numbers, one picture.

use super::svg::number;
use super::sweep::SweepSection;
use super::sweep_charts::{NamedSweep, draw};
use base::units::counted;
use harness::SweepReport;

/// The head of a page.
#[derive(Clone, Debug)]
pub(super) struct PageTop {
    pub sentence: String,
    /// Name, value, what it is.
    pub numbers: Vec<[String; 3]>,
    /// SVG.
    pub picture: Option<String>,
}

impl PageTop {
    /// Of one sweep: its own; of several: the best of each of the first three, and all over each other.
    pub(super) fn of_sweeps(sweeps: &[(String, SweepReport)], sections: &[SweepSection]) -> Option<Self> {
        if let [section] = sections {
            return Some(Self {
                sentence: section.sentence.clone(),
                numbers: section.numbers.clone(),
                picture: section.plots.first().cloned(),
            });
        }
        let named: Vec<NamedSweep<'_>> =
            sweeps.iter().map(|(name, report)| NamedSweep { name: name.clone(), report }).collect();
        let best = |(name, report): &(String, SweepReport)| {
            let best = report.best()?;
            let rate = best.output_tokens_per_s.map(number)?;
            Some([
                name.clone(),
                format!("{rate} tok/s"),
                format!("highest throughput of its valid points, at {}", best.level),
            ])
        };
        let points: usize = sweeps.iter().map(|(_, report)| report.points.len()).sum();
        (!sweeps.is_empty()).then(|| Self {
            sentence: format!("{} with {}.", counted(sweeps.len(), "sweep"), counted(points, "point")),
            numbers: sweeps.iter().filter_map(best).take(3).collect(),
            picture: draw(&named).into_iter().next(),
        })
    }
}
