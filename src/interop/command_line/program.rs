//! What stands around a command: variables in front of it, launchers, Python.

use serde_json::{Map, Value, json};

use super::translation::TranslationBuilder;

/// Variables that were set in front of the command.
#[derive(Clone, Debug, Default)]
pub(in crate::interop) struct Env(pub Vec<(String, String)>);

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

/// Brings up the ranks of TensorRT-LLM.
pub(super) const LAUNCHER: &str = "trtllm-llmapi-launch";
/// Prefixes of a command that do not change what it does.
const AROUND: [&str; 6] = ["sudo", "time", "nohup", "exec", LAUNCHER, "env"];

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
