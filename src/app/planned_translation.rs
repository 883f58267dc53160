//! What an import prints is planned before it is printed: a manifest or a command that Regatta would refuse is an error
//! at the user's line.

use serde_json::{Map, Value};

use super::project::Project;
use crate::cli::{self, Global};
use crate::error::CommandError;
use crate::expression_guard::plan_text;
use base::diag::Diagnostic;
use base::units::shell_word;
use interop::Translation;
use plan::manifest::GivenValues;
use stages::{LaunchPreview, previews};

/// The name of the manifest in errors about it.
const NAME: &str = "the imported manifest";

/// The stage that an error is about, and the error.
type Refusal = (Option<String>, String);

/// Plans the text of a manifest.
///
/// # Errors
/// `regatta plan` would refuse it, whatever its parameters are: why, at the places of the user's text.
pub(super) fn check_manifest(
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
    lines.insert(0, "what this becomes cannot be planned:".to_owned());
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
pub(super) fn check_command(translation: &Translation, words: &[String]) -> Result<(), CommandError> {
    let has_open_value = words.iter().any(|word| translation.as_written(word) != *word);
    if has_open_value || words.first().is_none_or(|word| word != "regatta") {
        return Ok(());
    }
    cli::parse(words.to_vec()).map(drop).map_err(|refused| {
        let line = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        CommandError::Usage(format!("{} becomes `{line}`, which is refused:\n{refused}", translation.tool))
    })
}
