//! Which of SGLang's programs a line is.

use super::{bench_one_batch_server, bench_serving, server};
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;

/// `sglang serve …`
pub(crate) fn sglang(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    match words.split_first() {
        Some((command, rest)) if command == "serve" => server::serve(&["sglang", "serve"], env, rest),
        other => {
            let command = other.map_or("", |(command, _)| command.as_str());
            TranslationBuilder::nothing(
                "sglang",
                format!(
                    "`sglang {command}` has no meaning here: it serves no model; lines of `sglang serve` and of `sglang.bench_serving` are imported"
                ),
            )
        }
    }
}

/// `python3 -m sglang.MODULE …`
pub(crate) fn module(module: &str, env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    match module {
        "sglang.launch_server" => server::serve(&["python3", "-m", module], env, words),
        "sglang.bench_serving" | "sglang.benchmark.serving" => bench_serving::translate(env, words),
        "sglang.bench_one_batch_server" => bench_one_batch_server::translate(env, words),
        _ => TranslationBuilder::nothing(
            "sglang",
            format!(
                "`{module}` has no meaning here: it drives the engine in its own process; import a line of `sglang.launch_server` and one of `sglang.bench_serving`"
            ),
        ),
    }
}
