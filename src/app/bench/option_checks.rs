//! What a `regatta bench` line names has to be there before anything starts.

use std::io::{BufRead as _, Read as _};
use std::path::Path;

use serde_json::Value;

use super::manifest;
use crate::cli::{BenchLoad, BenchRequest};
use crate::error::CommandError;
use base::event::EndpointError;
use base::files::open_text;
use base::units::has_secret_parameter;
use harness::{api_key_in, give_key};
use plan::manifest::targets;
use runner::store::is_there;

/// A longer first line is not read for its time stamp.
const LONGEST_LINE: u64 = 1 << 20;

/// The manifest of a line is kept: it must have no secret in it.
pub(super) fn check_addresses(request: &BenchRequest) -> Result<(), CommandError> {
    let is_bad = targets(&request.target).is_err_and(|error| error.is_of_credentials())
        || request.endpoint.as_deref().is_some_and(has_secret_parameter);
    if is_bad { Err(CommandError::Usage(EndpointError::Credentials.to_string())) } else { Ok(()) }
}

pub(super) fn check_files(request: &BenchRequest) -> Result<(), CommandError> {
    let tls = |key: &str| request.tls.get(key).and_then(Value::as_str).map(Path::new);
    let files = [
        ("--data", request.data.as_ref().map(|(_, file)| file.as_path())),
        ("--cacert", tls("ca")),
        ("--cert", tls("client_cert")),
        ("--key", tls("client_key")),
    ];
    for (option, file) in files.into_iter().filter_map(|(option, file)| Some((option, file?))) {
        if !is_there(file)? {
            return Err(CommandError::Usage(format!("`{option} {}`: there is no such file", file.display())));
        }
    }
    let Some(name) = request.tokenizer.as_deref().filter(|name| manifest::tokenizer(name).is_none()) else {
        return Ok(());
    };
    if is_there(Path::new(name))? {
        return Err(CommandError::Usage(format!("`--tokenizer {name}`: it has no tokenizer.json")));
    }
    if is_path(name) {
        return Err(CommandError::Usage(format!("`--tokenizer {name}`: there is no such file or folder")));
    }
    Ok(())
}

/// Not `NAME` or `OWNER/NAME` of a model hub.
fn is_path(name: &str) -> bool {
    name.starts_with(['/', '.', '~']) || name.to_lowercase().ends_with(".json") || name.matches('/').count() > 1
}

pub(super) fn check_key(request: &BenchRequest) -> Result<(), CommandError> {
    for (variable, value) in &request.keys {
        give_key(variable.clone(), value.clone());
    }
    if let Some(name) = &request.api_key_env {
        let usage = |fault| CommandError::Usage(format!("`--api-key-env {name}`: the environment variable {fault}"));
        api_key_in(name).map_err(usage)?;
    }
    for name in request.headers.variables() {
        let usage = |fault| CommandError::Usage(format!("`--header`: the environment variable {name} {fault}"));
        api_key_in(name).map_err(usage)?;
    }
    Ok(())
}

/// The file of data whose time stamps another load leaves unused.
pub(super) fn unused_time_stamps(request: &BenchRequest) -> Option<&Path> {
    let (kind, file) = request.data.as_ref().filter(|_| !matches!(request.load, BenchLoad::Trace(_)))?;
    (*kind == "mooncake" || *kind == "jsonl" && has_time_stamp(file).unwrap_or(false)).then_some(file)
}

/// Whether the first record has one. What cannot be read is reported when all of it is read.
fn has_time_stamp(file: &Path) -> Option<bool> {
    let mut lines = open_text(file).ok()?.take(LONGEST_LINE).lines().map_while(Result::ok);
    let first = lines.find(|line| !line.trim().is_empty())?;
    Some(serde_json::from_str::<Value>(&first).ok()?.get("timestamp").is_some())
}
