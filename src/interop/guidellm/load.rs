//! A run of GuideLLM, in either of its languages, as measurements here.

use serde::Deserialize;
use serde_json::{Value, json};

use super::data::{GuideLlmData, numeric};
use crate::command_line::{
    CHAT, COMPLETIONS, TranslatedLoad, TranslationBuilder, TranslationResult, number, rate_of_conversations,
};
use base::diag::{ErrorText, nearest};
use base::spec::Quantity;
use base::units::unquoted;

const TOOL: &str = "guidellm";
/// Requests in flight at most, where nothing else is set.
const MOST_IN_FLIGHT: u64 = 512;
/// The profiles that are imported.
const PROFILES: [&str; 8] =
    ["synchronous", "concurrent", "throughput", "constant", "async", "poisson", "replay", "sweep"];

/// The settings of a line.
#[derive(Debug, Default)]
pub(super) struct GuideLlmRun {
    pub target: Option<String>,
    pub model: Option<String>,
    /// `chat_completions`, `/v1/completions`, …
    pub request_format: Option<String>,
    pub has_api_key: bool,
    /// `NAME:VALUE` of each header.
    pub headers: Vec<String>,
    /// By default GuideLLM 0.8.1 does not: `verify` in guidellm/schemas/backends/openai_http.py.
    pub verifies_certificate: bool,
    pub without_streaming: bool,
    /// Further fields of each request.
    pub fields: Vec<String>,
    /// `sweep`, `constant`, …
    pub profile: Option<String>,
    /// Rates or numbers of users, one measurement each.
    pub levels: Vec<Quantity<f64>>,
    pub most_in_flight: Option<Quantity<u64>>,
    pub seconds: Option<Quantity<f64>>,
    pub requests: Option<Quantity<u64>>,
    pub data: Vec<GuideLlmData>,
    /// The first data set has the first turns, the second one the second turns.
    pub pivots_turns: bool,
    /// Records are taken in another order than the file's.
    pub is_shuffled: bool,
    /// Only this many records.
    pub samples: Option<Quantity<u64>>,
    pub tokenizer: Option<String>,
    pub seed: Option<String>,
    pub warmup: Option<WarmUp>,
    /// By how much the times between the requests of a trace are longer.
    pub time_scale: Option<f64>,
    /// Rates of a sweep have the arrivals of a Poisson process.
    pub sweeps_poisson: bool,
}

impl GuideLlmRun {
    pub fn finish(self, builder: TranslationBuilder) -> TranslationResult {
        let mut load = TranslatedLoad::default();
        load.builder = builder;
        if let Err(why) = self.server(&mut load) {
            return TranslationBuilder::nothing(TOOL, why);
        }
        let samples = match self.data.as_slice() {
            [] => {
                load.builder.push_error("`guidellm` needs --data");
                None
            }
            [data] => match data.put(&mut load) {
                Ok(samples) => self.samples.clone().or(samples),
                Err(why) => return TranslationBuilder::nothing(TOOL, why),
            },
            several => return TranslationBuilder::nothing(TOOL, self.combined(several)),
        };
        // They stand in place of what the data set brings with it.
        self.fields.iter().for_each(|field| load.extra(field, true));
        let requests = self.end(samples, &mut load);
        load.put("warmup", "0");
        if let Some(warm_up) = &self.warmup {
            for limit in
                [requests.clone(), self.seconds.clone()].into_iter().flatten().filter(|it| it.known().is_none())
            {
                load.builder.push_error(format!("`{limit}`: needed to compute a warm-up that is a share of the run"));
            }
            let number = |limit: Option<Quantity<f64>>| limit.and_then(|limit| limit.known().copied());
            warm_up.put(number(requests), number(self.seconds.clone()), &mut load);
        }
        if self.is_shuffled && load.has("data") {
            load.set("data.order", json!("shuffled"));
        }
        load.put("seed", self.seed.as_deref().unwrap_or("42"));
        self.load(&mut load);
        rate_of_conversations("`rate`", &mut load);
        load.default_tokenizer(None);
        load.finish(TOOL)
    }

    /// Why data sets that are combined are not sent.
    fn combined(&self, several: &[GuideLlmData]) -> String {
        let names: Vec<String> = several.iter().map(|data| format!("`--data {}`", data.written())).collect();
        let (first, rest) = names.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let rest = rest.join(", ");
        if self.pivots_turns {
            return format!(
                "cannot translate the line: each turn of its conversations has lengths of its own, those of {first} \
                    and then of {rest}; in Regatta all turns have the same: `sessions: {{ turns: {{ fixed: {} }} }}` \
                    with the lengths of one of them, or a file with a line for each turn, `{{\"session_id\": 1, \
                    \"input_length\": 128, \"output_length\": 256}}`, and --data FILE.jsonl",
                several.len()
            );
        }
        format!(
            "cannot translate the line: each of its requests is made of several data sets together, of {first} and \
                of {rest}; text of one data set is sent: give one --data, with the lengths of all texts added up"
        )
    }

    /// Takes an object of headers.
    pub fn add_headers(&mut self, headers: &Value) {
        let headers = headers.as_object().into_iter().flatten();
        self.headers.extend(headers.map(|(name, value)| format!("{name}:{}", unquoted(value))));
    }

    /// The sentence on an interface that is not measured.
    fn server(&self, load: &mut TranslatedLoad) -> Result<(), ErrorText> {
        let format = self.request_format.as_deref().unwrap_or("chat_completions");
        let (protocol, usual) = match format.trim_start_matches("/v1/").trim_start_matches('/') {
            "chat_completions" | "chat/completions" => CHAT,
            "completions" | "text_completions" => COMPLETIONS,
            _ => {
                return Err(ErrorText::new(format_args!(
                    "cannot translate the line: requests of the format `{format}` are not measured; supported are \
                        chat_completions and text_completions"
                )));
            }
        };
        load.put("protocol", protocol);
        load.limits_completion_tokens();
        let target = self.target.as_deref().unwrap_or("http://localhost:8000");
        let target = target.trim_end_matches('/');
        // It adds /v1 to an address that has it not.
        load.address(target.strip_suffix("/v1").unwrap_or(target), usual, usual);
        if !self.verifies_certificate {
            load.flag("tls.insecure");
        }
        if let Some(model) = &self.model {
            load.put("model", model);
        }
        if self.has_api_key {
            load.api_key("the backend", "");
        }
        for header in &self.headers {
            load.header("the backend's header", header);
        }
        if let Some(name) = &self.tokenizer {
            load.tokenizer(name, format_args!("the tokenizer {name}"));
        }
        load.streaming(!self.without_streaming);
        Ok(())
    }

    /// When it ends. Returns the number of requests, where there is one.
    fn end(&self, samples: Option<Quantity<u64>>, load: &mut TranslatedLoad) -> Option<Quantity<f64>> {
        // It ends with the records that it has loaded, too.
        let mut requests = self.requests.clone().into_iter().chain(samples).reduce(Quantity::at_most);
        match (&requests, &self.seconds) {
            (Some(_), Some(seconds)) => load.drop_duration(format!("{seconds} seconds")),
            (Some(_), None) => {}
            (None, Some(seconds)) => load.put("stop.duration", format!("{seconds}s")),
            (None, None) if load.has("data") => {}
            (None, None) => {
                requests = Some(Quantity::Known(1000));
                load.builder.note(
                    "neither a number of requests nor a duration is given: GuideLLM runs until it is stopped; \
                    Regatta sends 1000 requests",
                );
            }
        }
        match &requests {
            // The data are sent once, from their beginning.
            Some(requests) if load.has("data") => load.set("data.first", json!(requests)),
            Some(requests) => load.put("stop.requests", requests.to_string()),
            None if load.has("data") && load.has("stop.duration") && self.profile.as_deref() != Some("replay") => {
                load.flag("data.repeat");
                load.builder.note(
                    "GuideLLM also ends a run after the last record of the data; Regatta starts the data again \
                    until the time is over",
                );
            }
            None => {}
        }
        requests.map(|requests| requests.map(|requests| requests as f64))
    }

    /// Its profile.
    fn load(&self, load: &mut TranslatedLoad) {
        let level = |level: &Quantity<f64>| level.known().map_or_else(|| json!(level), |level| number(*level));
        let levels: Vec<Value> = self.levels.iter().map(level).collect();
        let profile = self.profile.as_deref().unwrap_or("sweep");
        match profile {
            "synchronous" => {
                load.put("concurrency", "1");
                if !levels.is_empty() {
                    load.builder.push_error("`synchronous` is one request after the other: it does not take --rate");
                }
            }
            "concurrent" if levels.is_empty() => load.builder.push_error(
                "`concurrent` needs how many requests: a \
                `rate`, or `streams`",
            ),
            "concurrent" => load.sweep("concurrency", levels),
            "throughput" => self.throughput(load),
            "constant" | "async" | "poisson" if levels.is_empty() => {
                load.builder.push_error(format!("`{profile}` needs requests per second, a `rate`"));
            }
            "constant" | "async" | "poisson" => {
                load.sweep("rate", levels);
                load.put("arrivals", if profile == "poisson" { "poisson" } else { "constant" });
                if let Some(most) = &self.most_in_flight {
                    load.set("max_in_flight", json!(most));
                }
            }
            "replay" => {
                if !load.has("data") {
                    load.builder.push_error("`replay` sends a trace: --data kind=trace_synthetic,path=FILE.jsonl");
                }
                let level = self.levels.first().and_then(Quantity::known);
                let scale = self.time_scale.or(level.copied()).unwrap_or(1.0);
                // Time stamps are in seconds there and in milliseconds here.
                load.trace(1e-3 / scale);
                load.builder.note(
                    "GuideLLM reads the time stamps of a trace as seconds, Regatta reads `timestamp` as \
                    milliseconds: `speed` converts them; remove it for time stamps in milliseconds",
                );
            }
            "sweep" => self.whole_sweep(load),
            other if let Some(near) = nearest(other, PROFILES) => {
                load.builder.push_error(format!("`{other}` is not a profile of GuideLLM; did you mean `{near}`?"));
            }
            other => load.builder.push_error(format!(
                "the profile `{other}` searches for a load: `bench.search` finds the highest rate within `limits`; \
                    supported are synchronous, concurrent, throughput, constant, poisson, replay and sweep"
            )),
        }
    }

    /// As many in flight as the line limits it to; without a limit all requests at once.
    fn throughput(&self, load: &mut TranslatedLoad) {
        let level = self.levels.first().filter(|level| level.known().is_none_or(|level| *level >= 1.0));
        let level = level.map(|level| level.clone().map(|level| level as u64));
        match self.most_in_flight.clone().or(level) {
            Some(most) => keep_in_flight(most, load),
            None if load.has("stop.requests") || load.has("data") && !load.has("stop.duration") => {
                load.put("scenario", "offline");
            }
            None => {
                keep_in_flight(MOST_IN_FLIGHT.into(), load);
                load.builder.note(format!(
                    "GuideLLM does not limit the number of requests in flight; Regatta limits it to \
                    {MOST_IN_FLIGHT}, because a duration alone does not set the number of requests"
                ));
            }
        }
    }

    /// One user, saturation, and rates evenly between the two, the highest of which is that of saturation.
    fn whole_sweep(&self, load: &mut TranslatedLoad) {
        const STEPS: u32 = 10;
        let steps = self.levels.first().and_then(Quantity::known).map_or(STEPS, |steps| *steps as u32);
        load.sweep_to_saturation(steps.saturating_sub(2).clamp(1, 200));
        load.put("arrivals", if self.sweeps_poisson { "poisson" } else { "constant" });
        if let Some(most) = &self.most_in_flight {
            load.set("max_in_flight", json!(most));
        }
        let most = self.most_in_flight.clone().unwrap_or(MOST_IN_FLIGHT.into());
        load.builder.note(format!(
            "GuideLLM takes {most} requests in flight as saturation; Regatta adds users until the throughput \
            stops growing"
        ));
    }
}

/// No more users than requests.
fn keep_in_flight(most: Quantity<u64>, load: &mut TranslatedLoad) {
    let requests = load.get("stop.requests").and_then(|count| count.parse::<Quantity<u64>>().ok());
    let most = match requests {
        Some(requests) => most.at_most(requests),
        None => most,
    };
    load.put("concurrency", most.map(|most| most.max(1)).to_string());
}

/// The warm-up of a run: a share of it, or a number, which is of requests or of seconds by its mode.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WarmUp {
    /// Below 1 it is a share of the run.
    amount: f64,
    mode: Mode,
}

/// `mode` of `TransientPhaseConfig` in guidellm/benchmark/schemas/base.py of 0.8.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Duration,
    Requests,
    #[default]
    PreferDuration,
    PreferRequests,
    Both,
}

impl WarmUp {
    /// A plain number.
    pub const fn new(amount: f64) -> Self {
        Self { amount, mode: Mode::PreferDuration }
    }

    /// A number, or an object with `percent` or `value`, and `mode`.
    pub fn read(value: &Value, builder: &mut TranslationBuilder) -> Option<Self> {
        let Some(fields) = value.as_object() else { return known_number(value, builder).map(Self::new) };
        let mode = fields.get("mode").map_or(Ok(Mode::default()), Mode::deserialize).unwrap_or_else(|_| {
            let other = unquoted(&fields["mode"]);
            builder.push_error(format!(
                "`mode={other}` of a warm-up: duration, requests, prefer_duration, prefer_requests or both"
            ));
            Mode::default()
        });
        let amount = fields.get("percent").or(fields.get("value"))?;
        let amount = known_number(amount, builder)?;
        Some(Self { amount, mode })
    }

    /// Its seconds and its requests, of a run with these limits. A limit that the run does not have has no warm-up.
    fn limits(&self, requests: Option<f64>, seconds: Option<f64>) -> (Option<f64>, Option<f64>) {
        let share = |whole: f64| if self.amount < 1.0 { self.amount * whole } else { self.amount };
        let duration = seconds.filter(|_| self.mode != Mode::Requests).map(share);
        let count = requests.filter(|_| self.mode != Mode::Duration).map(|whole| share(whole).floor());
        match (self.mode, duration, count) {
            (Mode::PreferDuration, Some(_), _) => (duration, None),
            (Mode::PreferRequests, _, Some(_)) => (None, count),
            _ => (duration, count),
        }
    }

    /// Requests and seconds together are the later of the two, there and here.
    pub fn put(&self, requests: Option<f64>, seconds: Option<f64>, load: &mut TranslatedLoad) {
        if self.amount <= 0.0 {
            return;
        }
        let (duration, count) = self.limits(requests, seconds);
        if let (None, None) = (duration, count) {
            return load.builder.push_untranslated(
                format!("warmup={}", self.amount),
                "it is a part of a limit that the run does not have, so GuideLLM does not warm up either",
            );
        }
        load.put("warmup", count.unwrap_or(1.0).to_string());
        if let Some(time) = duration {
            load.set("warmup_time", json!(format!("{time}s")));
        }
        load.builder.note("GuideLLM warms up as a part of the run; Regatta warms up before it");
    }
}

/// Only a warm-up of a known length can be compared with the run.
fn known_number(value: &Value, builder: &mut TranslationBuilder) -> Option<f64> {
    let number = numeric(value)?;
    if number.known().is_none() {
        builder.push_error(format!("`warmup={number}` is not a number"));
    }
    number.known().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_selects_time_or_requests() {
        let limits = |text: &str, requests, seconds| {
            let mut builder = TranslationBuilder::default();
            let value: Value = serde_json::from_str(text).unwrap();
            WarmUp::read(&value, &mut builder).unwrap().limits(requests, seconds)
        };
        assert_eq!(limits("5", Some(1000.0), Some(60.0)), (Some(5.0), None));
        assert_eq!(limits("0.1", Some(1000.0), None), (None, Some(100.0)));
        assert_eq!(limits(r#"{"mode": "duration", "value": 10}"#, Some(100.0), None), (None, None));
        assert_eq!(limits(r#"{"mode": "requests", "value": 10}"#, None, Some(100.0)), (None, None));
        assert_eq!(limits(r#"{"mode": "prefer_requests", "percent": 0.5}"#, Some(9.0), Some(60.0)), (None, Some(4.0)));
        assert_eq!(limits(r#"{"mode": "both", "value": "3"}"#, Some(9.0), Some(60.0)), (Some(3.0), Some(3.0)));
    }
}
