//! Servers that are started outside of regatta: waited for, queried for everything that a benchmark needs before it
//! begins, watched, never stopped. All are queried at once, and all their problems are reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use http::HeaderMap;
use parking_lot::Mutex;

use super::ready::{self, HealthProbe, SilenceLimits};
use crate::task_context::TaskContext;
use base::event::{Done, Endpoint, Failure};
use base::spec::{Interface, Scenario};
use plan::manifest::model::{AttachServer, Bench};
use triton::proto::inference::model_config::SchedulingChoice;
use triton::proto::inference::{ModelConfig, ModelMetadataResponse, ServerMetadataResponse};
use triton::{
    AwaitError, ClientError, ClientErrorKind, ListeningService, SpecProblem, TritonClient, await_ready, probe,
};

/// Interval between progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Waits for every server, examines it, and reports them; lives until no stage needs it any more.
pub async fn perform(context: &mut TaskContext, attach_server: &AttachServer) -> Result<Done, Failure> {
    let endpoints =
        attach_server.endpoints.read().map_err(|(_, why)| Failure::refused(format!("`endpoints`: {why}")))?;
    let limit = attach_server.ready.limit_attached();
    await_all(context, &endpoints, limit).await?;
    let expected = ExpectedServer { models: attach_server.models.clone(), ..ExpectedServer::default() };
    for notice in check(&endpoints, &expected).await? {
        context.lease.notice(notice);
    }
    if let Some(sender) = context.lease.ready.take() {
        // No receiver is left: then the run is stopping, and reports it.
        let _ = sender.send(endpoints.clone());
    }
    // Its processor time is not ours to see.
    let question = HealthProbe::Kserve(attach_server.models.clone(), HeaderMap::new());
    tokio::select! {
        biased;
        () = context.lease.stop.requested() => Ok(Done::default()),
        silent = ready::any_silent(endpoints, question, SilenceLimits::USUAL, Arc::default()) => {
            let failure = Failure::service(silent.to_string());
            Err(failure.hint("this run did not start it: check that its host is up, that the network path works, and \
                              that its process is alive"))
        }
    }
}

/// Waits for all of them at once, within one limit.
async fn await_all(context: &TaskContext, endpoints: &[Endpoint], limit: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    let unqueried = |index| (index, "not queried yet".to_owned());
    let absent: &Mutex<BTreeMap<usize, String>> = &Mutex::new((0..endpoints.len()).map(unqueried).collect());
    let wait = |index: usize| async move {
        let progress = |_, text: &str| drop(absent.lock().insert(index, text.to_owned()));
        match await_ready(&endpoints[index], limit, progress, context.lease.stop.requested()).await {
            Ok(()) => drop(absent.lock().remove(&index)),
            Err(AwaitError::Timeout { .. }) => {}
            Err(AwaitError::Stopped { .. }) => {
                return Err(Failure::interrupted("stopped before every server was ready"));
            }
            Err(error) => return Err(Failure::service(error.to_string())),
        }
        Ok(())
    };
    let report = async {
        let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
        loop {
            tick.tick().await;
            let (done, total) = (endpoints.len() - absent.lock().len(), endpoints.len());
            if let Some(text) = progress_text(endpoints, &absent.lock(), begun.elapsed()) {
                context.lease.report_progress(text, done as u64, Some(total as u64));
            }
        }
    };
    tokio::select! {
        biased;
        waited = try_join_all((0..endpoints.len()).map(wait)) => drop(waited?),
        () = report => {}
    }
    let absent = absent.lock();
    let lines: Vec<String> = absent.iter().map(|(index, last)| format!("{}: {last}", endpoints[*index])).collect();
    let message = match absent.iter().next() {
        None => return Ok(()),
        Some((index, last)) if absent.len() == 1 => {
            format!("{} was not ready within {limit:?}: {last}", endpoints[*index])
        }
        Some(_) => format!("{} of {} servers were not ready within {limit:?}", absent.len(), endpoints.len()),
    };
    let failure = Failure::service(message).hint(
        "this run does not start the server: check that it is up, and that this is its gRPC port; `ready.timeout` \
         sets how long to wait",
    );
    Err(if lines.len() > 1 { failure.cause(lines.join("; ")) } else { failure })
}

/// How many are absent, and why the first of them is.
fn progress_text(endpoints: &[Endpoint], absent: &BTreeMap<usize, String>, waited: Duration) -> Option<String> {
    let (index, last) = absent.iter().next()?;
    let seconds = waited.as_secs();
    Some(match absent.len() {
        1 => format!("waiting for {}, {seconds} s: {last}", endpoints[*index]),
        several => {
            format!("waiting for {several} of {} servers, {seconds} s; {}: {last}", endpoints.len(), endpoints[*index])
        }
    })
}

/// No server may take longer for one answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// What the servers must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedServer {
    /// Each server must have all of them ready.
    pub models: Vec<String>,
    /// `Some(true)`: it must stream; `Some(false)`: it must answer at once; `None`: either.
    pub streaming: Option<bool>,
    /// Names and wire types of the tensors that will be sent.
    pub inputs: Vec<(String, String)>,
    /// Of those that will be read.
    pub outputs: Vec<(String, String)>,
    /// Metadata of every call.
    pub headers: HeaderMap,
}

impl ExpectedServer {
    /// What every benchmark needs. The harness itself checks the tensors of the settings that a request adds.
    pub fn of_bench(bench: &Bench) -> Self {
        let int32 = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "INT32".to_owned())).collect();
        let is_asked_for_ids = bench.request.interface == Some(Interface::TokenIds);
        let (inputs, outputs): (&[&str], &[&str]) = if is_asked_for_ids {
            (&["input_ids", "input_lengths", "request_output_len"], &["output_ids", "sequence_length"])
        } else {
            (&[], &[])
        };
        Self {
            models: vec![bench.model.clone()],
            // Latency measurements stream by default, unless the manifest disables it.
            streaming: match (bench.scenario, bench.request.streaming) {
                (_, Some(true)) | (Scenario::Server | Scenario::Interactive | Scenario::SingleStream, None) => {
                    Some(true)
                }
                _ => None,
            },
            inputs: int32(inputs),
            outputs: int32(outputs),
            headers: HeaderMap::new(),
        }
    }
}

/// What a server reported about itself.
#[derive(Debug, Default)]
struct ServerReport {
    server: Option<ServerMetadataResponse>,
    /// Of the models that are expected.
    configs: Vec<ModelConfig>,
    problems: Vec<SpecProblem>,
}

/// Queries all servers. Returns a description of them if all can be used, otherwise everything that is wrong.
pub async fn check(endpoints: &[Endpoint], expected: &ExpectedServer) -> Result<Vec<String>, Failure> {
    let queries = endpoints.iter().map(|endpoint| query_server(endpoint, expected));
    let mut server_reports: Vec<ServerReport> = join_all(queries).await;
    compare(endpoints, &mut server_reports);
    let broken = server_reports.iter().filter(|report| !report.problems.is_empty()).count();
    if broken == 0 {
        return Ok(notices(endpoints, &server_reports));
    }
    let lines: Vec<String> = endpoints
        .iter()
        .zip(&server_reports)
        .flat_map(|(endpoint, report)| {
            report.problems.iter().map(move |problem| format!("{endpoint}: {}", problem.message))
        })
        .collect();
    let message = match (broken, endpoints.len()) {
        (1, 1) => format!("{} cannot be used", endpoints[0]),
        (broken, count) => format!("{broken} of {count} servers cannot be used"),
    };
    let mut hints: Vec<&str> = server_reports
        .iter()
        .flat_map(|report| &report.problems)
        .filter_map(|problem| problem.hint.as_deref())
        .collect();
    hints.dedup();
    let mut failure = Failure::service(message).cause(lines.join("\n"));
    if let Some(first) = hints.first() {
        failure = failure.hint(*first);
    }
    Err(failure)
}

async fn query_server(endpoint: &Endpoint, expected: &ExpectedServer) -> ServerReport {
    let mut server_report = ServerReport::default();
    if let Err(problem) = run_checks(endpoint, expected, &mut server_report).await {
        server_report.problems.push(problem);
    }
    server_report
}

/// Runs the checks from the network up to the model, and stops at the first that fails, because the later ones depend
/// on it.
async fn run_checks(
    endpoint: &Endpoint,
    expected: &ExpectedServer,
    server_report: &mut ServerReport,
) -> Result<(), SpecProblem> {
    let client = match TritonClient::connect_with(endpoint, expected.headers.clone()).await {
        Ok(client) => client.deadline(QUERY_TIMEOUT),
        Err(error) => return Err(unreachable(endpoint, &error).await),
    };
    match client.is_live().await {
        Ok(true) => {}
        Ok(false) => return Err(SpecProblem::new("it reports that it is not live", "")),
        Err(error) => return Err(unreachable(endpoint, &error).await),
    }
    // A simple server may lack these: the harness needs none of the answers.
    server_report.server = optional(client.server_metadata().await)?;
    if optional(client.is_ready().await)? == Some(false) {
        let hint = "wait until all its models are loaded; `regatta triton status` shows the progress";
        server_report.problems.push(SpecProblem::new("the server is live but not ready", hint));
    }
    for model in &expected.models {
        if let Err(problem) = of_model(&client, model, expected, server_report).await {
            server_report.problems.push(problem);
        }
    }
    Ok(())
}

async fn of_model(
    client: &TritonClient,
    model: &str,
    expected: &ExpectedServer,
    report: &mut ServerReport,
) -> Result<(), SpecProblem> {
    if optional(client.is_model_ready(model, "").await)? == Some(false) {
        return Err(model_absent(client, model).await);
    }
    if let Some(metadata) = optional(client.model_metadata(model, "").await)? {
        report.problems.extend(tensors(&metadata, expected));
    }
    if let Some(config) = optional(client.model_config(model, "").await)? {
        report.problems.extend(transaction(&config, expected));
        report.problems.extend(missing_inputs(&config, expected));
        report.configs.push(config);
    }
    Ok(())
}

/// An answer that a server need not have.
fn optional<T>(answer: Result<T, ClientError>) -> Result<Option<T>, SpecProblem> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError { why: ClientErrorKind::Refused { code: tonic::Code::Unimplemented, .. }, .. }) => Ok(None),
        Err(error) => Err(SpecProblem { message: error.call_and_why(), hint: error.hint() }),
    }
}

async fn unreachable(endpoint: &Endpoint, error: &ClientError) -> SpecProblem {
    let mut hint = "give the port of --grpc-port, which is 8001 by default".to_owned();
    let message = match probe(&endpoint.host, endpoint.grpc).await {
        ListeningService::Http => "that is its HTTP port; this stage needs the gRPC port",
        ListeningService::Metrics => "that is its metrics port; this stage needs the gRPC port",
        ListeningService::OtherHttp => {
            hint = format!("for an OpenAI server, write `http://{endpoint}`; for Triton, {hint}");
            "it speaks HTTP, not Triton's gRPC"
        }
        ListeningService::Nothing | ListeningService::Grpc | ListeningService::Other => {
            return SpecProblem { message: error.call_and_why(), hint: error.hint() };
        }
    };
    SpecProblem::new(message, &hint)
}

async fn model_absent(client: &TritonClient, model: &str) -> SpecProblem {
    let index = client.repository_index(false).await.unwrap_or_default();
    if let Some(known) = index.iter().find(|known| known.name == model) {
        let reason = if known.reason.is_empty() { String::new() } else { format!(": {}", known.reason) };
        let state = if known.state.is_empty() { "not loaded" } else { &known.state };
        let hint = "`regatta triton load` loads it, if the server allows it; its log has the reason";
        return SpecProblem::new(format!("model `{model}` is not ready: {state}{reason}"), hint);
    }
    let mut names: Vec<&str> = index.iter().map(|known| known.name.as_str()).collect();
    names.dedup();
    let hint = (!names.is_empty()).then(|| format!("it has {}", listed(&names)));
    SpecProblem { message: format!("it has no model `{model}`"), hint }
}

fn tensors(model: &ModelMetadataResponse, expected: &ExpectedServer) -> Vec<SpecProblem> {
    let mut problems = Vec::new();
    for (what, wanted, there) in
        [("input", &expected.inputs, &model.inputs), ("output", &expected.outputs, &model.outputs)]
    {
        let mut lacking = Vec::new();
        for (name, datatype) in wanted {
            match there.iter().find(|tensor| tensor.name == *name) {
                None => lacking.push(name.as_str()),
                Some(tensor) if tensor.datatype != *datatype => {
                    let (use_of_it, there) = (if what == "input" { "sent" } else { "read" }, &tensor.datatype);
                    let message =
                        format!("{what} `{name}` of `{}` is {there}, and {datatype} is {use_of_it}", model.name);
                    problems.push(SpecProblem::new(message, ""));
                }
                Some(_) => {}
            }
        }
        if !lacking.is_empty() {
            let names: Vec<&str> = there.iter().map(|tensor| tensor.name.as_str()).collect();
            let hint = "`model` must take and give token ids, as `tensorrt_llm` of TensorRT-LLM's backend does";
            let message = format!("`{}` has no {what} {}; it has {}", model.name, listed(&lacking), listed(&names));
            problems.push(SpecProblem::new(message, hint));
        }
    }
    problems
}

/// Inputs that the model requires and that will not be sent.
fn missing_inputs(config: &ModelConfig, expected: &ExpectedServer) -> Option<SpecProblem> {
    if expected.inputs.is_empty() {
        return None;
    }
    let wants = config.input.iter().filter(|input| !input.optional);
    let names: Vec<&str> = wants
        .map(|input| input.name.as_str())
        .filter(|name| !expected.inputs.iter().any(|(sent, _)| sent == name))
        .collect();
    let message = || format!("`{}` wants {}, which will not be sent", config.name, listed(&names));
    (!names.is_empty()).then(|| SpecProblem::new(message(), "make it `optional: true` in config.pbtxt"))
}

fn transaction(config: &ModelConfig, expected: &ExpectedServer) -> Option<SpecProblem> {
    if matches!(config.scheduling_choice, Some(SchedulingChoice::EnsembleScheduling(_))) {
        // Its steps decide; the harness queries them.
        return None;
    }
    let decoupled = config.model_transaction_policy.as_ref().is_some_and(|policy| policy.decoupled);
    let (what, hint) = match (expected.streaming?, decoupled) {
        (true, false) => (
            "is not decoupled: it cannot stream, and TTFT and TPOT cannot be measured",
            "set `decoupled: true` in its config.pbtxt, or request whole answers: `request: { streaming: false }`",
        ),
        (false, true) => (
            "is decoupled: it answers in a stream only",
            "set `decoupled: false` in its config.pbtxt, or let it stream",
        ),
        _ => return None,
    };
    Some(SpecProblem::new(format!("`{}` {what}", config.name), hint))
}

/// All servers must serve the same model: the error lists the fields in which a server differs from the first that has
/// the model.
fn compare(endpoints: &[Endpoint], reports: &mut [ServerReport]) {
    let mut references: BTreeMap<String, (usize, BTreeMap<String, String>)> = BTreeMap::new();
    for (index, report) in reports.iter_mut().enumerate() {
        for config in &report.configs {
            let mine = fields(config);
            let Some((first, reference)) = references.get(&config.name) else {
                references.insert(config.name.clone(), (index, mine));
                continue;
            };
            let names: BTreeSet<&String> = reference.keys().chain(mine.keys()).collect();
            let show = |fields: &BTreeMap<String, String>, name: &String| {
                fields.get(name).cloned().unwrap_or_else(|| "not set".to_owned())
            };
            let differ: Vec<String> = names
                .into_iter()
                .filter(|name| reference.get(*name) != mine.get(*name))
                .map(|name| format!("{name} is {}, there {}", show(&mine, name), show(reference, name)))
                .collect();
            if !differ.is_empty() {
                report.problems.push(SpecProblem::new(
                    format!("its `{}` is not that of {}: {}", config.name, endpoints[*first], differ.join("; ")),
                    "servers of one benchmark must be the same; restart the one that differs",
                ));
            }
        }
    }
}

/// The parts of a config that decide what is measured, each by its name in config.pbtxt. Folders may differ from host
/// to host, and do.
fn fields(config: &ModelConfig) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut insert = |name: &str, value: String| drop(fields.insert(name.to_owned(), value));
    insert("backend", config.backend.clone());
    insert("platform", config.platform.clone());
    insert("max_batch_size", config.max_batch_size.to_string());
    let decoupled = config.model_transaction_policy.as_ref().is_some_and(|policy| policy.decoupled);
    insert("decoupled", decoupled.to_string());
    insert("instances", config.instance_group.iter().map(|group| group.count).sum::<i32>().to_string());
    for input in &config.input {
        insert(&format!("input {}", input.name), format!("{} {:?}", input.data_type().as_str_name(), input.dims));
    }
    for output in &config.output {
        insert(&format!("output {}", output.name), format!("{} {:?}", output.data_type().as_str_name(), output.dims));
    }
    for (name, value) in &config.parameters {
        let folder = value.string_value.contains('/');
        insert(name, if folder { "a path".to_owned() } else { format!("`{}`", value.string_value) });
    }
    fields
}

fn notices(endpoints: &[Endpoint], reports: &[ServerReport]) -> Vec<String> {
    let mut notices = Vec::new();
    for (endpoint, report) in endpoints.iter().zip(reports) {
        let Some(server) = &report.server else {
            notices.push(format!("{endpoint} reports no metadata"));
            continue;
        };
        let mut line = format!("{endpoint} is {} {}", server.name, server.version);
        for config in &report.configs {
            let kind = if config.backend.is_empty() { &config.platform } else { &config.backend };
            let decoupled = config.model_transaction_policy.as_ref().is_some_and(|policy| policy.decoupled);
            let word = if decoupled { "decoupled" } else { "not decoupled" };
            line = format!("{line}; `{}` is {kind}, {word}, max_batch_size {}", config.name, config.max_batch_size);
        }
        let lacks = |name: &str| !server.extensions.iter().any(|extension| extension == name);
        if lacks("model_configuration") {
            line.push_str("; it has no extension model_configuration, so its settings are not known");
        }
        notices.push(line);
    }
    let versions: Vec<&str> =
        reports.iter().filter_map(|report| Some(report.server.as_ref()?.version.as_str())).collect();
    if versions.windows(2).any(|pair| pair[0] != pair[1]) {
        notices.push(format!("the servers are not of one version: {}", versions.join(", ")));
    }
    notices
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
