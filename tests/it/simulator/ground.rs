//! Files to serve, a server that serves them, and requests as a harness sends them.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use indexmap::IndexMap;
use pretty_assertions::assert_eq;
use regatta::sim::{EngineSpec, GpuTiming, ServeError, SimOptions, serve, write_engine};
use regatta::spec::ModelShape;
use regatta::triton::proto::inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use regatta::triton::proto::inference::infer_parameter::ParameterChoice;
use regatta::triton::proto::inference::model_infer_request::InferInputTensor;
use regatta::triton::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use regatta::triton::{Repository, repository};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

pub type Client = GrpcInferenceServiceClient<Channel>;

/// An engine and a repository for it, in a folder that goes away with the test.
pub struct Files(pub TempDir);

impl Files {
    pub fn new(streaming: bool, parameters: &Value) -> Self {
        Self::built(streaming, parameters, &json!({}))
    }

    /// With further build flags of the engine.
    pub fn built(streaming: bool, parameters: &Value, flags: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = folder.path().join("engine");
        std::fs::create_dir(&engine).unwrap();
        let mut spec = engine_spec();
        spec.build_flags.extend(flags.as_object().unwrap().clone());
        write_engine(&spec, &engine).unwrap();
        let spec = Repository {
            engine: engine.display().to_string(),
            triton_num_servers: 1,
            gpus: None,
            streaming,
            tokenizer: None,
            layout: repository::RepositoryLayout::Five,
            triton_num_models_per_server: None,
            files: None,
            models: ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"]
                .map(str::to_owned)
                .to_vec(),
            runtime_flags: IndexMap::new(),
            parameters: parameters.as_object().unwrap().iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        };
        repository::write(&spec, folder.path()).unwrap();
        Self(folder)
    }

    pub fn repository(&self) -> std::path::PathBuf {
        self.0.path().join("triton_model_repo_0")
    }

    pub fn options(&self) -> SimOptions {
        SimOptions {
            speed: 100.0,
            exit_timeout: Duration::from_secs(5),
            ..SimOptions::new(self.repository(), "127.0.0.1:0".parse().unwrap())
        }
    }

    pub fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.0.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} is not in {file}");
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    }
}

pub fn engine_spec() -> EngineSpec {
    EngineSpec {
        model: ModelShape {
            name: "llama3.1-8b".into(),
            architecture: "LlamaForCausalLM".into(),
            parameters: 8_030_261_248,
            active_parameters: Some(8_030_261_248),
            num_experts: None,
            experts_per_token: None,
            num_hidden_layers: 32,
            hidden_size: 4096,
            intermediate_size: 14336,
            num_attention_heads: 32,
            num_key_value_heads: 8,
            head_dim: None,
            vocab_size: 128_256,
            max_position_embeddings: 131_072,
        },
        gpu: GpuTiming {
            name: "H200".into(),
            memory_gb: 141.0,
            bandwidth_gbs: 4800.0,
            link_gbs: None,
            tflops_16bit: 989.0,
        },
        calibration: regatta::spec::SimCalibration::default(),
        precision: "fp8".into(),
        tensor_parallelism: 1,
        pipeline_parallelism: 1,
        checkpoint_flags: serde_json::Map::new(),
        build_flags: json!({"max_batch_size": 512, "max_input_len": 1024, "max_seq_len": 2048, "max_num_tokens": 8192})
            .as_object()
            .unwrap()
            .clone(),
        drafting: None,
        lora: None,
        max_cudagraph_capture_size: None,
    }
}

/// A server on its own runtime, as it would be in its own process. Dropping it ends it.
pub struct Running {
    pub address: SocketAddr,
    pub http: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    stop: CancellationToken,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    pub fn start(options: SimOptions) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (ready, address) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(serve(options, async move { stopped.cancelled().await }, move |address| {
                ready.send(address).unwrap();
            }))
        });
        let at = address.recv().expect("the server opens its ports");
        Self { address: at.grpc, http: at.http, metrics: at.metrics, stop, thread: Some(thread) }
    }

    pub async fn client(&self) -> Client {
        GrpcInferenceServiceClient::connect(format!("http://{}", self.address)).await.unwrap()
    }

    /// Waits for the end without asking for it.
    pub fn end(mut self) -> Result<(), ServeError> {
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn stop(mut self) -> Result<(), ServeError> {
        self.stop.cancel();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn tensor(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.into(),
        datatype: datatype.into(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

pub fn raw(values: &[i32]) -> bytes::Bytes {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

/// A request as NVIDIA's harness sends it.
pub fn request(id: &str, isl: i32, osl: i32, streaming: bool) -> ModelInferRequest {
    let ids: Vec<i32> = (0..isl).map(|n| n % 1000 + 3).collect();
    ModelInferRequest {
        model_name: "tensorrt_llm".into(),
        id: id.into(),
        inputs: vec![
            tensor("input_ids", "INT32", &[1, i64::from(isl)]),
            tensor("input_lengths", "INT32", &[1, 1]),
            tensor("request_output_len", "INT32", &[1, 1]),
            tensor("streaming", "BOOL", &[1, 1]),
        ],
        raw_input_contents: vec![raw(&ids), raw(&[isl]), raw(&[osl]), vec![u8::from(streaming)].into()],
        ..ModelInferRequest::default()
    }
}

pub fn is_final(response: &ModelInferResponse) -> Option<bool> {
    match response.parameters.get("triton_final_response")?.parameter_choice {
        Some(ParameterChoice::BoolParam(flag)) => Some(flag),
        _ => None,
    }
}

pub fn output_ids(response: &ModelInferResponse) -> Vec<i32> {
    let at = response.outputs.iter().position(|output| output.name == "output_ids").unwrap();
    let ids: Vec<i32> =
        response.raw_output_contents[at].as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
    assert_eq!(response.outputs[at].shape, [1, 1, ids.len() as i64]);
    ids
}

/// Sends all requests on one stream, closes it, and collects every response.
pub async fn stream(client: &mut Client, requests: Vec<ModelInferRequest>) -> Vec<ModelStreamInferResponse> {
    let answers = client.model_stream_infer(tokio_stream::iter(requests)).await.unwrap().into_inner();
    answers.map(Result::unwrap).collect().await
}
