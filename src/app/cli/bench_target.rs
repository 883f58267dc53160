//! The server that `regatta bench` measures: its address, protocol and TLS.

use base::diag::ErrorText;
use serde_json::{Map, Value};

use super::bench_args::{BenchArgs, EndpointWord, ProtocolWord, ServiceWord};
use super::values::{ArgumentError, invalid_value};

/// With the scheme that follows from the protocol. `is_model`: it is the model of a server that is started.
pub(super) fn target(given: String, is_model: bool, protocol: Option<&str>) -> Result<String, ArgumentError> {
    let has_scheme = given.contains("://");
    if is_model && has_scheme {
        return invalid_value(format!("`--serve` starts a server for a model, and `{given}` is the address of one"));
    }
    let is_http = protocol.is_some_and(|protocol| protocol != "kserve");
    let needs_scheme = is_http && !is_model && !has_scheme && !given.starts_with("sim:");
    Ok(if needs_scheme { format!("http://{given}") } else { given })
}

/// The protocol that is given, or that follows from GenAI-Perf's options.
pub(super) fn protocol(args: &BenchArgs) -> Result<Option<&'static str>, ArgumentError> {
    let own = args.protocol.map(|word| match word {
        ProtocolWord::Kserve => "kserve",
        ProtocolWord::Generate => "generate",
        ProtocolWord::OpenaiChat => "openai-chat",
        ProtocolWord::OpenaiCompletions => "openai-completions",
    });
    let theirs = match (args.service_kind, args.endpoint_type) {
        (None, None) => args.backend.map(|_| "kserve"),
        (Some(ServiceWord::Triton), None | Some(EndpointWord::Kserve)) | (None, Some(EndpointWord::Kserve)) => {
            Some("kserve")
        }
        (Some(ServiceWord::Triton) | None, Some(EndpointWord::Generate)) => Some("generate"),
        (Some(ServiceWord::Openai), None) | (_, Some(EndpointWord::Chat)) => Some("openai-chat"),
        (_, Some(EndpointWord::Completions)) => Some("openai-completions"),
        (Some(ServiceWord::Openai), Some(EndpointWord::Kserve | EndpointWord::Generate)) => {
            return invalid_value("`--service-kind openai` has the endpoint types chat and completions");
        }
    };
    match (own, theirs) {
        (Some(own), Some(theirs)) if own != theirs => {
            invalid_value(format!("`--protocol {own}` contradicts the other options, which mean `{theirs}`"))
        }
        _ => Ok(own.or(theirs)),
    }
}

pub(super) fn tls(args: &BenchArgs) -> Result<Map<String, Value>, ArgumentError> {
    let files =
        [("--cacert", "ca", &args.cacert), ("--cert", "client_cert", &args.cert), ("--key", "client_key", &args.key)];
    let mut tls = Map::new();
    for (option, key, file) in files {
        let Some(file) = file else { continue };
        let Some(text) = file.to_str() else {
            return invalid_value(format!("`{option} {}`: the path is not UTF-8", file.display()));
        };
        tls.insert(key.to_owned(), Value::from(text));
    }
    if args.insecure {
        tls.insert("insecure".to_owned(), Value::from(true));
    }
    Ok(tls)
}

pub(super) fn check_tls_target(args: &BenchArgs, tls: &Map<String, Value>, target: &str) -> Result<(), ArgumentError> {
    if tls.is_empty() || target.starts_with("https://") {
        return Ok(());
    }
    let options = [(args.insecure, "--insecure"), (args.cacert.is_some(), "--cacert"), (true, "--cert")];
    let option = options.into_iter().find_map(|(is_given, option)| is_given.then_some(option)).unwrap_or_default();
    invalid_value(
        ErrorText::new(format!("`{option}` is for a target with `https://`, and TARGET has none"))
            .hint("`https://HOST:PORT/v1` is OpenAI's interface with TLS")
            .to_string(),
    )
}
