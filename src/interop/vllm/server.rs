//! `vllm serve`, also as Python's module and as the command of its image.

use crate::command_line::options::{flag, many, one};
use crate::command_line::program::Env;
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use crate::command_server::ServerProgram;
use crate::typed_server::TypedServer;

pub(super) static SERVE: ServerProgram = ServerProgram {
    tool: "vllm serve",
    own: &[
        one(&["--port"]),
        one(&["--api-key"]),
        one(&["--hf-token"]),
        one(&["--uds"]),
        one(&["--chat-template"]),
        one(&["--config"]),
    ],
    ranks: &[
        one(&["--tensor-parallel-size", "-tp"]),
        one(&["--pipeline-parallel-size", "-pp"]),
        one(&["--data-parallel-size", "-dp"]),
        one(&["--prefill-context-parallel-size", "-pcp"]),
    ],
    port: "--port",
    usual_port: 8000,
    key_variable: Some("VLLM_API_KEY"),
    typed: Some(&VLLM),
};

static VLLM: TypedServer = TypedServer {
    action: "vllm",
    program: &["vllm", "serve"],
    model: "model",
    texts: &[
        one(&["--model"]),
        one(&["--tokenizer"]),
        many(&["--served-model-name"]),
        one(&["--dtype"]),
        one(&["--quantization", "-q"]),
        one(&["--load-format"]),
        one(&["--kv-cache-dtype"]),
        one(&["--host"]),
    ],
    numbers: &[
        one(&["--tensor-parallel-size", "-tp"]),
        one(&["--pipeline-parallel-size", "-pp"]),
        one(&["--data-parallel-size", "-dp"]),
        one(&["--max-model-len"]),
        one(&["--max-num-seqs"]),
        one(&["--max-num-batched-tokens"]),
        one(&["--gpu-memory-utilization"]),
    ],
    switches: &[
        flag(&["--enforce-eager"]),
        flag(&["--no-enforce-eager"]),
        flag(&["--enable-prefix-caching"]),
        flag(&["--no-enable-prefix-caching"]),
        flag(&["--enable-chunked-prefill"]),
        flag(&["--no-enable-chunked-prefill"]),
    ],
};

/// `start` is the program and what stands in front of its arguments.
pub(super) fn serve(start: &[&str], env: &Env, words: &[String]) -> Result<Translation, TranslationError> {
    const SEVERAL_HOSTS: [&str; 5] = ["--headless", "--nnodes", "--node-rank", "--data-parallel-address", "-dpa"];
    let is_part = words.iter().any(|word| {
        let name = word.split('=').next().unwrap_or(word).replace('_', "-");
        SEVERAL_HOSTS.contains(&name.as_str())
    });
    if is_part {
        return TranslationBuilder::nothing(
            SERVE.tool,
            "the line has no meaning here: it starts one host's part of a server on several hosts; start it there, and `regatta bench http://HOST:PORT` measures it",
        );
    }
    SERVE.translate(start, env, words)
}
