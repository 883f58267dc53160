//! What an output was made from: files of the project, and outputs of other stages, with their digests.

use std::path::Path;

use serde_json::Value;

use super::statement::Resource;
use crate::error::CommandError;
use crate::lockfile::PrivateValues;
use base::files::Digest;
use base::files::sha256_of_file;
use plan::manifest::model::{Action, Git};
use plan::{Plan, Task};
use runner::store::{Digests, OutputCache, TaskKey, TaskRecord};
use runner::upstream_provenance;
use stages::resolved;

/// The digest of a folder or of several files: BLAKE3 over their paths, kinds and digests, each with its length.
const TREE: &str = "regattaTree";

/// Where digests are looked up.
pub(super) struct DependencyReader<'a> {
    pub plan: &'a Plan,
    pub cache: &'a OutputCache,
    pub digests: &'a Digests,
    pub private: &'a PrivateValues,
}

impl DependencyReader<'_> {
    /// The task's own inputs and the files of the outputs that it reads, each by SHA-256; what these were made from, by the digests
    /// in their records.
    pub(super) fn of(&self, task: &Task, key: &TaskKey) -> Result<Vec<Resource>, CommandError> {
        let mut all = Vec::new();
        for (name, digest) in &key.inputs {
            all.extend(self.input(task, name, digest)?);
        }
        for origin in upstream_provenance(self.plan, self.cache, task).tasks {
            let Some(made_by) = self.plan.tasks.iter().find(|task| task.id == origin.task) else { continue };
            let direct = key.upstream.get(&origin.task);
            let record = self.cache.last(&self.plan.name, &origin.task);
            // Its last output may be a later one than the one that was read.
            let record = record.filter(|record| direct.is_none_or(|read| *read == record.digest));
            match (record, direct) {
                (Some(record), direct) => all.extend(self.output(made_by, &record, direct.is_some())?),
                // A service: what was read is what it was started with.
                (None, Some(digest)) => all.push(of_stage(made_by, tree(digest))),
                (None, None) => {}
            }
            if direct.is_none() || made_by.kind.facts().is_service {
                let of_task = |(name, digest): (&String, &Digest)| {
                    of_stage(made_by, Resource { name: Some(name.clone()), ..tree(digest) })
                };
                all.extend(origin.inputs.iter().map(of_task));
            }
        }
        Ok(all)
    }

    /// Files of the project, while they are what was read.
    fn input(&self, task: &Task, name: &str, digest: &Digest) -> Result<Vec<Resource>, CommandError> {
        let root = self.cache.home().project();
        let patterns = task.inputs.get(name).filter(|patterns| !patterns.iter().any(|text| text.contains('⟦')));
        let now = patterns.and_then(|patterns| self.digests.input(root, patterns).ok());
        let Some(now) = now.filter(|now| now.digest == *digest) else {
            let gone = Resource { name: Some(name.to_owned()), ..tree(digest) };
            let is_of_stage = patterns.is_none() && task.inputs.contains_key(name);
            // What lies in an output of another stage is among that stage's files.
            return Ok(if is_of_stage { Vec::new() } else { vec![gone.with("changedSince", true)] });
        };
        let files = now.seen.iter().filter(|(_, stamp)| !stamp.is_folder());
        files
            .map(|(path, _)| {
                let shown = path.strip_prefix(root).unwrap_or(path);
                let file = Resource::file(self.private.text(&shown.to_string_lossy()), sha256_of_file(path)?);
                Ok(file.with("input", name))
            })
            .collect()
    }

    fn output(&self, made_by: &Task, record: &TaskRecord, is_direct: bool) -> Result<Vec<Resource>, CommandError> {
        let folder = self.cache.folder(record);
        let facts = resolved(made_by, &folder);
        if let Some(commit) = facts.get("commit").and_then(Value::as_str)
            && let Some(Action::Git(git)) = made_by.action()
        {
            let source = Resource { digest: [("gitCommit", commit.to_owned())].into(), ..Resource::default() };
            return Ok(vec![of_stage(made_by, Resource { uri: self.git_uri(git, commit), ..source })]);
        }
        if is_direct && self.cache.compare(&record.clone().into())?.is_none() {
            let files = files(self.cache, record, &folder)?;
            if !files.is_empty() {
                return Ok(files.into_iter().map(|file| of_stage(made_by, file)).collect());
            }
        }
        let facts = facts.into_iter().map(|(name, value)| (name, self.private.value(value))).collect();
        Ok(vec![of_stage(made_by, tree(&record.digest)).with("resolved", Value::Object(facts))])
    }

    /// `git+https://…@commit`.
    fn git_uri(&self, git: &Git, commit: &str) -> Option<String> {
        let url = &git.url;
        url.contains("://").then(|| self.private.text(&format!("git+{url}@{commit}")))
    }
}

fn tree(digest: &Digest) -> Resource {
    Resource { digest: [(TREE, digest.to_string())].into(), ..Resource::default() }
}

fn of_stage(task: &Task, resource: Resource) -> Resource {
    let name = match resource.name {
        Some(name) => format!("{}/{name}", task.id),
        None => task.id.to_string(),
    };
    Resource { name: Some(name), ..resource }.with("stage", task.id.as_str())
}

/// The files of an output by SHA-256, in the order of their paths. Reads all of them.
pub(super) fn files(cache: &OutputCache, record: &TaskRecord, folder: &Path) -> Result<Vec<Resource>, CommandError> {
    let items = cache.items(record)?;
    let files = items.iter().filter(|item| item.is_file());
    files
        .map(|item| {
            let path = folder.join(&item.path);
            Ok(Resource::file(item.path.to_string_lossy().into_owned(), sha256_of_file(&path)?))
        })
        .collect()
}

/// An output without files: its own digest.
pub(super) fn whole(record: &TaskRecord) -> Resource {
    tree(&record.digest)
}
