//! `sweep.json`, version 1: all points of a sweep in the order of their levels, the knee, and the front.
//!
//! The knee: *power* is throughput over response time, and the knee is where it is highest (Kleinrock, "Power and
//! deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979). In a closed loop of
//! N users it is X²/N: it grows with N as long as more users bring more throughput, and falls once they only wait.
//! Unlike Kneedle, which scales both axes to the range that was measured, it does not move when a sweep goes on to
//! higher levels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gpu::{HOST_GPUS, are_of_servers};
use crate::measure::reasons::verdict_of_file;
use crate::measure::result_files::schema_of;
use crate::measure::token_counts::token_counters;
use crate::sweep::plan::{PointRole, SweepLevel};
use crate::sweep::point::{SweepPoint, mark_front};
use crate::{FurtherLimits, RunIdentity, RunResult, Slo, Workload};
use base::diag::ErrorText;
use base::event::Verdict;
use base::files::read_text;
use base::units::counted;

/// The file.
pub const SWEEP: &str = "sweep.json";
/// The folder of its points, in the same folder.
pub const SWEEP_POINTS: &str = "points";
/// The version of `sweep.json`.
const SCHEMA: u32 = 1;

/// What a sweep measured.
#[base::omit_empty(except(ttft_p99_limit_ms, tpot_p99_limit_ms, points))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepReport {
    /// The version of this format. Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    /// What changes from point to point: `concurrency`, `rate`, `input_tokens`, `output_tokens`, `auto`, or the
    /// variables of a
    /// `foreach`.
    pub axis: String,
    /// What was measured, as the first point has it.
    pub identity: Option<RunIdentity>,
    /// Absent where Regatta measured.
    pub imported: Option<SweepOrigin>,
    /// The GPUs of the servers; absent where they are not known.
    pub gpus: Option<GpuCount>,
    pub ttft_p99_limit_ms: Option<f64>,
    pub tpot_p99_limit_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "FurtherLimits::is_empty")]
    pub further_limits: FurtherLimits,
    #[serde(default)]
    pub slo: Slo,
    /// In ascending order of their levels.
    pub points: Vec<SweepPoint>,
    /// Absent where the level is not a load, and below three usable points.
    pub knee: Option<Knee>,
}

/// Another tool that measured a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SweepOrigin {
    pub tool: String,
    /// As its files have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// The version of the tool whose definitions the numbers have.
    pub title: String,
    /// Of `ttft`, `tpot`, `e2e` and `requests_per_s`, where the tool has them.
    pub definitions: BTreeMap<String, String>,
    /// Who counted output tokens.
    pub token_source: String,
}

/// How many GPUs the servers have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuCount {
    pub count: u64,
    /// Where the number comes from.
    pub source: String,
}

impl SweepReport {
    /// What TTFT and E2E of its points are counted from, each once; of a sweep of an earlier version it is not known.
    pub fn zero_points(&self) -> Vec<&str> {
        self.distinct(|point| vec![point.zero_point.as_str()])
    }

    /// Who counted the output tokens of its points, each once; of a sweep of an earlier version it is not known.
    pub fn token_sources(&self) -> Vec<&str> {
        self.distinct(|point| token_counters(&point.token_source).into_iter().map(|(source, _)| source).collect())
    }

    fn distinct<'a>(&'a self, of: impl Fn(&'a SweepPoint) -> Vec<&'a str>) -> Vec<&'a str> {
        let mut texts: Vec<&str> = Vec::new();
        for text in self.points.iter().flat_map(of) {
            if !text.is_empty() && !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// `points` in any order; `first` is the result of one of them.
    pub fn new(axis: &str, mut points: Vec<SweepPoint>, first: Option<&RunResult>) -> Self {
        let requested = first.map(|first| first.requested.clone()).unwrap_or_default();
        let identity = first.and_then(|first| first.identity.clone());
        let gpus = identity.as_ref().and_then(GpuCount::from_identity);
        points.sort_by(|a, b| {
            let rank = |point: &SweepPoint| match point.role {
                Some(PointRole::Idle) => 0,
                None | Some(PointRole::Between) => 1,
                Some(PointRole::Saturation) => 2,
            };
            let number = |point: &SweepPoint| point.level.number().unwrap_or(f64::INFINITY);
            rank(a).cmp(&rank(b)).then(number(a).total_cmp(&number(b)))
        });
        if let Some(gpus) = gpus.as_ref().filter(|gpus| gpus.count > 0) {
            for point in &mut points {
                point.tokens_per_s_per_gpu = point.output_tokens_per_s.map(|rate| rate / gpus.count as f64);
            }
        }
        mark_front(&mut points);
        let is_load = points.iter().all(|point| point.level.is_load());
        let knee = if is_load { find_knee(&points) } else { None };
        Self {
            schema: SCHEMA,
            axis: axis.to_owned(),
            identity,
            imported: None,
            gpus,
            ttft_p99_limit_ms: requested.ttft_p99_limit_ms,
            tpot_p99_limit_ms: requested.tpot_p99_limit_ms,
            further_limits: requested.further_limits,
            slo: requested.slo,
            points,
            knee,
        }
    }

    /// The server, the load and the lengths of the whole sweep, from those of one of its results.
    pub fn workload(&self, mut workload: Workload) -> Workload {
        let (Some(low), Some(high)) = (self.points.first(), self.points.last()) else { return workload };
        if self.points.len() == 1 {
            return workload;
        }
        let levels = format!("{} levels", self.points.len());
        let range = format!("{} … {}", low.level.amount(), high.level);
        match &low.level {
            // Users and rates, which it found itself.
            _ if low.role.is_some() => workload.load = levels,
            level if level.is_load() => workload.load = format!("{levels}, {range}"),
            level @ SweepLevel::Value { .. } => {
                workload.lengths = format!("{} · {levels}, {level} … {}", workload.lengths, high.level);
            }
            _ => workload.lengths = format!("{levels}, {range}"),
        }
        // Those that look for saturation have more requests than the others.
        let is_same = self.points.iter().all(|point| point.role != Some(PointRole::Saturation));
        workload.extent = workload.extent.filter(|_| is_same).map(|each| format!("{each} each"));
        workload
    }

    /// A sweep that another tool measured; `points` in any order.
    pub fn imported(axis: &str, points: Vec<SweepPoint>, origin: SweepOrigin) -> Self {
        Self { imported: Some(origin), ..Self::new(axis, points, None) }
    }

    /// # Errors
    /// The file cannot be read, or is not a sweep that this version can read.
    pub fn read(path: &Path) -> Result<Self, ErrorText> {
        let path_text = path.display();
        let text = read_text(path).map_err(|error| ErrorText::new(format_args!("cannot read {path_text}: {error}")))?;
        let mut report: Self = serde_json::from_str(&text)
            .map_err(|error| ErrorText::new(format_args!("{path_text} is not a sweep: {error}")))?;
        if report.schema != SCHEMA {
            let format = report.schema;
            let text = format!("{path_text} is a sweep of format {format}; this version reads {SCHEMA}");
            return Err(ErrorText::new(text));
        }
        for point in &mut report.points {
            point.verdict = point.verdict.map(|verdict| verdict_of_file(verdict, &point.reasons));
        }
        Ok(report)
    }

    /// Its text in `sweep.json`.
    pub fn text(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// Whether a server was the built-in simulator.
    pub fn is_simulated(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.simulated)
    }

    /// The valid point without overload with the most output tokens per second; of a tool that does not judge, of all
    /// points.
    pub fn best(&self) -> Option<&SweepPoint> {
        let is_candidate = |point: &&SweepPoint| {
            point.is_accepted() && point.overload().is_none() && point.output_tokens_per_s.is_some()
        };
        self.points.iter().filter(is_candidate).max_by(|a, b| {
            let rate = |point: &SweepPoint| point.output_tokens_per_s.unwrap_or_default();
            rate(a).total_cmp(&rate(b))
        })
    }

    /// Whether some points are overloaded, which makes them no candidates for the front, the knee and the best.
    pub fn has_overload(&self) -> bool {
        self.points.iter().any(|point| point.overload().is_some())
    }

    /// How many points are valid, with or without warnings.
    pub fn valid(&self) -> usize {
        self.points.iter().filter(|point| point.verdict.is_some_and(Verdict::is_valid)).count()
    }

    /// How many points are valid with warnings.
    pub fn warned(&self) -> usize {
        self.points.iter().filter(|point| point.verdict == Some(Verdict::ValidWithWarnings)).count()
    }

    /// `7 of 8 points VALID, 2 with warnings`, or why the points are not judged.
    pub fn verdict_text(&self) -> String {
        match &self.imported {
            Some(origin) => format!("{} by {}, not judged", counted(self.points.len(), "point"), origin.tool),
            None => {
                format!("{} of {} VALID{}", self.valid(), counted(self.points.len(), "point"), self.with_warnings())
            }
        }
    }

    /// `, 2 with warnings`, behind how many are valid; empty where none has any.
    pub fn with_warnings(&self) -> String {
        match self.warned() {
            0 => String::new(),
            warned => format!(", {warned} with warnings"),
        }
    }

    /// Which warnings valid points have, and how many points have each: `2 of 3 points with warnings: lag (1), samples
    /// (2)`.
    pub fn warnings_line(&self) -> Option<String> {
        let mut points_of: BTreeMap<&str, usize> = BTreeMap::new();
        for point in self.points.iter().filter(|point| point.verdict == Some(Verdict::ValidWithWarnings)) {
            for check in point.reasons.iter().map(|reason| reason.check.as_str()).collect::<BTreeSet<_>>() {
                *points_of.entry(check).or_default() += 1;
            }
        }
        let checks: Vec<String> = points_of.iter().map(|(check, points)| format!("{check} ({points})")).collect();
        let (warned, all) = (self.warned(), self.points.len());
        (warned > 0).then(|| format!("{warned} of {} with warnings: {}", counted(all, "point"), checks.join(", ")))
    }

    /// The highest number of runs that a point is of.
    pub fn runs(&self) -> u64 {
        self.points.iter().map(|point| point.runs).max().unwrap_or(1)
    }
}

impl GpuCount {
    fn from_identity(identity: &RunIdentity) -> Option<Self> {
        // Telemetry watches one population; its GPUs are several entries where they are not equal.
        let watched = identity.gpus.first().map(|first| {
            let count = identity.gpus.iter().map(|gpu| gpu.count).sum();
            (first.population.as_str(), Self { count, source: first.source.clone() })
        });
        let is_certain = watched.as_ref().is_some_and(|(population, gpus)| are_of_servers(population, gpus.count));
        if !is_certain && let Some(ranks) = Self::ranks(identity) {
            return Some(ranks);
        }
        // Of several GPUs of a host an attached server may use one.
        watched.filter(|(population, _)| is_certain || *population != HOST_GPUS).map(|(_, gpus)| gpus)
    }

    fn ranks(identity: &RunIdentity) -> Option<Self> {
        // All servers run the same engine; several engines have several sizes.
        let [engine] = identity.engines.as_slice() else { return None };
        let size = |key: &str| engine.build.get(key).and_then(|text| text.parse::<u64>().ok());
        let world = size("world_size").or_else(|| Some(size("tp_size")? * size("pp_size").unwrap_or(1)))?;
        let servers = identity.servers.len().max(1) as u64;
        let times = if servers > 1 { format!(", in {servers} servers") } else { String::new() };
        Some(Self { count: world * servers, source: format!("ranks of the engine{times}") })
    }
}

/// The JSON Schema of `sweep.json` as this version writes it.
pub fn sweep_schema() -> serde_json::Value {
    schema_of::<SweepReport>("sweep")
}

/// What the knee of a sweep is.
pub const KNEE_DEFINITION: &str =
    "the point with the highest power, successful requests per second over mean E2E (Kleinrock 1979)";

/// Where more load begins to cost more latency than it brings throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    pub definition: String,
    pub state: KneeState,
    pub level: SweepLevel,
    /// Its place in `points`, from 0.
    pub point: u64,
    /// Requests per second per second.
    pub power: f64,
}

/// Whether the sweep goes far enough on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KneeState {
    /// Points on both sides have less power.
    Bracketed,
    /// It is the lowest usable point without overload: the knee may be lower.
    AtLowest,
    /// It is the highest usable point without overload: the knee may be higher.
    AtHighest,
}

/// `points` are sorted by load. `None` if fewer than three are usable. Overloaded points are excluded: their E2E
/// latency grows with the length of the run.
fn find_knee(points: &[SweepPoint]) -> Option<Knee> {
    let power = |point: &SweepPoint| {
        let e2e = point.e2e.mean.filter(|mean| mean.value > 0.0 && point.is_usable())?;
        Some(point.requests_per_s? / (e2e.value / 1e3))
    };
    let usable: Vec<(usize, f64)> =
        points.iter().enumerate().filter_map(|(at, point)| Some((at, power(point)?))).collect();
    if usable.len() < 3 {
        return None;
    }
    let powers: Vec<(usize, f64)> = usable.into_iter().filter(|(at, _)| points[*at].overload().is_none()).collect();
    let (place, &(at, power)) = powers.iter().enumerate().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1))?;
    let state = match place {
        // Alone it has nothing to be compared with on either side; more load is what was looked at.
        0 if powers.len() > 1 => KneeState::AtLowest,
        place if place + 1 == powers.len() => KneeState::AtHighest,
        _ => KneeState::Bracketed,
    };
    let level = points.get(at)?.level.clone();
    Some(Knee { definition: KNEE_DEFINITION.to_owned(), state, level, point: at as u64, power })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{HOST_GPUS, LEASED_GPUS, REPORTED_GPUS};
    use crate::{EngineIdentity, GpuIdentity, LoadLevel, LoadPattern, Requested, SweepLevel};
    use base::spec::Length;

    /// `UPDATE=1 cargo test` writes it anew.
    #[test]
    fn the_schema_in_the_repository_is_that_of_the_sweep() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/sweep.json");
        let now = format!("{:#}\n", sweep_schema());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap_or_default() == now, "regenerate with UPDATE=1");
    }

    #[test]
    fn the_workload_of_a_sweep_says_what_differs_between_its_points() {
        use SweepLevel::{InputTokens, Users};
        let requested = Requested {
            model: "toy".to_owned(),
            endpoints: vec!["h:1".to_owned()],
            scenario: LoadPattern::Concurrency { users: LoadLevel::Fixed(8.0) },
            stop_requests: Some(20),
            input_len: Length::Fixed(32),
            output_len: Length::Fixed(4),
            ..Requested::default()
        };
        let line = |levels: &[SweepLevel], role: Option<PointRole>| {
            let point = |level: &SweepLevel| SweepPoint { level: level.clone(), role, ..SweepPoint::default() };
            let sweep = SweepReport::new("", levels.iter().map(point).collect(), None);
            sweep.workload(Workload::from(&requested)).to_string().split_once(") · ").unwrap().1.to_owned()
        };
        assert_eq!(line(&[Users(8)], None), "concurrency 8 · 20 requests · 32 → 4 tokens");
        assert_eq!(line(&[Users(1), Users(8)], None), "2 levels, 1 … 8 users · 20 requests each · 32 → 4 tokens");
        let lengths = [InputTokens(32), InputTokens(512)];
        assert_eq!(line(&lengths, None), "concurrency 8 · 20 requests each · 2 levels, 32 … 512 input tokens");
        let named = [1, 2].map(|value| SweepLevel::Value { name: "tp".to_owned(), value: value.to_string() });
        assert_eq!(line(&named, None), "concurrency 8 · 20 requests each · 32 → 4 tokens · 2 levels, tp=1 … tp=2");
        let saturating = [Users(1), Users(64)];
        assert_eq!(line(&saturating, Some(PointRole::Saturation)), "2 levels · 32 → 4 tokens");
    }

    #[test]
    fn tokens_are_divided_by_the_gpus_that_the_servers_use() {
        let gpus = |population: &str, count| GpuIdentity {
            count,
            population: population.to_owned(),
            source: "nvidia-smi".to_owned(),
            ..GpuIdentity::default()
        };
        let count = |identity: &RunIdentity| GpuCount::from_identity(identity).map(|gpus| gpus.count);
        let mut identity = RunIdentity { gpus: vec![gpus(HOST_GPUS, 8)], ..RunIdentity::default() };
        assert_eq!(count(&identity), None, "how many it uses is not known");
        identity.gpus = vec![gpus(HOST_GPUS, 1)];
        assert_eq!(count(&identity), Some(1), "it has no other");
        identity.gpus = vec![gpus(REPORTED_GPUS, 6), gpus(REPORTED_GPUS, 2)];
        assert_eq!(count(&identity), Some(8));
        identity.engines.push(EngineIdentity::default());
        identity.engines[0].build.insert("tp_size".to_owned(), "1".to_owned());
        assert_eq!(count(&identity), Some(1), "a server reports all GPUs that it can see");
        identity.gpus = vec![gpus(HOST_GPUS, 8)];
        assert_eq!(count(&identity), Some(1), "its engine is known");
        identity.gpus = vec![gpus(LEASED_GPUS, 8)];
        assert_eq!(count(&identity), Some(8), "the others are leased for it and idle");
    }

    #[test]
    fn valid_points_with_warnings_are_counted_by_check() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let result: RunResult = serde_json::from_str(text).unwrap();
        let point = |users| SweepPoint::from_result(SweepLevel::Users(users), None, "".into(), &result);
        let mut report = SweepReport::new("concurrency", vec![point(1), point(2), point(4)], Some(&result));
        report.points[0].reasons.truncate(1);
        report.points[1].verdict = Some(Verdict::Valid);
        assert_eq!(report.verdict_text(), "3 of 3 points VALID, 2 with warnings");
        let line = report.warnings_line().unwrap();
        assert!(line.starts_with("2 of 3 points with warnings: core_wait (1), lag (2)"), "{line}");
        report.points.remove(0);
        report.points.remove(1);
        assert_eq!((report.verdict_text().as_str(), report.warnings_line()), ("1 of 1 point VALID", None));
    }

    #[test]
    fn points_are_in_numeric_order_and_tokens_are_shared_among_gpus() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        if let Some(identity) = &mut result.identity {
            identity.engines[0].build.insert("tp_size".to_owned(), "2".to_owned());
        }
        let point =
            |users| SweepPoint::from_result(SweepLevel::Users(users), None, format!("points/c{users}").into(), &result);
        let report = SweepReport::new("concurrency", vec![point(10), point(2), point(5)], Some(&result));
        let levels: Vec<String> = report.points.iter().map(|point| point.level.to_string()).collect();
        assert_eq!(levels, ["2 users", "5 users", "10 users"]);
        assert_eq!(report.gpus.as_ref().map(|gpus| gpus.count), Some(2));
        let first = &report.points[0];
        assert_eq!(first.tokens_per_s_per_gpu, first.output_tokens_per_s.map(|rate| rate / 2.0));
        assert!(report.is_simulated());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SWEEP);
        std::fs::write(&path, report.text()).unwrap();
        assert_eq!(SweepReport::read(&path).unwrap(), report);
        std::fs::write(&path, report.text().replace("\"schema\": 1", "\"schema\": 9")).unwrap();
        assert!(SweepReport::read(&path).unwrap_err().to_string().contains("of format 9"));
    }
}

#[cfg(test)]
mod knee_tests {
    use super::*;
    use crate::sweep::point::{LatencySummary, MeasuredNumber};
    use crate::{Reason, ReasonSeverity, VerdictCheck};
    use base::event::Verdict;

    /// The bound of a closed loop (Denning & Buzen 1978): a server that answers in one second alone, and at most 16 a
    /// second.
    fn point(users: u32) -> SweepPoint {
        let rate = f64::from(users).min(16.0);
        let mean = MeasuredNumber { value: f64::from(users) / rate * 1e3, low: None, high: None };
        SweepPoint {
            requests_per_s: Some(rate),
            e2e: LatencySummary { mean: Some(mean), ..LatencySummary::default() },
            ..SweepPoint::empty(SweepLevel::Users(users), None)
        }
    }

    fn knee(users: &[u32]) -> Option<(SweepLevel, KneeState)> {
        let points: Vec<SweepPoint> = users.iter().map(|users| point(*users)).collect();
        find_knee(&points).map(|knee| (knee.level, knee.state))
    }

    #[test]
    fn it_is_where_users_begin_to_wait_however_far_the_sweep_goes() {
        let expected = Some((SweepLevel::Users(16), KneeState::Bracketed));
        assert_eq!(knee(&[1, 2, 4, 8, 16, 32]), expected);
        assert_eq!(knee(&[1, 2, 4, 8, 16, 32, 64, 128, 512]), expected);
    }

    #[test]
    fn a_faulty_measurement_is_no_knee() {
        let mut points: Vec<SweepPoint> = [1, 2, 4, 8, 16, 32].map(point).to_vec();
        points[4].verdict = Some(Verdict::LimitMissed);
        assert!(points[4].is_usable() && find_knee(&points).is_some_and(|knee| knee.level == SweepLevel::Users(16)));
        points[4].verdict = Some(Verdict::InvalidClient);
        assert!(!points[4].is_usable());
        assert!(find_knee(&points).is_some_and(|knee| knee.level != SweepLevel::Users(16)));
    }

    /// With a short run an overloaded point has much throughput and little latency.
    #[test]
    fn an_overloaded_point_is_no_knee() {
        let mut points: Vec<SweepPoint> = [1, 2, 4, 8].map(point).to_vec();
        assert_eq!(find_knee(&points).map(|knee| knee.level), Some(SweepLevel::Users(8)));
        let (check, severity) = (VerdictCheck::Overload, ReasonSeverity::Overloaded);
        points[3].reasons = vec![Reason { check, severity, text: String::new() }];
        let knee = find_knee(&points).unwrap();
        assert_eq!((knee.level, knee.state), (SweepLevel::Users(4), KneeState::AtHighest));
        points[2].reasons = points[3].reasons.clone();
        points[1].reasons = points[3].reasons.clone();
        let knee = find_knee(&points).unwrap();
        assert_eq!((knee.level, knee.state), (SweepLevel::Users(1), KneeState::AtHighest));
    }

    #[test]
    fn a_sweep_that_does_not_reach_it_says_so() {
        assert_eq!(knee(&[1, 2, 4]), Some((SweepLevel::Users(4), KneeState::AtHighest)));
        assert_eq!(knee(&[32, 64, 128]), Some((SweepLevel::Users(32), KneeState::AtLowest)));
        assert_eq!(knee(&[1, 2]), None);
    }
}
