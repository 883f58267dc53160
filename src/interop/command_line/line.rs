//! One command line: what stands around it, and which program it calls.

use serde_json::{Map, Value, json};

use super::translation::{Translation, TranslationBuilder};
use super::{
    aiperf, core_model, fill_template, genai_perf, llmb, perf_analyzer, run_args, triton_cli, triton_server, trtllm,
};
use crate::diag::did_you_mean;

/// Variables that were set in front of the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Env(Vec<(String, String)>);

impl Env {
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// How many GPUs CUDA_VISIBLE_DEVICES names.
    pub fn gpus(&self, sheet: &mut TranslationBuilder) -> Option<u64> {
        let (_, list) = self.0.iter().find(|(name, _)| name == "CUDA_VISIBLE_DEVICES")?;
        let count = list.split(',').filter(|id| !id.trim().is_empty()).count() as u64;
        sheet.note(format!(
            "CUDA_VISIBLE_DEVICES={list}: {count} GPUs are leased; `regatta run … --gpus {list}` selects them"
        ));
        Some(count)
    }

    /// All others, as a stage has them: secrets only by name.
    pub fn put_into(&self, stage: &mut Map<String, Value>) {
        let others = self.0.iter().filter(|(name, _)| name != "CUDA_VISIBLE_DEVICES");
        let (secrets, plain): (Vec<_>, Vec<_>) = others.partition(|(name, _)| {
            ["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL"].iter().any(|word| name.to_uppercase().ends_with(word))
        });
        if !plain.is_empty() {
            let env: Map<String, Value> = plain.into_iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            stage.insert("env".to_owned(), Value::Object(env));
        }
        if !secrets.is_empty() {
            let names: Vec<&String> = secrets.into_iter().map(|(name, _)| name).collect();
            stage.insert("secrets".to_owned(), json!(names));
        }
    }
}

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

/// Brings up the ranks of TensorRT-LLM.
const LAUNCHER: &str = "trtllm-llmapi-launch";
/// Prefixes of a command that do not change what it does.
const AROUND: [&str; 6] = ["sudo", "time", "nohup", "exec", LAUNCHER, "env"];

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
        return without_env(&env, run_args::bare(&words[words.len() - rest.len() - 1..]));
    }
    if let Some(text) = program.strip_prefix("RUN_ARGS=") {
        let mut all = vec![text.to_owned()];
        all.extend_from_slice(rest);
        return without_env(&env, run_args::bare(&all));
    }
    if name == "code.main" {
        return without_env(&env, run_args::bare(rest));
    }
    let second = rest.first().map(String::as_str);
    match (name, second) {
        ("launch_triton_server.py", _) => triton_server::tell(&env, rest),
        ("trtllm-serve", _) => trtllm::serve(&env, rest),
        ("trtllm-bench", _) => {
            let before = &words[..words.len() - rest.len()];
            let launcher: Vec<String> = before.iter().filter(|word| *word == LAUNCHER).cloned().collect();
            trtllm::bench(&env, &launcher, rest)
        }
        ("genai-perf" | "genai_perf", Some("analyze")) => {
            without_env(&env, genai_perf::tell("genai-perf analyze", true, &rest[1..]))
        }
        (
            "genai-perf" | "genai_perf",
            Some(other @ ("config" | "template" | "process-export-files" | "compare" | "process")),
        ) => Err(vec![format!("`genai-perf {other}` does not measure; a `profile` line does")]),
        ("genai-perf" | "genai_perf", _) => {
            without_env(&env, genai_perf::tell("genai-perf profile", false, strip(rest, "profile")))
        }
        ("aiperf", _) => without_env(&env, aiperf::tell(strip(rest, "profile"))),
        ("perf_analyzer", _) => without_env(&env, perf_analyzer::tell(rest)),
        ("benchmark_core_model.py", _) => without_env(&env, core_model::tell(rest)),
        ("fill_template.py", _) => without_env(&env, fill_template::tell(rest)),
        ("llmb-run", _) => without_env(&env, llmb::tell(rest)),
        ("triton", _) => without_env(&env, triton_cli::tell(rest)),
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

/// Variables in front, the first argument of the command, the tool's name, and the arguments behind it.
pub(super) fn parts(words: &[String]) -> Result<(Env, &str, &str, &[String]), Vec<String>> {
    let mut env = Env::default();
    let mut rest = words;
    while let Some((word, more)) = rest.split_first() {
        match assignment(word) {
            Some((name, value)) if name != "RUN_ARGS" => env.0.push((name.to_owned(), value.to_owned())),
            _ if AROUND.contains(&word.as_str()) => {}
            _ => break,
        }
        rest = more;
    }
    let Some((program, rest)) = rest.split_first() else {
        return Err(vec!["there is no command in the line".to_owned()]);
    };
    let name = base(program);
    if is_python(name) {
        let (script, rest) = script(rest)?;
        return Ok((env, program, script, rest));
    }
    Ok((env, program, name, rest))
}

/// Variables change what none of these do.
fn without_env(env: &Env, told: Result<Translation, Vec<String>>) -> Result<Translation, Vec<String>> {
    let mut told = told?;
    for (name, _) in &env.0 {
        let mut sheet = TranslationBuilder::default();
        sheet.leave(format!("{name}=…"), "the tool that reads it is not run; a stage has `env`");
        told.left.extend(sheet.left);
    }
    Ok(told)
}

fn strip<'a>(words: &'a [String], first: &str) -> &'a [String] {
    match words.split_first() {
        Some((word, rest)) if word == first => rest,
        _ => words,
    }
}

/// `NAME=VALUE`
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The script or module that Python runs, and its arguments.
fn script(words: &[String]) -> Result<(&str, &[String]), Vec<String>> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.as_str() {
            "-m" => {
                let module = words.get(at).map(String::as_str).unwrap_or_default();
                return Ok((module, words.get(at + 1..).unwrap_or_default()));
            }
            word if word.starts_with('-') => {}
            word => return Ok((base(word), &words[at..])),
        }
    }
    Err(vec!["there is no script behind python".to_owned()])
}
