//! `fill_template.py`: values for the `config.pbtxt` of one model of the TensorRT-LLM backend.
//!
//! With an engine it is a `repository:` stage, which writes all five files from pristine templates and knows every
//! name; without one it is `regatta repository fill`, which fills the files that are there.

use serde_json::{Map, Value, json};

use crate::command_line::{Opt, TranslationBuilder, TranslationKind, TranslationResult, flag, read};
use base::diag::did_you_mean;
use triton::repository::{MODELS, PARAMETERS, Parameter, pairs};

const TOOL: &str = "fill_template.py";

/// Placeholders that templates of earlier releases had, without an effect since.
const OLD_PLACEHOLDERS: [&str; 2] = ["tokenizer_type", "enable_trt_overlap"];

static TABLE: &[Opt] = &[flag(&["--in_place", "-i"])];

/// One file and its values.
#[derive(Clone, Debug)]
pub(crate) struct FilledFile {
    /// The folder above the model's.
    pub tree: String,
    pub model: String,
    pub values: Vec<(String, String)>,
}

pub(crate) fn translate(words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let Some(filled) = filled(words, &mut builder) else {
        return builder.finish(TOOL, TranslationKind::Commands(Vec::new()));
    };
    if let Some(stage) = repository(std::slice::from_ref(&filled), &mut builder) {
        builder.note(
            "`models` of the stage names which of the five models are written; the other files of a model \
            come from `files`",
        );
        if filled.tree.contains("{{") {
            builder
                .note(format!("the files in `{}` are not changed: the stage writes a folder of its own", filled.tree));
        }
        let stage = json!({"repository": stage});
        return builder.finish_manifest(TOOL, "repository", [("generate_triton_config", stage)]);
    }
    // The other models of the tree have lines of their own.
    let FilledFile { tree, model, values } = &filled;
    let (folder, out) = (format!("{}/{model}", tree.trim_end_matches('/')), format!("filled/{model}"));
    let mut command =
        ["regatta", "repository", "fill", &folder, "--out", &out, "--allow-unfilled"].map(str::to_owned).to_vec();
    command.extend(values.iter().map(|(name, value)| format!("{name}={value}")));
    builder.note(
        "files are filled from pristine templates into a new folder, never in place: a second run changes nothing",
    );
    builder.finish(TOOL, TranslationKind::Commands(vec![command]))
}

/// Reads `[-i] FILE key:value,key:value`.
pub(crate) fn filled(words: &[String], builder: &mut TranslationBuilder) -> Option<FilledFile> {
    let line = read(TOOL, TABLE, words, builder, false);
    let [file, text] = line.plain.as_slice() else {
        builder.push_error(format!("{TOOL} takes a file and `key:value,key:value`"));
        return None;
    };
    let mut steps = file.rsplit('/');
    let (name, model) = (steps.next().unwrap_or_default(), steps.next().unwrap_or_default());
    if !name.starts_with("config.pbtxt") || model.is_empty() {
        builder.push_error(format!("`{file}` is not MODEL/config.pbtxt"));
        return None;
    }
    let tree = steps.rev().collect::<Vec<_>>().join("/");
    let tree = if tree.is_empty() { if file.starts_with('/') { "/" } else { "." }.to_owned() } else { tree };
    let values = match pairs(text) {
        Ok(values) => values,
        Err(why) => {
            builder.push_error(why.to_string());
            return None;
        }
    };
    let (old, values): (Vec<_>, Vec<_>) =
        values.into_iter().partition(|(name, _)| OLD_PLACEHOLDERS.contains(&name.as_str()));
    for (name, value) in old {
        builder.push_untranslated(format!("{model}: {name}:{value}"), "current templates have no such placeholder");
    }
    // The templates of other models are not shipped here.
    for (name, _) in values.iter().filter(|_| MODELS.contains(&model)) {
        if !PARAMETERS.iter().any(|parameter| parameter.name == name) {
            let hint = did_you_mean(name, PARAMETERS.iter().map(|parameter| parameter.name)).unwrap_or_default();
            builder.push_error(format!("`{name}` of {model} is not a known placeholder of the templates; {hint}"));
        }
    }
    for (name, value) in values.iter().filter(|(_, value)| value.contains('$')) {
        builder.push_error(format!("`{name}:{value}`: a variable of your shell; give its value"));
    }
    Some(FilledFile { tree, model: model.to_owned(), values })
}

/// The `repository:` stage for the filled templates; none without an engine.
pub(crate) fn repository(files: &[FilledFile], builder: &mut TranslationBuilder) -> Option<Value> {
    let find = |name: &str| {
        files.iter().flat_map(|file| &file.values).find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    let engine = find("engine_dir")?;
    let mut stage = Map::from_iter([("engine".to_owned(), json!(engine))]);
    let mut parameters = Map::new();
    for file in files.iter().filter(|file| MODELS.contains(&file.model.as_str())) {
        for (name, value) in &file.values {
            match name.as_str() {
                "engine_dir" => {}
                "tokenizer_dir" => {
                    stage.insert("tokenizer".to_owned(), json!(value));
                }
                "decoupled_mode" if value.contains("{{") => {
                    builder.push_untranslated(
                        format!("decoupled_mode:{value}"),
                        "the text does not set that value, and `streaming` of the stage is false: set that",
                    );
                    stage.insert("streaming".to_owned(), json!(false));
                }
                "decoupled_mode" => {
                    stage.insert(
                        "streaming".to_owned(),
                        json!(matches!(value.as_str(), "true" | "True" | "TRUE" | "1")),
                    );
                }
                _ => match parameters.insert(name.clone(), typed(value)) {
                    Some(before) if before != typed(value) => builder.push_error(format!(
                        "`{name}` is {before} in one file and {value} in another; Regatta gives one value to all \
                        models"
                    )),
                    _ => {}
                },
            }
        }
    }
    let models: Vec<&str> = MODELS.into_iter().filter(|model| files.iter().any(|file| file.model == *model)).collect();
    // What the lines leave out is the backend's own, which for some parameters is not what Regatta writes.
    let is_filled = |parameter: &&Parameter| parameter.models.iter().any(|model| models.contains(model));
    for parameter in PARAMETERS.iter().filter(is_filled).filter(|parameter| parameter.differs_from_backend()) {
        parameters.entry(parameter.name).or_insert_with(|| typed(parameter.unset));
    }
    for file in files.iter().filter(|file| !models.contains(&file.model.as_str())) {
        builder.push_untranslated(format!("{}/config.pbtxt", file.model), "it is not one of the backend's five models");
    }
    if models.len() < 5 {
        stage.insert("models".to_owned(), json!(models));
    }
    if !parameters.is_empty() {
        stage.insert("parameters".to_owned(), Value::Object(parameters));
    }
    Some(Value::Object(stage))
}

/// Numbers and switches as such: `True` is how Python spells one.
fn typed(value: &str) -> Value {
    match value {
        "true" | "True" => json!(true),
        "false" | "False" => json!(false),
        _ => match (value.parse::<i64>(), value.parse::<f64>()) {
            (Ok(number), _) => json!(number),
            (_, Ok(number)) if number.is_finite() => json!(number),
            _ => json!(value),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_engine_fills_its_own_model_only() {
        let words =
            ["-i", "r/preprocessing/config.pbtxt", "tokenizer_dir:/t,triton_max_batch_size:4"].map(str::to_owned);
        let TranslationKind::Commands(commands) = translate(&words).expect("a line").kind else { panic!("a command") };
        let expected = "regatta repository fill r/preprocessing --out filled/preprocessing --allow-unfilled \
            tokenizer_dir=/t triton_max_batch_size=4";
        assert_eq!(commands.iter().map(|words| words.join(" ")).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn what_a_line_leaves_out_is_the_backends_own() {
        let parameters = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let TranslationKind::Manifest(manifest) = translate(&words).expect("a line").kind else { panic!("{line}") };
            manifest["stages"]["generate_triton_config"]["repository"]["parameters"].clone()
        };
        assert_eq!(
            parameters("-i r/tensorrt_llm/config.pbtxt engine_dir:/e,triton_max_batch_size:4"),
            json!({"triton_max_batch_size": 4, "enable_kv_cache_reuse": true, "exclude_input_in_output": false})
        );
        let given = parameters("r/tensorrt_llm/config.pbtxt engine_dir:/e,enable_kv_cache_reuse:false");
        assert_eq!(given["enable_kv_cache_reuse"], json!(false));
        assert_eq!(
            parameters("r/preprocessing/config.pbtxt engine_dir:/e,preprocessing_instance_count:2"),
            json!({"preprocessing_instance_count": 2})
        );
    }
}
