//! Messages, tensor by tensor.

use super::*;
use crate::schedule::data::Prompt;
use crate::transport::kserve::model_metadata::OfferedTensors;
use crate::{CallSource, LoadPattern, Slo};
use base::spec::{Arrivals, Length, LengthField, Limits, RandomSeed, StopAfter, WordList};
use pretty_assertions::assert_eq;

fn spec(request: Request) -> BenchSpec {
    BenchSpec {
        endpoints: vec!["127.0.0.1:1".parse().unwrap()],
        protocol: crate::Transport::Kserve,
        model: "m".to_owned(),
        scenario: LoadPattern::Server { rate: 1.0.into() },
        arrivals: Arrivals::Poisson,
        stop: StopAfter { requests: Some(1), duration: None },
        input_len: Length::Fixed(2),
        output_len: Length::Fixed(2),
        seed: 7,
        warmup: 0,
        pace: crate::SendingSpec::default(),
        content: crate::PromptSource::default(),
        frontends: 1,
        clients: 1,
        stall_timeout: std::time::Duration::from_secs(1),
        limits: Limits::default(),
        slo: Slo::default(),
        vocab_size: 100,
        end_id: 2,
        timelines: false,
        request,
    }
}

fn offer(names: &[(&str, &str)]) -> OfferedTensors {
    names.iter().map(|(name, datatype)| ((*name).to_owned(), (*datatype).to_owned())).collect()
}

fn planned(input_len: u32, output_len: u32) -> PlannedRequest {
    PlannedRequest::at(0, input_len, output_len)
}

/// `name TYPE [shape] = first numbers`
fn shown(message: &ModelInferRequest) -> Vec<String> {
    let tensors = message.inputs.iter().zip(&message.raw_input_contents);
    tensors
        .map(|(input, raw)| {
            let value = match input.datatype.as_str() {
                "INT32" => {
                    format!("{:?}", raw.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect::<Vec<_>>())
                }
                "FP32" => {
                    format!("{:?}", raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>())
                }
                "UINT64" => {
                    format!("{:?}", raw.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect::<Vec<_>>())
                }
                _ => format!("{raw:?}"),
            };
            format!("{} {} {:?} = {value}", input.name, input.datatype, input.shape)
        })
        .collect()
}

#[test]
fn a_batch_is_padded_and_says_its_lengths() {
    let request = Request {
        batch: Some(2),
        pad_id: Some(9),
        temperature: Some(0.5),
        lora_task_id: vec![10, 11, 12],
        stop_words: Some(WordList::Ids(vec![vec![5], vec![6, 7]])),
        ..Request::default()
    };
    let metadata = ModelMetadata { is_decoupled: Some(true), ..ModelMetadata::default() };
    let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
    let message = template.message(4, &[planned(1, 8), planned(3, 9)], &[vec![20], vec![21, 22, 23]].map(Prompt::Ids));
    insta::assert_snapshot!(shown(&message).join("\n"), @r#"
    input_ids INT32 [2, 3] = [20, 9, 9, 21, 22, 23]
    input_lengths INT32 [2, 1] = [1, 3]
    request_output_len INT32 [2, 1] = [8, 9]
    streaming BOOL [2, 1] = b"\x01\x01"
    beam_width INT32 [2, 1] = [1, 1]
    end_id INT32 [2, 1] = [2, 2]
    pad_id INT32 [2, 1] = [9, 9]
    temperature FP32 [2, 1] = [0.5, 0.5]
    stop_words_list INT32 [2, 2, 3] = [5, 6, 7, 1, 3, -1, 5, 6, 7, 1, 3, -1]
    lora_task_id UINT64 [2, 1] = [11, 12]
    "#);
    assert_eq!(message.id, "4");
}

#[test]
fn a_model_gets_what_it_has_in_its_own_types() {
    let metadata = ModelMetadata {
        is_decoupled: Some(false),
        max_batch_size: Some(0),
        inputs: Some(offer(&[
            ("text_input", "BYTES"),
            ("max_tokens", "INT32"),
            ("stream", "BOOL"),
            ("seed", "INT32"),
            ("stop_words", "BYTES"),
        ])),
        outputs: Some(offer(&[("text_output", "BYTES")])),
    };
    let request = Request {
        random_seed: Some(RandomSeed::Fixed(3)),
        stop_words: Some(WordList::Texts(vec!["ab".to_owned()])),
        ..Request::default()
    };
    let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
    assert_eq!(
        (template.call, template.count, template.scan_request().answer),
        (CallKind::Unary, TokenCounting::Requested, "text_output")
    );
    let message = template.message(0, &[planned(2, 5)], &[Prompt::Text("are but".to_owned())]);
    insta::assert_snapshot!(shown(&message).join("\n"), @r#"
    text_input BYTES [1] = b"\x07\0\0\0are but"
    max_tokens INT32 [1] = [5]
    stream BOOL [1] = b"\0"
    seed INT32 [1] = [3]
    stop_words BYTES [1] = b"\x02\0\0\0ab"
    "#);
}

#[test]
fn all_missing_inputs_are_reported_at_once() {
    let metadata = ModelMetadata {
        is_decoupled: Some(false),
        max_batch_size: Some(2),
        inputs: Some(offer(&[("input_ids", "INT32"), ("input_lengths", "INT32"), ("request_output_len", "INT32")])),
        outputs: Some(offer(&[("output_ids", "INT32")])),
    };
    let request = Request {
        streaming: Some(true),
        temperature: Some(0.5),
        random_seed: Some(RandomSeed::PerRequest(true)),
        bad_words: Some(WordList::Texts(vec!["x".to_owned()])),
        end_id: Some(9),
        beam_width: Some(1),
        length_field: Some(LengthField::MaxTokens),
        batch: Some(3),
        return_perf_metrics: true,
        ..Request::default()
    };
    insta::assert_snapshot!(InferRequestTemplate::new(&spec(request), &metadata).unwrap_err().faults.join("\n"), @"
    request.length_field is of openai-chat, not of kserve
    request.streaming: the model is not decoupled, so an answer is one response; set `streaming: false`, or \
        `model_transaction_policy { decoupled: true }` in its config.pbtxt (`decoupled_mode` of TensorRT-LLM's \
        templates)
    request.batch above 1 needs a decoupled model: each prompt is answered by responses of its own
    request.batch is 3, and the model's max_batch_size is 2
    request.end_id needs the input `end_id`, which the model does not have
    request.temperature needs the input `temperature`, which the model does not have
    request.random_seed needs the input `random_seed`, which the model does not have
    request.bad_words: this model takes token ids, so `ids` are required
    request.return_perf_metrics needs the input `return_perf_metrics`, which the model does not have
    the model's inputs are input_ids, input_lengths, request_output_len
    the model has no output `kv_cache_alloc_new_blocks`, `kv_cache_reused_blocks`, `kv_cache_alloc_total_blocks`, \
        `arrival_time_ns`, `first_scheduled_time_ns`, `first_token_time_ns`, `last_token_time_ns`, `batch_index`; it \
        has output_ids
    ");
}

#[test]
fn vllms_backend_takes_its_settings_as_one_text() {
    let request = Request { temperature: Some(0.5), end_id: Some(-1), ..Request::default() };
    let inputs = [
        ("text_input", "BYTES"),
        ("stream", "BOOL"),
        ("sampling_parameters", "BYTES"),
        ("exclude_input_in_output", "BOOL"),
    ];
    let metadata = ModelMetadata {
        is_decoupled: Some(true),
        max_batch_size: Some(0),
        inputs: Some(offer(&inputs)),
        outputs: Some(offer(&[("text_output", "BYTES")])),
    };
    let template = InferRequestTemplate::new(&spec(request), &metadata).unwrap();
    let message = template.message(0, &[planned(1, 8)], &[Prompt::Text("word".into())]);
    insta::assert_snapshot!(shown(&message).join("\n"), @r#"
    text_input BYTES [1] = b"\x04\0\0\0word"
    sampling_parameters BYTES [1] = b"4\0\0\0{\"temperature\":0.5,\"ignore_eos\":true,\"max_tokens\":8}"
    stream BOOL [1] = b"\x01"
    "#);
    // What has no place in the text is refused as every missing tensor is.
    let request = Request { beam_width: Some(2), ..Request::default() };
    let faults = InferRequestTemplate::new(&spec(request), &metadata).unwrap_err().faults;
    assert!(faults.iter().any(|fault| fault.contains("beam_width")), "{faults:?}");
}

#[test]
fn an_answer_has_the_type_that_the_server_reports_and_its_ids_are_whole_numbers() {
    let types = |outputs: Option<&[(&str, &str)]>| {
        let metadata =
            ModelMetadata { is_decoupled: Some(true), outputs: outputs.map(offer), ..ModelMetadata::default() };
        InferRequestTemplate::new(&spec(Request::default()), &metadata).unwrap()
    };
    let unknown = types(None);
    for datatype in ["INT32", "INT64", "UINT32"] {
        assert_eq!(unknown.other_type(datatype.as_bytes()), None);
    }
    assert_eq!(unknown.other_type(b"FP32"), Some("whole numbers"));
    let declared = types(Some(&[("output_ids", "INT32"), ("sequence_length", "INT32")]));
    assert_eq!((declared.other_type(b"INT32"), declared.other_type(b"INT64")), (None, Some("INT32")));
}

#[test]
fn a_text_model_does_not_answer_samples_of_token_ids() {
    let metadata = ModelMetadata {
        is_decoupled: Some(true),
        inputs: Some(offer(&[("text_input", "BYTES"), ("max_tokens", "INT32"), ("stream", "BOOL")])),
        outputs: Some(offer(&[("text_output", "BYTES")])),
        ..ModelMetadata::default()
    };
    let external = BenchSpec { scenario: LoadPattern::External(CallSource::AtTimes), ..spec(Request::default()) };
    let faults = InferRequestTemplate::new(&external, &metadata).unwrap_err().faults;
    assert!(faults[0].starts_with("it takes text, and samples of LoadGen are token ids"), "{faults:?}");
    assert!(InferRequestTemplate::new(&external, &ModelMetadata::default()).is_ok());
}
