//! The file of perf_analyzer's `--input-data`, `{"data": [{"text_input": ["…"], "max_tokens": [20]}]}`: inputs of a model, or the bodies
//! of OpenAI's interfaces under `payload`. Each entry becomes a record as a line of JSON has it.

use serde_json::{Map, Value};

/// Why an entry is no record.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputDataError {
    #[error("`data` must be a list of objects")]
    NoEntries,
    #[error("entry {0}: a body of several messages has no place: prompts are one message")]
    SeveralMessages(usize),
    #[error("entry {0}: `content` of the message is no text")]
    NoText(usize),
}

/// Whether a file that begins so is one.
pub(super) fn is_begun(begin: &[u8]) -> bool {
    let rest = begin.trim_ascii_start().strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    let rest = rest.strip_prefix(b"\"data\"").unwrap_or_default().trim_ascii_start();
    rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b'['))
}

/// Its entries as records; of sequences all steps, one behind the other.
pub(super) fn records(mut file: Map<String, Value>) -> Result<Vec<Map<String, Value>>, InputDataError> {
    let Some(Value::Array(entries)) = file.remove("data") else { return Err(InputDataError::NoEntries) };
    let flat = entries.into_iter().flat_map(|entry| match entry {
        Value::Array(steps) => steps,
        entry => vec![entry],
    });
    flat.enumerate()
        .map(|(number, entry)| match entry {
            Value::Object(entry) => record(&entry, number + 1),
            _ => Err(InputDataError::NoEntries),
        })
        .collect()
}

fn record(entry: &Map<String, Value>, number: usize) -> Result<Map<String, Value>, InputDataError> {
    let mut record = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            record.insert(key.to_owned(), value);
        }
    };
    for key in ["timestamp", "delay", "session_id"] {
        put(key, entry.get(key).map(|value| first(value).clone()));
    }
    if let Some(body) = entry.get("payload").map(first).and_then(Value::as_object) {
        put("prompt", body.get("prompt").cloned());
        if let Some(Value::Array(messages)) = body.get("messages") {
            let [message] = messages.as_slice() else { return Err(InputDataError::SeveralMessages(number)) };
            let text = message.get("content").filter(|content| content.is_string());
            put("prompt", Some(text.ok_or(InputDataError::NoText(number))?.clone()));
        }
        put("output_length", body.get("max_tokens").or(body.get("max_completion_tokens")).cloned());
        return Ok(record);
    }
    put("prompt", entry.get("text_input").map(|value| first(value).clone()));
    put("input_ids", entry.get("input_ids").map(|value| content(value).clone()));
    put("output_length", entry.get("max_tokens").or(entry.get("request_output_len")).map(|value| first(value).clone()));
    Ok(record)
}

/// The values of an input: a list, or an object with its shape beside them.
fn content(value: &Value) -> &Value {
    value.get("content").unwrap_or(value)
}

/// The value of an input that has one.
fn first(value: &Value) -> &Value {
    let mut value = content(value);
    while let Some(inner) = value.get(0) {
        value = inner;
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(file: Value) -> Result<Value, InputDataError> {
        let Value::Object(file) = file else { unreachable!("an object") };
        Ok(json!(records(file)?))
    }

    #[test]
    fn inputs_of_a_model_and_bodies_are_records() {
        let file = json!({"data": [
            {"text_input": ["a b"], "max_tokens": [20]},
            {"input_ids": {"content": [1, 2], "shape": [1, 2]}, "request_output_len": [[5]]},
            {"payload": [{"messages": [{"role": "user", "content": "c"}], "max_tokens": 7}], "timestamp": [10]},
            [{"text_input": ["d"]}],
        ]});
        let expected = json!([
            {"prompt": "a b", "output_length": 20},
            {"input_ids": [1, 2], "output_length": 5},
            {"timestamp": 10, "prompt": "c", "output_length": 7},
            {"prompt": "d"},
        ]);
        assert_eq!(read(file).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_sent_as_one_prompt_is_an_error() {
        let two = json!({"data": [{"payload": [{"messages": [{"content": "a"}, {"content": "b"}]}]}]});
        assert!(matches!(read(two), Err(InputDataError::SeveralMessages(1))));
        let parts = json!({"data": [{"payload": [{"messages": [{"content": [{"type": "text"}]}]}]}]});
        assert!(matches!(read(parts), Err(InputDataError::NoText(1))));
        assert!(matches!(read(json!({"data": [3]})), Err(InputDataError::NoEntries)));
    }

    #[test]
    fn a_line_of_json_is_no_such_file() {
        assert!(is_begun(b" {\n \"data\" : [ {"));
        assert!(!is_begun(b"{\"prompt\": \"data\"}"));
        assert!(!is_begun(b"{\"data\": 3}"));
        assert!(!is_begun(b""));
    }
}
