//! The translation of a line or a file of another tool.

use serde_json::{Map, Value, json};

use super::shell::{self, UnknownValue};
use super::translated_bench::TranslatedBench;
use base::spec::Quantity;

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
    /// Values that must come from the user; in arguments and keys each is `{{name}}`.
    pub unknown: Vec<UnknownValue>,
    /// Paths that the stages of a manifest write, and the expression for each.
    pub produced: Vec<(String, String)>,
    /// Files whose content is in the translation, as they were written.
    pub read_files: Vec<String>,
    /// Stages, and the place of the command that each is of in a text of several.
    pub places: Vec<(String, String)>,
}

impl Translation {
    /// Parameters for the unknown values that these stages use; their expressions become as people write them.
    pub fn parameters(&self, stages: &mut Value) -> Map<String, Value> {
        shell::parameters(stages, &self.unknown)
    }

    /// A text with its unknown values as they were written.
    pub fn as_written(&self, text: &str) -> String {
        shell::as_written(text, &self.unknown)
    }
}

/// What a line or a file means here, or everything that is wrong with it.
pub type TranslationResult = Result<Translation, TranslationError>;

/// An argument that has no place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntranslatedOption {
    /// As it was written, without secrets.
    pub argument: String,
    pub why: String,
    /// Whether the line sends other requests with it, or sends them at other times.
    pub is_workload: bool,
}

impl UntranslatedOption {
    /// An argument without which the same load is sent.
    pub fn new(argument: impl Into<String>, why: impl Into<String>) -> Self {
        Self { argument: argument.into(), why: why.into(), is_workload: false }
    }
}

/// What is to be done here.
#[derive(Clone, Debug, PartialEq)]
pub enum TranslationKind {
    Bench(TranslatedBench),
    /// A manifest, key by key.
    Manifest(Map<String, Value>),
    /// Several commands together.
    Script(TranslatedScript),
    /// An existing manifest, and the settings to change in it.
    Run(RunLine),
    /// Command lines, each a list of arguments.
    Commands(Vec<Vec<String>>),
    /// `container:` of stages, which run their programs in it.
    Container(Map<String, Value>),
    /// Nothing: why, and what to do instead.
    Nothing(String),
}

impl TranslationKind {
    /// Whether it has a variable of this name: in the environment of a stage, as a secret, or in a command.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        let word = json!(name).to_string();
        let in_stages = |stages: &Map<String, Value>| stages.values().any(|stage| stage.to_string().contains(&word));
        let in_bench = |bench: &TranslatedBench| bench.args.iter().any(|argument| argument == name);
        match self {
            Self::Manifest(manifest) => in_stages(manifest),
            Self::Bench(bench) => in_bench(bench),
            Self::Script(script) => in_stages(&script.stages) || script.benches.iter().any(|one| in_bench(&one.bench)),
            Self::Run(run) => run.env.iter().any(|(other, _)| other == name),
            Self::Commands(_) | Self::Container(_) | Self::Nothing(_) => false,
        }
    }

    /// The stages of what becomes a manifest, by their names.
    pub(crate) fn named_stages(&mut self) -> Option<&mut Map<String, Value>> {
        match self {
            Self::Manifest(manifest) => manifest.get_mut("stages").and_then(Value::as_object_mut),
            Self::Script(script) => Some(&mut script.stages),
            _ => None,
        }
    }

    pub(crate) fn stages_mut(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        self.named_stages().into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut)
    }
}

/// The commands of a script, sorted by what they are here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslatedScript {
    /// Of one manifest, in the script's order.
    pub stages: Map<String, Value>,
    pub benches: Vec<ScriptBench>,
    pub runs: Vec<RunLine>,
    /// Command lines beside them.
    pub commands: Vec<Vec<String>>,
}

/// One measurement of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptBench {
    /// The stage of the server that the script started last before it.
    pub server: Option<String>,
    /// Its place among the runs, of the one whose servers it measures.
    pub run: Option<usize>,
    pub bench: TranslatedBench,
    /// Of its command in the text.
    pub place: String,
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
    /// Its servers stay up: `regatta serve`.
    pub serves: bool,
    /// Nothing is run: `regatta plan`.
    pub plans: bool,
}

/// This many GPUs of one kind.
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
    /// What it may be called; the first that the manifest declares. With dots it is a place:
    /// `tuning.server.gpu_batch_size`.
    pub names: Vec<String>,
    pub value: String,
    /// The source argument.
    pub argument: String,
}

impl RunSetting {
    pub(crate) fn new(name: &str, value: impl Into<String>, word: impl Into<String>) -> Self {
        Self { names: vec![name.to_owned()], value: value.into(), argument: word.into() }
    }
}

/// The same behind words that start several ranks of the command: `srun -N 2 …`.
pub(crate) type TranslateRanks<'a> = &'a dyn Fn(&[String], &[String]) -> TranslationResult;

/// What a command in another command means: `docker run IMAGE COMMAND`.
pub(crate) type TranslateInner<'a> = &'a dyn Fn(&[String]) -> TranslationResult;

/// What a command in a container means, whose mounts are `(HOST, INSIDE)`.
pub(crate) type TranslateContained<'a> = &'a dyn Fn(&[(String, String)], &[String]) -> TranslationResult;

/// Collects while arguments are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslationBuilder {
    pub notes: Vec<String>,
    pub untranslated: Vec<UntranslatedOption>,
    /// What keeps the line from being understood.
    pub problems: Vec<TranslationProblem>,
    unknown: Vec<UnknownValue>,
    produced: Vec<(String, String)>,
    read_files: Vec<String>,
}

impl TranslationBuilder {
    /// A value that the line must have and does not: the manifest gets a parameter for it, of which `written` says
    /// what it is. Where it goes, the returned text is written.
    pub fn require(&mut self, name: &str, written: String) -> String {
        let value = UnknownValue { name: name.to_owned(), written, env: None };
        let marker = value.marker();
        self.unknown.push(value);
        marker
    }

    pub fn push_untranslated(&mut self, word: impl Into<String>, why: impl Into<String>) {
        self.push_once(UntranslatedOption::new(word, why));
    }

    /// Commands of a loop leave the same ones.
    fn push_once(&mut self, option: UntranslatedOption) {
        if !self.untranslated.contains(&option) {
            self.untranslated.push(option);
        }
    }

    /// An argument without which another load is sent.
    pub fn push_untranslated_load(&mut self, word: impl Into<String>, why: impl Into<String>) {
        self.untranslated.push(UntranslatedOption { is_workload: true, ..UntranslatedOption::new(word, why) });
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub fn push_error(&mut self, problem: impl Into<TranslationProblem>) {
        self.problems.push(problem.into());
    }

    /// The stage writes what the command wrote to `path`; `expression` is where that is.
    pub fn produces(&mut self, path: &str, expression: impl Into<String>) {
        self.produced.push((path.to_owned(), expression.into()));
    }

    /// The content of this file is in the translation.
    pub fn reads(&mut self, file: &str) {
        self.read_files.push(file.to_owned());
    }

    /// Takes over what was found of one command of several. `place` is where it stands.
    pub fn absorb(&mut self, place: &str, translation: &mut Translation) {
        // Commands of a loop have the same ones.
        for note in std::mem::take(&mut translation.notes) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for mut option in std::mem::take(&mut translation.untranslated) {
            option.argument = format!("{place}: {}", option.argument);
            self.push_once(option);
        }
        self.produced.append(&mut translation.produced);
        self.unknown.append(&mut translation.unknown);
    }

    /// A line without a meaning here: the sentence on it.
    pub fn nothing(tool: &'static str, why: impl Into<String>) -> TranslationResult {
        Self::default().finish(tool, TranslationKind::Nothing(why.into()))
    }

    /// A manifest of these stages, as [`finish`](Self::finish) has it.
    pub fn finish_manifest<const N: usize>(
        self,
        tool: &'static str,
        name: &str,
        stages: [(&str, Value); N],
    ) -> TranslationResult {
        let stages: Map<String, Value> = stages.into_iter().map(|(name, stage)| (name.to_owned(), stage)).collect();
        let keys =
            [("regatta", json!(1)), ("name", json!(name)), ("about", json!(origin(tool))), ("stages", json!(stages))];
        let manifest = keys.map(|(key, value)| (key.to_owned(), value));
        self.finish(tool, TranslationKind::Manifest(Map::from_iter(manifest)))
    }

    /// The translation, or everything that keeps it from being one.
    pub fn finish(self, tool: &'static str, means: TranslationKind) -> TranslationResult {
        let Self { notes, untranslated, problems, unknown, produced, read_files } = self;
        if !problems.is_empty() {
            return Err(TranslationError { problems });
        }
        let places = Vec::new();
        Ok(Translation { tool, kind: means, notes, untranslated, unknown, produced, read_files, places })
    }
}

/// The origin of a manifest, for display.
pub fn origin(tool: &str) -> String {
    let kind = if tool.starts_with("a ") { "" } else { "a line of " };
    format!("from {kind}{tool}")
}

/// A whole number of a key, or the formula that it has in its place.
pub(crate) fn quantity(value: &Value) -> Option<Quantity<u64>> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64().map(Quantity::Known),
    }
}

/// As JSON: whole where it is.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

/// Everything that keeps a text from being translated, at least one; its `Display` has a line for each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct TranslationError {
    pub problems: Vec<TranslationProblem>,
}

impl TranslationError {
    pub(crate) fn new(problem: impl Into<TranslationProblem>) -> Self {
        Self { problems: vec![problem.into()] }
    }

    /// The same problems of a text that stands at `place` of another one.
    pub(crate) fn within(self, place: &str) -> Self {
        Self { problems: self.problems.into_iter().map(|problem| problem.within(place)).collect() }
    }

    /// Whether the line is a pattern of a page, with its placeholders and no other problem.
    pub(crate) fn is_pattern(&self) -> bool {
        self.problems.iter().all(|problem| matches!(problem.kind, ProblemKind::Placeholder(_)))
    }

    /// The programs that are not known here.
    pub(crate) fn unknown_programs(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().filter_map(|problem| match &problem.kind {
            ProblemKind::UnknownProgram { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

/// One problem of a pasted text, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", place.as_ref().map_or_else(String::new, |place| format!("{place}: ")))]
pub struct TranslationProblem {
    /// `run.sh:12`, or the beginning of a command; `None`: the text is one command.
    pub place: Option<String>,
    pub kind: ProblemKind,
}

impl TranslationProblem {
    fn within(mut self, place: &str) -> Self {
        self.place = Some(self.place.map_or_else(|| place.to_owned(), |inner| format!("{place}: {inner}")));
        self
    }
}

impl<K: Into<ProblemKind>> From<K> for TranslationProblem {
    fn from(kind: K) -> Self {
        Self { place: None, kind: kind.into() }
    }
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    #[error("a quote in the line is not closed")]
    OpenQuote,
    #[error("the line has no command")]
    NoCommand,
    #[error("it contains no known command{}", listed(programs))]
    NoKnownCommand { programs: Vec<String> },
    #[error("there are {commands} commands in it; at most {most} are read")]
    TooManyCommands { commands: usize, most: usize },
    #[error("its loops expand to more than {most} commands")]
    TooManyInLoops { most: usize },
    #[error("commands are nested more than {deepest} deep")]
    TooDeep { deepest: usize },
    /// `hint` is the nearest program that is known, or nothing.
    #[error("command lines of `{name}` cannot be imported; {hint}")]
    UnknownProgram { name: String, hint: String },
    /// Of one program: what is wrong with its arguments, as a sentence.
    #[error("{0}")]
    Arguments(String),
    /// What to write in the place of a page's placeholder, as a sentence.
    #[error("{0}")]
    Placeholder(String),
}

/// The first of some programs.
fn listed(programs: &[String]) -> String {
    const MOST: usize = 5;
    let names: Vec<String> = programs.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let rest = programs.len().saturating_sub(MOST);
    match (names.as_slice(), rest) {
        ([], _) => String::new(),
        (names, 0) => format!(": it calls {}", names.join(", ")),
        (names, rest) => format!(": it calls {} and {rest} more", names.join(", ")),
    }
}

impl From<String> for ProblemKind {
    fn from(sentence: String) -> Self {
        Self::Arguments(sentence)
    }
}

impl From<&str> for ProblemKind {
    fn from(sentence: &str) -> Self {
        Self::Arguments(sentence.to_owned())
    }
}
