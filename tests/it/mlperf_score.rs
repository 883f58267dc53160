//! MLPerf's data sets, and what an accuracy run is worth.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use pretty_assertions::assert_eq;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use regatta::event::{Failure, FailureKind};
use regatta::mlperf::DatasetRecord;
use regatta::mlperf::accuracy::{
    AccuracyReport, AccuracyVerdict, Rouge, Scored, Scoring, SentenceModel, WordInterner, one_sentence_per_line, score,
    stem,
};
use regatta::mlperf::dataset::{DatasetFile, DatasetFormat, DatasetRequest, make, read};
use regatta::rules::{Accuracy, Round};
use regatta::spec::TestMode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::World;

const LLAMA: &str = "llama2-70b-99.9";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mlperf").join(name)
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A log as LoadGen writes it: sample and token ids.
fn log(answers: &[(usize, &[u32])]) -> String {
    let line = |(at, (sample, ids)): (usize, &(usize, &[u32]))| {
        let data = hex(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>()).to_uppercase();
        format!(
            "{{ \"seq_id\" : {at}, \"qsl_idx\" : {sample}, \"data\" : \"{data}\", \"token_count\" : {} }}",
            ids.len()
        )
    };
    let lines: Vec<String> = answers.iter().enumerate().map(line).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// A round with one benchmark of so many samples, and these bounds.
fn round(benchmark: &str, samples: u64, bounds: &[(&str, Option<f64>, Option<f64>)]) -> Round {
    let mut round = Round::named("v5.1").unwrap();
    let mut one = round.benchmarks[LLAMA].clone();
    (one.dataset_samples, one.accuracy_samples) = (samples, None);
    one.accuracy =
        bounds.iter().map(|(name, min, max)| ((*name).to_owned(), Accuracy { min: *min, max: *max })).collect();
    round.benchmarks = [(benchmark.to_owned(), one)].into_iter().collect();
    round
}

const MANIFEST: &str = r#"
stages:
  set:
    mlperf: { dataset: { round: v5.1, benchmark: llama2-70b-99.9, synthetic: { seed: 7, samples: 30 } } }
  answers:
    inputs: { log: log.json }
    shell: cp "{{ inputs.log }}" "$OUT/mlperf_log_accuracy.json"
  worth:
    mlperf:
      score:
        round: v5.1
        benchmark: llama2-70b-99.9
        accuracy: "{{ stages.answers.out }}"
        dataset: "{{ stages.set.out }}"
"#;

#[test]
fn a_made_up_data_set_is_scored_without_anybodys_tokenizer() {
    let world = World::with(MANIFEST);
    let answer: Vec<u32> = (259..500).collect();
    let answers: Vec<(usize, &[u32])> = (0..30).map(|sample| (sample, answer.as_slice())).collect();
    world.file("log.json", &log(&answers));
    world
        .good(&["run", "m"])
        .shows("30 synthetic samples, not submittable")
        .shows("accuracy MISSED: ROUGE1")
        .shows("synthetic data");

    let set: DatasetFile = serde_json::from_str(&world.read("latest/set/dataset.json")).unwrap();
    assert_eq!((set.record.synthetic, set.record.samples, set.form), (true, 30, DatasetFormat::MadeUp));
    assert_eq!(set.record.sha256, sha256(world.read("latest/set/dataset.jsonl")));
    let made = set.made.unwrap();
    assert!(made.seed == 7 && made.reference_words.source.contains("tokens per sample"), "{made:?}");

    // What the official checker looks for, line by line.
    let printed = world.read("latest/worth/accuracy.txt");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!((lines[1], lines.last().unwrap().split_once('=').unwrap().0), ("Results", "hash"));
    assert_eq!(lines.last().unwrap().strip_prefix("hash="), Some(sha256(world.read("log.json")).as_str()));
    let report: AccuracyReport = serde_json::from_str(&world.read("latest/worth/accuracy.json")).unwrap();
    for (key, name) in
        [("rouge1", "ROUGE1"), ("rouge2", "ROUGE2"), ("rougeL", "ROUGEL"), ("tokens_per_sample", "TOKENS_PER_SAMPLE")]
    {
        let metric = report.metrics.iter().find(|metric| metric.name == name).unwrap();
        assert!(lines[3].contains(&format!("'{key}': {:?}", metric.value)), "{key} in {}", lines[3]);
        assert!(metric.met.is_some() && metric.margin.is_some());
    }
    assert!(lines[3].contains("'tokens_per_sample': 241.0") && lines[3].contains("'gen_num': 30"), "{}", lines[3]);
    // What needs sentences is left out, and said to be.
    assert!(!lines[3].contains("rougeLsum") && !lines[3].contains("gen_len"));
    assert!(report.unscored.iter().all(|one| !one.wanted && one.why.contains("punkt_tab/english")));
    assert_eq!((report.verdict, report.expected, report.samples), (AccuracyVerdict::Missed, 30, 30));

    assert_eq!(world.will_run(&[]), Vec::<String>::new());
    world.file("log.json", &log(&answers[..29]));
    assert_eq!(world.will_run(&[]), ["answers", "worth"]);
}

/// The logs of earlier programs have eight bytes for each id. They are scored; the official evaluator of a reasoning model misreads them.
#[test]
fn an_evaluator_that_would_misread_the_log_is_named() {
    let world = World::with(&MANIFEST.replace(LLAMA, "deepseek-r1"));
    let wide: Vec<u32> = (259..269).flat_map(|id| [id, 0]).collect();
    let answers: Vec<(usize, &[u32])> = (0..30).map(|sample| (sample, wide.as_slice())).collect();
    world.file("log.json", &log(&answers).replace("\"token_count\" : 20", "\"token_count\" : 10"));
    let misread = "language/deepseek-r1/eval_accuracy.py reads token ids of 4 bytes";
    world.good(&["run", "m"]).shows(misread);
    let report: AccuracyReport = serde_json::from_str(&world.read("latest/worth/accuracy.json")).unwrap();
    let tokens = report.metrics.iter().find(|metric| metric.name == "TOKENS_PER_SAMPLE").unwrap();
    assert!((tokens.value - 10.0).abs() < 1e-9, "{tokens:?}");

    let narrow: Vec<u32> = (259..269).collect();
    let answers: Vec<(usize, &[u32])> = (0..30).map(|sample| (sample, narrow.as_slice())).collect();
    world.file("log.json", &log(&answers));
    let ended = world.good(&["run", "m"]);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains(misread), "{ended:?}");
}

#[test]
fn the_same_seed_makes_the_same_bytes_and_fewer_samples_are_the_first_of_more() {
    let round = Round::named("v5.1").unwrap();
    let made = |seed, samples| {
        let out = tempfile::tempdir().unwrap();
        let wanted = DatasetRequest { round: &round, benchmark: LLAMA, out: out.path() };
        let file = make(&wanted, seed, Some(samples), None).unwrap();
        (text(out.path().join("dataset.jsonl")), file)
    };
    let (many, file) = made(1, 200);
    assert_eq!(many, made(1, 200).0);
    assert!(many.starts_with(&made(1, 50).0));
    assert_ne!(made(2, 50).0, made(1, 50).0);
    let shape = file.made.unwrap().input_tokens;
    assert!((f64::from(shape.min)..=f64::from(shape.max)).contains(&file.input_tokens.mean), "{:?}", file.input_tokens);
    assert!((file.input_tokens.mean / shape.mean - 1.0).abs() < 0.25, "{:?}", file.input_tokens);
    assert!(file.input_tokens.min >= u64::from(shape.min) && file.input_tokens.max <= u64::from(shape.max));
}

/// A Parquet file as pandas writes one: a list column and text columns, all of which can be null.
fn parquet_file(path: &Path, rows: &[(&[i64], &str)]) {
    let schema = "message schema { optional group tok_input (LIST) { repeated group list { optional int64 element; } } \
                  optional binary output (STRING); optional double unused; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(fs::File::create(path).unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        match column.untyped() {
            ColumnWriter::Int64ColumnWriter(ids) => {
                let values: Vec<i64> = rows.iter().flat_map(|(ids, _)| ids.iter().copied()).collect();
                let repeats: Vec<i16> =
                    rows.iter().flat_map(|(ids, _)| (0..ids.len()).map(|at| i16::from(at > 0))).collect();
                ids.write_batch(&values, Some(&vec![3; values.len()]), Some(&repeats)).unwrap();
            }
            ColumnWriter::ByteArrayColumnWriter(texts) => {
                let values: Vec<ByteArray> = rows.iter().map(|(_, text)| ByteArray::from(*text)).collect();
                texts.write_batch(&values, Some(&vec![1; values.len()]), None).unwrap();
            }
            ColumnWriter::DoubleColumnWriter(numbers) => {
                numbers.write_batch(&[], Some(&vec![0; rows.len()]), None).unwrap();
            }
            _ => unreachable!("three columns"),
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// A `.npy` of version 1 with four-byte numbers.
fn npy(path: &Path, shape: &str, numbers: &[i32]) {
    let mut head = format!("{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + head.len() + 1).is_multiple_of(64) {
        head.push(' ');
    }
    head.push('\n');
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    fs::write(path, [b"\x93NUMPY\x01\x00", &(head.len() as u16).to_le_bytes()[..], head.as_bytes(), &bytes].concat())
        .unwrap();
}

#[test]
fn a_processed_data_set_is_read_in_the_forms_it_is_published_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let rows: [(&[i64], &str); 3] = [(&[1, 5, 6], "One."), (&[1, 7], "Two \"two\".\n"), (&[1, 8, 9, 10], "Drei ü.")];
    parquet_file(&path("set.parquet"), &rows);
    let records: Vec<Value> = rows
        .iter()
        .map(|(ids, output)| json!({"instruction": "…", "tok_input": ids, "output": output, "input": ["x"]}))
        .collect();
    fs::write(path("set.json"), serde_json::to_string(&records).unwrap()).unwrap();
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    fs::write(path("set.jsonl"), lines.join("\n")).unwrap();
    fs::create_dir(path("npy")).unwrap();
    npy(&path("npy/input_ids_padded.npy"), "(3, 4)", &[1, 5, 6, 2, 1, 7, 2, 2, 1, 8, 9, 10]);
    npy(&path("npy/input_lens.npy"), "(3,)", &[3, 2, 4]);

    let round = round(LLAMA, 3, &[]);
    let wanted = DatasetRequest { round: &round, benchmark: LLAMA, out: folder.path() };
    let mut all = Vec::new();
    for (name, form) in
        [("set.parquet", DatasetFormat::Parquet), ("set.json", DatasetFormat::Json), ("set.jsonl", DatasetFormat::Json)]
    {
        let file = read(&wanted, &path(name)).unwrap();
        assert_eq!((file.form, file.record.samples, file.references, file.from.as_deref()), (form, 3, 3, Some(name)));
        assert_eq!(file.record.sha256, sha256(fs::read(path(name)).unwrap()));
        assert_eq!((file.input_tokens.min, file.input_tokens.mean, file.input_tokens.max), (2, 3.0, 4));
        all.push(text(path("dataset.jsonl")));
    }
    assert_eq!(all[0].lines().nth(1), Some(r#"{"input_ids":[1,7],"reference":"Two \"two\".\n"}"#));
    assert!(all.iter().all(|one| *one == all[0]));
    let arrays = read(&wanted, &path("npy")).unwrap();
    assert_eq!((arrays.form, arrays.record.samples, arrays.references), (DatasetFormat::Npy, 3, 0));
    assert_eq!(text(path("dataset.jsonl")).lines().nth(2), Some(r#"{"input_ids":[1,8,9,10]}"#));

    // What is wrong is told at once, and where.
    let why = |from: &str| read(&wanted, &path(from)).unwrap_err().what;
    fs::write(
        path("bad.json"),
        r#"[{"tok_input": [1, -5]}, {"output": "x"}, {"tok_input": []}, {"tok_input": [3000000000]}]"#,
    )
    .unwrap();
    let bad = why("bad.json");
    for expected in [
        "row 0: -5 is not a token id",
        "row 1 has no token ids",
        "row 2 has an empty list",
        "row 3: 3000000000",
        "columns tok_input",
    ] {
        assert!(bad.contains(expected), "{expected} in {bad}");
    }
    fs::write(path("torn.json"), r#"[{"tok_input": [1, 2]}, {"tok_in"#).unwrap();
    assert!(why("torn.json").contains("line 1 column 32"), "{}", why("torn.json"));
    fs::write(path("columns.json"), r#"{"tok_input": {"0": [1, 2]}}"#).unwrap();
    assert!(why("columns.json").contains("orient=\"records\""), "{}", why("columns.json"));
    npy(&path("npy/input_lens.npy"), "(3,)", &[3, 9, 4]);
    assert!(why("npy").contains("row 1 has length 9"), "{}", why("npy"));
    let unknown = read(&DatasetRequest { benchmark: "bert-99", ..wanted }, &path("set.json"));
    assert_eq!(unknown.unwrap_err().kind, FailureKind::Refused);
}

#[test]
fn a_pickle_is_refused_with_the_command_that_converts_it_and_a_short_set_with_its_count() {
    let manifest = |from: &str| {
        format!(
            "stages:\n  set:\n    mlperf: {{ dataset: {{ round: v5.1, benchmark: llama2-70b-99.9, from: {from} }} }}\n"
        )
    };
    let world = World::with(&manifest("set.pkl"));
    fs::write(world.path("set.pkl"), b"\x80\x04\x95pickle").unwrap();
    let refused = world.regatta(&["run", "m"]);
    assert_eq!(refused.code, 1);
    refused
        .shows("is a pickle, which runs what is in it")
        .shows("pandas.read_pickle(")
        .shows("to_parquet(")
        .shows("'output'");
    world.manifest("m", &manifest("set.json")).file("set.json", r#"[{"tok_input": [1], "output": "x"}]"#);
    let short = world.regatta(&["run", "m"]);
    assert_eq!(short.code, 1);
    short.shows("has 1 samples, but llama2-70b-99.9 of round v5.1 has 24576").shows("for a rehearsal");
}

/// Scores a log with a data set of these lines and the tokenizer and sentences of the golden folder.
fn scored(round: &Round, benchmark: &str, set: &str, log: &str, threads: usize) -> Result<Scored, Failure> {
    scored_with(round, benchmark, set, log, threads, (TestMode::Accuracy, None))
}

/// The same of a run in a mode, with what the reference's evaluator printed.
fn scored_with(
    round: &Round,
    benchmark: &str,
    set: &str,
    log: &str,
    threads: usize,
    (mode, official): (TestMode, Option<&str>),
) -> Result<Scored, Failure> {
    let folder = tempfile::tempdir().unwrap();
    let (set_file, log_file) = (folder.path().join("dataset.jsonl"), folder.path().join("log.json"));
    fs::write(&set_file, set).unwrap();
    fs::write(&log_file, log).unwrap();
    let samples = set.lines().count() as u64;
    let record = DatasetRecord { benchmark: benchmark.to_owned(), synthetic: false, samples, sha256: String::new() };
    let (tokenizer, sentences) = (golden("tokenizer.json"), golden("punkt"));
    let scoring = Scoring {
        round,
        benchmark,
        mode,
        log: &log_file,
        dataset: &set_file,
        dataset_record: &record,
        tokenizer: Some(&tokenizer),
        sentences: Some(&sentences),
        official,
        threads,
    };
    score(&scoring, &mut |_| ())
}

#[test]
fn the_reference_scorers_print_the_same_line_for_the_same_log() {
    for (name, benchmark) in [
        ("llama2-70b", LLAMA),
        ("llama3.1-8b", "llama3.1-8b"),
        ("llama3.1-405b", "llama3.1-405b"),
        ("mixtral-8x7b", "mixtral-8x7b"),
    ] {
        let run = golden("runs").join(name);
        let (set, log) = (text(run.join("dataset.jsonl")), text(run.join("mlperf_log_accuracy.json")));
        let round = round(benchmark, 45, &[]);
        let ours = scored(&round, benchmark, &set, &log, 3).unwrap();
        // Programs are not run here, so MBXP's number is not ours to give; the run has none of it.
        let official = text(run.join("official.txt")).replace("'mbxp': 0, ", "");
        assert_eq!(ours.text, format!("\nResults\n\n{official}\nhash={}\n", sha256(&log)), "{name}");
        assert_eq!((ours.report.samples, ours.report.duplicates, ours.report.log.entries), (45, 1, 46), "{name}");
        assert_eq!(ours, scored(&round, benchmark, &set, &log, 1).unwrap(), "{name}: threads change nothing");
    }
}

#[test]
fn stems_sentences_and_rouge_are_those_of_the_reference_libraries() {
    let stems = text(golden("stems.txt"));
    for line in stems.lines() {
        let (word, expected) = line.split_once(' ').unwrap();
        assert_eq!(stem(word), expected, "{word}");
    }
    assert!(stems.lines().count() > 1_500);
    let model = SentenceModel::load(&golden("punkt")).unwrap();
    for line in text(golden("sentences.jsonl")).lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let stripped = case["text"].as_str().unwrap().trim();
        assert_eq!(one_sentence_per_line(&model, stripped), case["lined"].as_str().unwrap(), "{stripped:?}");
    }
    let mut lexicon = WordInterner::new();
    for line in text(golden("rouge.jsonl")).lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let rouge = lexicon.score(case["target"].as_str().unwrap(), case["prediction"].as_str().unwrap());
        let ours = [rouge.rouge1, rouge.rouge2, rouge.rouge_l, rouge.rouge_lsum];
        let theirs: Vec<f64> =
            case["f"].as_array().unwrap().iter().map(|f| f.as_str().unwrap().parse().unwrap()).collect();
        assert_eq!(ours.map(f64::to_bits).to_vec(), theirs.iter().map(|f| f.to_bits()).collect::<Vec<_>>(), "{line}");
    }
}

proptest! {
    #[test]
    fn rouge_keeps_its_symmetries(a in "[ab ]{0,12}(\n[a-d ]{0,8}){0,3}", b in "[ab ]{0,12}(\n[a-d ]{0,8}){0,3}") {
        let mut lexicon = WordInterner::new();
        let (there, back) = (lexicon.score(&a, &b), lexicon.score(&b, &a));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        prop_assert!(near(there.rouge1, back.rouge1) && near(there.rouge2, back.rouge2) && near(there.rouge_l, back.rouge_l));
        for f in [there.rouge1, there.rouge2, there.rouge_l, there.rouge_lsum] {
            prop_assert!((0.0..=1.0).contains(&f), "{f}");
        }
        prop_assert!(there.rouge_l <= there.rouge1 + 1e-12);
        let same = lexicon.score(&a, &a);
        let is_word = a.chars().any(|c| c.is_ascii_lowercase());
        prop_assert_eq!(same.rouge1.to_bits(), f64::from(u8::from(is_word)).to_bits());
        prop_assert_eq!(same.rouge_lsum.to_bits(), same.rouge1.to_bits());
        // A line more or less between the words changes only what looks at lines.
        let flat = lexicon.score(&a.replace('\n', " "), &b.replace('\n', " "));
        let bits = |rouge: Rouge| [rouge.rouge1, rouge.rouge2, rouge.rouge_l].map(f64::to_bits);
        prop_assert_eq!(bits(flat), bits(there));
        prop_assert_eq!(flat.rouge_lsum.to_bits(), flat.rouge_l.to_bits());
    }
}

#[test]
fn each_metric_is_held_against_its_bounds_and_what_is_missing_leaves_the_verdict_open() {
    let set =
        "{\"input_ids\":[1],\"reference\":\" run walk connect relate\"}\n{\"input_ids\":[1],\"reference\":\" run\"}\n";
    // ` run walk connect relate`, ` run` in the golden tokenizer.
    let (four, one): (&[u32], &[u32]) = (&[3, 4, 5, 6], &[3]);
    let both = log(&[(0, four), (1, one)]);
    let judged = |bounds: &[(&str, Option<f64>, Option<f64>)], log: &str| {
        scored(&round(LLAMA, 2, bounds), LLAMA, set, log, 1).unwrap().report
    };
    let wide = [("ROUGE1", Some(99.0), None), ("TOKENS_PER_SAMPLE", Some(2.0), Some(3.0))];
    let met = judged(&wide, &both);
    assert_eq!(
        (met.verdict, met.headline().as_str()),
        (AccuracyVerdict::Met, "accuracy met: ROUGE1 100 ≥ 99, TOKENS_PER_SAMPLE 2.5 ≥ 2")
    );
    let missed = judged(&[("ROUGE1", Some(99.0), None), ("TOKENS_PER_SAMPLE", Some(1.0), Some(2.0))], &both);
    assert_eq!(
        (missed.verdict, missed.headline().as_str()),
        (AccuracyVerdict::Missed, "accuracy MISSED: TOKENS_PER_SAMPLE 2.5 > 2 by 0.5000")
    );
    let half = judged(&wide, &log(&[(0, four), (0, one)]));
    assert_eq!((half.verdict, half.samples, half.duplicates), (AccuracyVerdict::Missed, 1, 1));
    let open = judged(&wide[..1], &log(&[(0, four)]));
    assert_eq!(open.headline(), "accuracy INCOMPLETE: 1 of 2 samples answered");
}

/// TEST07 has 990 samples of GPQA and a bound of its own; accuracy mode has 4395 samples and that of all three sets.
#[test]
fn the_answers_of_test07_are_scored_by_its_own_bound_and_number() {
    let vocabulary: Value = serde_json::from_str(&text(golden("tokenizer.json"))).unwrap();
    let id = |piece: &str| vocabulary["model"]["vocab"][piece].as_u64().unwrap() as u32;
    let set =
        [json!({"input_ids": [1], "reference": "C", "task": "gpqa_diamond"}).to_string() + "\n"].concat().repeat(4);
    let (right, wrong) = ([id(" ANSWER:"), id(" C"), id("\n")], [id(" run")]);
    let answers: [(usize, &[u32]); 4] = [(0, &right), (1, &wrong), (2, &right), (3, &right)];
    let round = Round::named("v6.1").unwrap();
    let report = |mode| scored_with(&round, "gpt-oss-120b", &set, &log(&answers), 1, (mode, None)).unwrap().report;
    let bounds = |report: &AccuracyReport| {
        let exact_match = report.metrics.iter().find(|metric| metric.name == "exact_match").unwrap();
        (report.expected, exact_match.value, exact_match.min, exact_match.met)
    };
    assert_eq!(bounds(&report(TestMode::Test07)), (990, 75.0, Some(60.698), Some(true)));
    assert_eq!(bounds(&report(TestMode::Accuracy)), (4395, 75.0, Some(82.2987), Some(false)));
    // Of 990 there are four: it is not known whether the whole of them would pass.
    assert_eq!(report(TestMode::Test07).verdict, AccuracyVerdict::Incomplete);
}

#[test]
fn exact_match_is_ours_as_far_as_no_program_has_to_run() {
    let vocabulary: Value = serde_json::from_str(&text(golden("tokenizer.json"))).unwrap();
    let ids = |pieces: &[&str]| -> Vec<u32> {
        pieces.iter().map(|piece| vocabulary["model"]["vocab"][*piece].as_u64().unwrap() as u32).collect()
    };
    let sample = |task: &str, reference: &str| {
        json!({"input_ids": [1], "reference": reference, "task": task}).to_string() + "\n"
    };
    let set = [sample("gpqa", "B"), sample("mmlu_pro", "C"), sample("aime1983", "7"), sample("math500", "x")].concat();
    let right =
        [ids(&[" ANSWER:", " (B", "\n"]), ids(&[" many", " C", " ?"]), ids(&["\\boxed{", "7", "}"]), ids(&[" run"])];
    let answers: Vec<(usize, &[u32])> = right.iter().map(Vec::as_slice).enumerate().collect();
    let bounds = [("exact_match", Some(80.0), None)];
    let deepseek = |set: &str, count: usize| {
        scored(&round("deepseek-r1", count as u64, &bounds), "deepseek-r1", set, &log(&answers[..count]), 1).unwrap()
    };
    let all = deepseek(&set, 4).report;
    assert_eq!(all.verdict, AccuracyVerdict::Incomplete);
    assert!(
        all.unscored[0].wanted
            && all.unscored[0].why.contains("math500")
            && all.unscored[0].why.contains("deepseek-r1/eval_accuracy.py")
    );
    assert_eq!(all.parts.iter().map(|part| part.right).collect::<Vec<_>>(), [Some(1.0), Some(1.0), None, Some(1.0)]);
    // The reference's evaluator gives the rest: the last value in the form that the official checker reads.
    let printed = "math500 ...\n{'exact_match': 10.0}\nEvaluation: {'exact_match': 82.5, 'num-samples': 4}\n";
    let round_of_four = round("deepseek-r1", 4, &bounds);
    let whole =
        scored_with(&round_of_four, "deepseek-r1", &set, &log(&answers), 1, (TestMode::Accuracy, Some(printed)))
            .unwrap();
    assert_eq!((whole.report.verdict, whole.report.unscored.len()), (AccuracyVerdict::Met, 0));
    assert!(
        whole.report.metrics.iter().any(|metric| metric.name == "exact_match" && (metric.value - 82.5).abs() < 1e-9)
    );
    assert!(whole.text.starts_with(printed) && whole.text.contains("\nhash="), "{}", whole.text);
    let low = printed.replace("82.5", "79.9");
    let missed =
        scored_with(&round_of_four, "deepseek-r1", &set, &log(&answers), 1, (TestMode::Accuracy, Some(&low))).unwrap();
    assert_eq!(missed.report.verdict, AccuracyVerdict::Missed);
    let silent =
        scored_with(&round_of_four, "deepseek-r1", &set, &log(&answers), 1, (TestMode::Accuracy, Some("Traceback\n")))
            .unwrap();
    assert_eq!(silent.report.verdict, AccuracyVerdict::Incomplete);
    let three: String = set.lines().take(3).map(|line| line.to_owned() + "\n").collect();
    let ours = deepseek(&three, 3);
    assert_eq!(ours.report.verdict, AccuracyVerdict::Met);
    assert!(ours.text.contains("{'exact_match': 100.0, 'tokens_per_sample': 3.0, 'num-samples': 3}"), "{}", ours.text);
}

#[test]
fn a_log_that_cannot_be_scored_says_where() {
    let set = "{\"input_ids\":[1],\"reference\":\" run\"}\n{\"input_ids\":[1]}\n";
    let round = round(LLAMA, 2, &[]);
    let why = |log: &str| scored(&round, LLAMA, set, log, 2).unwrap_err().what;
    let wide = r#"[{"seq_id":0,"qsl_idx":0,"data":"0300000000000000","token_count":1},
{"seq_id":1,"qsl_idx":1,"data":"0300000000000000","token_count":1},
{"seq_id":2,"qsl_idx":7,"data":"","token_count":0},
{"seq_id":3,"qsl_idx":9,"data":"","token_count":0}]"#;
    let all = why(wide);
    for expected in [
        "3 errors",
        "byte 69: sample 1 has no reference",
        "byte 137: the data set has no sample 7",
        "no sample 9; it has 2",
    ] {
        assert!(all.contains(expected), "{expected} in {all}");
    }
    assert!(
        why(r#"[{"seq_id":0,"qsl_idx":0,"data":"030000","token_count":1}]"#)
            .contains("3 bytes are not a whole number of ids")
    );
    assert!(why(r#"[{"seq_id":0,"qsl_idx":0,"data":"ffffffff","token_count":1}]"#).contains("-1 is not a token id"));
    let torn = log(&[(0, &[3, 4])]);
    let at = torn.len() - 9;
    assert!(why(&torn[..at]).contains(&format!("ends at byte {at}, in the middle")), "{}", why(&torn[..at]));

    // And so does the stage, with what to do.
    let world = World::with(MANIFEST);
    world.file("log.json", "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 0, \"da");
    let failed = world.regatta(&["run", "m"]);
    assert_eq!(failed.code, 1);
    failed.shows("ends at byte 36, in the middle").shows("score the log as LoadGen wrote it");
}
