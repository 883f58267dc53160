//! Stages that are as they were locked in everything that the lock file shows, but not in their key: it has only a part of an absolute
//! path, and no secrets.

use crate::lockfile::{DifferenceWeight, LockDifference, LockPart, LockSection, LockedTask};
use base::event::Failure;
use plan::{Lifetime, Plan, Task};
use runner::store::TaskKey;

/// `found`: the differences that the file shows. Keys of another version of the program are not compared.
pub(super) fn hidden_differences(
    locked: &LockSection,
    plan: &Plan,
    keys: &[Option<Result<TaskKey, Failure>>],
    found: &[LockDifference],
) -> Vec<LockDifference> {
    if locked.regatta != env!("CARGO_PKG_VERSION") {
        return Vec::new();
    }
    let shows_one = |task: &Task| found.iter().any(|one| one.task.as_deref() == Some(task.id.as_str()));
    let all = plan.tasks.iter().zip(keys).filter(|(task, _)| !shows_one(task));
    all.filter_map(|(task, key)| {
        let entry = locked.stages.get(task.id.as_str())?;
        let before = entry.resolved.get("key")?.as_str()?.to_owned();
        let now = with_locked_upstream(locked, entry, plan, task, key.as_ref()?.as_ref().ok()?)?;
        let now = now.digest().to_string();
        (before != now).then(|| LockDifference {
            part: LockPart::Requested,
            task: Some(task.id.to_string()),
            field: "key".to_owned(),
            locked: Some(before),
            now: Some(now),
            weight: DifferenceWeight::Reported,
        })
    })
    .collect()
}

/// The key that the task has where its upstream made what was locked. `None` if the lock does not have that: of a measurement, or of
/// one of several repeats.
fn with_locked_upstream(
    locked: &LockSection,
    entry: &LockedTask,
    plan: &Plan,
    task: &Task,
    key: &TaskKey,
) -> Option<TaskKey> {
    let mut key = entry.with_locked_settings(key)?;
    for need in task.needs.iter().filter(|need| need.data) {
        let upstream = &plan.tasks[need.task as usize];
        if upstream.skipped.is_some() {
            continue;
        }
        let field = if upstream.lifetime == Lifetime::Service { "key" } else { "output" };
        let digest = locked.stages.get(upstream.id.as_str())?.resolved.get(field)?.as_str()?.parse().ok()?;
        key.upstream.insert(upstream.id.clone(), digest);
    }
    Some(key)
}
