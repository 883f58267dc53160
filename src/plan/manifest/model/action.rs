//! What a task does, after rendering: the closed enum that `stages` matches on.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bench, CompareResults, Data, Engine, Image, Mlperf, Repository, ResultPaths, Serve, TrtllmBench, Weights};

/// One task's action. Its canonical JSON is part of the task's key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Shell(ShellScript),
    Git(Git),
    Template(Template),
    Engine(Engine),
    Repository(Repository),
    Serve(Serve),
    Bench(Box<Bench>),
    Mlperf(Mlperf),
    Image(Image),
    Weights(Weights),
    TrtllmBench(Box<TrtllmBench>),
    Compare(CompareResults),
}

impl Action {
    /// The manifest's keys for actions, in the order the documentation lists them.
    pub const KEYS: [&'static str; 12] = [
        "shell",
        "git",
        "image",
        "template",
        "weights",
        "engine",
        "repository",
        "serve",
        "bench",
        "trtllm_bench",
        "mlperf",
        "compare",
    ];

    /// Files and folders that it reads, by the key that names them: inputs, declared or not.
    pub fn input_paths(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Template(template) => vec![("template.from", template.from.as_str())],
            Self::Engine(engine) => [
                ("engine.checkpoint", &engine.checkpoint),
                ("engine.trtllm", &engine.trtllm),
                ("engine.trtllm_checkpoint", &engine.trtllm_checkpoint),
            ]
            .into_iter()
            .filter_map(|(key, path)| Some((key, path.as_deref()?)))
            .collect(),
            Self::Repository(repository) => std::iter::once(("repository.engine", repository.engine.as_str()))
                .chain(repository.tokenizer.as_deref().map(|path| ("repository.tokenizer", path)))
                .chain(repository.files.as_deref().map(|path| ("repository.files", path)))
                .collect(),
            Self::Serve(Serve::Simulator(server)) => vec![("serve.repository", server.repository.as_str())],
            Self::Serve(Serve::Triton(server)) => {
                server.repository.iter().map(|path| ("serve.repository", path.as_str())).collect()
            }
            Self::Serve(Serve::TrtllmServe(server)) => checkpoint_paths(&server.model, server.tokenizer.as_ref()),
            Self::Serve(Serve::Vllm(server)) => checkpoint_paths(&server.model, server.tokenizer.as_ref()),
            Self::Bench(bench) => {
                let tokenizer = bench.tokenizer.as_deref().map(|path| ("bench.tokenizer", path));
                let loadgen = bench.loadgen.iter().flat_map(|loadgen| loadgen.reads());
                let earlier = bench.search.iter().filter_map(|search| search.start_from.as_deref());
                let earlier = earlier.map(|path| ("bench.search.start_from", path));
                bench.data.iter().flat_map(Data::inputs).chain(tokenizer).chain(loadgen).chain(earlier).collect()
            }
            Self::Mlperf(step) => step.reads(),
            Self::Image(image) => {
                let build = image.build.iter();
                let files = build.flat_map(|build| {
                    let dockerfile = build.dockerfile.as_deref().map(|path| ("image.build.dockerfile", path));
                    std::iter::once(("image.build.context", build.context.as_str())).chain(dockerfile)
                });
                // A repository's address is no local file.
                files.filter(|(_, path)| !path.contains("://")).collect()
            }
            Self::Weights(weights) => weights.path.iter().map(|path| ("weights.path", path.as_str())).collect(),
            Self::TrtllmBench(bench) => bench.reads(),
            Self::Compare(compare) => {
                let paths = compare.results.values().flat_map(ResultPaths::all);
                paths.map(|path| ("compare.results", path.as_str())).collect()
            }
            Self::Shell(_) | Self::Git(_) | Self::Serve(Serve::Command(_) | Serve::Attach(_)) => Vec::new(),
        }
    }
}

/// A name at Hugging Face is no folder, and begins with neither `/` nor `.`.
fn checkpoint_paths<'a>(model: &'a String, tokenizer: Option<&'a String>) -> Vec<(&'static str, &'a str)> {
    let folders = std::iter::once(model).chain(tokenizer).filter(|path| path.starts_with(['/', '.']));
    folders.map(|path| ("serve.model", path.as_str())).collect()
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ShellScript {
    /// A text for `/bin/sh -c`, strict unless the stage sets `strict: false`.
    Text(String),
    /// The program and its arguments, no shell in between.
    Words(Vec<String>),
}

impl ShellScript {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }
}

/// A clone at a revision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// Where to clone from: a URL or a path.
    pub url: String,
    /// A commit, tag or branch.
    pub rev: String,
    /// Clone submodules, too.
    #[serde(default)]
    pub submodules: bool,
    /// Fetch LFS files; true needs `git lfs`. [default: true where `git lfs` is there]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lfs: Option<bool>,
    /// Commits to apply on top, in order. No git identity is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cherry_picks: Vec<CherryPick>,
}

/// A commit to apply, from the same repository or another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CherryPick {
    /// A commit of the same repository.
    Commit(String),
    /// A commit that must be fetched from elsewhere.
    From { url: String, commit: String },
}

/// A folder of minijinja templates (`*.j2` are rendered, the suffix dropped; other files are copied).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The folder, relative to the current folder. Its files are inputs.
    pub from: String,
    /// The names that the templates may use.
    #[serde(default)]
    pub with: IndexMap<String, serde_json::Value>,
}
