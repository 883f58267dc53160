//! Every reader of a text or of bytes that come from elsewhere, as a function of bytes. None may panic, hang, or take memory that
//! its input does not explain. Where two ways must agree, they are compared.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

mod checkpoints;
mod mlperf;
mod programs;
mod results;
mod servers;
mod shared;
mod state;

use std::cell::LazyCell;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use regatta::app::read_lock_file;
use regatta::diag::{SourceText, is_panic_caught};
use regatta::harness::{
    Api, BenchSpec, DataKind, LoadPattern, NpyIntegers, PreviousAnswers, Prompt, PromptFile, PromptSource,
    RequestSchedule, SendingSpec, Slo, Transport, plan, read_grpc_answer, read_http_answer,
};
use regatta::interop::{ImportSource, import_runs, read_config, read_line, read_scripts};
use regatta::manifest::{Expressions, GivenValues, ManifestLibrary, Scope, load};
use regatta::plan::expand;
use regatta::rules::{conf, log};
use regatta::spec::{Arrivals, DelayPlace, Length, Limits, RecordOrder, Request, StopAfter};
use regatta::triton::{pbtxt, proto, repository, tensors_of};
use tokio::runtime::{Builder, Runtime};

pub use checkpoints::{checkpoint, engine_config, hub_listing, tokenizer};
pub use mlperf::{mlperf_data, submission};
pub use programs::program_output;
pub use results::own_results;
pub use servers::{server_metrics, server_reports};
pub use shared::shared_outputs;
pub use state::{job_messages, journal, records, state_caches};

pub type Reader = fn(&[u8]);

/// The readers, by name.
pub const READERS: [(&str, Reader); 27] = [
    ("manifest", manifest),
    ("expression", expression),
    ("model_config", model_config),
    ("grpc_answer", grpc_answer),
    ("sse", sse),
    ("http", http),
    ("server_reports", server_reports),
    ("server_metrics", server_metrics),
    ("journal", journal),
    ("records", records),
    ("state_caches", state_caches),
    ("job_messages", job_messages),
    ("shared_outputs", shared_outputs),
    ("lock_file", lock_file),
    ("loadgen_log", loadgen_log),
    ("import_line", import_line),
    ("import_results", import_results),
    ("own_results", own_results),
    ("npy", npy),
    ("prompts", prompts),
    ("hub_listing", hub_listing),
    ("checkpoint", checkpoint),
    ("engine_config", engine_config),
    ("tokenizer", tokenizer),
    ("submission", submission),
    ("mlperf_data", mlperf_data),
    ("program_output", program_output),
];

thread_local! {
    static FOLDER: LazyCell<tempfile::TempDir> = LazyCell::new(|| tempfile::tempdir().expect("a temporary folder"));
    /// It is never dropped: at a thread's end it could not wait for its own threads.
    static RUNTIME: &'static Runtime = {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Box::leak(Box::new(runtime))
    };
}

/// Panics of libraries that the program takes for errors are none here: the fuzzer's own hook would end the process at them.
pub fn let_caught_panics_pass() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_panic_caught() {
            hook(panic);
        }
    }));
}

fn block_on<T>(what: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(what))
}

/// A folder of this thread; it is removed at the end.
fn folder() -> PathBuf {
    FOLDER.with(|folder| folder.path().to_owned())
}

/// A file with these bytes, at this place in the folder of this thread.
fn file(name: &str, data: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(&path, data).expect("a file");
    path
}

/// The parts between bytes that are 0: what is read in several files or answers.
fn parts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == 0)
}

/// A choice, and the rest.
fn choose(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest))
}

/// Whether its expressions may double a text or a list in each step. The program watches the memory of these from outside, and a
/// fuzzer would find nothing else.
fn may_double(text: &str) -> bool {
    let has = |word: &str| text.contains(word);
    let digits = text.as_bytes().windows(5).any(|window| window.iter().all(u8::is_ascii_digit));
    has("{%") && ["set", "macro", "call", "filter"].iter().any(|word| has(word))
        || text.matches('*').count() > 1 && digits
}

pub fn manifest(data: &[u8]) {
    if std::str::from_utf8(data).is_ok_and(may_double) {
        return;
    }
    file("manifests/m.yaml", data);
    let library = ManifestLibrary::new(&folder());
    let loaded = load(&library, "m", &GivenValues::default());
    match loaded.and_then(|manifest| expand(&manifest)) {
        Ok(plan) => drop(serde_json::to_vec(&plan).expect("JSON")),
        Err(found) => drop(found.render(false)),
    }
}

pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if may_double(text) {
        return;
    }
    let values = serde_json::json!({
        "rate": 2.5, "count": 3, "name": "a-b", "none": null, "on": true,
        "sizes": [1, 2, 4], "tuning": { "kv": 0.9, "tags": ["x", "y"] },
    });
    let globals = values.as_object().expect("an object");
    let globals =
        globals.iter().map(|(name, value)| (name.clone(), minijinja::Value::from(minijinja::value::Serde(value))));
    let scope = Arc::new(Scope { globals: Arc::new(globals.collect()), local: Vec::new() });
    let source = SourceText::new("m.yaml", text);
    let expressions = Expressions::new();
    let _ = expressions.names_in(text);
    if let Err(found) = expressions.text(text, &scope, &source.span(0..text.len())) {
        for one in found {
            let _ = one.render(false);
        }
    }
}

pub fn model_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = pbtxt::unfilled(text);
    let _ = pbtxt::place_in(text, text.len() / 2);
    let _ = pbtxt::read_as_server(text);
    let _ = repository::substitute(text, &|name| (name.len() % 2 == 0).then(|| "1".to_owned()));
    let _ = repository::pairs(text);
    match pbtxt::read(text) {
        Ok(config) => {
            let _ = pbtxt::json(&config);
            let written = pbtxt::write(&config);
            let again = pbtxt::read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(pbtxt::write(&again), written);
        }
        Err(error) => drop(error.excerpt(text)),
    }
}

/// The first byte decides what is read, and in pieces of how many bytes.
pub fn grpc_answer(data: &[u8]) {
    let (choice, data) = choose(data);
    let size = choice / 2 + 1;
    let read = |size: usize| read_grpc_answer("output_ids", choice % 2 == 1, data.chunks(size));
    if let (Ok(whole), Ok(pieces)) = (read(data.len().max(1)), read(size)) {
        assert_eq!(whole, pieces, "in pieces of {size} bytes");
    }
    if let Ok(response) = proto::inference::ModelInferResponse::decode(data) {
        let _ = tensors_of(&response);
    }
}

const APIS: [Api; 3] = [Api::OpenaiChat, Api::OpenaiCompletions, Api::Generate];

fn http_answer(choice: usize, data: &[u8]) {
    let size = choice / 4 + 1;
    let read = |size: usize| read_http_answer(APIS[choice % APIS.len()], data.chunks(size));
    let (whole, pieces) = (read(data.len().max(1)), read(size));
    assert_eq!(whole.ok(), pieces.ok(), "in pieces of {size} bytes");
}

/// The first byte decides the interface, and how the bytes arrive.
pub fn http(data: &[u8]) {
    let (choice, data) = choose(data);
    http_answer(choice, data);
}

/// The same, behind the head of an answer with events.
pub fn sse(data: &[u8]) {
    let (choice, data) = choose(data);
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    http_answer(choice, &[&head[..], data].concat());
}

pub fn lock_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = read_lock_file(text);
}

pub fn loadgen_log(data: &[u8]) {
    for answer in log::AnswerLog::new(data).map_while(Result::ok) {
        let _ = answer.tokens();
        let _ = answer.first_tokens();
    }
    if let Ok(detail) = log::Detail::read(data) {
        let _ = (detail.invalid_reasons(), detail.result(), detail.all_errors());
        let _ = detail.settings().count();
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = log::LoadgenSummary::parse(text).result();
    let _ = conf::read(text);
}

pub fn import_line(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = read_line(&[text.to_owned()]);
    let _ = read_scripts(&[("serve.sh".to_owned(), text.to_owned())]);
    let _ = read_config(&[("Offline/__init__.py".to_owned(), text.to_owned())], &[], &|_| None);
}

/// Names of files by which formats are known.
const RESULT_FILES: [&str; 6] = [
    "profile_export.json",
    "profile_export_genai_perf.json",
    "profile_export.jsonl",
    "mlperf_log_summary.txt",
    "mlperf_log_detail.txt",
    "benchmarks.json",
];

/// The first byte decides the name of the file.
pub fn import_results(data: &[u8]) {
    let (choice, data) = choose(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let name = RESULT_FILES[choice % RESULT_FILES.len()].to_owned();
    let _ = import_runs("results", &[ImportSource { name, text: text.to_owned() }]);
}

pub fn npy(data: &[u8]) {
    let path = file("ids.npy", data);
    if let Ok(mut numbers) = NpyIntegers::open(&path) {
        let count = numbers.shape().iter().product();
        let _ = numbers.take(count);
    }
    let _ = plan(&prompts_of(DataKind::InputIds, &path));
}

/// The first byte decides the format.
pub fn prompts(data: &[u8]) {
    let (choice, data) = choose(data);
    let kinds = [DataKind::Jsonl, DataKind::Sharegpt, DataKind::Mooncake, DataKind::Plan];
    let path = file("prompts", data);
    if let Ok(schedule) = plan(&prompts_of(kinds[choice % kinds.len()], &path)) {
        render(&schedule);
    }
}

/// Writes the prompts out as both kinds of target get them, up to a long one: it costs seconds.
fn render(schedule: &RequestSchedule) {
    /// Tokens, or bytes of text.
    const LONG: usize = 1 << 16;
    let answers = PreviousAnswers {
        answers: vec![Some(Prompt::Ids(vec![3, 4])), None, Some(Prompt::Text("an answer".to_owned()))],
    };
    for (index, planned) in (0..).zip(schedule.requests.iter().take(20)) {
        let ids = schedule.ids(index, &planned, &answers).unwrap_or_default().len();
        let text = schedule.text(index, &planned, &answers).unwrap_or_default().len();
        if ids.max(text) > LONG {
            break;
        }
    }
}

fn prompts_of(kind: DataKind, file: &Path) -> BenchSpec {
    let data = PromptFile {
        kind,
        file: file.to_owned(),
        lengths: None,
        output_lengths: None,
        first: None,
        max_input_tokens: None,
        order: RecordOrder::Given,
        repeat: true,
        block_tokens: 512,
        delay: DelayPlace::BeforeTurn,
    };
    BenchSpec {
        endpoints: vec!["127.0.0.1:1".parse().expect("an endpoint")],
        protocol: Transport::Kserve,
        model: "m".to_owned(),
        scenario: LoadPattern::Server { rate: 100.0.into() },
        arrivals: Arrivals::Constant,
        stop: StopAfter { requests: Some(20), duration: None },
        input_len: Length::Fixed(8),
        output_len: Length::Fixed(1),
        seed: 0,
        warmup: 0,
        pace: SendingSpec::default(),
        content: PromptSource { data: Some(data), ..PromptSource::default() },
        frontends: 1,
        clients: 1,
        stall_timeout: Duration::from_mins(1),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 100,
        end_id: 2,
        request: Request::default(),
    }
}
