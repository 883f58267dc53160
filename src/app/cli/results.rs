//! The arguments of commands that read results: of Regatta and of other tools, of one run and over time.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::values::not_a_number;
use base::diag::ErrorText;
use base::event::RunTag;
use interop::{ExportFormat, Tool};

/// The page of a run, or its numbers beside those of other tools.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ReportRequest {
    /// A run's name, as `regatta status` prints it [default: the last run].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Print Regatta's numbers next to this tool's, from the same requests. RUN may also be a task or a folder with a
    /// result. Repeatable.
    #[arg(long = "as", alias = "compat", value_name = "TOOL", value_parser = tool())]
    pub as_tools: Vec<Tool>,
    /// Print JSON.
    #[arg(long, requires = "as_tools")]
    pub json: bool,
}

/// Results to compare, at least two.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CompareRequest {
    /// Results, compared with the first: a task of the last run, a run's name or tag, RUN/TASK, a folder or a file, of
    /// Regatta or of another tool. Several runs of one measurement: a result with repeats, a folder of results, or a
    /// list with commas (`a1,a2,a3`).
    #[arg(value_name = "RESULT", required = true, num_args = 2.., value_hint = ValueHint::AnyPath)]
    pub results: Vec<String>,
    /// Compute all with this tool's definitions, from their requests.
    #[arg(long = "as", value_name = "TOOL", value_parser = tool())]
    pub as_tool: Option<Tool>,
    /// Also subtract numbers with different definitions.
    #[arg(long)]
    pub force: bool,
    /// Exit with 7 when another result differs from the first like this (`ttft_p99 > +5%`, `output_tokens < -2%`), or
    /// is not VALID. Names are those of result.json with `p50`, `p75`, `p90`, `p95`, `p99`, `mean` or `max`;
    /// `ttft_adjusted_p99` counts failed requests as infinitely late. With several runs on each side the difference
    /// must be significant (one-sided, 95 %). Repeatable.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// The smallest difference that matters, in percent [default: 1].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub smallest_effect: Option<f64>,
    /// Also write an HTML page: differences, distributions, time series, how each was measured.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn tool() -> impl TypedValueParser<Value = Tool> {
    PossibleValuesParser::new(Tool::ALL.iter().map(|tool| tool.as_str())).try_map(|name| name.parse::<Tool>())
}

fn percent(text: &str) -> Result<f64, ErrorText> {
    let percent: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| not_a_number(text))?;
    if percent > 0.0 && percent < 100.0 { Ok(percent) } else { Err(ErrorText::new("must be above 0 and below 100")) }
}

/// A result to write in formats of other tools.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ExportRequest {
    /// A task of the last run, a run's name or tag, RUN/TASK, or a folder with a result.
    #[arg(value_name = "RESULT", value_hint = ValueHint::AnyPath)]
    pub result: String,
    /// The file format. Repeatable.
    #[arg(long = "as", value_name = "SHAPE", required = true)]
    #[arg(value_parser = PossibleValuesParser::new(ExportFormat::ALL.iter().map(|format| format.as_str())))]
    pub formats: Vec<String>,
    /// The folder to write to; created if missing.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
}

/// Results or a command line of another tool.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ImportRequest {
    /// Files or the folder of one run of a tool; of several runs, which become a sweep; configs of NVIDIA's MLPerf code
    /// (`….py`, base classes first); or a script of command lines (`….sh`).
    #[arg(value_name = "FILE|DIR", required_unless_present = "line", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// A command line of another tool. Its equivalent is printed: a manifest, or a Regatta command.
    #[arg(value_name = "COMMAND LINE", last = true, conflicts_with = "paths")]
    pub line: Vec<String>,
    /// Where to write `result.json`, or `sweep.json`, `sweep.html` and `points/`.
    #[arg(long, value_name = "DIR", default_value = "imported", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Only this setting of a config with many. Repeatable.
    #[arg(long, value_name = "SETTING")]
    pub pick: Vec<String>,
}

/// A metric or a key to explain.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ExplainRequest {
    /// A metric, a verdict, or a key such as `stages.bench.target` [default: list the metrics].
    #[arg(value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which measurements to show over time.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct HistoryRequest {
    /// Metrics with their statistic: `ttft_p99`, `tpot_mean`, `output_tokens`. Searches show the rate that they found.
    #[arg(value_name = "KEY", default_values = ["output_tokens", "ttft_p99"])]
    pub metrics: Vec<String>,
    /// Only benchmarks of manifests with this text in their name.
    #[arg(short, long, value_name = "TEXT")]
    pub manifest: Option<String>,
    /// Only tasks with this text in their name.
    #[arg(short, long, value_name = "TEXT")]
    pub task: Option<String>,
    /// At most this many measurements of each benchmark, the newest ones.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub most: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with a chart of each metric.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// A tag to give to a run, or to take away.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct TagRequest {
    /// The name: letters, digits, `.`, `_` and `-`.
    #[arg(value_name = "NAME")]
    pub tag: RunTag,
    /// The run [default: the last one].
    #[arg(value_name = "RUN", conflicts_with = "remove")]
    pub run: Option<String>,
    /// Remove the tag.
    #[arg(long)]
    pub remove: bool,
}
