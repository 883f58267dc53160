//! `convert_checkpoint.py` and `quantize.py` of TensorRT-LLM's examples. Each model's script has options of its own.

use serde_json::Map;

use super::ProgramLine;
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder, manifest};
use crate::command_line::translation_error::TranslationError;

/// `script` is the script's path.
pub(crate) fn translate(
    env: &Env,
    script: &str,
    arguments: &[String],
    path: &dyn Fn(&str) -> String,
) -> Result<Translation, TranslationError> {
    let is_quantize = script.ends_with("quantize.py");
    let (tool, name) =
        if is_quantize { ("quantize.py", "quantize") } else { ("convert_checkpoint.py", "convert_checkpoint") };
    let mut builder = TranslationBuilder::default();
    let line = ProgramLine {
        program: vec!["python3".to_owned(), script.to_owned()],
        arguments,
        reads: &[("--model_dir", "model"), ("--meta_ckpt_dir", "model")],
        writes: "--output_dir",
    };
    // Quantization runs the model; a conversion only reads and writes it.
    let gpus = if is_quantize { line.product(&["--tp_size", "--pp_size"]) } else { 0.into() };
    let stage = line.stage(name, &gpus, env, path, &mut builder);
    if !script.starts_with(['/', '{']) {
        builder.note(format!(
            "`{script}` is where the stage runs only with its whole path, or with its image as `container`"
        ));
    }
    builder.note("the model's folder is an input: write where it is on this machine");
    builder.finish(tool, manifest(name, tool, Map::from_iter([(name.to_owned(), stage)])))
}
