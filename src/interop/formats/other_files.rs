//! Files that are recognized and not read as results, by `other-files.toml`: results without numbers of requests,
//! configs, manifests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// A row of the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtherFile {
    /// What the file is: `a manifest of Regatta`.
    pub is: String,
    marks: Vec<Vec<String>>,
    /// What to do with it.
    pub instead: String,
    /// The command line whose last argument is the file.
    pub line: Vec<String>,
}

impl OtherFile {
    /// The row that a text has the marks of.
    pub fn detect(text: &str) -> Option<&'static Self> {
        static FILES: LazyLock<BTreeMap<String, Vec<OtherFile>>> =
            LazyLock::new(|| toml::from_str(include_str!("other-files.toml")).expect("a test reads the table"));
        let has = |mark: &String| match mark.strip_prefix('^') {
            Some(begin) => text.lines().any(|line| line.starts_with(begin)),
            None => text.contains(&**mark),
        };
        FILES.values().flatten().find(|file| file.marks.iter().any(|marks| marks.iter().all(has)))
    }
}

#[cfg(test)]
mod tests {
    use super::OtherFile;

    #[test]
    fn a_file_is_recognized_by_its_marks() {
        for (text, is) in [
            ("model_names: [gpt2]\nendpoint: { type: chat }\n", "a config of GenAI-Perf"),
            ("models: [m]\nendpoint: { urls: [a] }\nphases: []\n", "a config of AIPerf"),
            ("benchmark:\n  model: m\n  endpoint: { url: a }\n", "a config of AIPerf"),
            ("backend: { kind: openai_http }\ndata: []\n", "a config of GuideLLM"),
            ("regatta: 1\nbackend: a\ndata: b\n", "a manifest of Regatta"),
            ("---\napiVersion: batch/v1\nkind: Job\n---\nkind: Service\n", "a Kubernetes manifest"),
            ("{\"cells\": [{\"source\": [\"!vllm serve m\"]}], \"nbformat\": 4}", "a notebook"),
            ("*.Server.target_qps = 10\n", "a file of LoadGen's settings (user.conf or mlperf.conf)"),
            ("name: \"gpt2\"\nbackend: \"vllm\"\ninput [\n", "a model's configuration for Triton"),
            ("model: m\ntensor-parallel-size: 2\n", "a file of options of vLLM's server"),
            ("kv_cache_config:\n  free_gpu_memory_fraction: 0.9\n", "a file of options of TensorRT-LLM's LLM API"),
            ("*** Measurement Settings ***\n  Batch size: 1\n", "what perf_analyzer printed"),
            ("[{\"n_prompt\":512,\"n_gen\":0,\"avg_ts\":7100.0}]", "a result of llama-bench"),
            ("| model | test | t/s |\n| --- | --- | --- |\n| q | pp512 | 2 ± 1 |\n", "a result of llama-bench"),
            ("{\"elapsed_time\": 1.0, \"tokens_per_second\": 5.0}", "a result of vllm bench throughput or latency"),
        ] {
            assert_eq!(OtherFile::detect(text).map(|file| &*file.is), Some(is), "{text}");
        }
        for text in ["- 1", "hello", "{\"a\": 1}", "backend: a\n"] {
            assert!(OtherFile::detect(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_row_says_what_to_do_or_has_a_line() {
        let file = OtherFile::detect("load: {}\nserver: {}\n").expect("inference-perf's");
        assert_eq!(file.line.join(" "), "inference-perf --config_file");
        assert!(file.instead.contains("alone"));
        assert!(OtherFile::detect("regatta: 1").is_some_and(|file| !file.instead.is_empty() && file.line.is_empty()));
    }
}
