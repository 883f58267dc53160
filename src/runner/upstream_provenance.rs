//! What a task was made from, including indirect inputs: for stages that record it beside their output.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::store::OutputCache;
use base::event::TaskId;
use base::files::Digest;
use plan::{ActionKind, Lifetime, Plan, Task};

/// The plan's name and parameters, and everything upstream of one task, in the plan's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamProvenance {
    /// The plan's name.
    pub manifest: String,
    /// What `regatta run` was given to make it: a manifest's name or path, and `KEY=VALUE` arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Of the files that it was read from.
    pub manifest_digest: Option<Digest>,
    /// These files: path, or `shipped:path`, and digest; the manifest itself is the first.
    pub sources: Vec<(String, Digest)>,
    pub params: BTreeMap<String, String>,
    pub tasks: Vec<UpstreamTask>,
}

/// One task upstream. A service leaves no record: it appears in the plan only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpstreamTask {
    pub task: TaskId,
    pub kind: ActionKind,
    /// The values that a `foreach` gives it.
    #[serde(default)]
    pub foreach: BTreeMap<String, String>,
    pub key: Option<Digest>,
    pub digest: Option<Digest>,
    pub folder: Option<PathBuf>,
    /// With references still symbolic.
    pub action: String,
    pub facts: BTreeMap<String, String>,
    /// Name → digest of files of the project.
    pub inputs: BTreeMap<String, Digest>,
    /// Task → digest of its output; of a service, of its key.
    pub upstream: BTreeMap<TaskId, Digest>,
}

/// Of one task; it is not among them itself.
pub fn upstream_provenance(plan: &Plan, output_cache: &OutputCache, task: &Task) -> UpstreamProvenance {
    let mut wanted: BTreeSet<u32> = BTreeSet::new();
    let mut open: Vec<u32> = task.needs.iter().filter(|need| need.data).map(|need| need.task).collect();
    while let Some(next) = open.pop() {
        if wanted.insert(next) {
            open.extend(plan.tasks[next as usize].needs.iter().filter(|need| need.data).map(|need| need.task));
        }
    }
    let tasks = wanted.into_iter().map(|index| origin(plan, output_cache, &plan.tasks[index as usize])).collect();
    UpstreamProvenance {
        manifest: plan.name.clone(),
        arguments: [if plan.manifest.is_empty() { plan.name.clone() } else { plan.manifest.clone() }]
            .into_iter()
            .chain(plan.settings())
            .collect(),
        manifest_digest: plan.manifest_digest(),
        sources: plan.sources.clone(),
        params: plan.params.clone(),
        tasks,
    }
}

fn origin(plan: &Plan, output_cache: &OutputCache, task: &Task) -> UpstreamTask {
    let record = (task.lifetime == Lifetime::Step).then(|| output_cache.last(&plan.name, &task.id)).flatten();
    let fields = record.as_ref().and_then(|record| record.parsed_key().ok());
    let (facts, inputs, upstream) = if let Some(key) = fields {
        (key.facts, key.inputs, key.upstream)
    } else {
        // For a service: its recorded upstream outputs.
        let upstream = task.needs.iter().filter(|need| need.data).filter_map(|need| {
            let id = &plan.tasks[need.task as usize].id;
            Some((id.clone(), output_cache.last(&plan.name, id)?.digest))
        });
        let clocks = task.gpu_clocks.iter().map(|clocks| ("gpu_clocks".to_owned(), clocks.to_string()));
        (clocks.collect(), BTreeMap::new(), upstream.collect())
    };
    UpstreamTask {
        task: task.id.clone(),
        kind: task.kind,
        foreach: task.foreach.iter().cloned().collect(),
        key: record.as_ref().map(|record| record.key),
        digest: record.as_ref().map(|record| record.digest),
        folder: record.as_ref().map(|record| output_cache.folder(record)),
        action: task.action_text().to_owned(),
        facts,
        inputs,
        upstream,
    }
}
