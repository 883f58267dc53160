//! `repository:` — the Triton model repositories that serve an engine, and parameters that cannot stand in them.
//!
//! Runtime flags and parameters of `repository:` that reach no config.pbtxt, or change nothing there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ActionFacts, BY_THIS_PROGRAM, Check, StageChecker};
use crate::manifest::model::Stage;
use base::diag::{did_you_mean, nearest};
use base::units::unquoted;
use triton::repository::{FlagMeaning, MODELS, PARAMETERS, RUNTIME_FLAGS, meaning};
pub use triton::repository::{Repository, RepositoryLayout};

/// Models of NVIDIA's `all_models/multimodal` and `all_models/whisper`.
const OTHER_LAYOUTS: [&str; 2] = ["multimodal_encoders", "whisper_bls"];

impl Check for Repository {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        is_of_server: true,
        is_checked_across_stages: true,
        needs_memory: false,
        container_obstacle: BY_THIS_PROGRAM,
        sharing_obstacle: Some(
            "a model repository contains the path of its engine on this machine, and takes no time to make",
        ),
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        std::iter::once(("repository.engine", self.engine.as_str()))
            .chain(self.tokenizer.as_deref().map(|path| ("repository.tokenizer", path)))
            .chain(self.files.as_deref().map(|path| ("repository.files", path)))
            .collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        for (index, model) in self.models.iter().enumerate() {
            let path = ["repository", "models", &index.to_string()];
            if OTHER_LAYOUTS.contains(&model.as_str()) {
                let message = format!(
                    "cannot be `{model}`: Regatta does not write repositories of multimodal or encoder-decoder models"
                );
                checker
                    .fault(&path, &message, "another layout")
                    .hint("serve it with `serve: command` or attach to it, and measure that server");
            } else {
                checker.word(&path, model, &MODELS);
            }
        }
        if self.layout == RepositoryLayout::Five && self.triton_num_models_per_server.is_some() {
            let path = ["repository", "triton_num_models_per_server"];
            checker.fault(&path, "needs the harness layout", "here").hint("write `layout: harness`, or remove it");
        }
        checker.repository_flags(self);
    }
}

/// A repository's own settings, by template name: the key it stands under, its name there, and its value as text.
pub(super) type RepositoryFacts<'a> = BTreeMap<&'static str, (&'static str, &'a str, String)>;

pub(super) fn repository_facts(repository: &Repository) -> RepositoryFacts<'_> {
    let mut facts = RepositoryFacts::new();
    for (flag, value) in repository.runtime_flags.iter().filter(|(_, value)| !value.is_null()) {
        if let FlagMeaning::Parameters(list) = meaning(flag, value) {
            facts.extend(
                list.into_iter().map(|(name, value)| (name, ("runtime_flags", flag.as_str(), unquoted(&value)))),
            );
        }
    }
    for (name, value) in repository.parameters.iter().filter(|(_, value)| !value.is_null()) {
        if let Some(parameter) = PARAMETERS.iter().find(|one| one.name == name) {
            facts.insert(parameter.name, ("parameters", name.as_str(), unquoted(value)));
        }
    }
    facts
}

/// Parameters that take effect only with another one: another parameter, and the value it must have.
const NEEDS: [(&str, &str, &str); 5] = [
    ("context_chunking_policy", "enable_chunked_context", "true"),
    ("cuda_graph_cache_size", "cuda_graph_mode", "true"),
    ("cross_kv_cache_fraction", "encoder_engine_dir", ""),
    ("xgrammar_tokenizer_info_path", "guided_decoding_backend", ""),
    ("speculative_decoding_fast_logits", "tensorrt_llm_draft_model_name", ""),
];

/// What static batching (V1) does without.
const INFLIGHT: [&str; 3] = ["batch_scheduler_policy", "enable_chunked_context", "context_chunking_policy"];
const LOOKAHEAD: [&str; 3] = ["lookahead_window_size", "lookahead_ngram_size", "lookahead_verification_set_size"];

impl StageChecker<'_> {
    pub(super) fn repository_flags(&mut self, repository: &Repository) {
        for (flag, value) in &repository.runtime_flags {
            self.flag(flag, value);
        }
        let names = PARAMETERS.iter().map(|one| one.name);
        for name in repository.parameters.keys() {
            if !PARAMETERS.iter().any(|one| one.name == name) {
                let hint = nearest(name, names.clone()).map(|near| format!("did you mean `{near}`?"));
                let hint = hint.unwrap_or_else(|| "`regatta repository parameters` lists them".to_owned());
                self.fault(&["repository", "parameters", name], "is not a parameter of the templates", "not known")
                    .hint(hint);
            }
        }
        let facts = repository_facts(repository);
        self.unwritten(repository, &facts);
        self.together(&facts);
    }

    fn flag(&mut self, flag: &str, value: &Value) {
        let path = ["repository", "runtime_flags", flag];
        if value.is_null() {
            return;
        }
        match meaning(flag, value) {
            FlagMeaning::Parameters(_) => {}
            FlagMeaning::InvalidValue(why) => {
                self.fault(&path, "cannot be this", &why);
            }
            FlagMeaning::NotInRepository => {
                let reason = "another executor's flag: no config.pbtxt has a place for it";
                self.idle(&path, reason, "remove it, or put it where trtllm-serve or trtllm-bench reads it");
            }
            FlagMeaning::Unknown if PARAMETERS.iter().any(|one| one.name == flag) => {
                self.fault(&path, "is a template parameter, not a runtime flag", "not here")
                    .hint("put it under `parameters`");
            }
            FlagMeaning::Unknown => {
                let hint = did_you_mean(flag, RUNTIME_FLAGS.iter().copied());
                self.fault(&path, "is not a runtime flag", "not known").maybe_hint(hint);
            }
        }
    }

    /// Parameters of models that are not written.
    fn unwritten(&mut self, repository: &Repository, facts: &RepositoryFacts<'_>) {
        let is_five = repository.layout == RepositoryLayout::Five;
        let is_written = |model: &&str| {
            if is_five { repository.models.iter().any(|one| one == model) } else { *model == "tensorrt_llm" }
        };
        for (name, (key, word, _)) in facts {
            let Some(parameter) = PARAMETERS.iter().find(|one| one.name == *name) else { continue };
            if !parameter.models.iter().any(&is_written) {
                let models = parameter.models.join(" and ");
                let reason = format!("only {models} has it, and this repository does not include that model");
                self.idle(&["repository", key, word], &reason, "remove it, or add the model");
            }
        }
    }

    /// Values that cancel each other.
    fn together(&mut self, facts: &RepositoryFacts<'_>) {
        let value = |name: &str| facts.get(name).map(|(.., value)| value.as_str());
        let place = |name: &str| facts.get(name).map(|(key, word, _)| ["repository", key, word]);
        let mut idle: Vec<([&str; 3], String, String)> = Vec::new();
        let mut mark_idle = |name: &str, why: String, hint: &str| {
            idle.extend(place(name).map(|path| (path, why, hint.to_owned())));
        };
        for (name, needs, must) in NEEDS {
            let is_there = value(needs).is_some_and(|value| must.is_empty() || value == must);
            // What the backend does anyway may be written down.
            let unset = PARAMETERS.iter().find(|one| one.name == name).map_or("", |one| one.unset);
            if value(name).is_some_and(|value| value != unset) && !is_there {
                let wanted = if must.is_empty() { format!("`{needs}`") } else { format!("`{needs}: {must}`") };
                mark_idle(name, format!("it needs {wanted}"), &format!("add {wanted}, or remove this"));
            }
        }
        if value("batching_strategy") == Some("V1") {
            for name in INFLIGHT.into_iter().filter(|name| value(name).is_some_and(|value| value != "false")) {
                mark_idle(name, "static batching (V1) does without".to_owned(), "use in-flight batching, or remove it");
            }
        }
        let given: Vec<&str> = LOOKAHEAD.into_iter().filter(|name| value(name).is_some()).collect();
        if !given.is_empty() && given.len() < LOOKAHEAD.len() {
            for name in given {
                mark_idle(name, "lookahead decoding needs all three of its sizes".to_owned(), &LOOKAHEAD.join(", "));
            }
        }
        for (path, why, hint) in idle {
            self.idle(&path, &why, &hint);
        }
    }
}
