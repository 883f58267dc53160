//! The table of NVIDIA's MLPerf code, `nvidia-harness.toml`: benchmarks by the harness's names and by Regatta's,
//! targets of its Makefile, and the fields of RUN_ARGS and of configs.
//!
//! Systems: their names as NVIDIA, `nvidia-smi` and Regatta have them, and the data sheets of the GPUs that an engine
//! is built for.
//!
//! Fields of RUN_ARGS that tune the engine, the servers and the clients: places in the manifest of a system.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::stage_entry::{BUILD_FIELD, RUNTIME_FIELD};
use crate::command_line::{RunSetting, TranslationBuilder};
use base::diag::{ErrorText, did_you_mean, nearest};
use triton::repository::RUNTIME_FLAGS;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessTable {
    /// Fields of a config that code reads.
    config_reads: Vec<String>,
    /// Fields of a config that always hold here, or are set elsewhere in the manifest.
    config_holds: Vec<String>,
    /// LoadGen's settings, which go from a config to user.conf unchanged.
    user_conf: Vec<String>,
    /// Fields of RUN_ARGS that code reads.
    line_reads: Vec<String>,
    /// Parameters of a line that measures, with what NVIDIA's code takes where the line does not set them.
    defaults: BTreeMap<String, String>,
    benchmark: Vec<HarnessBenchmark>,
    target: Vec<MakeTarget>,
    field: Vec<HarnessField>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HarnessBenchmark {
    name: String,
    names: Vec<String>,
    /// How the name of its model on Hugging Face begins.
    model: Option<String>,
}

/// A target of the Makefile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MakeTarget {
    names: Vec<String>,
    /// Stages that a real system has and a simulated one does not.
    #[serde(default)]
    pub builds: Vec<String>,
    /// Stages that every system has.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Nothing is left to do, or it is another command.
    pub elsewhere: Option<String>,
}

/// A field of RUN_ARGS or of a config that a row describes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessField {
    names: Vec<String>,
    /// Parameters of the manifest; the first that it declares is set.
    #[serde(default)]
    pub sets: Vec<String>,
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub values: Vec<HarnessValue>,
    /// Why all other values are an error.
    pub error: Option<String>,
    reason: Option<String>,
    in_line: Option<String>,
    in_config: Option<String>,
}

/// Values of a field, and what they set, or why they have no place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessValue {
    #[serde(default)]
    is: Vec<String>,
    begins: Option<String>,
    has: Option<String>,
    pub value: Option<String>,
    /// The stage that the run ends with.
    pub until: Option<String>,
    pub reason: Option<String>,
}

static TABLE: LazyLock<HarnessTable> =
    LazyLock::new(|| toml::from_str(include_str!("nvidia-harness.toml")).expect("a test reads the table"));

/// Regatta's name of a benchmark of the harness, or of the one with a model of Hugging Face:
/// `meta-llama/Llama-2-70b-chat-hf`.
pub(super) fn benchmark(name: &str) -> Option<&'static str> {
    let has_name = |benchmark: &&HarnessBenchmark| benchmark.names.iter().any(|other| other == name);
    let has_model = |benchmark: &&HarnessBenchmark| {
        let model = name.split_once('/').map(|(_, model)| model.to_lowercase()).unwrap_or_default();
        let model = model.strip_prefix("meta-").unwrap_or(&model);
        benchmark.model.as_ref().is_some_and(|begin| model.starts_with(begin))
    };
    let benchmarks = || TABLE.benchmark.iter();
    benchmarks().find(has_name).or_else(|| benchmarks().find(has_model)).map(|benchmark| benchmark.name.as_str())
}

/// What NVIDIA's code takes where a line that measures does not set it.
pub(super) fn defaults() -> impl Iterator<Item = (&'static str, String)> {
    TABLE.defaults.iter().map(|(name, value)| (name.as_str(), value.clone()))
}

/// Regatta's name of a scenario of the harness.
pub(super) fn scenario(name: &str) -> Option<&'static str> {
    match name {
        "Offline" => Some("offline"),
        "Server" => Some("server"),
        "Interactive" => Some("interactive"),
        "SingleStream" => Some("single_stream"),
        _ => None,
    }
}

/// A hint for a name that no benchmark has.
pub(super) fn benchmark_hint(name: &str) -> String {
    let names = TABLE.benchmark.iter().flat_map(|benchmark| &benchmark.names).map(String::as_str);
    did_you_mean(name, names).unwrap_or_default()
}

impl MakeTarget {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLE.target.iter().find(|target| target.names.iter().any(|other| other == name))
    }

    /// A hint for a name that no target has.
    pub fn hint(name: &str) -> String {
        let names = TABLE.target.iter().flat_map(|target| &target.names).map(String::as_str);
        did_you_mean(name, names.collect::<Vec<_>>()).unwrap_or_default()
    }
}

/// The meaning of a field of a config.
pub(super) enum ConfigField {
    UserConf,
    /// Translated by code, or always true in Regatta.
    Read,
    /// It has no place; with the reason.
    Untranslated(String),
    Unknown(String),
}

impl ConfigField {
    /// The field of this name.
    pub fn named(name: &str) -> Self {
        let lists = [&TABLE.user_conf, &TABLE.config_reads, &TABLE.config_holds];
        let is_in = |list: &[String]| list.iter().any(|other| other == name);
        if is_in(&TABLE.user_conf) {
            return Self::UserConf;
        }
        if is_in(&TABLE.config_reads) || is_in(&TABLE.config_holds) {
            return Self::Read;
        }
        if let Some(reason) = HarnessField::named(name).and_then(HarnessField::reason_in_config) {
            return Self::Untranslated(reason.to_owned());
        }
        let described = TABLE.field.iter().filter(|field| field.reason_in_config().is_some());
        let names = described.flat_map(|field| &field.names).chain(lists.into_iter().flatten());
        let near = nearest(name, names.map(String::as_str).collect::<Vec<_>>());
        let hint = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        Self::Unknown(format!("unknown field of language models{hint}"))
    }
}

impl HarnessField {
    /// The row of a field.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLE.field.iter().find(|field| field.names.iter().any(|other| other == name))
    }

    /// The sentence on a field of RUN_ARGS that is not known. `others` are read elsewhere.
    pub fn hint(name: &str, others: impl Iterator<Item = &'static str>) -> String {
        let described = TABLE.field.iter().filter(|field| field.is_of_line()).flat_map(|field| &field.names);
        let names = described.chain(&TABLE.line_reads).map(String::as_str).chain(others);
        did_you_mean(name, names.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Whether RUN_ARGS has the field.
    pub fn is_of_line(&self) -> bool {
        !self.sets.is_empty() || self.reason_in_line().is_some()
    }

    /// Why it has no place in RUN_ARGS.
    pub fn reason_in_line(&self) -> Option<&str> {
        self.in_line.as_deref().or(self.reason.as_deref())
    }

    fn reason_in_config(&self) -> Option<&str> {
        self.in_config.as_deref().or(self.reason.as_deref())
    }
}

impl HarnessValue {
    /// Whether a value is one of these.
    pub fn fits(&self, value: &str) -> bool {
        self.is.iter().any(|other| other == value)
            || self.begins.as_ref().is_some_and(|begin| value.starts_with(begin))
            || self.has.as_ref().is_some_and(|part| value.contains(part))
    }
}

/// The name of a file of `manifests/gpus`, and its text.
macro_rules! sheet {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../manifests/gpus/", $file)))
    };
}

/// Part of a system's name, and the file with the numbers of its GPU, which only the simulator calculates with. Longer
/// names stand before those that they contain.
const DATA_SHEETS: [(&str, (&str, &str)); 13] = [
    ("RTX-PRO-6000", sheet!("rtx-pro-6000-96gb.yaml")),
    ("GB300", sheet!("gb300-288gb.yaml")),
    ("GB200", sheet!("gb200-186gb.yaml")),
    ("GH200-144GB", sheet!("gh200-144gb.yaml")),
    ("GH200", sheet!("gh200-96gb.yaml")),
    ("B300", sheet!("b300-sxm-270gb.yaml")),
    ("B200", sheet!("b200-sxm-180gb.yaml")),
    ("H200-NVL", sheet!("h200-nvl-141gb.yaml")),
    ("H200", sheet!("h200-sxm-141gb.yaml")),
    ("H100-NVL", sheet!("h100-nvl-94gb.yaml")),
    ("H100NVL", sheet!("h100-nvl-94gb.yaml")),
    ("H100", sheet!("h100-sxm-80gb.yaml")),
    ("L40S", sheet!("l40s-48gb.yaml")),
];

/// A file of `manifests/gpus`.
#[derive(Deserialize)]
struct GpuFile {
    #[serde(default)]
    include: Vec<String>,
    vars: GpuVars,
}

#[derive(Deserialize)]
struct GpuVars {
    gpu: Map<String, Value>,
}

/// `engine.system` of a system's name; none where the GPU or the number is not in it.
pub(super) fn machine(system: &str) -> Option<Value> {
    let name = system.to_uppercase().replace('_', "-");
    let (_, (_, text)) = DATA_SHEETS.into_iter().find(|(part, _)| name.contains(part))?;
    let digits = name.rsplit('X').next().filter(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    let gpus: u32 = digits.and_then(|n| n.parse().ok()).filter(|n| *n > 0)?;
    let mut machine = Map::from_iter([("name".to_owned(), json!(system)), ("gpus".to_owned(), json!(gpus))]);
    machine.extend(numbers(text).into_iter().filter(|(key, _)| key != "name"));
    Some(Value::Object(machine))
}

/// `vars.gpu` of a file of `manifests/gpus` and of those that it includes.
fn numbers(text: &str) -> Map<String, Value> {
    let file: GpuFile = serde_yaml::from_str(text).expect("a shipped file is well-formed; a test reads them all");
    let sheets = DATA_SHEETS.into_iter().filter(|(_, (name, _))| file.include.iter().any(|base| base == name));
    let mut gpu = sheets.map(|(_, (_, base))| numbers(base)).next().unwrap_or_default();
    merge(&mut gpu, file.vars.gpu);
    gpu
}

fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge(base, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// GPUs that systems are named after; longer names before those that they contain.
const GPUS: [&str; 10] = ["rtx-pro-6000", "gb300", "gb200", "gh200", "b300", "b200", "h200", "h100", "l40s", "a100"];

/// Regatta's name for a system of NVIDIA's list: `H200-SXM-141GBx8` is `h200-x8`.
pub(super) fn system_name(id: &str) -> String {
    let lower = id.to_lowercase().replace('_', "-");
    let count =
        lower.rsplit('x').next().filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())).unwrap_or("1");
    gpu_name(&lower).map_or_else(|| lower.clone(), |gpu| format!("{gpu}-x{count}"))
}

/// The part of a system's name that is its GPU: `NVIDIA H100 NVL` is `h100-nvl`.
pub fn gpu_name(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let gpu = GPUS.into_iter().find(|gpu| lower.contains(gpu))?;
    // NVL72 is a rack; NVL alone is a pair of cards.
    let behind = |part: &str| lower.split(part).nth(1).map(|rest| rest.chars().next());
    let is_pair = behind("nvl").is_some_and(|next| !next.is_some_and(|c| c.is_ascii_digit()));
    let kind = if is_pair {
        "-nvl"
    } else if lower.contains("cts") {
        "-cts"
    } else {
        ""
    };
    Some(format!("{gpu}{kind}"))
}

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

/// All names of such fields.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    NUMBERS.split(' ').chain(FLAGS).chain(FLAGS_OF_V4_1.map(|(field, _)| field)).chain(["precision"])
}

/// What a field sets, or why its value is invalid. `None` if it is not a tuning field.
pub(super) fn read(name: &str, value: &str, word: &str) -> Option<Result<Vec<TuningField>, ErrorText>> {
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
            return Some(Err(ErrorText::new(format_args!("`{number}` is not a whole number"))));
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
            let problem = format_args!("`{pair}` is not KEY:VALUE; commas separate the pairs");
            return Some(Err(ErrorText::new(problem)));
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

    #[test]
    fn benchmarks_are_found_by_their_models() {
        for (name, ours) in [
            ("moe", Some("mixtral-8x7b")),
            ("meta-llama/Llama-2-70b-chat-hf", Some("llama2-70b")),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some("mixtral-8x7b")),
            ("meta-llama/Meta-Llama-3.1-405B-Instruct", Some("llama3.1-405b")),
            ("meta-llama/Llama-2-7b-hf", None),
            ("Llama-2-70b-chat-hf", None),
        ] {
            assert_eq!(benchmark(name), ours, "{name}");
        }
    }

    #[test]
    fn every_row_has_a_meaning() {
        let is_complete =
            |target: &MakeTarget| target.builds.is_empty() != target.runs.is_empty() || target.elsewhere.is_some();
        assert!(TABLE.target.iter().all(is_complete));
        for field in &TABLE.field {
            assert!(field.is_of_line() || field.reason_in_config().is_some(), "{:?}", field.names);
        }
    }

    #[test]
    fn systems_are_known_by_their_names() {
        let gpus = |system: &str| {
            machine(system).map(|machine| (machine["gpus"].as_u64().unwrap(), machine["memory_gb"].as_f64().unwrap()))
        };
        assert_eq!(gpus("H200-SXM-141GBx8"), Some((8, 141.0)));
        assert_eq!(gpus("GB200-NVL72_GB200-186GB_aarch64x4"), Some((4, 186.0)));
        assert_eq!(gpus("GH200_144GB_ARMx2"), Some((2, 144.0)));
        assert_eq!(gpus("GH200-GraceHopper-Superchip_GH200-96GB_aarch64x1"), Some((1, 96.0)));
        assert_eq!(gpus("XE9680L_H200_SXM_141GBX8"), Some((8, 141.0)));
        assert_eq!(gpus("HPE_PROLIANT_DL380A_RTX_PRO_6000_PCIE_96GBx8"), Some((8, 96.0)));
        assert_eq!((gpus("TPUx8"), gpus("H100")), (None, None));
    }

    #[test]
    fn every_gpu_has_its_numbers() {
        for (part, (_, text)) in DATA_SHEETS {
            let gpu = numbers(text);
            for number in ["memory_gb", "bandwidth_gbs", "link_gbs", "tflops_16bit"] {
                assert!(gpu[number].as_f64().is_some_and(|number| number > 0.0), "{part}: {number}");
            }
        }
    }

    #[test]
    fn systems_have_short_names() {
        for (id, name) in [
            ("H200-SXM-141GBx8", "h200-x8"),
            ("H200-SXM-141GB-CTSx8", "h200-cts-x8"),
            ("H100-NVL-94GBx4", "h100-nvl-x4"),
            ("B200-SXM-180GBx8", "b200-x8"),
            ("GB200-NVL72_GB200-186GB_aarch64x4", "gb200-x4"),
            ("GH200-144GB_aarch64x1", "gh200-x1"),
            ("XE9680L_H200_SXM_141GBX8", "h200-x8"),
            ("C845A_L40Sx8", "l40s-x8"),
            ("HPE_PROLIANT_DL380A_RTX_PRO_6000_PCIE_96GBx8", "rtx-pro-6000-x8"),
            ("mine", "mine"),
        ] {
            assert_eq!(system_name(id), name);
        }
    }

    #[test]
    fn gpus_are_known_by_the_names_that_nvidia_smi_prints() {
        for (text, gpu) in [
            ("NVIDIA H100 80GB HBM3", Some("h100")),
            ("NVIDIA H100 NVL", Some("h100-nvl")),
            ("NVIDIA H200", Some("h200")),
            ("NVIDIA GH200 480GB", Some("gh200")),
            ("NVIDIA GB200", Some("gb200")),
            ("NVIDIA L40S", Some("l40s")),
            ("NVIDIA GeForce RTX 4090", None),
        ] {
            assert_eq!(gpu_name(text).as_deref(), gpu, "{text}");
        }
    }

    fn places(name: &str, value: &str) -> Result<Vec<String>, ErrorText> {
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
        assert!(places("trtllm_build_flags", "max_num_tokens").unwrap_err().message.contains("KEY:VALUE"));
        assert!(places("triton_num_servers", "all").unwrap_err().message.contains("not a whole number"));
        assert!(read("log_dir", "x", "x").is_none());
    }
}
