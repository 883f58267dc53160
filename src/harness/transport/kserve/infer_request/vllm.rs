//! Triton's vLLM backend: it takes as one JSON text the settings that TensorRT-LLM's models take as separate tensors.

use serde_json::{Map, Value, json};

use super::tensor_names::{ModelMetadata, SAMPLING};
use base::spec::{RandomSeed, Request, WordList};

/// A text model that has no tensor for the length of an answer.
pub fn is_vllm(metadata: &ModelMetadata) -> bool {
    metadata.describes(SAMPLING) && !metadata.describes("max_tokens")
}

/// The settings of a request that go into the text, by vLLM's names, and the request without them.
pub fn sampling(request: &Request) -> (Map<String, Value>, Request) {
    let mut rest = request.clone();
    let mut all = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    put("temperature", rest.temperature.take().map(Value::from));
    put("top_k", rest.top_k.take().map(Value::from));
    put("top_p", rest.top_p.take().map(Value::from));
    put("repetition_penalty", rest.repetition_penalty.take().map(Value::from));
    put("presence_penalty", rest.presence_penalty.take().map(Value::from));
    put("frequency_penalty", rest.frequency_penalty.take().map(Value::from));
    put("min_tokens", rest.min_length.take().map(Value::from));
    if let Some(RandomSeed::Fixed(seed)) = rest.random_seed {
        rest.random_seed = None;
        put("seed", Some(json!(seed)));
    }
    if let Some(WordList::Texts(words)) = &rest.stop_words {
        put("stop", Some(json!(words)));
        rest.stop_words = None;
    }
    // An end token that does not exist never ends an answer.
    if rest.end_id == Some(-1) {
        rest.end_id = None;
        put("ignore_eos", Some(json!(true)));
    }
    (all, rest)
}

/// The text of one request.
pub fn text(sampling: &Map<String, Value>, max_tokens: u32) -> String {
    let mut all = sampling.clone();
    all.insert("max_tokens".to_owned(), json!(max_tokens));
    Value::Object(all).to_string()
}
