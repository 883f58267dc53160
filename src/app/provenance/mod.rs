//! `regatta provenance`: what an output is and what it was made from, for tools that read in-toto attestations.

mod dependencies;
mod statement;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use self::dependencies::{DependencyReader, files, whole};
use self::statement::{BuildMetadata, InTotoStatement, Resource, StatementParts};
use super::last_manifest::last_manifest;
use super::project::Project;
use super::run_store;
use crate::cli::{CliExit, Force, Global, ProvenanceRequest, Select};
use crate::console::print;
use crate::error::CommandError;
use crate::lockfile::{LockedTask, command};
use base::diag::{ErrorText, did_you_mean};
use plan::{Plan, Task};
use runner::store::{Digests, OutputCache, TaskRecord, write_named};

pub(super) fn provenance(global: &Global, request: &ProvenanceRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let (manifest, settings) = match &request.of {
        Some(of) => of.clone(),
        None => last_manifest(&project, "`regatta provenance OUTPUT MANIFEST`")?,
    };
    let select = Select { force: Force::Nothing, ..Select::default() };
    let plan = project.plan(&manifest, &settings, &select, &project.compiler(&manifest, &settings), false)?;
    let sign_key = run_store::sign_key(request.sign_key.as_deref())?;
    let cache = OutputCache::open(&project.home)?;
    let (task, record) = find(&project, &plan, &cache, &request.output)?;
    let statement = statement(&project, &plan, &cache, task, &record, &request.builder)?;
    let text = match &sign_key {
        Some(key) => statement.signed(key).and_then(|envelope| serde_json::to_string_pretty(&envelope)),
        None => serde_json::to_string_pretty(&statement),
    };
    let text = text.map_err(anyhow::Error::from)?;
    match &request.out {
        Some(path) => {
            write_named(path, format!("{text}\n"))?;
        }
        None => print(&format!("{text}\n")),
    }
    Ok(CliExit::Done)
}

/// A task, a stage with one task, or a path in an output.
fn find<'p>(
    project: &Project,
    plan: &'p Plan,
    cache: &OutputCache,
    word: &str,
) -> Result<(&'p Task, Arc<TaskRecord>), CommandError> {
    let last = |task: &'p Task| Some((task, cache.last(&plan.name, &task.id)?));
    let named: Vec<&Task> = plan.tasks.iter().filter(|task| task.id.as_str() == word || task.stage == word).collect();
    let exact = named.iter().find(|task| task.id.as_str() == word);
    match (exact, named.as_slice()) {
        (Some(task), _) | (None, [task]) => {
            return last(task).ok_or_else(|| {
                let hint = format!("`regatta run {} --until {}` makes it", plan.manifest, task.id);
                CommandError::usage(ErrorText::new(format!("{} has no output in the cache", task.id)).hint(hint))
            });
        }
        (None, []) => {}
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|task| task.id.as_str()).collect();
            return Err(CommandError::Usage(format!("{word} has several tasks: {}", names.join(", "))));
        }
    }
    let Ok(path) = fs::canonicalize(word) else {
        let hint = did_you_mean(word, plan.tasks.iter().map(|task| task.id.as_str()));
        let hint = hint.unwrap_or_else(|| "name a task, or a folder below `latest`".to_owned());
        return Err(CommandError::usage(
            ErrorText::new(format!("{} has no task and no file `{word}`", plan.name)).hint(hint),
        ));
    };
    let outputs = fs::canonicalize(project.home.outputs())?;
    let folder = path.strip_prefix(outputs).ok().and_then(|below| below.iter().next());
    folder
        .and_then(|folder| plan.tasks.iter().filter_map(last).find(|(_, record)| *record.folder == *folder))
        .ok_or_else(|| {
            let hint = "name the manifest that made it: `regatta provenance OUTPUT MANIFEST KEY=VALUE…`";
            CommandError::usage(ErrorText::new(format!("{word} is no output of {} as it is now", plan.name)).hint(hint))
        })
}

fn statement(
    project: &Project,
    plan: &Plan,
    cache: &OutputCache,
    task: &Task,
    record: &Arc<TaskRecord>,
    builder: &str,
) -> Result<InTotoStatement, CommandError> {
    let private = command::private(project, plan);
    let key = record.parsed_key().map_err(anyhow::Error::from)?;
    let folder = cache.folder(record);
    let is_whole = || match cache.compare(record)? {
        None => Ok(()),
        Some(what) => {
            let hint = format!("`regatta run {}` makes it again", plan.manifest);
            Err(CommandError::usage(ErrorText::new(format!("{} cannot be vouched for: {what}", task.id)).hint(hint)))
        }
    };
    is_whole()?;
    let mut subject = subjects(cache, task, record, &folder)?;
    // It was whole while it was read.
    is_whole()?;
    if subject.is_empty() {
        subject.push(Resource { name: Some(task.id.to_string()), ..whole(record) });
    }
    let digests = Digests::load(&project.home);
    let reader = DependencyReader { plan, cache, digests: &digests, private: &private };
    let dependencies = reader.of(task, &key)?;
    let _ = digests.save(&project.home);
    let requested = LockedTask::new(plan, task, &key, &private).map_err(anyhow::Error::from)?.requested;
    let params: BTreeMap<&String, String> =
        plan.params.iter().map(|(name, value)| (name, private.text(value))).collect();
    let external = BTreeMap::from([
        ("manifest", Value::from(private.text(&plan.manifest))),
        ("manifestName", plan.name.clone().into()),
        ("task", task.id.as_str().into()),
        ("kind", json!(task.kind)),
        ("params", json!(params)),
        ("requested", json!(requested)),
    ]);
    let mut internal =
        BTreeMap::from([("key", Value::from(record.key.to_string())), ("output", record.digest.to_string().into())]);
    let mut metadata = BuildMetadata::default();
    if let Some(from) = &record.from {
        internal.insert("sharedStore", private.text(from).into());
    } else {
        metadata.invocation_id = Some(record.run.clone());
        if let Some((started, finished)) = times(record) {
            (metadata.started_on, metadata.finished_on) = (Some(started), Some(finished));
        }
    }
    Ok(InTotoStatement::new(
        subject,
        StatementParts { external, internal, dependencies, builder: builder.to_owned(), metadata },
    ))
}

/// Each file of the output, by its path below the task's name.
fn subjects(
    cache: &OutputCache,
    task: &Task,
    record: &TaskRecord,
    folder: &Path,
) -> Result<Vec<Resource>, CommandError> {
    let all = files(cache, record, folder)?.into_iter();
    Ok(all.map(|file| Resource { name: file.name.map(|name| format!("{}/{name}", task.id)), ..file }).collect())
}

/// `None` for a record of an older program, which has no time.
fn times(record: &TaskRecord) -> Option<(String, String)> {
    let finished = (record.finished > 0).then(|| jiff::Timestamp::from_second(record.finished).ok()).flatten()?;
    let started = finished.checked_sub(jiff::SignedDuration::try_from_secs_f64(record.seconds.max(0.0)).ok()?).ok()?;
    let text = |time: jiff::Timestamp| jiff::Timestamp::from_second(time.as_second()).map(|time| time.to_string()).ok();
    Some((text(started)?, text(finished)?))
}
