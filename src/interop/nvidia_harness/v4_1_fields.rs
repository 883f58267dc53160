//! Fields that only round v4.1 has: `use_fp8`, and two that became flags of the build and of the servers.

use serde_json::{Map, Value, json};

use super::file::ConfigSetting;
use super::value::ConfigValue;

/// A field of its own there, and one of `trtllm_runtime_flags` since.
pub(super) const RUNTIME_FIELD: &str = "kvcache_free_gpu_mem_frac";
/// A field of its own there, and one of `trtllm_build_flags` since.
pub(super) const BUILD_FIELD: &str = "max_num_tokens";

/// The format of the weights, and what follows from the field that names it.
pub(super) struct WeightFormat {
    pub precision: String,
    /// Of the fp8 checkpoints of v4.1, which its README has quantized with `--kv_cache_dtype=fp8`. Its configs do not name it.
    pub kv_cache_dtype: Option<&'static str>,
    /// `use_fp8` stands beside another quantized format.
    pub is_contradicted: bool,
}

impl WeightFormat {
    /// The builders of v4.1 want `precision = "fp16"` and `use_fp8 = True` for an fp8 engine. Later ones read `precision` alone.
    pub fn of(setting: &ConfigSetting) -> Self {
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
pub(super) fn add_field(flags: &mut Map<String, Value>, setting: &ConfigSetting, field: &str) {
    if let Some(given) = setting.fields.get(field)
        && !flags.contains_key(field)
    {
        flags.insert(field.to_owned(), given.json());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::command_line::translation::{Translation, TranslationKind};
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
        read.untranslated.iter().map(|one| one.argument.as_str()).collect()
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
