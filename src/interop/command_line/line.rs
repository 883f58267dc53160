//! One command line: which program it calls.

use super::program::{Env, LAUNCHER, parts};
use super::translation::{Translation, TranslationBuilder};
use crate::diag::did_you_mean;
use crate::interop::nvidia_harness::run_args;
use crate::interop::triton_backend::{core_model, fill_template, launch_triton_server};
use crate::interop::{aiperf, genai_perf, llmb_run, perf_analyzer, triton_cli, trtllm_bench, trtllm_serve};

/// The programs with supported command lines.
pub const TOOLS: [&str; 13] = [
    "genai-perf",
    "aiperf",
    "perf_analyzer",
    "benchmark_core_model.py",
    "launch_triton_server.py",
    "fill_template.py",
    "trtllm-bench",
    "trtllm-serve",
    "llmb-run",
    "triton",
    "make",
    "RUN_ARGS",
    "--benchmarks=…",
];

/// What a command line of another tool means here; on error everything that is wrong with it.
pub fn read_line(words: &[String]) -> Result<Translation, Vec<String>> {
    let split;
    let words = match words {
        // One argument with blanks is a line that was quoted.
        [line] if line.trim().contains(char::is_whitespace) => {
            let line = line.replace("\\\n", " ");
            split = shlex::split(&line).ok_or_else(|| vec!["a quote in the line is not closed".to_owned()])?;
            &split[..]
        }
        words => words,
    };
    let (env, program, name, rest) = parts(words)?;
    if program.starts_with("--") {
        return without_env(&env, run_args::translate_run_args(&words[words.len() - rest.len() - 1..]));
    }
    if let Some(text) = program.strip_prefix("RUN_ARGS=") {
        let mut all = vec![text.to_owned()];
        all.extend_from_slice(rest);
        return without_env(&env, run_args::translate_run_args(&all));
    }
    if name == "code.main" {
        return without_env(&env, run_args::translate_run_args(rest));
    }
    let second = rest.first().map(String::as_str);
    match (name, second) {
        ("launch_triton_server.py", _) => launch_triton_server::translate(&env, rest),
        ("trtllm-serve", _) => trtllm_serve::translate(&env, rest),
        ("trtllm-bench", _) => {
            let before = &words[..words.len() - rest.len()];
            let launcher: Vec<String> = before.iter().filter(|word| *word == LAUNCHER).cloned().collect();
            trtllm_bench::command_line::translate(&env, &launcher, rest)
        }
        ("genai-perf" | "genai_perf", Some("analyze")) => {
            without_env(&env, genai_perf::command_line::translate("genai-perf analyze", true, &rest[1..]))
        }
        (
            "genai-perf" | "genai_perf",
            Some(other @ ("config" | "template" | "process-export-files" | "compare" | "process")),
        ) => Err(vec![format!("`genai-perf {other}` does not measure; a `profile` line does")]),
        ("genai-perf" | "genai_perf", _) => {
            without_env(&env, genai_perf::command_line::translate("genai-perf profile", false, strip(rest, "profile")))
        }
        ("aiperf", _) => without_env(&env, aiperf::command_line::translate(strip(rest, "profile"))),
        ("perf_analyzer", _) => without_env(&env, perf_analyzer::command_line::translate(rest)),
        ("benchmark_core_model.py", _) => without_env(&env, core_model::translate(rest)),
        ("fill_template.py", _) => without_env(&env, fill_template::translate(rest)),
        ("llmb-run", _) => llmb_run::translate(&env, rest),
        ("triton", _) => without_env(&env, triton_cli::translate(rest)),
        ("make", _) => {
            // Both places are good for make.
            let mut words: Vec<String> = env.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
            words.extend_from_slice(rest);
            run_args::make(&words)
        }
        _ => {
            let hint = did_you_mean(name, TOOLS).unwrap_or_default();
            Err(vec![format!("command lines of `{name}` cannot be imported; {hint}")])
        }
    }
}

/// Variables change what none of these do.
fn without_env(env: &Env, told: Result<Translation, Vec<String>>) -> Result<Translation, Vec<String>> {
    let mut translation = told?;
    for (name, _) in &env.0 {
        let mut sheet = TranslationBuilder::default();
        sheet.push_untranslated(format!("{name}=…"), "the tool that reads it is not run; a stage has `env`");
        translation.untranslated.extend(sheet.untranslated);
    }
    Ok(translation)
}

fn strip<'a>(words: &'a [String], first: &str) -> &'a [String] {
    match words.split_first() {
        Some((word, rest)) if word == first => rest,
        _ => words,
    }
}
