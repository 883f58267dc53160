//! The options of `regatta bench` and the keys of the manifest that they set: one row for both directions, from a line
//! to its manifest and from an error in the manifest to the option. And what a line names has to be there before
//! anything starts.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::manifest::SIM;
use crate::cli::{ArrivalsWord, BenchLoad, BenchRequest, ServedWord, StreamWord, TokenLength};
use crate::error::CommandError;
use base::diag::{Diagnostic, Diagnostics};
use base::event::EndpointError;
use base::files::open_text;
use base::spec::{BenchSweep, Quantity, RequestField};
use base::units::has_secret_parameter;
use harness::{api_key_in, give_key};
use plan::manifest::{TargetError, Targets, targets};
use runner::store::is_there;

/// Where all that options set is.
const BENCH: &str = "stages.bench.bench.";

/// A longer first line is not read for its time stamp.
const LONGEST_LINE: u64 = 1 << 20;

/// A key of the benchmark and what sets it.
struct BenchKey {
    /// Below [`BENCH`], with dots. It stands for keys below it, too.
    key: &'static str,
    /// As errors name it.
    option: &'static str,
    /// `None`: the key is not set.
    value: fn(&BenchLine<'_>) -> Option<Value>,
}

const fn key(key: &'static str, option: &'static str, value: fn(&BenchLine<'_>) -> Option<Value>) -> BenchKey {
    BenchKey { key, option, value }
}

/// Every key that an option sets, in the order of the manifest.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method's path is not general over the line's lifetime"
)]
const KEYS: &[BenchKey] = &[
    key("target", "TARGET", |line| Some(json!(line.target))),
    key("protocol", "--protocol", |line| line.written_protocol()),
    key("model", "--model", |line| line.model()),
    key("endpoint", "--endpoint", |line| {
        let path = line.request.args.endpoint.as_ref()?;
        Some(json!(if path.starts_with('/') { path.clone() } else { format!("/{path}") }))
    }),
    key("api_key_env", "--api-key-env", |line| json_of(line.request.args.api_key_env.as_ref())),
    key("ready_timeout", "--ready-timeout", |line| json_of(line.request.args.ready_timeout.as_ref())),
    key("tls.ca", "--cacert", |line| json_of(line.request.args.cacert.as_ref())),
    key("tls.client_cert", "--cert", |line| json_of(line.request.args.cert.as_ref())),
    key("tls.client_key", "--key", |line| json_of(line.request.args.key.as_ref())),
    key("tls.insecure", "--insecure", |line| switch(line.request.args.insecure)),
    key("extra", "--extra", |line| filled(line.extra())),
    key("extra.ignore_eos", "--ignore-eos", |_| None),
    key("scenario", "the load", |line| Some(json!(scenario(&line.request.load)))),
    key("rate", "--rate", |line| match &line.request.load {
        BenchLoad::Rate(rate) => Some(json!(rate)),
        _ => None,
    }),
    key("concurrency", "--concurrency", |line| match &line.request.load {
        BenchLoad::Concurrency(users) => Some(json!(users)),
        _ => None,
    }),
    key("speed", "--trace", |line| match line.request.load {
        BenchLoad::Trace(speed) if (speed - 1.0).abs() > f64::EPSILON => Some(json!(speed)),
        _ => None,
    }),
    key("sweep", "--concurrency, --rate or --sweep", |line| match &line.request.load {
        BenchLoad::Sweep(sweep) => Some(json!(sweep)),
        _ => None,
    }),
    key("arrivals", "--arrivals", |line| {
        let has_rate = matches!(line.request.load, BenchLoad::Rate(_) | BenchLoad::Sweep(_));
        match line.request.args.arrivals.filter(|_| has_rate)? {
            ArrivalsWord::Poisson => None,
            ArrivalsWord::PoissonScaled => Some(json!("poisson_scaled")),
            ArrivalsWord::Constant => Some(json!("constant")),
        }
    }),
    key("stop.requests", "--requests", |line| json_of(line.request.requests.as_ref())),
    key("stop.duration", "--duration", |line| {
        json_of(line.request.duration.as_ref().filter(|_| line.request.load != BenchLoad::Offline))
    }),
    key("input_tokens", "--input-tokens", |line| line.request.input.as_ref().map(length)),
    key("output_tokens", "--output-tokens", |line| line.request.output.as_ref().map(length)),
    key("data", "--data", |line| line.request.data.as_ref().map(|(kind, file)| json!({ *kind: file }))),
    key("data.repeat", "--repeat-data", |line| switch(line.request.data.is_some() && line.request.args.repeat_data)),
    key("data.max_input_tokens", "--max-input-len", |line| {
        json_of(line.request.args.max_input_len.as_ref().filter(|_| line.request.data.is_some()))
    }),
    key("tokenizer", "--tokenizer", |line| {
        json_of(line.request.args.tokenizer.as_deref().and_then(tokenizer).as_ref())
    }),
    key("seed", "--seed", |line| Some(json!(line.request.args.seed))),
    key("repeat", "--repeat", |line| json_of(Some(line.request.args.repeat).filter(|runs| *runs > 1).as_ref())),
    key("warmup", "--warmup", |line| Some(json!(line.request.args.warmup))),
    key("triton_num_clients_per_frontend", "--connections", |line| {
        json_of(Some(&line.request.args.connections).filter(|count| **count != Quantity::Known(1)))
    }),
    key("timelines", "--timelines", |line| switch(line.request.args.timelines)),
    key("stream", "--stream", |line| (line.request.args.stream == StreamWord::Shared).then(|| json!("shared"))),
    key("stall_timeout", "--stall-timeout", |line| Some(json!(line.request.args.stall_timeout))),
    key("limits.ttft_p99", "--ttft-p99", |line| json_of(line.request.args.ttft_p99.as_ref())),
    key("limits.tpot_p99", "--tpot-p99", |line| json_of(line.request.args.tpot_p99.as_ref())),
    key("limits", "--limit", |line| {
        filled(line.request.limits.iter().map(|(key, limit)| (key.clone(), json!(limit))).collect())
    }),
    key("slo", "--goodput", |line| {
        filled(line.request.slo.iter().map(|(key, ms)| ((*key).to_owned(), json!(format!("{ms}ms")))).collect())
    }),
    key("vocab_size", "--vocab-size", |line| Some(json!(line.request.args.vocab_size))),
    key("end_id", "--end-id", |line| Some(json!(line.request.args.end_id))),
    key("request.headers", "--header", |line| {
        json_of(Some(&line.request.headers).filter(|headers| !headers.is_empty()))
    }),
    key("request.length_field", "--length-field", |line| json_of(line.request.args.length_field.as_ref())),
    key("request.streaming", "--no-streaming", |line| {
        json_of(line.request.streaming().filter(|streaming| !streaming || line.is_openai).as_ref())
    }),
    // Their options come from their rows in [`RequestField`].
    key("request", "", |line| filled(line.request.args.fields.0.clone())),
    // An end token that does not exist ends nothing.
    key("request.end_id", "--ignore-eos", |line| (line.request.args.ignore_eos && !line.is_openai).then(|| json!(-1))),
];

fn json_of<T: serde::Serialize>(value: Option<&T>) -> Option<Value> {
    value.map(|value| json!(value))
}

fn switch(is_on: bool) -> Option<Value> {
    is_on.then(|| json!(true))
}

fn filled(map: Map<String, Value>) -> Option<Value> {
    (!map.is_empty()).then_some(Value::Object(map))
}

const fn scenario(load: &BenchLoad) -> &'static str {
    match load {
        BenchLoad::Offline => "offline",
        BenchLoad::Concurrency(_) | BenchLoad::Sweep(BenchSweep::Concurrency(_)) => "concurrency",
        BenchLoad::Rate(_) | BenchLoad::Sweep(_) => "server",
        BenchLoad::Trace(_) => "trace",
    }
}

/// A line, and what follows from its target and protocol.
struct BenchLine<'a> {
    request: &'a BenchRequest,
    /// As the manifest has it.
    target: &'a str,
    /// Of the address.
    model: Option<String>,
    /// That is given, or that the address has.
    protocol: Option<String>,
    is_openai: bool,
}

impl<'a> BenchLine<'a> {
    fn new(request: &'a BenchRequest, target: &'a str) -> Result<Self, CommandError> {
        // An address with a parameter in it is read when the parameter has a value.
        let is_open = request.args.serve.is_some() || request.target.starts_with(SIM) || target.contains("{{");
        let parsed = if is_open {
            Targets::default()
        } else {
            targets(target).map_err(|error| refused_target(&error, target))?
        };
        let protocol = given_protocol(request).map(str::to_owned).or_else(|| {
            let protocol = serde_json::to_value(parsed.protocol).ok()?;
            protocol.as_str().map(str::to_owned)
        });
        let is_openai = protocol.as_deref().is_some_and(|protocol| protocol.starts_with("openai"));
        Ok(Self { request, target, model: parsed.model, protocol, is_openai })
    }

    /// The address of a server whose path does not show the protocol.
    fn is_bare_http(&self) -> bool {
        let is_http = ["http://", "https://"].iter().any(|scheme| self.request.target.starts_with(scheme));
        self.protocol.is_none() && is_http
    }

    fn written_protocol(&self) -> Option<Value> {
        // Most bare servers have the interface for chats.
        given_protocol(self.request).or_else(|| self.is_bare_http().then_some("openai-chat")).map(Value::from)
    }

    fn model(&self) -> Option<Value> {
        let is_simulated = self.request.args.serve.is_none() && self.request.target.starts_with(SIM);
        let name = self.request.args.model.as_deref().or(self.model.as_deref()).or_else(|| match &self.protocol {
            _ if is_simulated && self.is_openai => Some("tensorrt_llm"),
            _ if self.is_openai || self.is_bare_http() => Some(""),
            Some(protocol) if protocol == "generate" => Some("ensemble"),
            _ => None,
        });
        name.map(Value::from)
    }

    fn extra(&self) -> Map<String, Value> {
        let mut extra = self.request.extra.clone();
        if self.request.args.ignore_eos && self.is_openai {
            extra.insert("ignore_eos".to_owned(), json!(true));
        }
        let is_vllm = self.request.args.serve == Some(ServedWord::Vllm);
        if is_vllm && self.is_openai && self.request.streaming() != Some(false) {
            // Under load vLLM sends several tokens in a chunk: with its count for each, latencies per token are exact.
            let options = json!({"include_usage": true, "continuous_usage_stats": true});
            extra.entry("stream_options").or_insert(options);
        }
        extra
    }
}

fn refused_target(error: &TargetError, target: &str) -> CommandError {
    let hint = match error {
        _ if error.is_of_credentials() => return CommandError::usage(error),
        _ if target.contains(['|', ',']) => {
            "several servers stand in quotes with `|` between them: `'A:8001|B:8001'`, or with their schemes \
             `'openai://A:8000|openai://B:8000'`"
        }
        TargetError::Endpoint(_) => "`http://HOST:PORT` is an OpenAI server, `HOST:PORT` a Triton over gRPC",
        _ => return CommandError::usage(error),
    };
    CommandError::hinted(error, hint)
}

/// Every model completes; a base model has no template for a chat.
fn given_protocol(request: &BenchRequest) -> Option<&'static str> {
    request.protocol.or_else(|| request.args.serve.is_some().then_some("openai-completions"))
}

/// The benchmark of a line, key by key. `target`: as the manifest has it.
pub(super) fn measurement(request: &BenchRequest, target: &str) -> Result<Value, CommandError> {
    let line = BenchLine::new(request, target)?;
    let mut bench = Map::new();
    for row in KEYS {
        if let Some(value) = (row.value)(&line) {
            insert(&mut bench, row.key, value);
        }
    }
    Ok(Value::Object(bench))
}

/// Sets a key with dots; a map is added to one that is there.
fn insert(map: &mut Map<String, Value>, key: &str, value: Value) {
    if let Some((first, rest)) = key.split_once('.') {
        if let Value::Object(below) = map.entry(first).or_insert_with(|| json!({})) {
            insert(below, rest, value);
        }
        return;
    }
    match (map.get_mut(key), value) {
        (Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
        (_, value) => {
            map.insert(key.to_owned(), value);
        }
    }
}

/// A tokenizer.json, or the one in a folder; a name of a tokenizer elsewhere is not one.
pub fn tokenizer(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    [path.to_owned(), path.join("tokenizer.json")].into_iter().find(|path| path.is_file())
}

/// Within four deviations: one request in sixteen thousand is beyond.
fn length(tokens: &TokenLength) -> Value {
    let TokenLength { mean, stddev, max } = tokens;
    if *stddev == Quantity::Known(0.0) {
        return json!({"fixed": mean});
    }
    let reach = stddev.clone().combine("*", 4.0, |stddev, times| stddev * times).ceiling();
    let least = mean.clone().combine("-", reach.clone(), u32::saturating_sub).at_least(1_u32);
    let most = mean.clone().combine("+", reach, u32::saturating_add);
    let most = match max {
        Some(max) => most.at_most(max.clone()),
        None => most,
    };
    json!({"normal": {"mean": mean, "stddev": stddev, "min": least, "max": most}})
}

/// Errors of a line's manifest with the line's options in place of the manifest's keys and its file.
pub(super) fn name_options(error: CommandError, request: &BenchRequest, manifest: &str) -> CommandError {
    let CommandError::Manifest(found) = error else { return error };
    let mut named = Diagnostics::new();
    for one in found.into_list() {
        named.push(name_option(one, request, manifest));
    }
    CommandError::Manifest(named)
}

fn name_option(mut found: Diagnostic, request: &BenchRequest, manifest: &str) -> Diagnostic {
    let place = found.primary.as_ref().filter(|label| label.span.source().text() == manifest);
    let Some((label, key)) = place.map(|label| (label.text.clone(), key_at(manifest, label.span.line()))) else {
        return found;
    };
    let Some(option) = key.strip_prefix(BENCH).and_then(|key| option(key, request)) else { return found };
    let named = format!("`{BENCH}");
    found.message =
        match found.message.split_once(&named).and_then(|(before, rest)| Some((before, rest.split_once('`')?.1))) {
            Some((before, after)) => format!("{before}`{option}`{after}"),
            None => format!("`{option}`: {}", found.message),
        };
    if !label.is_empty() && !label.contains(BENCH.trim_end_matches('.')) {
        found.message = format!("{}: {label}", found.message);
    }
    (found.primary, found.further) = (None, Vec::new());
    found
}

fn option(key: &str, request: &BenchRequest) -> Option<String> {
    let limit = key.strip_prefix("limits.");
    if let Some((key, value)) = request.limits.iter().find(|(key, _)| Some(key.as_str()) == limit) {
        return Some(format!("--limit {key}={value}"));
    }
    let sets = |row: &&BenchKey| key.strip_prefix(row.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let row = KEYS.iter().filter(sets).max_by_key(|row| row.key.len())?;
    match row.key {
        "scenario" => None,
        "request" => field_option(key),
        _ => Some(row.option.to_owned()),
    }
}

/// The option of a field below `request`.
fn field_option(key: &str) -> Option<String> {
    let field = RequestField::find(key.strip_prefix("request.")?.split('.').next()?)?;
    field.option.map(|option| format!("--{}", option.name))
}

/// A text about the manifest for the reader of a line: each key in backquotes becomes the option that sets it.
pub fn in_options(text: &str) -> String {
    let named = |line: &str| {
        let mut parts: Vec<String> = line.split('`').map(str::to_owned).collect();
        // The first part is before a backquote, and what follows the last one has no partner.
        for code in (1..parts.len().saturating_sub(1)).step_by(2) {
            parts[code] = option_text(&parts[code]).unwrap_or_else(|| parts[code].clone());
        }
        parts.join("`")
    };
    text.split_inclusive('\n').map(named).collect()
}

/// `warmup: 0` → `--warmup 0`, `extra: { max_tokens: null }` → `--extra max_tokens:null`.
fn option_text(code: &str) -> Option<String> {
    if code == "tokenizer.json" {
        return None;
    }
    let (mut key, mut value) = code.split_once(": ").unwrap_or((code, ""));
    let below: String;
    if let Some((name, inner)) = value.strip_prefix("{ ").and_then(|map| map.strip_suffix(" }")?.split_once(": ")) {
        // An option has a fixed length as a plain number.
        (below, value) = (if name == "fixed" { key.to_owned() } else { format!("{key}.{name}") }, inner);
        key = &below;
    }
    let options = |is_set: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let rows = KEYS.iter().filter(|row| row.option.starts_with("--") && is_set(row.key));
        rows.map(|row| row.option).collect()
    };
    let is_above = |above: &str, key: &str| key.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    let exact = options(&|row| row == key).first().map(|option| (*option).to_owned());
    if let Some(option) = exact.or_else(|| field_option(key)) {
        let usual = if option.starts_with("--no-") { " false" } else { " true" };
        return Some(format!("{option} {value}").trim_end_matches(usual).trim_end().to_owned());
    }
    // One option takes the names of several keys.
    if let ([option], Some((above, name))) = (&options(&|row| is_above(row, key))[..], key.split_once('.'))
        && !option.contains(',')
    {
        let sign = if above == "limits" { '=' } else { ':' };
        return Some(format!("{option} {name}{sign}{value}").trim_end_matches([':', '=']).to_owned());
    }
    Some(options(&|row| is_above(key, row)).join("` or `")).filter(|options| key == "stop" && !options.is_empty())
}

/// The key on a line, counted from 1, with those that it is below.
fn key_at(manifest: &str, line: usize) -> String {
    let mut path: Vec<(usize, &str)> = Vec::new();
    for line in manifest.lines().take(line) {
        let begin = line.trim_start();
        let Some((key, _)) = begin.split_once(':') else { continue };
        let indent = line.len() - begin.len();
        path.retain(|(above, _)| *above < indent);
        path.push((indent, key));
    }
    path.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".")
}

/// The manifest of a line is kept: it must have no secret in it.
pub(super) fn check_addresses(request: &BenchRequest) -> Result<(), CommandError> {
    let is_bad = targets(&request.target).is_err_and(|error| error.is_of_credentials())
        || request.args.endpoint.as_deref().is_some_and(has_secret_parameter);
    if is_bad { Err(CommandError::Usage(EndpointError::Credentials.to_string())) } else { Ok(()) }
}

pub(super) fn check_files(request: &BenchRequest) -> Result<(), CommandError> {
    let args = &request.args;
    let tls = [("--cacert", &args.cacert), ("--cert", &args.cert), ("--key", &args.key)];
    let tls = tls.map(|(option, file)| (option, file.as_deref().map(Path::new)));
    let files = [("--data", request.data.as_ref().map(|(_, file)| file.as_path()))].into_iter().chain(tls);
    for (option, file) in files.filter_map(|(option, file)| Some((option, file?))) {
        if !is_there(file)? {
            return Err(CommandError::Usage(format!("`{option} {}`: no such file", file.display())));
        }
    }
    let Some(name) = request.args.tokenizer.as_deref().filter(|name| tokenizer(name).is_none()) else {
        return Ok(());
    };
    if is_there(Path::new(name))? {
        return Err(CommandError::Usage(format!("`--tokenizer {name}`: it has no tokenizer.json")));
    }
    if is_path(name) {
        return Err(CommandError::Usage(format!("`--tokenizer {name}`: no such file or folder")));
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
    if let Some(name) = &request.args.api_key_env {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_names_an_option_of_the_line() {
        let command = crate::cli::command();
        let bench = command.find_subcommand("bench").unwrap();
        let is_option = |name: &str| bench.get_arguments().any(|argument| argument.get_long() == Some(name));
        for row in KEYS.iter().filter(|row| row.option.starts_with("--")) {
            for option in row.option.split([',', ' ']).filter_map(|word| word.strip_prefix("--")) {
                assert!(is_option(option), "{}: --{option}", row.key);
            }
        }
    }

    #[test]
    fn a_cure_names_options_and_not_keys() {
        for (text, named) in [
            ("raise `stop`", "raise `--requests` or `--duration`"),
            ("`warmup: 0` leaves it out", "`--warmup 0` leaves it out"),
            ("`extra: { max_tokens: null }` x", "`--extra max_tokens:null` x"),
            ("`request: { length_field: a }`: b", "`--length-field a`: b"),
            ("`output_tokens: { fixed: 128 }`", "`--output-tokens 128`"),
            ("set `limits.failures` or `limits: { failures: 2 }`", "set `--limit failures` or `--limit failures=2`"),
            ("leave out `request.min_length`, `extra.ignore_eos`", "leave out `--min-tokens`, `--ignore-eos`"),
            ("set `model: mini`", "set `--model mini`"),
            ("`data.repeat: true`", "`--repeat-data`"),
            ("`request.streaming: false` asks", "`--no-streaming` asks"),
            ("`tls.ca` names its file", "`--cacert` names its file"),
            ("`offered` of `target`, `max_in_flight`, `request`", "`offered` of `target`, `max_in_flight`, `request`"),
            ("lower `rate\nraise `stop`", "lower `rate\nraise `--requests` or `--duration`"),
        ] {
            assert_eq!(in_options(text), named);
        }
    }

    #[test]
    fn a_line_has_its_key_with_those_above() {
        let text = "regatta: 1\nstages:\n  bench:\n    bench:\n      stop:\n        duration: abc\n      \
            limits:\n        foo: '3'\n";
        assert_eq!(key_at(text, 6), "stages.bench.bench.stop.duration");
        assert_eq!(key_at(text, 8), "stages.bench.bench.limits.foo");
        assert_eq!(key_at(text, 1), "regatta");
    }
}
