//! `prepare_dataset.py` of TensorRT-LLM: a file of requests → a stage that writes it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::command_line::{
    Opt, ToolTable, Translation, TranslationBuilder, TranslationError, flag, manifest, one, read_known,
};
use base::units::shell_word;

const TOOL: &str = "prepare_dataset.py";
const NAME: &str = "prepare_dataset";
const FILE: &str = "dataset.jsonl";

/// What is only read of the line.
pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("tools/prepare-dataset.toml")], &[]));

/// Where the file goes, which is another place here.
pub(crate) static OUTPUT: &[Opt] = &[one(&["--output"]), flag(&["--stdout"])];

/// `path` is the script's; `written_to` is the file that its output is redirected to.
pub(crate) fn translate(
    path: &str,
    words: &[String],
    written_to: Option<&str>,
) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let (places, others) = read_known(TOOL, OUTPUT, words, &mut builder);
    let (line, _) = TABLE.read_known(words, &mut builder);
    let mut inputs = Map::new();
    let script = if path.starts_with(['/', '{']) {
        path.to_owned()
    } else {
        // The stage runs in a folder of its own.
        inputs.insert("script".to_owned(), json!(path));
        "{{ inputs.script }}".to_owned()
    };
    // One request a line is what trtllm-bench reads; with --output it writes another form.
    let mut command = vec!["python3".to_owned(), script, "--stdout".to_owned()];
    command.extend(others);
    let command: Vec<String> =
        command.iter().map(|word| if word.contains("{{") { format!("'{word}'") } else { shell_word(word) }).collect();
    let mut stage = Map::new();
    if !inputs.is_empty() {
        stage.insert("inputs".to_owned(), Value::Object(inputs));
    }
    stage.insert("shell".to_owned(), json!(["sh", "-c", format!("{} > {FILE}", command.join(" "))]));
    stage.insert("outputs".to_owned(), json!([FILE]));
    if let Some(file) = places.value("--output").or(written_to) {
        builder.produces(file, format!("{{{{ stages.{NAME}.out }}}}/{FILE}"));
        builder.note(format!("{file} is {FILE} in the stage's output folder"));
    }
    let number = |name: &str| line.value(name);
    if let (Some(input), Some(output)) = (number("--input-mean"), number("--output-mean")) {
        let requests = number("--num-requests").map(|n| format!(" --requests {n}")).unwrap_or_default();
        let deviation = |name: &str, option: &str| {
            number(name).filter(|text| *text != "0").map(|text| format!(" {option} {text}")).unwrap_or_default()
        };
        builder.note(format!(
            "against a server no file is needed: `regatta bench TARGET --input-tokens {input}{} --output-tokens \
                {output}{}{requests}` makes the same requests up",
            deviation("--input-stdev", "--input-tokens-stddev"),
            deviation("--output-stdev", "--output-tokens-stddev"),
        ));
    }
    let stages = Map::from_iter([(NAME.to_owned(), Value::Object(stage))]);
    builder.finish(TOOL, manifest("prepare-dataset", TOOL, stages))
}
