//! The server's description of itself and of its models, for either protocol.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tonic::Status;

use super::inputs::{full_shape, wire_name};
use super::load::LoadedModel;
use super::request::version;
use super::service::ServiceInner;
use triton::proto::inference::log_settings_response::SettingValue as LogValue;
use triton::proto::inference::log_settings_response::setting_value::ParameterChoice;
use triton::proto::inference::model_metadata_response::TensorMetadata;
use triton::proto::inference::repository_index_response::ModelIndex;
use triton::proto::inference::trace_setting_response::SettingValue as TraceValue;
use triton::proto::inference::{
    LogSettingsResponse, ModelMetadataResponse, ModelStatisticsResponse, RepositoryIndexResponse,
    ServerMetadataResponse, TraceSettingResponse,
};

pub(super) fn server(inner: &ServiceInner) -> ServerMetadataResponse {
    let extensions =
        ["model_repository", "model_configuration", "binary_tensor_data", "parameters", "statistics", "generate"];
    ServerMetadataResponse {
        name: "triton".to_owned(),
        version: format!("regatta-simulator-{}", env!("CARGO_PKG_VERSION")),
        extensions: extensions.map(str::to_owned).into_iter().chain(inner.own_extensions()).collect(),
    }
}

pub(super) fn metadata(model: &LoadedModel) -> ModelMetadataResponse {
    let config = &model.config;
    let tensor = |name: &str, data_type, dims: &[i64]| TensorMetadata {
        name: name.to_owned(),
        datatype: wire_name(data_type).to_owned(),
        shape: full_shape(config.max_batch_size, dims),
    };
    let platform = if config.platform.is_empty() { &config.backend } else { &config.platform };
    ModelMetadataResponse {
        name: model.name.clone(),
        versions: model.versions.iter().map(u64::to_string).collect(),
        platform: platform.clone(),
        inputs: config.input.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect(),
        outputs: config.output.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect(),
    }
}

/// The statistics of one model, or of all if `name` is empty.
pub(super) fn statistics(inner: &ServiceInner, name: &str, version: &str) -> Result<ModelStatisticsResponse, Status> {
    if !name.is_empty() {
        inner.find(name, version)?;
    }
    let models = inner.models.values().filter(|model| name.is_empty() || model.name == name);
    let model_stats = models.filter_map(|model| Some(inner.statistics.get(&model.name)?.message(model))).collect();
    Ok(ModelStatisticsResponse { model_stats })
}

pub(super) fn index(inner: &ServiceInner) -> RepositoryIndexResponse {
    let models = inner.models.values().map(|model| ModelIndex {
        name: model.name.clone(),
        version: version(model),
        state: "READY".to_owned(),
        reason: String::new(),
    });
    RepositoryIndexResponse { models: models.collect() }
}

// Triton's extensions that this server has nothing to do for: its settings, shared memory, and models that are loaded
// at its start only. Clients ask for them at their beginning.

/// As a Triton without `--model-control-mode=explicit` refuses it.
pub(super) fn load_refused() -> Status {
    Status::unavailable("explicit model load / unload is not allowed if polling is enabled")
}

/// Nothing is traced.
pub(super) fn trace_settings() -> Value {
    json!({
        "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0", "trace_file": "",
        "trace_mode": "triton",
    })
}

/// A server's defaults.
pub(super) fn log_settings() -> Value {
    json!({
        "log_file": "", "log_info": true, "log_warning": true, "log_error": true, "log_verbose_level": 0,
        "log_format": "default",
    })
}

pub(super) fn trace_message() -> TraceSettingResponse {
    let texts = |value: &Value| match value {
        Value::Array(several) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        one => one.as_str().map(str::to_owned).into_iter().collect(),
    };
    let setting = |(name, value): (&String, &Value)| (name.clone(), TraceValue { value: texts(value) });
    TraceSettingResponse { settings: settings(&trace_settings(), setting) }
}

pub(super) fn log_message() -> LogSettingsResponse {
    let choice = |value: &Value| match value {
        Value::Bool(is_on) => ParameterChoice::BoolParam(*is_on),
        Value::Number(number) => ParameterChoice::Uint32Param(number.as_u64().unwrap_or_default() as u32),
        other => ParameterChoice::StringParam(other.as_str().unwrap_or_default().to_owned()),
    };
    let setting = |(name, value): (&String, &Value)| (name.clone(), LogValue { parameter_choice: Some(choice(value)) });
    LogSettingsResponse { settings: settings(&log_settings(), setting) }
}

fn settings<T>(all: &Value, setting: impl Fn((&String, &Value)) -> (String, T)) -> BTreeMap<String, T> {
    all.as_object().into_iter().flatten().map(setting).collect()
}
