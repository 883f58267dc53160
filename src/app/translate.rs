//! `import` of command lines and configs: what another tool's options mean here, printed as something that can be run.
//!
//! stdout gets a manifest, or command lines for a shell; at its top what is not quite the same, and what could not be
//! carried over. stderr gets how much that is. It is an error where the line sends another load than what is printed.
//! For a line without a meaning here stdout stays empty: the sentence on it is an error.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::project::Project;
use super::{bench, imported_run};
use crate::cli::{self, CliExit, CliRequest, Global};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::expression_guard::plan_text;
use base::diag::Diagnostic;
use base::files::read_text;
use base::units::{counted, shell_word};
use interop::{
    RunLine, ScriptBench, Sweep, TranslatedBench, TranslatedScript, Translation, TranslationError, TranslationKind,
    origin, read_config, read_line, read_scripts,
};
use plan::manifest::{GivenValues, shipped};
use stages::previews;
use triton::launch::LaunchPreview;

/// A command line.
pub(super) fn line(global: &Global, words: &[String]) -> Result<CliExit, CommandError> {
    let translation = read_line(words).map_err(|error| usage_error(&error))?;
    print_translation(global, translation)
}

/// Scripts of command lines, each with its name.
pub(super) fn scripts(global: &Global, files: &[(String, String)]) -> Result<CliExit, CommandError> {
    let translation = read_scripts(files).map_err(|error| usage_error(&error))?;
    print_translation(global, translation)
}

/// Configs of NVIDIA's MLPerf code.
pub(super) fn configs(paths: &[PathBuf], pick: &[String]) -> Result<CliExit, CommandError> {
    let files = texts(paths)?;
    let shape = |benchmark: &str| {
        let path = format!("manifests/models/{benchmark}.yaml");
        let (_, bytes) = shipped().find(|(name, _)| *name == path)?;
        let config: Value = serde_yaml::from_slice(bytes).ok()?;
        config.pointer("/vars/model").cloned()
    };
    let translation = read_config(&files, pick, &shape).map_err(|error| usage_error(&error))?;
    let TranslationKind::Manifest(manifest) = &translation.kind else { return Ok(CliExit::Done) };
    print_command(&translation, &[], &yaml(manifest)?)
}

/// Files with their names.
pub(super) fn texts(paths: &[PathBuf]) -> Result<Vec<(String, String)>, CommandError> {
    let named = paths.iter().map(|path| (path.display().to_string(), path));
    let read = |(name, path): (String, &PathBuf)| match read_text(path) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(anyhow::Error::from(error).context(format!("cannot read {name}")).into()),
    };
    named.map(read).collect()
}

fn usage_error(error: &TranslationError) -> CommandError {
    CommandError::Usage(error.to_string().replace('\n', "\n  "))
}

fn print_translation(global: &Global, mut translation: Translation) -> Result<CliExit, CommandError> {
    match std::mem::replace(&mut translation.kind, TranslationKind::Commands(Vec::new())) {
        TranslationKind::Manifest(mut manifest) => {
            translation.notes.extend(server_alone(&manifest));
            let text = planned_text(global, &translation, &mut manifest)?;
            print_command(&translation, &[], &text)
        }
        TranslationKind::Bench(line) => {
            let (mut manifest, same) = measured(&line, &mut translation)?;
            let text = planned_text(global, &translation, &mut manifest)?;
            print_command(&translation, &same, &text)
        }
        TranslationKind::Script(script) => print_script(global, script, &mut translation),
        TranslationKind::Run(line) => {
            let command = imported_run::command(global, &line, None, &mut translation)?;
            print_command(&translation, &[], &command)
        }
        TranslationKind::Commands(commands) => {
            commands.iter().try_for_each(|words| check_command(&translation, words))?;
            let text: String = commands.iter().map(|words| line_of(&translation, words) + "\n").collect();
            print_command(&translation, &[], &text)
        }
        TranslationKind::Container(container) => {
            let block = yaml(&Map::from_iter([("container".to_owned(), Value::Object(container))]))?;
            let reason = "cannot translate a container alone: a stage runs its programs in one, with";
            let block = translation.as_written(block.trim_end());
            Err(CommandError::Usage(format!("{reason}\n{}", indented(&block))))
        }
        // There is nothing to run: what follows in the user's shell must not go on as if there were.
        TranslationKind::Nothing(reason) => {
            let lines = std::iter::once(translation.as_written(&reason)).chain(remarks(&translation, &[]));
            Err(CommandError::Usage(lines.collect::<Vec<_>>().join("\n  ")))
        }
    }
}

/// One manifest of all stages and benchmarks; without any, the commands.
fn print_script(
    global: &Global,
    script: TranslatedScript,
    translation: &mut Translation,
) -> Result<CliExit, CommandError> {
    let TranslatedScript { mut stages, benches, runs, mut commands } = script;
    commands.iter().try_for_each(|words| check_command(translation, words))?;
    let is_text = stages.is_empty() && (!runs.is_empty() || benches.is_empty());
    let serving = runs.iter().rposition(|run| run.serves).filter(|_| is_text);
    let (served, benches): (Vec<_>, Vec<_>) = benches.into_iter().partition(|bench| bench.run.is_some());
    let keys = served.iter().filter_map(|bench| keys_without_option(&bench.bench));
    let has_no = |keys: String| format!("`regatta bench` has no option for {keys}: a manifest of its line has it");
    translation.notes.extend(keys.map(has_no));
    let mut lines = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        // While servers stay up, what follows them is run.
        let mut then: Vec<Vec<String>> =
            served.iter().filter(|bench| bench.run == Some(at)).map(|bench| bench_words(&bench.bench)).collect();
        if serving == Some(at) {
            then.append(&mut commands);
        }
        let then = then.into_iter().map(|words| line_of(translation, &bound(words, run)));
        let then = then.collect::<Vec<_>>().join(" && ");
        // The shell of the command knows the server's address.
        let then = (!then.is_empty()).then(|| format!("sh -c {}", shell_word(&then)));
        lines.push(imported_run::command(global, run, then.as_deref(), translation)?);
    }
    if is_text {
        let words = benches.iter().map(|bench| bench_words(&bench.bench)).chain(commands);
        lines.extend(words.map(|words| line_of(translation, &words) + "\n"));
        return print_command(translation, &[], &lines.concat());
    }
    lines.extend(commands.iter().map(|words| line_of(translation, words)));
    let mut same = Vec::new();
    let mut head = Map::new();
    for ScriptBench { server, bench, place, .. } in &benches {
        let (mut manifest, lines) = measured(bench, translation)?;
        same.extend(lines);
        let mut stage = manifest.get_mut("stages").and_then(|stages| stages.get_mut("bench")).map(Value::take);
        if let (Some(target), Some(server)) =
            (stage.as_mut().and_then(|stage| stage.pointer_mut("/bench/target")), server)
        {
            *target = json!(format!("{{{{ stages.{server} }}}}"));
        }
        let number = stages.keys().filter(|name| name.starts_with("run_harness")).count() + 1;
        let name = if number == 1 { "run_harness".to_owned() } else { format!("run_harness_{number}") };
        translation.places.push((name.clone(), place.clone()));
        stages.insert(name, stage.unwrap_or_default());
        head = manifest;
    }
    head.insert("regatta".to_owned(), json!(1));
    head.insert("name".to_owned(), json!("script"));
    head.insert("about".to_owned(), json!(origin(translation.tool)));
    head.shift_remove("stages");
    head.insert("stages".to_owned(), Value::Object(stages));
    translation.notes.extend(lines.iter().map(|line| format!("beside the manifest: {}", line.trim_end())));
    let text = planned_text(global, translation, &mut head)?;
    print_command(translation, &same, &text)
}

/// A command for the server that `run` keeps up: its addresses and its model are in the environment of the command.
fn bound(mut words: Vec<String>, run: &RunLine) -> Vec<String> {
    let is_here = |word: &str| {
        let host = word.split_once("://").map_or(word, |(_, rest)| rest);
        ["localhost", "127.0.0.1", "0.0.0.0"].iter().any(|local| host.starts_with(local))
    };
    let is_local = words.iter().any(|word| is_here(word));
    let address =
        match words.iter().find(|word| *word == "metrics" || *word == "generate" || word.starts_with("openai-")) {
            Some(word) if word == "metrics" => "$REGATTA_METRICS",
            Some(_) => "$REGATTA_HTTP",
            None => "$REGATTA_GRPC",
        };
    for word in words.iter_mut().filter(|_| is_local) {
        if is_here(word) {
            address.clone_into(word);
        } else if run.manifests.contains(word) {
            "$REGATTA_MODEL".clone_into(word);
        }
    }
    words
}

/// What to do with a server that no stage of the manifest measures.
fn server_alone(manifest: &Map<String, Value>) -> Vec<String> {
    let stages = manifest.get("stages").and_then(Value::as_object);
    let all_stages = || stages.into_iter().flatten();
    if all_stages().any(|(_, stage)| stage.get("bench").is_some()) {
        return Vec::new();
    }
    let servers = all_stages().filter(|(_, stage)| stage.get("serve").is_some());
    let sentences = servers.map(|(name, _)| {
        format!(
            "`regatta serve FILE {name}` starts it and keeps it up; a `bench` whose target is `{{{{ stages.{name} \
            }}}}` measures it. `regatta plan FILE --launch` prints every process that is started"
        )
    });
    sentences.collect()
}

/// The text of a manifest that can be planned, with a parameter for each value that must come from the user.
fn planned_text(
    global: &Global,
    translation: &Translation,
    manifest: &mut Map<String, Value>,
) -> Result<String, CommandError> {
    let mut stages = manifest.get("stages").cloned().unwrap_or_default();
    let params = translation.parameters(&mut stages);
    manifest.insert("stages".to_owned(), stages);
    if !params.is_empty() {
        let at = manifest.keys().position(|key| key == "stages").unwrap_or(0);
        manifest.shift_insert(at, "params".to_owned(), Value::Object(params));
    }
    let text = yaml(manifest)?;
    check_manifest(global, translation, &text, &remarks(translation, &[]))?;
    Ok(text)
}

/// A command line with its unknown values as the shell has them.
fn line_of(translation: &Translation, words: &[String]) -> String {
    let words = words.iter().map(|word| {
        let written = translation.as_written(word);
        // A variable is for the shell to fill in.
        let is_variable = written.contains(['$', '`']) && written != *word;
        if is_variable || word.starts_with("$REGATTA_") { format!("\"{written}\"") } else { shell_word(&written) }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn bench_words(line: &TranslatedBench) -> Vec<String> {
    ["regatta", "bench"].map(str::to_owned).into_iter().chain(line.args.iter().cloned()).collect()
}

/// A line of `regatta bench` for each value of a sweep, in which `VALUE` stands for it.
fn swept_line(sweep: &Sweep, mut words: Vec<String>, translation: &Translation) -> String {
    let at = sweep.option.and_then(|option| words.iter().position(|word| word == option));
    match at.and_then(|at| words.get_mut(at + 1)) {
        Some(word) => {
            "VALUE".clone_into(word);
            let values = sweep.values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("for each of {values} as VALUE: {}", line_of(translation, &words))
        }
        None => format!(
            "for each of {} values of `{}`, for which the line has no option: {}",
            sweep.values.len(),
            sweep.key,
            line_of(translation, &words)
        ),
    }
}

/// The keys that the line of a measurement has no option for. What is not known yet, an address or a tokenizer, the
/// line describes in words.
fn keys_without_option(line: &TranslatedBench) -> Option<String> {
    let is_described = |key: &str| key == "target" || line.args.iter().any(|word| word.strip_prefix("--") == Some(key));
    let keys = line.keys.iter().filter(|(key, value)| !(value.is_null() || value.is_string() && is_described(key)));
    let names = keys.flat_map(|(key, value)| match value {
        Value::Object(parts) if !key.ends_with("_tokens") => parts.keys().map(|part| format!("{key}.{part}")).collect(),
        _ => vec![key.clone()],
    });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The manifest of a bench line, and the comment at its head about the line itself.
fn measured(
    line: &TranslatedBench,
    translation: &mut Translation,
) -> Result<(Map<String, Value>, Vec<String>), CommandError> {
    let words = bench_words(line);
    let invocation = cli::parse(words.clone()).map_err(|refused| {
        let text = format!("{} becomes `{}`, which is refused:\n{refused}", translation.tool, shell(&words));
        CommandError::Usage(translation.as_written(&text))
    })?;
    let CliRequest::Bench(request) = invocation.request else {
        return Err(CommandError::Usage(format!("`{}` is not a measurement", shell(&words))));
    };
    translation.notes.extend(request.notices.iter().cloned());
    let mut manifest = bench::manifest::manifest(&request)?;
    manifest.insert("about".to_owned(), json!(origin(translation.tool)));
    let mut same = vec![format!("in one line: {}", line_of(translation, &words))];
    if let Some(stage) = manifest.get_mut("stages").and_then(|stages| stages.get_mut("bench")) {
        if let Some(keys) = stage.get_mut("bench").and_then(Value::as_object_mut) {
            for (key, value) in &line.keys {
                match (keys.get_mut(key), value) {
                    // A length is one of several forms: they do not mix.
                    (Some(Value::Object(before)), Value::Object(more)) if !key.ends_with("_tokens") => {
                        before.extend(more.clone());
                    }
                    (_, Value::Null) => {
                        keys.shift_remove(key);
                    }
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
            same = vec![swept_line(sweep, words.clone(), translation)];
        }
    }
    if let Some(keys) = keys_without_option(line) {
        same.push(format!("set only in the manifest, `regatta bench` has no option for it: {keys}"));
    }
    Ok((manifest, same))
}

fn yaml(manifest: &Map<String, Value>) -> Result<String, CommandError> {
    serde_yaml::to_string(manifest).map_err(|error| anyhow::Error::from(error).into())
}

/// What there is to say about a translation, line by line.
fn remarks(translation: &Translation, same: &[String]) -> Vec<String> {
    let left: Vec<String> =
        translation.untranslated.iter().map(|option| format!("{}: {}", option.argument, option.why)).collect();
    let lists = [("The same:", same), ("Not quite the same:", &translation.notes), ("Not translated:", &left)];
    let mut remarks = Vec::new();
    for (title, lines) in lists.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        remarks.push(title.to_owned());
        remarks.extend(lines.iter().map(|line| format!("  {}", translation.as_written(&line.replace('\n', " ")))));
    }
    remarks
}

/// Prints the text, below the notes on it.
///
/// # Errors
/// Without the options that have no place it is another load.
fn print_command(translation: &Translation, same: &[String], text: &str) -> Result<CliExit, CommandError> {
    let head = format!("{}.", origin(translation.tool).replacen("from", "From", 1));
    let lines = std::iter::once(head).chain(remarks(translation, same));
    print(&(lines.map(|line| ["# ", &line, "\n"].concat()).collect::<String>() + text));
    let untranslated = &translation.untranslated;
    let load = untranslated.iter().filter(|option| option.is_workload);
    let load: Vec<String> = load.map(|option| format!("`{}`", translation.as_written(&option.argument))).collect();
    if !load.is_empty() {
        return Err(CommandError::hinted(
            format!("the printed text sends a different load than the line, because it lacks {}", load.join(", ")),
            "the comment at the top has the reason; without it the line is imported in full",
        ));
    }
    if !untranslated.is_empty() {
        let count = counted(untranslated.len(), "part");
        print_error(&format!(
            "note: {count} could not be translated; the comment at the top lists it with the reason\n"
        ));
    }
    Ok(CliExit::Done)
}

fn shell(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

// What an import prints is planned before it is printed: a manifest or a command that Regatta would refuse is an error
// at the user's line.

/// The name of the manifest in errors about it.
const NAME: &str = "the imported manifest";

/// The stage that an error is about, and the error.
type Refusal = (Option<String>, String);

/// Plans the text of a manifest.
///
/// # Errors
/// `regatta plan` would refuse it, whatever its parameters are: why, at the places of the user's text.
fn check_manifest(
    global: &Global,
    translation: &Translation,
    text: &str,
    remarks: &[String],
) -> Result<(), CommandError> {
    /// Values of parameters that are texts: a folder, the address of a server, a port.
    const TEXTS: [&str; 3] = ["/x", "http://localhost:8000", "8000"];
    /// Of those that are numbers: a share, a rate.
    const NUMBERS: [&str; 2] = ["0.5", "8"];
    let project = Project::open_current(global)?;
    let manifest: Value = serde_yaml::from_str(text).map_err(anyhow::Error::from)?;
    let params = manifest.get("params").and_then(Value::as_object);
    let mut refusals = Vec::new();
    for (text_value, number) in NUMBERS.iter().flat_map(|number| TEXTS.map(|text_value| (text_value, *number))) {
        let refused = refusals_with(&project, text, &given(params, text_value, number))?;
        if refused.is_empty() {
            return Ok(());
        }
        refusals = if refusals.is_empty() { refused } else { refusals };
    }
    let mut lines: Vec<String> =
        refusals.iter().map(|refusal| translation.as_written(&at_its_place(translation, refusal))).collect();
    lines.dedup();
    lines.insert(0, "the translation cannot be planned:".to_owned());
    lines.extend(remarks.iter().cloned());
    Err(CommandError::Usage(lines.join("\n  ")))
}

/// A value for each parameter that has none.
fn given(params: Option<&Map<String, Value>>, text: &str, number: &str) -> GivenValues {
    let value = |param: &Value| match param {
        _ if param.get("int").is_some() => "8",
        _ if param.get("number").is_some() => number,
        // It must be there.
        _ if param.get("path").is_some() => ".",
        _ => text,
    };
    let values = params.into_iter().flatten().map(|(name, param)| (name.clone(), value(param).to_owned()));
    GivenValues { params: values.collect(), ..GivenValues::default() }
}

/// Why it cannot be planned, or why its servers cannot be started, whatever is on the machine.
fn refusals_with(project: &Project, text: &str, given: &GivenValues) -> Result<Vec<Refusal>, CommandError> {
    let plan = match plan_text(&project.manifests, NAME, text, given) {
        Ok(plan) => plan,
        Err(found) => {
            let refusal = |error: &Diagnostic| {
                let stage = error.primary.as_ref().and_then(|label| stage_at(text, label.span.line()));
                (stage, std::iter::once(&error.message).chain(&error.hints).cloned().collect::<Vec<_>>().join(": "))
            };
            return Ok(found.sorted().into_iter().map(refusal).collect());
        }
    };
    let mut refusals = Vec::new();
    for preview in previews(&plan, &vec![true; plan.tasks.len()], project.home.project())? {
        if let LaunchPreview::Impossible { problems, is_certain: true } = preview.launch {
            let stage =
                plan.tasks.iter().find(|task| task.id.to_string() == preview.task).map(|task| task.stage.clone());
            refusals.extend(problems.into_iter().map(|problem| (stage.clone(), problem.message)));
        }
    }
    Ok(refusals)
}

/// The stage that a line of a manifest belongs to.
fn stage_at(text: &str, line: usize) -> Option<String> {
    let is_name = |line: &&str| line.starts_with("  ") && !line[2..].starts_with([' ', '-']) && line.ends_with(':');
    let above: Vec<&str> = text.lines().take(line).collect();
    let begin = above.iter().position(|line| *line == "stages:")?;
    above[begin..].iter().rfind(|line| is_name(line)).map(|line| line.trim().trim_end_matches(':').to_owned())
}

fn at_its_place(translation: &Translation, (stage, message): &Refusal) -> String {
    let named = translation.places.iter().find(|(name, _)| Some(name) == stage.as_ref());
    let only = || translation.places.first().filter(|_| translation.places.len() == 1);
    match (named.or_else(only), stage) {
        (Some((_, place)), _) => format!("{place}: {message}"),
        (None, Some(stage)) => format!("stage `{stage}`: {message}"),
        (None, None) => message.clone(),
    }
}

/// Parses a command of Regatta that is printed.
///
/// # Errors
/// Regatta would refuse it.
fn check_command(translation: &Translation, words: &[String]) -> Result<(), CommandError> {
    let has_open_value = words.iter().any(|word| translation.as_written(word) != *word);
    if has_open_value || words.first().is_none_or(|word| word != "regatta") {
        return Ok(());
    }
    cli::parse(words.to_vec()).map(drop).map_err(|refused| {
        CommandError::Usage(format!("{} becomes `{}`, which is refused:\n{refused}", translation.tool, shell(words)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_for_a_server_that_is_kept_up_has_its_address_from_the_environment() {
        let run = RunLine { manifests: vec!["gpt2".to_owned()], serves: true, ..RunLine::default() };
        for (line, bound) in [
            (
                "regatta bench localhost:8001 --model gpt2 --protocol kserve",
                "regatta bench $REGATTA_GRPC --model $REGATTA_MODEL --protocol kserve",
            ),
            (
                "regatta bench http://127.0.0.1:8000 --model other --protocol openai-chat",
                "regatta bench $REGATTA_HTTP --model other --protocol openai-chat",
            ),
            ("regatta triton metrics localhost:8002", "regatta triton metrics $REGATTA_METRICS"),
            ("regatta bench gpu7:8001 --model gpt2", "regatta bench gpu7:8001 --model gpt2"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(super::bound(words, &run).join(" "), bound);
        }
        let words = ["regatta", "bench", "$REGATTA_GRPC"].map(str::to_owned);
        let translation = interop::read_line(&["genai-perf", "-m", "m"].map(str::to_owned)).expect("a line");
        assert_eq!(line_of(&translation, &words), "regatta bench \"$REGATTA_GRPC\"");
    }
}
