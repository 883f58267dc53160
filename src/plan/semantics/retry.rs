//! What the types cannot express about `retry:`: keys that mean something together only, and numbers that a stage has.

use super::StageChecker;
use crate::manifest::model::{Retry, RetryAfter, Serve, ShellScript, Stage};

impl StageChecker<'_> {
    pub(super) fn retry(&mut self, stage: &Stage) {
        let Some(retry) = &stage.retry else { return };
        if retry.times.is_none() && retry.lower.is_none() {
            let hint = Some("add `times: 2`".to_owned());
            self.push_error(&["retry"], "needs `times`", "how often?", hint);
        }
        if let Some(Serve::Attach(_)) = stage.serve.as_deref() {
            self.push_error(&["retry"], "has no effect", "the run does not start these servers", None);
        }
        let needs_memory = stage.action_kind().is_none_or(|kind| kind.facts().needs_memory);
        if retry.on == RetryAfter::Oom && !needs_memory {
            let hint = Some("take `on: oom` away".to_owned());
            self.push_error(&["retry", "on"], "has no effect here", "this stage never runs out of memory", hint);
        }
        self.lowering(stage, retry);
    }

    fn lowering(&mut self, stage: &Stage, retry: &Retry) {
        let Some(setting) = &retry.lower else {
            for key in ["by", "to"] {
                let is_there = if key == "by" { retry.by.is_some() } else { retry.to.is_some() };
                if is_there {
                    let hint = usual_setting(stage).map_or_else(
                        || "remove it, or name the number with `lower`".to_owned(),
                        |setting| format!("add `lower: {setting}`"),
                    );
                    self.push_error(&["retry", key], "has no effect", "nothing is lowered", Some(hint));
                }
            }
            return;
        };
        if retry.on != RetryAfter::Oom {
            let hint = Some("add `on: oom`".to_owned());
            self.push_error(&["retry", "lower"], "needs `on: oom`", "a lower number helps only then", hint);
        }
        match retry.by {
            None => {
                self.push_error(&["retry"], "needs `by`", "how far down each time?", Some("add `by: 0.05`".to_owned()));
            }
            Some(by) if !(by > 0.0 && by.is_finite()) => {
                self.push_error(&["retry", "by"], "must be above 0", "it is taken away each time", None);
            }
            Some(_) => {}
        }
        if retry.to.is_some_and(|to| !(to > 0.0 && to.is_finite())) {
            self.push_error(&["retry", "to"], "must be above 0", "the lowest value", None);
        }
        let lacks = match (stage.serve.as_deref(), stage.shell.as_deref()) {
            _ if stage.engine.is_some() => None,
            (Some(Serve::Simulator(_) | Serve::Triton(_)), _) if is_of_a_model(setting) => None,
            (Some(Serve::Simulator(_) | Serve::Triton(_)), _) => Some("a server's models have no number of that name"),
            (Some(Serve::TrtllmServe(server)), _) => {
                let own = [("max_batch_size", server.max_batch_size), ("max_num_tokens", server.max_num_tokens)];
                let is_own = own.iter().any(|(name, value)| name == setting && value.is_some());
                let is_option = is_own || server.option(setting).is_some();
                if is_option { None } else { unsupported_reason(&server.args, setting) }
            }
            (Some(Serve::Vllm(server)), _) => {
                if server.number(setting).is_some() {
                    None
                } else {
                    unsupported_reason(&server.args, setting)
                }
            }
            (Some(Serve::Command(server)), _) => unsupported_reason(&server.words, setting),
            (_, Some(ShellScript::Words(words))) => unsupported_reason(words, setting),
            (_, Some(ShellScript::Text(_))) => Some("the command is a text: write it as a list of arguments"),
            _ => Some("this stage has nothing to lower"),
        };
        if let Some(why) = lacks {
            let hint = Some(
                "of an `engine` a build flag (`max_num_tokens`), of `serve` kv_cache_free_gpu_mem_fraction, max_batch_size or max_num_tokens, of trtllm_serve also one of its `options`, of vllm one of its numbers (`gpu_memory_utilization`), of a command one of its options"
                    .to_owned(),
            );
            self.push_error(&["retry", "lower"], &format!("has no `{setting}`"), why, hint);
        }
    }
}

/// The number that is lowered most often, where the stage has it.
fn usual_setting(stage: &Stage) -> Option<&'static str> {
    const OF_VLLM: &str = "gpu_memory_utilization";
    match stage.serve.as_deref() {
        _ if stage.engine.is_some() => Some("max_num_tokens"),
        Some(Serve::Simulator(_) | Serve::Triton(_)) => Some("kv_cache_free_gpu_mem_fraction"),
        Some(Serve::Vllm(server)) => server.number(OF_VLLM).map(|_| OF_VLLM),
        _ => None,
    }
}

fn is_of_a_model(setting: &str) -> bool {
    triton::repository::number_parameter(setting).is_some()
}

/// A number that stands on a command, `--name 0.9` or `--name=0.9`; one with a reference in it is known later.
fn unsupported_reason(words: &[String], setting: &str) -> Option<&'static str> {
    let option = |word: &String| {
        let name = word.strip_prefix("--").unwrap_or_default().split('=').next().unwrap_or_default();
        name.replace('-', "_") == setting.replace('-', "_")
    };
    (!words.iter().any(option)).then_some("the command has no such option")
}
