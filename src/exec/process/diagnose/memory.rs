//! Too little memory on a GPU: what is needed, what there is, and how far to lower which setting. All numbers are the log's own.

use super::Diagnosis;
use super::engine_server;
use super::log::{Log, after, number};
use super::shortage::Shortage;
use base::event::MemoryKind;

/// The largest factor that a hint advises: a manifest may name no more GPUs, and a log may name any number of bytes.
const MOST_TIMES: f64 = 4096.0;

/// Something on the GPU could not be allocated.
pub fn gpu(log: &Log<'_>, line: &str) -> Diagnosis {
    if engine_server::is_vllm(log) {
        return engine_server::gpu(log, line);
    }
    let Shortage { needed, free, available, cache, weights, .. } = Shortage::read(log, line, MemoryKind::Gpu);
    let free = free.or(if cache.is_none() { available } else { None });

    let mut cause = "the GPU has too little memory for this".to_owned();
    match (needed, free) {
        (Some(needed), Some(free)) => {
            cause = format!("{cause}: it requested {needed:.1} GiB, and {free:.1} GiB are free");
        }
        (Some(needed), None) => cause = format!("{cause}: it requested {needed:.1} GiB"),
        (None, _) => {}
    }
    if let Some(engine) = weights {
        cause = format!("{cause} (the engine's weights take {engine:.1} GiB)");
    }
    let missing = needed.zip(free).map(|(needed, free)| needed - free).filter(|missing| *missing > 0.0);
    let hint = match (cache, available, missing) {
        (Some(cache), Some(available), missing) if available > 0.0 => {
            let now = cache / available;
            // Without a number, a twentieth of what there was: room for activations.
            let less = missing.unwrap_or(available * 0.05);
            let then = ((cache - less) / available * 100.0).floor().max(1.0) / 100.0;
            format!(
                "the KV cache took {cache:.1} of {available:.1} GiB (kvcache_free_gpu_mem_frac {now:.2}): set it to {then:.2} or less, or lower max_num_tokens or max_batch_size"
            )
        }
        (_, _, Some(missing)) => {
            let (needed, free) = (needed.unwrap_or_default(), free.unwrap_or_default());
            let times = (needed / free.max(0.1)).ceil().clamp(2.0, MOST_TIMES) as u32;
            format!(
                "{missing:.1} GiB are missing: multiply tensor_parallelism by {}, lower max_batch_size and max_num_tokens and build again, or check `nvidia-smi` for another process on the GPU",
                times.next_power_of_two()
            )
        }
        _ => "lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac, raise tensor_parallelism, or check `nvidia-smi` for another process on the GPU".to_owned(),
    };
    Diagnosis { cause, hint }
}

/// The host's memory, or the room that a container, a job or a pod may take of it.
pub fn host(_: &Log<'_>, line: &str) -> Diagnosis {
    let lower = line.to_lowercase();
    let cause = if lower.contains("evicted") || lower.contains("low on resource") {
        "the node had too little memory, and this was evicted from it"
    } else if lower.contains("oom_kill event") || lower.contains("oom killed") {
        "Slurm ended it: it took more memory than the job was given"
    } else if lower.contains("oomkilled") {
        "the container took more memory than its limit, and was killed"
    } else {
        "the machine has too little memory for this"
    };
    Diagnosis::new(
        cause,
        "request more (`--mem` under Slurm, the limit of the container or pod), or take less: weights are loaded once by each worker and rank at the same time, so lower `workers`, `-j` or the ranks of one host; `dmesg` shows which process the kernel killed",
    )
}

/// `maxTokensInPagedKvCache (1856) must be large enough to process at least 1 sequence to completion (i.e. must be larger
/// than beam_width (1) * tokensPerBlock (64) * maxBlocksPerSeq (47))`; older ones without the numbers.
pub fn cache_too_small(log: &Log<'_>, line: &str) -> Diagnosis {
    let have = after(line, "maxTokensInPagedKvCache ").and_then(number);
    let have =
        have.or_else(|| log.after("[TensorRT-LLM][INFO] Using ").filter(|t| t.contains("paged KV")).and_then(number));
    let factor = |name: &str| after(line, name).and_then(number);
    let need = factor("beam_width ").zip(factor("tokensPerBlock ")).zip(factor("maxBlocksPerSeq "));
    let need = need.map(|((beam, block), blocks)| beam * block * blocks);
    let cause = match (have, need) {
        (Some(have), Some(need)) => {
            format!("the KV cache holds {have} tokens, and one sequence of the full length needs {need}")
        }
        (Some(have), None) => {
            format!("the KV cache holds {have} tokens, fewer than one sequence of the full length needs")
        }
        _ => "the KV cache is too small for one sequence of the full length".to_owned(),
    };
    let hint = match (have, need) {
        (Some(have), Some(need)) if have > 0.0 => format!(
            "multiply kvcache_free_gpu_mem_frac by {:.1} (at most 0.95 in all), set max_tokens_in_paged_kv_cache to {need} or more if it is set, or build with max_seq_len {have} or less",
            (need / have * 10.0).ceil() / 10.0
        ),
        _ => "raise kvcache_free_gpu_mem_frac or max_tokens_in_paged_kv_cache, or build with a smaller max_seq_len"
            .to_owned(),
    };
    Diagnosis { cause, hint }
}

/// `Unable to initialize shared memory key '…' to requested size (1048576 bytes). …`, or NCCL's segment.
pub fn shared_memory(_: &Log<'_>, line: &str) -> Diagnosis {
    let size = after(line, "requested size (").or_else(|| after(line, "(size ")).and_then(number);
    let each =
        size.map_or_else(String::new, |size| format!(", {:.0} MiB for this one", (size / 1024.0 / 1024.0).ceil()));
    Diagnosis::new(
        format!("/dev/shm is too small{each}"),
        "every instance of a Python model takes 1 MiB and more, NCCL about 10 MiB for each GPU: give the container `--shm-size=2g` or `--ipc=host`, and remove unused regions (`ls -l /dev/shm`)",
    )
}
