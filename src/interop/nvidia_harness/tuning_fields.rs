//! Fields of RUN_ARGS that tune the engine, the servers and the clients: places in the manifest of a system.

use super::stage_entry::{BUILD_FIELD, RUNTIME_FIELD};
use crate::command_line::{RunSetting, TranslationBuilder};
use base::diag::nearest;
use triton::repository::RUNTIME_FLAGS;

/// Set for each scenario under the same name.
const NUMBERS: &str = "gpu_batch_size tensor_parallelism pipeline_parallelism triton_num_servers \
    triton_num_frontends_per_model triton_num_clients_per_frontend";
const FLAGS: [&str; 3] = ["trtllm_build_flags", "trtllm_checkpoint_flags", "trtllm_runtime_flags"];
/// Fields of v4.1, and the flags that they became.
const FLAGS_OF_V4_1: [(&str, &str); 2] = [(RUNTIME_FIELD, "trtllm_runtime_flags"), (BUILD_FIELD, "trtllm_build_flags")];

/// One value that a field sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TuningField {
    /// Below `tuning.<scenario>`, or from the top where it begins with a dot.
    place: String,
    value: String,
    /// The argument that it is from.
    argument: String,
    /// A flag that config.pbtxt has no place for.
    is_unknown: bool,
}

/// Why the value of a field is invalid.
#[derive(Debug)]
pub(super) struct TuningFieldError(pub String);

/// All names of such fields.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    NUMBERS.split(' ').chain(FLAGS).chain(FLAGS_OF_V4_1.map(|(field, _)| field)).chain(["precision"])
}

/// What a field sets, or why its value is invalid. `None` if it is not a tuning field.
pub(super) fn read(name: &str, value: &str, word: &str) -> Option<Result<Vec<TuningField>, TuningFieldError>> {
    let field = |place: String, value: &str| TuningField {
        place,
        value: yaml(value),
        argument: word.to_owned(),
        is_unknown: false,
    };
    if NUMBERS.split(' ').any(|number| number == name) {
        // `gpu_batch_size` may have the benchmark in front: `llama2-70b:2048`.
        let number = value.rsplit(':').next().unwrap_or(value);
        if number.parse::<u64>().is_err() {
            return Some(Err(TuningFieldError(format!("`{number}` is not a whole number"))));
        }
        return Some(Ok(vec![field(name.to_owned(), number)]));
    }
    if name == "precision" {
        return Some(Ok(vec![field(".vars.precision".to_owned(), value)]));
    }
    if let Some((flag, flags)) = FLAGS_OF_V4_1.iter().find(|(flag, _)| *flag == name) {
        return read(flags, &format!("{flag}:{value}"), word);
    }
    let kind = FLAGS.contains(&name).then(|| name.trim_start_matches("trtllm_"))?;
    let mut fields = Vec::new();
    for pair in value.split(',').filter(|pair| !pair.is_empty()) {
        let Some((flag, value)) = pair.split_once(':') else {
            return Some(Err(TuningFieldError(format!("`{pair}` is not KEY:VALUE; commas separate the pairs"))));
        };
        let place = match (kind, flag) {
            ("build_flags", "max_batch_size") => "gpu_batch_size".to_owned(),
            ("build_flags", "tensor_parallelism" | "pipeline_parallelism") | ("checkpoint_flags", "kv_cache_dtype") => {
                flag.to_owned()
            }
            ("checkpoint_flags", _) => format!(".workload.checkpoint_flags.{flag}"),
            _ => format!("{kind}.{flag}"),
        };
        let is_unknown = kind == "runtime_flags" && !RUNTIME_FLAGS.contains(&flag);
        fields.push(TuningField { is_unknown, ..field(place, value) });
    }
    Some(Ok(fields))
}

/// `True` of Python is `true`.
fn yaml(value: &str) -> String {
    match value {
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        "None" => "null".to_owned(),
        other => other.to_owned(),
    }
}

impl TuningField {
    /// The values to set, one for each scenario where it has one for each.
    pub fn settings(&self, scenarios: &[String], builder: &mut TranslationBuilder) -> Vec<RunSetting> {
        if self.is_unknown {
            let flag = self.place.rsplit('.').next().unwrap_or_default();
            let near = nearest(flag, RUNTIME_FLAGS.iter().copied());
            let near = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            builder.push_untranslated(
                format!("{} of {}", flag, self.argument),
                format!("no config.pbtxt has a place for it{near}"),
            );
            return Vec::new();
        }
        if let Some(place) = self.place.strip_prefix('.') {
            return vec![RunSetting::new(place, &self.value, &self.argument)];
        }
        let settings = scenarios
            .iter()
            .map(|scenario| RunSetting::new(&format!("tuning.{scenario}.{}", self.place), &self.value, &self.argument));
        settings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(name: &str, value: &str) -> Result<Vec<String>, TuningFieldError> {
        let fields = read(name, value, "x").expect("a tuning field")?;
        let mut builder = TranslationBuilder::default();
        let scenarios = ["server".to_owned()];
        Ok(fields
            .iter()
            .flat_map(|field| field.settings(&scenarios, &mut builder))
            .map(|setting| format!("{}={}", setting.names.last().expect("a name"), setting.value))
            .collect())
    }

    #[test]
    fn flags_of_the_engine_and_of_the_servers_have_places() {
        let joined = |name: &str, value: &str| places(name, value).unwrap().join(" ");
        assert_eq!(joined("gpu_batch_size", "llama2-70b:2048"), "tuning.server.gpu_batch_size=2048");
        assert_eq!(joined("triton_num_servers", "8"), "tuning.server.triton_num_servers=8");
        assert_eq!(
            joined("trtllm_build_flags", "max_num_tokens:1536,tensor_parallelism:2,use_fused_mlp:enable"),
            "tuning.server.build_flags.max_num_tokens=1536 tuning.server.tensor_parallelism=2 \
            tuning.server.build_flags.use_fused_mlp=enable"
        );
        assert_eq!(
            joined("trtllm_checkpoint_flags", "kv_cache_dtype:fp8,effective_bits:8"),
            "tuning.server.kv_cache_dtype=fp8 workload.checkpoint_flags.effective_bits=8"
        );
        assert_eq!(
            joined("trtllm_runtime_flags", "enable_chunked_context:True,cuda_graph_batch_sizes:1"),
            "tuning.server.runtime_flags.enable_chunked_context=true"
        );
        assert_eq!(joined("precision", "fp4"), "vars.precision=fp4");
        assert_eq!(
            joined("kvcache_free_gpu_mem_frac", "0.97"),
            "tuning.server.runtime_flags.kvcache_free_gpu_mem_frac=0.97"
        );
        assert!(places("trtllm_build_flags", "max_num_tokens").unwrap_err().0.contains("KEY:VALUE"));
        assert!(places("triton_num_servers", "all").unwrap_err().0.contains("not a whole number"));
        assert!(read("log_dir", "x", "x").is_none());
    }
}
