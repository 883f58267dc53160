//! `python3 -m sglang.launch_server` and `sglang serve`.

use crate::command_line::options::{Opt, flag, one, read_known};
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use crate::command_server::ServerProgram;

const SERVER: ServerProgram = ServerProgram {
    tool: "sglang.launch_server",
    own: &[one(&["--port"]), one(&["--api-key"]), one(&["--chat-template"]), one(&["--config"])],
    ranks: &[
        one(&["--tp-size", "--tp", "--tensor-parallel-size"]),
        one(&["--pp-size", "--pp", "--pipeline-parallel-size"]),
        one(&["--dp-size", "--dp", "--data-parallel-size"]),
    ],
    port: "--port",
    usual_port: 30000,
    key_variable: None,
    typed: None,
};

/// With attention in data parallel, those ranks are among the tensor-parallel ones.
const SERVER_WITH_DP_ATTENTION: ServerProgram = ServerProgram {
    ranks: &[
        one(&["--tp-size", "--tp", "--tensor-parallel-size"]),
        one(&["--pp-size", "--pp", "--pipeline-parallel-size"]),
    ],
    ..SERVER
};

static KIND: &[Opt] =
    &[one(&["--nnodes"]), one(&["--node-rank"]), one(&["--disaggregation-mode"]), flag(&["--enable-dp-attention"])];

static SERVERS: [ServerProgram; 2] = [SERVER, SERVER_WITH_DP_ATTENTION];

/// `start` is the program and what stands in front of its arguments.
pub(super) fn serve(start: &[&str], env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    let (kind, _) = read_known(SERVER.tool, KIND, words, &mut TranslationBuilder::default());
    let is_part = kind.value("--nnodes").is_some_and(|count| count != "1")
        || kind.value("--disaggregation-mode").is_some_and(|mode| mode != "null");
    if is_part {
        return TranslationBuilder::nothing(
            SERVER.tool,
            "the line has no meaning here: it starts one part of a server of several; start them there, and `regatta bench http://HOST:PORT` measures them",
        );
    }
    let program = &SERVERS[usize::from(kind.has("--enable-dp-attention"))];
    program.translate(start, env, words)
}
