//! Compares two submissions, or two runs: their results, and what differs in how they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::layout::scenario_titled;
use super::provenance::shortened;
use super::submission_check::JudgedRun;
use super::{PackageProvenance, SubmissionLayout, TestRecord, submission_check};
use base::diag::{ErrorText, in_file};
use base::files::{read_description, read_text};
use base::spec::TestMode;
use base::units::unquoted;
use rules::log::{DETAIL_FILE, Detail};
use rules::{MlperfScenario, Round};

/// One side of one result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DiffedRun {
    #[serde(flatten)]
    pub judged: JudgedRun,
    /// Everything that can be compared: settings in force, user.conf, accuracy, versions.
    #[serde(skip)]
    pub settings: BTreeMap<String, String>,
}

/// One value that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueChange {
    pub what: String,
    /// None: it has none.
    pub a: Option<String>,
    pub b: Option<String>,
}

/// One result of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultDifference {
    /// `llama2-70b-99.9 Server`, with the system in front where there are several; `system X` for a system's own.
    pub name: String,
    pub a: Option<DiffedRun>,
    pub b: Option<DiffedRun>,
    /// b / a.
    pub ratio: Option<f64>,
    pub changes: Vec<ValueChange>,
}

/// What of two submissions is compared.
#[derive(Clone, Debug, Default)]
pub struct DiffSelection {
    /// Of this submitter only.
    pub submitter: Option<String>,
    /// A system of `a` and the one of `b` that it is compared with, whatever their names and accelerators are.
    pub systems: Vec<(String, String)>,
}

/// What `a` and `b` hold, result by result, then system by system. Each is a submission folder or the output of a run.
///
/// # Errors
/// One that holds neither results nor LoadGen's logs, by its name.
pub fn compare(a: &Path, b: &Path, selection: &DiffSelection) -> Result<Vec<ResultDifference>, ErrorText> {
    let submitter = selection.submitter.as_deref();
    let (a, b) = (side(a, submitter)?, side(b, submitter)?);
    let pairs = SystemPairs::pair(&a.systems, &b.systems, &selection.systems);
    let (a, b) = (a.named(|system| pairs.name_of_a(system)), b.named(|system| pairs.name_of_b(system)));
    let mut differences = Vec::new();
    for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
        let (left, right) = (a.get(name), b.get(name));
        let values = left.and_then(|run| run.judged.value).zip(right.and_then(|run| run.judged.value));
        let changes = left.zip(right).map(|(left, right)| changes(&left.settings, &right.settings));
        differences.push(ResultDifference {
            name: name.clone(),
            a: left.cloned(),
            b: right.cloned(),
            ratio: values.filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a),
            changes: changes.unwrap_or_default(),
        });
    }
    Ok(differences)
}

fn changes(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<ValueChange> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).filter(|name| a.get(*name) != b.get(*name)).collect();
    let change = |name: &String| ValueChange { what: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() };
    names.into_iter().map(change).collect()
}

/// The results of one side, before its systems have the names that the comparison gives them.
#[derive(Default)]
struct ComparedSide {
    systems: BTreeMap<String, SystemKind>,
    /// System, then benchmark and scenario; of a system's own description the latter is None. A single run has no
    /// system.
    runs: Vec<(Option<String>, Option<String>, DiffedRun)>,
}

impl ComparedSide {
    fn named(self, name: impl Fn(&str) -> Option<String>) -> BTreeMap<String, DiffedRun> {
        let named = |(system, result, run): (Option<String>, Option<String>, DiffedRun)| {
            let system = system.and_then(|system| name(&system));
            let name = match (system, result) {
                (Some(system), Some(result)) => format!("{system} {result}"),
                (None, Some(result)) => result,
                (Some(system), None) => format!("system {system}"),
                (None, None) => "system".to_owned(),
            };
            (name, run)
        };
        self.runs.into_iter().map(named).collect()
    }
}

fn side(root: &Path, submitter: Option<&str>) -> Result<ComparedSide, ErrorText> {
    if root.join(DETAIL_FILE).is_file() {
        let (name, run) = single_run(root)?;
        return Ok(ComparedSide { runs: vec![(None, Some(name), run)], ..ComparedSide::default() });
    }
    let no_round = || ErrorText::new(format_args!("{} has no results of a known round", root.display()));
    let round = submission_check::round_of(root).ok_or_else(no_round)?;
    let examined = submission_check::examine(root, &round).of_submitter(submitter);
    if examined.results.is_empty() {
        return Err(ErrorText::new(format_args!("{} holds no results", root.display())));
    }
    let mut compared = ComparedSide::default();
    for seen in &examined.results {
        let submitter = root.join(&seen.division).join(&seen.submitter);
        let layout = SubmissionLayout::for_round(&round.name);
        let mut settings = BTreeMap::new();
        let result = submitter.join(layout.result(&seen.system, &seen.benchmark, &seen.scenario));
        if let Ok(detail) = Detail::read_folder(&result.join("performance/run_1")) {
            of_log(&detail, &mut settings);
        }
        let measurements = submitter.join(layout.measurements(&seen.system, &seen.benchmark, &seen.scenario));
        of_conf(&read_text(measurements.join("user.conf")).unwrap_or_default(), &mut settings);
        settings.extend(seen.accuracy.iter().map(|(name, value)| (format!("accuracy {name}"), value.to_string())));
        of_lock(&submitter, seen, &mut settings);
        let system = Some(seen.system.clone());
        let name = format!("{} {}", seen.benchmark, seen.scenario);
        compared.runs.push((system.clone(), Some(name), DiffedRun { judged: seen.judged.clone(), settings }));
        if !compared.systems.contains_key(&seen.system) {
            let described = described(&submitter.join("systems").join(format!("{}.json", seen.system)), &round)?;
            compared.systems.insert(seen.system.clone(), SystemKind::parse(&described.settings));
            compared.runs.push((system, None, described));
        }
    }
    Ok(compared)
}

/// The output of one run.
fn single_run(folder: &Path) -> Result<(String, DiffedRun), ErrorText> {
    let detail = Detail::read_folder(folder).map_err(in_file(folder))?;
    let test_record = TestRecord::in_folder(folder)?;
    let scenario = test_record
        .as_ref()
        .map(|test| test.scenario)
        .or_else(|| scenario_titled(detail.text("effective_scenario")?))
        .unwrap_or(MlperfScenario::Offline);
    let name = match &test_record {
        Some(test) => format!("{} {}", test.benchmark, scenario.title()),
        None => scenario.title().to_owned(),
    };
    let mut settings = BTreeMap::new();
    of_log(&detail, &mut settings);
    of_conf(&read_text(folder.join("user.conf")).unwrap_or_default(), &mut settings);
    let benchmark = test_record.as_ref().map_or("", |test| test.benchmark.as_str());
    let judged = submission_check::run_value(folder, benchmark, scenario).unwrap_or_default();
    Ok((name, DiffedRun { judged, settings }))
}

fn of_log(detail: &Detail, settings: &mut BTreeMap<String, String>) {
    for key in ["loadgen_version", "sut_name", "qsl_reported_total_count"] {
        if let Some(value) = detail.get(key) {
            settings.insert(key.to_owned(), unquoted(value));
        }
    }
    settings.extend(detail.settings().map(|(key, value)| (key.to_owned(), unquoted(value))));
}

fn of_conf(text: &str, settings: &mut BTreeMap<String, String>) {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    settings.extend(
        lines
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (format!("user.conf {}", name.trim()), value.trim().to_owned())),
    );
}

/// Commits and what was under test, where Regatta made the package.
fn of_lock(submitter: &Path, seen: &submission_check::ExaminedResult, settings: &mut BTreeMap<String, String>) {
    let locks = PackageProvenance::all(submitter).unwrap_or_default();
    let Some(lock) = locks.into_iter().find(|lock| lock.system == seen.system) else { return };
    settings.insert("regatta".to_owned(), lock.regatta.clone());
    for stage in &lock.stages {
        if let Some(commit) = &stage.commit {
            settings.insert(format!("commit of {}", stage.task), commit.clone());
        }
    }
    let Some(scenario) = scenario_titled(&seen.scenario) else { return };
    if let Some(run) = lock.run(&seen.benchmark, scenario, TestMode::Performance) {
        for (kind, digests) in &run.under_test {
            settings.insert(format!("{kind} (digest)"), shortened(digests));
        }
    }
}

/// What the submission writes about a system. A system without a description has no fields to compare.
fn described(path: &Path, round: &Round) -> Result<DiffedRun, ErrorText> {
    let fields: serde_json::Map<String, Value> = match read_description(path) {
        Ok(text) => serde_json::from_str(&text).map_err(in_file(path))?,
        Err(error) if error.kind() == ErrorKind::NotFound => serde_json::Map::new(),
        Err(error) => return Err(in_file(path)(error)),
    };
    let mut settings: BTreeMap<String, String> =
        fields.iter().map(|(name, value)| (name.clone(), unquoted(value))).collect();
    settings.insert("round".to_owned(), round.name.clone());
    Ok(DiffedRun { judged: JudgedRun::default(), settings })
}

// Which system of one submission is compared with which of another: the one of its name, else one of the same
// accelerators.

/// What a system is: its accelerator and how many there are in all. None: its description does not give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SystemKind(Option<(String, u64)>);

impl SystemKind {
    /// From the fields of a system's JSON.
    fn parse(fields: &BTreeMap<String, String>) -> Self {
        let count = |name: &str| fields.get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let per_node = count("accelerators_per_node").filter(|count| *count > 0);
        // `NVIDIA H200-SXM-141GB`, `H200 SXM`: the part with a number is the model.
        let model = fields.get("accelerator_model_name").and_then(|name| {
            let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
            parts.find(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.contains(char::is_numeric))
        });
        let nodes = count("number_of_nodes").unwrap_or(1);
        Self(model.zip(per_node).map(|(model, per_node)| (model.to_ascii_lowercase(), per_node * nodes)))
    }
}

/// The systems of both sides, paired.
struct SystemPairs {
    /// Of `a`, each with its partner in `b`.
    pairs: Vec<(String, Option<String>)>,
    /// Of `b`, without a partner.
    alone: Vec<String>,
}

impl SystemPairs {
    fn pair(a: &BTreeMap<String, SystemKind>, b: &BTreeMap<String, SystemKind>, given: &[(String, String)]) -> Self {
        let mut alone: Vec<String> = b.keys().filter(|name| !a.contains_key(*name)).cloned().collect();
        let given = given.iter().filter(|(name, other)| a.contains_key(name) && b.contains_key(other));
        let mut pairs: Vec<_> = given.map(|(name, other)| (name.clone(), Some(other.clone()))).collect();
        alone.retain(|name| pairs.iter().all(|(_, other)| other.as_ref() != Some(name)));
        let others: Vec<_> = a.iter().filter(|(name, _)| pairs.iter().all(|(given, _)| given != *name)).collect();
        for (name, kind) in others {
            let same = |other: &String| kind.0.is_some() && b.get(other) == Some(kind);
            let only = a.len() == 1 && b.len() == 1;
            let partner = if b.contains_key(name) {
                Some(name.clone())
            } else {
                let at = alone.iter().position(|other| only || same(other));
                at.map(|at| alone.remove(at))
            };
            pairs.push((name.clone(), partner));
        }
        Self { pairs, alone }
    }

    /// What a system of `a` is called in the comparison; None: there is only one.
    fn name_of_a(&self, system: &str) -> Option<String> {
        self.name(|(name, _)| name == system, system)
    }

    fn name_of_b(&self, system: &str) -> Option<String> {
        self.name(|(_, partner)| partner.as_deref() == Some(system), system)
    }

    fn name(&self, is_it: impl Fn(&&(String, Option<String>)) -> bool, system: &str) -> Option<String> {
        if matches!(&self.pairs[..], [(_, Some(_))]) && self.alone.is_empty() {
            return None;
        }
        Some(match self.pairs.iter().find(is_it) {
            Some((name, Some(partner))) if name != partner => format!("{name} ↔ {partner}"),
            _ => system.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systems(all: &[(&str, &str, u64)]) -> BTreeMap<String, SystemKind> {
        let described = |(name, model, count): &(&str, &str, u64)| {
            let fields =
                [("accelerator_model_name", (*model).to_owned()), ("accelerators_per_node", count.to_string())];
            let fields = fields.map(|(name, value)| (name.to_owned(), value));
            ((*name).to_owned(), SystemKind::parse(&BTreeMap::from(fields)))
        };
        all.iter().map(described).collect()
    }

    #[test]
    fn systems_are_paired_by_name_then_by_accelerators() {
        let a = systems(&[("dell", "NVIDIA H200-SXM-141GB", 8), ("box", "NVIDIA B200", 8), ("old", "NVIDIA H100", 8)]);
        let b = systems(&[("sim", "H200 SXM", 8), ("box", "NVIDIA B200", 4), ("half", "NVIDIA H100", 4)]);
        let pairs = SystemPairs::pair(&a, &b, &[]);
        assert_eq!(pairs.name_of_a("dell").as_deref(), Some("dell ↔ sim"));
        assert_eq!(pairs.name_of_b("sim").as_deref(), Some("dell ↔ sim"));
        assert_eq!(pairs.name_of_b("box").as_deref(), Some("box"));
        assert_eq!(pairs.name_of_a("old").as_deref(), Some("old"));
        assert_eq!(pairs.name_of_b("half").as_deref(), Some("half"));
        let pairs = SystemPairs::pair(&a, &b, &[("old".to_owned(), "sim".to_owned())]);
        assert_eq!(pairs.name_of_a("old").as_deref(), Some("old ↔ sim"));
        assert_eq!(pairs.name_of_b("sim").as_deref(), Some("old ↔ sim"));
        assert_eq!(pairs.name_of_a("dell").as_deref(), Some("dell"), "its partner is taken");
    }

    #[test]
    fn one_system_on_each_side_needs_no_name() {
        let pairs = SystemPairs::pair(&systems(&[("a", "NVIDIA H200", 8)]), &systems(&[("b", "", 8)]), &[]);
        assert_eq!((pairs.name_of_a("a"), pairs.name_of_b("b")), (None, None));
    }
}
