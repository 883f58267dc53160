//! `regatta triton infer`: one request, its answer as it arrives, and how long that took.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde_json::{Value, json};

use crate::cli::{CliExit, Infer, TritonProtocol};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::triton::{ServerConnection, facts};
use base::diag::{ErrorText, did_you_mean, list_of};
use base::units::counted;
use report::{ModelDetails, TensorFacts};
use triton::{InferRequest, Tensor, TensorData, TritonClient, tensors_of};

pub(super) async fn infer(to: &ServerConnection, request: &Infer) -> Result<CliExit, CommandError> {
    let names = std::slice::from_ref(&request.model);
    let model = facts::models(to, names).await?.pop().ok_or_else(|| anyhow!("the server sent no message"))?;
    let decoupled = model.settings.iter().any(|(name, value)| name == "decoupled" && value == "true");
    if request.stream && !decoupled {
        let error = ErrorText::new(format!("`{}` is not decoupled: it cannot stream", model.name));
        let hint = "leave `--stream` out, or set `decoupled: true` in its config.pbtxt";
        return Err(CommandError::Other(error.hint(hint).into()));
    }
    let inputs = inputs(&model, request)?;
    let tensors = inputs.iter().map(|(input, value)| tensor(input, value)).collect::<Result<_, _>>()?;
    let mut infer_output = InferOutput::new(request.json);
    let answer = async {
        match to.url.protocol {
            TritonProtocol::Grpc => {
                let client = to.grpc().await?;
                by_grpc(to, &client, &model, tensors, decoupled, &mut infer_output).await
            }
            TritonProtocol::Http => by_http(to, &model, &inputs, decoupled, &mut infer_output).await,
        }
    };
    match request.stop_after {
        // Its stream is dropped, which cancels the request.
        Some(time) => tokio::time::timeout(time, answer).await.unwrap_or(Ok(()))?,
        None => answer.await?,
    }
    infer_output.end();
    Ok(CliExit::Done)
}

/// What will be sent: named tensors, in the shape that was written.
fn inputs(model: &ModelDetails, request: &Infer) -> Result<Vec<(TensorFacts, Value)>, CommandError> {
    let mut given: Vec<(String, Value)> = request.inputs.clone();
    let has = |name: &str| model.inputs.iter().any(|input| input.name == name);
    let first_of = |names: &[&'static str]| names.iter().copied().find(|name| has(name));
    let lacks = |option: &str, names: &[&str]| {
        let wanted = list_of(names.iter().copied());
        let inputs = list_of(model.inputs.iter().map(|input| input.name.as_str()));
        CommandError::hinted(
            format!("`{}` takes no {option}: it has none of {wanted}", model.name),
            format!("it takes {inputs}; give them with `--input NAME=JSON`"),
        )
    };
    let texts = ["text_input", "QUERY"];
    if let Some(text) = &request.text {
        let name = first_of(&texts).ok_or_else(|| lacks("--text", &texts))?;
        given.push((name.to_owned(), json!(text)));
    }
    if !request.input_ids.is_empty() {
        let name = first_of(&["input_ids"]).ok_or_else(|| lacks("--input-ids", &["input_ids"]))?;
        given.push((name.to_owned(), json!(request.input_ids)));
        if has("input_lengths") {
            given.push(("input_lengths".to_owned(), json!(request.input_ids.len())));
        }
    }
    if let Some(tokens) = request.max_tokens {
        let counts = ["max_tokens", "request_output_len", "REQUEST_OUTPUT_LEN"];
        let name = first_of(&counts).ok_or_else(|| lacks("--max-tokens", &counts))?;
        given.push((name.to_owned(), json!(tokens)));
    }
    if request.stream
        && let Some(name) = first_of(&["streaming", "stream"])
    {
        given.push((name.to_owned(), json!(true)));
    }
    let mut wrong = Vec::new();
    let mut inputs: Vec<(TensorFacts, Value)> = Vec::new();
    for (name, value) in given {
        match model.inputs.iter().find(|input| input.name == name) {
            Some(_) if inputs.iter().any(|(input, _)| input.name == name) => {
                wrong.push(format!("input `{name}` is given twice"));
            }
            Some(input) => inputs.push((input.clone(), value)),
            None => {
                let hint = did_you_mean(&name, model.inputs.iter().map(|input| input.name.as_str()));
                wrong.push(format!("there is no input `{name}`; {}", hint.unwrap_or_default()));
            }
        }
    }
    // Triton detects a missing input only by their number.
    for input in model.inputs.iter().filter(|input| !input.optional) {
        if !inputs.iter().any(|(given, _)| given.name == input.name) {
            wrong.push(format!("input `{}` ({} {:?}) is missing", input.name, input.datatype, input.shape));
        }
    }
    if wrong.is_empty() {
        return Ok(inputs);
    }
    Err(CommandError::Usage(format!("the request to `{}` cannot be sent:\n  {}", model.name, wrong.join("\n  "))))
}

fn tensor(input: &TensorFacts, value: &Value) -> Result<Tensor, CommandError> {
    let datatype = facts::datatype(input).ok_or_else(|| {
        CommandError::Other(anyhow!("input `{}` has the unknown type {}", input.name, input.datatype))
    })?;
    let hinted = |error: String| {
        let batch = "missing dimensions in front, the batch among them, are 1";
        CommandError::hinted(error, format!("`{}` is {} {:?}; {batch}", input.name, input.datatype, input.shape))
    };
    let tensor = Tensor::from_json(&input.name, datatype, value).map_err(|error| hinted(error.to_string()));
    let mut tensor = tensor?;
    let (given, taken) = (tensor.shape.len(), input.shape.len());
    if given > taken {
        return Err(hinted(format!("`{}` is given with {given} dimensions, but the model takes {taken}", input.name)));
    }
    for _ in given..taken {
        tensor.shape.insert(0, 1);
    }
    Ok(tensor)
}

async fn by_grpc(
    to: &ServerConnection,
    client: &TritonClient,
    model: &ModelDetails,
    tensors: Vec<Tensor>,
    decoupled: bool,
    output: &mut InferOutput,
) -> Result<(), CommandError> {
    let request = tensors.into_iter().fold(InferRequest::new(&model.name, "1"), InferRequest::input);
    output.begin();
    if !decoupled {
        let answer = to.explained(client.infer(request.build()).await).await?;
        output.tensors(Instant::now(), &tensors_of(&answer).map_err(|error| anyhow!("the answer: {error}"))?);
        return Ok(());
    }
    let mut stream = client.stream();
    stream.send(request.with_final_response().build());
    stream.close();
    while let Some(answer) = stream.next().await {
        let answer = to.explained(answer).await?;
        if let Some(error) = &answer.error {
            output.broken_off();
            return Err(CommandError::Other(anyhow!("the server answered with an error: {error}")));
        }
        output.tensors(answer.at, &tensors_of(&answer.response).map_err(|error| anyhow!("an answer: {error}"))?);
    }
    Ok(())
}

/// By `generate`: its body names tensors as they are.
async fn by_http(
    to: &ServerConnection,
    model: &ModelDetails,
    inputs: &[(TensorFacts, Value)],
    decoupled: bool,
    output: &mut InferOutput,
) -> Result<(), CommandError> {
    let body: Value = inputs.iter().map(|(input, value)| (input.name.clone(), value.clone())).collect();
    let mut client = to.http();
    output.begin();
    if !decoupled {
        let answer = to.explained(client.generate(&model.name, &body).await).await?;
        output.outputs(Instant::now(), &named(model, &answer));
        return Ok(());
    }
    let mut events = to.explained(client.generate_stream(&model.name, &body).await).await?;
    while let Some(event) = events.next().await {
        if event.is_err() {
            output.broken_off();
        }
        let (answer, at) = to.explained(event).await?;
        output.outputs(at, &named(model, &answer));
    }
    Ok(())
}

/// The outputs among what else `generate` returns.
fn named(model: &ModelDetails, answer: &Value) -> Vec<(String, Value)> {
    let outputs = model.outputs.iter();
    outputs.filter_map(|output| Some((output.name.clone(), answer.get(&output.name)?.clone()))).collect()
}

/// The answers so far, and when they came.
struct InferOutput {
    json: bool,
    sent: Instant,
    /// When responses with something in them came.
    at: Vec<Instant>,
    answers: Vec<Value>,
    tokens: usize,
    text: bool,
}

impl InferOutput {
    fn new(json: bool) -> Self {
        Self { json, sent: Instant::now(), at: Vec::new(), answers: Vec::new(), tokens: 0, text: false }
    }

    fn begin(&mut self) {
        self.sent = Instant::now();
    }

    fn tensors(&mut self, at: Instant, tensors: &[Tensor]) {
        self.tokens +=
            tensors.iter().filter(|tensor| tensor.name == "output_ids").map(|tensor| tensor.data.len()).sum::<usize>();
        let outputs: Vec<(String, Value)> = tensors
            .iter()
            .map(|tensor| {
                let value = match &tensor.data {
                    TensorData::Bytes(texts) if texts.len() == 1 => json!(String::from_utf8_lossy(&texts[0])),
                    _ => tensor.to_json(),
                };
                (tensor.name.clone(), value)
            })
            .collect();
        self.outputs(at, &outputs);
    }

    fn outputs(&mut self, at: Instant, outputs: &[(String, Value)]) {
        // The end marker has no content.
        if outputs.is_empty() {
            return;
        }
        self.at.push(at);
        let value = |name: &str| outputs.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        if self.json {
            let ms = at.duration_since(self.sent).as_secs_f64() * 1e3;
            let outputs: Value = outputs.iter().cloned().collect();
            self.answers.push(json!({ "at_ms": ms, "outputs": outputs }));
            return;
        }
        if let Some(text) = value("text_output").or_else(|| value("OUTPUT")).and_then(Value::as_str) {
            self.text = true;
            print(text);
        } else if let Some(ids) = value("output_ids") {
            self.text = true;
            let ids = ids.as_array().cloned().unwrap_or_else(|| vec![ids.clone()]);
            let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
            print(&format!("{}{}", if self.at.len() > 1 { " " } else { "" }, words.join(" ")));
        } else {
            let lines: Vec<String> = outputs.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
            print(&lines.concat());
        }
    }

    /// An error follows; finishes the output that came before it.
    fn broken_off(&self) {
        if !self.at.is_empty() {
            self.end();
        }
    }

    /// Times go to stderr: what a script reads is the answer.
    fn end(&self) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let first = self.at.first().map(|at| ms(at.duration_since(self.sent)));
        let last = self.at.last().map(|at| ms(at.duration_since(self.sent)));
        let gaps: Vec<f64> = self.at.windows(2).map(|pair| ms(pair[1].duration_since(pair[0]))).collect();
        if self.json {
            let answer = json!({
                "answers": self.answers,
                "ttft_ms": first,
                "e2e_ms": last,
                "gaps_ms": gaps,
                "zero_point": "the request was handed to the connection",
            });
            print(&format!("{answer:#}\n"));
            return;
        }
        if self.text {
            print("\n");
        }
        let (Some(first), Some(last)) = (first, last) else {
            print_error("the answer is empty\n");
            return;
        };
        let tokens = if self.tokens > 0 { format!(", {} tokens (of output_ids)", self.tokens) } else { String::new() };
        let mut text = format!(
            "first response after {first:.1} ms, last after {last:.1} ms, both from sending; {}{tokens}\n",
            counted(self.at.len(), "response")
        );
        if !gaps.is_empty() {
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let most = gaps.iter().copied().fold(0.0, f64::max);
            let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
            text = format!(
                "{text}gaps between responses, n={}: mean {mean:.1} ms, min {least:.1} ms, max {most:.1} ms\n",
                gaps.len()
            );
        }
        print_error(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_in_front_may_be_missing_and_none_too_many() {
        let (name, datatype) = ("input_ids".to_owned(), "INT32".to_owned());
        let input = TensorFacts { name, datatype, shape: vec![-1, -1], optional: false };
        for value in [json!([1, 2]), json!([[1, 2]])] {
            assert_eq!(tensor(&input, &value).ok().map(|tensor| tensor.shape), Some(vec![1, 2]));
        }
        let Err(CommandError::Usage(wrong)) = tensor(&input, &json!([[[1, 2]]])) else { panic!("accepted") };
        assert!(wrong.contains("with 3 dimensions, but the model takes 2"), "{wrong}");
    }
}
