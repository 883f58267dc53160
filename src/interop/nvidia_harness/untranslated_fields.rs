//! Fields of RUN_ARGS that have no place, and why.

/// Names of fields, and the reason that holds for each of them.
#[rustfmt::skip]
const UNTRANSLATED: &[(&[&str], &str)] = &[
    (&["action"], "it follows from the target of make"),
    (&["device_types", "power_setting", "use_power_meter", "cpu_freq"], "runs with power measurement are not made here: the settings that run are those of MaxP"),
    (&["power_limit", "vboost_slider"], "the state of the GPUs is set before a run: `nvidia-smi -pl WATTS`, `nvidia-smi boost-slider --vboost 1`"),
    (&["numa_config"], "processes are not bound to NUMA nodes"),
    (&["verbose", "verbose_nvtx", "help", "show_steady_state_progress", "disable_progress_display", "triton_verbose_frontend"], "`regatta -v` prints more, `-q` less"),
    (&["data_dir", "preprocessed_data_dir"], "the folder of one data set is a parameter: preprocessed_data=FOLDER"),
    (&["results_dir", "logfile_suffix", "logfile_prefix_with_datetime", "log_copy_detail_to_stdout", "capture_server_logs_dir"], "logs and results are kept with the run: `regatta logs`, `latest/`"),
    (&["config_dir"], "a system is a file in the folder of its manifest"),
    (&["config_id"], "the settings of a config are in the file of a system; `regatta import CONFIG.py --pick ID` makes a manifest of one"),
    (&["profiler", "use_jemalloc", "use_graphs", "server_num_issue_query_threads", "enable_sort"], "it is for the Custom harness"),
    (&["audit_test", "no_audit_verify"], "audits are stages of the manifest: tests=test06"),
    (&["log_enable_trace", "log_mode", "log_mode_async_poll_interval_ms", "mlperf_conf_path", "user_conf_path"], "user.conf is written from `bench.loadgen.user_conf`"),
    (&["max_duration", "max_query_count"], "LoadGen ends a run by the round's rules; `bench.loadgen.user_conf` of a manifest of your own sets it"),
    (&["performance_sample_count", "performance_sample_count_override"], "it is the number that the round sets for the benchmark"),
    (&["qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed", "accuracy_log_rng_seed"], "the seeds are the round's"),
    (&["server_target_latency_ns", "server_target_latency_percentile"], "the limits are the round's"),
    (&["server_target_qps_adj_factor"], "write the product into target_qps"),
    (&["single_stream_expected_latency_ns", "single_stream_target_latency_percentile", "multi_stream_expected_latency_ns", "multi_stream_samples_per_query", "multi_stream_target_latency_percentile"], "the shipped manifests have Offline, Server and Interactive"),
    (&["force_build_engines", "force_calibration"], "`--force STAGE` makes a stage run again; changed stages are rebuilt automatically"),
    (&["llm_quantizer_outdir", "quantizer_lib_path_override", "trtllm_lib_path"], "the path of an output follows from its key"),
    (&["llm_gen_config_path"], "the generation settings are those of the round's benchmark"),
    (&["input_dtype"], "token ids are 32-bit whole numbers"),
    (&["calib_batch_size", "calib_max_batches"], "their product, the number of calibration samples, is set by `workload.checkpoint_flags.calib_size=N`"),
    (&["calib_data_map"], "the calibration data is a parameter: calib_data_dir=PATH"),
    (&["workspace_size"], "trtllm-build has no such option"),
    (&["use_token_latencies", "enable_ttft_latency_tracker"], "first tokens are always reported to LoadGen"),
    (&["use_triton"], "the backend is a parameter of the manifest"),
    (&["triton_num_clients_per_server", "triton_num_models_per_server"], "copies in a server follow from triton_num_servers; clients are triton_num_clients_per_frontend"),
    (&["moe_expert_parallelism"], "engines are cut by tensor and pipeline parallelism here"),
    (&["warmup_iterations"], "a run begins with one warm-up request"),
    (&["traffic_distribution_policy"], "requests go to the servers in turn"),
    (&["readiness_timeout"], "it is `triton.ready.timeout=1h` of the servers"),
    (&["server_in_foreground"], "servers run as long as a stage needs them"),
    (&["trtllm_disagg_config_path", "disagg_bench_mode", "mpi_mode", "trtllm_yml_override", "env_yml_override", "nsys_options", "enable_metrics", "dynamo_cluster", "harness_use_hf_tokenizer", "server_use_hf_tokenizer"], "disaggregated and Dynamo servers are not started here; `endpoints=HOST:PORT` measures those that are up"),
    (&["preferred_batch_size", "max_queue_delay_usec", "instance_group_count", "request_timeout_usec", "buffer_manager_thread_count", "batch_triton_requests"], "the harness does not use it for language models"),
];

/// Why a field has no place; none where it has one or is not known.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    UNTRANSLATED.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
}

/// All names in the table.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    UNTRANSLATED.iter().flat_map(|(names, _)| names.iter().copied())
}
