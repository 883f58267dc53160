//! `trtllm_bench:` — TensorRT-LLM's own benchmark, which measures the engine in its own process.
//!
//! `trtllm_bench:` before hours of GPU time: options that would mean nothing, and GPUs that are not there.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ActionFacts, Check, StageChecker, faults};
use crate::manifest::model::Stage;
use base::spec::{LONGEST_LENGTH, MOST_PARTS, MOST_REQUESTS, MOST_USERS};

/// `trtllm-bench … throughput`: no server, no network. Its numbers become a `result.json` that names trtllm-bench as
/// their source. Names are those of its options.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrtllmBench {
    /// The model's name, for its report.
    pub model: String,
    /// Folder of the Hugging Face checkpoint; also the tokenizer's.
    pub model_path: Option<String>,
    /// Folder of an engine, for `backend: tensorrt`.
    pub engine_dir: Option<String>,
    /// Requests, one JSON object a line, as from prepare_dataset.py.
    pub dataset: String,
    #[serde(default)]
    pub backend: TrtllmBenchBackend,
    /// Tensor parallelism.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub tp: u32,
    /// Pipeline parallelism.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub pp: u32,
    /// Expert parallelism, for mixture-of-experts models.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub ep: u32,
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub max_batch_size: Option<u32>,
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_num_tokens: Option<u32>,
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_seq_len: Option<u32>,
    /// Share of the memory that is free after the model is loaded.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub kv_cache_free_gpu_mem_fraction: Option<f64>,
    /// Use only the first N requests of `dataset`. [default: all]
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub num_requests: Option<u64>,
    /// Requests before the measured ones. [trtllm-bench's default]
    #[schemars(range(max = MOST_USERS))]
    pub warmup: Option<u32>,
    /// Requests in flight; -1 is all at once.
    #[serde(default = "super::all_at_once")]
    #[schemars(range(min = -1, max = MOST_USERS))]
    pub concurrency: i64,
    /// Token by token; without it there is neither TTFT nor TPOT.
    #[serde(default)]
    pub streaming: bool,
    /// The content of the file of `--extra_llm_api_options`; null values are left out.
    pub options: IndexMap<String, Value>,
    /// Other options of `throughput`: `name: value`; true is the bare option, false and null omit it.
    pub flags: IndexMap<String, Value>,
    /// What starts it; `trtllm-llmapi-launch` starts the ranks under MPI or Slurm.
    #[serde(default = "super::llmapi_launcher")]
    pub launcher: Vec<String>,
    /// Name of its output files: `NAME.out`, `NAME.json`, `NAME.yml`.
    #[serde(default = "super::trtllm_bench_name")]
    pub name: String,
}

base::named! {
    /// What runs the model.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
    pub enum TrtllmBenchBackend {
        #[default]
        Pytorch = "pytorch",
        /// An engine that was built before.
        Tensorrt = "tensorrt",
        Autodeploy = "_autodeploy",
    }
}

/// Options that have a key of their own.
const KEYS: &str = "\
    tp pp ep dataset backend engine_dir max_batch_size max_num_tokens max_seq_len kv_cache_free_gpu_mem_fraction \
    num_requests warmup concurrency streaming extra_llm_api_options report_json model_path";

impl Check for TrtllmBench {
    const FACTS: ActionFacts = ActionFacts { measures: true, is_command: true, ..ActionFacts::MEASUREMENT };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let optional = [("trtllm_bench.model_path", &self.model_path), ("trtllm_bench.engine_dir", &self.engine_dir)];
        let optional = optional.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)));
        std::iter::once(("trtllm_bench.dataset", self.dataset.as_str())).chain(optional).collect()
    }

    fn check(&self, stage: &Stage, checker: &mut StageChecker<'_>) {
        for flag in self.flags.keys().filter(|flag| KEYS.split(' ').any(|key| key == *flag)) {
            let key = match flag.as_str() {
                // A file that is there already.
                "extra_llm_api_options" if self.options.is_empty() => continue,
                "extra_llm_api_options" => "`options` is what goes into that file".to_owned(),
                "report_json" => "the result is made from it".to_owned(),
                flag => format!("write `{flag}:` under `trtllm_bench`"),
            };
            checker.fault(&["trtllm_bench", "flags", flag], "has a key of its own", &key);
        }
        let (world, name) = (self.tp * self.pp, &self.name);
        let (runs_engines, has_engine) = (self.backend == TrtllmBenchBackend::Tensorrt, self.engine_dir.is_some());
        faults! { checker;
            ["trtllm_bench", "backend"], runs_engines && !has_engine, "needs an `engine_dir`", "it runs engines",
                "`engine_dir: \"{{ stages.NAME.out }}\"` of an `engine` stage";
            ["trtllm_bench", "engine_dir"], !runs_engines && has_engine, "would have no effect",
                "this backend does not use engines", "remove it, or choose `backend: tensorrt`";
            ["trtllm_bench", "concurrency"], self.concurrency == 0, "cannot be 0", "-1 is all at once";
            ["gpus"], stage.gpus > 0 && stage.gpus < world, "are too few", &format!("tp × pp is {world}"),
                format!("`gpus: {world}`");
            ["trtllm_bench", "name"], name.is_empty() || name.contains('/') || name.starts_with('.'),
                "must be a plain file name", "files are called so";
            ["trtllm_bench", "launcher", "0"], self.launcher.first().is_some_and(String::is_empty), "is empty",
                "no program", "`launcher: []` means none";
        }
    }
}
