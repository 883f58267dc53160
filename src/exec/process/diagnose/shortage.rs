//! Memory that ran out: which memory, and every number that the log has of it.

use super::{Diagnosis, Log, after, gib, number, server};
use base::event::MemoryKind;

/// Messages of TensorRT-LLM, TensorRT, CUDA, cuBLAS, NCCL and PyTorch when a GPU's memory is used up. Lower case.
pub const GPU: &[&str] = &[
    "cuda out of memory",
    "out of memory in function allocate",
    "): out of memory",
    "cudaerrormemoryallocation",
    "outofmemory",
    "cuda error: out of memory",
    "cuda runtime error: out of memory",
    "cuda driver error: out of memory",
    "could not be allocated. there may not be enough free memory",
    "failed to allocate device memory",
    "failed to allocate gpu memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cuda failure 'out of memory'",
    "cuda failure 2 'out of memory'",
    "insufficient gpu memory",
    "is less than desired gpu memory utilization",
];

/// Messages of the kernel, a shell, Slurm and Kubernetes when they ended a process for its memory. Lower case.
pub const KILLED: &[&str] = &[
    "oom_kill event",
    "oom-kill",
    "oom killed",
    "oomkilled",
    "out_of_memory",
    "out of memory: killed process",
    "the node was low on resource: memory",
    "pod was evicted",
    "reason: evicted",
    "status: evicted",
    "exited on signal 9 (killed)",
];

/// Messages of a program that could not get host memory. Lower case.
pub const HOST: &[&str] = &["std::bad_alloc", "cannot allocate memory", "memoryerror", "can't allocate memory:"];

/// The numbers that a log has of a GPU's memory that ran out, in GiB.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shortage {
    /// The requested size, and the free size.
    pub needed: Option<f64>,
    pub free: Option<f64>,
    /// The GPU's memory.
    pub total: Option<f64>,
    /// Free after the engine was loaded, before the KV cache was made.
    pub available: Option<f64>,
    /// What the KV cache took.
    pub cache: Option<f64>,
    /// The engine's weights on one GPU.
    pub weights: Option<f64>,
}

impl Shortage {
    /// What is missing, where both numbers are there.
    pub(super) fn missing(&self) -> Option<f64> {
        self.needed.zip(self.free).map(|(needed, free)| needed - free).filter(|missing| *missing > 0.0)
    }

    /// The cause as a sentence, with the sizes that the log has.
    pub(super) fn cause(&self) -> String {
        let requested = self.needed.map(|needed| format!(": it requested {needed:.1} GiB"));
        let free = requested.as_ref().and(self.free).map(|free| format!(", and {free:.1} GiB are free"));
        let parts = [requested, free].into_iter().flatten();
        std::iter::once("the GPU has too little memory for this".to_owned()).chain(parts).collect()
    }

    pub(super) fn read(log: &Log<'_>, line: &str) -> Self {
        let needed = after(line, "Tried to allocate ").or_else(|| after(line, "GPU memory (")).and_then(gib);
        let free = after(line, "of which ").or_else(|| before_free(line)).and_then(gib);
        // `Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 68.00 GiB`
        let paged = log.after("calculating max tokens in paged kv cache: ");
        let available = paged.and_then(|text| after(text, "available: ")).and_then(gib);
        let total = paged.and_then(|text| after(text, "total: ")).and_then(gib);
        // `GPU 0 has a total capacity of 79.10 GiB`, or `79.15 GiB total capacity`
        let total = total.or_else(|| after(line, "total capacity of ").and_then(gib));
        let total =
            total.or_else(|| line.split_once(" GiB total capacity")?.0.rsplit([' ', ';']).next().and_then(number));
        // `Allocated 61.20 GiB for max tokens in paged KV cache (501248).`
        let cache =
            log.after("[MemUsageChange] Allocated ").filter(|text| text.contains("paged KV cache")).and_then(gib);
        let weights = log.after("Loaded engine size: ").and_then(gib);
        Self { needed, free, total, available, cache, weights }
    }
}

/// Older PyTorch: `(GPU 0; 79.15 GiB total capacity; 76.00 GiB already allocated; 1.10 GiB free; …`.
fn before_free(line: &str) -> Option<&str> {
    let text = line.split_once(" free;")?.0;
    Some(text.rsplit_once("; ")?.1)
}

/// Which memory ran out, by the last lines of a log and how the process ended (`killed`: by signal 9, or exit code
/// 137).
pub fn exhausted_memory(lines: &[String], killed: bool) -> Option<MemoryKind> {
    let log = Log::new(lines);
    if log.find_line(GPU).is_some() {
        return Some(MemoryKind::Gpu);
    }
    // As far as a log shows, only the kernel kills without a message.
    let is_of_host = killed || log.find_line(KILLED).or_else(|| log.find_line(HOST)).is_some();
    is_of_host.then_some(MemoryKind::Host)
}

// Too little memory on a GPU: what is needed, what there is, and how far to lower which setting. All numbers are the
// log's own.

/// The largest factor that a hint advises: a manifest may name no more GPUs, and a log may name any number of bytes.
const MOST_TIMES: f64 = 4096.0;

/// Something on the GPU could not be allocated.
pub fn gpu(log: &Log<'_>, line: &str) -> Diagnosis {
    if server::is_vllm(log) {
        return server::vllm_memory(log, line);
    }
    let mut shortage = Shortage::read(log, line);
    if shortage.cache.is_none() {
        shortage.free = shortage.free.or(shortage.available);
    }
    let mut cause = shortage.cause();
    let Shortage { needed, free, available, cache, weights, .. } = shortage;
    if let Some(engine) = weights {
        cause = format!("{cause} (the engine's weights take {engine:.1} GiB)");
    }
    let hint = match (cache, available, shortage.missing()) {
        (Some(cache), Some(available), missing) if available > 0.0 => {
            let now = cache / available;
            // Without a number, a twentieth of what there was: room for activations.
            let less = missing.unwrap_or(available * 0.05);
            let then = ((cache - less) / available * 100.0).floor().max(1.0) / 100.0;
            format!(
                "the KV cache took {cache:.1} of {available:.1} GiB (kvcache_free_gpu_mem_frac {now:.2}): set it to \
                    {then:.2} or less, or lower max_num_tokens or max_batch_size"
            )
        }
        (_, _, Some(missing)) => {
            let (needed, free) = (needed.unwrap_or_default(), free.unwrap_or_default());
            let times = (needed / free.max(0.1)).ceil().clamp(2.0, MOST_TIMES) as u32;
            format!(
                "{missing:.1} GiB are missing: multiply tensor_parallelism by {}, lower max_batch_size and \
                    max_num_tokens and build again, or check `nvidia-smi` for another process on the GPU",
                times.next_power_of_two()
            )
        }
        _ => "lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac, raise tensor_parallelism, or check \
            `nvidia-smi` for another process on the GPU"
            .to_owned(),
    };
    Diagnosis { cause, hint }
}

/// The host's memory, or the room that a container, a job or a pod may take of it.
pub fn host(_: &Log<'_>, line: &str) -> Diagnosis {
    let lower = line.to_lowercase();
    let cause = if lower.contains("evicted") || lower.contains("low on resource") {
        "the node had too little memory, and this was evicted from it"
    } else if lower.contains("oom_kill event") || lower.contains("oom killed") {
        "Slurm killed it: it used more memory than the job's limit"
    } else if lower.contains("oomkilled") {
        "the container took more memory than its limit, and was killed"
    } else {
        "the machine has too little memory for this"
    };
    Diagnosis::new(cause).hint(
        "request more (`--mem` under Slurm, the limit of the container or pod), or take less: weights are loaded once \
            by each worker and rank at the same time, so lower `workers`, `-j` or the ranks of one host; `dmesg` \
            shows which process the kernel killed",
    )
}

/// `maxTokensInPagedKvCache (1856) must be large enough to process at least 1 sequence to completion (i.e. must be
/// larger than beam_width (1) * tokensPerBlock (64) * maxBlocksPerSeq (47))`; older ones without the numbers.
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
            "multiply kvcache_free_gpu_mem_frac by {:.1} (at most 0.95 in all), set max_tokens_in_paged_kv_cache to \
                {need} or more if it is set, or build with max_seq_len {have} or less",
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
    Diagnosis::new(format!("/dev/shm is too small{each}")).hint(
        "every instance of a Python model takes 1 MiB and more, NCCL about 10 MiB for each GPU: give the container \
            `--shm-size=2g` or `--ipc=host`, and remove unused regions (`ls -l /dev/shm`)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_in(lines: &[&str]) -> Option<MemoryKind> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        exhausted_memory(&lines, false)
    }

    #[test]
    fn signs_are_lower_case() {
        for sign in [GPU, KILLED, HOST].concat() {
            assert_eq!(sign, sign.to_lowercase());
        }
    }

    #[test]
    fn every_layer_has_its_own_words_for_it() {
        for line in [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
                79.10 GiB of which 1.10 GiB is free.",
            "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory \
                (tllmBuffers.h:112)",
            "[TRT] [E] 2: [executionContext.cpp::initializeExecutionContext::610] Error Code 2: OutOfMemory (no \
                further information)",
            "[TensorRT-LLM][ERROR] Requested amount of GPU memory (17394617548 bytes) could not be allocated. There \
                may not be enough free memory for allocation to succeed.",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "node1:51:51 [0] transport/p2p.cc:226 NCCL WARN Cuda failure 2 'out of memory'",
            "RuntimeError: Executor creation failed due to insufficient GPU memory.",
            "ValueError: Free memory on device (60.1/79.1 GiB) on startup is less than desired GPU memory utilization \
                (0.9, 71.2 GiB).",
        ] {
            assert_eq!(kind_in(&[line]), Some(MemoryKind::Gpu), "{line}");
        }
        for line in [
            "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have been OOM Killed.",
            "Memory cgroup out of memory: Killed process 4711 (trtllm-build) total-vm:1k, \
                oom-kill:constraint=CONSTRAINT_MEMCG",
            "  reason: OOMKilled",
            "The node was low on resource: memory. Threshold quantity: 100Mi",
            "mpirun noticed that process rank 1 with PID 0 on node n exited on signal 9 (Killed).",
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "numpy.core._exceptions.MemoryError: Unable to allocate 2 GiB",
        ] {
            assert_eq!(kind_in(&[line]), Some(MemoryKind::Host), "{line}");
        }
        assert_eq!(kind_in(&["nothing of the kind"]), None);
        assert_eq!(
            kind_in(&["W1121 09:11:05.739310 51 pinned_memory_manager.cc:273] \"CUDA error: out of memory\""]),
            None
        );
        assert_eq!(exhausted_memory(&[], true), Some(MemoryKind::Host));
    }

    #[test]
    fn every_number_of_the_log_is_read() {
        let lines = [
            "[TensorRT-LLM][INFO] Loaded engine size: 67261 MiB",
            "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 139.81 GiB, \
                available: 71.20 GiB",
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 67.64 GiB for max tokens in paged KV cache (443296).",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
                139.81 GiB of which 1.10 GiB is free.",
        ]
        .map(str::to_owned);
        let shortage_found = Shortage::read(&Log::new(&lines), &lines[3]);
        assert_eq!(
            (shortage_found.needed, shortage_found.free, shortage_found.total),
            (Some(2.0), Some(1.1), Some(139.81))
        );
        assert_eq!((shortage_found.available, shortage_found.cache), (Some(71.2), Some(67.64)));
        assert!((shortage_found.weights.unwrap() - 65.684).abs() < 0.001);
        assert!((shortage_found.missing().unwrap() - 0.9).abs() < 1e-9);
    }
}
