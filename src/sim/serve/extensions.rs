//! Triton's extensions that this server has nothing to do for: its settings, shared memory, and models that are loaded at its start
//! only. Clients ask for them at their beginning.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tonic::Code;

use super::tensor::RequestRefusal;
use triton::proto::inference::log_settings_response::SettingValue as LogValue;
use triton::proto::inference::log_settings_response::setting_value::ParameterChoice;
use triton::proto::inference::trace_setting_response::SettingValue as TraceValue;
use triton::proto::inference::{LogSettingsResponse, TraceSettingResponse};

/// As a Triton without `--model-control-mode=explicit` refuses it.
pub(super) fn load_refused() -> RequestRefusal {
    RequestRefusal {
        code: Code::Unavailable,
        message: "explicit model load / unload is not allowed if polling is enabled".to_owned(),
        by_backend: false,
    }
}

/// Nothing is traced.
pub(super) fn trace_settings() -> Value {
    json!({"trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0", "trace_file": "", "trace_mode": "triton"})
}

/// A server's defaults.
pub(super) fn log_settings() -> Value {
    json!({"log_file": "", "log_info": true, "log_warning": true, "log_error": true, "log_verbose_level": 0, "log_format": "default"})
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
