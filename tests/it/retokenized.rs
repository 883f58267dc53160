//! A server that answers with text and nothing else: with a tokenizer its tokens are counted, and the result says by whom.

use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::harness::{Api, BenchSpec, LoadPattern, Measured, VerdictCheck};
use regatta::interop::{self, ExportFormat};
use regatta::spec::{Length, Request};
use serde_json::{Value, json};

use crate::data::tokenizer;
use crate::openai::script::{DONE, Do, END, HEAD, Scripted, chunk, role, token, usage};
use crate::openai::{chat, measure};
use crate::simulator::ground::{Files, Running};

const RETOKENIZED: &str = "retokenized: each answer's joined text, by the tokenizer given";
const CHUNKS: &str = "chunks, each counted as one token";

/// Words of the tokenizer, one token each. The chunks cut where they like: two tokens, half a word, the other half and two
/// more.
const PIECES: [&str; 3] = ["bba cba", " db", "a eba fba"];

fn answer(more: Option<u64>) -> Vec<Do> {
    let events =
        [vec![role()], PIECES.map(token).to_vec(), more.map(usage).into_iter().collect(), vec![DONE.to_owned()]];
    vec![Do::Send(
        [HEAD.to_owned(), events.concat().iter().map(|event| chunk(event)).collect(), END.to_owned()].concat(),
    )]
}

fn with_tokenizer(spec: BenchSpec) -> (tempfile::TempDir, BenchSpec) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    tokenizer(&file);
    let mut spec = spec;
    spec.content.tokenizer = Some(file);
    (folder, spec)
}

fn sources(measured: &Measured) -> (&str, &str, &str, Option<&str>) {
    let result = &measured.result;
    let (tpot, itl) = (&result.latency.tpot.token_source, &result.latency.itl_token.token_source);
    (&result.tokens.source, tpot, itl, result.tokens.chunk_source.as_deref())
}

#[test]
fn text_is_counted_with_the_tokenizer_and_chunks_are_not() {
    let server = Scripted::start(|_| answer(None));
    let (_folder, spec) = with_tokenizer(chat(&server, 3));
    let measured = measure(&spec);
    // Five words in three chunks; the word that was cut in two is one.
    assert_eq!(sources(&measured), (RETOKENIZED, RETOKENIZED, CHUNKS, Some(CHUNKS)));
    for record in &measured.requests {
        assert_eq!((record.tokens, record.first_tokens, record.chunks, record.retokenized), (5, 2, 3, true));
    }
    let result = &measured.result;
    assert_eq!((result.tokens.output, result.tokens.mean_first_chunk), (15, Some(2.0)));
    assert!(result.headline().contains(&format!("tokens: {RETOKENIZED}")), "{}", result.headline());
    // Four were asked for: that is said, and who counted.
    let lengths = result.reasons().iter().find(|reason| reason.check == VerdictCheck::Lengths).expect("a reason");
    assert!(
        lengths.text.contains("3 longer") && lengths.text.contains("tokenizing their text again"),
        "{}",
        lengths.text
    );
}

#[test]
fn a_server_that_counts_is_believed() {
    let server = Scripted::start(|_| answer(Some(7)));
    let (_folder, spec) = with_tokenizer(BenchSpec { output_len: Length::Fixed(8), ..chat(&server, 3) });
    let measured = measure(&spec);
    let usage = "usage.completion_tokens";
    // Seven tokens came in three chunks, and the server does not say how many in which.
    assert_eq!(sources(&measured), (usage, usage, CHUNKS, Some(CHUNKS)));
    let latency = &measured.result.latency;
    assert!(latency.itl_token.absent.is_some() && latency.tpot.absent.is_some());
    assert!(measured.requests.iter().all(|record| (record.tokens, record.retokenized) == (7, false)));
}

#[test]
fn without_a_tokenizer_chunks_are_all_there_is() {
    let server = Scripted::start(|_| answer(None));
    let measured = measure(&chat(&server, 3));
    assert_eq!(measured.result.tokens.source, CHUNKS);
    assert!(measured.requests.iter().all(|record| (record.tokens, record.retokenized) == (3, false)));
}

#[test]
fn a_mixture_says_how_many_are_of_which_kind() {
    // The one that counts answers last, so that the others had to be kept.
    let server = Scripted::start(|number| answer((number == 2).then_some(5)));
    let (_folder, mut spec) = with_tokenizer(BenchSpec { output_len: Length::Fixed(8), ..chat(&server, 3) });
    spec.scenario = LoadPattern::Concurrency { users: 1.0.into() };
    let measured = measure(&spec);
    let expected = format!("usage.completion_tokens; {RETOKENIZED}, for 2 of 3 answers that have no usable one");
    assert_eq!(measured.result.tokens.source, expected);
    assert_eq!(measured.requests.iter().map(|record| record.retokenized).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn tritons_text_is_counted_over_grpc_and_over_http_in_one_piece_and_in_many() {
    let files = Files::new(true, &serde_json::json!({}));
    let any = Some("127.0.0.1:0".parse().unwrap());
    let server = Running::start(regatta::sim::SimOptions { http: any, ..files.options() });
    let sold = |spec: BenchSpec| {
        let (folder, spec) = with_tokenizer(BenchSpec { model: "ensemble".to_owned(), ..spec });
        let measured = measure(&spec);
        assert_eq!(measured.result.counts.failed, 0, "{:?}", measured.result.counts.failures);
        assert_eq!(measured.result.tokens.source, RETOKENIZED);
        assert!(
            measured.requests.iter().all(|record| record.retokenized && record.tokens > 0),
            "{:?}",
            measured.requests
        );
        drop(folder);
        measured
    };
    let grpc = || crate::arrivals::spec(server.address, LoadPattern::Offline, 4);
    let http = || crate::openai::spec(&server.http.unwrap().to_string(), Api::Generate, 4);
    for spec in [grpc(), http()] {
        let streamed = sold(spec.clone());
        assert!(streamed.requests.iter().any(|record| record.chunks > 1));
        let whole = sold(BenchSpec { request: Request { streaming: Some(false), ..Request::default() }, ..spec });
        assert!(whole.requests.iter().all(|record| record.first_tokens == record.tokens), "one chunk has all of them");
    }
}

/// Each answer has five tokens, and the server names that number for one of three: each format has all fifteen.
#[test]
fn exports_have_the_tokens_of_every_answer_whoever_counted_them() {
    for usage_of in [None, Some(2)] {
        let server = Scripted::start(move |number| answer((Some(number) == usage_of).then_some(5)));
        let (_folder, mut spec) = with_tokenizer(BenchSpec { output_len: Length::Fixed(8), ..chat(&server, 3) });
        spec.scenario = LoadPattern::Concurrency { users: 1.0.into() };
        let measured = measure(&spec);
        let run = interop::MeasuredRun {
            name: "text".to_owned(),
            result: interop::MeasuredResult::Regatta(Box::new(measured.result.clone())),
            request_traces: measured.requests.iter().map(|record| interop::RequestTrace::from(&record)).collect(),
        };
        let file = |format: ExportFormat, name: &str| -> Value {
            let exported = interop::export(&run, format);
            let file = exported.files.into_iter().find(|file| file.name == name).expect(name);
            serde_json::from_slice(&file.bytes).expect("JSON")
        };
        let vllm = file(ExportFormat::Vllm, "vllm_bench.json");
        assert_eq!((&vllm["total_output_tokens"], &vllm["output_lens"]), (&json!(15), &json!([5, 5, 5])));
        let per_second = 15.0 / vllm["duration"].as_f64().expect("a duration");
        assert!((vllm["output_throughput"].as_f64().expect("a rate") / per_second - 1.0).abs() < 1e-9, "{vllm:#}");
        let aiperf = file(ExportFormat::AiPerf, "profile_export_aiperf.json");
        assert_eq!(
            (&aiperf["total_osl"]["avg"], &aiperf["output_sequence_length"]["count"]),
            (&json!(15.0), &json!(3))
        );
        assert!(aiperf["output_token_throughput"]["avg"].as_f64() > Some(0.0), "{aiperf:#}");
        let genai = file(ExportFormat::GenAiPerf, "profile_export_genai_perf.json");
        assert_eq!(genai["output_sequence_length"]["avg"], 5.0);
        assert!(genai["output_token_throughput"]["avg"].as_f64() > Some(0.0), "{genai:#}");
    }
}

#[test]
fn the_schedule_counts_as_it_counts_prompts() {
    let server = Scripted::start(|_| answer(None));
    let (_folder, spec) = with_tokenizer(chat(&server, 1));
    let schedule = regatta::harness::plan(&spec).unwrap();
    assert_eq!(schedule.count(&PIECES.concat()), Some(5));
    assert_eq!(schedule.count(""), Some(0));
    assert!(Path::new(spec.content.tokenizer.as_ref().unwrap()).exists());
}
