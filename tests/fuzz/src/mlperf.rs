//! Submissions of others, and the files that a score is made of.

use std::cell::LazyCell;
use std::fs;
use std::path::PathBuf;

use regatta::mlperf::accuracy::{SENTENCE_FILES, Scoring, SentenceModel, one_sentence_per_line, score};
use regatta::mlperf::dataset::{DatasetRequest, read};
use regatta::mlperf::{DatasetRecord, examine, round_of};
use regatta::rules::Round;
use regatta::spec::TestMode;

use super::{choose, file, folder, parts};

thread_local! {
    static ROUND: LazyCell<Round> = LazyCell::new(|| Round::named("v5.1").expect("a round"));
    static SUBMISSION: LazyCell<PathBuf> = LazyCell::new(|| {
        for (path, bytes) in SUBMITTED {
            file(&format!("submission/{path}"), bytes);
        }
        folder().join("submission")
    });
}

/// One result with all files that are read of it; each in turn is the fuzzer's.
const SUBMITTED: [(&str, &[u8]); 16] = [
    ("closed/a/systems/s.json", b"{}"),
    ("closed/a/documentation/regatta.lock", b"{}"),
    ("closed/a/measurements/s/llama2-70b-99/Offline/user.conf", b"*.Offline.target_qps = 1.0\n"),
    ("closed/a/measurements/s/llama2-70b-99/Offline/s_Offline.json", b"{}"),
    ("closed/a/results/s/llama2-70b-99/Offline/performance/run_1/mlperf_log_detail.txt", DETAIL),
    ("closed/a/results/s/llama2-70b-99/Offline/performance/run_1/mlperf_log_summary.txt", SUMMARY),
    ("closed/a/results/s/llama2-70b-99/Offline/performance/run_1/spl.txt", SAMPLES),
    ("closed/a/results/s/llama2-70b-99/Offline/performance/ranging/mlperf_log_detail.txt", DETAIL),
    ("closed/a/results/s/llama2-70b-99/Offline/performance/ranging/spl.txt", SAMPLES),
    ("closed/a/results/s/llama2-70b-99/Offline/performance/power/client.json", b"{\"results\":{}}"),
    ("closed/a/results/s/llama2-70b-99/Offline/accuracy/accuracy.txt", ACCURACY),
    ("closed/a/results/s/llama2-70b-99/Offline/accuracy/mlperf_log_accuracy.json", b"[]"),
    ("closed/a/compliance/s/llama2-70b-99/Offline/TEST06/verify_accuracy.txt", b"TEST PASS\n"),
    ("closed/a/compliance/s/llama2-70b-99/Offline/TEST06/accuracy/mlperf_log_accuracy.json", ANSWERS),
    ("open/a/model_mapping.json", b"{\"x\":\"llama2-70b-99\"}"),
    ("open/a/results/s/x/Server/performance/run_1/mlperf_log_detail.txt", DETAIL),
];
const DETAIL: &[u8] = include_bytes!("../../golden/mlperf/logs/offline-valid/mlperf_log_detail.txt");
const SUMMARY: &[u8] = include_bytes!("../../golden/mlperf/logs/offline-valid/mlperf_log_summary.txt");
const ANSWERS: &[u8] = include_bytes!("../../golden/mlperf/logs/test06-server/mlperf_log_accuracy.json");
const ACCURACY: &[u8] =
    b"{'rouge1': 44.4312, 'rouge2': 22.0352, 'rougeL': 28.6162, 'tokens_per_sample': 294.45}\nhash=x\n";
const SAMPLES: &[u8] = b"Time,11-21-2026 19:55:32.000,Watts,22.9,Volts,228.57,Amps,0.1279,PF,0.7808,Mark,x_testing\n";

/// The first byte decides which file of a submission it is.
pub fn submission(data: &[u8]) {
    let (choice, data) = choose(data);
    let (path, bytes) = SUBMITTED[choice % SUBMITTED.len()];
    let root = SUBMISSION.with(|root| (**root).clone());
    fs::write(root.join(path), data).expect("a file");
    ROUND.with(|round| {
        let report = examine(&root, round);
        let _ = (serde_json::to_string(&report).expect("JSON"), report.refusal_count());
    });
    let _ = round_of(&root);
    fs::write(root.join(path), bytes).expect("a file");
}

const BENCHMARKS: [&str; 4] = ["llama2-70b-99", "mixtral-8x7b", "llama3.1-405b", "deepseek-r1"];

/// The first byte decides what it is, and of which benchmark: a data set; its samples and an accuracy log; the model that finds
/// sentences, and a text. Bytes that are 0 are between files.
pub fn mlperf_data(data: &[u8]) {
    let (choice, data) = choose(data);
    let benchmark = BENCHMARKS[choice / 3 % BENCHMARKS.len()];
    match choice % 3 {
        0 => ROUND.with(|round| dataset(round, benchmark, data)),
        1 => ROUND.with(|round| scored(round, benchmark, data)),
        _ => sentences(data),
    }
}

fn dataset(round: &Round, benchmark: &str, data: &[u8]) {
    let out = folder().join("dataset");
    fs::create_dir_all(&out).expect("a folder");
    let _ = read(&DatasetRequest { round, benchmark, out: &out }, &file("samples", data));
}

fn scored(round: &Round, benchmark: &str, data: &[u8]) {
    let mut files = parts(data);
    let samples = files.next().unwrap_or_default();
    let [dataset, log] = [file("dataset.jsonl", samples), file("accuracy.json", files.next().unwrap_or_default())];
    let dataset_record = DatasetRecord {
        benchmark: benchmark.to_owned(),
        synthetic: true,
        samples: samples.split_inclusive(|byte| *byte == b'\n').count() as u64,
        sha256: String::new(),
    };
    let model = sentence_model([
        include_bytes!("../../golden/mlperf/punkt/abbrev_types.txt"),
        include_bytes!("../../golden/mlperf/punkt/collocations.tab"),
        include_bytes!("../../golden/mlperf/punkt/sent_starters.txt"),
        include_bytes!("../../golden/mlperf/punkt/ortho_context.tab"),
    ]);
    let scoring = Scoring {
        round,
        benchmark,
        mode: TestMode::Accuracy,
        log: &log,
        dataset: &dataset,
        dataset_record: &dataset_record,
        tokenizer: None,
        sentences: Some(&model),
        threads: 1,
        official: files.next().and_then(|text| std::str::from_utf8(text).ok()),
    };
    let _ = score(&scoring, &mut |_| {});
}

fn sentence_model(files: [&[u8]; 4]) -> PathBuf {
    for (name, bytes) in SENTENCE_FILES.iter().zip(files) {
        file(&format!("punkt/{name}"), bytes);
    }
    folder().join("punkt")
}

fn sentences(data: &[u8]) {
    let mut files = parts(data);
    let model = sentence_model([(); 4].map(|()| files.next().unwrap_or_default()));
    let text = files.next().unwrap_or(b"Mr. A. B. went (e.g. home). It's 3.5 \xe2\x80\x9cok.\xe2\x80\x9d Then... no!");
    if let Ok(model) = SentenceModel::load(&model) {
        let text = String::from_utf8_lossy(text);
        let found = one_sentence_per_line(&model, &text);
        // Python has a few spaces more.
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect::<String>();
        assert_eq!(letters(&found), letters(&text), "no letter is lost");
    }
}
