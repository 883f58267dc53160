//! The file of perf_analyzer's `--input-data`, `{"data": [{"text_input": ["…"], "max_tokens": [20]}]}`: inputs of a model, or the bodies
//! of OpenAI's interfaces under `payload`; and AIPerf's `inputs.json`, which has the bodies of a session under `payloads`. Each entry
//! becomes a record as a line of JSON has it.

use serde_json::{Map, Value, json};

use super::record_keys::{RecordKey, record_key};

/// `data` is no list of objects.
#[derive(Debug, thiserror::Error)]
#[error("`data` must be a list of objects")]
pub(super) struct NotInputData;

/// Whether a file that begins so is one.
pub(super) fn is_begun(begin: &[u8]) -> bool {
    let rest = begin.trim_ascii_start().strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    let rest = rest.strip_prefix(b"\"data\"").unwrap_or_default().trim_ascii_start();
    rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b'['))
}

/// Its entries as records; of sequences all steps, one behind the other.
pub(super) fn records(mut file: Map<String, Value>) -> Result<Vec<Map<String, Value>>, NotInputData> {
    let Some(Value::Array(entries)) = file.remove("data") else { return Err(NotInputData) };
    let steps = entries.into_iter().flat_map(|entry| match entry {
        Value::Array(steps) => steps,
        Value::Object(mut session) => match session.shift_remove("payloads") {
            Some(Value::Array(bodies)) => {
                let with_body = |body| {
                    let mut turn = session.clone();
                    turn.insert("payload".to_owned(), body);
                    Value::Object(turn)
                };
                bodies.into_iter().map(with_body).collect()
            }
            Some(other) => vec![json!({ "payloads": other })],
            None => vec![Value::Object(session)],
        },
        entry => vec![entry],
    });
    steps.map(|step| if let Value::Object(step) = step { Ok(record(step)) } else { Err(NotInputData) }).collect()
}

/// Inputs have a list of values, or an object with their shape beside it.
fn record(entry: Map<String, Value>) -> Map<String, Value> {
    let value = |(name, mut value): (String, Value)| {
        if let Some(content) = value.get_mut("content") {
            value = content.take();
        }
        let is_list = record_key(&name) == Some(RecordKey::Ids);
        while let Some([inner]) = value.as_array_mut().map(Vec::as_mut_slice)
            && (inner.is_array() || !is_list)
        {
            value = inner.take();
        }
        (name, value)
    };
    entry.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: Value) -> Result<Value, NotInputData> {
        let Value::Object(file) = file else { unreachable!("an object") };
        Ok(json!(records(file)?))
    }

    #[test]
    fn inputs_of_a_model_and_bodies_are_records() {
        let file = json!({"data": [
            {"text_input": ["a b"], "max_tokens": [20], "stop_words": ["x", "y"]},
            {"input_ids": {"content": [1, 2], "shape": [1, 2]}, "request_output_len": [[5]]},
            {"input_ids": [[3]]},
            {"payload": [{"messages": [{"role": "user", "content": "c"}], "max_tokens": 7}], "timestamp": [10]},
            [{"text_input": ["d"]}],
            {"session_id": "s", "payloads": [{"prompt": "e"}, {"prompt": "f"}]},
        ]});
        let expected = json!([
            {"text_input": "a b", "max_tokens": 20, "stop_words": ["x", "y"]},
            {"input_ids": [1, 2], "request_output_len": 5},
            {"input_ids": [3]},
            {"payload": {"messages": [{"role": "user", "content": "c"}], "max_tokens": 7}, "timestamp": 10},
            {"text_input": "d"},
            {"session_id": "s", "payload": {"prompt": "e"}},
            {"session_id": "s", "payload": {"prompt": "f"}},
        ]);
        assert_eq!(read(file).unwrap(), expected);
        read(json!({"data": [3]})).unwrap_err();
    }

    #[test]
    fn a_line_of_json_is_no_such_file() {
        assert!(is_begun(b" {\n \"data\" : [ {"));
        assert!(!is_begun(b"{\"prompt\": \"data\"}"));
        assert!(!is_begun(b"{\"data\": 3}"));
        assert!(!is_begun(b""));
    }
}
