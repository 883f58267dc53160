//! `trtllm_bench:` before hours of GPU time: options that would mean nothing, and GPUs that are not there.

use crate::actions::{ActionFacts, Check};
use crate::manifest::model::{Stage, TrtllmBench, TrtllmBenchBackend};

use super::StageChecker;

/// Options that have a key of their own.
const KEYS: [&str; 17] = [
    "tp",
    "pp",
    "ep",
    "dataset",
    "backend",
    "engine_dir",
    "max_batch_size",
    "max_num_tokens",
    "max_seq_len",
    "kv_cache_free_gpu_mem_fraction",
    "num_requests",
    "warmup",
    "concurrency",
    "streaming",
    "extra_llm_api_options",
    "report_json",
    "model_path",
];

impl Check for TrtllmBench {
    const FACTS: ActionFacts = ActionFacts { measures: true, is_command: true, ..ActionFacts::MEASUREMENT };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let optional = [("trtllm_bench.model_path", &self.model_path), ("trtllm_bench.engine_dir", &self.engine_dir)];
        let optional = optional.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)));
        std::iter::once(("trtllm_bench.dataset", self.dataset.as_str())).chain(optional).collect()
    }

    fn check(&self, stage: &Stage, checker: &mut StageChecker<'_>) {
        checker.trtllm_bench(self, stage.gpus);
    }
}

impl StageChecker<'_> {
    pub(super) fn trtllm_bench(&mut self, bench: &TrtllmBench, gpus: u32) {
        for flag in bench.flags.keys().filter(|flag| KEYS.contains(&flag.as_str())) {
            let key = match flag.as_str() {
                "extra_llm_api_options" => "`options` is what goes into that file".to_owned(),
                "report_json" => "the result is made from it".to_owned(),
                flag => format!("write `{flag}:` under `trtllm_bench`"),
            };
            self.push_error(&["trtllm_bench", "flags", flag], "has a key of its own", &key, None);
        }
        match (bench.backend, &bench.engine_dir) {
            (TrtllmBenchBackend::Tensorrt, None) => {
                let hint = Some("`engine_dir: \"{{ stages.NAME.out }}\"` of an `engine` stage".to_owned());
                self.push_error(&["trtllm_bench", "backend"], "needs an `engine_dir`", "it runs engines", hint);
            }
            (TrtllmBenchBackend::Pytorch | TrtllmBenchBackend::Autodeploy, Some(_)) => {
                let hint = Some("remove it, or choose `backend: tensorrt`".to_owned());
                let label = "this backend builds no engine and reads none";
                self.push_error(&["trtllm_bench", "engine_dir"], "would have no effect", label, hint);
            }
            _ => {}
        }
        if bench.concurrency == 0 {
            self.push_error(&["trtllm_bench", "concurrency"], "cannot be 0", "-1 is all at once", None);
        }
        let world = bench.tp * bench.pp;
        if gpus > 0 && gpus < world {
            let label = format!("tp × pp is {world}");
            let hint = Some(format!("`gpus: {world}`"));
            self.push_error(&["gpus"], "are too few", &label, hint);
        }
        if bench.name.is_empty() || bench.name.contains('/') || bench.name.starts_with('.') {
            self.push_error(&["trtllm_bench", "name"], "must be a plain file name", "files are called so", None);
        }
        if bench.launcher.first().is_some_and(String::is_empty) {
            let hint = Some("`launcher: []` is none".to_owned());
            self.push_error(&["trtllm_bench", "launcher", "0"], "is empty", "no program", hint);
        }
    }
}
