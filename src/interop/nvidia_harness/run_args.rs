//! `make TARGET RUN_ARGS="…"` of NVIDIA's MLPerf code, and a RUN_ARGS line alone.
//!
//! The fields are those of round v5.1 with those that v6.0 added. A field that is a tuning value becomes a parameter of the
//! same name where the manifest declares it; the caller checks that.

use crate::diag::did_you_mean;
use crate::interop::command_line::translation::{
    RunLine, RunSetting, Translation, TranslationBuilder, TranslationKind,
};

const TOOL: &str = "RUN_ARGS";

/// Targets of the Makefile and Regatta's stages of the same name; others are done differently here.
const TARGETS: [&str; 9] = [
    "prebuild",
    "clone_trt_llm",
    "build_trt_llm",
    "clone_triton",
    "build_triton",
    "generate_engines",
    "generate_triton_config",
    "run_llm_server",
    "run_harness",
];

/// Fields that are a setting of LoadGen, the engine, the servers or the harness, by the name that they have there.
#[rustfmt::skip]
const TUNING: &[&str] = &[
    "min_duration", "max_duration", "min_query_count", "max_query_count", "performance_sample_count", "performance_sample_count_override",
    "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed", "accuracy_log_rng_seed",
    "server_target_qps", "server_target_qps_adj_factor", "server_target_latency_ns", "server_target_latency_percentile", "offline_expected_qps",
    "single_stream_expected_latency_ns", "single_stream_target_latency_percentile", "multi_stream_expected_latency_ns", "multi_stream_samples_per_query", "multi_stream_target_latency_percentile",
    "gpu_batch_size", "precision", "input_dtype", "model_path", "calib_batch_size", "calib_max_batches", "calib_data_dir", "calib_data_map", "workspace_size",
    "power_limit", "vboost_slider", "numa_config", "gpu_indices",
    "triton_num_clients_per_frontend", "triton_num_frontends_per_model", "triton_num_servers", "triton_skip_server_spawn", "triton_grpc_ports", "triton_verbose_frontend",
    "triton_num_clients_per_server", "triton_num_models_per_server", "triton_server_urls",
    "tensor_parallelism", "pipeline_parallelism", "moe_expert_parallelism", "trtllm_checkpoint_flags", "trtllm_build_flags", "trtllm_runtime_flags",
    "trtllm_server_urls", "warmup_iterations", "traffic_distribution_policy", "readiness_timeout", "config_id", "engine_dir",
];

/// Fields that have no place, and why.
#[rustfmt::skip]
const LEFT: &[(&[&str], &str)] = &[
    (&["action"], "it follows from the target of make"),
    (&["device_types", "power_setting", "use_power_meter", "cpu_freq"], "runs with power measurement are not made here"),
    (&["verbose", "verbose_nvtx", "help", "show_steady_state_progress", "disable_progress_display"], "`regatta -v` prints more, `-q` less"),
    (&["data_dir", "preprocessed_data_dir", "tensor_path"], "the data set is an output of the stage `dataset`"),
    (&["log_dir", "results_dir", "logfile_suffix", "logfile_prefix_with_datetime", "log_copy_detail_to_stdout", "capture_server_logs_dir"], "logs and results are kept with the run: `regatta logs`, `latest/`"),
    (&["config_dir"], "a system is a file in the folder of its manifest"),
    (&["profiler", "use_jemalloc", "use_graphs", "server_num_issue_query_threads", "enable_sort"], "it is for the Custom harness"),
    (&["audit_test", "no_audit_verify"], "audits are stages of the manifest"),
    (&["log_enable_trace", "log_mode", "log_mode_async_poll_interval_ms", "mlperf_conf_path", "user_conf_path"], "user.conf is written from `bench.loadgen.user_conf`"),
    (&["force_build_engines", "force_calibration"], "`--force STAGE` makes a stage run again; changed stages are rebuilt automatically"),
    (&["llm_quantizer_outdir", "quantizer_lib_path_override", "trtllm_lib_path"], "the path of an output follows from its key"),
    (&["llm_gen_config_path"], "the generation settings are those of the round's benchmark"),
    (&["use_token_latencies", "enable_ttft_latency_tracker"], "first tokens are always reported to LoadGen"),
    (&["use_triton"], "the backend is a parameter of the manifest"),
    (&["server_in_foreground"], "servers run as long as a stage needs them"),
    (&["trtllm_disagg_config_path", "disagg_bench_mode", "mpi_mode", "trtllm_yml_override", "env_yml_override", "nsys_options", "enable_metrics", "dynamo_cluster", "harness_use_hf_tokenizer", "server_use_hf_tokenizer"], "disaggregated and Dynamo servers are not started here; `serve: { attach: … }` measures those that are up"),
    (&["preferred_batch_size", "max_queue_delay_usec", "instance_group_count", "request_timeout_usec", "buffer_manager_thread_count", "batch_triton_requests"], "the harness does not use it for language models"),
];

/// The harness's name of a benchmark, and Regatta's.
const BENCHMARKS: [(&str, &str); 16] = [
    ("llama2", "llama2-70b"),
    ("llama2-70b", "llama2-70b"),
    ("llama2-70b-interactive", "llama2-70b"),
    ("moe", "mixtral-8x7b"),
    ("mixtral", "mixtral-8x7b"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("llama3_1-405b", "llama3.1-405b"),
    ("llama3.1-405b", "llama3.1-405b"),
    ("llama3_1-8b", "llama3.1-8b"),
    ("llama3.1-8b", "llama3.1-8b"),
    ("llama3_1-8b-edge", "llama3.1-8b-edge"),
    ("llama3.1-8b-edge", "llama3.1-8b-edge"),
    ("deepseek-r1", "deepseek-r1"),
    ("deepseek_r1", "deepseek-r1"),
    ("gpt-oss-120b", "gpt-oss-120b"),
    ("gptj", "gptj"),
];

/// Regatta's name of a benchmark of the harness.
pub(in crate::interop) fn benchmark(name: &str) -> Option<&'static str> {
    BENCHMARKS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}

/// `make`'s arguments.
pub(in crate::interop) fn make(words: &[String]) -> Result<Translation, Vec<String>> {
    let mut sheet = TranslationBuilder::default();
    let mut run = RunLine::default();
    let mut has_args = false;
    for word in words {
        match word.split_once('=') {
            Some(("RUN_ARGS", text)) => {
                has_args = true;
                fields(text, &mut run, &mut sheet);
            }
            Some((name @ ("LOG_DIR" | "MLPERF_SCRATCH_PATH" | "DOCKER_TAG" | "ENV" | "NO_DISPLAY_RESULTS"), _)) => {
                sheet.push_untranslated(
                    word,
                    format!("{name} is of their build tree; outputs and logs are kept with the run"),
                );
            }
            Some(("SYSTEM_NAME", value)) => system(value, word, &mut run),
            Some((name @ ("TRTLLM_CHECKPOINT_FLAGS" | "TRTLLM_BUILD_FLAGS" | "TRTLLM_RUNTIME_FLAGS"), value)) => {
                run.settings.push(RunSetting::new(&name.to_lowercase(), value, word));
            }
            Some(("BENCHMARKS", value)) => benchmarks(value, &mut run, &mut sheet),
            Some(_) => sheet.push_untranslated(word, "the variable is not used for language models here"),
            None if TARGETS.contains(&word.as_str()) => run.until.push(word.clone()),
            None if word == "run" => run.until.push("run_harness".to_owned()),
            None if ["run_audit_harness", "run_audit_test06"].contains(&word.as_str()) => {
                run.until.push("run_audit_harness".to_owned());
            }
            None if word.starts_with("run_audit") || word.starts_with("stage_") || word == "check_submission" => {
                sheet.push_untranslated(
                    word,
                    "audits and the package are stages of `mlperf/…`: `regatta run mlperf/llama2-70b`",
                );
            }
            None if word == "build" => {
                run.until.extend(["build_trt_llm", "build_triton"].map(str::to_owned));
            }
            None if [
                "download_model",
                "download_data",
                "preprocess_data",
                "calibrate",
                "generate_conf_files",
                "build_loadgen",
            ]
            .contains(&word.as_str()) =>
            {
                sheet.push_untranslated(word, "it is done when a stage needs it");
            }
            None => {
                let hint = did_you_mean(word, TARGETS).unwrap_or_default();
                sheet.push_error(format!("`make {word}` is not a known target; {hint}"));
            }
        }
    }
    if !has_args && run.manifests.is_empty() {
        sheet.push_error("no benchmark is given: RUN_ARGS=\"--benchmarks=… --scenarios=…\"");
    }
    // A bare `--benchmarks` after `make run_harness` and the like.
    run.until.dedup();
    by_loadgen(&mut run);
    sheet.finish(TOOL, TranslationKind::Run(run))
}

/// Their harness measures with LoadGen only. Where nothing is measured it would change nothing.
fn by_loadgen(run: &mut RunLine) {
    let ends = |stage: &str| run.until.iter().any(|one| one == stage);
    let tests = [("run_harness", "performance"), ("score", "accuracy"), ("run_audit_harness", "test06")];
    let tests: Vec<&str> = tests.into_iter().filter(|(stage, _)| ends(stage)).map(|(_, test)| test).collect();
    if run.until.is_empty() || !tests.is_empty() {
        run.tool_defaults.push(("loadgen", "true".to_owned()));
    }
    // `performance` is the default.
    if !tests.is_empty() && tests != ["performance"] {
        run.tool_defaults.push(("tests", tests.join(",")));
    }
}

/// The line alone.
pub(in crate::interop) fn translate_run_args(words: &[String]) -> Result<Translation, Vec<String>> {
    let mut sheet = TranslationBuilder::default();
    let mut run = RunLine::default();
    for word in words {
        fields(word, &mut run, &mut sheet);
    }
    if run.manifests.is_empty() && sheet.faults.is_empty() {
        sheet.push_error("no benchmark is given: --benchmarks=…");
    }
    by_loadgen(&mut run);
    sheet.finish(TOOL, TranslationKind::Run(run))
}

fn fields(text: &str, run: &mut RunLine, sheet: &mut TranslationBuilder) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(name) = word.strip_prefix("--") else {
            sheet.push_error(format!("`{word}` is not --field=value"));
            continue;
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, value),
            // argparse takes the next argument, too.
            None => match words.get(at).filter(|next| !next.starts_with("--")) {
                Some(next) => {
                    at += 1;
                    (name, *next)
                }
                None => (name, "true"),
            },
        };
        field(name, value, run, sheet);
    }
}

fn field(name: &str, value: &str, run: &mut RunLine, sheet: &mut TranslationBuilder) {
    let word = format!("--{name}={value}");
    let mut set = |key: &str, value: String| run.settings.push(RunSetting::new(key, value, &word));
    match name {
        "benchmarks" => benchmarks(value, run, sheet),
        "scenarios" => {
            let mut all = Vec::new();
            for one in value.split(',') {
                match one.to_lowercase().as_str() {
                    known @ ("offline" | "server" | "interactive") => all.push(known.to_owned()),
                    "singlestream" => all.push("single_stream".to_owned()),
                    "multistream" => {
                        sheet.push_untranslated("--scenarios=MultiStream", "language models have no MultiStream");
                    }
                    _ => {
                        let hint =
                            did_you_mean(one, ["Offline", "Server", "Interactive", "SingleStream"]).unwrap_or_default();
                        sheet.push_error(format!("`{one}` is no scenario; {hint}"));
                    }
                }
            }
            if !all.is_empty() {
                set("scenarios", all.join(","));
            }
        }
        "accuracy_target" => match value {
            ".99" | "0.99" => set("accuracy", "99".to_owned()),
            ".999" | "0.999" => set("accuracy", "99.9".to_owned()),
            _ => sheet.push_error(format!("`{word}`: the targets are .99 and .999")),
        },
        "system_name" => system(value, &word, run),
        "harness_type" => match value {
            "triton" => set("backend", "triton".to_owned()),
            "custom" => sheet
                .push_untranslated(word, "the Custom harness runs the engine in its own process; here it is served"),
            _ => sheet.push_untranslated(word, "there are the harnesses custom and triton"),
        },
        "core_type" => match value {
            "triton_grpc" => set("backend", "triton".to_owned()),
            "trtllm_endpoint" => set("backend", "trtllm_serve".to_owned()),
            "trtllm_executor" | "trtllm_hlapi" => {
                sheet.push_untranslated(word, "it runs the engine in the harness's own process; here it is served");
            }
            _ => sheet.push_untranslated(word, "there are triton_grpc and trtllm_endpoint"),
        },
        "test_mode" => match value {
            "PerformanceOnly" => run.until = vec!["run_harness".to_owned()],
            // The harness scores the answers when it ends.
            "AccuracyOnly" => run.until = vec!["score".to_owned()],
            _ => sheet.push_untranslated(word, "performance and accuracy are stages of the manifest"),
        },
        "test_run" => set("rehearse", "true".to_owned()),
        "min_duration" => set("duration", format!("{value}ms")),
        // The pipelines of the catalogue have names of their own for two.
        "server_target_qps" | "min_query_count" => {
            let ours = if name == "min_query_count" { "samples" } else { "target_qps" };
            let names = [name, ours].map(str::to_owned).to_vec();
            run.settings.push(RunSetting { names, value: value.to_owned(), argument: word });
        }
        _ if TUNING.contains(&name) => set(name, value.to_owned()),
        _ => {
            if let Some((_, why)) = LEFT.iter().find(|(names, _)| names.contains(&name)) {
                return sheet.push_untranslated(word, *why);
            }
            let ours = [
                "benchmarks",
                "scenarios",
                "accuracy_target",
                "system_name",
                "harness_type",
                "core_type",
                "test_mode",
                "test_run",
            ];
            let known = ours.iter().chain(TUNING).chain(LEFT.iter().flat_map(|(names, _)| *names)).copied();
            let hint = did_you_mean(name, known.collect::<Vec<_>>()).unwrap_or_default();
            sheet.push_error(format!("`--{name}` is not a known field of RUN_ARGS; {hint}"));
        }
    }
}

fn benchmarks(value: &str, run: &mut RunLine, sheet: &mut TranslationBuilder) {
    let mut names = value.split(',');
    let Some(first) = names.next() else { return };
    if let Some(name) = benchmark(first) {
        run.manifests = vec![name.to_owned(), format!("mlperf/{name}")];
    } else {
        let hint = did_you_mean(first, BENCHMARKS.iter().map(|(theirs, _)| *theirs)).unwrap_or_default();
        sheet.push_error(format!("`{first}` is no benchmark of language models; {hint}"));
    }
    for more in names {
        sheet.push_untranslated(format!("--benchmarks={more}"), "one run is of one benchmark: a line for each");
    }
}

/// `H200-SXM-141GBx8` is `h200-x8` here.
fn system(value: &str, word: &str, run: &mut RunLine) {
    run.settings.push(RunSetting::new("system", system_name(value), word));
}

/// Regatta's name for a system of NVIDIA's list: the GPU and how many.
pub(in crate::interop) fn system_name(id: &str) -> String {
    let lower = id.to_lowercase().replace('_', "-");
    let count =
        lower.rsplit('x').next().filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())).unwrap_or("1");
    let gpu = ["gb300", "gb200", "gh200", "b300", "b200", "h200", "h100", "l40s", "a100"]
        .into_iter()
        .find(|gpu| lower.contains(gpu));
    gpu.map_or_else(|| lower.clone(), |gpu| format!("{gpu}-x{count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_have_short_names() {
        for (id, name) in [
            ("H200-SXM-141GBx8", "h200-x8"),
            ("B200-SXM-180GBx8", "b200-x8"),
            ("GB200-NVL72_GB200-186GB_aarch64x4", "gb200-x4"),
            ("GH200-144GB_aarch64x1", "gh200-x1"),
            ("XE9680L_H200_SXM_141GBX8", "h200-x8"),
            ("mine", "mine"),
        ] {
            assert_eq!(system_name(id), name);
        }
    }
}
