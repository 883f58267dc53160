//! What was typed after `report`, `compare`, `export`, `import` and `explain`: results of Regatta and of other tools.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::value_error::ArgumentValueError;
use report::explain::ENTRIES;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// A run's name, as `regatta status` prints it [default: the last run].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Print Regatta's numbers next to this tool's, computed from the same requests. RUN may then also be a task or
    /// a folder with a result. Repeatable.
    #[arg(long, value_name = "TOOL", value_parser = PossibleValuesParser::new(TOOLS))]
    pub compat: Vec<String>,
    /// Print JSON.
    #[arg(long, requires = "compat")]
    pub json: bool,
}

/// The tools whose definitions are known.
pub(super) const TOOLS: [&str; 14] = [
    "regatta",
    "loadgen",
    "aiperf",
    "genai-perf",
    "perf-analyzer",
    "vllm",
    "sglang",
    "sglang-native",
    "guidellm",
    "inference-perf",
    "llmperf",
    "trtllm-bench",
    "mlcommons-endpoints",
    "hf-benchmarker",
];

/// The file formats of results.
pub(super) const SHAPES: [&str; 8] =
    ["genai-perf", "aiperf", "vllm", "perf-analyzer", "benchmark-report", "mlflow", "parquet", "timeslices"];

/// Any text; shells complete the metrics.
#[derive(Clone)]
pub(super) struct TopicParser;

impl TypedValueParser for TopicParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(ENTRIES.iter().map(|entry| PossibleValue::new(entry.name))))
    }
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Results: a task of the last run, a run's name or tag, RUN/TASK, a folder or a file, of Regatta or of another tool. The
    /// others are compared with the first, runs and stages with several tasks task by task. Each may be several runs of one
    /// measurement: a result with repeats, a folder of results, or a list with commas (`a1,a2,a3`).
    #[arg(value_name = "RESULT", required = true, num_args = 2.., value_hint = ValueHint::AnyPath)]
    pub results: Vec<String>,
    /// Compute all of them with this tool's definitions, from their requests.
    #[arg(long = "as", value_name = "TOOL", value_parser = PossibleValuesParser::new(TOOLS))]
    pub as_tool: Option<String>,
    /// Also subtract numbers with different definitions.
    #[arg(long)]
    pub force: bool,
    /// Exit with 7 when another result differs so from the first, `ttft_p99 > +5%` or `output_tokens < -2%`, or when one of them
    /// is INVALID. The names are those of result.json, with the statistic: `p50`, `p75`, `p90`, `p95`, `p99`, `mean` or `max`.
    /// `ttft_adjusted_p99` counts failed requests as infinitely late. With several runs on each side the difference must be shown to be beyond the limit
    /// (one-sided, at 95 %, for this number alone); with one run on a side the two numbers alone decide. Repeatable.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// The smallest difference that matters, in percent: a smaller one is neither better nor worse [default: 1].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub smallest_effect: Option<f64>,
    /// Write an HTML page, too: differences, distributions, time series, how each was measured.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn percent(text: &str) -> Result<f64, ArgumentValueError> {
    let percent: f64 =
        text.trim_end_matches('%').trim().parse().map_err(|_| ArgumentValueError::NotNumber(text.to_owned()))?;
    if percent > 0.0 && percent < 100.0 { Ok(percent) } else { Err(ArgumentValueError::Percent) }
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// A task of the last run, a run's name or tag, RUN/TASK, or a folder with a result.
    #[arg(value_name = "RESULT", value_hint = ValueHint::AnyPath)]
    pub result: String,
    /// The file format. Repeatable.
    #[arg(long = "as", value_name = "SHAPE", required = true, value_parser = PossibleValuesParser::new(SHAPES))]
    pub shapes: Vec<String>,
    /// Where to write them; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Files of one run of a tool, or the folder they are in; files or folders of several runs, which become a sweep; configs of NVIDIA's MLPerf code (`….py`, base classes first); or a
    /// script of command lines (`….sh`).
    #[arg(value_name = "FILE|DIR", required_unless_present = "line", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// A command line of another tool. Its equivalent is printed: a manifest, or a Regatta command.
    #[arg(value_name = "COMMAND LINE", last = true, conflicts_with = "paths")]
    pub line: Vec<String>,
    /// Of results: where to write `result.json`, or `sweep.json`, `sweep.html` and `points/`; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "imported", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Of a config with many settings: only this one. Repeatable.
    #[arg(long, value_name = "SETTING")]
    pub pick: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// A metric, or a key of a manifest such as `stages.bench.target` [default: a line on each metric].
    #[arg(value_name = "TOPIC", value_parser = TopicParser)]
    pub topic: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
