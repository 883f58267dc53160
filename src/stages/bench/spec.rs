//! What the harness needs, from the manifest's `bench`.

use std::path::Path;
use std::time::Duration;

use super::load;
use super::setting_error::BenchSettingError;
use base::event::Endpoint;
use harness::BenchSpec;
use plan::manifest::model::Bench;
use plan::manifest::{Targets, targets};

pub(super) fn spec(bench: &Bench, project: &Path) -> Result<BenchSpec, BenchSettingError> {
    // Each point of a sweep sets its own level.
    let bench = &*bench.at_first_level();
    let targets = targets(&bench.target)?;
    let protocol = protocol(bench, &targets, project)?;
    let mut request = (*bench.request).clone();
    request.streaming = request.streaming.or(targets.streams);
    Ok(BenchSpec {
        endpoints: targets.endpoints,
        protocol,
        model: targets.model.unwrap_or_else(|| bench.model.clone()),
        scenario: load::scenario(bench)?,
        arrivals: bench.arrivals,
        stop: bench.stop.clone(),
        input_len: bench.input_tokens.clone(),
        output_len: bench.output_tokens.clone(),
        seed: bench.seed,
        warmup: bench.warmup,
        pace: load::pace(bench),
        content: load::content(bench, project),
        frontends: bench.triton_num_frontends_per_model,
        clients: bench.triton_num_clients_per_frontend,
        stall_timeout: bench.stall_timeout.time().max(Duration::from_millis(1)),
        limits: bench.limits.as_deref().cloned().unwrap_or_default(),
        slo: bench.slo.as_ref().map(harness::Slo::from).unwrap_or_default(),
        timelines: bench.timelines,
        vocab_size: bench.vocab_size,
        end_id: bench.end_id,
        request,
    })
}

/// The manifest's value, else the one from the target's URL.
pub fn protocol(bench: &Bench, targets: &Targets, project: &Path) -> Result<harness::Transport, BenchSettingError> {
    let api = match bench.protocol.or(targets.protocol) {
        None | Some(base::spec::Protocol::Kserve) => {
            // `endpoint`, `extra` and `api_key_env` are not sent: they are there for another protocol, else the plan refuses them.
            if let Some(path) = targets.path.as_ref().or(targets.prefix.as_ref()) {
                return Err(BenchSettingError::PathOverGrpc(path.clone()));
            }
            if bench.tls.is_some() || targets.is_secure {
                return Err(BenchSettingError::TlsOverGrpc);
            }
            return Ok(harness::Transport::Kserve);
        }
        Some(base::spec::Protocol::Generate) => harness::Api::Generate,
        Some(base::spec::Protocol::OpenaiChat) => harness::Api::OpenaiChat,
        Some(base::spec::Protocol::OpenaiCompletions) => harness::Api::OpenaiCompletions,
    };
    Ok(harness::Transport::Http(harness::Http {
        path: bench.endpoint.clone().or_else(|| targets.path.clone()).or_else(|| {
            let prefix = targets.prefix.as_deref()?;
            Some(format!("{prefix}{}", api.openai_path()?))
        }),
        extra: bench.extra.clone(),
        api_key_env: bench.api_key_env.clone(),
        prompt_ids: bench.request.interface == Some(base::spec::Interface::TokenIds),
        tls: (targets.is_secure || bench.tls.is_some())
            .then(|| Box::new(bench.tls.clone().unwrap_or_default().relative_to(project))),
        ..harness::Http::new(api)
    }))
}

/// A target names gRPC ports only; of services that were started for it the others are known too.
pub(super) fn fill_in_known_ports(endpoints: &mut [Endpoint], known: &[Endpoint]) {
    for endpoint in endpoints {
        if let Some(known) = known.iter().find(|known| known.host == endpoint.host && known.grpc == endpoint.grpc) {
            endpoint.clone_from(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_grpc_settings_of_other_protocols_are_not_sent() {
        let bench = serde_json::from_value::<Bench>(serde_json::json!({
            "target": "localhost:8001", "protocol": "kserve", "scenario": "offline", "stop": { "requests": 1 },
            "input_tokens": { "fixed": 8 }, "output_tokens": { "fixed": 8 },
            "endpoint": "/v1/other", "extra": { "user": "me" }, "api_key_env": "NOT_SET",
        }));
        let found = protocol(&bench.unwrap(), &Targets::default(), Path::new(""));
        assert!(matches!(found, Ok(harness::Transport::Kserve)), "{found:?}");
    }
}
