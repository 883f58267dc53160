//! What stands around a command: variables in front of it, launchers, Python; and programs that do nothing here, with
//! what to do instead.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::options::{Opt, Takes, read};
use super::tool_table::{LauncherOptions, launchers};
use super::translation::{ProblemKind, TranslationBuilder, TranslationError, TranslationResult};
use base::diag::did_you_mean;
use base::spec::Quantity;
use base::units::is_identifier;

/// Variables that were set in front of the command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env(pub Vec<(String, String)>);

impl Env {
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// How many GPUs CUDA_VISIBLE_DEVICES names.
    pub fn gpus(&self, builder: &mut TranslationBuilder) -> Option<u64> {
        let (_, list) = self.0.iter().find(|(name, _)| name == "CUDA_VISIBLE_DEVICES")?;
        if list.contains("{{") {
            builder.push_untranslated(
                format!("CUDA_VISIBLE_DEVICES={list}"),
                "as many GPUs are leased as the other options need; `regatta run … --gpus` selects them",
            );
            return None;
        }
        let count = list.split(',').filter(|id| !id.trim().is_empty()).count() as u64;
        builder.note(format!(
            "CUDA_VISIBLE_DEVICES={list}: {} leased; `regatta run … --gpus {list}` selects them",
            if count == 1 { "1 GPU is".to_owned() } else { format!("{count} GPUs are") }
        ));
        Some(count)
    }

    /// Reports `CUDA_VISIBLE_DEVICES` where the lease decides which GPUs are visible.
    pub fn report_visible_gpus(&self, builder: &mut TranslationBuilder) {
        if self.has("CUDA_VISIBLE_DEVICES") {
            builder.push_untranslated(
                "CUDA_VISIBLE_DEVICES=…",
                "as many as the model needs are leased; `regatta run … --gpus` selects them",
            );
        }
    }

    /// A stage with these variables, and with secrets only by name: the GPUs that it leases, what it reads, and its
    /// action with the keys of that.
    pub fn stage(
        &self,
        gpus: Option<Quantity<u64>>,
        inputs: Map<String, Value>,
        action: &str,
        keys: Value,
    ) -> Map<String, Value> {
        let mut stage = Map::new();
        if let Some(gpus) = gpus {
            stage.insert("gpus".to_owned(), json!(gpus));
        }
        if !inputs.is_empty() {
            stage.insert("inputs".to_owned(), Value::Object(inputs));
        }
        let others = self.0.iter().filter(|(name, _)| name != "CUDA_VISIBLE_DEVICES");
        let (secrets, plain): (Vec<_>, Vec<_>) = others.partition(|(name, _)| is_secret(name));
        if !plain.is_empty() {
            let env: Map<String, Value> = plain.into_iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            stage.insert("env".to_owned(), Value::Object(env));
        }
        if !secrets.is_empty() {
            let names: Vec<&String> = secrets.into_iter().map(|(name, _)| name).collect();
            stage.insert("secrets".to_owned(), json!(names));
        }
        stage.insert(action.to_owned(), keys);
        stage
    }
}

/// Brings up the ranks of TensorRT-LLM.
pub(crate) const LAUNCHER: &str = "trtllm-llmapi-launch";
/// Prefixes of a command that do not change what it does, with the options that they take.
static LAUNCHERS: LazyLock<Vec<LauncherOptions>> = LazyLock::new(|| launchers(include_str!("../tools/launchers.toml")));

/// A command without what stands around it.
pub(crate) struct Program<'a> {
    pub env: Env,
    /// As it was written; the script or module where Python runs one.
    pub path: &'a str,
    /// Its last part.
    pub name: &'a str,
    pub arguments: &'a [String],
    /// Prefixes that were taken off: `numactl -N 0`, `trtllm-llmapi-launch`.
    pub around: Vec<Vec<String>>,
}

/// Variables in front, launchers, and the tool with its arguments.
pub(crate) fn program(words: &[String]) -> Result<Program<'_>, TranslationError> {
    let mut env = Env::default();
    let mut around: Vec<Vec<String>> = Vec::new();
    let mut rest = words;
    while let Some((word, more)) = rest.split_first() {
        match (assignment(word), launcher(rest)) {
            // Alone it is a line of its own.
            (Some((name, value)), _) if name != "RUN_ARGS" || more.iter().any(|word| word == "make") => {
                env.0.push((name.to_owned(), value.to_owned()));
                rest = more;
            }
            (_, Some((launcher, words))) => {
                let command = command_behind(word, launcher, &rest[words..]);
                let is_named = rest.len() - command.len() > words || word == LAUNCHER;
                if is_named && !(words == 2 && rest[1] == "run" && word != "docker-compose") {
                    around.push(rest[..rest.len() - command.len()].to_vec());
                }
                rest = command;
            }
            _ => break,
        }
    }
    let Some((path, rest)) = rest.split_first() else {
        return Err(TranslationError::new(ProblemKind::NoCommand));
    };
    let name = base(path);
    let (path, name, arguments) = if is_python(name) { script(rest)? } else { (path.as_str(), name, rest) };
    Ok(Program { env, path, name, arguments, around })
}

/// The launcher that words begin with, and how many of them are its name: `nice`, `uv run`, `docker exec`.
fn launcher(words: &[String]) -> Option<(&'static LauncherOptions, usize)> {
    let named = |name: &str| LAUNCHERS.iter().find(|(row, _)| row.names.iter().any(|other| other == name));
    if let Some(count) = compose_exec(words) {
        return Some((named("docker exec")?, count));
    }
    let count = words.len().min(2);
    (1..=count).find_map(|count| Some((named(&words[..count].join(" "))?, count)))
}

/// How many words `docker compose -f FILE exec` has, or `docker-compose run`.
fn compose_exec(words: &[String]) -> Option<usize> {
    let begin = match words {
        [docker, compose, ..] if docker == "docker" && compose == "compose" => 2,
        [compose, ..] if compose == "docker-compose" => 1,
        _ => return None,
    };
    let is_value = |at: usize| words[at - 1].starts_with('-') && !words[at - 1].contains('=');
    let at = (begin..words.len()).find(|at| !words[*at].starts_with('-') && !is_value(*at))?;
    ["exec", "run"].contains(&words[at].as_str()).then_some(at + 1)
}

/// The words after the options of a launcher. MPI's `--mca` takes two values. The command is taken to begin right after
/// an option that is not known here.
fn command_behind<'a>(name: &str, (row, table): &LauncherOptions, words: &'a [String]) -> &'a [String] {
    if name.starts_with("mpi") {
        let has_value = |name: &str| table.iter().any(|it| it.takes == Takes::One && it.names.contains(&name));
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
            at += match word.as_str() {
                "--mca" | "-mca" => 3,
                word => 1 + usize::from(has_value(word)),
            };
        }
        return words.get(at..).unwrap_or_default();
    }
    if let "nsys" | "ncu" | "taskset" = name {
        return command_behind_profiler(name, table, words);
    }
    let mut builder = TranslationBuilder::default();
    let line = read(name, table, words, &mut builder, true);
    let command = &words[words.len() - line.behind.len().max(line.plain.len())..];
    if !row.has_operand {
        return command;
    }
    // `kubectl exec POD -c NAME -- COMMAND`
    let is_end = |word: &String| word == "--" && ["kubectl", "oc"].contains(&name);
    let begin = command.iter().position(is_end).map_or(1, |at| at + 1);
    command.get(begin..).unwrap_or_default()
}

/// Every option of `nsys profile` has a value, those of `ncu` have one but for a few; `taskset` has a mask or a list
/// first.
fn command_behind_profiler<'a>(name: &str, flags: &[Opt], words: &'a [String]) -> &'a [String] {
    let mut at = usize::from(name == "nsys" && !words.is_empty());
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        let is_alone = match name {
            "taskset" => true,
            "ncu" => flags.iter().any(|flag| flag.names.contains(&word.as_str())) || word.contains('='),
            _ => word.contains('='),
        };
        at += if is_alone { 1 } else { 2 };
    }
    words.get(at + usize::from(name == "taskset")..).unwrap_or_default()
}

/// Programs around a benchmark.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramTable {
    /// The programs with supported command lines.
    tools: Vec<String>,
    /// Why what stands in front of a command has no place.
    prefixes: BTreeMap<String, String>,
    program: Vec<IdleProgram>,
}

/// A program, or a command of one, that changes nothing that is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdleProgram {
    names: Vec<String>,
    r#for: String,
    instead: String,
}

static TABLE: LazyLock<ProgramTable> =
    LazyLock::new(|| toml::from_str(include_str!("idle-programs.toml")).expect("a test reads the table"));

/// The programs with supported command lines.
pub(crate) fn tools() -> impl Iterator<Item = &'static str> + Clone {
    crate::tools::tools().map(|(name, _)| *name).chain(TABLE.tools.iter().map(String::as_str))
}

/// Why a prefix has no place.
pub(crate) fn prefix_reason(name: &str) -> &'static str {
    const USUAL: &str = "stages start their processes themselves, bound to the GPUs they lease";
    TABLE.prefixes.get(name).map_or(USUAL, String::as_str)
}

/// The sentence on a program or a command, which has a row of its own or that of all `others`: `docker *`.
pub(crate) fn idle(name: &str, others: &str) -> Option<TranslationResult> {
    let row = |name: &str| TABLE.program.iter().find(|program| program.names.iter().any(|other| other == name));
    let program = row(name).or_else(|| row(others))?;
    Some(TranslationBuilder::nothing(&program.r#for, format!("cannot translate `{name}`: {}", program.instead)))
}

/// The sentence on a command that must have one; a program without it is not known.
pub(crate) fn idle_command(name: &str, others: &str) -> TranslationResult {
    idle(name, others).unwrap_or_else(|| {
        let hint = did_you_mean(name, tools()).unwrap_or_default();
        Err(TranslationError::new(ProblemKind::UnknownProgram { name: name.to_owned(), hint }))
    })
}

/// Whether a variable holds a secret, by its name.
pub(crate) fn is_secret(name: &str) -> bool {
    ["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL"].iter().any(|word| name.to_uppercase().ends_with(word))
}

/// `NAME=VALUE`, and `NAME+=VALUE` with the `+` as a part of the name.
pub(crate) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    is_identifier(name.strip_suffix('+').unwrap_or(name)).then_some((name, value))
}

pub(crate) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The script or module that Python runs as it was written, its name, and its arguments.
fn script(words: &[String]) -> Result<(&str, &str, &[String]), TranslationError> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.as_str() {
            "-m" => {
                let module = words.get(at).map(String::as_str).unwrap_or_default();
                return Ok((module, module, words.get(at + 1..).unwrap_or_default()));
            }
            word if word.starts_with('-') => {}
            word => return Ok((word, base(word), &words[at..])),
        }
    }
    let hint = "there is no script after python".to_owned();
    Err(TranslationError::new(ProblemKind::UnknownProgram { name: "python".to_owned(), hint }))
}
