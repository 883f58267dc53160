//! One case for each row: the lines that a server prints, and the message for the user.

use std::collections::BTreeSet;

use super::*;

fn cause(line: &str, how: ExitKind) -> Option<String> {
    diagnose(&[line.to_owned()], how).map(|diagnosis| diagnosis.cause)
}

#[test]
fn the_special_goes_before_the_general() {
    assert_eq!(
        cause("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", ExitKind::Code(1)),
        Some("the GPU has too little memory for this".to_owned())
    );
    assert_eq!(
        cause("git@host: Permission denied (publickey).", ExitKind::Code(128)),
        Some("the git server wants credentials".to_owned())
    );
    assert_eq!(cause("sh: 1: foo: not found", ExitKind::Code(127)), Some("a command was not found".to_owned()));
    assert_eq!(
        cause("cat: data.txt: No such file or directory", ExitKind::Code(1)),
        Some("a file does not exist".to_owned())
    );
}

#[test]
fn a_script_with_windows_line_ends_is_named() {
    for (line, code) in [
        ("/bin/sh: 1: ./s.sh: not found", 127),
        ("bash: ./s.sh: /bin/bash^M: bad interpreter: No such file or directory", 126),
        ("sh: ./s.sh: cannot execute: required file not found", 127),
        ("s.sh: line 1: $'\\r': command not found", 127),
    ] {
        let diagnosis = diagnose(&[line.to_owned()], ExitKind::Code(code)).unwrap();
        assert!(format!("{} {}", diagnosis.cause, diagnosis.hint).contains("Windows line ends"), "{diagnosis:?}");
        assert!(diagnosis.hint.contains("`sed -i 's/\\r$//' FILE`"), "{diagnosis:?}");
    }
}

#[test]
fn a_stop_that_was_asked_for_needs_no_cause() {
    assert_eq!(cause("Permission denied", ExitKind::Stopped), None);
    assert_eq!(cause("anything", ExitKind::Code(0)), None);
    assert_eq!(cause("it just failed", ExitKind::Code(1)), None);
}

/// `clean` would remove all results.
#[test]
fn space_on_a_full_disk_is_freed_by_removing_what_no_run_needs() {
    let diagnosis = diagnose(&["write error: No space left on device".to_owned()], ExitKind::Code(1)).unwrap();
    assert!(diagnosis.hint.contains("`regatta gc --yes` removes what no run needs"), "{}", diagnosis.hint);
}

#[test]
fn signs_are_lower_case() {
    for row in TABLE.row.iter().chain(&TABLE.server) {
        assert_eq!(row.texts.join("\n"), row.texts.join("\n").to_lowercase());
        let signs = [!row.texts.is_empty(), row.memory.is_some(), row.code.is_some(), row.signal.is_some()];
        assert_eq!(signs.into_iter().filter(|is_there| *is_there).count(), 1, "{}", row.cause);
        assert!(
            row.read.as_deref().is_none_or(|name| reader(name).is_some() && row.cause.is_empty()),
            "{:?}",
            row.read
        );
        // Each value has a place, and each place a value.
        let sentences = format!("{}{}", row.cause, row.hint);
        let places = sentences.split('<').skip(1).filter_map(|part| part.split(['|', '>']).next());
        let places: BTreeSet<&str> = places.filter(|name| *name != "line").collect();
        assert_eq!(places, row.values.keys().map(String::as_str).collect(), "{sentences}");
    }
}

/// The message for the user after these lines: cause, then hint.
#[track_caller]
fn assert_diagnosis(lines: &[&str], cause: &str, hint: &str) {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let diagnosis = diagnose_server(&lines).unwrap_or_else(|| panic!("nothing is known about {lines:#?}"));
    assert_eq!((diagnosis.cause.as_str(), diagnosis.hint.as_str()), (cause, hint));
}

/// Cause and the beginning of the hint.
#[track_caller]
fn begins(lines: &[&str], cause: &str, hint: &str) {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let diagnosis = diagnose_server(&lines).unwrap_or_else(|| panic!("nothing is known about {lines:#?}"));
    assert_eq!(diagnosis.cause, cause);
    assert!(diagnosis.hint.starts_with(hint), "{}", diagnosis.hint);
}

#[test]
fn a_kv_cache_that_leaves_no_room_is_lowered_by_what_is_missing() {
    assert_diagnosis(
        &[
            "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, \
                available: 68.00 GiB",
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 61.20 GiB for max tokens in paged KV cache (501248).",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
                79.10 GiB of which 1.10 GiB is free.",
        ],
        "the GPU has too little memory for this: it requested 2.0 GiB, and 1.1 GiB are free",
        "the KV cache took 61.2 of 68.0 GiB (kvcache_free_gpu_mem_frac 0.90): set it to 0.88 or less, or lower \
            max_num_tokens or max_batch_size",
    );
}

#[test]
fn weights_that_do_not_fit_ask_for_more_gpus() {
    assert_diagnosis(
        &[
            "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 14.80 GiB, \
                available: 12.10 GiB",
            "[TensorRT-LLM][ERROR] Requested amount of GPU memory (17394617548 bytes) could not be allocated. There \
                may not be enough free memory for allocation to succeed.",
        ],
        "the GPU has too little memory for this: it requested 16.2 GiB, and 12.1 GiB are free",
        "4.1 GiB are missing: multiply tensor_parallelism by 2, lower max_batch_size and max_num_tokens and build \
            again, or check `nvidia-smi` for another process on the GPU",
    );
}

#[test]
fn an_older_pytorch_says_what_is_free_in_another_place() {
    begins(
        &["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB (GPU 0; 79.15 GiB total \
                capacity; 76.00 GiB already allocated; 1.10 GiB free; 76.50 GiB reserved in total by PyTorch)"],
        "the GPU has too little memory for this: it requested 6.0 GiB, and 1.1 GiB are free",
        "4.9 GiB are missing: multiply tensor_parallelism by 8,",
    );
}

#[test]
fn any_number_in_a_log_leads_to_a_number_of_gpus() {
    begins(
        &["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 99999999999 GiB of which 0 GiB"],
        "the GPU has too little memory for this: it requested 99999999999.0 GiB, and 0.0 GiB are free",
        "99999999999.0 GiB are missing: multiply tensor_parallelism by 4096,",
    );
}

#[test]
fn an_allocation_without_numbers_still_names_the_settings() {
    begins(
        &["E0118 07:53:59.509842 1067 backend_model.cc:635] ERROR: Failed to create instance: unexpected error when \
                creating modelInstanceState: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, \
                mCudaStream->get()): out of memory (tllmBuffers.h:112)"],
        "the GPU has too little memory for this",
        "lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac",
    );
}

#[test]
fn a_kv_cache_that_holds_no_sequence_says_by_how_much() {
    assert_diagnosis(
        &["[TensorRT-LLM][ERROR] Assertion failed: maxTokensInPagedKvCache (1856) must be large enough to process \
                at least 1 sequence to completion (i.e. must be larger than beam_width (1) * tokensPerBlock (64) * \
                maxBlocksPerSeq (47)) (kvCacheManager.cpp:769)"],
        "the KV cache holds 1856 tokens, and one sequence of the full length needs 3008",
        "multiply kvcache_free_gpu_mem_frac by 1.7 (at most 0.95 in all), set max_tokens_in_paged_kv_cache to 3008 or \
            more if it is set, or build with max_seq_len 1856 or less",
    );
    begins(
        &[
            "[TensorRT-LLM][INFO] Using 693 tokens in paged KV cache.",
            "E1128 16:31:49.479096 227 backend_model.cc:634] ERROR: Failed to create instance: \
                maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion (i.e. must \
                be larger than beam_width * tokensPerBlock * maxBlocksPerSeq)",
        ],
        "the KV cache holds 693 tokens, fewer than one sequence of the full length needs",
        "raise kvcache_free_gpu_mem_frac",
    );
}

#[test]
fn an_engine_of_another_tensorrt_names_both_versions() {
    begins(
        &["[TensorRT-LLM][ERROR] 6: The engine plan file is not compatible with this version of TensorRT, expecting \
                library version 9.2.0.5 got 9.3.0.1, please rebuild."],
        "the engine was built with TensorRT 9.3.0.1, but the server has 9.2.0.5",
        "build it again in the server's own container",
    );
    begins(
        &["[TRT] [E] 1: Serialization assertion stdVersionRead == kSERIALIZATION_VERSION failed.Version tag does \
                not match. Note: Current Version: 239, Serialized Engine Version: 236)"],
        "the engine was written in TensorRT's format 236, and the server reads format 239",
        "build it again",
    );
    begins(
        &["[TRT] [E] 6: The engine plan file is generated on an incompatible device, expecting compute 9.0 got \
                compute 8.9, please rebuild."],
        "the engine was built for a GPU of compute capability 8.9, and this one has 9.0",
        "an engine runs on the kind of GPU",
    );
}

#[test]
fn a_world_of_another_size_than_the_engines_says_what_was_started() {
    begins(
        &[
            "[TensorRT-LLM][INFO] MPI size: 1, rank: 0",
            "[TensorRT-LLM][ERROR] Assertion failed: With communicationMode kLEADER, MPI worldSize is expected to be \
                equal to tp*pp when participantIds are not specified",
        ],
        "the engine wants tensor_parallelism × pipeline_parallelism ranks, and 1 were started",
        "start as many ranks as `mapping.world_size`",
    );
}

#[test]
fn a_missing_or_unfilled_engine_path_and_model_type_are_distinguished() {
    begins(
        &["E1113 01:00:58.469718 3545 backend_model.cc:692] \"ERROR: Failed to create instance: unexpected error \
                when creating modelInstanceState: [TensorRT-LLM][ERROR] Assertion failed: Both encoder and decoder \
                model paths are empty (model_instance_state.cc:535)"],
        "the server found no engine: gpt_model_path names no folder that is there",
        "set `gpt_model_path` of tensorrt_llm/config.pbtxt",
    );
    begins(
        &["E0101 00:00:00.000000 1 backend_model.cc:692] \"ERROR: Failed to create instance: unexpected error when \
                creating modelInstanceState: Invalid gpt_model_type: v2\""],
        "`gpt_model_type` is none that the backend knows",
        "use inflight_fused_batching",
    );
    begins(
        &["E0101 00:00:00.000000 1 pb_stub.cc:366] \"HFValidationError: Repo id must use alphanumeric chars: \
                '${tokenizer_dir}'.\""],
        "${tokenizer_dir} was never filled in",
        "`regatta repository check DIR` names every place",
    );
    begins(
        &["E0101 00:00:00.000000 1 model_repository_manager.cc:1335] Poll failed for model directory 'ensemble': \
                failed to read text proto: 3:17: Expected integer, got: $"],
        "${…} was never filled in",
        "`regatta repository check DIR`",
    );
}

#[test]
fn a_model_without_a_version_folder_is_named() {
    begins(
        &["E1121 09:11:08.521401 5133 model_repository_manager.cc:724] \"failed to load model 'ensemble': at least \
                one version must be available under the version policy of model 'ensemble'\""],
        "ensemble has no version folder",
        "make the folder ensemble/1",
    );
}

#[test]
fn too_little_shared_memory_says_how_much_there_must_be() {
    begins(
        &["UNAVAILABLE: Internal: Unable to initialize shared memory key 'prefix0_a' to requested size (1048576 \
                bytes). If you are running Triton inside docker, use '--shm-size' flag to control the shared memory \
                region size. Error: No space left on device"],
        "/dev/shm is too small, 1 MiB for this one",
        "every instance of a Python model takes 1 MiB and more",
    );
    begins(
        &["host:21858:21858 [2] misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment \
                /dev/shm/nccl-Y4njUk (size 9637888)"],
        "/dev/shm is too small, 10 MiB for this one",
        "every instance",
    );
}

#[test]
fn mpi_and_nccl_that_could_not_begin_are_distinguished() {
    begins(
        &["It looks like orte_init failed for some reason; your parallel process is", "  getting local rank failed"],
        "a process below mpirun started MPI a second time, most often a Python model that imports torch or \
            tensorrt_llm",
        "start its stub without OMPI_* and PMIX_* variables",
    );
    begins(
        &["There are not enough slots available in the system to satisfy the 8 slots"],
        "mpirun was given more ranks than this machine has cores",
        "`--oversubscribe`",
    );
    begins(
        &["mpirun has detected an attempt to run as root."],
        "mpirun refuses to run as root",
        "`--allow-run-as-root`",
    );
    begins(
        &["ORTE was unable to reliably start one or more daemons."],
        "mpirun could not start its daemon on another host",
        "`ssh HOST true`",
    );
    begins(
        &["[TensorRT-LLM][ERROR] Assertion failed: Failed, NCCL error ncclCommunicator.cpp:90 'invalid usage'"],
        "the GPUs could not be joined (NCCL): [TensorRT-LLM][ERROR] Assertion failed: Failed, NCCL error \
            ncclCommunicator.cpp:90 'invalid usage'",
        "run again with NCCL_DEBUG=INFO",
    );
}

#[test]
fn a_port_in_use_is_reported_with_its_owner() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = format!("error: failed to start GRPC service: Unavailable - Socket '0.0.0.0:{port}' already in use");
    let diagnosis = diagnose_server(&[line]).unwrap();
    assert!(
        diagnosis.cause.starts_with(&format!("port {port} is taken by process {}: ", std::process::id())),
        "{diagnosis:?}"
    );
}

#[test]
fn what_a_machine_lacks_for_the_server_is_reported() {
    assert_diagnosis(
        &["triton_python_backend_stub: error while loading shared libraries: libpython3.11.so.1.0: cannot open \
                shared object file: No such file or directory"],
        "the process of Python models needs libpython3.11, which is not there; the server waits for it forever",
        "`apt-get install libpython3.11`, or add its folder to LD_LIBRARY_PATH under `env:`",
    );
    begins(
        &["tritonserver: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No \
                such file or directory"],
        "there is no NVIDIA driver where the server runs",
        "`nvidia-smi` must work there",
    );
    begins(
        &["tritonserver: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by tritonserver)"],
        "this machine's C library is too old for the server: it wants GLIBC_2.34",
        "run it inside its container",
    );
    assert_diagnosis(
        &["E0101 00:00:00.000000 1 model_lifecycle.cc:642] \"failed to load 'preprocessing' version 1: Internal: \
                ModuleNotFoundError: No module named 'transformers'\""],
        "the Python model imports transformers, which is not installed for it",
        "install transformers into the environment whose `python3` comes first on PATH: the stub ignores PYTHONPATH",
    );
    begins(
        &["/opt/env/bin/python3: Error while finding module specification for 'vllm.entrypoints.openai.api_server' \
                (ModuleNotFoundError: No module named 'vllm')"],
        "the program's Python does not have vllm",
        "start it with the Python of the environment that has vllm",
    );
    begins(
        &["E0101 00:00:00.000000 1 pb_stub.cc:366] \"Failed to initialize Python stub: ValueError: no such \
                tokenizer\""],
        "a Python model failed while it was loaded: ValueError: no such tokenizer\"",
        "it is the model's own code",
    );
    begins(
        &["E0101 00:00:00.000000 1 backend_model.cc:694] \"ERROR: Failed to create instance: Stub process \
                'preprocessing_0_0' is not healthy.\""],
        "the process of a Python model died while it was loaded",
        "its own error message is further up",
    );
}

#[test]
fn what_a_server_only_warns_of_is_no_reason() {
    let line = "W1121 09:11:05.739310 51 pinned_memory_manager.cc:273] \"CUDA error: out of memory, pinned memory \
        pool will not be available\"";
    assert_eq!(diagnose_server(&[line.to_owned()]), None);
}
