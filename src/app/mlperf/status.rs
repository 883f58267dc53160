//! The state of a submission: what `regatta plan` would do, read by benchmark and scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::before_run::decide;
use crate::cli::{CliExit, Global, KeyValueArg, Select, Subject};
use crate::console::print_as;
use crate::error::CommandError;
use crate::project::{Project, last_manifest, options};
use base::diag::ErrorText;
use base::event::{Decision, Prediction, TaskId};
use base::files::{read_bytes, read_text};
use base::spec::TestMode;
use base::units::run_command;
use plan::manifest::model::{Action, Mlperf, MlperfEntry, MlperfPackage};
use plan::{Plan, PlanReference, Task};
use report::mlperf::{ResultProgress, StepCell, StepState};
use runner::store::OutputCache;

pub(super) fn status(
    global: &Global,
    manifest: Option<String>,
    settings: Vec<KeyValueArg>,
    json: bool,
) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let subject = match manifest {
        Some(manifest) => Subject { manifest, settings },
        None => last_manifest(&project, "`regatta mlperf status MANIFEST`")?,
    };
    let select = Select::default();
    let plan = project.plan(&subject, &select)?;
    let output_cache = OutputCache::open(&project.home)?;
    let options = options(&plan, &select)?;
    let decisions = decide(&project, &subject, &select, &plan, &options)?;
    let Subject { manifest, settings } = &subject;
    let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let look = StatusContext {
        plan: &plan,
        cache: &output_cache,
        decisions: decisions.iter().map(|decision| (&decision.id, decision)).collect(),
        command: run_command(std::iter::once(manifest.as_str()).chain(words.iter().map(String::as_str))),
    };
    let standing = look.result_progress();
    if standing.is_empty() {
        let (problem, hint) = if plan.params.contains_key("package") {
            let problem = "runs no LoadGen and packs nothing with these arguments";
            (problem, format!("`regatta mlperf status {manifest} package=true` is of its submission"))
        } else {
            let hint = "a `bench` with `loadgen:` is a result, an `mlperf: { package: … }` a submission";
            ("has no stages of MLPerf", hint.to_owned())
        };
        return Err(CommandError::hinted(format!("{manifest} {problem}"), hint));
    }
    let as_json = || json!({ "results": standing });
    print_as(global.styler(), json, as_json, |styler| report::mlperf::status(&standing).terminal(styler));
    Ok(CliExit::Done)
}

struct StatusContext<'a> {
    plan: &'a Plan,
    cache: &'a OutputCache,
    decisions: BTreeMap<&'a TaskId, &'a Decision>,
    command: String,
}

/// One LoadGen test of the plan.
struct Test<'a> {
    task: &'a Task,
    benchmark: String,
    scenario: rules::MlperfScenario,
    mode: TestMode,
}

/// Where the parts of one result come from: tasks of the plan.
#[derive(Default)]
struct Sources<'a> {
    performance: Vec<&'a Task>,
    accuracy: Vec<&'a Task>,
    audit: Vec<&'a Task>,
    package: Vec<&'a Task>,
}

impl StatusContext<'_> {
    /// A row for each benchmark and scenario: first those of packages, then LoadGen tests that no package names.
    fn result_progress(&self) -> Vec<ResultProgress> {
        let actions: Vec<(&Task, &Action)> =
            self.plan.tasks.iter().filter_map(|task| Some((task, task.action()?))).collect();
        let mut rows = Vec::new();
        for (task, action) in &actions {
            let Action::Mlperf(Mlperf::Package(package)) = action else { continue };
            rows.extend(package.entries().iter().filter_map(|entry| self.packed(task, package, entry)));
        }
        let tests: Vec<Test> = actions.iter().filter_map(|(task, action)| test(task, action)).collect();
        for one in &tests {
            let is_one = |row: &ResultProgress| row.benchmark == one.benchmark && row.scenario == one.scenario.title();
            if rows.iter().any(is_one) {
                continue;
            }
            let same = tests.iter().filter(|test| test.benchmark == one.benchmark && test.scenario == one.scenario);
            let mut sources = Sources::default();
            for test in same {
                let into = match test.mode {
                    TestMode::Performance => &mut sources.performance,
                    TestMode::Accuracy => &mut sources.accuracy,
                    _ => &mut sources.audit,
                };
                into.push(test.task);
                let out = PlanReference::OutputFolder(test.task.id.clone()).token();
                into.extend(actions.iter().filter(|(_, action)| is_judged_by(action, &out)).map(|(task, _)| *task));
            }
            let system = self.plan.params.get("system").map_or("–", String::as_str);
            rows.push(self.row(system, &one.benchmark, one.scenario, &sources));
        }
        rows
    }

    /// One result of a package, by the stages that its entry names.
    fn packed(&self, task: &Task, package: &MlperfPackage, entry: &MlperfEntry) -> Option<ResultProgress> {
        let task_named = |text: &String| {
            let named = PlanReference::all_in(text).into_iter().find_map(|reference| match reference {
                PlanReference::OutputFolder(id) => Some(id),
                _ => None,
            })?;
            self.plan.tasks.iter().find(|task| task.id == named)
        };
        let sources = Sources {
            performance: task_named(&entry.performance).into_iter().collect(),
            accuracy: [&entry.accuracy, &entry.score].into_iter().filter_map(task_named).collect(),
            audit: entry.audits.values().chain(entry.verified.values()).filter_map(task_named).collect(),
            package: self.plan.tasks.iter().filter(|other| other.id == task.id).collect(),
        };
        Some(self.row(
            &package.system,
            &entry.benchmark,
            rules::MlperfScenario::from_scenario(entry.scenario)?,
            &sources,
        ))
    }

    fn row(&self, system: &str, benchmark: &str, scenario: rules::MlperfScenario, sources: &Sources) -> ResultProgress {
        ResultProgress {
            system: system.to_owned(),
            benchmark: benchmark.to_owned(),
            scenario: scenario.title().to_owned(),
            performance: self.cell(&sources.performance, |folder| performance(folder, benchmark, scenario)),
            accuracy: self.cell(&sources.accuracy, accuracy),
            audit: self.cell(&sources.audit, |_| None),
            package: self.cell(&sources.package, package),
        }
    }

    /// Done when all its tasks are, stale when one is that was done before, missing otherwise.
    fn cell(&self, tasks: &[&Task], outcome: impl Fn(&Path) -> Option<String>) -> StepCell {
        let Some(last) = tasks.last() else {
            return StepCell { state: StepState::Absent, outcome: None, why: None, command: None };
        };
        let mut state = StepState::Done;
        let mut reasons = BTreeSet::new();
        for task in tasks {
            let Some(decision) = self.decisions.get(&task.id) else { continue };
            if decision.verdict == Prediction::Run {
                let stale = self.cache.last(&self.plan.name, &task.id).is_some();
                state = if stale && state != StepState::Missing { StepState::Stale } else { StepState::Missing };
                reasons.extend(decision.reasons.iter().map(|reason| format!("{}: {reason}", task.id)));
            }
        }
        let folder: Option<PathBuf> = tasks
            .iter()
            .rev()
            .find_map(|task| self.cache.last(&self.plan.name, &task.id))
            .map(|record| self.cache.folder(&record));
        StepCell {
            outcome: folder.and_then(|folder| outcome(&folder)),
            why: (state != StepState::Done).then(|| reasons.into_iter().collect::<Vec<_>>().join("; ")),
            command: (state != StepState::Done).then(|| format!("{} --until {}", self.command, last.id)),
            state,
        }
    }
}

/// Whether a step scores or verifies an output.
fn is_judged_by(action: &Action, out: &str) -> bool {
    match action {
        Action::Mlperf(Mlperf::Score(score)) => score.accuracy == out,
        Action::Mlperf(Mlperf::Verify(verify)) => verify.audit == out,
        _ => false,
    }
}

fn test<'a>(task: &'a Task, action: &Action) -> Option<Test<'a>> {
    let Action::Bench(bench) = action else { return None };
    let loadgen = bench.loadgen.as_ref()?;
    let scenario = rules::MlperfScenario::from_scenario(bench.scenario)?;
    Some(Test { task, benchmark: loadgen.benchmark.clone(), scenario, mode: loadgen.mode })
}

fn performance(folder: &Path, benchmark: &str, scenario: rules::MlperfScenario) -> Option<String> {
    let judged = mlperf::run_value(folder, benchmark, scenario)?;
    let (value, validity) = (report::mlperf::value(&judged), report::mlperf::validity(&judged));
    // Regatta's own record of the same requests is beside LoadGen's logs. One that cannot be read leaves open what was
    // measured.
    let path = folder.join(harness::RESULT);
    let is_unknown = path.exists() && harness::read_result(&path).is_err();
    let note = if is_unknown { " result.json cannot be read, so whether it is SIMULATED is unknown" } else { "" };
    Some(format!("{value} {validity}{note}"))
}

/// The result of Regatta's own scoring, else the first line with a value that the reference's scoring left in
/// `accuracy.txt`.
fn accuracy(folder: &Path) -> Option<String> {
    match read_output(&folder.join("accuracy.json")) {
        Some(Ok(scored)) => {
            if let Some(verdict) = scored["verdict"].as_str() {
                return Some(verdict.to_owned());
            }
        }
        Some(Err(unreadable)) => return Some(unreadable.to_string()),
        None => {}
    }
    let text = read_text(folder.join("accuracy.txt")).ok()?;
    text.lines().find(|line| line.contains('{')).map(|line| line.trim().to_owned())
}

fn package(folder: &Path) -> Option<String> {
    let package = match read_output(&folder.join(mlperf::REPORT_FOLDER).join("package.json"))? {
        Ok(package) => package,
        Err(unreadable) => return Some(unreadable.to_string()),
    };
    let word = match (package["rehearsal"].as_bool(), package["submittable"].as_bool()) {
        (Some(true), _) => "rehearsal",
        (_, Some(true)) => "submittable",
        _ => "refused",
    };
    Some(word.to_owned())
}

/// `None`: the stage left no such file. Of a file that exists but is not JSON the cell has the error's text in place of
/// a result.
fn read_output(path: &Path) -> Option<Result<Value, ErrorText>> {
    let name = path.file_name().unwrap_or_default().display();
    let read = match read_bytes(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => Err(error),
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(std::io::Error::from),
    };
    Some(read.map_err(|error| ErrorText::new(format_args!("{name} cannot be read: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_file_is_shown_in_its_cell() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!((accuracy(folder), package(folder)), (None, None));
        let report = folder.join(mlperf::REPORT_FOLDER);
        std::fs::create_dir(&report).unwrap();
        for path in [folder.join("accuracy.json"), report.join("package.json")] {
            std::fs::write(path, "{").unwrap();
        }
        let shown = [accuracy(folder), package(folder)].map(Option::unwrap);
        assert!(shown[0].starts_with("accuracy.json cannot be read: EOF"), "{shown:?}");
        assert!(shown[1].starts_with("package.json cannot be read: EOF"), "{shown:?}");
        std::fs::write(folder.join("accuracy.json"), r#"{"verdict": "passes"}"#).unwrap();
        assert_eq!(accuracy(folder).as_deref(), Some("passes"));
    }
}
