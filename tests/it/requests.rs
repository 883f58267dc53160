//! What a request may ask for besides its prompt and its length, end to end: against the simulator over real sockets.

mod real_server;

use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::{Endpoint, Stop, Verdict};
use regatta::harness::{
    BenchSpec, FailureClass, HarnessError, LoadPattern, Measured, RequestEnd, RequestRecord, Slo, VerdictCheck, run,
};
use regatta::sim::{Faults, SimOptions, token};
use regatta::spec::{Arrivals, CancelBy, CancelPolicy, Length, Limits, RandomSeed, Request, StopAfter, WordList};
use serde_json::json;

use crate::scripted_server::wait_for;
use crate::simulator::ground::{Files, Running};

const VOCABULARY: u32 = 128_256;

fn spec(endpoint: Endpoint, requests: u64, request: Request) -> BenchSpec {
    BenchSpec {
        endpoints: vec![endpoint],
        protocol: regatta::harness::Transport::Kserve,
        model: "tensorrt_llm".to_owned(),
        scenario: LoadPattern::Offline,
        arrivals: Arrivals::Poisson,
        stop: StopAfter { requests: Some(requests), duration: None },
        input_len: Length::Uniform { min: 4, max: 40 },
        output_len: Length::Uniform { min: 5, max: 12 },
        seed: 1,
        warmup: 1,
        pace: regatta::harness::SendingSpec::default(),
        content: regatta::harness::PromptSource::default(),
        frontends: 1,
        clients: 2,
        stall_timeout: Duration::from_secs(30),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 1000,
        end_id: 2,
        request,
    }
}

fn at(server: &Running) -> Endpoint {
    server.address.to_string().parse().unwrap()
}

fn measured(spec: &BenchSpec) -> Measured {
    let measured = wait_for(run(spec, &Stop::new(), |_| {})).unwrap();
    let counts = &measured.result.counts;
    assert!(counts.conserved, "{counts:?}");
    assert!(
        !measured.result.reasons().iter().any(|reason| reason.check.as_str() == "little"),
        "{:?}",
        measured.result.little
    );
    measured
}

fn refused(spec: &BenchSpec) -> Vec<String> {
    match wait_for(run(spec, &Stop::new(), |_| {})) {
        Err(HarnessError::Request { source, .. }) => source.faults,
        other => panic!("{other:?}"),
    }
}

fn all_ok(measured: &Measured) {
    let counts = &measured.result.counts;
    assert_eq!(counts.ok, counts.scheduled, "{:?}", counts.failures);
    for RequestRecord { tokens, requested_tokens, .. } in &measured.requests.to_vec() {
        assert_eq!(tokens, requested_tokens);
    }
}

fn warns(measured: &Measured, check: &VerdictCheck) -> bool {
    measured.result.reasons().iter().any(|reason| reason.check == *check)
}

#[test]
fn text_models_stream_when_their_engine_is_decoupled() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    for model in ["ensemble", "tensorrt_llm_bls"] {
        let measured = measured(&BenchSpec { model: model.to_owned(), ..spec(at(&server), 10, Request::default()) });
        all_ok(&measured);
        let result = &measured.result;
        assert_eq!(result.client.call, "stream");
        assert_eq!(result.tokens.source, "responses, each counted as one token");
        assert_eq!(result.tokens.input_source, "words of text_input");
        assert_eq!(result.latency.tpot.token_source, result.tokens.source);
        assert!(measured.requests.iter().all(|record| record.chunks == record.requested_tokens));
    }
}

#[test]
fn every_sequence_of_a_prompt_is_counted() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let three =
        || Request { num_return_sequences: Some(3), temperature: Some(0.8), top_k: Some(5), ..Request::default() };
    for (request, model) in [
        (three(), "tensorrt_llm"),
        (Request { streaming: Some(false), ..three() }, "tensorrt_llm"),
        (Request { batch: Some(2), ..three() }, "tensorrt_llm"),
        (three(), "ensemble"),
    ] {
        let spec = BenchSpec { model: model.to_owned(), output_len: Length::Fixed(7), ..spec(at(&server), 8, request) };
        let measured = measured(&spec);
        all_ok(&measured);
        assert_eq!(measured.result.tokens.output, 8 * 3 * 7, "{model}: {:?}", spec.request);
        assert!(measured.result.tokens.source.ends_with("of all 3 sequences of a request"));
        assert_eq!(measured.result.tokens.shorter + measured.result.tokens.longer, 0);
    }
    // What a request asks for is known before it is sent.
    let beams = Request { beam_width: Some(2), streaming: Some(false), ..three() };
    let Err(HarnessError::Spec(why)) = wait_for(run(&spec(at(&server), 1, beams), &Stop::new(), |_| {})) else {
        panic!("it was sent")
    };
    assert!(why.contains("the beams are the sequences"), "{why}");
    let whole = Files::new(false, &json!({}));
    let server = Running::start(whole.options());
    let why = refused(&spec(at(&server), 1, three())).join("; ");
    assert!(why.contains("num_return_sequences above 1 needs a decoupled model"), "{why}");
}

#[test]
fn one_stream_carries_batches_and_stops_of_the_engine() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let shared = |request| BenchSpec { pace: crate::sending::SHARED, ..spec(at(&server), 12, request) };
    let batched = measured(&shared(Request { batch: Some(3), ..Request::default() }));
    all_ok(&batched);
    assert_eq!(batched.result.connections.shared_streams, Some(2));
    let cancel = Some(CancelPolicy { after_tokens: 2, share: 1.0, by: CancelBy::Stop });
    // In real time: 1,500 tokens take seconds, and a stop is there long before the last of them.
    let slow = Running::start(SimOptions { speed: 1.0, ..files.options() });
    let long = BenchSpec {
        endpoints: vec![at(&slow)],
        output_len: Length::Fixed(1500),
        ..shared(Request { cancel, ..Request::default() })
    };
    let stopped = measured(&long).result;
    assert_eq!((stopped.counts.cancelled_early, stopped.counts.failed), (12, 0), "{:?}", stopped.counts);
    assert!(stopped.cancellations.unwrap().tokens < 12 * 1500);
    assert_eq!(stopped.connections.shared_streams, Some(2));
}

#[test]
fn text_in_one_answer_is_not_counted_and_the_result_says_so() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let measured = measured(&BenchSpec { model: "ensemble".to_owned(), ..spec(at(&server), 10, Request::default()) });
    all_ok(&measured);
    assert_eq!(measured.result.client.call, "unary");
    assert_eq!(measured.result.tokens.source, "requested max_tokens, since the answer is one text");
    assert!(warns(&measured, &VerdictCheck::Tokens));
}

#[test]
fn requests_of_one_message_are_measured_one_by_one() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    for is_final_apart in [false, true] {
        let faults = Faults { final_apart: is_final_apart, ..Faults::default() };
        let apart = Running::start(SimOptions { faults, ..files.options() });
        let request = Request { batch: Some(3), ..Request::default() };
        let measured = measured(&spec(at(&apart), 8, request));
        all_ok(&measured);
        assert_eq!(measured.requests.iter().map(|record| record.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        for message in measured.requests.to_vec().chunks(3) {
            assert!(message.iter().all(|record| record.t_issue == message[0].t_issue && record.final_marker));
            // A shorter answer is not done after a longer one beside it. Where the machine was so busy that an answer came in one
            // piece, the server sent its rows one after the other.
            if message.iter().any(|record| record.t_first == record.t_last) {
                continue;
            }
            let mut by_length: Vec<&RequestRecord> = message.iter().collect();
            by_length.sort_by_key(|record| record.tokens);
            assert!(by_length.is_sorted_by_key(|record| record.t_last), "{by_length:?}");
        }
    }
    for model in ["ensemble", "tensorrt_llm_bls"] {
        let request = Request { batch: Some(2), ..Request::default() };
        all_ok(&measured(&BenchSpec { model: model.to_owned(), ..spec(at(&server), 6, request) }));
    }
    let unary = Files::new(false, &json!({}));
    let unary = Running::start(unary.options());
    let faults = refused(&spec(at(&unary), 4, Request { batch: Some(2), ..Request::default() }));
    assert!(faults[0].starts_with("request.batch above 1 needs a decoupled model"), "{faults:?}");
}

#[test]
fn a_stop_word_ends_the_answer_that_says_it() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    // What request 0 would say without it; ids are the requests' numbers.
    let word: Vec<i32> = (3..5).map(|index| token("0", index, VOCABULARY, Some(2))).collect();
    let request = Request { stop_words: Some(WordList::Ids(vec![vec![7, 8, 9], word])), ..Request::default() };
    let spec = BenchSpec { vocab_size: VOCABULARY, output_len: Length::Fixed(10), ..spec(at(&server), 6, request) };
    let measured = measured(&spec);
    let tokens: Vec<u32> = measured.requests.iter().map(|record| record.tokens).collect();
    assert_eq!(tokens, [5, 10, 10, 10, 10, 10]);
    assert_eq!((measured.result.counts.ok, measured.result.tokens.shorter), (6, 1));
}

#[test]
fn a_cancelled_request_is_neither_ok_nor_failed_and_frees_its_place() {
    // One place, and answers of half a minute: whoever comes next waits for the cancel.
    let files = Files::new(true, &json!({"max_batch_size": 1}));
    let options = SimOptions { speed: 0.2, ..files.options() };
    let server = Running::start(options);
    for by in [CancelBy::Rpc, CancelBy::Stop] {
        let cancel = CancelPolicy { after_tokens: 2, share: 1.0, by };
        let request = Request { cancel: Some(cancel), ..Request::default() };
        let spec = BenchSpec {
            output_len: Length::Fixed(2000),
            input_len: Length::Fixed(8),
            warmup: 0,
            pace: regatta::harness::SendingSpec::default(),
            content: regatta::harness::PromptSource::default(),
            ..spec(at(&server), 4, request)
        };
        let measured = measured(&spec);
        let result = &measured.result;
        let counts = &result.counts;
        assert_eq!((counts.cancelled_early, counts.ok, counts.failed, counts.cancelled), (4, 0, 0, 0), "{counts:?}");
        let withdrawals = result.cancellations.as_ref().unwrap();
        assert_eq!((withdrawals.requests, withdrawals.end_after_cancel.n), (4, 4));
        assert!((8..4 * 2000).contains(&withdrawals.tokens), "{withdrawals:?}");
        for record in &measured.requests {
            assert_eq!(record.ended, RequestEnd::CancelledEarly);
            assert!(record.tokens >= 2 && record.t_cancel.unwrap() <= record.t_end);
            assert_eq!(record.final_marker, by == CancelBy::Stop);
        }
        assert_eq!(result.latency.ttft_adjusted.unanswered, 0, "nobody waits for what we ended ourselves");
    }
}

#[test]
fn only_a_share_is_cancelled_and_the_same_in_every_run() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let cancel = CancelPolicy { after_tokens: 1, share: 0.5, by: CancelBy::Rpc };
    let spec = BenchSpec {
        output_len: Length::Fixed(40),
        ..spec(at(&server), 40, Request { cancel: Some(cancel), ..Request::default() })
    };
    let withdrawn = || -> Vec<u64> {
        let measured = measured(&spec);
        assert_eq!(measured.result.counts.ok + measured.result.counts.cancelled_early, 40);
        measured.requests.iter().filter(|r| r.ended == RequestEnd::CancelledEarly).map(|record| record.index).collect()
    };
    let first = withdrawn();
    assert!((8..=32).contains(&first.len()), "{first:?}");
    assert_eq!(withdrawn(), first);
}

#[test]
fn the_servers_own_stamps_stand_beside_ours() {
    let files = Files::new(true, &json!({}));
    // Real time: only then are both sides' milliseconds the same.
    let server = Running::start(SimOptions { speed: 1.0, ..files.options() });
    let request = Request { return_perf_metrics: true, ..Request::default() };
    let measured = measured(&spec(at(&server), 12, request));
    all_ok(&measured);
    let side = measured.result.server.unwrap();
    assert_eq!((side.queue.n, side.ttft.n, side.without), (12, 12, 0));
    assert_eq!(side.ttft.zero_point, "arrival_time_ns, as the server stamps");
    assert!(side.ttft_outside.min.unwrap() >= 0.0, "a token cannot be here before it is there");
    assert!(side.queue.max <= side.ttft.max && side.ttft.max <= side.e2e.max);
    assert!(side.kv_cache_alloc_new_blocks >= 12 && side.kv_cache_reused_blocks == 0);
    assert!(measured.requests.iter().all(|record| record.server.is_some()));
}

#[test]
fn log_probabilities_and_logits_come_in_the_shapes_that_were_asked_for() {
    let files = Files::built(true, &json!({}), &json!({"gather_context_logits": true}));
    let server = Running::start(files.options());
    let request = Request {
        return_log_probs: true,
        return_context_logits: true,
        return_generation_logits: true,
        ..Request::default()
    };
    let spec = BenchSpec {
        input_len: Length::Fixed(3),
        output_len: Length::Fixed(2),
        warmup: 0,
        pace: regatta::harness::SendingSpec::default(),
        content: regatta::harness::PromptSource::default(),
        ..spec(at(&server), 2, request.clone())
    };
    let measured = measured(&spec);
    all_ok(&measured);
    let outputs: Vec<(&str, u64, u64, u64)> = measured
        .result
        .outputs
        .iter()
        .map(|(name, output)| (name.as_str(), output.responses, output.bytes, output.misshapen))
        .collect();
    let row = u64::from(VOCABULARY) * 4;
    assert_eq!(
        outputs,
        [
            ("context_logits", 2, 2 * 3 * row, 0),
            ("cum_log_probs", 4, 16, 0),
            ("generation_logits", 4, 4 * row, 0),
            ("output_log_probs", 4, 16, 0),
        ]
    );
    let plain = Files::new(true, &json!({}));
    let plain = Running::start(plain.options());
    let failed =
        wait_for(run(&BenchSpec { endpoints: vec![at(&plain)], ..spec }, &Stop::new(), |_| {})).unwrap().result;
    assert_eq!(failed.verdict(), Verdict::InvalidServer);
    assert!(failed.counts.failures[0].why.contains("need to build engine with gather_context_logits"));
}

#[test]
fn adapters_are_taken_in_turn_where_the_engine_has_them() {
    let request = Request { lora_task_id: vec![1, 2], ..Request::default() };
    let files = Files::built(true, &json!({}), &json!({"lora_plugin": "auto"}));
    let server = Running::start(files.options());
    all_ok(&measured(&spec(at(&server), 6, request.clone())));
    let plain = Files::new(true, &json!({}));
    let plain = Running::start(plain.options());
    let failed = measured(&BenchSpec { warmup: 0, ..spec(at(&plain), 6, request) }).result.counts;
    assert_eq!((failed.failed, failed.failures.len()), (6, 3));
    assert_eq!(failed.failures[0].why, "LoRA task 1 not found in cache. Please send LoRA weights with request");
    assert!(failed.failures[1].why.contains("LoRA task 2"));
}

#[test]
fn a_prompt_in_front_of_the_answer_is_not_counted() {
    let files = Files::new(false, &json!({"exclude_input_in_output": false}));
    let server = Running::start(files.options());
    for exclude in [None, Some(true), Some(false)] {
        let request = Request { exclude_input_in_output: exclude, ..Request::default() };
        all_ok(&measured(&spec(at(&server), 6, request)));
    }
}

#[test]
fn beams_are_one_answer() {
    let files = Files::built(true, &json!({}), &json!({"max_beam_width": 4}));
    let server = Running::start(files.options());
    let request = Request { beam_width: Some(3), length_penalty: Some(1.0), ..Request::default() };
    let measured = measured(&spec(at(&server), 6, request));
    all_ok(&measured);
    assert_eq!(measured.result.tokens.source, "output_ids of the longest of 3 beams");
    assert!(measured.requests.iter().all(|record| record.chunks == 1));
}

#[test]
fn a_decoupled_model_can_answer_at_once() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let measured = measured(&spec(at(&server), 6, Request { streaming: Some(false), ..Request::default() }));
    all_ok(&measured);
    assert_eq!(measured.result.client.call, "stream");
    assert!(measured.requests.iter().all(|record| record.chunks == 1));
}

#[test]
fn what_is_late_beyond_its_deadline_has_failed() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(SimOptions { speed: 0.01, ..files.options() });
    let request = Request { deadline: Some(Duration::from_millis(50).into()), ..Request::default() };
    let measured = measured(&BenchSpec { warmup: 0, ..spec(at(&server), 4, request) });
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.failed_by_class.get(&FailureClass::Deadline)), (0, Some(&4)), "{counts:?}");
}

#[test]
fn sampling_reaches_the_server_and_what_it_refuses_is_reported() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let request = Request {
        temperature: Some(0.7),
        top_k: Some(40),
        top_p: Some(0.9),
        repetition_penalty: Some(1.1),
        presence_penalty: Some(0.1),
        frequency_penalty: Some(-0.1),
        random_seed: Some(RandomSeed::PerRequest(true)),
        min_length: Some(3),
        early_stopping: Some(true),
        end_id: Some(-1),
        ..Request::default()
    };
    all_ok(&measured(&spec(at(&server), 6, request.clone())));
    // The engine has one beam.
    let request = Request { beam_width: Some(2), ..request };
    let failed = measured(&BenchSpec { warmup: 0, ..spec(at(&server), 2, request) }).result.counts;
    assert_eq!(failed.failures[0].why, "Requested beam width 2 exceeds the engine's max_beam_width 1");
}

#[test]
fn what_the_model_cannot_do_is_refused_before_the_first_request() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let request = Request {
        streaming: Some(true),
        early_stopping: Some(true),
        stop_words: Some(WordList::Ids(vec![vec![5]])),
        ..Request::default()
    };
    let faults = refused(&BenchSpec { model: "ensemble".to_owned(), ..spec(at(&server), 2, request) });
    assert_eq!(faults.len(), 4, "{faults:#?}");
    assert!(faults[0].starts_with("request.streaming: the model is not decoupled"));
    assert_eq!(faults[1], "request.early_stopping needs the input `early_stopping`, which the model does not have");
    assert_eq!(faults[2], "request.stop_words: this model takes text, so `texts` are required");
    assert!(faults[3].starts_with("the model's inputs are bad_words, "));
}
