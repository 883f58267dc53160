//! Several runs of another tool as the points of one sweep: the level of each, runs at one level as repeats of a point,
//! and its numbers with the tool's own definitions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::import_identity::{ImportIdentity, RunDifference, differences};
use super::located_runs::LocatedRun;
use super::read::{ImportError, Imported};
use crate::metrics::{ImportedResult, MetricConcept, Tool};
use base::spec::Statistic;
use harness::{
    AcrossRuns, LatencySummary, Metric, PointRole, SWEEP_POINTS, SweepLevel, SweepOrigin, SweepPoint, SweepReport,
    repeat_folder,
};

/// A sweep with the results of its points.
#[derive(Clone, Debug)]
pub struct ImportedSweep {
    pub report: SweepReport,
    /// Each result with its folder, below that of `sweep.json`.
    pub results: Vec<(PathBuf, Imported)>,
}

/// The runs as points, by what tells them apart: runs of the same identity are repeats of a point, one property that
/// differs is the axis, and where several differ each point is named by them. The names of files count where the files
/// state no load.
///
/// # Errors
/// The runs were measured by several tools, or runs in different folders have the same identity.
pub fn import_sweep(name: &str, runs: Vec<LocatedRun>) -> Result<ImportedSweep, ImportError> {
    let Some(first) = runs.first() else { return Err(ImportError::Unknown { name: name.to_owned() }) };
    let tool = first.run.tool;
    if let Some(other) = runs.iter().find(|other| other.run.tool != tool) {
        let of_tool = |run: &LocatedRun| format!("{} (by {})", shown(&run.place), run.run.tool.as_str());
        let (first, second) = (of_tool(first), of_tool(other));
        return Err(ImportError::SeveralTools { name: name.to_owned(), first, second });
    }
    let levels = levels(&runs);
    let axis = axis(&levels).to_owned();
    let has_idle_and_saturation =
        ["synchronous", "throughput"].iter().all(|kind| runs.iter().any(|run| strategy(run) == Some(kind)));
    let origin = origin(tool, &runs);
    let mut points: Vec<(RunLevel, Vec<LocatedRun>)> = Vec::new();
    for (level, run) in levels.into_iter().zip(runs) {
        match points.iter_mut().find(|(other, _)| other.order == level.order) {
            Some((_, runs)) => runs.push(run),
            None => points.push((level, vec![run])),
        }
    }
    points.sort_by(|(a, _), (b, _)| a.order.partial_cmp(&b.order).unwrap_or(Ordering::Equal));
    let mut report = Vec::new();
    let mut results = Vec::new();
    for (number, (RunLevel { level, load, .. }, runs)) in (1..).zip(points) {
        if let Some(other) = runs.iter().find(|run| group_folder(&run.place) != group_folder(&runs[0].place)) {
            return Err(ImportError::SameLevel {
                level: level.to_string(),
                first: shown(&runs[0].place),
                second: shown(&other.place),
            });
        }
        let is_same =
            |one: &ImportedResult, other: &ImportedResult| one.rates == other.rates && one.latency == other.latency;
        for (at, run) in runs.iter().enumerate() {
            if let Some(other) = runs[..at].iter().find(|other| is_same(&run.run.result, &other.run.result)) {
                return Err(ImportError::SameRun { first: shown(&other.place), second: shown(&run.place) });
            }
        }
        let folder = Path::new(SWEEP_POINTS).join(format!("{number:02}-{}", file_name(&level)));
        let role = strategy(&runs[0]).filter(|_| has_idle_and_saturation).map(|kind| match kind {
            "synchronous" => PointRole::Idle,
            "throughput" => PointRole::Saturation,
            _ => PointRole::Between,
        });
        report.push(SweepPoint {
            offered_per_s: match load {
                Some(SweepLevel::Rate(rate)) => Some(rate),
                _ => None,
            },
            ..point(level, role, folder.clone(), tool, &runs)
        });
        if runs.len() > 1 {
            results.extend((1..).zip(&runs).map(|(n, run)| (folder.join(repeat_folder(n)), run.run.clone())));
        }
        results.extend(runs.into_iter().next().map(|run| (folder, run.run)));
    }
    Ok(ImportedSweep { report: SweepReport::imported(&axis, report, origin), results })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Runs in one folder, or in one file, belong together, and those of folders that number them: `run_1`,
/// `20260101-120000`.
fn group_folder(place: &Path) -> Option<&Path> {
    let is_number = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let number = ["run", "repeat", "rep", "trial", "seed"].iter().find_map(|word| name.strip_prefix(word));
        let number = number.unwrap_or(&name);
        number.contains(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| c.is_ascii_digit() || "_-=.:t".contains(c))
    };
    place.parent()?.ancestors().find(|folder| !is_number(folder))
}

/// The level as part of a path.
fn file_name(level: &SweepLevel) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_=".contains(c) { c } else { '-' };
    level.short().chars().map(plain).take(80).collect()
}

/// How GuideLLM sends: `synchronous`, `throughput`, `constant`, …
fn strategy(run: &LocatedRun) -> Option<&str> {
    run.run.result.requested.get("strategy")?.as_str()
}

/// Where a run is in the sweep.
struct RunLevel {
    level: SweepLevel,
    /// Each property in which runs differ, sorted as a number or as text. Runs of the same point have the same.
    order: Vec<(f64, String)>,
    load: Option<SweepLevel>,
}

/// The identity of a run from its file, and from the names of folders where the file does not state it.
fn identity(LocatedRun { place, run }: &LocatedRun) -> ImportIdentity {
    let mut identity = run.identity.clone().or_load(|| named_level(place));
    let folders = place.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str());
    // A submission has a log at SYSTEM/BENCHMARK/SCENARIO/performance/run_1.
    if let [_, "performance", _, names @ ..] = folders.collect::<Vec<_>>().as_slice()
        && run.tool == Tool::LoadGen
    {
        ["benchmark", "system"].iter().zip(names).for_each(|(key, name)| identity.set(key, name));
    }
    identity
}

/// The level of each run, by the properties in which they differ.
fn levels(runs: &[LocatedRun]) -> Vec<RunLevel> {
    let identities: Vec<ImportIdentity> = runs.iter().map(identity).collect();
    let mut differences = differences(&identities);
    let names: RunDifference = runs.iter().map(|run| Some(by_name(&run.place))).collect();
    // Runs that differ in nothing else may have different loads, if their files do not state the load.
    let key = |n: usize| format!("{:?}", differences.iter().map(|values| &values[n]).collect::<Vec<_>>());
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    let mut without_load = (0..runs.len()).filter(|n| identities[*n].load().is_none());
    let mut is_unknown = |n: usize| names[*alike.entry(key(n)).or_insert(n)] != names[n];
    if without_load.any(&mut is_unknown) {
        differences.insert(0, names.clone());
    }
    let level = |n: usize| {
        let values: Vec<&SweepLevel> = differences.iter().filter_map(|values| values[n].as_ref()).collect();
        let load = identities[n].load().cloned();
        let level = match (differences.len(), values.as_slice()) {
            (0, _) => load.clone().or_else(|| names[n].clone()).unwrap_or(SweepLevel::AllAtOnce),
            (1, [only]) => (*only).clone(),
            _ => {
                let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
                let value = if texts.is_empty() { "without answers".to_owned() } else { texts.join(", ") };
                SweepLevel::Value { name: "run".to_owned(), value }
            }
        };
        let order = |value: &SweepLevel| (value.number().unwrap_or(f64::INFINITY), value.to_string());
        RunLevel { level, order: values.into_iter().map(order).collect(), load }
    };
    (0..runs.len()).map(level).collect()
}

/// A level in the name of a file or its folder: `concurrency_8/report.json`, `c8.json`, `rate-2.5`.
fn named_level(place: &Path) -> Option<SweepLevel> {
    let names = [place.file_stem(), place.parent().and_then(Path::file_name)];
    names.into_iter().flatten().find_map(|name| {
        let name = name.to_string_lossy().to_lowercase();
        let parts: Vec<&str> = name.split(['_', '-', '=']).collect();
        let after = |part: usize, word: &str| {
            let rest = parts[part].strip_prefix(word)?;
            let rest = if rest.is_empty() { parts.get(part + 1).copied()? } else { rest };
            rest.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0)
        };
        let number = |words: &[&str]| (0..parts.len()).find_map(|at| words.iter().find_map(|word| after(at, word)));
        let users = number(&["concurrency", "conc", "users", "streams", "c"]).filter(|users| users.fract() == 0.0);
        users
            .map(|users| SweepLevel::Users(users as u32))
            .or_else(|| number(&["rate", "qps", "rps", "r"]).map(SweepLevel::Rate))
    })
}

/// Several runs of one folder are repeats, so the folder names the level; a single file names it itself.
fn by_name(place: &Path) -> SweepLevel {
    let is_run = |stem: &str| stem.starts_with("run=") || stem == "report" || stem.starts_with("mlperf_log");
    let stem = place.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = place.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let value = folder.filter(|_| is_run(&stem)).unwrap_or(stem);
    SweepLevel::Value { name: "run".to_owned(), value }
}

/// The name of the axis; `auto` where levels are of several kinds.
fn axis(levels: &[RunLevel]) -> &str {
    const fn name(level: &RunLevel) -> &str {
        match &level.level {
            SweepLevel::Users(_) => "concurrency",
            SweepLevel::Rate(_) | SweepLevel::AllAtOnce => "rate",
            SweepLevel::InputTokens(_) => "input_tokens",
            SweepLevel::OutputTokens(_) => "output_tokens",
            SweepLevel::Value { name, .. } => name.as_str(),
        }
    }
    let first = levels.first().map_or("auto", name);
    if levels.iter().all(|level| name(level) == first) { first } else { "auto" }
}

/// The latencies of a sweep, each with what the tool measures for it.
fn latencies(tool: Tool) -> impl Iterator<Item = (&'static str, MetricConcept)> {
    let terms =
        [("ttft", Some(MetricConcept::Ttft)), ("tpot", tool.time_per_token()), ("e2e", Some(MetricConcept::E2e))];
    terms.into_iter().filter_map(|(name, concept)| Some((name, concept?)))
}

fn origin(tool: Tool, runs: &[LocatedRun]) -> SweepOrigin {
    let results = || runs.iter().map(|run| &run.run.result);
    let mut definitions = BTreeMap::new();
    for (name, concept) in latencies(tool) {
        if let Some(metric) = results().find_map(|result| result.latency.get(concept.as_str())) {
            let own_name =
                if concept.as_str() == name { String::new() } else { format!(", which it calls {}", concept.title()) };
            definitions.insert(name.to_owned(), format!("{}{own_name}", metric.definition));
        }
    }
    let versions: BTreeSet<&String> = results().filter_map(|result| result.imported.tool_version.as_ref()).collect();
    let titles: BTreeSet<&str> = results().map(|result| result.imported.definitions.as_str()).collect();
    SweepOrigin {
        tool: tool.as_str().to_owned(),
        tool_version: (!versions.is_empty()).then(|| versions.into_iter().cloned().collect::<Vec<_>>().join(", ")),
        title: titles.into_iter().collect::<Vec<_>>().join("; "),
        definitions,
        token_source: runs[0].run.result.tokens.source.clone(),
    }
}

fn point(level: SweepLevel, role: Option<PointRole>, folder: PathBuf, tool: Tool, runs: &[LocatedRun]) -> SweepPoint {
    let results: Vec<&ImportedResult> = runs.iter().map(|run| &run.run.result).collect();
    let first = results[0];
    let metric = |concept: Option<MetricConcept>| concept.and_then(|concept| first.latency.get(concept.as_str()));
    let tpot = metric(tool.time_per_token());
    let summary = |metric: Option<&Metric>| metric.map(LatencySummary::from_metric).unwrap_or_default();
    let sum = |count: fn(&ImportedResult) -> Option<f64>| {
        results.iter().filter_map(|result| count(result)).sum::<f64>() as u64
    };
    let (ok, failed) = (sum(|result| result.counts.ok), sum(|result| result.counts.failed));
    // Earlier versions of vLLM's client do not count failures. In other tools the number is a limit.
    let sent = sum(|result| result.requested.get("requests").and_then(Value::as_f64));
    let once = SweepPoint {
        folder,
        scheduled: (ok + failed).max(if tool == Tool::Vllm { sent } else { 0 }),
        ok,
        failed,
        window_s: first.rates.get("window_s").copied().unwrap_or_default(),
        requests_per_s: first.rates.get("requests_full").copied(),
        output_tokens_per_s: first.rates.get("output_tokens").copied(),
        tokens_per_s_per_user: tpot.and_then(|tpot| tpot.p50).filter(|tpot| *tpot > 0.0).map(|tpot| 1e3 / tpot),
        ttft: summary(metric(Some(MetricConcept::Ttft))),
        tpot: summary(tpot),
        e2e: summary(metric(Some(MetricConcept::E2e))),
        ..SweepPoint::empty(level, role)
    };
    if results.len() < 2 {
        return once;
    }
    once.with_runs(results.len() as u64, over_runs(tool, &results))
}

/// The numbers over all runs, under the names that a repeated measurement has.
fn over_runs(tool: Tool, results: &[&ImportedResult]) -> BTreeMap<String, AcrossRuns> {
    const STATS: [Statistic; 4] = [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99];
    let mut numbers = BTreeMap::new();
    let mut add = |name: String, unit: &str, values: Option<Vec<f64>>| {
        if let Some(over) = values.and_then(|values| AcrossRuns::new(unit, values)) {
            numbers.insert(name, over);
        }
    };
    for (name, concept) in latencies(tool).map(|(name, concept)| (name, concept.as_str())) {
        for stat in STATS {
            let values = results.iter().map(|result| result.latency.get(concept)?.statistic(stat)).collect();
            add(format!("{name}_{}", stat.as_str()), "ms", values);
        }
        let counts = results
            .iter()
            .map(|result| Some(result.latency.get(concept).filter(|metric| metric.n > 0)?.n as f64))
            .collect();
        add(format!("{name}_n"), "", counts);
    }
    for (name, unit, rate) in [
        ("requests_full", "/s", "requests_full"),
        ("output_tokens", "/s", "output_tokens"),
        ("window", "s", "window_s"),
    ] {
        add(name.to_owned(), unit, results.iter().map(|result| result.rates.get(rate).copied()).collect());
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_and_folders_have_levels() {
        let level = |place: &str| named_level(Path::new(place)).map(|level| level.to_string());
        for (place, expected) in [
            ("out/concurrency_8/report.json", Some("8 users")),
            ("out/c16.json", Some("16 users")),
            ("out/llama-conc32-isl1000.json", Some("32 users")),
            ("out/rate-2.5/x.json", Some("2.5 req/s")),
            ("out/qps4.json", Some("4 req/s")),
            ("out/llama.json", None),
            ("out/c1.5.json", None),
        ] {
            assert_eq!(level(place).as_deref(), expected, "{place}");
        }
    }
}
