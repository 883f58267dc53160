//! Servers that a task uses and that its run does not start: attached ones, and those that a target names.
//!
//! Such a server may be another one tomorrow at the same address, so that what was measured there is measured again.

use super::PlanReference;
use super::task::{Lifetime, Task};
use super::task_part::{TaskPart, UnwritableAction};
use crate::manifest::model::Serve;
use crate::manifest::targets;
use base::event::Endpoint;

/// Fills in `external` of the task; its needs are among `before`. `is_cached`: the manifest has `cache: true`.
pub fn mark(task: &mut Task, before: &[Task], is_cached: bool) -> Result<(), UnwritableAction> {
    if task.lifetime == Lifetime::Service || task.skipped.is_some() {
        return Ok(());
    }
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let needs = task.needs.iter().filter(|need| need.data).filter_map(|need| before.get(need.task as usize));
    for server in needs.filter(|need| need.lifetime == Lifetime::Service) {
        if let Some(attach) = server.serve().and_then(Serve::attached) {
            endpoints.extend(attach.endpoints.read().unwrap_or_default());
        }
    }
    if let Some(bench) = task.bench() {
        // Beside servers of the run a target may name others.
        let named: Vec<&str> = bench.target.split('|').filter(|part| PlanReference::all_in(part).is_empty()).collect();
        endpoints.extend(targets(&named.join("|")).map(|targets| targets.endpoints).unwrap_or_default());
    }
    if endpoints.is_empty() {
        return Ok(());
    }
    task.external = Some(TaskPart::new(endpoints)?);
    task.cache &= is_cached;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Plan, expand};

    fn plan(target: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "regatta: 1\nname: m\nstages:\n  ours:\n    serve: {{ command: {{ words: [server], port: 8001 }} }}\n  measure:\n    bench: {{ target: '{target}', \
             scenario: offline, stop: {{ requests: 9 }}, input_tokens: {{ fixed: 1 }}, output_tokens: {{ fixed: 1 }} }}\n"
        );
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let library = crate::manifest::ManifestLibrary::new(folder.path());
        let manifest = crate::manifest::load(&library, "m.yaml", &crate::manifest::GivenValues::default());
        expand(&manifest.unwrap_or_else(|wrong| panic!("{wrong:?}"))).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    #[test]
    fn a_server_named_beside_those_of_the_run_is_external() {
        let external = |target: &str| {
            let plan = plan(target);
            let task = plan.tasks.iter().find(|task| task.stage == "measure").unwrap();
            (task.cache, task.external_servers().iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(external("{{ stages.ours }}"), (true, vec![]));
        assert_eq!(external("{{ stages.ours }}|10.0.0.5:8001"), (false, vec!["10.0.0.5:8001".to_owned()]));
    }
}
