//! From a request to a job: what the backend checks once the server has let a request through.

use tonic::Code;

use super::answer::{Answer, Prompt};
use super::load::{Engine, Kind, Model};
use super::tensor::{Inputs, Refusal};
use crate::triton::proto::inference::ModelInferRequest;
use crate::triton::proto::inference::infer_parameter::ParameterChoice;

/// A request that will be served.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The engine model that does the work.
    pub engine: String,
    pub isl: u64,
    pub osl: u64,
    pub answer: Answer,
}

/// Checks a request against its model and the model's engine.
pub(super) fn accept(
    model: &Model,
    engine: Option<(&str, &Engine)>,
    request: &ModelInferRequest,
    is_final_apart: bool,
) -> Result<Accepted, Refusal> {
    let inputs = Inputs::check(model, request)?;
    let Some((engine_name, engine)) = engine else {
        let message =
            format!("model '{}' is a part of the text path that the simulator does not serve on its own", model.name);
        return Err(Refusal { code: Code::Unavailable, message, by_backend: false });
    };
    let (isl, osl, is_streaming, prompt) = match model.kind {
        Kind::Engine(_) => tokens(&inputs, engine)?,
        Kind::Text { .. } | Kind::Python => text(&inputs)?,
    };
    if is_streaming && !model.is_decoupled {
        return Err(Refusal::backend(
            "Streaming is only supported if model is deployed using decoupled mode.".to_owned(),
        ));
    }
    check_lengths(isl, osl, engine)?;
    let wants_empty_final = matches!(
        request.parameters.get("triton_enable_empty_final_response").and_then(|p| p.parameter_choice.as_ref()),
        Some(ParameterChoice::BoolParam(true))
    );
    let answer = Answer {
        model_name: model.name.clone(),
        model_version: version(model),
        id: request.id.clone(),
        vocab_size: engine.vocab_size,
        end_id: inputs.int("end_id"),
        prompt,
        is_streaming,
        is_final_apart,
        wants_empty_final,
        outputs: request.outputs.iter().map(|output| output.name.clone()).collect(),
    };
    Ok(Accepted { engine: engine_name.to_owned(), isl, osl, answer })
}

pub(super) fn version(model: &Model) -> String {
    model.versions.first().map(u64::to_string).unwrap_or_default()
}

fn tokens(inputs: &Inputs<'_>, engine: &Engine) -> Result<(u64, u64, bool, Prompt), Refusal> {
    let ids = inputs.ints("input_ids").unwrap_or_default();
    if ids.is_empty() {
        return Err(Refusal::backend(
            "Input tokens are not provided: input 'input_ids' is missing or empty".to_owned(),
        ));
    }
    let isl = match inputs.int("input_lengths") {
        Some(length) if length > 0 && length as usize <= ids.len() => length as usize,
        Some(length) => {
            return Err(Refusal::backend(format!(
                "input_lengths {length} does not fit input_ids of {} tokens",
                ids.len()
            )));
        }
        None => ids.len(),
    };
    if let Some(bad) = ids.iter().find(|id| **id < 0 || **id as u32 >= engine.vocab_size) {
        return Err(Refusal::backend(format!(
            "Token ID {bad} in input_ids is out of range [0, {})",
            engine.vocab_size
        )));
    }
    if let Some(width) = inputs.int("beam_width").filter(|width| i64::from(*width) > engine.max_beam_width) {
        let limit = engine.max_beam_width;
        return Err(Refusal::backend(format!(
            "Requested beam width {width} exceeds the engine's max_beam_width {limit}"
        )));
    }
    let osl = output_length(inputs.int("request_output_len"))?;
    let excludes = inputs.switch("exclude_input_in_output").unwrap_or(engine.exclude_input);
    let prompt = Prompt::Tokens(if excludes { Vec::new() } else { ids[..isl].to_vec() });
    Ok((isl as u64, osl, inputs.switch("streaming").unwrap_or(false), prompt))
}

/// Four bytes are a token.
fn text(inputs: &Inputs<'_>) -> Result<(u64, u64, bool, Prompt), Refusal> {
    let text = inputs.text("text_input").unwrap_or_default();
    let osl = output_length(inputs.int("max_tokens"))?;
    let isl = text.len().div_ceil(4).max(1) as u64;
    let excludes = inputs.switch("exclude_input_in_output").unwrap_or(false);
    let prompt = Prompt::Text(if excludes { Vec::new() } else { text });
    Ok((isl, osl, inputs.switch("stream").unwrap_or(false), prompt))
}

fn output_length(length: Option<i32>) -> Result<u64, Refusal> {
    match length {
        Some(length) if length > 0 => Ok(length as u64),
        other => Err(Refusal::backend(format!(
            "the maximum number of new tokens must be greater than 0, got {}",
            other.unwrap_or(0)
        ))),
    }
}

pub(super) fn check_lengths(isl: u64, osl: u64, engine: &Engine) -> Result<(), Refusal> {
    if isl > engine.max_input_len {
        let limit = engine.max_input_len;
        return Err(Refusal::backend(format!("Prompt length ({isl}) exceeds maximum input length ({limit}).")));
    }
    if isl + osl > engine.max_seq_len {
        let limit = engine.max_seq_len;
        return Err(Refusal::backend(format!(
            "Prompt length ({isl}) and maximum new tokens ({osl}) exceed the maximum sequence length ({limit})."
        )));
    }
    Ok(())
}
