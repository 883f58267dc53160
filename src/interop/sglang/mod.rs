//! Which of SGLang's programs a line is, and its server: `python3 -m sglang.launch_server` and `sglang serve`.

pub(super) mod bench_serving;

use crate::command_line::{Env, Translation, TranslationBuilder, TranslationError, idle_command, tool_table};
use crate::command_server::ServerProgram;

/// `sglang serve …`
pub(crate) fn sglang(env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    match command {
        "serve" => serve(&["sglang", "serve"], env, rest),
        _ => idle_command(&format!("sglang {command}"), "sglang *"),
    }
}

/// `python3 -m sglang.MODULE …`
pub(crate) fn module(module: &str, env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    match module {
        "sglang.launch_server" => serve(&["python3", "-m", module], env, words),
        "sglang.bench_serving" | "sglang.benchmark.serving" => bench_serving::translate(env, words),
        "sglang.bench_one_batch_server" => bench_serving::translate_one_batch(env, words),
        _ => idle_command(module, "sglang.*"),
    }
}

tool_table!(TABLE, ["sglang-launch-server"], []);

/// `start` is the program and what stands in front of its arguments.
pub(super) fn serve(start: &[&str], env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let (kind, _) = TABLE.read_known(words, &mut TranslationBuilder::default());
    let is_part = kind.value("--nnodes").is_some_and(|count| count != "1")
        || kind.value("--disaggregation-mode").is_some_and(|mode| mode != "null");
    if is_part {
        return TranslationBuilder::nothing(
            TABLE.program,
            "cannot translate the line: it starts one part of a server of several; start them on their hosts, \
            and `regatta bench http://HOST:PORT` measures them",
        );
    }
    ServerProgram { table: &TABLE, is_typed: false }.translate(start, env, words)
}
