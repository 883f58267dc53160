//! `regatta repository check | fill | parameters`: Triton model repositories, outside any run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::project::colored;
use crate::cli::{CliExit, Global, KeyValueArg, RepositoryFill, RepositoryRequest};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::diag::CheckProblem;
use base::files::{parse_yaml, read_text};
use base::units::counted;
use report::{Cell, Styler, Table};
use triton::repository::{FilledModel, PARAMETERS, Parameter, TreeError, Values, check, fill_tree, pairs};

pub(super) fn perform(global: &Global, request: &RepositoryRequest) -> Result<CliExit, CommandError> {
    match request {
        RepositoryRequest::Check { folder, engine, gpus, json } => {
            let checked = check(folder, engine.as_deref(), *gpus)?;
            let errors = checked.found.errors();
            if *json {
                let problems = CheckProblem::list(None, &checked.found);
                let result =
                    serde_json::json!({ "models": checked.models.len(), "errors": errors, "problems": problems });
                print(&format!("{result:#}\n"));
            } else {
                print_error(&checked.found.render(colored(global.color)));
                let warnings = checked.found.len() - errors;
                let (models, errors) = (counted(checked.models.len(), "model"), counted(errors, "error"));
                print(&format!("{}: {models}, {errors}, {}\n", folder.display(), counted(warnings, "warning")));
            }
            Ok(if errors > 0 { CliExit::Usage } else { CliExit::Done })
        }
        RepositoryRequest::Fill(request) => fill(request),
        RepositoryRequest::Parameters { json } => {
            print_as(global.styler(), *json, parameters_json, parameters);
            Ok(CliExit::Done)
        }
    }
}

fn fill(request: &RepositoryFill) -> Result<CliExit, CommandError> {
    let values = values(request)?;
    let models = fill_tree(&request.templates, &request.out, &values).map_err(|error| match error {
        TreeError::Diagnostics(found) => CommandError::Manifest(found),
        TreeError::Refused(what) => CommandError::Usage(what),
        error @ TreeError::Io { .. } => CommandError::Other(error.into()),
    })?;
    print(&report(&models));
    Ok(CliExit::Done)
}

/// All values, wherever they are set. Two different ones for one key are an error.
fn values(request: &RepositoryFill) -> Result<Values, CommandError> {
    let mut values = Values { allow_unfilled: request.allow_unfilled, ..Values::default() };
    let mut given: Vec<(Option<String>, String, String)> = Vec::new();
    if let Some(path) = &request.values {
        let text = read_text(path)
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot read {}", path.display())))?;
        let wrong = |what: String| CommandError::Usage(format!("{}: {what}", path.display()));
        let file: BTreeMap<String, serde_yaml::Value> = parse_yaml(&text).map_err(|error| wrong(error.to_string()))?;
        for (key, value) in file {
            match value {
                serde_yaml::Value::Mapping(own) => {
                    for (name, value) in own {
                        let name = scalar(&name).ok_or_else(|| wrong(format!("a key of `{key}` is not text")))?;
                        let value =
                            scalar(&value).ok_or_else(|| wrong(format!("`{key}.{name}` is not a single value")))?;
                        given.push((Some(key.clone()), name, value));
                    }
                }
                value => {
                    let value = scalar(&value).ok_or_else(|| wrong(format!("`{key}` is not a single value")))?;
                    given.push((None, key, value));
                }
            }
        }
    }
    if let Some(text) = &request.substitutions {
        let pairs = pairs(text).map_err(|what| CommandError::Usage(format!("--substitutions: {what}")))?;
        given.extend(pairs.into_iter().map(|(key, value)| (None, key, value)));
    }
    given.extend(request.settings.iter().map(|one| (None, one.key.clone(), one.value.clone())));
    for pair in request.model.chunks_exact(2) {
        let setting: KeyValueArg = pair[1].parse().map_err(CommandError::usage)?;
        given.push((Some(pair[0].clone()), setting.key, setting.value));
    }
    for (model, key, value) in given {
        let into = match &model {
            None => &mut values.all,
            Some(model) => values.of.entry(model.clone()).or_default(),
        };
        if let Some(before) = into.insert(key.clone(), value.clone()).filter(|before| *before != value) {
            return Err(CommandError::Usage(format!("`{key}` is given twice: `{before}` and `{value}`")));
        }
    }
    Ok(values)
}

fn scalar(value: &serde_yaml::Value) -> Option<String> {
    match value {
        serde_yaml::Value::Bool(switch) => Some(switch.to_string()),
        serde_yaml::Value::Number(number) => Some(number.to_string()),
        serde_yaml::Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The outcome for every placeholder.
fn report(models: &[FilledModel]) -> String {
    let mut text = String::new();
    for filled in models {
        let _ = writeln!(text, "{}", filled.path.display());
        for (name, value) in &filled.replaced {
            let _ = writeln!(text, "  {name} = {value}");
        }
        for name in &filled.unfilled {
            let _ = writeln!(text, "  {name} stays unfilled");
        }
    }
    text
}

fn parameters_json() -> serde_json::Value {
    let row = |one: &Parameter| {
        serde_json::json!({
            "name": one.name, "models": one.models, "key": one.key,
            "position": if one.is_bare { "bare" } else { "quoted" },
            "allowed": one.kind.to_string(), "default": one.default,
            "backend_default": one.unset, "about": one.about,
        })
    };
    PARAMETERS.iter().map(row).collect()
}

fn parameters(styler: Styler) -> String {
    let rows = |one: &Parameter| {
        let position = if one.is_bare { "bare" } else { "quoted" };
        let default = match (one.default, one.unset) {
            (Some(default), _) => default.to_owned(),
            (None, "") => "from the stage".to_owned(),
            (None, unset) => format!("not written; the backend's: {unset}"),
        };
        let kind = format!("{position}; {}; default {default}", one.kind);
        let about = format!("{} ({})", one.about, one.models.join(", "));
        [[Cell::name(one.name), kind.into()], [Cell::default(), about.into()]]
    };
    Table::list([], PARAMETERS.iter().flat_map(rows)).terminal(styler, "")
}
