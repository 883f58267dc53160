//! Options that several load tools have in the same form: what each sets of a measurement here.

use std::fmt::Display;
use std::path::Path;

use serde_json::{Value, json};

use super::load::TranslatedLoad;
use super::options::{GivenOption, ParsedLine};
use super::translation::number;
use base::spec::{
    AUTHORIZATION, FieldKind, Formula, HeaderFault, NumberKind, Quantity, RequestField, RequestHeaders,
    is_secret_header, secret_variable,
};
use base::units::{is_identifier, unquoted};

/// OpenAI's interfaces by their protocol, with the path that servers and tools usually have for it.
pub(crate) const CHAT: (&str, &str) = ("openai-chat", "/v1/chat/completions");
pub(crate) const COMPLETIONS: (&str, &str) = ("openai-completions", "/v1/completions");

/// What is read of a file of bodies.
pub(crate) const WHOLE_REQUESTS: &str = "a line of the file is a whole request as a JSON object, and is sent as it is; \
    write one that is a text or a list as {\"prompt\": …} or {\"messages\": …}";

/// The file that tools download for their data set `sharegpt`; here it must be at hand.
pub(crate) const SHAREGPT_FILE: &str = "ShareGPT_V3_unfiltered_cleaned_split.json";

/// Lengths, requests and headers.
impl TranslatedLoad {
    /// A mean or a deviation of a length. Tools may write a whole number with a point; a deviation of 0 is dropped.
    pub fn length(&mut self, key: &'static str, value: &str) {
        let is_deviation = key.ends_with("stddev");
        let is_whole = !is_deviation && value.parse::<f64>().is_ok_and(|n| n.fract() == 0.0);
        if value != "0" || !is_deviation {
            self.put(key, if is_whole { value.split('.').next().unwrap_or_default() } else { value });
        }
    }

    /// One level or length; of several, with commas between them or as values of their own, each is a measurement.
    pub fn level(&mut self, key: &'static str, given: &GivenOption) -> bool {
        let parts: Vec<&str> = given.values.iter().flat_map(|value| value.split(',')).map(str::trim).collect();
        match parts.as_slice() {
            [level] if key.ends_with("_tokens") => self.length(key, level),
            [level] => self.put(key, *level),
            levels => match levels.iter().map(|level| level.parse().ok().map(number)).collect::<Option<Vec<_>>>() {
                Some(_) if self.is_swept() => self.builder.push_untranslated_load(
                    given,
                    "one key of a sweep is read, the first; `foreach` of a stage takes several",
                ),
                Some(values) => self.sweep(key, values),
                None => self.builder.push_error(format!("`{given}`: numbers with commas between them")),
            },
        }
        true
    }

    /// A whole number for a key of `bench:`.
    pub fn whole(&mut self, key: &str, given: &GivenOption) {
        match given.number::<u32>() {
            Some(number) if number != Quantity::Known(0) => self.set(key, json!(number)),
            _ => self.builder.push_error(format!("`{given}`: a whole number of at least 1")),
        }
    }

    /// Further fields of each request. Over HTTP any field is allowed; over gRPC those that have a tensor.
    pub fn extra(&mut self, word: &str, is_http: bool) {
        if let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(word) {
            for (name, value) in fields {
                let text = unquoted(&value);
                // A text that would be read as a number or a list keeps its quotes.
                let is_ambiguous = value.is_string() && serde_json::from_str::<Value>(&text).is_ok();
                self.extra_field(&name, &if is_ambiguous { value.to_string() } else { text }, is_http);
            }
            return;
        }
        let (name, value) = word.split_once(':').unwrap_or((word, "true"));
        self.extra_field(name, value, is_http);
    }

    fn extra_field(&mut self, name: &str, value: &str, is_http: bool) {
        match (name, value) {
            ("ignore_eos", "true" | "True" | "1") => self.flag("extra.ignore_eos"),
            ("ignore_eos", "false" | "False" | "0") => drop(self.remove("extra.ignore_eos")),
            ("temperature", value) if value.parse::<Quantity<f64>>().is_ok() => self.put("request.temperature", value),
            ("min_tokens" | "min_length", value) if !is_http && value.parse::<Quantity<u32>>().is_ok() => {
                self.put("request.min_length", value);
            }
            ("max_tokens" | "max_completion_tokens", value) if value.parse::<Quantity<u32>>().is_ok() => {
                self.put("output_tokens", value);
            }
            (name, value) if let Some(formula) = number_field(name, value).filter(|_| is_http) => {
                self.keys.entry("extra").or_insert_with(|| json!({}))[name] = json!(formula.to_string());
            }
            _ if value.contains("{{") => {
                let is_unset = value.starts_with("{{") && value.ends_with("}}") && !value.contains([' ', '"']);
                let reason = if is_unset {
                    "the text does not set that value: write it in its place"
                } else {
                    "`{{` begins an expression in a manifest"
                };
                self.builder.push_untranslated_load(format!("--extra-inputs {name}:{value}"), reason);
            }
            _ if is_http => self.add("extra", format!("{name}:{value}")),
            _ => self.builder.push_untranslated_load(
                format!("--extra-inputs {name}:{value}"),
                "over gRPC a request has the tensors that `bench.request` names; write the key there, where it has one",
            ),
        }
    }

    /// `NAME:VALUE` or `NAME=VALUE` of each header, or all as JSON. A key belongs into the environment, and nowhere
    /// else.
    pub fn headers(&mut self, given: &GivenOption) {
        for word in &given.values {
            match serde_json::from_str::<Value>(word) {
                Ok(Value::Object(headers)) => headers.iter().for_each(|(name, value)| {
                    self.header(&given.written, &format!("{name}:{}", unquoted(value)));
                }),
                _ => self.header(&given.written, word),
            }
        }
    }

    /// A header of every request. What the harness sends by itself is left out.
    pub fn header(&mut self, origin: &str, word: &str) {
        let name = word.split([':', '=']).next().unwrap_or_default().trim();
        let value = word.get(name.len()..).unwrap_or_default().trim_start_matches([' ', ':', '=']);
        let is_bearer = value.to_ascii_lowercase().starts_with("bearer ");
        if name.eq_ignore_ascii_case(AUTHORIZATION) && is_bearer {
            return self.api_key("`Authorization: Bearer`", &value["bearer ".len()..]);
        }
        if ["content-type", "accept"].iter().any(|usual| name.eq_ignore_ascii_case(usual)) {
            return;
        }
        if let Err(fault) = RequestHeaders::default().add(word) {
            let shown = format!("{origin} {name}:…");
            return match fault {
                HeaderFault::Reserved => self.builder.push_untranslated(shown, "the harness sets that header itself"),
                fault => self.builder.push_error(format!("`{shown}` {fault}")),
            };
        }
        if is_secret_header(name) && !value.is_empty() {
            let variable = named_variable(value).unwrap_or_else(|| secret_variable(name));
            self.add("request.headers", format!("{name}:${{{variable}}}"));
            self.builder.note(format!(
                "the value of the header {name} is read from the environment variable {variable}; it is not written \
                    down"
            ));
        } else if value.contains("{{") {
            // A value that the text does not have is one of the manifest's.
            self.keys.entry("request").or_insert_with(|| json!({}))["headers"][name] = json!(value);
        } else {
            self.add("request.headers", format!("{name}:{value}"));
        }
    }

    /// The key of `origin` is read from a variable: the one that the line names in its place, or `API_KEY`.
    pub fn api_key(&mut self, origin: &str, written: &str) {
        let variable = named_variable(written).unwrap_or_else(|| "API_KEY".to_owned());
        let note =
            format!("the key of {origin} is read from the environment variable {variable}; it is not written down");
        self.put("api_key_env", variable);
        self.builder.note(note);
    }

    /// `METRIC:MS` of a goodput SLO.
    pub fn goodput(&mut self, given: &GivenOption) {
        // Several may stand in one pair of quotes.
        for word in given.values.iter().flat_map(|values| values.split_whitespace()) {
            let (metric, limit) = word.split_once(':').unwrap_or((word, ""));
            let slo = match metric {
                "time_to_first_token" | "ttft" => "ttft",
                "inter_token_latency" | "tpot" => "tpot",
                "request_latency" | "e2e" | "e2el" => "e2e",
                other => {
                    self.builder.push_untranslated(
                        format!("{} {word}", given.written),
                        format!("`{other}` is not an SLO of a single request in Regatta; those are ttft, tpot and e2e"),
                    );
                    continue;
                }
            };
            self.add("slo", format!("{slo}:{limit}"));
        }
    }

    /// A tokenizer, which is a file here.
    pub fn tokenizer(&mut self, name: &str, written: impl Display) {
        self.put("tokenizer", name);
        if !Path::new(name).exists() {
            self.builder.note(format!(
                "{written} is used if it is a folder or a tokenizer.json on this machine; nothing is downloaded"
            ));
        }
    }

    /// Where prompts are made up as texts, and the line has no tokenizer, the tool takes the one of the model.
    pub fn default_tokenizer(&mut self, model: Option<&str>) {
        let is_openai = self.get("protocol").is_some_and(|protocol| protocol.starts_with("openai"));
        let sends_ids = self.keys.get("request").is_some_and(|request| !request["interface"].is_null());
        if !is_openai || sends_ids || self.has("tokenizer") || self.has("data") {
            return;
        }
        let model = model.or(self.get("model")).unwrap_or("the model").to_owned();
        if has_tokenizer(&model) {
            return self.put("tokenizer", model);
        }
        self.builder.note(format!(
            "left to Regatta's default: no tokenizer; prompts are made of words that are one token each in English \
            vocabularies. The tool counts prompts with the tokenizer of {model}; so does Regatta with --tokenizer FILE"
        ));
    }

    /// Where lengths are counted in tokens: the tokenizer of `model` must be at hand, as a file.
    pub fn needs_tokenizer(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|model| has_tokenizer(model)) {
            return self.put("tokenizer", model);
        }
        let name = model.unwrap_or("the model");
        let marker = self.builder.require("tokenizer_path", format!("the tokenizer.json of {name}"));
        self.put("tokenizer", marker.clone());
        self.set("tokenizer", json!(marker));
        self.builder.note(format!(
            "answers are as long as the recorded ones, counted in tokens of {name}: give its tokenizer.json, nothing \
                is downloaded"
        ));
    }
}

/// When requests come, and where they go.
impl TranslatedLoad {
    /// A rate that may be `inf`, and a limit of requests in flight, as vLLM and SGLang have them: all at once; as
    /// many users as the limit; or a rate at which arrivals beyond the limit wait.
    pub fn rate_and_limit(&mut self, rate: Option<&str>, limit: Option<&GivenOption>) {
        let rate = rate.filter(|rate| !["inf", "infinity"].contains(&rate.to_lowercase().as_str()));
        match (rate, limit) {
            (None, None) => self.put("rate", "-1"),
            (None, Some(limit)) => self.put("concurrency", limit.value()),
            (Some(rate), limit) => {
                self.put("rate", rate);
                if let Some(limit) = limit {
                    self.whole("max_in_flight", limit);
                }
            }
        }
    }

    /// Gaps of a gamma distribution. `burstiness` is its shape: 1 is Poisson, above it is more even.
    pub fn burstiness(&mut self, given: &GivenOption) {
        match given.number::<f64>() {
            Some(Quantity::Known(shape)) if (shape - 1.0).abs() < f64::EPSILON => {}
            Some(Quantity::Known(shape)) if shape > 0.0 && shape.is_finite() => {
                let cv = (1e4 / shape.sqrt()).round() / 1e4;
                self.set("arrivals", json!({"gamma": {"cv": number(cv)}}));
            }
            Some(shape @ Quantity::Unknown(_)) => {
                let cv = shape.combine("**", -0.5, f64::powf);
                self.set("arrivals", json!({"gamma": {"cv": cv}}));
            }
            _ => self.builder.push_error(format!("`{given}`: a number above 0")),
        }
    }

    /// How long a server that is still loading is waited for, in seconds. 0: it has to be ready.
    pub fn ready_timeout(&mut self, given: &GivenOption) {
        let value = given.value();
        match value.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds.is_finite() => self.put("ready_timeout", format!("{value}s")),
            Ok(0.0) => {
                self.builder.push_untranslated(given, "without `ready_timeout` a server has to be ready");
            }
            _ if value.starts_with("{{") => self.set("ready_timeout", json!(format!("{value}s"))),
            _ => self.builder.push_error(format!("`{given}`: a number of seconds")),
        }
    }

    /// Names a duration that is given together with a number of requests.
    pub fn drop_duration(&mut self, duration: String) {
        self.builder.push_untranslated(
            duration,
            "the tool ends a run at the first of its limits; Regatta ends it after its number of requests",
        );
    }

    /// The length of answers where a line of GenAI-Perf or AIPerf has none; made-up prompts have it anyway.
    pub fn usual_answers(&mut self) {
        if self.has("data") {
            self.put("output_tokens", "128");
        }
        self.builder
            .note("no --osl: the tool lets the model decide the length of its answers; Regatta requests 128 tokens");
    }

    /// As many requests as GenAI-Perf and AIPerf send where the line has no end.
    pub fn usual_requests(&mut self, users: Option<Quantity<u64>>, tool: &str) {
        let requests = users.unwrap_or(Quantity::Known(1)).times(2_u64).at_least(10_u64);
        self.put("stop.requests", requests.to_string());
        let end = if self.is_swept() {
            "at each level; the tool sends 10, or twice the users of the level".to_owned()
        } else {
            format!(", as {tool} has it")
        };
        self.builder.note(format!("neither a number of requests nor a duration is given: {requests} requests{end}"));
    }

    /// The server and the path of requests, of a base URL and a path behind it. The path is only given where it is
    /// not the usual one of the protocol.
    pub fn address(&mut self, base: &str, path: &str, usual: &str) {
        let (server, prefix) = server_and_prefix(base);
        self.target(server);
        let whole = format!("{prefix}/{}", path.trim_start_matches('/'));
        if whole.contains("/v1/v1/") {
            let note = format!(
                "the tool asks {whole}, and so does this: servers have no such path; end `{base}` before `/v1`"
            );
            self.builder.note(note);
        }
        if whole != usual {
            self.put("endpoint", whole);
        }
    }

    /// The path of the protocol's requests.
    pub fn usual_path(&self) -> &'static str {
        if self.get("protocol") == Some(COMPLETIONS.0) { COMPLETIONS.1 } else { CHAT.1 }
    }

    /// Like `address`, for several base URLs, and as AIPerf 0.13.0 joins them with the path (`_dedup_path_overlap` in
    /// aiperf/transports/aiohttp_transport.py): what ends a base URL and begins the path, stands once.
    pub fn overlapping_address(&mut self, bases: &[&str], path: &str, usual: &str) {
        let (servers, mut paths): (Vec<&str>, Vec<String>) = bases
            .iter()
            .map(|base| {
                let (server, prefix) = server_and_prefix(base);
                (server, joined_once(prefix, path))
            })
            .unzip();
        self.target(servers.join("|"));
        paths.dedup();
        match paths.as_slice() {
            [whole] if whole == usual => {}
            [whole] => self.put("endpoint", whole.as_str()),
            several => self.builder.push_error(format!(
                "the paths of its URLs differ, {}: one benchmark has one path",
                several.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(" and ")
            )),
        }
    }
}

/// Adapters, of which each request names one, drawn at random.
pub(crate) fn adapters(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    load.set("request.adapters", given.values.iter().map(|name| (name.clone(), json!(1))).collect());
    true
}

/// The model; of several over OpenAI's interfaces each request names one.
pub(crate) fn models(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    load.put("model", given.value());
    if given.values.len() > 1 && load.get("protocol") == Some("kserve") {
        let reason = "over KServe one measurement drives one model, the first; add a `bench` for each";
        load.builder.push_untranslated_load(given, reason);
    } else if given.values.len() > 1 {
        adapters(load, line, given);
        load.builder.note("Regatta draws the model of each request at random, with equal weights");
    }
    true
}

/// The environment variable that stands in place of a secret: `$NAME`, `${NAME}`, or `{{name}}` in a script, but not an
/// argument of the script.
fn named_variable(secret: &str) -> Option<String> {
    let secret = secret.trim();
    let of_script = secret
        .strip_prefix("{{")
        .and_then(|rest| rest.strip_suffix("}}"))
        .filter(|name| !name.starts_with("argument_"));
    let of_script = of_script.map(str::to_uppercase);
    let of_line = || {
        let name = secret.strip_prefix('$')?;
        Some(name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name).to_owned())
    };
    of_script.or_else(of_line).filter(|name| is_identifier(name))
}

/// A key, which belongs into the environment.
pub(crate) fn api_key(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    load.api_key(&given.written, given.value());
    true
}

/// Token ids in place of texts, which OpenAI's completions take.
pub(crate) fn token_ids(load: &mut TranslatedLoad, _: &ParsedLine, _: &GivenOption) -> bool {
    let has_ids = load.get("protocol") == Some(COMPLETIONS.0);
    if has_ids {
        load.set("request.interface", json!("token_ids"));
    }
    has_ids
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

/// A ratio from 0 to 1, or one that the text does not have.
pub(crate) fn share(given: &GivenOption, side: &str) -> Option<Quantity<f64>> {
    let sides: Value = serde_json::from_str(given.value()).unwrap_or_default();
    let of_side = sides.get(side).and_then(Value::as_f64).map(Quantity::Known);
    of_side
        .or_else(|| given.number::<f64>())
        .filter(|ratio| ratio.known().is_none_or(|ratio| (0.0..=1.0).contains(ratio)))
}

/// What `--random-range-ratio` is to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeRatio {
    /// Lengths are up to this share below and above their mean.
    Around,
    /// Lengths are from this share of the longest up to it.
    UpTo,
    /// One of the two, by a program of which only the name is known. Today's `benchmark_serving.py` has the first.
    Unknown,
}

impl RangeRatio {
    /// The shortest and the longest length.
    pub fn bounds(self, length: &Quantity<u32>, ratio: &Quantity<f64>) -> (Quantity<u32>, Quantity<u32>) {
        let times = |one: f64, other: f64| one * other;
        let share = |share: Quantity<f64>| length.clone().map(f64::from).combine("*", share, times);
        let beside = |sign: &str, known: fn(f64, f64) -> f64| Quantity::Known(1.0).combine(sign, ratio.clone(), known);
        match self {
            Self::Around | Self::Unknown => (
                share(beside("-", |one, ratio| one - ratio)).whole(),
                share(beside("+", |one, ratio| one + ratio)).ceiling(),
            ),
            Self::UpTo => {
                let shortest = match ratio {
                    Quantity::Known(0.0) => Quantity::Known(1),
                    Quantity::Known(1.0) => length.clone(),
                    ratio => share(ratio.clone()).whole(),
                };
                (shortest, length.clone())
            }
        }
    }
}

/// A server by its host and port. An IPv6 address has brackets in a URL; one that stands for all addresses of a
/// machine is its own.
pub(crate) fn host_and_port(host: &str, port: &str) -> String {
    match host {
        "::" => format!("[::1]:{port}"),
        // With or without a zone.
        _ if host.matches(':').count() > 1 && !host.starts_with('[') => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

/// Whether a model is a folder here, with its tokenizer, or the tokenizer itself.
fn has_tokenizer(model: &str) -> bool {
    let path = Path::new(model);
    path.is_file() || path.join("tokenizer.json").is_file()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_tokenizer_says_whose_the_tool_takes() {
        let notes = |tokenizer: Option<&str>, protocol: &'static str| {
            let mut load = TranslatedLoad::default();
            load.put("protocol", protocol);
            load.put("model", "org/name");
            if let Some(path) = tokenizer {
                load.put("tokenizer", path);
            }
            load.default_tokenizer(None);
            load.builder.notes
        };
        let left = |notes: Vec<String>| notes.iter().any(|note| note.contains("the tokenizer of org/name"));
        assert!(left(notes(None, CHAT.0)));
        assert!(!left(notes(Some("t.json"), CHAT.0)) && !left(notes(None, "kserve")));
    }

    #[test]
    fn a_secret_is_read_from_the_variable_that_the_line_names() {
        let header = |word: &str| {
            let mut load = TranslatedLoad::default();
            load.header("-H", word);
            ["api_key_env", "request.headers"].iter().find_map(|key| load.get(key)).unwrap_or_default().to_owned()
        };
        assert_eq!(header("Authorization: Bearer $NVIDIA_API_KEY"), "NVIDIA_API_KEY");
        assert_eq!(header("Authorization: Bearer ${HF_TOKEN}"), "HF_TOKEN");
        assert_eq!(header("Authorization: Bearer {{hf_token}}"), "HF_TOKEN");
        assert_eq!(header("Authorization: Bearer  $HF_TOKEN "), "HF_TOKEN");
        for unnamed in ["sk-1234", "{{argument_1}}", "$1"] {
            assert_eq!(header(&format!("Authorization: Bearer {unnamed}")), "API_KEY", "{unnamed}");
        }
        assert_eq!(header("x-api-key: $MY_KEY"), "x-api-key:${MY_KEY}");
        assert_eq!(header("x-api-key: sk-1234"), "x-api-key:${X_API_KEY}");
    }

    #[test]
    fn an_ipv6_address_has_brackets() {
        for (host, expected) in [
            ("::1", "[::1]:8"),
            ("::", "[::1]:8"),
            ("[::1]", "[::1]:8"),
            ("fe80::1%eth0", "[fe80::1%eth0]:8"),
            ("gpu7", "gpu7:8"),
            ("http://gpu7", "http://gpu7:8"),
        ] {
            assert_eq!(host_and_port(host, "8"), expected);
        }
    }

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
}
