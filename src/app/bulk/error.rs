//! Why a file is no list of runs.

/// What is wrong in a list of runs, in any of its forms.
#[derive(Debug, thiserror::Error)]
pub enum BulkFileError {
    #[error("{0}")]
    Yaml(#[from] serde_yaml::Error),
    /// From 0.
    #[error("runs[{index}]: {error}")]
    Run { index: usize, error: RunEntryError },
    /// Of a run: a parameter or a variable.
    #[error("`{name}` of `{run}` is no plain value")]
    RunValue { name: String, run: String },
    #[error("`{0}` is no plain value")]
    Value(String),
    #[error("a task of `{header}` has no `{key}`")]
    Missing { header: String, key: &'static str },
    #[error("`{0}` is no workload with its size, as `inference_llama3.3_70b` is")]
    Header(String),
    /// Of a list of tuples: from 1.
    #[error("line {line}: {error}")]
    Line { line: usize, error: TupleLineError },
}

/// Everything in llmb-run's list that has no meaning here; its `Display` has a line for each.
#[derive(Debug, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct LlmbJobsError {
    pub problems: Vec<LlmbJobProblem>,
}

/// What one or several entries of llmb-run's list lack here.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum LlmbJobProblem {
    #[error("a scale needs its GPU: `--gpu-type gb200`, or `system=gb200-x1` for all runs")]
    NoGpuType,
    /// `hint` is the nearest manifest.
    #[error("there is no manifest `{manifest}` for {workload}{}", hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    NoManifest { manifest: String, workload: String, hint: Option<String> },
}

/// What is wrong with one run of Regatta's own list.
#[derive(Debug, thiserror::Error)]
pub enum RunEntryError {
    #[error("{0}")]
    Map(#[from] serde_json::Error),
    #[error("a quote is not closed")]
    OpenQuote,
    #[error("only `regatta run` can stand in a list")]
    NotRun,
    #[error("it names no manifest")]
    NoManifest,
    #[error("`--repeat` is how many times, a number")]
    Repeat,
    #[error("`--repeat-number` is which measurement it is, a number from 1")]
    RepeatNumber,
    #[error("`--repeat` makes all measurements, `--repeat-number` one of them: leave one out")]
    RepeatOfRepeats,
    #[error("`{0}` is no KEY=VALUE")]
    NotSetting(String),
}

/// What is wrong with one line of a list of tuples.
#[derive(Debug, thiserror::Error)]
pub enum TupleLineError {
    #[error("`{0}` is no workload with its size, as `inference_llama3.3_70b` is")]
    Header(String),
    #[error("there is no `workload_size:` above it")]
    NoHeader,
    #[error("write ('fp8', [128, 256], 1), or with True at the end to profile")]
    Tuple,
    #[error(
        "this is neither `workload_size:` nor `('dtype', [scales], repeats)`; a list of commands begins with `runs:`"
    )]
    Unknown,
}
