//! Sentences on what goes wrong with a server that need more than words of the log: Triton and its Python models, and
//! memory that is missing when vLLM starts: which of its options to change, and how far.

use super::shortage::Shortage;
use super::{Diagnosis, Log, after, gib, leading_token, number};
use crate::process::listener;

/// `failed to start GRPC service: Unavailable - Socket '0.0.0.0:8001' already in use`
pub fn port(_: &Log<'_>, line: &str) -> Diagnosis {
    let port = after(line, "Socket '").or_else(|| after(line, "socket '")).map(leading_token);
    let port = port.and_then(|address| address.rsplit_once(':')?.1.parse::<u16>().ok());
    let cause = match (port, port.and_then(listener)) {
        (Some(port), Some(owner)) => format!("port {port} is taken by process {}: {}", owner.pid, owner.command),
        (Some(port), None) => format!("port {port} was taken"),
        _ => "another program listens on its port".to_owned(),
    };
    Diagnosis::new(cause).hint(
        "end it or choose another port; under MPI only rank 0 may open ports. A server reports this only after all \
            its models are loaded",
    )
}

/// `…stub: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file`
pub fn libpython(_: &Log<'_>, line: &str) -> Diagnosis {
    let version = after(line, "libpython").map(leading_token).unwrap_or_default();
    let version = version.split(".so").next().unwrap_or_default();
    Diagnosis::new(format!(
        "the process of Python models needs libpython{version}, which is not there; the server waits for it forever"
    ))
    .hint(format!("`apt-get install libpython{version}`, or add its folder to LD_LIBRARY_PATH under `env:`"))
}

pub fn module(_: &Log<'_>, line: &str) -> Diagnosis {
    let name =
        after(line, "No module named ").map(|rest| rest.trim_start_matches('\'')).map_or("a module", leading_token);
    // Triton writes what its Python models fail with into lines of its own; any other line is of the program itself.
    if line.contains("failed to load '") || line.contains("Python stub") {
        return Diagnosis::new(format!("the Python model imports {name}, which is not installed for it")).hint(
            format!(
                "install {name} into the environment whose `python3` comes first on PATH: the stub ignores PYTHONPATH"
            ),
        );
    }
    Diagnosis::new(format!("the program's Python does not have {name}"))
        .hint(format!("start it with the Python of the environment that has {name}, or set PYTHONPATH under `env:`"))
}

/// `ValueError: No available memory for the cache blocks.`
pub fn no_cache(log: &Log<'_>, _: &str) -> Diagnosis {
    let weights = log.after("Model loading took ").and_then(gib);
    let missing = log.after("Available KV cache memory: -").and_then(gib);
    let mut cause = "nothing of the GPU's memory is left for the KV cache".to_owned();
    if let Some(weights) = weights {
        cause = format!("{cause}: the weights take {weights:.1} GiB of each GPU");
    }
    if let Some(missing) = missing {
        cause = format!("{cause}, and the first token needs {missing:.1} GiB more");
    }
    let hint = format!(
        "raise gpu_memory_utilization ({} now, at most about 0.95) or tensor_parallel_size, lower \
            max_num_batched_tokens or max_num_seqs, or take smaller weights (`quantization: fp8`)",
        utilization(log)
    );
    Diagnosis { cause, hint }
}

/// `To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, which is larger
/// than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated maximum model length is
/// 76256.`
pub fn cache_too_small(log: &Log<'_>, line: &str) -> Diagnosis {
    let length = after(line, "max seq len (").map(leading_token).unwrap_or_default();
    let need = after(line, "), (").and_then(gib);
    let have = after(line, "cache memory (").and_then(gib);
    let most = after(line, "estimated maximum model length is ").and_then(number);
    let cause = match (need, have) {
        (Some(need), Some(have)) => {
            format!(
                "one sequence of max_model_len {length} needs {need:.1} GiB of KV cache, and {have:.1} GiB are there"
            )
        }
        _ => format!("the KV cache is too small for one sequence of max_model_len {length}"),
    };
    let lower =
        most.map_or_else(|| "lower max_model_len".to_owned(), |most| format!("set max_model_len to {most} or less"));
    let missing = need.zip(have).map(|(need, have)| format!(" by {:.1} GiB", need - have)).unwrap_or_default();
    Diagnosis {
        cause,
        hint: format!(
            "{lower}, or enlarge the KV cache{missing}: gpu_memory_utilization ({} now), tensor_parallel_size, or \
                kv_cache_dtype fp8",
            utilization(log)
        ),
    }
}

/// `Free memory on device cuda:0 (60.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2
/// GiB).`
pub fn memory_in_use(_: &Log<'_>, line: &str) -> Diagnosis {
    let sizes = after(line, "Free memory on device").and_then(|rest| after(rest, "("));
    let free = sizes.and_then(number);
    let total = sizes.and_then(|rest| after(rest, "/")).and_then(number);
    let (Some(free), Some(total)) = (free, total.filter(|total| *total > 0.0)) else {
        return Diagnosis::new("another process holds a part of the GPU's memory")
            .hint("`nvidia-smi` shows which; end it, or lower gpu_memory_utilization");
    };
    let most = (free / total * 100.0).floor() / 100.0;
    Diagnosis {
        cause: format!("another process holds {:.1} of the GPU's {total:.1} GiB", total - free),
        hint: format!("`nvidia-smi` shows which; end it, or set gpu_memory_utilization to {most:.2} or less"),
    }
}

/// vLLM names itself in every traceback.
pub fn is_vllm(log: &Log<'_>) -> bool {
    log.find_line(&["vllm"]).is_some()
}

/// PyTorch could not allocate, in a process of vLLM's.
pub fn vllm_memory(log: &Log<'_>, line: &str) -> Diagnosis {
    /// vLLM's own value.
    const UTILIZATION: f64 = 0.92;
    let shortage = Shortage::read(log, line);
    let cause = shortage.cause();
    if log.after("Model loading took ").is_none() {
        return Diagnosis::new(format!("{cause}, while it loaded the weights")).hint(
            "raise tensor_parallel_size, take smaller weights (`quantization: fp8`), or check `nvidia-smi` for \
                another process on the GPU",
        );
    }
    let now = log.after("'gpu_memory_utilization': ").and_then(number).unwrap_or(UTILIZATION);
    // Without a number, a twentieth.
    let share = shortage.missing().zip(shortage.total).map_or(0.05, |(missing, total)| missing / total);
    let then = ((now - share.max(0.01)) * 100.0).floor().max(1.0) / 100.0;
    Diagnosis {
        cause,
        hint: format!(
            "lower gpu_memory_utilization from {now} to {then:.2} or less, or lower max_num_seqs or \
                max_num_batched_tokens"
        ),
    }
}

/// As the server's log of its arguments has it; else vLLM's default.
fn utilization(log: &Log<'_>) -> String {
    let given = log.after("'gpu_memory_utilization': ").and_then(number);
    given.map_or_else(|| "vLLM's default".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::diagnose_server;

    #[track_caller]
    fn assert_diagnosis(lines: &[&str], cause: &str, hint: &str) {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let diagnosis = diagnose_server(&lines).unwrap_or_else(|| panic!("nothing is known about {lines:#?}"));
        assert_eq!((diagnosis.cause.as_str(), diagnosis.hint.as_str()), (cause, hint));
    }

    #[test]
    fn memory_names_the_option_and_how_far() {
        assert_diagnosis(
            &[
                "(APIServer pid=50) INFO 11-23 09:12:01 [utils.py:253] non-default args: {'model': 'm', \
                    'gpu_memory_utilization': 0.5}",
                "(EngineCore pid=51) INFO 11-23 09:12:05 [gpu_model_runner.py:5256] Model loading took 65.72 GiB \
                    memory and 3.250000 seconds",
                "(EngineCore pid=51) INFO 11-23 09:12:09 [gpu_worker.py:509] Available KV cache memory: -28.31 GiB",
                "(EngineCore pid=51) ERROR 11-23 09:12:09 [core.py:1120] ValueError: No available memory for the \
                    cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            ],
            "nothing of the GPU's memory is left for the KV cache: the weights take 65.7 GiB of each GPU, and the \
                first token needs 28.3 GiB more",
            "raise gpu_memory_utilization (0.5 now, at most about 0.95) or tensor_parallel_size, lower \
                max_num_batched_tokens or max_num_seqs, or take smaller weights (`quantization: fp8`)",
        );
        assert_diagnosis(
            &["ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache \
                    is needed, which is larger than the available KV cache memory (9.31 GiB). Based on the available \
                    memory, the estimated maximum model length is 76256. Try increasing `gpu_memory_utilization`"],
            "one sequence of max_model_len 131072 needs 16.0 GiB of KV cache, and 9.3 GiB are there",
            "set max_model_len to 76256 or less, or enlarge the KV cache by 6.7 GiB: gpu_memory_utilization (vLLM's \
                default now), tensor_parallel_size, or kv_cache_dtype fp8",
        );
        assert_diagnosis(
            &["ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be \
                    stored in KV cache (59136). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` \
                    when initializing the engine."],
            "the KV cache holds 59136 tokens, and one sequence of max_model_len 131072 needs more",
            "set max_model_len to 59136 or less, or raise gpu_memory_utilization (vLLM's default now) or \
                tensor_parallel_size",
        );
        assert_diagnosis(
            &["ValueError: Free memory on device cuda:0 (60.1/79.1 GiB) on startup is less than desired GPU memory \
                    utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other \
                    processes."],
            "another process holds 19.0 of the GPU's 79.1 GiB",
            "`nvidia-smi` shows which; end it, or set gpu_memory_utilization to 0.75 or less",
        );
    }

    #[test]
    fn an_allocation_that_failed_lowers_vllms_share() {
        let last = "(EngineCore pid=51) ERROR 11-23 09:12:09 [core.py:1120] torch.OutOfMemoryError: CUDA out of \
            memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.10 GiB is free.";
        let core = "  File \"/site/vllm/v1/engine/core.py\", line 1120, in run_engine_core";
        let loaded =
            "INFO 11-23 09:12:05 [gpu_model_runner.py:5256] Model loading took 14.99 GiB memory and 3.250000 seconds";
        assert_diagnosis(
            &[loaded, core, last],
            "the GPU has too little memory for this: it requested 2.0 GiB, and 1.1 GiB are free",
            "lower gpu_memory_utilization from 0.92 to 0.90 or less, or lower max_num_seqs or max_num_batched_tokens",
        );
        assert_diagnosis(
            &[core, last],
            "the GPU has too little memory for this: it requested 2.0 GiB, and 1.1 GiB are free, while it loaded the \
                weights",
            "raise tensor_parallel_size, take smaller weights (`quantization: fp8`), or check `nvidia-smi` for \
                another process on the GPU",
        );
    }

    #[test]
    fn what_is_no_memory_is_known_too() {
        assert_diagnosis(
            &["ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"],
            "another program listens on the server's port",
            "`ss -ltnp` names it; end it, or leave `port` out to get a free one",
        );
        assert_diagnosis(
            &[
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
                "  Value error, Model architectures ['FooForCausalLM'] are not supported for now. Supported \
                    architectures: dict_keys(['A'])",
            ],
            "this vLLM does not know the model's architecture FooForCausalLM",
            "take a newer vLLM, or `options: { model_impl: transformers }`",
        );
        assert_diagnosis(
            &[
                "OSError: You are trying to access a gated repo.",
                "Access to model meta-llama/Llama-3.1-8B is restricted.",
            ],
            "meta-llama/Llama-3.1-8B is gated at Hugging Face, and this user may not read it",
            "accept its license on its page, and set HF_TOKEN; the stage needs `secrets: [HF_TOKEN]` in a container",
        );
        assert_diagnosis(
            &["  Value error, World size (4) is larger than the number of available GPUs (1) in this node."],
            "one server needs 4 GPUs, and it sees 1",
            "give the stage as many `gpus` as all its servers need, and do not set CUDA_VISIBLE_DEVICES under `env`",
        );
        assert_diagnosis(
            &["api_server.py: error: unrecognized arguments: --max-batch 3"],
            "the server does not know --max-batch 3",
            "this version has other options: `--help=all` of the server lists them",
        );
    }
}
