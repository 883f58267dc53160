//! The calls that other programs make, recorded from them and sent again: `tests/golden/peers`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use prost::Message as _;
use regatta::sim::SimOptions;
use regatta::triton::proto::inference::*;
use serde_json::{Value, json};

use super::ground::{Client, Files, Running, raw, request, stream};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/peers").join(name)
}

/// Methods and messages.
fn calls(name: &str) -> Vec<(String, Vec<u8>)> {
    let text = std::fs::read_to_string(recorded(name)).unwrap();
    text.lines()
        .map(|line| {
            let (method, hex) = line.split_once(' ').unwrap();
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (method.to_owned(), (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

async fn statistics(client: &mut Client, request: ModelStatisticsRequest) -> Vec<ModelStatistics> {
    client.model_statistics(request).await.unwrap().into_inner().model_stats
}

/// What perf_analyzer reads of a model's statistics: successes, and how often the queue and the parts of computing were timed.
fn counts(statistics: &[ModelStatistics], model: &str) -> [u64; 6] {
    let of = statistics.iter().find(|of| of.name == model).unwrap();
    let times = of.inference_stats.as_ref().unwrap();
    let count = |duration: Option<StatisticDuration>| duration.unwrap().count;
    [
        of.inference_count,
        count(times.success),
        count(times.queue),
        count(times.compute_input),
        count(times.compute_infer),
        count(times.compute_output),
    ]
}

/// perf_analyzer exits with 99 ("failed to find the requested model version") unless the model's queue count grows.
#[tokio::test]
async fn recorded_grpc_calls_find_the_statistics_of_every_model_of_the_request() {
    for (name, model, through) in [
        ("perf_analyzer-ensemble.grpc", "ensemble", &["preprocessing", "tensorrt_llm", "postprocessing"][..]),
        ("perf_analyzer-bls.grpc", "tensorrt_llm_bls", &["tensorrt_llm"]),
        ("genai-perf-ensemble.grpc", "ensemble", &["preprocessing", "tensorrt_llm", "postprocessing"]),
    ] {
        let files = Files::new(true, &json!({}));
        let server = Running::start(files.options());
        let mut client = server.client().await;
        let (mut requests, mut request) = (Vec::new(), None);
        for (method, message) in calls(name) {
            let message = message.as_slice();
            match method.as_str() {
                "ModelMetadata" => {
                    let metadata = client.model_metadata(ModelMetadataRequest::decode(message).unwrap()).await.unwrap();
                    assert_eq!(
                        (metadata.get_ref().name.as_str(), &metadata.get_ref().versions[..]),
                        (model, &["1".into()][..])
                    );
                }
                "ModelConfig" => {
                    let wanted = ModelConfigRequest::decode(message).unwrap();
                    let config = client.model_config(wanted.clone()).await.unwrap().into_inner();
                    assert_eq!(config.config.unwrap().name, wanted.name);
                }
                "ServerMetadata" => {
                    let metadata = client.server_metadata(ServerMetadataRequest {}).await.unwrap().into_inner();
                    // Without this extension perf_analyzer reads no statistics.
                    assert!(metadata.extensions.iter().any(|extension| extension == "statistics"));
                }
                "ModelStatistics" => request = Some(ModelStatisticsRequest::decode(message).unwrap()),
                "ModelStreamInfer" => requests.push(ModelInferRequest::decode(message).unwrap()),
                other => panic!("{other}"),
            }
        }
        let (request, sent) = (request.unwrap(), requests.len() as u64);
        let before = statistics(&mut client, request.clone()).await;
        assert_eq!(counts(&before, model), [0; 6]);
        let answers = stream(&mut client, requests).await;
        assert!(answers.iter().all(|answer| answer.error_message.is_empty()), "{name}: {answers:?}");
        let after = statistics(&mut client, request).await;
        assert_eq!(counts(&after, model), [sent; 6], "{name}");
        let all = statistics(&mut client, ModelStatisticsRequest::default()).await;
        let tokens = answers.iter().filter_map(|answer| answer.infer_response.as_ref());
        let tokens = tokens.filter(|response| !response.outputs.is_empty()).count() as u64;
        for part in through {
            let expected = if *part == "postprocessing" { tokens } else { sent };
            assert_eq!(counts(&all, part), [expected; 6], "{name}: {part}");
        }
        server.stop().unwrap();
    }
}

#[tokio::test]
async fn statistics_are_of_what_was_answered_and_what_failed() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let mut client = server.client().await;
    let mut refused = request("c", 5, 5, true);
    refused.raw_input_contents[0] = raw(&[1, 2]);
    let mut failed = request("b", 5, 5, true);
    failed.raw_input_contents[0] = raw(&[1, 2, 3, 4, -1]);
    let answers = stream(&mut client, vec![request("a", 100, 20, true), failed, refused]).await;
    assert_eq!(answers.iter().filter(|answer| !answer.error_message.is_empty()).count(), 2);
    let all =
        statistics(&mut client, ModelStatisticsRequest { name: "tensorrt_llm".into(), version: "1".into() }).await;
    let times = all[0].inference_stats.as_ref().unwrap();
    // What the server refuses for its tensors never reaches the model.
    assert_eq!((times.success.unwrap().count, times.fail.unwrap().count), (1, 1));
    let ns = |duration: Option<StatisticDuration>| duration.unwrap().ns;
    assert_eq!(ns(times.success), ns(times.queue) + ns(times.compute_infer));
    assert!(ns(times.compute_infer) > 0 && all[0].last_inference > 0, "{all:?}");
    let unknown = client.model_statistics(ModelStatisticsRequest { name: "none".into(), version: String::new() }).await;
    assert_eq!(unknown.unwrap_err().code(), tonic::Code::NotFound);
}

/// Status, headers (names in lower case) and body.
struct Answer {
    status: u16,
    json_length: Option<usize>,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body[..self.json_length.unwrap_or(self.body.len())]).unwrap()
    }
}

/// Sends all bytes at once over one connection, and reads so many answers.
fn sent(address: SocketAddr, bytes: &[u8], answers: usize) -> Vec<Answer> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut reader = BufReader::new(stream);
    (0..answers).map(|_| answer(&mut reader)).collect()
}

fn answer(reader: &mut BufReader<TcpStream>) -> Answer {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_lowercase()
    };
    let status = line().split(' ').nth(1).unwrap().parse().unwrap();
    let (mut length, mut json_length) = (0, None);
    loop {
        let header = line();
        match header.split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("inference-header-content-length", value)) => json_length = Some(value.parse().unwrap()),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Answer { status, json_length, body }
}

fn over_http(files: &Files) -> Running {
    Running::start(SimOptions { http: Some("127.0.0.1:0".parse().unwrap()), ..files.options() })
}

#[test]
fn recorded_calls_of_tritonclient_are_answered_over_http() {
    let files = Files::new(false, &json!({}));
    let server = over_http(&files);
    let bytes = std::fs::read(recorded("tritonclient.http")).unwrap();
    let answers = sent(server.http.unwrap(), &bytes, 20);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(
        statuses,
        [200, 200, 200, 200, 400, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 404, 400, 404]
    );
    let metadata = answers[6].json();
    assert_eq!(
        (&metadata["name"], &metadata["versions"], &metadata["platform"]),
        (&json!("ensemble"), &json!(["1"]), &json!("ensemble"))
    );
    let config = answers[7].json();
    assert_eq!((&config["backend"], &config["input"][0]["data_type"]), (&json!("tensorrtllm"), &json!("TYPE_INT32")));
    assert_eq!(answers[8].json()[0], json!({"name": "ensemble", "version": "1", "state": "READY", "reason": ""}));
    // Binary and JSON tensors, both ways, carry the same text.
    let texts: Vec<String> = answers[9..13]
        .iter()
        .map(|answer| {
            let body = answer.json();
            let output = &body["outputs"][0];
            assert_eq!(
                (&body["id"], &output["name"], &output["shape"]),
                (&json!("q"), &json!("text_output"), &json!([1, 1]))
            );
            match answer.json_length {
                None => output["data"][0].as_str().unwrap().to_owned(),
                Some(at) => {
                    assert_eq!(output["parameters"]["binary_data_size"], answer.body.len() - at);
                    let length = u32::from_le_bytes(answer.body[at..at + 4].try_into().unwrap()) as usize;
                    assert_eq!(length, answer.body.len() - at - 4);
                    String::from_utf8(answer.body[at + 4..].to_vec()).unwrap()
                }
            }
        })
        .collect();
    assert!(texts.iter().all(|text| *text == texts[0] && text.len() == "hello world".len() + 5 * 4), "{texts:?}");
    let whole: Vec<bool> = answers[9..13].iter().map(|answer| answer.json_length.is_some()).collect();
    assert_eq!(whole, [true, false, true, false]);
    // Statistics: five requests to the ensemble, and one to the engine model itself.
    let stats = answers[16].json();
    let successes = |name: &str| {
        let models = stats["model_stats"].as_array().unwrap();
        let of = models.iter().find(|model| model["name"] == name).unwrap();
        of["inference_stats"]["success"]["count"].as_u64().unwrap()
    };
    let all = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"].map(successes);
    assert_eq!(all, [5, 5, 6, 5, 0]);
    assert_eq!(answers[17].json()["error"], "Request for unknown model: 'nope' is not found");
    server.stop().unwrap();
}

#[test]
fn recorded_calls_of_perf_analyzer_are_answered_over_http() {
    let files = Files::new(false, &json!({}));
    let server = over_http(&files);
    let bytes = std::fs::read(recorded("perf_analyzer.http")).unwrap();
    let answers = sent(server.http.unwrap(), &bytes, 12);
    assert!(answers.iter().all(|answer| answer.status == 200));
    let queued = |answer: &Answer| answer.json()["model_stats"][0]["inference_stats"]["queue"]["count"].as_u64();
    assert_eq!((queued(&answers[9]), queued(&answers[11])), (Some(0), Some(1)));
    server.stop().unwrap();
}

#[test]
fn what_is_no_request_is_refused_over_http() {
    let files = Files::new(true, &json!({}));
    let server = over_http(&files);
    let post = |path: &str, headers: &str, body: &str| {
        let text = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        let answer = sent(server.http.unwrap(), text.as_bytes(), 1).remove(0);
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        format!("{} {error}", answer.status)
    };
    let infer = "/v2/models/tensorrt_llm/infer";
    let input = |more: &str| format!(r#"{{"inputs":[{{"name":"input_ids","datatype":"INT32","shape":[1,2]{more}}}]}}"#);
    let huge = input("").replace("[1,2]", "[4611686018427387904,4]").replace("}]}", r#","data":[1]}]}"#);
    let deep = input(&format!(r#","data":{}{}"#, "[".repeat(4_000), "]".repeat(4_000)));
    let answers = [
        post(infer, "", "{"),
        post(infer, "", &input("")),
        post(infer, "", &input(r#","data":[1,2,3]"#)),
        post(infer, "", &input(r#","data":[1,"2"]"#)),
        post(infer, "", &input(r#","parameters":{"binary_data_size":9}"#)),
        post(infer, "Inference-Header-Content-Length: 900\r\n", &input("")),
        post(infer, "", &huge),
        post("/v2/models/ensemble/versions/9/infer", "", &input(r#","data":[1,2]"#)),
        post(infer, "", &input(r#","data":[1,2]"#)),
    ];
    assert_eq!(
        answers,
        [
            "400 failed to parse the request JSON buffer: EOF while parsing an object at line 1 column 1",
            "400 must specify 'data' field in input tensor 'input_ids'",
            "400 `input_ids`: shape [1, 2] has 2 elements, and 3 are given",
            "400 `input_ids`: \"2\" is not of type INT32",
            "400 `binary_data_size` of input 'input_ids' is more than the 0 bytes left",
            "400 header `inference-header-content-length` is \"900\"; it must be a length within the body of 66 bytes",
            "400 `input_ids`: shape [4611686018427387904, 4] has 18446744073709551615 elements, and 1 are given",
            "404 Request for unknown model: 'ensemble' version 9 is not found",
            "501 HTTP end point doesn't support models with decoupled transaction policy",
        ]
    );
    assert!(
        post(infer, "", &deep).starts_with("400 failed to parse the request JSON buffer: recursion limit exceeded")
    );
    // A body that says that it is too long is not read.
    let long = format!("POST {infer} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 65 << 20);
    let answer = sent(server.http.unwrap(), long.as_bytes(), 1).remove(0);
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"].as_str().unwrap().contains("67108864 bytes"), "{}", answer.json());
}

#[test]
fn prompts_are_counted_with_the_tokenizer_of_the_repository() {
    let posted = |server: &Running, path: &str, body: &str| {
        let text = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        sent(server.http.unwrap(), text.as_bytes(), 1).remove(0).json()["usage"].clone()
    };
    let usage_of = |server: &Running| {
        let body = r#"{"model":"ensemble","prompt":"one two three four five six","max_tokens":2}"#;
        posted(server, "/v1/completions", body)
    };
    let files = Files::new(true, &json!({}));
    let server = over_http(&files);
    let usage = usage_of(&server);
    // 27 bytes.
    assert_eq!(usage["prompt_tokens"], 7);
    // A chat's content is a text, or has parts, as GuideLLM sends it.
    for content in [r#""one two three four five six""#, r#"[{"type":"text","text":"one two three four five six"}]"#] {
        let body =
            format!(r#"{{"model":"ensemble","messages":[{{"role":"user","content":{content}}}],"max_tokens":2}}"#);
        assert_eq!(posted(&server, "/v1/chat/completions", &body)["prompt_tokens"], 7, "{content}");
    }
    assert!(usage["prompt_tokens_source"].as_str().unwrap().starts_with("estimate: 4 bytes for each token"));
    server.stop().unwrap();
    let config = files.repository().join("preprocessing/config.pbtxt");
    let folder = files.0.path().join("tokenizer");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("tokenizer.json"), WORDS).unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    let dir = folder.display();
    let line = format!("parameters {{ key: \"tokenizer_dir\" value: {{ string_value: \"{dir}\" }} }}\n");
    std::fs::write(&config, format!("{text}{line}")).unwrap();
    let server = over_http(&files);
    let usage = usage_of(&server);
    assert_eq!((&usage["prompt_tokens"], &usage["prompt_tokens_source"]), (&json!(6), &json!("tokenizer")));
    server.stop().unwrap();
    std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    let error = super::refusal(&files);
    assert!(error.contains("preprocessing: cannot load") && error.contains("tokenizer.json"), "{error}");
}

/// A tokenizer in Hugging Face's format that knows words.
const WORDS: &str = r#"{
  "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
  "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
  "model": { "type": "WordLevel", "vocab": { "[UNK]": 0, "one": 1, "two": 2 }, "unk_token": "[UNK]" }
}"#;

/// What clients ask a Triton for besides models and tensors: answered or refused as by one that loads its models at its start.
#[tokio::test]
async fn settings_shared_memory_and_loading_are_answered_as_by_a_triton() {
    let files = Files::new(false, &json!({}));
    let server = over_http(&files);
    let mut client = server.client().await;
    let load = RepositoryModelLoadRequest { model_name: "tensorrt_llm".into(), ..Default::default() };
    let refused = client.repository_model_load(load).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert_eq!(refused.message(), "explicit model load / unload is not allowed if polling is enabled");
    let unload = RepositoryModelUnloadRequest { model_name: "tensorrt_llm".into(), ..Default::default() };
    assert_eq!(client.repository_model_unload(unload).await.unwrap_err().code(), tonic::Code::Unavailable);
    let regions = client.system_shared_memory_status(SystemSharedMemoryStatusRequest::default()).await.unwrap();
    assert!(regions.into_inner().regions.is_empty());
    let regions = client.cuda_shared_memory_status(CudaSharedMemoryStatusRequest::default()).await.unwrap();
    assert!(regions.into_inner().regions.is_empty());
    let traced = client.trace_setting(TraceSettingRequest::default()).await.unwrap().into_inner();
    assert_eq!(traced.settings["trace_level"].value, ["OFF"]);
    let logged = client.log_settings(LogSettingsRequest::default()).await.unwrap().into_inner();
    assert!(logged.settings.contains_key("log_verbose_level"));
    let address = server.http.unwrap();
    let of = move |line: &str| {
        let text = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        let answer = sent(address, text.as_bytes(), 1).remove(0);
        (answer.status, answer.json())
    };
    let answers = tokio::task::spawn_blocking(move || {
        [
            of("GET /v2/logging"),
            of("GET /v2/models/ensemble/trace/setting"),
            of("GET /v2/cudasharedmemory/status"),
            of("POST /v2/repository/models/ensemble/unload"),
            of("GET /v1/models/ensemble"),
            of("GET /v1/models/other"),
        ]
    })
    .await
    .unwrap();
    assert_eq!(answers.each_ref().map(|answer| answer.0), [200, 200, 200, 503, 200, 404]);
    let bodies = answers.map(|answer| answer.1);
    assert_eq!(
        (&bodies[0]["log_info"], &bodies[1]["trace_level"][0], &bodies[2]),
        (&json!(true), &json!("OFF"), &json!([]))
    );
    assert_eq!((&bodies[4]["id"], &bodies[5]["error"]["type"]), (&json!("ensemble"), &json!("NotFoundError")));
}

#[test]
fn a_chat_without_messages_is_refused() {
    let files = Files::new(false, &json!({}));
    let server = over_http(&files);
    let body = r#"{"model":"ensemble","messages":[]}"#;
    let text = format!("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = sent(server.http.unwrap(), text.as_bytes(), 1).remove(0);
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (400, &json!("BadRequestError")));
    server.stop().unwrap();
}
