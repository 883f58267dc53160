//! Which of vLLM's commands a line is.

use super::{bench_serve, in_process, server, sweep};
use crate::command_line::program::Env;
use crate::command_line::translation::{TranslateInner, Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;

/// `vllm COMMAND …`; `inner` translates the lines in a line of it.
pub(crate) fn translate(
    env: &Env,
    words: &[String],
    inner: TranslateInner<'_>,
) -> Result<Translation, TranslationError> {
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    let second = rest.first().map_or("", String::as_str);
    match (command, second) {
        ("serve", _) => server::serve(&["vllm", "serve"], env, rest),
        ("bench", "serve") => bench_serve::translate(&bench_serve::VLLM, env, &rest[1..]),
        ("bench", "throughput") => in_process::throughput(env, &rest[1..]),
        ("bench", "latency") => in_process::latency(env, &rest[1..]),
        ("bench", "sweep") => sweep::translate(&rest[1..], inner),
        ("bench", other) => TranslationBuilder::nothing(
            "vllm bench",
            format!(
                "`vllm bench {other}` has no meaning here: it measures a part of vLLM itself; `vllm bench` serve, throughput and latency are imported"
            ),
        ),
        (other, _) => TranslationBuilder::nothing(
            "vllm",
            format!(
                "`vllm {other}` has no meaning here: it neither serves nor measures; lines of `vllm serve` and `vllm bench` are imported"
            ),
        ),
    }
}

/// `python3 -m vllm.entrypoints.openai.api_server …`
pub(crate) fn api_server(module: &str, env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    server::serve(&["python3", "-m", module], env, words)
}

/// `benchmark_serving.py`, as vLLM had it, and TensorRT-LLM has it still. `path` is that of the program.
pub(crate) fn benchmark_serving(path: &str, env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    bench_serve::translate(bench_serve::named(path, words), env, words)
}
