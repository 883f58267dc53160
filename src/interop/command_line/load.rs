//! A line of `regatta bench` in the making, out of another load tool's options.

use std::net::Ipv6Addr;

use serde_json::{Map, Value, json};

use super::json_number::number;
use super::options::GivenOption;
use super::translated_bench::{Sweep, TranslatedBench};
use super::translation::{TranslationBuilder, TranslationKind};

use base::spec::{FieldKind, Formula, NumberKind, Quantity, RequestField};
use base::units::unquoted;

/// In the order in which they are written.
const ORDER: [&str; 31] = [
    "--model",
    "--protocol",
    "--endpoint",
    "--api-key-env",
    "--header",
    "--ready-timeout",
    "--connections",
    "--stream",
    "--concurrency",
    "--rate",
    "--sweep",
    "--offline",
    "--trace",
    "--arrivals",
    "--requests",
    "--duration",
    "--measurement-interval",
    "--warmup",
    "--data",
    "--data-kind",
    "--tokenizer",
    "--input-tokens",
    "--input-tokens-stddev",
    "--max-input-len",
    "--output-tokens",
    "--output-tokens-stddev",
    "--ignore-eos",
    "--min-tokens",
    "--temperature",
    "--streaming",
    "--no-streaming",
];

/// Options by Regatta's names, in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslatedLoad {
    target: String,
    options: Vec<(&'static str, Vec<String>)>,
    pub keys: Map<String, Value>,
    sweep: Option<Sweep>,
}

impl TranslatedLoad {
    pub fn target(&mut self, target: impl Into<String>) {
        self.target = target.into();
        // Whether it has a scheme is not known before it has a value.
        if Formula::read(&self.target, NumberKind::Any).is_some() {
            self.keys.insert("target".to_owned(), json!(self.target));
        }
    }

    /// The last one counts.
    pub fn put(&mut self, name: &'static str, value: impl Into<String>) {
        self.options.retain(|(other, _)| *other != name);
        self.options.push((name, vec![value.into()]));
    }

    /// One more of those that may be repeated.
    pub fn add(&mut self, name: &'static str, value: impl Into<String>) {
        self.options.push((name, vec![value.into()]));
    }

    pub fn flag(&mut self, name: &'static str) {
        self.options.retain(|(other, _)| *other != name);
        self.options.push((name, Vec::new()));
    }

    /// Takes an option back.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.options.iter().position(|(other, _)| *other == name)?;
        self.options.remove(at).1.into_iter().next()
    }

    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(other, _)| *other == name)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(other, _)| *other == name)?.1.first().map(String::as_str)
    }

    /// One measurement for each value of a key of `bench:`. The option, where the line has one, is given the first.
    pub fn sweep(
        &mut self,
        option: Option<&'static str>,
        key: &'static str,
        values: Vec<Value>,
        builder: &mut TranslationBuilder,
    ) {
        if let (Some(option), Some(first)) = (option, values.first()) {
            self.put(option, unquoted(first));
        }
        if let (None, [one]) = (option, values.as_slice()) {
            self.keys.insert(key.to_owned(), one.clone());
        }
        if values.len() > 1 {
            if option.is_some() && !values.is_sorted_by(|one, next| one.as_f64() < next.as_f64()) {
                builder.note("the levels of a sweep are measured in ascending order, each once");
            }
            self.sweep = Some(Sweep::new(option, key, values));
        }
    }

    /// A sweep that finds its levels, with this many rates between one user and saturation.
    pub fn sweep_to_saturation(&mut self, rates: u32) {
        self.options.retain(|(name, _)| !["--concurrency", "--rate"].contains(name));
        self.put("--sweep", rates.to_string());
    }

    /// The highest of its levels.
    pub fn highest(&self, option: &str) -> Option<Quantity<u64>> {
        match self.sweep.as_ref().filter(|sweep| sweep.option == Some(option)) {
            Some(sweep) => {
                sweep.values.iter().filter_map(Value::as_f64).reduce(f64::max).map(|users| (users as u64).into())
            }
            None => self.get(option)?.parse().ok(),
        }
    }

    /// Divides its rate, and every rate of its sweep.
    pub fn divide_rate(&mut self, by: f64) {
        let divided = |rate: f64| number((rate / by * 1e6).round() / 1e6);
        match self.get("--rate").and_then(|rate| rate.parse::<Quantity<f64>>().ok()) {
            Some(Quantity::Known(rate)) => self.put("--rate", divided(rate).to_string()),
            Some(rate) => self.put("--rate", rate.combine("/", by, |rate, by| rate / by).to_string()),
            None => {}
        }
        if let Some(sweep) = self.sweep.as_mut().filter(|sweep| sweep.option == Some("--rate")) {
            sweep.values = sweep.values.iter().filter_map(Value::as_f64).map(divided).collect();
        }
    }

    /// A length from `min` to `max`, both included. The line, which has no option for that, is given the mean.
    pub fn length_between(&mut self, key: &'static str, min: &Quantity<u32>, max: &Quantity<u32>) {
        let option = if key == "input_tokens" { "--input-tokens" } else { "--output-tokens" };
        let mean = match (min, max) {
            (Quantity::Known(min), Quantity::Known(max)) => Quantity::Known(min.midpoint(*max) + (min ^ max) % 2),
            _ if min == max => max.clone(),
            _ => min.clone().combine("+", max.clone(), |min, _| min).combine("//", 2_u32, |sum, _| sum),
        };
        self.put(option, mean.to_string());
        if min != max {
            self.keys.insert(key.to_owned(), json!({"uniform": {"min": min, "max": max}}));
        }
    }

    /// Arrivals at the time stamps of the data, `speed` times as fast.
    pub fn trace(&mut self, speed: f64) {
        // Options of another load are none of this one.
        self.options.retain(|(name, _)| !["--concurrency", "--rate", "--arrivals"].contains(name));
        self.sweep = None;
        if (speed - 1.0).abs() > f64::EPSILON {
            self.put("--trace", number(speed).to_string());
        } else {
            self.flag("--trace");
        }
    }

    /// A key of `bench.data`.
    pub fn put_data_key(&mut self, key: &str, value: Value) {
        self.keys.entry("data").or_insert_with(|| json!({}))[key] = value;
    }

    /// A key of `bench.request`.
    pub fn put_request_key(&mut self, key: &str, value: Value) {
        self.keys.entry("request").or_insert_with(|| json!({}))[key] = value;
    }

    /// Over chat the length of an answer is in `max_completion_tokens`: so do AIPerf 0.13.0 (aiperf/endpoints/openai_chat.py), vLLM 0.33.0
    /// (vllm/benchmarks/lib/endpoint_request_func.py), SGLang 0.5.23 (sglang/benchmark/serving.py) and GuideLLM 0.8.1
    /// (guidellm/backends/openai/request_handlers.py). Over completions all have `max_tokens`.
    pub fn limits_completion_tokens(&mut self) {
        if self.get("--protocol") == Some("openai-chat") {
            self.put_request_key("length_field", json!("max_completion_tokens"));
        }
    }

    /// Conversations as the data have them, each turn with the answers that came before it in front.
    pub fn sessions_of_data(&mut self) {
        self.keys.insert("sessions".to_owned(), json!({"turns": "given", "history": "answers"}));
    }

    /// Whether a sweep changes this key.
    pub fn sweeps(&self, key: &str) -> bool {
        self.sweep.as_ref().is_some_and(|sweep| sweep.key == key)
    }

    pub fn is_swept(&self) -> bool {
        self.sweep.is_some()
    }

    pub fn means(self) -> TranslationKind {
        TranslationKind::Bench(self.bench())
    }

    pub fn bench(mut self) -> TranslatedBench {
        let place = |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
        self.options.sort_by_key(|(name, _)| place(name));
        let mut args = vec![self.target];
        for (name, values) in self.options {
            match values.as_slice() {
                // Their value is optional: it stands in the same argument.
                [value] if ["--sweep", "--trace"].contains(&name) => args.push(format!("{name}={value}")),
                _ => {
                    args.push(name.to_owned());
                    args.extend(values);
                }
            }
        }
        let mut bench = TranslatedBench { args, keys: self.keys, sweep: self.sweep };
        bench.put_sweep();
        bench
    }
}

/// `1:4`, `1:4:2` or `8`, ends included, as perf_analyzer and GenAI-Perf write ranges; step 1 where none is given.
pub(crate) fn range(text: &str) -> Option<Vec<Value>> {
    /// A range with more values than this is an error.
    const MOST: usize = 1000;
    let parts: Vec<f64> =
        text.split(':').map(|part| part.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect::<Option<_>>()?;
    let (from, to, step) = match parts.as_slice() {
        [one] => return Some(vec![number(*one)]),
        [from, to] => (*from, *to, 1.0),
        [from, to, step] => (*from, *to, *step),
        _ => return None,
    };
    if step <= 0.0 || to < from || (to - from) / step > MOST as f64 {
        return None;
    }
    let count = ((to - from) / step + 1e-9).floor() as usize;
    Some((0..=count).map(|n| number(from + n as f64 * step)).collect())
}

/// Mean and deviation of a length, which have one option each there and here.
pub(crate) fn length(load: &mut TranslatedLoad, given: &GivenOption) -> bool {
    let name = match given.name {
        "--synthetic-input-tokens-mean" | "--input-mean" => "--input-tokens",
        "--synthetic-input-tokens-stddev" | "--input-stdev" => "--input-tokens-stddev",
        "--output-tokens-mean" | "--output-mean" => "--output-tokens",
        "--output-tokens-stddev" | "--output-stdev" => "--output-tokens-stddev",
        _ => return false,
    };
    // Theirs may be written with a point.
    let whole = !name.ends_with("stddev") && given.value().parse::<f64>().is_ok_and(|n| n.fract() == 0.0);
    let value = if whole { given.value().split('.').next().unwrap_or_default() } else { given.value() };
    if given.value() != "0" || !name.ends_with("stddev") {
        load.put(name, value);
    }
    true
}

/// Further fields of each request. Over HTTP any field is allowed; over gRPC those that have a tensor.
pub(crate) fn extra(load: &mut TranslatedLoad, builder: &mut TranslationBuilder, word: &str, is_http: bool) {
    if let Ok(Value::Object(all)) = serde_json::from_str::<Value>(word) {
        for (name, value) in all {
            extra_field(load, builder, &name, &unquoted(&value), is_http);
        }
        return;
    }
    match word.split_once(':') {
        Some((name, value)) => extra_field(load, builder, name, value, is_http),
        None => extra_field(load, builder, word, "true", is_http),
    }
}

/// A field of requests over OpenAI's interfaces that is a number, where the text does not have it.
fn number_field(name: &str, value: &str) -> Option<Formula> {
    let kind = match RequestField::with_openai_name(name).map(|field| field.kind) {
        Some(FieldKind::Int { .. } | FieldKind::Seed) => NumberKind::Whole,
        Some(FieldKind::Number(_)) => NumberKind::Any,
        None if name == "min_p" => NumberKind::Any,
        _ => return None,
    };
    Formula::read(value, kind)
}

fn extra_field(load: &mut TranslatedLoad, builder: &mut TranslationBuilder, name: &str, value: &str, is_http: bool) {
    match (name, value) {
        ("ignore_eos", "true" | "True" | "1") => load.flag("--ignore-eos"),
        ("ignore_eos", "false" | "False" | "0") => drop(load.remove("--ignore-eos")),
        ("temperature", value) if value.parse::<Quantity<f64>>().is_ok() => load.put("--temperature", value),
        ("min_tokens" | "min_length", value) if !is_http && value.parse::<Quantity<u32>>().is_ok() => {
            load.put("--min-tokens", value);
        }
        ("max_tokens" | "max_completion_tokens", value) if value.parse::<Quantity<u32>>().is_ok() => {
            load.put("--output-tokens", value);
        }
        (name, value) if let Some(formula) = number_field(name, value).filter(|_| is_http) => {
            load.keys.entry("extra").or_insert_with(|| json!({}))[name] = json!(formula.to_string());
        }
        _ if value.contains("{{") => {
            let is_unset = value.starts_with("{{") && value.ends_with("}}") && !value.contains([' ', '"']);
            let why = if is_unset {
                "the text does not set that value: write it in its place"
            } else {
                "`{{` begins an expression in a manifest"
            };
            builder.push_untranslated(format!("--extra-inputs {name}:{value}"), why);
        }
        _ if is_http => load.add("--extra", format!("{name}:{value}")),
        _ => builder.push_untranslated(
            format!("--extra-inputs {name}:{value}"),
            "over gRPC a request has the tensors that `bench.request` names; write the key there, where it has one",
        ),
    }
}

/// `METRIC:MS` of a goodput SLO.
pub(crate) fn goodput(load: &mut TranslatedLoad, builder: &mut TranslationBuilder, given: &GivenOption) {
    // Several may stand in one pair of quotes.
    for word in given.values.iter().flat_map(|values| values.split_whitespace()) {
        let key = match word.split(':').next().unwrap_or_default() {
            "time_to_first_token" | "ttft" => "ttft",
            "inter_token_latency" | "tpot" => "tpot",
            "request_latency" | "e2e" | "e2el" => "e2e",
            other => {
                builder.push_untranslated(
                    format!("{} {word}", given.written),
                    format!("`{other}` is not an SLO of a single request here; those are ttft, tpot and e2e"),
                );
                continue;
            }
        };
        let limit = word.split_once(':').map_or("", |(_, limit)| limit);
        load.add("--goodput", format!("{key}:{limit}"));
    }
}

/// The key of `origin` is read from a variable.
pub(crate) fn api_key(origin: &str, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    load.put("--api-key-env", "API_KEY");
    builder.note(format!("the key of {origin} is read from the environment variable API_KEY; it is not written down"));
}

/// A tokenizer, which is a file here.
pub(crate) fn tokenizer(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    load.put("--tokenizer", given.value());
    builder.note(format!(
        "{} is used where it is a folder or a tokenizer.json here; nothing is downloaded",
        given.as_written()
    ));
}

/// The file that tools download for their data set `sharegpt`; here it must be at hand.
pub(crate) const SHAREGPT_FILE: &str = "ShareGPT_V3_unfiltered_cleaned_split.json";

/// Names a duration that a number of requests stands beside.
pub(crate) fn duration_beside_requests(duration: String, builder: &mut TranslationBuilder) {
    builder.push_untranslated(
        duration,
        "there a run ends with the first of its limits, here after its number of requests",
    );
}

/// Where lengths are counted in tokens: the tokenizer of `model` must be at hand, as a file.
pub(crate) fn needs_tokenizer(model: Option<&str>, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let folder = model.map(std::path::Path::new).filter(|path| path.is_file() || path.join("tokenizer.json").is_file());
    if let (Some(_), Some(model)) = (folder, model) {
        return load.put("--tokenizer", model);
    }
    let of = model.map_or_else(|| "the model".to_owned(), str::to_owned);
    let marker = builder.require_written("tokenizer_path", format!("the tokenizer.json of {of}"));
    load.put("--tokenizer", marker.clone());
    load.keys.insert("tokenizer".to_owned(), json!(marker));
    builder.note(format!(
        "answers are as long as the recorded ones, counted in tokens of {of}: give its tokenizer.json, nothing is downloaded"
    ));
}

/// A whole number for a key of `bench:`.
pub(crate) fn whole(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder, key: &str) {
    match given.number::<u32>() {
        Some(number) if number != Quantity::Known(0) => {
            load.keys.insert(key.to_owned(), json!(number));
        }
        _ => builder.push_error(format!("`{}`: a whole number from 1 on", given.as_written())),
    }
}

/// A rate that may be `inf`, and a limit of requests in flight, as vLLM and SGLang have them: all at once; as many users as
/// the limit; or a rate at which arrivals beyond the limit wait.
pub(crate) fn rate_and_limit(
    rate: Option<&str>,
    limit: Option<&GivenOption>,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) {
    let rate = rate.filter(|rate| !["inf", "infinity"].contains(&rate.to_lowercase().as_str()));
    match (rate, limit) {
        (None, None) => load.put("--rate", "-1"),
        (None, Some(limit)) => load.put("--concurrency", limit.value()),
        (Some(rate), limit) => {
            load.put("--rate", rate);
            if let Some(limit) = limit {
                whole(limit, load, builder, "max_in_flight");
            }
        }
    }
}

/// Gaps of a gamma distribution. `burstiness` is its shape: 1 is Poisson, above it is more even.
pub(crate) fn burstiness(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    match given.number::<f64>() {
        Some(Quantity::Known(shape)) if (shape - 1.0).abs() < f64::EPSILON => {}
        Some(Quantity::Known(shape)) if shape > 0.0 && shape.is_finite() => {
            let cv = (1e4 / shape.sqrt()).round() / 1e4;
            load.keys.insert("arrivals".to_owned(), json!({"gamma": {"cv": number(cv)}}));
        }
        Some(shape @ Quantity::Unknown(_)) => {
            let cv = shape.combine("**", -0.5, f64::powf);
            load.keys.insert("arrivals".to_owned(), json!({"gamma": {"cv": cv}}));
        }
        _ => builder.push_error(format!("`{}`: a number above 0", given.as_written())),
    }
}

/// A server by its host and port. An IPv6 address has brackets in a URL; one that stands for all addresses of a machine is its own.
pub(crate) fn host_and_port(host: &str, port: &str) -> String {
    match host {
        "::" => format!("[::1]:{port}"),
        _ if host.parse::<Ipv6Addr>().is_ok() => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

/// OpenAI's interfaces by their protocol, with the path that servers and tools usually have for it.
pub(crate) const CHAT: (&str, &str) = ("openai-chat", "/v1/chat/completions");
pub(crate) const COMPLETIONS: (&str, &str) = ("openai-completions", "/v1/completions");

/// The server and the path of requests, of a base URL and a path behind it. The path is only given where it is not the usual
/// one of the protocol.
pub(crate) fn address(base: &str, path: &str, usual: &str, load: &mut TranslatedLoad) {
    let (server, prefix) = server_and_prefix(base);
    load.target(server);
    let whole = format!("{prefix}/{}", path.trim_start_matches('/'));
    if whole != usual {
        load.put("--endpoint", whole);
    }
}

/// Like `address`, for several base URLs, and as AIPerf 0.13.0 joins them with the path (`_dedup_path_overlap` in
/// aiperf/transports/aiohttp_transport.py): what ends a base URL and begins the path, stands once.
pub(crate) fn overlapping_address(
    bases: &[&str],
    path: &str,
    usual: &str,
    load: &mut TranslatedLoad,
    builder: &mut TranslationBuilder,
) {
    let (servers, mut paths): (Vec<&str>, Vec<String>) = bases
        .iter()
        .map(|base| {
            let (server, prefix) = server_and_prefix(base);
            (server, joined_once(prefix, path))
        })
        .unzip();
    load.target(servers.join("|"));
    paths.dedup();
    match paths.as_slice() {
        [whole] if whole == usual => {}
        [whole] => load.put("--endpoint", whole.as_str()),
        several => builder.push_error(format!(
            "the paths of its URLs differ, {}: one benchmark has one path",
            several.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(" and ")
        )),
    }
}

fn server_and_prefix(base: &str) -> (&str, &str) {
    let base = base.trim_end_matches('/');
    let behind_scheme = base.find("://").map_or(0, |at| at + 3);
    let cut = base[behind_scheme..].find('/').map_or(base.len(), |at| behind_scheme + at);
    base.split_at(cut)
}

fn joined_once(prefix: &str, path: &str) -> String {
    let path = path.trim_start_matches('/');
    if prefix.ends_with(&format!("/{path}")) {
        return prefix.to_owned();
    }
    let path = if prefix.ends_with("/v1") { path.strip_prefix("v1/").unwrap_or(path) } else { path };
    format!("{prefix}/{path}")
}

/// How long a server that is still loading is waited for, in seconds. 0: it has to be ready.
pub(crate) fn ready_timeout(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let value = given.value();
    match value.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => load.put("--ready-timeout", format!("{value}s")),
        Ok(0.0) => builder.push_untranslated(given.as_written(), "without `ready_timeout` a server has to be ready"),
        _ if value.starts_with("{{") => {
            load.keys.insert("ready_timeout".to_owned(), json!(format!("{value}s")));
        }
        _ => builder.push_error(format!("`{}`: a number of seconds", given.as_written())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of AIPerf's own docstring, and a prefix.
    #[test]
    fn what_ends_a_base_url_and_begins_a_path_stands_once() {
        let usual = CHAT.1;
        for (prefix, path, whole) in [
            ("", usual, usual),
            ("/v1", usual, usual),
            (usual, usual, usual),
            ("/api/llm", usual, "/api/llm/v1/chat/completions"),
            ("/api/llm/v1", usual, "/api/llm/v1/chat/completions"),
            ("/api/llm/v1", "custom", "/api/llm/v1/custom"),
        ] {
            assert_eq!(joined_once(prefix, path), whole, "{prefix} {path}");
        }
    }

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!(range("8"), Some(vec![json!(8)]));
        assert_eq!(range("1:4"), Some(vec![json!(1), json!(2), json!(3), json!(4)]));
        assert_eq!(range("10:40:15"), Some(vec![json!(10), json!(25), json!(40)]));
        assert_eq!(range("0.5:1.5:0.5"), Some(vec![json!(0.5), json!(1), json!(1.5)]));
        for bad in ["", "a", "4:1", "1:2:0", "1:2:3:4", "1:1e9", "nan"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
