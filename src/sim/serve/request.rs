//! From a request to jobs: the checks of the backend, after those of the server.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokenizer::Tokenizer;
use tonic::Status;

use super::answer::{SelectedOutputs, ServedAnswer, ServedPrompt, StopWords, TokenGenerator, decode};
use super::inputs::{Inputs, ReadFields, check};
use super::load::{LoadFailure, LoadedEngine, LoadedModel, ModelKind};
use super::vllm;
use base::diag::ErrorText;
use base::files::read_bytes;
use base::spec::WireForm;
use triton::proto::inference::ModelInferRequest;
use triton::proto::inference::infer_parameter::ParameterChoice;

/// The work that a message requests from the engine model.
#[derive(Debug)]
pub(super) enum Accepted {
    /// One part for each row, and for each sequence of a row.
    Serve { engine: String, parts: Vec<RequestPart> },
    /// `stop`: end the requests of this id.
    Stop { engine: String, answer: Box<ServedAnswer> },
}

#[derive(Debug)]
pub(super) struct RequestPart {
    pub isl: u64,
    pub osl: u64,
    /// Requested; more than `osl` where a stop word ends the answer.
    pub max_tokens: u64,
    pub adapter: Option<u64>,
    pub answer: ServedAnswer,
}

/// Checks a request against its model and the model's engine.
pub(super) fn accept(
    model: &LoadedModel,
    engine: Option<(&str, &LoadedEngine)>,
    request: &ModelInferRequest,
    prompts: &PromptTokens,
    is_final_apart: bool,
) -> Result<Accepted, Status> {
    let inputs = check(model, request)?;
    let Some((engine_name, engine)) = engine else {
        let message =
            format!("model '{}' is a part of the text path that the simulator does not serve on its own", model.name);
        return Err(Status::unavailable(message));
    };
    let wants_empty_final = matches!(
        request.parameters.get("triton_enable_empty_final_response").and_then(|p| p.parameter_choice.as_ref()),
        Some(ParameterChoice::BoolParam(true))
    );
    let plain = ServedAnswer {
        is_final_apart,
        wants_empty_final,
        outputs: request.outputs.iter().map(|output| output.name.clone()).collect(),
        ..ServedAnswer::new(model, engine, request.id.clone(), ServedPrompt::Tokens(Vec::new()))
    };
    if inputs.switch("stop", 0) == Some(true) {
        return Ok(Accepted::Stop { engine: engine_name.to_owned(), answer: Box::new(plain) });
    }
    if !model.is_decoupled && inputs.rows > 1 {
        return refuse("Batch size > 1 requires the tensorrt_llm backend to be using decoupled transaction policy");
    }
    let mut parts = Vec::new();
    for row in 0..inputs.rows {
        let row_request = RowRequest::read(model, engine, &inputs, prompts, row)?;
        if row_request.is_streaming && !model.is_decoupled {
            return refuse("Streaming is only supported if model is deployed using decoupled mode.");
        }
        if !model.is_decoupled && row_request.sequences > 1 {
            let message =
                "num_return_sequences > 1 requires the tensorrt_llm backend to be using decoupled transaction policy";
            return refuse(message);
        }
        parts.extend((0..row_request.sequences).map(|sequence| row_request.part(&plain, engine, row, sequence)));
    }
    let left = Arc::new(AtomicUsize::new(parts.len()));
    for part in &mut parts {
        part.answer.left = Arc::clone(&left);
    }
    Ok(Accepted::Serve { engine: engine_name.to_owned(), parts })
}

/// The backend refuses the request.
fn refuse<T>(message: impl Display) -> Result<T, Status> {
    Err(Status::internal(message.to_string()))
}

pub(super) fn version(model: &LoadedModel) -> String {
    model.versions.first().map(u64::to_string).unwrap_or_default()
}

/// One row of a message.
struct RowRequest {
    isl: u64,
    osl: u64,
    adapter: Option<u64>,
    is_streaming: bool,
    prompt: ServedPrompt,
    beams: u32,
    sequences: u32,
    end_id: Option<i32>,
    seed: Option<u64>,
    stop: StopWords,
    bad: StopWords,
    returns: SelectedOutputs,
}

impl RowRequest {
    fn read(
        model: &LoadedModel,
        engine: &LoadedEngine,
        inputs: &Inputs<'_>,
        prompts: &PromptTokens,
        row: usize,
    ) -> Result<Self, Status> {
        let (isl, osl, is_streaming, prompt) = match model.kind {
            ModelKind::Engine(_) => tokens(inputs, engine, row)?,
            ModelKind::Vllm(_) => vllm::text(inputs, prompts, row)?,
            ModelKind::Text { .. } | ModelKind::Python => text(inputs, prompts, row)?,
        };
        check_lengths(isl, osl, engine)?;
        let form = if matches!(model.kind, ModelKind::Engine(_)) { WireForm::TokenIds } else { WireForm::Text };
        let fields = inputs.fields(form, row).map_err(|error| Status::internal(error.to_string()))?;
        let beams = fields.int("beam_width").unwrap_or(1);
        if beams > engine.max_beam_width {
            let limit = engine.max_beam_width;
            return refuse(format_args!("Requested beam width {beams} exceeds the engine's max_beam_width {limit}"));
        }
        let sequences = fields.int("num_return_sequences").unwrap_or(1);
        check_sampling(&fields, beams, sequences)?;
        let adapter = fields.id("lora_task_id");
        if let Some(task) = adapter.filter(|_| !engine.has_lora) {
            return refuse(format_args!("LoRA task {task} not found in cache. Please send LoRA weights with request"));
        }
        let returns = SelectedOutputs::new(&fields, engine, isl);
        if returns.context_logits && !engine.has_context_logits {
            return refuse("Return context logit need to build engine with gather_context_logits");
        }
        // The answer is drawn and not the likeliest: then a seed decides it.
        let is_drawn = fields.int("top_k").is_some_and(|k| k != 1) || fields.number("top_p").is_some_and(|p| p > 0.0);
        Ok(Self {
            isl,
            osl,
            adapter,
            is_streaming,
            prompt,
            beams: beams.max(1) as u32,
            // Beams are the sequences of beam search.
            sequences: if beams > 1 { 1 } else { sequences.max(1) as u32 },
            end_id: fields.int("end_id").map(|id| id as i32),
            seed: fields.id("random_seed").filter(|_| is_drawn),
            stop: fields.words("stop_words"),
            bad: fields.words("bad_words"),
            returns,
        })
    }

    fn part(&self, plain: &ServedAnswer, engine: &LoadedEngine, row: usize, sequence: u32) -> RequestPart {
        let voice =
            |beam| TokenGenerator::new(&plain.id, self.seed, row, sequence + beam, engine.vocab_size, self.end_id);
        let beams: Vec<TokenGenerator> = (0..self.beams).map(voice).collect();
        let decoded: Option<Vec<Vec<i32>>> =
            beams.iter().map(|voice| decode(voice, self.osl, &self.stop, &self.bad)).collect();
        // All beams run until the longest is done.
        let osl = decoded.iter().flatten().map(|tokens| tokens.len() as u64).max().unwrap_or(self.osl).max(1);
        let answer = ServedAnswer {
            row: row as i32,
            sequence: sequence as i32,
            beams,
            decoded,
            prompt: self.prompt.clone(),
            is_streaming: self.is_streaming,
            returns: self.returns.clone(),
            ..plain.clone()
        };
        RequestPart { isl: self.isl, osl, max_tokens: self.osl, adapter: self.adapter, answer }
    }
}

/// The checks of TensorRT-LLM's sampling configuration.
fn check_sampling(fields: &ReadFields, beams: i64, sequences: i64) -> Result<(), Status> {
    let number = |key: &str, holds: fn(f64) -> bool| fields.number(key).is_none_or(holds);
    let int = |key: &str, holds: fn(i64) -> bool| fields.int(key).is_none_or(holds);
    let checks = [
        (beams > 0, "beamWidth > 0"),
        (int("top_k", |k| k >= 0), "topK.value() >= 0"),
        (number("top_p", |p| p <= 1.0), "topP.value() <= 1.f"),
        (number("temperature", |t| t >= 0.0), "temperature.value() >= 0.f"),
        (number("repetition_penalty", |p| p > 0.0), "penalty.value() > 0.f"),
        (int("min_length", |n| n >= 0), "minTokens.value() >= 0"),
        (sequences > 0, "numReturnSequences.value() > 0"),
        (beams <= 1 || sequences <= beams, "numReturnSequences.value() <= beamWidth"),
    ];
    match checks.into_iter().find(|(holds, _)| !holds) {
        Some((_, expression)) => refuse(format_args!("[TensorRT-LLM][ERROR] Assertion failed: {expression}")),
        None => Ok(()),
    }
}

/// The tokens of a prompt, the most that its answer may have, whether that is streamed, and the prompt itself.
pub(super) type ReadPrompt = (u64, u64, bool, ServedPrompt);

fn tokens(inputs: &Inputs<'_>, engine: &LoadedEngine, row: usize) -> Result<ReadPrompt, Status> {
    let ids = inputs.ints("input_ids", row).unwrap_or_default();
    if ids.is_empty() {
        return refuse("Input tokens are not provided: input 'input_ids' is missing or empty");
    }
    let isl = match inputs.int("input_lengths", row) {
        Some(length) if length > 0 && length as usize <= ids.len() => length as usize,
        Some(length) => {
            let given = ids.len();
            return refuse(format_args!("input_lengths {length} does not fit input_ids of {given} tokens"));
        }
        None => ids.len(),
    };
    // Everything past the length is padding.
    let ids = &ids[..isl];
    if let Some(bad) = ids.iter().find(|id| **id < 0 || **id as u32 >= engine.vocab_size) {
        return refuse(format_args!("Token ID {bad} in input_ids is out of range [0, {})", engine.vocab_size));
    }
    let osl = output_length(inputs.int("request_output_len", row))?;
    let excludes = inputs.switch("exclude_input_in_output", row).unwrap_or(engine.exclude_input);
    let prompt = ServedPrompt::Tokens(if excludes { Vec::new() } else { ids.to_vec() });
    Ok((isl as u64, osl, inputs.switch("streaming", row).unwrap_or(false), prompt))
}

fn text(inputs: &Inputs<'_>, prompts: &PromptTokens, row: usize) -> Result<ReadPrompt, Status> {
    let text = inputs.text("text_input", row).unwrap_or_default();
    let osl = output_length(inputs.int("max_tokens", row))?;
    let isl = prompts.count(&text);
    let excludes = inputs.switch("exclude_input_in_output", row).unwrap_or(false);
    let prompt = ServedPrompt::Text(if excludes { Vec::new() } else { text });
    Ok((isl, osl, inputs.switch("stream", row).unwrap_or(false), prompt))
}

fn output_length(length: Option<i32>) -> Result<u64, Status> {
    match length {
        Some(length) if length > 0 => Ok(length as u64),
        other => {
            let length = other.unwrap_or(0);
            refuse(format_args!("the maximum number of new tokens must be greater than 0, got {length}"))
        }
    }
}

pub(super) fn check_lengths(isl: u64, osl: u64, engine: &LoadedEngine) -> Result<(), Status> {
    if isl > engine.max_input_len {
        let limit = engine.max_input_len;
        return refuse(format_args!("Prompt length ({isl}) exceeds maximum input length ({limit})."));
    }
    if isl + osl > engine.max_seq_len {
        let limit = engine.max_seq_len;
        return refuse(format_args!(
            "Prompt length ({isl}) and maximum new tokens ({osl}) exceed the maximum sequence length ({limit})."
        ));
    }
    Ok(())
}

// How many tokens a prompt of text has: as the repository's tokenizer counts them, else a stated estimate.

/// A substitute for a tokenizer: bytes of UTF-8 for each token, about the ratio of tokenizers for English.
const BYTES_PER_TOKEN: usize = 4;

/// Counts prompt tokens for all text models of a repository.
#[derive(Debug)]
pub(super) enum PromptTokens {
    /// From the folder that a model's parameter `tokenizer_dir` names.
    Counted {
        tokenizer: Box<Tokenizer>,
        add_special_tokens: bool,
    },
    Estimated,
}

impl PromptTokens {
    /// The first `tokenizer_dir` with a `tokenizer.json`. Other kinds of tokenizers are not read.
    pub fn load(models: &BTreeMap<String, LoadedModel>) -> Result<Self, Vec<LoadFailure>> {
        for model in models.values() {
            let text = |key: &str| model.config.parameters.get(key).map(|value| value.string_value.as_str());
            let Some(folder) = text("tokenizer_dir").filter(|folder| !folder.is_empty()) else { continue };
            let file = Path::new(folder).join("tokenizer.json");
            if !file.is_file() {
                continue;
            }
            let failed = |error: &dyn Display| {
                let error = ErrorText::new(format_args!("cannot load {}: {error}", file.display()));
                vec![(model.name.clone(), error)]
            };
            let bytes = read_bytes(&file).map_err(|error| failed(&error))?;
            let tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| failed(&error))?;
            let add_special_tokens = matches!(text("add_special_tokens"), Some("true" | "True" | "1"));
            return Ok(Self::Counted { tokenizer: Box::new(tokenizer), add_special_tokens });
        }
        Ok(Self::Estimated)
    }

    /// At least 1.
    pub fn count(&self, text: &[u8]) -> u64 {
        let estimated = || text.len().div_ceil(BYTES_PER_TOKEN);
        let count = match self {
            Self::Counted { tokenizer, add_special_tokens } => tokenizer
                .encode(String::from_utf8_lossy(text).as_ref(), *add_special_tokens)
                .map_or_else(|_| estimated(), |ids| ids.len()),
            Self::Estimated => estimated(),
        };
        count.max(1) as u64
    }

    /// The source of [`Self::count`], for answers that carry a count.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Counted { .. } => "tokenizer",
            Self::Estimated => "estimate: 4 bytes for each token; the repository has no tokenizer.json",
        }
    }
}
