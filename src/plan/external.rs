//! Servers that a task uses and that its run does not start: attached ones, and those that a target names.
//!
//! Such a server may be another one tomorrow at the same address, so that what was measured there is measured again.

use super::PlanReference;
use super::task::{Lifetime, Task};
use crate::event::Endpoint;
use crate::manifest::model::Action;
use crate::manifest::targets;

/// Fills in `external` of the task; its needs are among `before`. `is_cached`: the manifest has `cache: true`.
pub fn mark(task: &mut Task, before: &[Task], is_cached: bool) {
    if task.lifetime == Lifetime::Service || task.skipped.is_some() {
        return;
    }
    let action = |task: &Task| serde_json::from_str::<Action>(&task.action).ok();
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let needs = task.needs.iter().filter(|need| need.data).filter_map(|need| before.get(need.task as usize));
    for server in needs.filter(|need| need.lifetime == Lifetime::Service) {
        if let Some(Action::Serve(serve)) = action(server)
            && let Some(attach) = serve.attached()
        {
            endpoints.extend(attach.endpoints.read().unwrap_or_default());
        }
    }
    if let Some(Action::Bench(bench)) = action(task) {
        // Beside servers of the run a target may name others.
        let named: Vec<&str> = bench.target.split('|').filter(|part| PlanReference::all_in(part).is_empty()).collect();
        endpoints.extend(targets(&named.join("|")).map(|targets| targets.endpoints).unwrap_or_default());
    }
    if endpoints.is_empty() {
        return;
    }
    // Texts and numbers always serialise.
    task.external = serde_json::to_string(&endpoints).ok();
    task.cache &= is_cached;
}
