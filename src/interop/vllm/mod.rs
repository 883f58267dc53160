//! Which of vLLM's commands a line is, and `vllm serve`, also as Python's module and as the command of its image.

pub(super) mod bench_serve;
mod dataset;
pub(super) mod sweep;

use crate::command_line::{Env, TranslateInner, TranslationBuilder, TranslationResult, idle_command, tool_table};
use crate::command_server::ServerProgram;

/// `vllm COMMAND …`; `inner` translates the lines in a line of it.
pub(crate) fn translate(env: &Env, words: &[String], inner: TranslateInner<'_>) -> TranslationResult {
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    let second = rest.first().map_or("", String::as_str);
    match (command, second) {
        ("serve", _) => serve(&["vllm", "serve"], env, rest),
        ("bench", "serve") => bench_serve::translate(&bench_serve::VLLM, env, &rest[1..]),
        ("bench", "throughput") => bench_serve::throughput(env, &rest[1..]),
        ("bench", "latency") => bench_serve::latency(env, &rest[1..]),
        ("bench", "sweep") => sweep::translate(&rest[1..], inner),
        ("bench", other) => idle_command(&format!("vllm bench {other}"), "vllm bench *"),
        (other, _) => idle_command(&format!("vllm {other}"), "vllm *"),
    }
}

/// `python3 -m vllm.entrypoints.openai.api_server …`
pub(crate) fn api_server(module: &str, env: &Env, words: &[String]) -> TranslationResult {
    serve(&["python3", "-m", module], env, words)
}

/// `benchmark_serving.py`, as vLLM had it, and TensorRT-LLM has it still. `path` is that of the program.
pub(crate) fn benchmark_serving(path: &str, env: &Env, words: &[String]) -> TranslationResult {
    bench_serve::translate(bench_serve::named(path, words), env, words)
}

tool_table!(TABLE, ["vllm-serve"], []);

pub(super) static SERVE: ServerProgram = ServerProgram { table: &TABLE, is_typed: true };

/// `start` is the program and what stands in front of its arguments.
fn serve(start: &[&str], env: &Env, words: &[String]) -> TranslationResult {
    const SEVERAL_HOSTS: [&str; 5] = ["--headless", "--nnodes", "--node-rank", "--data-parallel-address", "-dpa"];
    let is_part = words.iter().any(|word| {
        let name = word.split('=').next().unwrap_or(word).replace('_', "-");
        SEVERAL_HOSTS.contains(&name.as_str())
    });
    if is_part {
        return TranslationBuilder::nothing(
            "vllm serve",
            "cannot translate the line: it starts one host's part of a server on several hosts; start it on its host, \
                and `regatta bench http://HOST:PORT` measures it",
        );
    }
    SERVE.translate(start, env, words)
}
