//! One setting's fields → what its stages need.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::file::ConfigSetting;
use super::gpu_data_sheets::machine;
use super::v4_1_fields::{self, BUILD_FIELD, RUNTIME_FIELD, WeightFormat};
use super::value::ConfigValue;
use crate::command_line::translation::TranslationBuilder;
use base::diag::nearest;
use triton::repository::RUNTIME_FLAGS;

/// LoadGen's settings that go to user.conf unchanged.
const USER_CONF: [&str; 6] = [
    "min_duration",
    "max_duration",
    "min_query_count",
    "max_query_count",
    "performance_sample_count_override",
    "single_stream_expected_latency_ns",
];

/// Fields that have no place, and why.
#[rustfmt::skip]
const UNTRANSLATED: &[(&str, &str)] = &[
    ("vboost_slider", "the machine's state is set before a run: `nvidia-smi boost-slider --vboost 1`"),
    ("power_limit", "the machine's state is set before a run: `nvidia-smi -pl WATTS`"),
    ("numa_config", "processes are not bound to NUMA nodes"),
    ("use_graphs", "it is for the executor of the Custom harness"),
    ("enable_sort", "it is a placeholder there"),
    ("tensor_path", "the parameter `dataset` is the path of the processed data set"),
    ("input_dtype", "token ids are 32-bit whole numbers"),
    ("llm_gen_config_path", "the generation settings are those of the round's benchmark"),
    ("model_path", "the parameter `checkpoint` is the path of the weights"),
    ("core_type", "here Triton serves the engine, with any core"),
    ("warmup_iterations", "LoadGen's runs begin with one warm-up request"),
    ("moe_expert_parallelism", "engines are cut by tensor and pipeline parallelism here"),
    ("triton_grpc_ports", "servers are started here; `serve: { attach: … }` measures those that are up"),
    ("triton_skip_server_spawn", "servers are started here; `serve: { attach: … }` measures those that are up"),
    ("trtllm_server_urls", "servers are started here"),
    ("server_target_latency_ns", "the round decides it"),
    ("server_target_latency_percentile", "the round decides it"),
    ("harness_use_hf_tokenizer", "LoadGen's samples are token ids"),
    ("enable_metrics", "the servers' metrics are read by themselves"),
    ("traffic_distribution_policy", "requests go to the servers in turn"),
    ("readiness_timeout", "`ready.timeout` of the servers"),
    ("calib_batch_size", "`checkpoint_flags.calib_size` is the number of calibration samples"),
    ("calib_max_batches", "`checkpoint_flags.calib_size` is the number of calibration samples"),
    ("workspace_size", "trtllm-build has no such option"),
];
/// Always so, or set elsewhere in the manifest.
const ALWAYS_SET: [&str; 8] = [
    "use_token_latencies",
    "use_triton",
    "system",
    "scenario",
    "benchmark",
    "test_run",
    "gpu_indices",
    "coalesced_tensor",
];

/// Read one by one, below.
const READ: [&str; 16] = [
    "precision",
    "use_fp8",
    RUNTIME_FIELD,
    BUILD_FIELD,
    "gpu_batch_size",
    "tensor_parallelism",
    "pipeline_parallelism",
    "trtllm_build_flags",
    "trtllm_runtime_flags",
    "trtllm_checkpoint_flags",
    "triton_num_servers",
    "triton_num_frontends_per_model",
    "triton_num_clients_per_frontend",
    "triton_num_models_per_server",
    "server_target_qps",
    "offline_expected_qps",
];

/// What a manifest's stages take from one setting.
pub(super) struct StageEntry {
    pub value: Map<String, Value>,
    pub benchmark: Option<String>,
    pub scenario: Option<&'static str>,
}

pub(super) fn entry(
    setting: &ConfigSetting,
    system: Option<&str>,
    reported: &mut BTreeSet<String>,
    builder: &mut TranslationBuilder,
) -> StageEntry {
    let own_system = setting.fields.get("system").and_then(ConfigValue::last).map(str::to_owned);
    let system = own_system.or_else(|| system.map(str::to_owned)).unwrap_or_default();
    let mut value = Map::new();
    match machine(&system) {
        Some(machine) => {
            value.insert("machine".to_owned(), machine);
        }
        None => builder.push_error(format!(
            "{}: the GPU of `{system}` is not known here: known are H100, H200, GH200, B200, B300, GB200, GB300, L40S and RTX PRO 6000, with `x<number>` at the end",
            setting.name
        )),
    }
    let gpus = value.get("machine").and_then(|machine| machine["gpus"].as_u64()).unwrap_or(1);
    let mut build = flags(setting, "trtllm_build_flags");
    let (tp, pp) = parallelism(setting, &mut build);
    value.insert("tensor_parallelism".to_owned(), json!(tp));
    value.insert("pipeline_parallelism".to_owned(), json!(pp));
    let format = WeightFormat::of(setting);
    let mut checkpoint = flags(setting, "trtllm_checkpoint_flags");
    if let Some(kv_cache_dtype) = format.kv_cache_dtype {
        checkpoint.entry("kv_cache_dtype").or_insert_with(|| json!(kv_cache_dtype));
    }
    value.insert("precision".to_owned(), json!(format.precision));
    value.insert("checkpoint_flags".to_owned(), Value::Object(checkpoint));
    let benchmark = batch_size(setting, &mut build);
    v4_1_fields::add_field(&mut build, setting, BUILD_FIELD);
    value.insert("build_flags".to_owned(), Value::Object(build));
    let mut untranslated = Untranslated { reported, builder };
    if format.is_contradicted {
        untranslated.push("use_fp8: true".to_owned(), format!("`precision` says {}", format.precision));
    }
    value.insert("runtime_flags".to_owned(), Value::Object(runtime_flags(setting, &mut untranslated)));
    value.extend(server_counts(setting, (gpus / (tp * pp)).max(1)));
    let Rates { user_conf, targets } = rates(setting, &mut untranslated);
    let scenario = scenario(setting, &targets);
    value.extend(targets);
    value.insert("user_conf".to_owned(), Value::Object(user_conf));
    if setting.is_max_q {
        untranslated.push(
            "PowerSetting.MaxQ".to_owned(),
            "a run with power measurement is not made here; the settings are".to_owned(),
        );
    }
    StageEntry { value, benchmark, scenario }
}

/// What a config has and a manifest has no place for. Each is reported once.
struct Untranslated<'a> {
    reported: &'a mut BTreeSet<String>,
    builder: &'a mut TranslationBuilder,
}

impl Untranslated<'_> {
    fn push(&mut self, field: String, why: String) {
        if self.reported.insert(field.clone()) {
            self.builder.push_untranslated(field, why);
        }
    }
}

fn whole(setting: &ConfigSetting, field: &str) -> Option<u64> {
    setting.fields.get(field).map(ConfigValue::json).and_then(|found| found.as_u64())
}

/// Tensor and pipeline parallelism; they may stand among the flags of the build, which are then without them.
fn parallelism(setting: &ConfigSetting, build: &mut Map<String, Value>) -> (u64, u64) {
    let mut parallel = |field: &str| {
        let inside = build.shift_remove(field).and_then(|found| found.as_u64());
        whole(setting, field).or(inside).unwrap_or(1).max(1)
    };
    (parallel("tensor_parallelism"), parallel("pipeline_parallelism"))
}

/// Puts the batch size into the flags of the build. Returns the benchmark, where the batch size has its name.
fn batch_size(setting: &ConfigSetting, build: &mut Map<String, Value>) -> Option<String> {
    if let Some(Value::Object(batch)) = setting.fields.get("gpu_batch_size").map(ConfigValue::json) {
        let (name, size) = batch.into_iter().next()?;
        build.insert("max_batch_size".to_owned(), size);
        return Some(name);
    }
    if let Some(size) = whole(setting, "gpu_batch_size") {
        build.insert("max_batch_size".to_owned(), json!(size));
    }
    None
}

fn runtime_flags(setting: &ConfigSetting, untranslated: &mut Untranslated<'_>) -> Map<String, Value> {
    let mut runtime = Map::new();
    for (flag, given) in flags(setting, "trtllm_runtime_flags") {
        if RUNTIME_FLAGS.contains(&flag.as_str()) {
            runtime.insert(flag, given);
        } else {
            let why = match nearest(&flag, RUNTIME_FLAGS.iter().copied()) {
                Some(name) => format!("no config.pbtxt has a place for it; did you mean `{name}`?"),
                None => "no config.pbtxt has a place for it: another executor takes it".to_owned(),
            };
            untranslated.push(format!("trtllm_runtime_flags.{flag}"), why);
        }
    }
    v4_1_fields::add_field(&mut runtime, setting, RUNTIME_FIELD);
    runtime
}

/// Servers, and the clients of each.
fn server_counts(setting: &ConfigSetting, replicas: u64) -> Map<String, Value> {
    let is_triton = setting.harness == "Triton";
    // Without servers of its own, a replica of the engine is one server.
    let servers = if is_triton { 1 } else { replicas };
    [("triton_num_servers", servers), ("triton_num_frontends_per_model", 1), ("triton_num_clients_per_frontend", 1)]
        .into_iter()
        .map(|(field, usual)| (field.to_owned(), json!(whole(setting, field).unwrap_or(usual))))
        .collect()
}

/// The settings of LoadGen in a config.
struct Rates {
    user_conf: Map<String, Value>,
    /// `server_qps`, `offline_qps`.
    targets: Map<String, Value>,
}

/// Reads LoadGen's settings, and reports the fields that have no place.
fn rates(setting: &ConfigSetting, untranslated: &mut Untranslated<'_>) -> Rates {
    let mut rates = Rates { user_conf: Map::new(), targets: Map::new() };
    for (field, given) in &setting.fields {
        match field.as_str() {
            "server_target_qps" => {
                rates.targets.insert("server_qps".to_owned(), given.json());
            }
            "offline_expected_qps" => {
                rates.targets.insert("offline_qps".to_owned(), given.json());
            }
            name if USER_CONF.contains(&name) => {
                rates.user_conf.insert(name.to_owned(), given.json());
            }
            "triton_num_models_per_server" | "triton_num_clients_per_server" => untranslated.push(
                field.clone(),
                "copies in a server follow from its GPUs; clients are `triton_num_clients_per_frontend`".to_owned(),
            ),
            name if READ.contains(&name) || ALWAYS_SET.contains(&name) => {}
            name => {
                if let Some((_, why)) = UNTRANSLATED.iter().find(|(known, _)| *known == name) {
                    untranslated.push(format!("{field}: {}", short(&given.json())), (*why).to_owned());
                    continue;
                }
                let known = UNTRANSLATED.iter().map(|(known, _)| *known).chain(ALWAYS_SET).chain(USER_CONF).chain(READ);
                let near = nearest(name, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                untranslated.push(field.clone(), format!("no field of language models that is known here{near}"));
            }
        }
    }
    rates
}

/// As it is named, or as the only target shows it.
fn scenario(setting: &ConfigSetting, targets: &Map<String, Value>) -> Option<&'static str> {
    match setting.fields.get("scenario").and_then(ConfigValue::last) {
        Some("Offline") => Some("offline"),
        Some("Server") => Some("server"),
        Some("Interactive") => Some("interactive"),
        Some("SingleStream") => Some("single_stream"),
        _ => match targets.keys().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["offline_qps"] => Some("offline"),
            ["server_qps"] => Some("server"),
            _ => None,
        },
    }
}

fn flags(setting: &ConfigSetting, field: &str) -> Map<String, Value> {
    match setting.fields.get(field).map(ConfigValue::json) {
        Some(Value::Object(flags)) => flags,
        _ => Map::new(),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}…", text.chars().take(60).collect::<String>()) } else { text }
}
