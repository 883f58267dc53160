//! The data sets as the converters of MLPerf's reference implementations write them, small ones: read by `mlperf: { dataset }` and by
//! `bench: { data }`. Python writes them with the statements of the converters.

use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use regatta::mlperf::dataset::{DatasetFormat, DatasetRequest, read};
use regatta::rules::Round;
use serde_json::{Value, json};

use crate::python_packages::program;
use crate::world::World;

/// Three samples of each; `language/<model>` of mlcommons/inference at b66003e1. What writes `mixtral-8x7b`, `llama3.1-405b` and `deepseek-r1` is
/// not in the repository: their columns are those that `dataset.py` and the scorers read.
const WRITE: &str = r#"
import json, numpy, os, pandas
ids = [[1, 5, 6], [1, 7], [1, 8, 9, 10]]
texts = ["One.", 'Two "two".', "Drei ü."]
out = {"tok_input": ids, "input": ["a", "b", "c"]}

# llama2-70b/processorca.py: export_results
df = pandas.DataFrame({"id": ["t0.1", "t0.2", "t0.3"], "system_prompt": "", "question": "q", "output": texts, **out})
df["tok_output"] = [[3, 4, 5], [3, 4, 5, 6], [3, 4, 5]]
df["tok_input_length"] = df["tok_input"].apply(lambda x: len(x))
df["tok_output_length"] = df["tok_output"].apply(lambda x: len(x))
df.to_pickle("llama2-70b.pkl")
df.to_json("llama2-70b.jsonl", orient="records", lines=True)

# mixtral-8x7b/dataset.py, evaluate-accuracy.py
sets = ["OpenOrca", "GSM8K", "MBXP"]
df = pandas.DataFrame({"dataset": sets, "id": ["1", "2", "3"], "gt_output": texts, "stop_sequence": "</s>", **out})
df["tok_input"] = df["tok_input"].apply(numpy.array)
df["tok_input_len"] = df["tok_input"].apply(len)
df.to_pickle("mixtral-8x7b.pkl")

# llama3.1-405b/dataset.py, evaluate-accuracy.py
df = pandas.DataFrame({"metric": ["rouge", "niah_em", "qa_em"], "gt_output": texts, **out})
df["tok_input_len"] = df["tok_input"].apply(len)
df.to_pickle("llama3.1-405b.pkl")

# llama3.1-8b/download_cnndm.py
template = {"llama": "Summarize the following news article in 128 tokens.\n\nArticle:\n{input}\n\nSummary:"}
data = [{"instruction": template, "input": i, "tok_input": t, "output": o} for i, t, o in zip(out["input"], ids, texts)]
with open("llama3.1-8b.json", "w") as write_f:
    json.dump(data, write_f, indent=4, ensure_ascii=False)

# deepseek-r1/eval_accuracy.py: process_mlperf_log_accuracy
df = pandas.DataFrame({"dataset": ["gpqa", "aime1983", "math500"], "question": "q", "text_input": "t", "ground_truth": ["B", "7", "x"], **out})
df.to_pickle("deepseek-r1.pkl")

# gpt-oss-120b/run_mlperf.py reads Parquet; its columns are those of eval_mlperf_accuracy.py
df = pandas.DataFrame({"dataset": ["aime25", "gpqa_diamond", "livecodebench_v6"], "ground_truth": ["7", "B", "x"], "input_tokens": ids})
df.to_parquet("gpt-oss-120b.parquet")

# The processed form of NVIDIA's preprocess_data.py
os.mkdir("npy")
numpy.save("npy/input_ids_padded.npy", numpy.array([[1, 5, 6, 2], [1, 7, 2, 2], [1, 8, 9, 10]], dtype=numpy.int32))
numpy.save("npy/input_lens.npy", numpy.array([3, 2, 4], dtype=numpy.int32))
"#;

/// Runs a command line that a message names, with the Python that has pandas.
fn shell(command: &str, folder: &Path) {
    let command = command.replace("python3", &program().display().to_string());
    let ended = Command::new("sh").args(["-c", &command]).current_dir(folder).output().unwrap();
    assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
}

fn written(folder: &Path) {
    fs::write(folder.join("write.py"), WRITE).unwrap();
    shell("python3 write.py", folder);
}

/// A round whose benchmark has three samples.
fn round(benchmark: &str) -> Round {
    let of = |name: &str| Round::named(name).unwrap();
    let mut round =
        if benchmark.starts_with("mixtral") || benchmark.ends_with("405b") { of("v6.0") } else { of("v6.1") };
    round.benchmarks.get_mut(benchmark).unwrap().dataset_samples = 3;
    round
}

#[test]
#[ignore = "needs Python, pip and the network"]
fn what_the_references_converters_write_is_a_data_set_of_its_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let text = ["One.", "Two \"two\".", "Drei ü."];
    for (benchmark, file, form, references, tasks) in [
        ("llama2-70b-99.9", "llama2-70b.pkl", DatasetFormat::Parquet, text, [None; 3]),
        ("mixtral-8x7b", "mixtral-8x7b.pkl", DatasetFormat::Parquet, text, ["OpenOrca", "GSM8K", "MBXP"].map(Some)),
        ("llama3.1-405b", "llama3.1-405b.pkl", DatasetFormat::Parquet, text, ["rouge", "niah_em", "qa_em"].map(Some)),
        ("llama3.1-8b", "llama3.1-8b.json", DatasetFormat::Json, text, [None; 3]),
        (
            "deepseek-r1",
            "deepseek-r1.pkl",
            DatasetFormat::Parquet,
            ["B", "7", "x"],
            ["gpqa", "aime1983", "math500"].map(Some),
        ),
        (
            "gpt-oss-120b",
            "gpt-oss-120b.parquet",
            DatasetFormat::Parquet,
            ["7", "B", "x"],
            ["aime25", "gpqa_diamond", "livecodebench_v6"].map(Some),
        ),
    ] {
        let round = round(benchmark);
        let wanted = DatasetRequest { round: &round, benchmark, out: folder.path() };
        let mut path = folder.path().join(file);
        let hint = read(&wanted, &path).err().and_then(|failure| failure.hint);
        if let Some(command) = hint.as_deref().and_then(|hint| hint.strip_prefix("convert it, and name the result: ")) {
            shell(command, folder.path());
            path = folder.path().join(format!("{file}.parquet"));
        }
        let made = read(&wanted, &path).unwrap_or_else(|failure| panic!("{benchmark}: {failure:?}"));
        assert_eq!((made.form, made.record.samples, made.references), (form, 3, 3), "{benchmark}");
        let lines = fs::read_to_string(folder.path().join("dataset.jsonl")).unwrap();
        let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ids = [json!([1, 5, 6]), json!([1, 7]), json!([1, 8, 9, 10])];
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(row["input_ids"], ids[at], "{benchmark}");
            assert_eq!(
                (row["reference"].as_str(), row["task"].as_str()),
                (Some(references[at]), tasks[at]),
                "{benchmark}"
            );
        }
    }
    let round = round("llama2-70b-99.9");
    let wanted = DatasetRequest { round: &round, benchmark: "llama2-70b-99.9", out: folder.path() };
    let arrays = read(&wanted, &folder.path().join("npy")).unwrap();
    assert_eq!((arrays.form, arrays.record.samples, arrays.references), (DatasetFormat::Npy, 3, 0));
}

/// The same files as prompts of a benchmark without LoadGen.
#[test]
#[ignore = "needs Python, pip and the network"]
fn what_the_references_converters_write_are_prompts_of_a_benchmark() {
    let world = World::with(
        "params: { file: { about: A, text: {} } }\nstages:\n  engine: { engine: { backend: simulator, model: { name: m, architecture: LlamaForCausalLM, parameters: 1000000, \
         num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000, \
         max_position_embeddings: 64 }, system: { name: H100x1, gpus: 1, memory_gb: 80, bandwidth_gbs: 3350, tflops_16bit: 989 }, precision: fp16, \
         build_flags: { max_batch_size: 8, max_num_tokens: 64, max_input_len: 32, max_seq_len: 64 } } }\n  \
         models: { repository: { engine: \"{{ stages.engine.out }}\" } }\n  server: { serve: { simulator: { repository: \"{{ stages.models.out }}\" } } }\n  \
         load: { bench: { target: \"{{ stages.server }}\", scenario: offline, vocab_size: 1000, end_id: 2, output_tokens: { fixed: 3 }, \
         data: { jsonl: \"{{ file }}\" } } }\n",
    );
    written(&world.path("."));
    let refused = world.regatta(&["run", "m", "file=llama2-70b.pkl"]);
    assert_ne!(refused.code, 0);
    let text = refused.stdout.clone() + &refused.stderr;
    let command = text.lines().find_map(|line| line.find("python3 -c").map(|at| line[at..].to_owned()));
    for file in ["llama2-70b.pkl", "llama3.1-405b.pkl"] {
        // The command of the message, for this file.
        shell(&command.clone().unwrap().replace("llama2-70b.pkl", file), &world.path("."));
        world.good(&["run", "m", &format!("file={file}.jsonl")]).shows("SIMULATED");
    }
    for file in ["llama2-70b.jsonl", "llama3.1-8b.json"] {
        world.good(&["run", "m", &format!("file={file}")]).shows("SIMULATED");
        let result: Value = serde_json::from_str(&world.read("latest/load/result.json")).unwrap();
        let lengths: Vec<u64> = world
            .read("latest/load/requests.jsonl")
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["input_tokens"].as_u64())
            .collect();
        assert_eq!(lengths, [3, 2, 4], "{file}: {result:#}");
    }
}
