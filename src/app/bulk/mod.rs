//! `regatta bulk FILE`: runs a list one after another, continues after failures, and prints a table.
//!
//! Each is an ordinary run, so finished stages are cached: an interrupted list is simply started again. A repeat
//! measures under its own number and keeps its own result.

pub(super) mod llmb;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Instant;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::bulk::llmb::gpu_type_of_file;
use crate::cli::{BulkRequest, CliExit, Global, KeyValueArg, OutputVerbosity, RunMode, Select, Subject};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::expression_guard::expand;
use crate::project::Project;
use crate::run::{RunEnd, RunPurpose, StopSignals};
use crate::{cli, run};
use base::diag::ErrorText;
use base::files::{parse_yaml, read_text};
use base::units::{counted, run_command, shell_word};
use harness::RESULT;
use interop::MeasuredResult;
use plan::manifest::{is_place, replaced_arguments};
use report::{BulkRow, TaskPhase};

pub(super) fn bulk(global: &Global, request: &BulkRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let read = read(request, &project)?;
    for note in &read.notes {
        print_error(&format!("note: {note}\n"));
    }
    let items = read.items;
    check(&project, &items)?;
    if request.dry_run {
        for item in &items {
            print(&format!("{item}\n"));
        }
        return Ok(CliExit::Done);
    }
    let mut ended: Vec<BulkRow> = Vec::new();
    let mut exits = Vec::new();
    let signals = StopSignals::new();
    for (index, item) in items.iter().enumerate() {
        if signals.stop().is_requested() || exits.last() == Some(&CliExit::Interrupted) {
            exits.push(CliExit::Interrupted);
            ended.push(not_run(item));
            continue;
        }
        if global.loudness >= OutputVerbosity::Normal {
            let line = format!("bulk: {} of {}: {item}", index + 1, items.len());
            print_error(&format!("{line}\n"));
        }
        let begun = Instant::now();
        let (exit, row) = match run::perform(global, &request_of(item, request), false, RunPurpose::OfList(&signals)) {
            Ok(ran) => (ran.exit, end_of(item, &ran, begun)),
            Err(error) => (error.exit(), failed_row(item, &error)),
        };
        exits.push(exit);
        ended.push(row);
    }
    print(&report::bulk_table(&ended, global.styler()));
    Ok(CliExit::worst(exits))
}

fn read(request: &BulkRequest, project: &Project) -> Result<BulkFile, CommandError> {
    let path = &request.file;
    let text =
        read_text(path).map_err(|error| CommandError::Usage(format!("{} cannot be read: {error}", path.display())))?;
    let wrong = |found: ErrorText| {
        let lines = found.to_string().replace('\n', "\n  ");
        CommandError::Usage(format!("{} is not a list of runs:\n  {lines}", path.display()))
    };
    // No workload of llmb-run has that name.
    let read = if text.lines().any(|line| line.starts_with("runs:")) {
        read_regatta_list(&text).map(|items| BulkFile { items, notes: Vec::new() }).map_err(wrong)?
    } else {
        let cluster = llmb::LlmbCluster {
            gpu_type: match &request.gpu_type {
                Some(given) => Some(given.clone()),
                None => gpu_type_of_file(Path::new(".")).map_err(|error| CommandError::Usage(error.to_string()))?,
            },
            manifests: project.manifests.names()?.into_iter().map(|(name, ..)| name).collect(),
            has_system: request.settings.iter().any(|setting| setting.key == "system"),
        };
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let hint = "write YAML: llmb-run's list of workloads, or Regatta's own, which begins with `runs:`";
        let jobs = llmb::read(&text).map_err(|error| wrong(if is_yaml { error } else { error.hint(hint) }))?;
        cluster.items(jobs).map_err(wrong)?
    };
    if read.items.is_empty() {
        return Err(CommandError::Usage(format!("{}: the list is empty", path.display())));
    }
    let over = &request.settings;
    let items = read.items.into_iter().map(|item| without_replaced(project, item.with(over), over)).collect();
    Ok(BulkFile { items, ..read })
}

/// Without values that one of higher precedence sets by another name: the command line, `over`, is above a run, and a
/// run above the list. Two of one origin stay: they are an error.
fn without_replaced(project: &Project, mut item: BulkRun, over: &[KeyValueArg]) -> BulkRun {
    if item.subject.settings.iter().filter(|setting| is_place(&setting.key)).count() < 2 {
        return item;
    }
    let precedence = |argument: &str| {
        let key = argument.split_once('=').map_or(argument, |(key, _)| key);
        let is_over = over.iter().any(|setting| setting.key == key);
        (is_over, is_over || !item.list_keys.contains(key))
    };
    let project = project.with_env(&item.env);
    let pairs = replaced_arguments(&project.manifests, &item.subject.manifest, &project.given(&item.subject.settings));
    let replaced: Vec<String> = pairs
        .into_iter()
        .filter_map(|(one, other)| match precedence(&one).cmp(&precedence(&other)) {
            Ordering::Less => Some(one),
            Ordering::Greater => Some(other),
            Ordering::Equal => None,
        })
        .collect();
    item.subject.settings.retain(|setting| !replaced.contains(&setting.to_string()));
    item
}

/// Reports everything that is wrong with any of them, before the first begins.
fn check(project: &Project, items: &[BulkRun]) -> Result<(), CommandError> {
    let mut wrong: Vec<String> = Vec::new();
    let mut seen: Vec<&BulkRun> = Vec::new();
    for item in items {
        if seen.iter().any(|one| one.first() == item.first()) {
            continue;
        }
        seen.push(item);
        let project = project.with_env(&item.env);
        match project.manifest(&item.subject) {
            Err(CommandError::Manifest(found)) => wrong.push(format!("{item}\n{}", found.render(false))),
            Err(error) => return Err(error),
            Ok(manifest) => {
                let unread: Vec<&str> = item
                    .env
                    .keys()
                    .map(String::as_str)
                    .filter(|name| !manifest.environment().contains_key(*name))
                    .collect();
                if !unread.is_empty() {
                    let names = unread.join(", ");
                    wrong.push(format!(
                        "{item}\nerror: no parameter of `{}` reads {names}, so it would have no effect\n",
                        item.subject.manifest
                    ));
                }
                if let Err(found) = expand(&manifest) {
                    wrong.push(format!("{item}\n{}", found.render(false)));
                }
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "{} with errors; nothing was started\n\n{}",
        counted(wrong.len(), "run"),
        wrong.join("\n").trim_end()
    )))
}

fn request_of(item: &BulkRun, request: &BulkRequest) -> cli::RunRequest {
    let BulkRequest { jobs, gpus, store, locking, .. } = request.clone();
    cli::RunRequest {
        subject: item.subject.clone(),
        select: Select { repeat_number: item.repeat, ..Select::default() },
        mode: RunMode { jobs, gpus, locking, store, ..RunMode::default() },
        env: item.env.clone(),
        ..cli::RunRequest::default()
    }
}

fn end_of(item: &BulkRun, ran: &RunEnd, begun: Instant) -> BulkRow {
    let tasks = &ran.state.tasks;
    let failed = || tasks.iter().find_map(|(task, entry)| Some(format!("{task}: {}", entry.failure.as_ref()?.what)));
    let mut rates = BTreeMap::new();
    let mut headlines = Vec::new();
    for (task, entry) in tasks {
        let result = entry.folder().and_then(|out| read_text(out.join(RESULT)).ok());
        let Some(result) = result.and_then(|text| MeasuredResult::read(&text).ok()) else { continue };
        if let Some(headline) = &entry.headline {
            headlines.push((task.to_string(), headline.clone()));
            headlines.extend(entry.warnings.iter().map(|warning| (String::new(), format!("warning: {warning}"))));
        }
        if let Some(rate) = result.rate("output_tokens") {
            rates.insert(task.to_string(), rate);
        }
    }
    let is_cached = !tasks.is_empty() && tasks.values().all(|entry| entry.state == TaskPhase::Cached);
    let how = match ran.exit {
        CliExit::Done if is_cached => "cached",
        CliExit::Done => "ran",
        CliExit::Interrupted => "interrupted",
        _ => "failed",
    };
    BulkRow {
        run: item.to_string(),
        first_repeat: item.first(),
        outcome: how,
        exit: Some(ran.exit.code()),
        reason: if ran.exit == CliExit::Done { None } else { failed() },
        headlines,
        rates,
        seconds: Some(begun.elapsed().as_secs_f64()),
    }
}

fn failed_row(item: &BulkRun, error: &CommandError) -> BulkRow {
    let reason = match error {
        CommandError::Manifest(found) => found.render(false),
        CommandError::Usage(what) | CommandError::Differs(what) => what.clone(),
        CommandError::Other(error) => format!("{error:#}"),
    };
    BulkRow { outcome: "failed", exit: Some(error.exit().code()), reason: Some(reason), ..not_run(item) }
}

fn not_run(item: &BulkRun) -> BulkRow {
    BulkRow { run: item.to_string(), first_repeat: item.first(), outcome: "not run", ..BulkRow::default() }
}

/// The runs of a file, and the parts of it without a meaning here.
pub struct BulkFile {
    pub items: Vec<BulkRun>,
    pub notes: Vec<String>,
}

/// The arguments of `regatta run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRun {
    pub subject: Subject,
    /// Keys of its settings that it has from the whole list.
    pub list_keys: BTreeSet<String>,
    /// Variables that its parameters read.
    pub env: BTreeMap<String, String>,
    /// From 1.
    pub repeat: u32,
}

impl BulkRun {
    /// The number of repeats of a run.
    pub fn repeated(self, repeats: u32) -> impl Iterator<Item = Self> {
        (1..=repeats).map(move |repeat| Self { repeat, ..self.clone() })
    }

    /// With settings that take precedence over its own.
    #[must_use]
    pub fn with(mut self, over: &[KeyValueArg]) -> Self {
        self.subject.settings.retain(|own| over.iter().all(|one| one.key != own.key));
        self.subject.settings.extend(over.iter().cloned());
        self
    }

    /// The command without its repeat: the common part of its repeats.
    pub fn first(&self) -> String {
        Self { repeat: 1, ..self.clone() }.to_string()
    }
}

/// As it could be typed.
impl fmt::Display for BulkRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", shell_word(value))?;
        }
        let settings: Vec<String> = self.subject.settings.iter().map(ToString::to_string).collect();
        let arguments = std::iter::once(self.subject.manifest.as_str()).chain(settings.iter().map(String::as_str));
        f.write_str(&run_command(arguments))?;
        if self.repeat > 1 {
            write!(f, " --repeat-number {}", self.repeat)?;
        }
        Ok(())
    }
}

// Regatta's own list: manifests, parameters, repeats.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// For all runs.
    #[serde(default)]
    params: IndexMap<String, Value>,
    repeats: Option<u32>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// A manifest's name or its path.
    run: String,
    #[serde(default)]
    params: IndexMap<String, Value>,
    /// Variables that its parameters read.
    #[serde(default)]
    env: IndexMap<String, Value>,
    repeats: Option<u32>,
}

fn read_regatta_list(text: &str) -> Result<Vec<BulkRun>, ErrorText> {
    let list: List = parse_yaml(text).map_err(ErrorText::new)?;
    let mut items = Vec::new();
    for run in list.runs {
        let mut params = list.params.clone();
        let list_keys = params.keys().filter(|key| !run.params.contains_key(*key)).cloned().collect();
        params.extend(run.params);
        let plain = |name: &str, value: &Value| {
            command_line_value(value)
                .ok_or_else(|| ErrorText::new(format_args!("`{name}` of `{}` is not a plain value", run.run)))
        };
        let settings = params.into_iter().map(|(key, value)| Ok(KeyValueArg { value: plain(&key, &value)?, key }));
        let env = run.env.iter().map(|(name, value)| Ok((name.clone(), plain(name, value)?)));
        let item = BulkRun {
            list_keys,
            env: env.collect::<Result<BTreeMap<_, _>, ErrorText>>()?,
            subject: Subject { settings: settings.collect::<Result<_, ErrorText>>()?, manifest: run.run },
            repeat: 1,
        };
        items.extend(item.repeated(run.repeats.or(list.repeats).unwrap_or(1)));
    }
    Ok(items)
}

/// A value as it would be typed; a list with commas.
fn command_line_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) => Some(items.iter().map(command_line_value).collect::<Option<Vec<_>>>()?.join(",")),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_commands() {
        let items = read_regatta_list(
            "params: { system: sim-gb200-x1 }\nruns:\n- run: llama3.3-70b\n  params: { use_cases: [chat:128/128, \
             mine:8/8], streaming: false }\n  env: { TP: 1 }\n  repeats: 2\n- { run: a b.yaml, params: { system: x } \
             }\n",
        )
        .unwrap();
        let commands: Vec<String> = items.iter().map(ToString::to_string).collect();
        assert_eq!(
            commands,
            [
                "TP=1 regatta run llama3.3-70b system=sim-gb200-x1 use_cases=chat:128/128,mine:8/8 streaming=false",
                "TP=1 regatta run llama3.3-70b system=sim-gb200-x1 use_cases=chat:128/128,mine:8/8 streaming=false \
                 --repeat-number 2",
                "regatta run 'a b.yaml' system=x",
            ]
        );
        assert!(read_regatta_list("runs:\n- { rum: x }\n").unwrap_err().to_string().contains("rum"));
        assert!(read_regatta_list("runs:\n- { run: x }\n- x\n").unwrap_err().to_string().contains("runs[1]"));
        assert!(
            read_regatta_list("runs:\n- { run: x, params: { y: { z: 1 } } }\n")
                .unwrap_err()
                .to_string()
                .contains("not a plain value")
        );
    }
}
