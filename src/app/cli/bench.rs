//! Interprets the arguments of `regatta bench`, including those of other tools.

use std::path::PathBuf;

use clap::error::ErrorKind;
use serde_json::{Map, Value};

use super::bench_args::{BackendWord, BenchArgs, DataWord, EndpointWord, ServedWord, ServiceWord};
use super::values::{ArgumentError, invalid_value, read_as};
use base::diag::ErrorText;
use base::spec::{BenchSweep, Quantity, RequestHeaders, SweepLevels};

/// One benchmark of one target, without a manifest: the options, and what several of them mean together.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRequest {
    pub args: BenchArgs,
    /// As given, with the scheme that follows from the other options.
    pub target: String,
    /// `--program`, split as a shell splits it; empty: the engine's usual one.
    pub program: Vec<String>,
    /// A value of the manifest's `bench.protocol`; `None`: that of the target.
    pub protocol: Option<&'static str>,
    /// Without keys: these are in `keys`.
    pub headers: RequestHeaders,
    /// Environment variables that headers name, with the values that the line has for them.
    pub keys: Vec<(String, String)>,
    pub load: BenchLoad,
    pub requests: Option<Quantity<u64>>,
    pub duration: Option<String>,
    /// A key of the manifest's `bench.data`, and the file.
    pub data: Option<(&'static str, PathBuf)>,
    /// `None`: as the data are.
    pub input: Option<TokenLength>,
    pub output: Option<TokenLength>,
    pub extra: Map<String, Value>,
    /// Keys of `limits` with their values.
    pub limits: Vec<(String, String)>,
    /// Each key of the manifest's `bench.slo`, with its milliseconds.
    pub slo: Vec<(&'static str, Quantity<f64>)>,
    /// What was given and means nothing here, in sentences.
    pub notices: Vec<String>,
}

impl BenchRequest {
    /// `None`: as the server and the target have it.
    pub const fn streaming(&self) -> Option<bool> {
        match (self.args.streaming, self.args.no_streaming) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum BenchLoad {
    /// Closed loop: users.
    Concurrency(Quantity<u32>),
    /// Open loop: requests per second.
    Rate(Quantity<f64>),
    Offline,
    /// Several levels, one after the other.
    Sweep(BenchSweep),
    /// The data at their time stamps, this many times as fast.
    Trace(f64),
}

/// A length in tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLength {
    pub mean: Quantity<u32>,
    pub stddev: Quantity<f64>,
    pub max: Option<Quantity<u32>>,
}

/// `--program`, split as a shell splits it.
fn program(text: &str) -> Result<Vec<String>, ArgumentError> {
    let open = || {
        (
            ErrorKind::InvalidValue,
            ErrorText::new(format!("`--program {text}`: a quote is not closed"))
                .hint("close it, or write `\\` before it")
                .to_string(),
        )
    };
    shlex::split(text).ok_or_else(open)
}

impl BenchRequest {
    /// What the options mean together.
    pub(super) fn from_args(mut args: BenchArgs) -> Result<Self, ArgumentError> {
        let given_target = take_target(&mut args);
        let protocol = protocol(&args)?;
        let Some(given_target) = given_target else {
            return Err((
                ErrorKind::MissingRequiredArgument,
                ErrorText::new("no TARGET was given").hint("`regatta bench sim:` tries it without a server").into(),
            ));
        };
        let program = server_program(&args)?;
        let target = target(given_target, args.serve.is_some(), protocol)?;
        check_tls_target(&args, &target)?;
        let data = data(&args)?;
        let kind = data.as_ref().map(|(kind, _)| *kind);
        let is_first_try = is_first_try(&args, &target);
        let load = if is_first_try { BenchLoad::Concurrency(Quantity::Known(16)) } else { load(&args, kind)? };
        let (requests, duration) = end(&args, &load, is_first_try);
        let (input, output) = lengths(&args)?;
        if args.repeat_data && matches!(load, BenchLoad::Trace(_)) {
            return invalid_value(
                "a trace is sent once, at its time stamps: `--repeat-data` needs another load, such as `--rate`",
            );
        }
        let mut headers = headers(&args.header)?;
        let keys = headers.take_secrets();
        let limits = args.limit.iter().map(|text| limit(text)).collect::<Result<Vec<_>, _>>()?;
        check_limits(&args, &limits)?;
        Ok(Self {
            notices: notices(&args, &load, kind),
            target,
            program,
            protocol,
            headers,
            keys,
            load,
            requests,
            duration,
            data,
            input,
            output,
            extra: extra(&args.extra)?,
            limits,
            slo: args.goodput.iter().map(|argument| parse_goodput_limit(argument)).collect::<Result<_, _>>()?,
            args,
        })
    }
}

read_as!(BenchRequest: BenchArgs);

fn headers(given: &[String]) -> Result<RequestHeaders, ArgumentError> {
    let mut headers = RequestHeaders::default();
    for text in given {
        if let Err(fault) = headers.add(text) {
            // The value may be a key.
            let name = text.split([':', '=']).next().unwrap_or_default();
            return invalid_value(format!("`--header {name}` {fault}"));
        }
    }
    Ok(headers)
}

/// `--goodput` takes arguments up to the next option: a TARGET behind it is the last of them.
fn take_target(args: &mut BenchArgs) -> Option<String> {
    if args.target.is_none() && args.url.is_none() {
        return args.goodput.pop_if(|word| metric(word.split(':').next().unwrap_or_default()).is_none());
    }
    args.target.clone().or_else(|| args.url.clone())
}

/// The command that `--serve` starts, or why it cannot be started as requested.
fn server_program(args: &BenchArgs) -> Result<Vec<String>, ArgumentError> {
    let program = args.program.as_deref().map(program).transpose()?.unwrap_or_default();
    let is_command = args.serve.is_some_and(|engine| engine.action() == "command");
    if is_command && args.copies > 1 {
        return invalid_value("`--copies` is for vllm and trtllm-serve; of another engine one server is started");
    }
    if args.serve == Some(ServedWord::TrtllmServe) && program.len() > 1 {
        return invalid_value("`--program` of trtllm-serve is one program, such as /opt/bin/trtllm-serve");
    }
    Ok(program)
}

/// Of the simulator, with no load given: some seconds, and more than one request at a time.
fn is_first_try(args: &BenchArgs, target: &str) -> bool {
    let has_load = args.concurrency.is_some() || args.rate.is_some() || args.offline || args.sweep.is_some();
    let has_end = args.requests.is_some() || args.duration.is_some() || args.measurement_interval.is_some();
    target.starts_with("sim:") && !has_load && !has_end && args.data.is_none()
}

/// The number of requests and the duration, as given or as the load needs them.
fn end(args: &BenchArgs, load: &BenchLoad, is_first_try: bool) -> (Option<Quantity<u64>>, Option<String>) {
    let has_data = args.data.is_some();
    let duration = args.duration.clone().or_else(|| args.measurement_interval.as_ref().map(|ms| format!("{ms}ms")));
    // The same time for each level: a count that suits one level does not suit another.
    let needs_time = matches!(load, BenchLoad::Sweep(_)) && args.requests.is_none() && !has_data;
    let duration = duration.or_else(|| needs_time.then(|| "30s".to_owned()));
    let needs_count = !has_data && (duration.is_none() || *load == BenchLoad::Offline);
    let usual = if is_first_try { 32 } else { 100 };
    (args.requests.clone().or_else(|| needs_count.then_some(Quantity::Known(usual))), duration)
}

/// The lengths of prompts and of answers; `None`: as the data are.
fn lengths(args: &BenchArgs) -> Result<(Option<TokenLength>, Option<TokenLength>), ArgumentError> {
    let has_data = args.data.is_some();
    let length = |mean: &Option<Quantity<u32>>, usual: u32, stddev: &Quantity<f64>, max: Option<Quantity<u32>>| {
        let mean = mean.clone().or_else(|| (!has_data).then_some(Quantity::Known(usual)))?;
        Some(TokenLength { mean, stddev: stddev.clone(), max })
    };
    let input = length(&args.input_tokens, 550, &args.input_tokens_stddev, args.max_input_len.clone());
    let output = length(&args.output_tokens, 128, &args.output_tokens_stddev, None);
    for (name, stddev) in [("input", &args.input_tokens_stddev), ("output", &args.output_tokens_stddev)] {
        if stddev.known().is_some_and(|stddev| !stddev.is_finite() || *stddev < 0.0) {
            return invalid_value(format!("`--{name}-tokens-stddev {stddev}` must be 0 or more"));
        }
    }
    // A limit of data leaves records out.
    let is_below = |TokenLength { mean, max, .. }: &TokenLength| {
        max.as_ref().and_then(Quantity::known).zip(mean.known()).is_some_and(|(most, mean)| most < mean)
    };
    if !has_data && input.as_ref().is_some_and(is_below) {
        return invalid_value("`--max-input-len` is below the mean `--input-tokens`");
    }
    Ok((input, output))
}

/// A limit of the goodput needs an SLO.
fn check_limits(args: &BenchArgs, limits: &[(String, String)]) -> Result<(), ArgumentError> {
    let has = |wanted: &str| limits.iter().any(|(key, _)| key == wanted);
    let has_slo = !args.goodput.is_empty() || args.ttft_p99.is_some() || args.tpot_p99.is_some();
    if has("goodput") && !has_slo && !has("ttft_p99") && !has("tpot_p99") {
        return invalid_value(
            ErrorText::new("`--limit goodput=…` needs the SLO of each request")
                .hint("`--goodput ttft:450 tpot:40`, in ms"),
        );
    }
    Ok(())
}

/// `data`: what kind of data there are.
fn load(args: &BenchArgs, data: Option<&str>) -> Result<BenchLoad, ArgumentError> {
    if let Some(speed) = args.trace {
        if !(speed.is_finite() && speed > 0.0) {
            return invalid_value(format!("`--trace={speed}`: the speed must be above 0"));
        }
        return Ok(BenchLoad::Trace(speed));
    }
    if let Some(rates) = args.sweep {
        return Ok(BenchLoad::Sweep(BenchSweep::Auto(rates)));
    }
    let checked = |levels: &SweepLevels, is_whole: bool, option: &str| {
        levels.ascending(is_whole).or_else(|error| invalid_value(format!("`{option}`: {error}")))
    };
    match &args.concurrency {
        Some(Quantity::Unknown(users)) => return Ok(BenchLoad::Concurrency(Quantity::Unknown(users.clone()))),
        Some(Quantity::Known(users)) => {
            return Ok(match checked(users, true, "--concurrency")?.as_slice() {
                [one] => BenchLoad::Concurrency((*one as u32).into()),
                _ => BenchLoad::Sweep(BenchSweep::Concurrency(users.clone())),
            });
        }
        None => {}
    }
    match &args.rate {
        Some(Quantity::Unknown(rate)) => Ok(BenchLoad::Rate(Quantity::Unknown(rate.clone()))),
        Some(Quantity::Known(SweepLevels::List(rates)))
            if rates.len() == 1 && rates.iter().all(|rate| (rate + 1.0).abs() < f64::EPSILON) =>
        {
            Ok(BenchLoad::Offline)
        }
        Some(Quantity::Known(SweepLevels::List(rates)))
            if rates.len() == 1 && rates.iter().all(|rate| !rate.is_finite() || *rate <= 0.0) =>
        {
            let rate = rates.first().copied().unwrap_or_default();
            invalid_value(format!("`--rate {rate}`: requests per second must be above 0; -1 is all at once"))
        }
        Some(Quantity::Known(rates)) => Ok(match checked(rates, false, "--rate")?.as_slice() {
            [one] => BenchLoad::Rate((*one).into()),
            _ => BenchLoad::Sweep(BenchSweep::Rate(rates.clone())),
        }),
        None if args.offline => Ok(BenchLoad::Offline),
        None if data == Some("mooncake") => Ok(BenchLoad::Trace(1.0)),
        // As GenAI-Perf has it.
        None => Ok(BenchLoad::Concurrency(Quantity::Known(1))),
    }
}

/// With the scheme that follows from the protocol. `is_model`: it is the model of a server that is started.
fn target(given: String, is_model: bool, protocol: Option<&str>) -> Result<String, ArgumentError> {
    let has_scheme = given.contains("://");
    if is_model && has_scheme {
        return invalid_value(format!("`--serve` starts a server for a model, and `{given}` is the address of one"));
    }
    let is_http = protocol.is_some_and(|protocol| protocol != "kserve");
    let needs_scheme = is_http && !is_model && !has_scheme && !given.starts_with("sim:");
    Ok(if needs_scheme { format!("http://{given}") } else { given })
}

/// The protocol that is given, or that follows from GenAI-Perf's options.
fn protocol(args: &BenchArgs) -> Result<Option<&'static str>, ArgumentError> {
    let protocol = args.protocol;
    let is_url = args.target.as_ref().or(args.url.as_ref()).is_some_and(|given| given.contains("://"));
    let theirs = match (args.service_kind, args.endpoint_type) {
        // `vllm bench` has a `--backend`, too, and is given the URL of an OpenAI server.
        (None, None) => args.backend.filter(|backend| !(is_url && *backend == BackendWord::Vllm)).map(|_| "kserve"),
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
    match (protocol, theirs) {
        (Some(protocol), Some(theirs)) if protocol != theirs => {
            invalid_value(format!("`--protocol {protocol}` contradicts the other options, which mean `{theirs}`"))
        }
        _ => Ok(protocol.or(theirs)),
    }
}

fn check_tls_target(args: &BenchArgs, target: &str) -> Result<(), ArgumentError> {
    let options = [(args.insecure, "--insecure"), (args.cacert.is_some(), "--cacert"), (args.cert.is_some(), "--cert")];
    match options.into_iter().find_map(|(is_given, option)| is_given.then_some(option)) {
        Some(option) if !target.starts_with("https://") => invalid_value(
            ErrorText::new(format!("`{option}` requires an `https://` target"))
                .hint("`https://HOST:PORT/v1` is OpenAI's interface with TLS"),
        ),
        _ => Ok(()),
    }
}

/// What the file is, by its kind or by its name.
fn data(args: &BenchArgs) -> Result<Option<(&'static str, PathBuf)>, ArgumentError> {
    let Some(file) = &args.data else { return Ok(None) };
    let kind = match (args.data_kind, file.extension().and_then(|suffix| suffix.to_str())) {
        (Some(DataWord::Jsonl), _) | (None, Some("jsonl")) => "jsonl",
        (Some(DataWord::Sharegpt), _) | (None, Some("json")) => "sharegpt",
        (Some(DataWord::InputIds), _) | (None, Some("npy")) => "input_ids",
        (Some(DataWord::Mooncake), _) => "mooncake",
        (Some(DataWord::Plan), _) => "plan",
        (None, suffix) => {
            let reason = match suffix {
                _ if file.is_dir() => "it is a folder; name a file in it",
                _ if !file.exists() => "no such file",
                Some("gz" | "bz2" | "xz" | "zst" | "zip") => "it is compressed; unpack it first",
                Some("txt" | "csv" | "tsv") => {
                    "it is plain text; `jq -Rc . FILE > FILE.jsonl` makes a prompt of each line; JSON needs --data-kind"
                }
                Some("parquet" | "arrow" | "xlsx") => "tables are not supported; save a line of JSON for each row",
                _ => "its name does not show its format; add --data-kind",
            };
            return invalid_value(format!("`--data {}`: {reason}", file.display()));
        }
    };
    Ok(Some((kind, file.clone())))
}

/// `NAME:VALUE`, where the value is JSON or else a text; or a JSON object.
fn extra(words: &[String]) -> Result<Map<String, Value>, ArgumentError> {
    let mut fields = Map::new();
    for word in words {
        if word.trim_start().starts_with('{') {
            match serde_json::from_str(word) {
                Ok(Value::Object(more)) => fields.extend(more),
                Ok(_) => return invalid_value(format!("`--extra {word}` is not a JSON object")),
                Err(error) => return invalid_value(format!("`--extra {word}`: {error}")),
            }
            continue;
        }
        let Some((name, value)) = word.split_once(':') else {
            return invalid_value(format!("`--extra {word}` is not NAME:VALUE"));
        };
        fields.insert(name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)));
    }
    if let Some(text) = fields.values().find_map(|value| value.as_str().filter(|text| text.contains("{{"))) {
        return invalid_value(format!("`--extra …:{text}`: `{{{{` begins an expression in a manifest"));
    }
    Ok(fields)
}

/// Ours, for it or for the name that GenAI-Perf or vLLM has for it.
fn metric(name: &str) -> Option<&'static str> {
    match name {
        "ttft" | "time_to_first_token" => Some("ttft"),
        "tpot" | "inter_token_latency" => Some("tpot"),
        "e2e" | "e2el" | "request_latency" => Some("e2e"),
        _ => None,
    }
}

/// `KEY=LIMIT`; the manifest checks whether the key exists.
fn limit(text: &str) -> Result<(String, String), ArgumentError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.contains("{{") => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => invalid_value(format!("`--limit {text}` is not KEY=LIMIT, such as `e2e_p95=9s` or `failures=0.5%`")),
    }
}

fn parse_goodput_limit(word: &str) -> Result<(&'static str, Quantity<f64>), ArgumentError> {
    let Some((name, ms)) = word.split_once(':') else {
        return invalid_value(format!("`--goodput {word}` is not METRIC:MS"));
    };
    let Some(key) = metric(name) else {
        return invalid_value(format!("`--goodput {name}`: the metrics are ttft, tpot and e2e"));
    };
    let is_limit = |ms: &Quantity<f64>| ms.known().is_none_or(|ms| ms.is_finite() && *ms > 0.0);
    match ms.parse::<Quantity<f64>>().ok().filter(is_limit) {
        Some(ms) => Ok((key, ms)),
        None => invalid_value(format!("`--goodput {word}`: `{ms}` is not a number of milliseconds")),
    }
}

/// Notices for options that have no effect with this load or with the other options. `data`: the kind of data that the
/// requests use.
fn notices(args: &BenchArgs, load: &BenchLoad, data: Option<&str>) -> Vec<String> {
    let mut notices = Vec::new();
    let mut note = |is_given: bool, text: &str| {
        if is_given {
            notices.push(text.to_owned());
        }
    };
    note(
        args.num_prompts.is_some(),
        "--num-prompts is not used: every request has a prompt of its own, as with GenAI-Perf's number of them; \
         `-n N` is the number of requests, as vLLM means it",
    );
    note(
        args.stability_percentage.is_some(),
        "--stability-percentage is not used: the run ends with its requests or its duration, and the result reports \
         whether it was steady",
    );
    note(
        args.backend == Some(BackendWord::Vllm),
        "--backend is not needed: the model's tensors are read from the server",
    );
    let is_genai_perfs = args.service_kind.is_some() || args.backend.is_some() || args.endpoint_type.is_some();
    note(
        is_genai_perfs && matches!(load, BenchLoad::Rate(_)) && args.arrivals.is_none(),
        "arrivals at a rate are Poisson here and equally spaced in GenAI-Perf: `--arrivals constant` is its law",
    );
    let is_spread = |stddev: &Quantity<f64>| *stddev != Quantity::Known(0.0);
    let (has_data, is_replay) = (data.is_some(), data == Some("plan"));
    let has_rate = match load {
        BenchLoad::Rate(_) => true,
        BenchLoad::Sweep(sweep) => !matches!(sweep, BenchSweep::Concurrency(_)),
        BenchLoad::Concurrency(_) | BenchLoad::Offline | BenchLoad::Trace(_) => false,
    };
    let has_duration = args.duration.is_some() || args.measurement_interval.is_some();
    note(
        has_data && (args.input_tokens.is_some() || is_spread(&args.input_tokens_stddev)),
        "--input-tokens and its deviation are not used: prompts come from --data and keep their lengths",
    );
    note(
        has_data && args.output_tokens.is_none() && is_spread(&args.output_tokens_stddev),
        "--output-tokens-stddev is not used: without --output-tokens answers are as long as the data have it",
    );
    note(has_data && args.prompt_source.is_some(), "--prompt-source is not used: prompts come from --data");
    note(
        is_replay && (args.output_tokens.is_some() || args.max_input_len.is_some() || args.repeat_data),
        "--output-tokens, --max-input-len and --repeat-data are not used: a plan's requests are sent as they are, once",
    );
    note(
        is_replay && (args.requests.is_some() || has_duration),
        "--requests and --duration are not used: all requests of the plan are sent",
    );
    note(
        args.repeat_data && !is_replay && args.requests.is_none() && !has_duration,
        "--repeat-data is not used: without --requests or --duration each record is sent once",
    );
    note(
        args.arrivals.is_some() && !has_rate,
        "--arrivals is not used: only a load at a --rate has a distribution of arrivals",
    );
    note(*load == BenchLoad::Offline && has_duration, "--duration is not used: all requests are sent at once");
    notices
}

#[cfg(test)]
mod tests;
