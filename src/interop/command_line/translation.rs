//! The translation of a line or a file of another tool.

use serde_json::{Map, Value, json};

/// A translation: what runs here, what is not quite the same, and what has no place.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The program of the command line: `genai-perf profile`.
    pub tool: &'static str,
    pub kind: TranslationKind,
    /// Carried over, and not quite the same here; sentences.
    pub notes: Vec<String>,
    /// Not carried over.
    pub untranslated: Vec<UntranslatedOption>,
}

/// An argument that has no place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntranslatedOption {
    /// As it was written, without secrets.
    pub argument: String,
    pub why: String,
}

/// What is to be done here.
#[derive(Clone, Debug, PartialEq)]
pub enum TranslationKind {
    Bench(TranslatedBench),
    /// A manifest, key by key.
    Manifest(Map<String, Value>),
    /// Stages, then a benchmark of the server that the stage `triton` starts, if there is one.
    Pipeline(Map<String, Value>, TranslatedBench),
    /// An existing manifest, and the settings to change in it.
    Run(RunLine),
    /// Command lines, each a list of arguments.
    Commands(Vec<Vec<String>>),
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslatedBench {
    /// Behind `regatta bench`.
    pub args: Vec<String>,
    /// Keys of the manifest's `bench:` for which the line has no option.
    pub keys: Map<String, Value>,
    pub sweep: Option<Sweep>,
}

/// A key of `bench:` that takes one value after the other, each a measurement of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    pub key: &'static str,
    pub values: Vec<Value>,
    /// What to write under `key`: a template in which `{{ key }}` stands for the value of the sweep.
    pub template: Value,
}

/// `regatta run`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunLine {
    /// Names of manifests; the first that is there.
    pub manifests: Vec<String>,
    pub settings: Vec<RunSetting>,
    /// Defaults of the other tool, set here as parameters where the manifest declares them.
    pub tool_defaults: Vec<(&'static str, String)>,
    /// Environment variables, which parameters may declare.
    pub env: Vec<(String, String)>,
    /// Stages to end with, where the manifest has them.
    pub until: Vec<String>,
    /// How many GPUs of which kind: a system of the manifest.
    pub scale: Option<GpuScale>,
    /// `KEY=VALUE` of `--slurm`. If there are any, the run is a job.
    pub slurm: Vec<(&'static str, String)>,
    /// Options of `regatta run` itself.
    pub options: Vec<String>,
    /// A folder for the results, beside the one that Regatta keeps.
    pub copy_results_to: Option<String>,
    pub system: SystemNeed,
}

/// So many GPUs of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuScale {
    pub gpus: u32,
    /// `gb200`; `None`: that of this cluster.
    pub gpu_type: Option<String>,
    /// The source argument.
    pub argument: String,
}

/// The system of a run, where the line names none and the manifest has a choice of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemNeed {
    /// The manifest's default.
    #[default]
    Default,
    /// This machine's if it has GPUs, else the manifest's default.
    Measured,
    /// This machine's if it has GPUs, else a real one: simulated systems do not have what the line is for.
    Real,
}

/// A parameter, or a value by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSetting {
    /// What it may be called; the first that the manifest declares. With dots it is a place: `tuning.server.gpu_batch_size`.
    pub names: Vec<String>,
    pub value: String,
    /// The source argument.
    pub argument: String,
}

impl RunSetting {
    pub(in crate::interop) fn new(name: &str, value: impl Into<String>, word: impl Into<String>) -> Self {
        Self { names: vec![name.to_owned()], value: value.into(), argument: word.into() }
    }
}

/// Collects while arguments are read.
#[derive(Debug, Default)]
pub(in crate::interop) struct TranslationBuilder {
    pub notes: Vec<String>,
    pub untranslated: Vec<UntranslatedOption>,
    /// What keeps the line from being understood.
    pub faults: Vec<String>,
}

impl TranslationBuilder {
    pub fn push_untranslated(&mut self, word: impl Into<String>, why: impl Into<String>) {
        self.untranslated.push(UntranslatedOption { argument: word.into(), why: why.into() });
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub fn push_error(&mut self, text: impl Into<String>) {
        self.faults.push(text.into());
    }

    /// The translation, or everything that keeps it from being one.
    pub fn finish(self, tool: &'static str, means: TranslationKind) -> Result<Translation, Vec<String>> {
        let Self { notes, untranslated: left, faults } = self;
        if faults.is_empty() { Ok(Translation { tool, kind: means, notes, untranslated: left }) } else { Err(faults) }
    }
}

/// The origin of a manifest, for display.
pub fn origin(tool: &str) -> String {
    let what = if tool.starts_with("a ") { "" } else { "a line of " };
    format!("from {what}{tool}")
}

/// A manifest of these stages.
pub(in crate::interop) fn manifest(name: &str, tool: &str, stages: Map<String, Value>) -> TranslationKind {
    let mut manifest = Map::new();
    manifest.insert("regatta".to_owned(), json!(1));
    manifest.insert("name".to_owned(), json!(name));
    manifest.insert("about".to_owned(), json!(origin(tool)));
    manifest.insert("stages".to_owned(), Value::Object(stages));
    TranslationKind::Manifest(manifest)
}
