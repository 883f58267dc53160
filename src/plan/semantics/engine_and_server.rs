//! Flags of one stage checked against those of another: a server's settings, and what its engine was built for.

use std::collections::HashMap;

use serde_json::Value;

use super::StageChecker;
use super::repository_parameters::repository_facts;
use crate::PlanReference;
use crate::manifest::Node;
use crate::manifest::model::{Action, Engine, Repository};
use crate::task::Task;
use base::diag::Diagnostics;
use base::event::TaskId;

/// What trtllm-build takes without the flag.
const DEFAULTS: [(&str, f64); 3] = [("max_batch_size", 2048.0), ("max_num_tokens", 8192.0), ("max_beam_width", 1.0)];

/// Looks at every repository with an engine that is built in the same plan. Each task comes with its rendered stage.
pub fn across<'a>(tasks: impl Iterator<Item = (&'a Task, &'a Node)> + Clone, found: &mut Diagnostics) {
    let engines: HashMap<&TaskId, &Engine> = tasks
        .clone()
        .filter_map(|(task, _)| match task.action() {
            Some(Action::Engine(engine)) => Some((&task.id, engine)),
            _ => None,
        })
        .collect();
    for (task, node) in tasks {
        let Some(Action::Repository(repository)) = task.action() else { continue };
        let Some(PlanReference::OutputFolder(id)) = PlanReference::all_in(&repository.engine).into_iter().next() else {
            continue;
        };
        let Some(engine) = engines.get(&id) else { continue };
        StageChecker::new(node, &task.stage, found).against(repository, engine, &id);
    }
}

impl StageChecker<'_> {
    fn against(&mut self, repository: &Repository, engine: &Engine, id: &TaskId) {
        let facts = repository_facts(repository);
        let built = |flag: &str| {
            let written = match engine.build_flags.get(flag) {
                Some(Value::String(text)) => text.parse().ok(),
                Some(value) => value.as_f64(),
                None => None,
            };
            written.or_else(|| DEFAULTS.iter().find(|(name, _)| *name == flag).map(|(_, value)| *value))
        };
        for flag in ["max_batch_size", "max_num_tokens", "max_beam_width"] {
            let Some((key, word, text)) = facts.get(flag) else { continue };
            if let (Ok(value), Some(most)) = (text.parse::<f64>(), built(flag))
                && value > most
            {
                let why = format!("{id} is built with {flag} {most}");
                let hint = format!("lower it, or build with `build_flags: {{ {flag}: {value} }}`");
                self.push_error(&["repository", key, word], "is more than its engine can do", &why, Some(hint));
            }
        }
        let is_unpaged = matches!(engine.build_flags.get("use_paged_context_fmha"), Some(Value::String(text)) if text == "disable")
            || engine.build_flags.get("use_paged_context_fmha") == Some(&Value::Bool(false));
        for flag in ["enable_chunked_context", "enable_kv_cache_reuse"] {
            let Some((key, word, text)) = facts.get(flag) else { continue };
            if text == "true" && is_unpaged {
                let why = format!("{id} is built without paged context FMHA");
                let hint = "build it with `use_paged_context_fmha: enable`, or take this away";
                self.idle(&["repository", key, word], &why, hint);
            }
        }
    }
}
