//! A line of `tritonserver` itself → a `serve: { triton: … }` stage that starts exactly that line.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::mpi_ranks;
use crate::command_line::ToolTable;
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

pub(super) const TOOL: &str = "tritonserver";

/// What clients must know of the line, and what ranks have of the script that starts them.
pub(crate) static TABLE: LazyLock<ToolTable> =
    LazyLock::new(|| ToolTable::new(&[include_str!("../tools/tritonserver.toml")], &[]));

/// `path` is the program as it was written, `around` what stands in front of it.
pub(crate) fn translate(
    path: &str,
    env: &Env,
    around: &[Vec<String>],
    words: &[String],
) -> Result<Translation, TranslationError> {
    // MPI separates ranks with a colon, and lines often have one after the last.
    let parts: Vec<&[String]> = words.split(|word| word == ":").filter(|part| !part.is_empty()).collect();
    if let [first, others @ ..] = parts.as_slice()
        && !others.is_empty()
    {
        return mpi_ranks::translate(path, env, around, first, others);
    }
    let words = parts.first().copied().unwrap_or_default();
    let mut builder = TranslationBuilder::default();
    let (line, _) = TABLE.read_known(words, &mut builder);
    let mut server = Map::new();
    let repository = match line.value("--model-repository") {
        Some(folder) => folder.to_owned(),
        None => builder.require("model_repository"),
    };
    if let Some((scheme, _)) = repository.split_once("://") {
        let reason = format!(
            "`{TOOL}` of a repository at `{scheme}://` has no meaning here: models are read from a folder; copy it, \
            and give that"
        );
        return TranslationBuilder::nothing(TOOL, reason);
    }
    // The program starts in a folder of its own, where a path from the project's is another.
    let is_whole = repository.starts_with('/');
    let as_started = |word: &String| match word.split_once('=') {
        _ if is_whole => word.clone(),
        Some((name, value)) if value == repository => format!("{name}={{repository}}"),
        _ if *word == repository => "{repository}".to_owned(),
        _ => word.clone(),
    };
    let mut started = vec![path.to_owned()];
    started.extend(words.iter().map(as_started));
    if !line.has("--model-repository") {
        started.push("--model-repository={repository}".to_owned());
    }
    server.insert("repository".to_owned(), json!(repository));
    server.insert("words".to_owned(), json!(started));
    for (option, key, usual) in [
        ("--grpc-port", "grpc_port", 8001),
        ("--http-port", "http_port", 8000),
        ("--metrics-port", "metrics_port", 8002),
    ] {
        let port = line.number::<u16>(option);
        if port.is_none() && line.has(option) {
            builder.push_error(format!("`{option} {}` is no port", line.value(option).unwrap_or_default()));
        }
        server.insert(key.to_owned(), json!(port.unwrap_or(Quantity::Known(usual))));
    }
    let mut stage = Map::new();
    if let Some(gpus) = env.gpus(&mut builder) {
        stage.insert("gpus".to_owned(), json!(gpus));
    }
    env.put_into(&mut stage);
    stage.insert("serve".to_owned(), json!({"triton": server}));
    let stages = Map::from_iter([("triton".to_owned(), Value::Object(stage))]);
    builder.finish(TOOL, manifest("triton", TOOL, stages))
}
