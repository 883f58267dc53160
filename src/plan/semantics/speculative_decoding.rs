//! Speculative decoding of the servers that LoadGen's tests run on. Closed allows it in few scenarios, with a fixed number of drafts.

use std::collections::HashMap;

use serde_json::Value;

use super::StageChecker;
use crate::PlanReference;
use crate::loadgen::test_request;
use crate::manifest::Node;
use crate::manifest::model::{Action, Engine, Serve};
use crate::task::Task;
use base::diag::Diagnostics;
use base::event::TaskId;
use base::spec::Division;
use rules::{Benchmark, MlperfScenario, TestRequest};

/// Looks at every LoadGen test whose servers are started in the same plan. Each task comes with its rendered stage.
pub fn speculative_decoding<'a>(tasks: impl Iterator<Item = (&'a Task, &'a Node)> + Clone, found: &mut Diagnostics) {
    let drafting: Vec<(&Task, &Node, DraftSetting)> =
        tasks.clone().filter_map(|(task, node)| Some((task, node, DraftSetting::of(task.action()?)?))).collect();
    if drafting.is_empty() {
        return;
    }
    let by_id: HashMap<&TaskId, &Task> = tasks.clone().map(|(task, _)| (&task.id, task)).collect();
    for (task, _) in tasks {
        let Some(request) = task.bench().and_then(test_request).filter(|test| test.division == Division::Closed) else {
            continue;
        };
        let Ok(test) = request.find() else { continue };
        let servers = servers_of(task, &by_id);
        for (server, node, setting) in &drafting {
            if servers.iter().any(|one| one.id == server.id) {
                StageChecker::new(node, &server.stage, found).drafts(setting, &request, &test.benchmark);
            }
        }
    }
}

/// The servers of a benchmark, and what they are made of.
fn servers_of<'a>(bench: &'a Task, by_id: &HashMap<&TaskId, &'a Task>) -> Vec<&'a Task> {
    let mut reached: Vec<&Task> = Vec::new();
    let mut open = vec![bench];
    while let Some(task) = open.pop() {
        for reference in PlanReference::all_in(task.action_text()) {
            let (PlanReference::Service(id) | PlanReference::OutputFolder(id)) = reference else { continue };
            let next = by_id.get(&id).copied().filter(|next| next.kind.facts().is_of_server);
            if let Some(next) = next.filter(|next| reached.iter().all(|one| one.id != next.id)) {
                reached.push(next);
                open.push(next);
            }
        }
    }
    reached
}

/// Speculative decoding as a stage sets it.
struct DraftSetting {
    /// The key that sets it, below the stage.
    path: Vec<String>,
    /// The key of the number of drafts.
    count_key: &'static str,
    /// Tokens drafted in each step. None: that key is not given.
    count: Option<u64>,
}

impl DraftSetting {
    /// None: nothing is drafted.
    fn of(action: &Action) -> Option<Self> {
        let setting = match action {
            Action::Serve(Serve::TrtllmServe(server)) => {
                let config = server.options.get("speculative_config").filter(|config| !config.is_null())?;
                let keys: &[&str] = match config.get("decoding_type").and_then(Value::as_str) {
                    Some("MTP") => &["num_nextn_predict_layers", "max_draft_len"],
                    _ => &["max_draft_len"],
                };
                Self::new(&["serve", "trtllm_serve", "options", "speculative_config"], config, keys)
            }
            Action::Serve(Serve::Vllm(server)) => {
                let is_it = |(name, _): &(&String, &Value)| name.replace('_', "-") == "speculative-config";
                let (name, config) = server.options.iter().find(is_it)?;
                // A text is JSON, as vLLM takes it.
                let parsed = config.as_str().and_then(|text| serde_json::from_str(text).ok());
                let config = parsed.as_ref().unwrap_or(config);
                Self::new(&["serve", "vllm", "options", name], config, &["num_speculative_tokens"])
            }
            Action::Engine(engine) => Self::of_engine(engine)?,
            _ => return None,
        };
        (setting.count != Some(0)).then_some(setting)
    }

    fn of_engine(engine: &Engine) -> Option<Self> {
        if let Some(config) = &engine.speculative_config {
            let (path, (_, count)) = (["engine", "speculative_config"], config.source().ok()?);
            let count_key = if config.max_draft_len.is_some() { "max_draft_len" } else { "num_speculative_tokens" };
            return Some(Self { path: path.map(str::to_owned).into(), count_key, count: Some(count.into()) });
        }
        let mode = engine.build_flags.get("speculative_decoding_mode")?.as_str()?;
        let count_key = "max_draft_len";
        let count = engine.build_flags.get(count_key).and_then(whole);
        let path = ["engine", "build_flags", "speculative_decoding_mode"].map(str::to_owned).into();
        (mode != "none").then_some(Self { path, count_key, count })
    }

    /// With the number under the first of `keys` that `config` has.
    fn new(path: &[&str], config: &Value, keys: &[&'static str]) -> Self {
        let count_key = keys.iter().copied().find(|key| config.get(*key).is_some()).unwrap_or(keys[0]);
        let count = config.get(count_key).and_then(whole);
        Self { path: path.iter().map(|&key| key.to_owned()).collect(), count_key, count }
    }
}

/// A whole number, also as a text.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

impl StageChecker<'_> {
    /// The servers of a closed test draft what the round allows.
    fn drafts(&mut self, setting: &DraftSetting, request: &TestRequest<'_>, benchmark: &Benchmark) {
        let path: Vec<&str> = setting.path.iter().map(String::as_str).collect();
        let of = format!("{} {} of {}", request.benchmark, request.scenario.title(), request.round);
        let Some(&drafts) = benchmark.speculative_tokens.get(&request.scenario) else {
            let allowed: Vec<&str> = benchmark.speculative_tokens.keys().copied().map(MlperfScenario::title).collect();
            let label = match allowed.as_slice() {
                [] => "closed: the round does not allow it for this benchmark".to_owned(),
                allowed => format!("closed: the rules allow it in {} only", allowed.join(", ")),
            };
            let hint = Some("remove it, or `division: open`".to_owned());
            self.push_error(&path, &format!("cannot be set for {of}"), &label, hint);
            return;
        };
        if setting.count != Some(drafts) {
            let key = setting.count_key;
            let label = match setting.count {
                Some(count) => format!("closed: the rules fix speculative-num-steps={drafts}, and this drafts {count}"),
                None => format!("closed: the rules fix speculative-num-steps={drafts}, and `{key}` is not given"),
            };
            let hint = Some(format!("`{key}: {drafts}`, or `division: open`"));
            self.push_error(&path, &format!("must draft {drafts} tokens in each step for {of}"), &label, hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(action: &str) -> Option<(String, &'static str, Option<u64>)> {
        let action: Value = serde_yaml::from_str(action).unwrap();
        let setting = DraftSetting::of(&serde_json::from_value(action).unwrap())?;
        Some((setting.path.join("."), setting.count_key, setting.count))
    }

    #[test]
    fn the_drafts_of_each_kind_of_server_are_read() {
        let trtllm = |config: &str| {
            setting(&format!("serve: {{ trtllm_serve: {{ model: m, options: {{ speculative_config: {config} }} }} }}"))
        };
        let path = "serve.trtllm_serve.options.speculative_config".to_owned();
        let of = |key, count| Some((path.clone(), key, count));
        assert_eq!(
            trtllm("{ decoding_type: MTP, num_nextn_predict_layers: 3 }"),
            of("num_nextn_predict_layers", Some(3))
        );
        assert_eq!(trtllm("{ decoding_type: MTP }"), of("num_nextn_predict_layers", None));
        assert_eq!(trtllm("{ decoding_type: Eagle, max_draft_len: 4 }"), of("max_draft_len", Some(4)));
        assert_eq!((trtllm("null"), trtllm("{ decoding_type: NGram, max_draft_len: 0 }")), (None, None));
        let vllm = |config: &str| {
            setting(&format!("serve: {{ vllm: {{ model: m, options: {{ speculative_config: {config} }} }} }}"))
        };
        let of_vllm = Some(("serve.vllm.options.speculative_config".to_owned(), "num_speculative_tokens", Some(2)));
        assert_eq!(vllm("{ method: mtp, num_speculative_tokens: 2 }"), of_vllm);
        assert_eq!(vllm("'{\"method\": \"mtp\", \"num_speculative_tokens\": 2}'"), of_vllm);
    }
}
