//! `history` and `tag`: the measurements of this project over time.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use super::compare::write_page;
use super::found_result::{search_in, without_links};
use super::past_runs::{no_run_error, or_left_out, report_unreadable};
use super::project::Project;
use super::result_name::{MeasuredOutputs, measured_outputs};
use crate::cli::{CliExit, Global, HistoryRequest, TagRequest};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::event::RunId;
use base::files::read_text;
use harness::RESULT;
use interop::{MeasuredResult, MeasuredRun};
use report::compare::ComparedResult;
use report::history::{self, HistoryPoint, MetricKey};
use runner::store::{StateFolder, WithPath as _, last_run, readable_runs, remove_tag, set_tag, tags_of};

pub(super) fn history(global: &Global, request: &HistoryRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let (points, sweeps) = measurements(&home, request)?;
    let sweeps = sweeps.into_iter().collect::<Vec<_>>().join(", ");
    if points.is_empty() {
        let (message, hint) = if sweeps.is_empty() {
            let hint = "`regatta runs` lists the runs with their results";
            ("no measurement was found".to_owned(), hint)
        } else {
            (format!("there are sweeps only ({sweeps}), and a history has no sweeps"), COMPARE_SWEEPS)
        };
        return Err(CommandError::hinted(message, hint));
    }
    if !sweeps.is_empty() {
        print_error(&format!("not shown: sweeps ({sweeps}); {COMPARE_SWEEPS}\n"));
    }
    let keys: Vec<MetricKey> = request.metrics.iter().map(|text| MetricKey::read(text)).collect();
    reject_unknown(&keys, &points)?;
    let series = history::series(points, &keys, request.most);
    let document = history::document(&series);
    print_as(global.styler(), request.json, || history::json(&series), |styler| document.terminal(styler));
    write_page(request.html.as_deref(), &document)?;
    Ok(CliExit::Done)
}

const COMPARE_SWEEPS: &str = "`regatta compare RUN/TASK RUN/TASK` compares sweeps";

/// Every measurement that still has its result, the oldest first, and the tasks that are sweeps. A cached one counts
/// once, in the run that made it.
fn measurements(
    home: &StateFolder,
    request: &HistoryRequest,
) -> Result<(Vec<HistoryPoint>, BTreeSet<String>), CommandError> {
    let has = |name: &str, part: &Option<String>| part.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let mut shown = HashSet::new();
    let (mut points, mut sweeps) = (Vec::new(), BTreeSet::new());
    for run in report_unreadable(readable_runs(home)?) {
        let read = tags_of(home, &run).and_then(|tags| Ok((tags, measured_outputs(home, &run)?)));
        let Some((tags, outputs)) = or_left_out(read) else { continue };
        let MeasuredOutputs { manifest, results, sweeps: of_run } = outputs;
        let manifest = shown_manifest(home, &manifest);
        let is_shown = |task: &String| has(&manifest, &request.manifest) && has(task, &request.task);
        sweeps.extend(of_run.into_iter().map(|(task, _)| task).filter(is_shown));
        for (task, folder) in results {
            let place = without_links(&folder);
            if !is_shown(&task) || !shown.insert(place.clone()) {
                continue;
            }
            let file = place.join(RESULT);
            let Some(text) = or_left_out(read_text(&file).at("read", &file)) else { continue };
            let Ok(result) = MeasuredResult::read(&text) else {
                print_error(&format!("skipped {}: written by another version\n", file.display()));
                continue;
            };
            let Some(started) = started_of_speed(&result) else { continue };
            let measured = MeasuredRun { name: task.clone(), result, request_traces: Vec::new() };
            let result = search_in(&place).iter().fold(ComparedResult::new(&measured), ComparedResult::with_search);
            let (run, tags, manifest) = (run.clone(), tags.clone(), manifest.clone());
            points.push(HistoryPoint { run, tags, manifest, task, started, result });
        }
    }
    points.sort_by(|a, b| a.started.cmp(&b.started));
    Ok((points, sweeps))
}

/// When a measurement of speed started. `None`: LoadGen's accuracy runs and audits measure none, and results of other
/// tools have no start.
fn started_of_speed(result: &MeasuredResult) -> Option<String> {
    result.own().filter(|own| own.is_of_speed()).map(|own| own.started.clone())
}

/// A manifest as a reader calls it: the one that a `regatta bench` line was turned into has no path that means
/// anything.
pub(super) fn shown_manifest(home: &StateFolder, manifest: &str) -> String {
    if Path::new(manifest).starts_with(home.bench_manifests()) { "bench".to_owned() } else { manifest.to_owned() }
}

fn reject_unknown(keys: &[MetricKey], points: &[HistoryPoint]) -> Result<(), CommandError> {
    let measured: BTreeSet<String> = points.iter().flat_map(|point| history::known_keys(&point.result)).collect();
    let Some(wrong) = keys.iter().find(|key| !measured.contains(&key.to_string())) else { return Ok(()) };
    let near = base::diag::did_you_mean(&wrong.to_string(), measured.iter().map(String::as_str));
    let hint = near.unwrap_or_else(|| format!("there are {}", measured.into_iter().collect::<Vec<_>>().join(", ")));
    Err(CommandError::hinted(format!("no measurement has `{wrong}`"), hint))
}

pub(super) fn tag(global: &Global, request: &TagRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let TagRequest { tag, run, remove } = request;
    if *remove {
        let run = remove_tag(&home, tag)?;
        let run = run
            .ok_or_else(|| CommandError::hinted(format!("no run has the tag `{tag}`"), "`regatta runs` shows tags"))?;
        print(&format!("{tag}: taken from run {run}\n"));
        return Ok(CliExit::Done);
    }
    if tag.as_str() == "latest" {
        let hint = "choose another name: `latest` is the last run";
        return Err(CommandError::hinted("`latest` cannot be a tag", hint));
    }
    let run = match run {
        Some(name) => {
            let runs = readable_runs(&home)?.0;
            runs.into_iter().find(|run| run.as_str() == name).ok_or_else(|| unknown(&home, name))?
        }
        None => last_run(&home)?.ok_or_else(|| no_run_error(&home))?,
    };
    set_tag(&home, &run, tag)?;
    print(&format!("{tag}: run {run}\n"));
    Ok(CliExit::Done)
}

fn unknown(home: &StateFolder, name: &str) -> CommandError {
    let names: Vec<String> = readable_runs(home).unwrap_or_default().0.iter().map(RunId::to_string).collect();
    let hint = base::diag::did_you_mean(name, names.iter().map(String::as_str));
    let hint = hint.unwrap_or_else(|| "`regatta runs` lists them".to_owned());
    CommandError::hinted(format!("there is no run `{name}`"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accuracy_run_of_loadgen_measures_no_speed() {
        let started = |loadgen: serde_json::Value| {
            let result = serde_json::json!({
                "schema": 1, "verdict": "valid", "reasons": [], "requested": {}, "started": "2026-11-20",
                    "loadgen": loadgen,
            });
            started_of_speed(&MeasuredResult::read(&result.to_string()).unwrap()).is_some()
        };
        let modes = ["performance", "accuracy", "test06"].map(|mode| started(serde_json::json!({ "mode": mode })));
        assert_eq!(modes, [true, false, false]);
        assert!(started(serde_json::Value::Null));
    }
}
