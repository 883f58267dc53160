//! Ready-made messages, framed as gRPC frames them.

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use prost::Message;

use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_response::InferOutputTensor;
use triton::proto::inference::{
    InferParameter, ModelConfig, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelReadyResponse,
    ModelStreamInferResponse, ModelTransactionPolicy, ServerLiveResponse, ServerReadyResponse,
};

/// Five bytes precede every message: not compressed, and its length.
const PREFIX: usize = 5;

pub(super) struct TruthAnswers {
    ready: Bytes,
    live: Bytes,
    model_ready: Bytes,
    config: Bytes,
    silent_message: Bytes,
}

impl TruthAnswers {
    pub fn new() -> Self {
        let config = ModelConfig {
            name: "tensorrt_llm".to_owned(),
            model_transaction_policy: Some(ModelTransactionPolicy { decoupled: true }),
            ..ModelConfig::default()
        };
        Self {
            ready: framed(&ServerReadyResponse { ready: true }),
            live: framed(&ServerLiveResponse { live: true }),
            model_ready: framed(&ModelReadyResponse { ready: true }),
            config: framed(&ModelConfigResponse { config: Some(config) }),
            silent_message: Bytes::from_static(&[0; PREFIX]),
        }
    }

    /// The answer to a unary call.
    pub fn to(&self, method: &str) -> Bytes {
        match method {
            "ServerReady" => &self.ready,
            "ServerLive" => &self.live,
            "ModelReady" => &self.model_ready,
            // An empty message: it describes no tensors.
            "ModelMetadata" => &self.silent_message,
            _ => &self.config,
        }
        .clone()
    }

    /// The id and the number of tokens that the first message of a stream requests.
    pub async fn read_request(body: &mut Incoming) -> Option<(u64, u32)> {
        let mut bytes = BytesMut::new();
        loop {
            if let Some(prefix) = bytes.first_chunk::<PREFIX>() {
                let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if let Some(message) = bytes.get(PREFIX..PREFIX + length) {
                    let request = ModelInferRequest::decode(message).ok()?;
                    let at = request.inputs.iter().position(|input| input.name == "request_output_len")?;
                    let tokens = request.raw_input_contents.get(at)?.first_chunk::<4>()?;
                    return Some((request.id.parse().ok()?, u32::from_le_bytes(*tokens)));
                }
            }
            bytes.extend_from_slice(&body.frame().await?.ok()?.into_data().ok()?);
        }
    }
}

/// One token of the request with this id.
pub(super) fn token(id: u64, is_final: bool) -> Bytes {
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
            id: id.to_string(),
            parameters: [("triton_final_response".to_owned(), flag)].into(),
            outputs: vec![tensor("output_ids"), tensor("sequence_length")],
            raw_output_contents: vec![Bytes::from_static(&[9, 0, 0, 0]), Bytes::from_static(&[1, 0, 0, 0])],
        }),
        ..ModelStreamInferResponse::default()
    })
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes.freeze()
}
