//! Other tools' command lines and configs, read as text: what each argument means here, and what has no place.
//!
//! [`read_line()`] takes a command line (GenAI-Perf, AIPerf, perf_analyzer, `benchmark_core_model.py`,
//! `launch_triton_server.py`, `fill_template.py`, `trtllm-bench`, `trtllm-serve`, `llmb-run`, triton_cli, `make … RUN_ARGS`),
//! [`read_config()`] a config of NVIDIA's MLPerf code, [`read_script()`] a script of such lines. Nothing is run, nothing of Python is executed, no file is opened.
//!
//! Every argument of a line ends in one of three places: in what is done here, in the notes (carried over, and not quite the
//! same), or in what was left, with why. An unknown argument is an error.

mod aiperf;
mod core_model;
mod fill_template;
mod genai_perf;
mod line;
mod llmb;
mod load;
mod mlperf;
mod options;
mod perf_analyzer;
mod python;
mod run_args;
mod script;
mod translation;
mod triton_cli;
mod triton_server;
mod trtllm;
mod trtllm_bench;

pub use line::{TOOLS, read_line};
pub use mlperf::read_config;
pub use script::read_script;
pub use translation::{BenchLine, RunLine, RunSetting, Sweep, Translation, TranslationKind, UntranslatedOption};

use line::Env;
use serde_json::{Map, Value, json};

/// The origin of a manifest, for display.
pub fn origin(tool: &str) -> String {
    let what = if tool.starts_with("a ") { "" } else { "a line of " };
    format!("from {what}{tool}")
}

/// A manifest of these stages.
fn manifest(name: &str, tool: &str, stages: Map<String, Value>) -> TranslationKind {
    let mut manifest = Map::new();
    manifest.insert("regatta".to_owned(), json!(1));
    manifest.insert("name".to_owned(), json!(name));
    manifest.insert("about".to_owned(), json!(origin(tool)));
    manifest.insert("stages".to_owned(), Value::Object(stages));
    TranslationKind::Manifest(manifest)
}
