//! Triton's vLLM backend, as far as clients see it: the tensors that it completes a config with, `model.json`, and the
//! settings of a request, which are one text of JSON.
//!
//! The `model` of `model.json` is a simulated engine folder here, where the real backend has a checkpoint.

use std::path::Path;

use serde_json::{Map, Value};
use tonic::Status;

use super::answer::ServedPrompt;
use super::inputs::Inputs;
use super::load::LoadedEngine;
use super::request::{PromptTokens, ReadPrompt};
use crate::core::Chunking;
use crate::engine::{self, EngineServing};
use base::diag::{ErrorText, in_file};
use base::files::read_text;
use base::spec::SimScheduler;
use triton::proto::inference::{DataType, ModelConfig, ModelInput, ModelOutput, ModelTransactionPolicy};

/// Adds the fields that the backend adds to a config with only `backend: "vllm"`.
pub(super) fn complete(config: &mut ModelConfig) {
    let inputs = [
        ("text_input", DataType::TypeString, false),
        ("stream", DataType::TypeBool, true),
        ("sampling_parameters", DataType::TypeString, true),
        ("exclude_input_in_output", DataType::TypeBool, true),
    ];
    for (name, data_type, optional) in inputs {
        if !config.input.iter().any(|input| input.name == name) {
            config.input.push(ModelInput {
                name: name.to_owned(),
                data_type: data_type as i32,
                dims: vec![1],
                optional,
                ..ModelInput::default()
            });
        }
    }
    if !config.output.iter().any(|output| output.name == "text_output") {
        config.output.push(ModelOutput {
            name: "text_output".to_owned(),
            data_type: DataType::TypeString as i32,
            dims: vec![-1],
            ..ModelOutput::default()
        });
    }
    config.model_transaction_policy = Some(ModelTransactionPolicy { decoupled: true });
}

/// The engine of one version: its `model.json` and the simulated engine that this refers to.
pub(super) fn engine(version: &Path) -> Result<LoadedEngine, ErrorText> {
    let path = version.join("model.json");
    read(&path).map_err(in_file(&path))
}

fn read(path: &Path) -> Result<LoadedEngine, ErrorText> {
    let text = read_text(path).map_err(ErrorText::new)?;
    let args: Map<String, Value> = serde_json::from_str(&text).map_err(ErrorText::new)?;
    let model = args.get("model").and_then(Value::as_str).ok_or_else(|| ErrorText::new("`model` is missing"))?;
    let number = |name: &str| args.get(name).and_then(Value::as_u64);
    let small = |name: &str| number(name).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
    let (config, mut rank) = engine::load(Path::new(model))?;
    let step_times = rank.step_times(&config);
    // Whatever the engine was built for, this is vLLM.
    rank.calibration.scheduler = SimScheduler::Vllm;
    let graphs = match args.get("enforce_eager").and_then(Value::as_bool) {
        Some(true) => Some(0),
        _ => small("max_cudagraph_capture_size"),
    };
    rank.max_cudagraph_capture_size = graphs.or(rank.max_cudagraph_capture_size);
    let serving = EngineServing {
        chunking: Chunking::FirstComeFirstServed,
        kv_fraction: args.get("gpu_memory_utilization").and_then(Value::as_f64).unwrap_or(0.9),
        max_batch_size: small("max_num_seqs"),
        max_num_tokens: small("max_num_batched_tokens"),
        ..EngineServing::default()
    };
    let limits = engine::limits(&config, &rank, &serving);
    if limits.blocks == 0 {
        return Err(ErrorText::new(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        ));
    }
    let max_seq_len = number("max_model_len").unwrap_or(u64::from(config.max_seq_len()));
    Ok(LoadedEngine {
        limits,
        step_times,
        instances: 1,
        // It has no separate limit: prompt and answer share one.
        max_input_len: max_seq_len,
        max_seq_len,
        max_beam_width: 1,
        vocab_size: rank.model.vocab_size.max(8),
        exclude_input: false,
        has_lora: rank.lora.is_some(),
        has_context_logits: false,
        logits: DataType::TypeFp32,
        runtime_bytes: rank.memory.workspace_bytes as u64,
    })
}

/// Lengths, streaming and prompt of a row.
pub(super) fn text(inputs: &Inputs<'_>, prompts: &PromptTokens, row: usize) -> Result<ReadPrompt, Status> {
    let text = inputs.text("text_input", row).unwrap_or_default();
    let settings: Map<String, Value> = match inputs.text("sampling_parameters", row) {
        Some(settings) if !settings.is_empty() => serde_json::from_slice(&settings)
            .map_err(|error| Status::internal(format!("Error generating stream: sampling_parameters: {error}")))?,
        _ => Map::new(),
    };
    // Clients write numbers as texts, too.
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let osl = match settings.get("max_tokens") {
        None | Some(Value::Null) => 16,
        Some(value) => number(value).filter(|tokens| *tokens > 0).ok_or_else(|| {
            Status::internal(format!("Error generating stream: max_tokens must be at least 1, got {value}."))
        })?,
    };
    let streams = inputs.switch("stream", row).unwrap_or(false);
    let excludes = inputs.switch("exclude_input_in_output", row).unwrap_or(streams);
    if streams && !excludes {
        return Err(Status::internal(
            "Error generating stream: When streaming, `exclude_input_in_output` = False is not allowed.",
        ));
    }
    let isl = prompts.count(&text);
    Ok((isl, osl, streams, ServedPrompt::Text(if excludes { Vec::new() } else { text })))
}
