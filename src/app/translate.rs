//! `import` of command lines and configs: what another tool's options mean here, printed as something that can be run.
//!
//! stdout gets a manifest, or command lines for a shell; at its top what is not quite the same, and what could not be
//! carried over. stderr gets how much that is.

use crate::units::shell_word;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{bench, imported_run};
use crate::app::error::CommandError;
use crate::app::output::{print, print_error};
use crate::cli::{self, CliExit, CliJob, Global};
use crate::interop::{TranslatedBench, Translation, TranslationKind, origin, read_config, read_line, read_script};
use crate::manifest::shipped;

/// A command line.
pub(super) fn line(global: &Global, words: &[String]) -> Result<CliExit, CommandError> {
    let translation = read_line(words).map_err(|faults| usage_error(&faults))?;
    print_translation(global, translation)
}

/// A script of command lines.
pub(super) fn script(global: &Global, path: &Path) -> Result<CliExit, CommandError> {
    let name = path.display().to_string();
    let text =
        fs::read_to_string(path).map_err(|error| anyhow::Error::from(error).context(format!("cannot read {name}")))?;
    let translation = read_script(&name, &text).map_err(|faults| usage_error(&faults))?;
    print_translation(global, translation)
}

/// Configs of NVIDIA's MLPerf code.
pub(super) fn configs(paths: &[PathBuf], pick: &[String]) -> Result<CliExit, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot read {name}")))?;
        files.push((name, text));
    }
    let shape = |benchmark: &str| {
        let path = format!("manifests/models/{benchmark}.yaml");
        let (_, bytes) = shipped().find(|(name, _)| *name == path)?;
        let found: Value = serde_yaml::from_slice(bytes).ok()?;
        found.pointer("/vars/model").cloned()
    };
    let translation = read_config(&files, pick, &shape).map_err(|faults| usage_error(&faults))?;
    let TranslationKind::Manifest(manifest) = &translation.kind else { return Ok(CliExit::Done) };
    print_command(&translation, &[], &yaml(manifest)?);
    Ok(CliExit::Done)
}

fn usage_error(faults: &[String]) -> CommandError {
    CommandError::Usage(faults.join("\n  "))
}

fn print_translation(global: &Global, mut translation: Translation) -> Result<CliExit, CommandError> {
    match std::mem::replace(&mut translation.kind, TranslationKind::Commands(Vec::new())) {
        TranslationKind::Manifest(manifest) => print_command(&translation, &[], &yaml(&manifest)?),
        TranslationKind::Bench(line) => {
            let (manifest, same) = measured(&line, &mut translation)?;
            print_command(&translation, &same, &yaml(&manifest)?);
        }
        TranslationKind::Pipeline(mut stages, line) => {
            let (mut manifest, same) = measured(&line, &mut translation)?;
            let mut bench = manifest.get_mut("stages").and_then(|stages| stages.get_mut("bench")).map(Value::take);
            if let Some(target) = bench.as_mut().and_then(|stage| stage.pointer_mut("/bench/target"))
                && stages.contains_key("triton")
            {
                *target = json!("{{ stages.triton }}");
            }
            stages.insert("run_harness".to_owned(), bench.unwrap_or_default());
            manifest.insert("name".to_owned(), json!("script"));
            manifest.insert("stages".to_owned(), Value::Object(stages));
            print_command(&translation, &same, &yaml(&manifest)?);
        }
        TranslationKind::Run(line) => {
            let command = imported_run::command(global, &line, &mut translation)?;
            print_command(&translation, &[], &command);
        }
        TranslationKind::Commands(commands) => {
            let text: String = commands.iter().map(|words| shell(words) + "\n").collect();
            print_command(&translation, &[], &text);
        }
    }
    Ok(CliExit::Done)
}

/// The manifest of a bench line, and the comment at its head about the line itself.
fn measured(
    line: &TranslatedBench,
    translation: &mut Translation,
) -> Result<(Map<String, Value>, Vec<String>), CommandError> {
    let words = ["regatta", "bench"].map(str::to_owned).into_iter().chain(line.args.iter().cloned());
    let words: Vec<String> = words.collect();
    let request = cli::parse(words.clone()).map_err(|refused| {
        CommandError::Usage(format!("{} becomes `{}`, which is refused:\n{refused}", translation.tool, shell(&words)))
    })?;
    let CliJob::Bench(request) = request.job else {
        return Err(CommandError::Usage(format!("`{}` is no measurement", shell(&words))));
    };
    translation.notes.extend(request.notices.iter().cloned());
    let mut manifest = bench::manifest::manifest(&request)?;
    manifest.insert("about".to_owned(), json!(origin(translation.tool)));
    let mut same = vec![format!("in one line: {}", shell(&words))];
    if let Some(stage) = manifest.get_mut("stages").and_then(|stages| stages.get_mut("bench")) {
        if let Some(keys) = stage.get_mut("bench").and_then(Value::as_object_mut) {
            for (key, value) in &line.keys {
                match (keys.get_mut(key), value) {
                    (Some(Value::Object(before)), Value::Object(more)) => before.extend(more.clone()),
                    _ => {
                        keys.insert(key.clone(), value.clone());
                    }
                }
            }
            if let Some(sweep) = &line.sweep {
                keys.insert(sweep.key.to_owned(), sweep.template.clone());
            }
        }
        if let (Some(sweep), Some(stage)) = (&line.sweep, stage.as_object_mut()) {
            stage.shift_insert(0, "foreach".to_owned(), json!({ sweep.key: sweep.values }));
            same = vec![format!("for each of {} values: {}", sweep.values.len(), shell(&words))];
        }
    }
    if !line.keys.is_empty() {
        let keys: Vec<&str> = line.keys.keys().map(String::as_str).collect();
        same.push(format!("the line has no option for {}, the manifest has", keys.join(", ")));
    }
    Ok((manifest, same))
}

fn yaml(manifest: &Map<String, Value>) -> Result<String, CommandError> {
    serde_yaml::to_string(manifest).map_err(|error| anyhow::Error::from(error).into())
}

/// The text, below the notes on it.
fn print_command(translation: &Translation, same: &[String], text: &str) {
    let mut head = format!("# {}.\n", origin(translation.tool).replacen("from", "From", 1));
    let mut list = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(head, "# {title}");
            for line in lines {
                let _ = writeln!(head, "#   {}", line.replace('\n', " "));
            }
        }
    };
    list("The same:", same);
    list("Not quite the same:", &translation.notes);
    let left: Vec<String> =
        translation.untranslated.iter().map(|one| format!("{}: {}", one.argument, one.why)).collect();
    list("Not translated:", &left);
    print(&format!("{head}{text}"));
    if !left.is_empty() {
        let what = if left.len() == 1 { "1 part" } else { &format!("{} parts", left.len()) };
        print_error(&format!(
            "note: {what} could not be translated; the comment at the top lists it with the reason\n"
        ));
    }
}

fn shell(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
