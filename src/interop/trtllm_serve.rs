//! `trtllm-serve`'s command line → a `serve: { trtllm_serve: … }` stage.

use serde_json::{Map, Value, json};

use crate::command_line::{Env, TranslationBuilder, TranslationError, TranslationResult, quantity, tool_table};
use crate::command_server::ServerProgram;
use base::spec::Quantity;

const SERVE: &str = "trtllm-serve";
tool_table!(TABLE, ["trtllm-serve"], []);

/// Its commands that do not serve one model over OpenAI's interface.
const SUBCOMMANDS: [&str; 5] =
    ["disaggregated", "grpc", "mm_embedding_serve", "embeddings", "disaggregated_mpi_worker"];

fn no_model(words: &str) -> String {
    format!(
        "`trtllm-serve {words}`: one model, served over OpenAI's interface, can be imported; servers that are up are \
        measured by `regatta bench HOST:PORT`"
    )
}

/// Other commands have other options, which are not read.
fn refuse_subcommand(words: &[String]) -> Result<(), TranslationError> {
    match words.first().filter(|word| SUBCOMMANDS.contains(&word.as_str())) {
        Some(command) => Err(TranslationError::new(no_model(command))),
        None => Ok(()),
    }
}

/// `trtllm-serve MODEL …`: its own line, with its readiness and its end looked after.
pub(crate) fn translate(env: &Env, words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let words = if words.first().is_some_and(|word| word == "serve") { &words[1..] } else { words };
    refuse_subcommand(words)?;
    let line = TABLE.read_as(TABLE.program, words, &mut builder);
    let model = match line.plain.as_slice() {
        [model] => model.clone(),
        [] => {
            builder.push_error("trtllm-serve needs a model: a name, a checkpoint or an engine folder");
            String::new()
        }
        words => {
            builder.push_error(no_model(&words.join(" ")));
            String::new()
        }
    };
    if line.has("--grpc") {
        builder.push_error(no_model("--grpc"));
    }
    env.report_visible_gpus(&mut builder);
    let mut server = ServeStage::new(&model);
    match line.setting("--port").parse::<Quantity<u32>>() {
        Ok(port) => drop(server.keys.insert("port".to_owned(), json!(port))),
        Err(_) => builder.push_error(format!("`--port {}` is not a whole number", line.setting("--port"))),
    }
    for given in line.given.iter().filter(|given| given.name != "--port") {
        server.put(given.name, &given.values, &mut builder);
    }
    builder.finish_manifest(SERVE, SERVE, [("server", server.stage(env))])
}

/// The line unchanged, for one that something else starts (ranks on several nodes, a profiler): a `serve: { command:
/// … }` stage.
pub(crate) fn as_written(env: &Env, words: &[String]) -> TranslationResult {
    refuse_subcommand(words)?;
    ServerProgram { table: &TABLE, is_typed: false }.translate(&[SERVE], env, words)
}

/// A `serve: { trtllm_serve: … }` stage in the making.
pub(crate) struct ServeStage {
    keys: Map<String, Value>,
    args: Vec<String>,
    inputs: Map<String, Value>,
}

impl ServeStage {
    pub fn new(model: &str) -> Self {
        Self { keys: Map::from_iter([("model".to_owned(), json!(model))]), args: Vec::new(), inputs: Map::new() }
    }

    /// An option of trtllm-serve: a key where there is one, else unchanged.
    pub fn put(&mut self, option: &'static str, values: &[String], builder: &mut TranslationBuilder) {
        let row = TABLE.row(option);
        let text = values.first().map_or("", String::as_str);
        if row.is_some_and(|row| row.computes.as_deref() == Some("input")) {
            // A relative path has no meaning where the server is started.
            let name = option[2..].to_owned();
            self.args.extend([option.to_owned(), format!("{{{{ inputs.{name} }}}}")]);
            self.inputs.insert(name, json!(values.first()));
            return;
        }
        // The key `backend` has the backends without `_`.
        let has_key = option != "--backend" || !text.starts_with('_');
        let Some((row, key)) = row.and_then(|row| Some((row, row.sets.as_ref()?))).filter(|_| has_key) else {
            self.args.push(option.to_owned());
            return self.args.extend(values.iter().cloned());
        };
        let value = match text.parse::<Quantity<u32>>() {
            _ if !row.is_number() => json!(text),
            Ok(number) => json!(number),
            Err(_) => return builder.push_error(format!("`{option} {text}` is not a whole number")),
        };
        self.keys.insert(key.clone(), value);
    }

    pub fn stage(mut self, env: &Env) -> Value {
        let ranks =
            |key: &str| self.keys.get(key).and_then(quantity).map_or(Quantity::Known(1), |n| n.map(|n| n.max(1)));
        let gpus = ranks("tensor_parallelism").times(ranks("pipeline_parallelism"));
        if !self.args.is_empty() {
            self.keys.insert("args".to_owned(), json!(self.args));
        }
        Value::Object(env.stage(Some(gpus), self.inputs, "serve", json!({"trtllm_serve": self.keys})))
    }
}
