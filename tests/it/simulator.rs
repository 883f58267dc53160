//! The simulated Triton over real sockets: what it serves, and what it refuses in a Triton's words.

mod calibration;
mod determinism;
mod estimates;
pub mod ground;
mod loads;
mod lora;
mod peers;
mod request_tensors;
mod speculation;
mod truth;
mod vllm_metrics;
mod what_if;

use std::path::Path;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::sim::{Faults, ServeError, SimOptions, serve, token};
use regatta::triton::proto::inference::infer_parameter::ParameterChoice;
use regatta::triton::proto::inference::*;
use serde_json::json;
use tokio_stream::StreamExt as _;
use tonic::Code;

use ground::{Files, Running, is_final, output_ids, raw, request, stream, tensor};

#[tokio::test]
async fn a_stream_carries_each_token_once_in_order_and_marks_the_last() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let answers =
        stream(&mut server.client().await, vec![request("a", 100, 12, true), request("b", 50, 7, true)]).await;
    for (id, count) in [("a", 12), ("b", 7)] {
        let own: Vec<_> = answers.iter().filter_map(|a| a.infer_response.as_ref()).filter(|r| r.id == id).collect();
        let tokens: Vec<i32> = own.iter().flat_map(|response| output_ids(response)).collect();
        let expected: Vec<i32> = (0..count).map(|index| token(id, index, 128_256, None)).collect();
        assert_eq!(tokens, expected);
        let flags: Vec<bool> = own.iter().map(|response| is_final(response).unwrap()).collect();
        assert_eq!(flags.iter().filter(|flag| **flag).count(), 1);
        assert_eq!(flags.last(), Some(&true));
    }
    server.stop().unwrap();
}

#[tokio::test]
async fn without_streaming_a_request_has_one_answer() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let mut client = server.client().await;
    let answer = client.model_infer(request("7", 20, 9, false)).await.unwrap().into_inner();
    assert_eq!(output_ids(&answer).len(), 9);
    let at = answer.outputs.iter().position(|output| output.name == "sequence_length").unwrap();
    assert_eq!(
        (answer.outputs[at].shape.as_slice(), &answer.raw_output_contents[at][..]),
        (&[1, 1][..], &9_i32.to_le_bytes()[..])
    );
    server.stop().unwrap();
}

#[tokio::test]
async fn the_prompt_comes_first_when_it_is_not_excluded() {
    let files = Files::new(false, &json!({"exclude_input_in_output": false}));
    let server = Running::start(files.options());
    let answer = server.client().await.model_infer(request("7", 4, 2, false)).await.unwrap().into_inner();
    assert_eq!(output_ids(&answer)[..4], [3, 4, 5, 6]);
    assert_eq!(output_ids(&answer).len(), 6);
}

#[tokio::test]
async fn text_goes_in_and_comes_out_through_ensemble_and_bls() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let mut client = server.client().await;
    for model in ["ensemble", "tensorrt_llm_bls"] {
        let text = [&5_u32.to_le_bytes()[..], b"hello"].concat();
        let answer = client
            .model_infer(ModelInferRequest {
                model_name: model.into(),
                id: "t".into(),
                inputs: vec![tensor("text_input", "BYTES", &[1, 1]), tensor("max_tokens", "INT32", &[1, 1])],
                raw_input_contents: vec![text.into(), raw(&[3])],
                ..ModelInferRequest::default()
            })
            .await
            .unwrap()
            .into_inner();
        assert_eq!(answer.outputs[0].name, "text_output");
        assert_eq!(answer.raw_output_contents[0].len(), 4 + 5 + 3 * 4, "length, prompt, three words");
    }
}

#[tokio::test]
async fn a_decoupled_model_refuses_the_unary_call() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let status = server.client().await.model_infer(request("1", 5, 5, false)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(status.message(), "ModelInfer RPC doesn't support models with decoupled transaction policy");
}

#[tokio::test]
async fn wrong_requests_are_refused_by_name() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let mut client = server.client().await;
    let good = || request("1", 5, 5, false);
    let edit = |change: &dyn Fn(&mut ModelInferRequest)| {
        let mut request = good();
        change(&mut request);
        request
    };
    let cases = [
        edit(&|r| r.model_name = "nobody".into()),
        edit(&|r| r.model_version = "9".into()),
        edit(&|r| r.inputs[0].name = "input_idz".into()),
        edit(&|r| r.inputs[0].datatype = "INT64".into()),
        edit(&|r| r.inputs[1].shape = vec![1]),
        edit(&|r| r.raw_input_contents[0] = raw(&[1, 2])),
        edit(&|r| {
            r.inputs.remove(2);
            r.raw_input_contents.remove(2);
        }),
        edit(&|r| {
            r.inputs.remove(0);
            r.raw_input_contents.remove(0);
        }),
        edit(&|r| r.raw_input_contents[3] = vec![1].into()),
        edit(&|r| r.raw_input_contents[2] = raw(&[0])),
        edit(&|r| r.raw_input_contents[0] = raw(&[1, 2, 3, 4, -1])),
        request("1", 1025, 5, false),
        request("1", 1000, 1049, false),
        edit(&|r| {
            r.outputs =
                vec![model_infer_request::InferRequestedOutputTensor { name: "logits".into(), ..Default::default() }];
        }),
    ];
    let mut errors = Vec::new();
    for case in cases {
        let status = client.model_infer(case).await.unwrap_err();
        errors.push(format!("{:?}: {}", status.code(), status.message()));
    }
    insta::assert_snapshot!(errors.join("\n"), @r"
    NotFound: Request for unknown model: 'nobody' is not found
    NotFound: Request for unknown model: 'tensorrt_llm' version 9 is not found
    InvalidArgument: unexpected inference input 'input_idz' for model 'tensorrt_llm'
    InvalidArgument: [request id: 1] inference input 'input_ids' data-type is 'INT64', but model 'tensorrt_llm' expects 'INT32'
    InvalidArgument: [request id: 1] unexpected shape for input 'input_lengths' for model 'tensorrt_llm'. Expected [-1,1], got [1]. NOTE: a non-zero max_batch_size in the model config requires a batch dimension before each input shape.
    InvalidArgument: [request id: 1] input byte size mismatch for input 'input_ids' for model 'tensorrt_llm'. Expected 20, got 8
    InvalidArgument: [request id: 1] expected number of inputs between 2 and 60 but got 3 inputs for model 'tensorrt_llm'. Got input(s) ['input_ids','input_lengths','streaming'], but missing required input(s) ['request_output_len']. Please provide all required input(s).
    Internal: Input tokens are not provided: input 'input_ids' is missing or empty
    Internal: Streaming is only supported if model is deployed using decoupled mode.
    Internal: the maximum number of new tokens must be greater than 0, got 0
    Internal: Token ID -1 in input_ids is out of range [0, 128256)
    Internal: Prompt length (1025) exceeds maximum input length (1024).
    Internal: Prompt length (1000) and maximum new tokens (1049) exceed the maximum sequence length (2048).
    InvalidArgument: unexpected inference output 'logits' for model 'tensorrt_llm'
    ");
    assert_eq!(
        output_ids(&client.model_infer(good()).await.unwrap().into_inner()).len(),
        5,
        "the server is none the worse"
    );
}

#[tokio::test]
async fn an_error_inside_a_stream_leaves_the_stream_usable() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let mut wrong = request("bad", 5, 5, true);
    wrong.inputs[0].datatype = "INT64".into();
    let too_long = request("long", 1500, 5, true);
    let answers = stream(&mut server.client().await, vec![wrong, too_long, request("good", 5, 3, true)]).await;
    let of =
        |id: &str| answers.iter().filter(|a| a.infer_response.as_ref().is_some_and(|r| r.id == id)).collect::<Vec<_>>();
    assert!(of("bad")[0].error_message.contains("expects 'INT32'"));
    assert_eq!(
        is_final(of("bad")[0].infer_response.as_ref().unwrap()),
        None,
        "the server's own refusal carries no final flag"
    );
    assert!(of("long")[0].error_message.contains("exceeds maximum input length"));
    assert_eq!(is_final(of("long")[0].infer_response.as_ref().unwrap()), Some(true));
    assert_eq!(of("good").len(), 3);
}

#[tokio::test]
async fn a_final_marker_apart_comes_only_when_asked_for() {
    let files = Files::new(true, &json!({}));
    let faults = Faults { final_apart: true, ..Faults::default() };
    let server = Running::start(SimOptions { faults, ..files.options() });
    let mut asking = request("asks", 5, 3, true);
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    asking.parameters.insert("triton_enable_empty_final_response".into(), flag);
    let answers = stream(&mut server.client().await, vec![asking, request("silent", 5, 3, true)]).await;
    let finals = |id: &str| {
        answers
            .iter()
            .filter_map(|a| a.infer_response.as_ref())
            .filter(|r| r.id == id && is_final(r) == Some(true))
            .count()
    };
    assert_eq!((finals("asks"), finals("silent")), (1, 0));
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_place() {
    let files = Files::new(true, &json!({"max_batch_size": 1}));
    // Slow enough that the one that went away would still be running.
    let server = Running::start(SimOptions { speed: 1.0, ..files.options() });
    let mut client = server.client().await;
    let (requests, outgoing) = tokio::sync::mpsc::unbounded_channel();
    requests.send(request("gone", 100, 1900, true)).unwrap();
    let outgoing = tokio_stream::wrappers::UnboundedReceiverStream::new(outgoing);
    let mut endless = client.model_stream_infer(outgoing).await.unwrap().into_inner();
    endless.next().await.unwrap().unwrap();
    drop((requests, endless));
    let answers = stream(&mut client, vec![request("next", 5, 2, true)]).await;
    assert_eq!(answers.len(), 2);
    let statistics = client
        .model_statistics(ModelStatisticsRequest { name: "tensorrt_llm".into(), version: String::new() })
        .await
        .unwrap();
    assert_eq!(statistics.into_inner().model_stats[0].inference_count, 1, "the one that went away was not served");
}

#[tokio::test]
async fn metadata_and_config_are_those_of_the_files() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let mut client = server.client().await;
    let request = ModelMetadataRequest { name: "tensorrt_llm".into(), version: String::new() };
    let metadata = client.model_metadata(request).await.unwrap().into_inner();
    assert_eq!((metadata.platform.as_str(), metadata.versions.as_slice()), ("tensorrtllm", &["1".to_owned()][..]));
    let ids = metadata.inputs.iter().find(|input| input.name == "input_ids").unwrap();
    assert_eq!((ids.datatype.as_str(), ids.shape.as_slice()), ("INT32", &[-1, -1][..]));
    let config =
        client.model_config(ModelConfigRequest { name: "tensorrt_llm".into(), version: String::new() }).await.unwrap();
    assert!(config.into_inner().config.unwrap().model_transaction_policy.unwrap().decoupled);
    let index = client.repository_index(RepositoryIndexRequest::default()).await.unwrap().into_inner();
    assert_eq!(index.models.len(), 5);
}

#[tokio::test]
async fn several_copies_share_the_requests() {
    let files = Files::new(false, &json!({"max_batch_size": 1}));
    files.edit("triton_model_repo_0/tensorrt_llm/config.pbtxt", "count: 1 kind", "count: 2 kind");
    let server = Running::start(files.options());
    let client = server.client().await;
    let answers = (0..6).map(|id| {
        let mut client = client.clone();
        tokio::spawn(async move { client.model_infer(request(&id.to_string(), 5, 5, false)).await })
    });
    for answer in answers.collect::<Vec<_>>() {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_fault_stalls_the_tokens_and_the_server_stays_ready() {
    let files = Files::new(true, &json!({}));
    let faults = Faults { stall_after_tokens: Some(3), ..Faults::default() };
    let server = Running::start(SimOptions { faults, exit_timeout: Duration::from_millis(50), ..files.options() });
    let mut client = server.client().await;
    let requests = tokio_stream::iter([request("1", 5, 10, true)]).chain(tokio_stream::pending());
    let mut answers = client.model_stream_infer(requests).await.unwrap().into_inner();
    for _ in 0..3 {
        answers.next().await.unwrap().unwrap();
    }
    assert!(client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    assert!(matches!(server.stop(), Err(ServeError::ExitTimeout(_))));
}

#[tokio::test]
async fn a_fault_fails_one_request_or_ends_the_server() {
    let files = Files::new(true, &json!({}));
    let faults = Faults { error_on_request: Some(2), die_after_requests: Some(2), ..Faults::default() };
    let server = Running::start(SimOptions { faults, ..files.options() });
    let mut client = server.client().await;
    let answers = stream(&mut client, vec![request("1", 5, 1, true), request("2", 5, 1, true)]).await;
    assert_eq!(answers.iter().filter(|a| !a.error_message.is_empty()).count(), 1);
    let _ = client.model_stream_infer(tokio_stream::iter([request("3", 5, 1, true)])).await;
    assert!(matches!(server.end(), Err(ServeError::Died(2))));
}

/// What a server says that cannot load its repository.
fn refusal(files: &Files) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error =
        runtime.block_on(serve(files.options(), std::future::pending(), |_| panic!("it opened its port"))).unwrap_err();
    let text = error.to_string().replace(&files.0.path().display().to_string(), "DIR");
    assert!(text.starts_with("failed to load all models: "), "{text}");
    text
}

#[test]
fn broken_repositories_are_refused_before_the_port_opens() {
    const LLM: &str = "triton_model_repo_0/tensorrt_llm/config.pbtxt";
    let broken = |change: &dyn Fn(&Files)| {
        let files = Files::new(true, &json!({}));
        change(&files);
        refusal(&files)
    };
    let remove = |path: &Path| {
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    };
    let errors = [
        broken(&|f| f.edit(LLM, "max_batch_size: 512", "max_batch_sise: 512")),
        broken(&|f| f.edit(LLM, "max_batch_size: 512", "max_batch_size: ${triton_max_batch_size}")),
        broken(&|f| f.edit(LLM, "name: \"tensorrt_llm\"", "name: \"other\"")),
        broken(&|f| f.edit(LLM, "inflight_fused_batching", "inflight")),
        broken(&|f| {
            f.edit(
                LLM,
                "\"kv_cache_free_gpu_mem_fraction\" value: { string_value: \"0.9\"",
                "\"kv_cache_free_gpu_mem_fraction\" value: { string_value: \"0.00001\"",
            );
        }),
        broken(&|f| remove(&f.0.path().join("engine"))),
        broken(&|f| remove(&f.0.path().join("engine/rank0.engine"))),
        broken(&|f| f.edit("engine/config.json", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 33")),
        broken(&|f| remove(&f.repository().join("tensorrt_llm/1"))),
        broken(&|f| remove(&f.repository().join("postprocessing"))),
        broken(&|f| remove(&f.repository())),
    ];
    insta::assert_snapshot!(errors.join("\n---\n"), @r"
    failed to load all models: tensorrt_llm: failed to read text proto from DIR/triton_model_repo_0/tensorrt_llm/config.pbtxt: 3:1: `ModelConfig` has no field `max_batch_sise` (did you mean `max_batch_size`?)
    max_batch_sise: 512
    ^^^^^^^^^^^^^^; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: failed to read text proto from DIR/triton_model_repo_0/tensorrt_llm/config.pbtxt: 3:17: the placeholder `triton_max_batch_size` was never filled (`max_batch_size` is a whole number: fill it, or the server cannot read the file)
    max_batch_size: ${triton_max_batch_size}
                    ^^^^^^^^^^^^^^^^^^^^^^^^; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: unexpected directory name 'tensorrt_llm' for model 'other', directory name must equal model name; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: unexpected error when creating modelInstanceState: invalid gpt_model_type 'inflight'; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: unexpected error when creating modelInstanceState: no GPU memory is left for the KV cache: 13.0 GB of 141.0 GB are weights and workspace, and kv_cache_free_gpu_mem_fraction is 0.00001; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: unexpected error when creating modelInstanceState: both encoder and decoder model paths are empty (gpt_model_path 'DIR/engine' is not a folder); ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: unexpected error when creating modelInstanceState: DIR/engine/rank0.engine is missing: the engine has 1 rank; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: unexpected error when creating modelInstanceState: DIR/engine/rank0.engine: it was built for a different model than the one in config.json; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: tensorrt_llm: at least one version must be available under the version policy of model 'tensorrt_llm'; ensemble: ensemble 'ensemble' depends on 'tensorrt_llm' which has no loaded version
    ---
    failed to load all models: ensemble: ensemble ensemble contains models that are not available or ambiguous: postprocessing
    ---
    failed to load all models: DIR/triton_model_repo_0: failed to open the model repository: No such file or directory (os error 2)
    ");
}

#[tokio::test]
async fn an_unfilled_text_parameter_is_the_backends_default_as_with_the_real_one() {
    let files = Files::new(false, &json!({}));
    files.edit(
        "triton_model_repo_0/tensorrt_llm/config.pbtxt",
        "string_value: \"guaranteed_no_evict\"",
        "string_value: \"${batch_scheduler_policy}\"",
    );
    let server = Running::start(files.options());
    server.client().await.model_infer(request("1", 5, 5, false)).await.unwrap();
}

/// Offline as the brief of the simulator has it: 300 requests of 200 tokens at twentyfold speed, each in one answer.
#[tokio::test]
async fn three_hundred_requests_at_once_are_all_served() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(SimOptions { speed: 20.0, ..files.options() });
    let client = server.client().await;
    let mut all = Vec::new();
    for id in 0..300 {
        let mut client = client.clone();
        all.push(tokio::spawn(async move { client.model_infer(request(&id.to_string(), 128, 200, false)).await }));
    }
    let mut tokens = 0;
    for answer in all {
        tokens += output_ids(&answer.await.unwrap().unwrap().into_inner()).len();
    }
    assert_eq!(tokens, 300 * 200);
}

/// A page has this table, which is found by its first line. With `UPDATE=1` it is written there.
fn on_the_page(name: &str, table: &str) {
    let path = format!("{}/tests/manual/{name}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let head = table.lines().next().unwrap();
    let begin = page.find(head).expect("the table's head is on the page");
    let end = page[begin..].find("\n\n").map_or(page.len(), |end| begin + end + 1);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        pretty_assertions::assert_eq!(&page[begin..end], table, "run with UPDATE=1");
    }
}
