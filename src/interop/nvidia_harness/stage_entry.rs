//! The fields of one setting → the values that its stages need.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::config_file::{ConfigSetting, ConfigValue};
use super::harness_table::{self, ConfigField, machine};
use crate::command_line::TranslationBuilder;
use base::diag::nearest;
use triton::repository::RUNTIME_FLAGS;

/// A field of its own in v4.1, and one of `trtllm_runtime_flags` since.
pub(super) const RUNTIME_FIELD: &str = "kvcache_free_gpu_mem_frac";
/// A field of its own in v4.1, and one of `trtllm_build_flags` since.
pub(super) const BUILD_FIELD: &str = "max_num_tokens";

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
            "{}: unknown GPU in `{system}`; supported are H100, H200, GH200, B200, B300, GB200, GB300, L40S \
            and RTX PRO 6000, with `x<number>` at the end",
            setting.name
        )),
    }
    let gpus = value.get("machine").and_then(|machine| machine["gpus"].as_u64()).unwrap_or(1);
    let mut build = flags(setting, "trtllm_build_flags");
    let (tp, pp) = parallelism(setting, &mut build);
    value.insert("tensor_parallelism".to_owned(), json!(tp));
    value.insert("pipeline_parallelism".to_owned(), json!(pp));
    let format = WeightFormat::new(setting);
    let mut checkpoint = flags(setting, "trtllm_checkpoint_flags");
    if let Some(kv_cache_dtype) = format.kv_cache_dtype {
        checkpoint.entry("kv_cache_dtype").or_insert_with(|| json!(kv_cache_dtype));
    }
    value.insert("precision".to_owned(), json!(format.precision));
    value.insert("checkpoint_flags".to_owned(), Value::Object(checkpoint));
    let benchmark = batch_size(setting, &mut build);
    add_field(&mut build, setting, BUILD_FIELD);
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
            "Regatta makes no run with power measurement; the settings are".to_owned(),
        );
    }
    StageEntry { value, benchmark, scenario }
}

/// Fields of a config without a place in a manifest. Each is reported once.
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
    setting.fields.get(field).map(ConfigValue::json).and_then(|value| value.as_u64())
}

/// Tensor and pipeline parallelism; they may stand among the flags of the build, which are then without them.
fn parallelism(setting: &ConfigSetting, build: &mut Map<String, Value>) -> (u64, u64) {
    let mut parallel = |field: &str| {
        let inside = build.shift_remove(field).and_then(|value| value.as_u64());
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
            let reason = match nearest(&flag, RUNTIME_FLAGS.iter().copied()) {
                Some(name) => format!("no config.pbtxt has a place for it; did you mean `{name}`?"),
                None => "no config.pbtxt has a place for it: it belongs to another executor".to_owned(),
            };
            untranslated.push(format!("trtllm_runtime_flags.{flag}"), reason);
        }
    }
    add_field(&mut runtime, setting, RUNTIME_FIELD);
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
            name => match ConfigField::named(name) {
                ConfigField::UserConf => drop(rates.user_conf.insert(name.to_owned(), given.json())),
                ConfigField::Read => {}
                ConfigField::Untranslated(reason) => {
                    untranslated.push(format!("{field}: {}", short(&given.json())), reason);
                }
                ConfigField::Unknown(reason) => untranslated.push(field.clone(), reason),
            },
        }
    }
    rates
}

/// The scenario that a field names, or that the only target implies.
fn scenario(setting: &ConfigSetting, targets: &Map<String, Value>) -> Option<&'static str> {
    let named = setting.fields.get("scenario").and_then(ConfigValue::last).and_then(harness_table::scenario);
    named.or_else(|| match targets.keys().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["offline_qps"] => Some("offline"),
        ["server_qps"] => Some("server"),
        _ => None,
    })
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

/// The format of the weights, and what follows from the field that names it.
pub(super) struct WeightFormat {
    pub precision: String,
    /// Of the fp8 checkpoints of v4.1, which its README has quantized with `--kv_cache_dtype=fp8`. Its configs do not
    /// name it.
    pub kv_cache_dtype: Option<&'static str>,
    /// `use_fp8` stands beside another quantized format.
    pub is_contradicted: bool,
}

impl WeightFormat {
    /// The builders of v4.1 want `precision = "fp16"` and `use_fp8 = True` for an fp8 engine. Later ones read
    /// `precision` alone.
    pub fn new(setting: &ConfigSetting) -> Self {
        let precision = setting.fields.get("precision").and_then(ConfigValue::last).map(str::to_lowercase);
        let is_fp8 = setting.fields.get("use_fp8").map(ConfigValue::json) == Some(json!(true));
        match precision.as_deref() {
            None | Some("fp16" | "bf16" | "fp32" | "fp8") if is_fp8 => {
                Self { precision: "fp8".to_owned(), kv_cache_dtype: Some("fp8"), is_contradicted: false }
            }
            Some(precision) => Self { precision: precision.to_owned(), kv_cache_dtype: None, is_contradicted: is_fp8 },
            None => Self { precision: "fp16".to_owned(), kv_cache_dtype: None, is_contradicted: false },
        }
    }
}

/// Puts a field of its own among the flags. What the mapping itself has counts.
fn add_field(flags: &mut Map<String, Value>, setting: &ConfigSetting, field: &str) {
    if let Some(given) = setting.fields.get(field)
        && !flags.contains_key(field)
    {
        flags.insert(field.to_owned(), given.json());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{Translation, TranslationKind};
    use crate::nvidia_harness::read_config;

    /// What is imported from a class with these fields, as the one setting.
    fn imported(fields: &str) -> (Value, Translation) {
        let text = format!(
            "class Base(object):\n    precision = \"fp16\"\n\n\n\
             @ConfigRegistry.register(HarnessType.Custom, AccuracyTarget.k_99, PowerSetting.MaxP)\n\
             class Box(Base):\n    system = KnownSystem.H200_SXM_141GBx8\n    server_target_qps = 80\n{fields}"
        );
        let file = ("configs/llama2-70b/Server/__init__.py".to_owned(), text);
        let read = read_config(&[file], &[], &|_| Some(json!({}))).unwrap();
        let TranslationKind::Manifest(manifest) = &read.kind else { panic!("no manifest") };
        (manifest["vars"]["settings"]["Box"].clone(), read)
    }

    fn untranslated(read: &Translation) -> Vec<&str> {
        read.untranslated.iter().map(|option| option.argument.as_str()).collect()
    }

    #[test]
    fn use_fp8_beside_fp16_is_an_fp8_engine_with_an_fp8_kv_cache() {
        let (fp8, read) = imported("    use_fp8 = True\n");
        assert_eq!((&fp8["precision"], &fp8["checkpoint_flags"]), (&json!("fp8"), &json!({"kv_cache_dtype": "fp8"})));
        assert_eq!(untranslated(&read), Vec::<&str>::new());
        let (own, _) = imported("    use_fp8 = True\n    trtllm_checkpoint_flags = {'kv_cache_dtype': 'int8'}\n");
        assert_eq!((&own["precision"], &own["checkpoint_flags"]), (&json!("fp8"), &json!({"kv_cache_dtype": "int8"})));
        for fields in ["", "    use_fp8 = False\n"] {
            let (wide, _) = imported(fields);
            assert_eq!((&wide["precision"], &wide["checkpoint_flags"]), (&json!("fp16"), &json!({})), "{fields}");
        }
        let (fp4, read) = imported("    precision = \"fp4\"\n    use_fp8 = True\n");
        assert_eq!(fp4["precision"], "fp4");
        assert_eq!(untranslated(&read), ["use_fp8: true"]);
    }

    #[test]
    fn the_share_of_the_kv_cache_and_the_token_limit_are_flags() {
        let (setting, read) = imported("    kvcache_free_gpu_mem_frac = 0.97\n    max_num_tokens = 3584\n");
        assert_eq!(setting["runtime_flags"], json!({"kvcache_free_gpu_mem_frac": 0.97}));
        assert_eq!(setting["build_flags"], json!({"max_num_tokens": 3584}));
        assert_eq!(untranslated(&read), Vec::<&str>::new());
        let both =
            "    kvcache_free_gpu_mem_frac = 0.97\n    trtllm_runtime_flags = {'kvcache_free_gpu_mem_frac': 0.9}\n";
        assert_eq!(imported(both).0["runtime_flags"], json!({"kvcache_free_gpu_mem_frac": 0.9}));
    }
}
