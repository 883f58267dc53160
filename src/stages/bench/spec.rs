//! What the harness needs, from the manifest's `bench`: arrivals and data in its own types, or why no measurement can
//! be made from these settings. And what must hold before the first request: a server that is still loading is waited
//! for as long as `ready_timeout` says, and a proxy is not used, because it would be measured too.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::task_context::TaskContext;
use base::diag::ErrorText;
use base::event::{Endpoint, Failure};
use base::spec::{Scenario, TimeSpan};
use harness::{BenchSpec, CallSource, DataKind, LoadLevel, LoadPattern, Pause, PromptSource, SendingSpec};
use plan::manifest::model::{Bench, Data, LevelSetting, Load};
use plan::manifest::{Targets, targets};

pub(super) fn spec(bench: &Bench, project: &Path) -> Result<BenchSpec, ErrorText> {
    // Each point of a sweep sets its own level.
    let bench = &*bench.at_first_level();
    let targets = targets(&bench.target).map_err(ErrorText::new)?;
    let protocol = protocol(bench, &targets, project)?;
    let mut request = (*bench.request).clone();
    request.streaming = request.streaming.or(targets.streams);
    Ok(BenchSpec {
        endpoints: targets.endpoints,
        protocol,
        model: targets.model.unwrap_or_else(|| bench.model.clone()),
        scenario: scenario(bench)?,
        arrivals: bench.arrivals,
        stop: bench.stop.clone(),
        input_len: bench.input_tokens.clone(),
        output_len: bench.output_tokens.clone(),
        seed: bench.seed,
        warmup: bench.warmup,
        pace: pace(bench),
        content: content(bench, project),
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

fn scenario(bench: &Bench) -> Result<LoadPattern, ErrorText> {
    let level = |level: LevelSetting<'_>| match level {
        LevelSetting::Fixed(level) => LoadLevel::Fixed(level),
        LevelSetting::Ramp(ramp) => LoadLevel::from(ramp),
    };
    let load = Load::parse(bench).map_err(|faults| ErrorText::new(faults[0]))?;
    Ok(match load {
        Load::Server(rate) => LoadPattern::Server { rate: level(rate) },
        // Each probe of a search sets its own.
        Load::Search(_) => LoadPattern::Server { rate: LoadLevel::Fixed(1.0) },
        Load::Concurrency(users) => LoadPattern::Concurrency { users: level(users) },
        Load::Offline => LoadPattern::Offline,
        Load::Trace { speed } => LoadPattern::Trace { speed },
        Load::LoadGen(scenario) => LoadPattern::External(match scenario {
            Scenario::Offline => CallSource::AllAtOnce,
            Scenario::SingleStream => CallSource::OneByOne,
            _ => CallSource::AtTimes,
        }),
    })
}

fn pace(bench: &Bench) -> SendingSpec {
    SendingSpec {
        think: bench.think_time.as_ref().map(Pause::from).unwrap_or_default(),
        max_in_flight: bench.max_in_flight,
        warmup_for: bench.warmup_time.as_ref().map(TimeSpan::time),
        stream: bench.stream,
        retries: bench.retries.clone(),
        answer_time_out: None,
    }
}

/// Paths are relative to `project`.
fn content(bench: &Bench, project: &Path) -> PromptSource {
    PromptSource {
        data: bench.data.as_ref().and_then(|given| data(given, project)),
        prefixes: bench.prefixes,
        distinct: bench.distinct_prompts,
        tokenizer: bench.tokenizer.as_ref().map(|file| project.join(file)),
        sessions: bench.sessions.clone(),
    }
}

fn data(given: &Data, project: &Path) -> Option<harness::PromptFile> {
    let (key, file) = given.files().next()?;
    let kind = DataKind::ALL.iter().copied().find(|kind| kind.as_str() == key)?;
    let path = |file: &Option<String>| file.as_ref().map(|file| -> PathBuf { project.join(file) });
    Some(harness::PromptFile {
        kind,
        file: project.join(file),
        lengths: path(&given.lengths),
        output_lengths: path(&given.output_lengths),
        first: given.first,
        max_input_tokens: given.max_input_tokens,
        order: given.order,
        repeat: given.repeat,
        block_tokens: given.block_tokens,
        delay: given.delay,
    })
}

/// The manifest's value, else the one from the target's URL.
pub fn protocol(bench: &Bench, targets: &Targets, project: &Path) -> Result<harness::Transport, ErrorText> {
    let api = match bench.protocol.or(targets.protocol) {
        None | Some(base::spec::Protocol::Kserve) => {
            // `endpoint`, `extra` and `api_key_env` are not sent: they are there for another protocol, else the plan
            // refuses them.
            if let Some(path) = targets.path.as_ref().or(targets.prefix.as_ref()) {
                let needed = "a `protocol` over HTTP: generate, openai-chat, openai-completions";
                return Err(ErrorText::new(format_args!("the path {path} needs {needed}")));
            }
            if bench.tls.is_some() || targets.is_secure {
                let protocols = "generate, openai-chat, openai-completions";
                let text = format!("`tls` is for protocols over HTTP: set `protocol` to one of {protocols}");
                return Err(ErrorText::new(text));
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

/// Variables that other HTTP clients take a proxy from.
const PROXY_VARIABLES: [&str; 6] = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// What to do about a host that cannot be reached, where a proxy is set that curl would reach it through.
pub(super) fn instead_of_proxy(host: &str) -> Option<String> {
    let notice = unused_proxy(host)?;
    Some(format!(
        "{notice}; run it where {host} can be reached, or forward a port: `ssh -L 8000:{host}:PORT GATEWAY`, and name \
         127.0.0.1:8000"
    ))
}

/// A notice for those whose other clients would reach this host through a proxy.
pub(super) fn unused_proxy(host: &str) -> Option<String> {
    proxy_notice(host, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn proxy_notice(host: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let name = PROXY_VARIABLES.into_iter().find(|name| variable(name).is_some())?;
    let excepted = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
    let is_local =
        host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|it: IpAddr| it.is_loopback());
    let is_excepted = excepted.split(',').map(|part| part.trim().trim_start_matches('.')).any(|part| {
        let is_below = || host.strip_suffix(part).is_some_and(|rest| rest.ends_with('.'));
        !part.is_empty() && (part == "*" || part == host || is_below())
    });
    let notice = || format!("{name} is set, and is not used: a benchmark connects to its servers directly");
    (!is_local && !is_excepted).then(notice)
}

/// The pause before a server that is not ready is queried again.
const PAUSE: Duration = Duration::from_millis(250);

/// Returns when every server is ready.
///
/// # Errors
/// One is not ready after `limit`, or the run is stopped.
pub(super) async fn await_servers(context: &TaskContext, spec: &BenchSpec, limit: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut last = "not queried yet".to_owned();
    for (ready, endpoint) in spec.endpoints.iter().enumerate() {
        let wait = async {
            while let Err(why) = harness::readiness(endpoint, spec).await {
                let text = format!("waiting for {endpoint}, {} s: {why}", begun.elapsed().as_secs());
                context.lease.report_progress(text, ready as u64, Some(spec.endpoints.len() as u64));
                last = why.to_string();
                sleep(PAUSE).await;
            }
        };
        let waiting = Box::pin(timeout(limit.saturating_sub(begun.elapsed()), wait));
        if context.unless_stopped(waiting, "stopped before every server was ready").await?.is_err() {
            let message = format!("{endpoint} was not ready within {limit:?}: {last}");
            let hint = instead_of_proxy(&endpoint.host)
                .unwrap_or_else(|| "is it still loading? `ready_timeout` sets how long to wait".to_owned());
            return Err(Failure::service(message).hint(hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod spec_tests {
    use super::*;

    #[test]
    fn over_grpc_settings_of_other_protocols_are_not_sent() {
        let bench = serde_json::from_value::<Bench>(serde_json::json!({
            "target": "localhost:8001", "protocol": "kserve", "scenario": "offline", "stop": { "requests": 1 },
            "input_tokens": { "fixed": 8 }, "output_tokens": { "fixed": 8 },
            "endpoint": "/v1/other", "extra": { "user": "me" }, "api_key_env": "NOT_SET",
        }));
        let transport = protocol(&bench.unwrap(), &Targets::default(), Path::new(""));
        assert!(matches!(transport, Ok(harness::Transport::Kserve)), "{transport:?}");
    }
}

#[cfg(test)]
mod unused_proxy_tests {
    use super::*;

    #[test]
    fn a_proxy_is_named_unless_the_host_is_excepted() {
        let with = |host: &str, no_proxy: &str| {
            proxy_notice(host, |name| match name {
                "https_proxy" => Some("http://proxy:3128".to_owned()),
                "no_proxy" => Some(no_proxy.to_owned()),
                _ => None,
            })
        };
        assert!(with("gpu1.cluster", "").unwrap().starts_with("https_proxy is set, and is not used"));
        assert!(with("gpu1.cluster", "other, luster").is_some());
        for (host, no_proxy) in
            [("gpu1.cluster", "x, .cluster"), ("gpu1", "gpu1"), ("h", "*"), ("::1", ""), ("localhost", "")]
        {
            assert_eq!(with(host, no_proxy), None, "{host}");
        }
        assert_eq!(proxy_notice("h", |_| None), None);
    }
}
