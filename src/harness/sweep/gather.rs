//! Several benchmarks of one stage, as a `foreach` makes them, read as the points of sweeps.
//!
//! The names of tasks say where they are: of `load/a/2`, `load/a/10` and `load/b/2` the last part is a number that
//! differs, and is the level; the rest is the name of the sweep. A part that is the rate or the number of users of its
//! benchmark is preferred.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::sweep::plan::SweepLevel;
use crate::sweep::point::SweepPoint;
use crate::sweep::report::SweepReport;
use crate::{LoadLevel, LoadPattern, RunResult};

/// One benchmark: the name of its task, the folder of its result, and the result.
#[derive(Clone, Debug)]
pub struct GatheredResult<'a> {
    pub task: &'a str,
    pub folder: PathBuf,
    pub result: &'a RunResult,
}

/// A benchmark with the parts of its task's name.
type NamedTask<'a> = (&'a GatheredResult<'a>, Vec<&'a str>);

/// Sweeps by name: each of at least two benchmarks of the same stage at different levels, in the order of the names.
pub fn gather(results: &[GatheredResult<'_>]) -> Vec<(String, SweepReport)> {
    let mut stages: BTreeMap<(&str, usize), Vec<NamedTask<'_>>> = BTreeMap::new();
    for one in results {
        let parts: Vec<&str> = one.task.split('/').collect();
        let stage = parts.first().copied().unwrap_or_default();
        stages.entry((stage, parts.len())).or_default().push((one, parts));
    }
    stages.into_values().flat_map(|tasks| of_stage(&tasks)).collect()
}

fn of_stage(tasks: &[NamedTask<'_>]) -> Vec<(String, SweepReport)> {
    let Some(columns) = tasks.first().map(|(_, parts)| parts.len()).filter(|_| tasks.len() > 1) else {
        return Vec::new();
    };
    let number = |part: &str| part.parse::<f64>().ok().filter(|number| number.is_finite());
    let differs = |column: usize| tasks.iter().any(|(_, parts)| parts[column] != tasks[0].1[column]);
    let numeric: Vec<usize> = (1..columns)
        .filter(|column| differs(*column) && tasks.iter().all(|(_, parts)| number(parts[*column]).is_some()))
        .collect();
    let is_load = |column: &&usize| {
        tasks.iter().all(|(one, parts)| {
            let level = load(one.result).and_then(|level| level.number());
            level.zip(number(parts[**column])).is_some_and(|(level, part)| (level - part).abs() < 1e-9 * level.max(1.0))
        })
    };
    let Some(&column) = numeric.iter().find(is_load).or_else(|| numeric.last()) else { return Vec::new() };
    let is_of_load = is_load(&&column);
    let variable = variable(tasks, column);
    let mut sweeps: BTreeMap<String, Vec<&NamedTask<'_>>> = BTreeMap::new();
    for task in tasks {
        let rest: Vec<&str> =
            task.1.iter().enumerate().filter(|(at, _)| *at != column).map(|(_, part)| *part).collect();
        sweeps.entry(rest.join("/")).or_default().push(task);
    }
    let several = sweeps.into_iter().filter(|(_, tasks)| tasks.len() > 1);
    several
        .map(|(name, tasks)| {
            let point = |(one, parts): &&NamedTask<'_>| {
                let level = load(one.result)
                    .filter(|_| is_of_load)
                    .unwrap_or_else(|| SweepLevel::Value { name: variable.clone(), value: parts[column].to_owned() });
                SweepPoint::from_result(level, None, one.folder.clone(), one.result)
            };
            let points = tasks.iter().map(point).collect();
            let axis = if is_of_load { axis(tasks[0].0.result) } else { variable.as_str() };
            (name, SweepReport::new(axis, points, Some(tasks[0].0.result)))
        })
        .collect()
}

/// The `foreach` variable whose values are in a part of the names; `value` where the results do not have it.
fn variable(tasks: &[NamedTask<'_>], column: usize) -> String {
    let is_of_column = |name: &&String| {
        let is_part =
            |task: &NamedTask<'_>| foreach(task).and_then(|of| of.get(*name)).is_some_and(|it| it == task.1[column]);
        tasks.iter().all(is_part)
    };
    let mut names = tasks.first().and_then(foreach).into_iter().flat_map(BTreeMap::keys);
    names.find(is_of_column).cloned().unwrap_or_else(|| "value".to_owned())
}

fn foreach<'a>((one, _): &NamedTask<'a>) -> Option<&'a BTreeMap<String, String>> {
    Some(&one.result.identity.as_ref()?.manifest.as_ref()?.foreach)
}

fn load(result: &RunResult) -> Option<SweepLevel> {
    match &result.requested.scenario {
        LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Some(SweepLevel::Rate(*rate)),
        LoadPattern::Concurrency { users: LoadLevel::Fixed(users) } => Some(SweepLevel::Users(*users as u32)),
        _ => None,
    }
}

const fn axis(result: &RunResult) -> &'static str {
    match &result.requested.scenario {
        LoadPattern::Concurrency { .. } => "concurrency",
        _ => "rate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(rate: f64) -> RunResult {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        result.requested.scenario = LoadPattern::Server { rate: rate.into() };
        result
    }

    fn gathered(tasks: &[(&str, f64)]) -> Vec<String> {
        let results: Vec<(&str, RunResult)> = tasks.iter().map(|(task, rate)| (*task, result(*rate))).collect();
        let gathered_results: Vec<GatheredResult<'_>> =
            results.iter().map(|(task, result)| GatheredResult { task, folder: PathBuf::from(task), result }).collect();
        let text = |(name, report): (String, SweepReport)| {
            let levels: Vec<String> = report.points.iter().map(|point| point.level.to_string()).collect();
            format!("{name} by {}: {}", report.axis, levels.join(", "))
        };
        gather(&gathered_results).into_iter().map(text).collect()
    }

    #[test]
    fn rates_of_a_foreach_are_points_in_numeric_order() {
        let tasks = [("load/10", 10.0), ("load/2", 2.0), ("load/5", 5.0), ("smoke", 1.0)];
        assert_eq!(gathered(&tasks), ["load by rate: 2 req/s, 5 req/s, 10 req/s"]);
    }

    #[test]
    fn levels_have_the_name_of_their_variable() {
        let named = |slots: &str| {
            let mut result = result(3.0);
            let manifest = result.identity.as_mut().and_then(|identity| identity.manifest.as_mut()).unwrap();
            manifest.foreach =
                [("model", "2"), ("slots", slots)].map(|(name, value)| (name.into(), value.into())).into();
            result
        };
        let (eight, four) = (named("8"), named("4"));
        let gathered = |task, result| GatheredResult { task, folder: PathBuf::new(), result };
        let tasks = [gathered("load/2/8", &eight), gathered("load/2/4", &four)];
        let (name, report) = gather(&tasks).remove(0);
        assert_eq!((name.as_str(), report.axis.as_str()), ("load/2", "slots"));
        assert_eq!(report.points[0].level.to_string(), "slots=4");
    }

    #[test]
    fn systems_have_a_sweep_each_and_settings_are_levels_too() {
        let tasks = [("load/2/a", 2.0), ("load/2/b", 2.0), ("load/10/a", 10.0), ("load/10/b", 10.0)];
        assert_eq!(gathered(&tasks), ["load/a by rate: 2 req/s, 10 req/s", "load/b by rate: 2 req/s, 10 req/s"]);
        let tasks = [("load/256", 3.0), ("load/64", 3.0)];
        assert_eq!(gathered(&tasks), ["load by value: value=64, value=256"]);
        assert_eq!(gathered(&[("load/a", 3.0), ("load/b", 3.0)]), Vec::<String>::new());
        assert_eq!(gathered(&[("load/7", 3.0), ("other/8", 3.0)]), Vec::<String>::new());
    }
}
