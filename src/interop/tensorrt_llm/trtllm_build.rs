//! `trtllm-build`: checkpoint → engine.

use serde_json::Map;

use super::ProgramLine;
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;

const TOOL: &str = "trtllm-build";

pub(crate) fn translate(
    env: &Env,
    arguments: &[String],
    path: &dyn Fn(&str) -> String,
) -> Result<Translation, TranslationError> {
    const STAGE: &str = "trtllm_build";
    let mut builder = TranslationBuilder::default();
    let line = ProgramLine {
        program: vec![TOOL.to_owned()],
        arguments,
        reads: &[
            ("--checkpoint_dir", "checkpoint"),
            ("--model_config", "model_config"),
            ("--build_config", "build_config"),
        ],
        writes: "--output_dir",
    };
    // Each worker builds one rank after the other on a GPU of its own.
    let gpus = line.product(&["--workers"]);
    let stage = line.stage(STAGE, &gpus, env, path, &mut builder);
    builder.note(
        "an `engine` stage makes checkpoint and engine in one, and knows their flags: `regatta explain stages.engine`",
    );
    builder.finish(TOOL, manifest("engine", TOOL, Map::from_iter([(STAGE.to_owned(), stage)])))
}
