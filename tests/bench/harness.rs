//! What the load generator itself costs: CPU per 1,000 streamed responses and the ceiling, against a server that
//! answers at once. `cargo bench --bench harness [-- requests tokens]`, on a machine with nothing else to do.
//!
//! The server writes ready-made responses, one DATA frame each, from a thread of its own in the same process; the CPU
//! reported is that of the load workers only. Where both share two cores the ceiling is that of the pair.

use std::convert::Infallible;
use std::io::Write as _;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use regatta::event::Stop;
use regatta::harness::{Arrivals, Ended, Length, Limits, Scenario, Slo, Spec, Until, run};
use regatta::triton::proto::inference::infer_parameter::ParameterChoice;
use regatta::triton::proto::inference::model_infer_response::InferOutputTensor;
use regatta::triton::proto::inference::{
    InferParameter, ModelConfig, ModelConfigResponse, ModelInferResponse, ModelReadyResponse, ModelStreamInferResponse,
    ModelTransactionPolicy, ServerReadyResponse,
};

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes.freeze()
}

fn token(is_final: bool) -> Bytes {
    let tensor = |name: &str| InferOutputTensor {
        name: name.to_owned(),
        datatype: "INT32".to_owned(),
        shape: vec![1, 1, 1],
        ..InferOutputTensor::default()
    };
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
    framed(&ModelStreamInferResponse {
        infer_response: Some(ModelInferResponse {
            model_name: "tensorrt_llm".to_owned(),
            model_version: "1".to_owned(),
            id: "4711".to_owned(),
            parameters: [("triton_final_response".to_owned(), flag)].into(),
            outputs: vec![tensor("output_ids"), tensor("sequence_length")],
            raw_output_contents: vec![Bytes::from_static(&[9, 0, 0, 0]), Bytes::from_static(&[1, 0, 0, 0])],
        }),
        ..ModelStreamInferResponse::default()
    })
}

async fn serve(listener: tokio::net::TcpListener, tokens: usize) {
    let (middle, last) = (token(false), token(true));
    let config = ModelConfig {
        model_transaction_policy: Some(ModelTransactionPolicy { decoupled: true }),
        ..ModelConfig::default()
    };
    let config = framed(&ModelConfigResponse { config: Some(config) });
    let server_ready = framed(&ServerReadyResponse { ready: true });
    let model_ready = framed(&ModelReadyResponse { ready: true });
    while let Ok((socket, _)) = listener.accept().await {
        let _ = socket.set_nodelay(true);
        let (middle, last) = (middle.clone(), last.clone());
        let (config, server_ready, model_ready) = (config.clone(), server_ready.clone(), model_ready.clone());
        tokio::spawn(
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(200)
                .serve_connection(
                    TokioIo::new(socket),
                    service_fn(move |request: Request<Incoming>| {
                        let (count, first) = match request.uri().path().rsplit('/').next() {
                            Some("ModelStreamInfer") => (tokens, None),
                            Some("ModelConfig") => (1, Some(config.clone())),
                            Some("ServerReady") => (1, Some(server_ready.clone())),
                            // An empty message: nothing is told of the tensors.
                            Some("ModelMetadata") => (1, Some(Bytes::from_static(&[0; 5]))),
                            _ => (1, Some(model_ready.clone())),
                        };
                        let (middle, last) = (middle.clone(), last.clone());
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
                        let answers = (0..count).map(move |at| match &first {
                            Some(only) => only.clone(),
                            None if at + 1 == count => last.clone(),
                            None => middle.clone(),
                        });
                        let frames = answers.map(Frame::data).chain([Frame::trailers(trailers)]);
                        let body = StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>)));
                        let response = Response::builder().header("content-type", "application/grpc").body(body);
                        async move { response }
                    }),
                ),
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let mut out = std::io::stdout().lock();
    let cases = match numbers[..] {
        [requests, tokens] => vec![(requests, tokens, 2)],
        _ => vec![(20_000, 128, 1), (20_000, 128, 2), (50_000, 1, 1), (50_000, 1, 2)],
    };
    for (requests, tokens, clients) in cases {
        let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = server.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let endpoint = listener.local_addr()?.to_string().parse()?;
        server.spawn(serve(listener, tokens as usize));
        let spec = Spec {
            endpoints: vec![endpoint],
            protocol: regatta::harness::Protocol::Kserve,
            model: "tensorrt_llm".to_owned(),
            scenario: Scenario::Offline,
            arrivals: Arrivals::Constant,
            stop: Until { requests: Some(requests), duration: None },
            input_len: Length::Fixed(32),
            output_len: Length::Fixed(tokens as u32),
            seed: 1,
            warmup: 10,
            pace: regatta::harness::Pace::default(),
            content: regatta::harness::Content::default(),
            frontends: 1,
            clients,
            stall_timeout: Duration::from_mins(1),
            limits: Limits::default(),
            slo: Slo::default(),
            timelines: false,
            vocab_size: 32_000,
            end_id: 2,
            request: regatta::harness::Request::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let measured = runtime.block_on(run(&spec, &Stop::new(), |_| {}))?;
        assert!(measured.requests.iter().all(|request| request.ended == Ended::Ok), "{:?}", measured.result.counts);
        let result = measured.result;
        writeln!(
            out,
            "{requests} requests of {tokens} tokens, {} workers: {:.2} ms CPU per 1,000 responses, {:.0} responses/s, {:.0} requests/s, busiest worker {:.0} % of a core",
            result.client.workers,
            result.client.cpu_ms_per_1000_chunks.unwrap_or(f64::NAN),
            result.rates.output_tokens.unwrap_or(f64::NAN),
            result.rates.requests_full.unwrap_or(f64::NAN),
            result.client.cpu_share_max * 100.0,
        )?;
        server.shutdown_background();
    }
    Ok(())
}
