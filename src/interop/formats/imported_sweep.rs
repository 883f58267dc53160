//! Several runs of another tool as the points of one sweep: the level of each, runs at one level as repeats of a point, and its
//! numbers with the tool's own definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::read::{ImportError, Imported};
use crate::harness::{
    AcrossRuns, LatencySummary, MeasuredNumber, PointRole, SWEEP_POINTS, SweepLevel, SweepOrigin, SweepPoint,
    SweepReport, repeat_folder,
};
use crate::interop::metrics::{ImportedMetric, ImportedResult, MetricConcept, Tool};

/// One run, and where its files are: what they are called tells the level where the files do not.
#[derive(Clone, Debug)]
pub struct LocatedRun {
    pub place: PathBuf,
    pub run: Imported,
}

/// A sweep with the results of its points.
#[derive(Clone, Debug)]
pub struct ImportedSweep {
    pub report: SweepReport,
    /// Each result with its folder, below that of `sweep.json`.
    pub results: Vec<(PathBuf, Imported)>,
}

/// The runs as points, by rate or users where the files have them, else by what they are called.
///
/// # Errors
/// They are of several tools, or runs in different folders have the same level.
pub fn import_sweep(name: &str, runs: Vec<LocatedRun>) -> Result<ImportedSweep, ImportError> {
    let Some(first) = runs.first() else { return Err(ImportError::Unknown { name: name.to_owned() }) };
    let tool = first.run.tool;
    if let Some(other) = runs.iter().find(|other| other.run.tool != tool) {
        return Err(ImportError::SeveralTools {
            name: name.to_owned(),
            first: shown(&first.place),
            second: shown(&other.place),
        });
    }
    let levels = levels(&runs);
    let axis = axis(&levels);
    let has_idle_and_saturation =
        ["synchronous", "throughput"].iter().all(|kind| runs.iter().any(|run| strategy(run) == Some(kind)));
    let origin = origin(tool, &runs);
    let mut points: Vec<(SweepLevel, Vec<LocatedRun>)> = Vec::new();
    for (level, run) in levels.into_iter().zip(runs) {
        match points.iter_mut().find(|(known, runs)| *known == level && strategy(&runs[0]) == strategy(&run)) {
            Some((_, runs)) => runs.push(run),
            None => points.push((level, vec![run])),
        }
    }
    points.sort_by(|(a, _), (b, _)| order(a).total_cmp(&order(b)));
    let mut report = Vec::new();
    let mut results = Vec::new();
    for (number, (level, runs)) in (1..).zip(points) {
        if let Some(other) = runs.iter().find(|run| parent(&run.place) != parent(&runs[0].place)) {
            return Err(ImportError::SameLevel {
                level: level.to_string(),
                first: shown(&runs[0].place),
                second: shown(&other.place),
            });
        }
        let folder = Path::new(SWEEP_POINTS).join(format!("{number:02}-{}", file_name(&level)));
        let role = strategy(&runs[0]).filter(|_| has_idle_and_saturation).map(|kind| match kind {
            "synchronous" => PointRole::Idle,
            "throughput" => PointRole::Saturation,
            _ => PointRole::Between,
        });
        report.push(point(level, role, folder.clone(), tool, &runs));
        if runs.len() > 1 {
            results.extend((1..).zip(&runs).map(|(n, run)| (folder.join(repeat_folder(n)), run.run.clone())));
        }
        results.extend(runs.into_iter().next().map(|run| (folder, run.run)));
    }
    Ok(ImportedSweep { report: SweepReport::imported(axis, report, origin), results })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Runs in one folder, or in one file, belong together.
fn parent(place: &Path) -> Option<&Path> {
    place.parent()
}

fn order(level: &SweepLevel) -> f64 {
    level.number().unwrap_or(f64::INFINITY)
}

/// As a part of a path.
fn file_name(level: &SweepLevel) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_=".contains(c) { c } else { '-' };
    level.short().chars().map(plain).take(80).collect()
}

/// How GuideLLM sends: `synchronous`, `throughput`, `constant`, …
fn strategy(run: &LocatedRun) -> Option<&str> {
    run.run.result.requested.get("strategy")?.as_str()
}

/// The level that the settings of a run state: a finite rate, else a number of users.
pub(super) fn stated_level(requested: &Map<String, Value>) -> Option<SweepLevel> {
    let number = |key: &str| requested.get(key)?.as_f64().filter(|number| number.is_finite() && *number > 0.0);
    let rate = number("request_rate").or_else(|| number("target_qps"));
    rate.map(SweepLevel::Rate).or_else(|| number("concurrency").map(|users| SweepLevel::Users(users as u32)))
}

/// The level of each run. What is the same for all is none: then what their files are called tells them apart.
fn levels(runs: &[LocatedRun]) -> Vec<SweepLevel> {
    let differ = |levels: &[SweepLevel]| levels.iter().any(|level| *level != levels[0]);
    let stated = |of: fn(&LocatedRun) -> Option<SweepLevel>| -> Option<Vec<SweepLevel>> {
        let all: Option<Vec<SweepLevel>> = runs.iter().map(of).collect();
        all.filter(|levels| differ(levels))
    };
    let users = |run: &LocatedRun| {
        let users = run.run.result.requested.get("concurrency")?.as_f64().filter(|users| *users >= 1.0)?;
        Some(SweepLevel::Users(users as u32))
    };
    stated(|run| stated_level(&run.run.result.requested))
        .or_else(|| stated(users))
        .or_else(|| stated(|run| named_level(&run.place)))
        .unwrap_or_else(|| runs.iter().map(|run| by_name(&run.place)).collect())
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
        let of = |words: &[&str]| (0..parts.len()).find_map(|at| words.iter().find_map(|word| after(at, word)));
        let users = of(&["concurrency", "conc", "users", "streams", "c"]).filter(|users| users.fract() == 0.0);
        users
            .map(|users| SweepLevel::Users(users as u32))
            .or_else(|| of(&["rate", "qps", "rps", "r"]).map(SweepLevel::Rate))
    })
}

/// Several runs of one folder are repeats, so the folder is the level; a file is, where it is alone.
fn by_name(place: &Path) -> SweepLevel {
    let is_run = |stem: &str| stem.starts_with("run=") || stem == "report" || stem.starts_with("mlperf_log");
    let stem = place.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = place.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let value = folder.filter(|_| is_run(&stem)).unwrap_or(stem);
    SweepLevel::Value { name: "run".to_owned(), value }
}

fn axis(levels: &[SweepLevel]) -> &'static str {
    let all = |is: fn(&SweepLevel) -> bool| levels.iter().all(is);
    if all(|level| matches!(level, SweepLevel::Users(_))) {
        "concurrency"
    } else if all(|level| matches!(level, SweepLevel::Rate(_))) {
        "rate"
    } else if all(|level| matches!(level, SweepLevel::Value { .. })) {
        "value"
    } else {
        "auto"
    }
}

fn origin(tool: Tool, runs: &[LocatedRun]) -> SweepOrigin {
    let first = &runs[0].run.result;
    let mut definitions = BTreeMap::new();
    let terms =
        [("ttft", Some(MetricConcept::Ttft)), ("tpot", tool.time_per_token()), ("e2e", Some(MetricConcept::E2e))];
    for (name, concept) in terms {
        let found = concept.and_then(|concept| first.latency.get(concept.name()).map(|metric| (concept, metric)));
        if let Some((concept, metric)) = found {
            let own_name =
                if concept.name() == name { String::new() } else { format!(", which it calls {}", concept.title()) };
            definitions.insert(name.to_owned(), format!("{}{own_name}", metric.definition));
        }
    }
    let versions: BTreeSet<&String> =
        runs.iter().filter_map(|run| run.run.result.imported.tool_version.as_ref()).collect();
    SweepOrigin {
        tool: tool.name().to_owned(),
        tool_version: (!versions.is_empty()).then(|| versions.into_iter().cloned().collect::<Vec<_>>().join(", ")),
        title: tool.title().to_owned(),
        definitions,
        token_source: first.tokens.source.clone(),
    }
}

fn point(level: SweepLevel, role: Option<PointRole>, folder: PathBuf, tool: Tool, runs: &[LocatedRun]) -> SweepPoint {
    let results: Vec<&ImportedResult> = runs.iter().map(|run| &run.run.result).collect();
    let first = results[0];
    let metric = |concept: Option<MetricConcept>| concept.and_then(|concept| first.latency.get(concept.name()));
    let tpot = metric(tool.time_per_token());
    let sum =
        |of: fn(&ImportedResult) -> Option<f64>| results.iter().filter_map(|result| of(result)).sum::<f64>() as u64;
    let (ok, failed) = (sum(|result| result.counts.ok), sum(|result| result.counts.failed));
    let once = SweepPoint {
        folder,
        scheduled: ok + failed,
        ok,
        failed,
        window_s: first.rates.get("window_s").copied().unwrap_or_default(),
        offered_per_s: match level {
            SweepLevel::Rate(rate) => Some(rate),
            _ => None,
        },
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

fn summary(metric: Option<&ImportedMetric>) -> LatencySummary {
    let Some(metric) = metric else { return LatencySummary::default() };
    let number = |value: Option<f64>| Some(MeasuredNumber { value: value?, low: None, high: None });
    LatencySummary {
        n: metric.n.unwrap_or_default(),
        mean: number(metric.mean),
        p50: number(metric.p50),
        p90: number(metric.p90),
        p99: number(metric.p99),
    }
}

/// The numbers of all runs, by the names that a repeated measurement has for them.
fn over_runs(tool: Tool, results: &[&ImportedResult]) -> BTreeMap<String, AcrossRuns> {
    type Stat = fn(&ImportedMetric) -> Option<f64>;
    const STATS: [(&str, Stat); 4] =
        [("mean", |it| it.mean), ("p50", |it| it.p50), ("p90", |it| it.p90), ("p99", |it| it.p99)];
    let mut all = BTreeMap::new();
    let mut add = |name: String, unit: &str, values: Option<Vec<f64>>| {
        if let Some(over) = values.and_then(|values| AcrossRuns::of(unit, values)) {
            all.insert(name, over);
        }
    };
    let terms =
        [("ttft", Some(MetricConcept::Ttft)), ("tpot", tool.time_per_token()), ("e2e", Some(MetricConcept::E2e))];
    for (name, concept) in terms.into_iter().filter_map(|(name, concept)| Some((name, concept?.name()))) {
        for (stat, of) in STATS {
            let values = results.iter().map(|result| of(result.latency.get(concept)?)).collect();
            add(format!("{name}_{stat}"), "ms", values);
        }
        let counts = results.iter().map(|result| Some(result.latency.get(concept)?.n? as f64)).collect();
        add(format!("{name}_n"), "", counts);
    }
    for (name, unit, rate) in [
        ("requests_full", "/s", "requests_full"),
        ("output_tokens", "/s", "output_tokens"),
        ("window", "s", "window_s"),
    ] {
        add(name.to_owned(), unit, results.iter().map(|result| result.rates.get(rate).copied()).collect());
    }
    all
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
