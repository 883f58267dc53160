//! `bench:` — the harness run.
//!
//! `bench.data:` — the files that prompts come from.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::model::Loadgen;
use crate::manifest::targets;
use base::spec::{
    Arrivals, BenchSweep, DelayPlace, LARGEST_SHAPE, LONGEST_LENGTH, Length, Limits, MOST_PARTS, MOST_REQUESTS,
    MOST_USERS, Prefixes, Protocol, Ramp, RecordOrder, Request, Retries, Scenario, Sessions, SloLimits, StopAfter,
    StreamMode, ThinkTime, TimeSpan, Tls,
};

/// Requests to send and how to judge the answers. Names follow load-tools and NVIDIA's harness.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// `{{ stages.NAME }}` of a `serve` stage, `host:port,port|host:port`, or URLs with `|` between them.
    pub target: String,
    /// The protocol of requests. [default: that of the target's URL, else `kserve`]
    pub protocol: Option<Protocol>,
    /// The model to drive. Of Triton's: `tensorrt_llm` takes token ids, `ensemble` and `tensorrt_llm_bls` take text.
    /// Over OpenAI's interfaces "" is the only one that the server lists, and the default.
    #[serde(default = "super::tensorrt_llm")]
    pub model: String,
    /// Over HTTP: the path, in place of the protocol's usual one.
    pub endpoint: Option<String>,
    /// Over HTTP: further fields of every request's body; null removes one.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Over HTTP: the environment variable that holds the key to send as `Authorization: Bearer`. It is never shown or
    /// written down.
    pub api_key_env: Option<String>,
    /// Over HTTP: TLS settings. A target of `https://` needs them only where the defaults do not fit.
    pub tls: Option<Tls>,
    /// Wait this long for servers that are still loading, or not there yet: until each is reachable and reports that it
    /// is ready. [default: a server has to be ready, or the stage that starts it waits]
    pub ready_timeout: Option<TimeSpan>,
    /// How requests arrive. [default: `concurrency` where that key or a sweep of it is written, else `server`]
    #[serde(default = "super::server")]
    pub scenario: Scenario,
    /// Server: mean arrivals per second; of sessions, where there are any.
    pub rate: Option<f64>,
    /// Server, in place of `rate`: find the highest rate at which all `limits` hold. Each probe has the arrivals of
    /// `stop`.
    pub search: Option<RateSearch>,
    /// Measure at several levels, one after the other: `points/` has the result of each, and `sweep.json` the curve. A
    /// sweep that is cut off goes on with the missing points.
    pub sweep: Option<BenchSweep>,
    /// Concurrency: the number of users.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub concurrency: Option<u32>,
    /// In place of `rate` or `concurrency`: a level that changes.
    pub ramp: Option<Ramp>,
    /// Trace: the speed relative to its time stamps and delays.
    pub speed: Option<f64>,
    #[serde(default)]
    pub arrivals: Arrivals,
    /// The pause between an answer and the user's next request, and between the turns of a session without a
    /// `turn_delay`.
    pub think_time: Option<ThinkTime>,
    /// Server and Trace: arrivals beyond this many requests in flight wait in the client. Their latency counts the
    /// wait. With LoadGen over HTTP only, where each request under way has a connection: those of all scenarios.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub max_in_flight: Option<u32>,
    /// Not needed with `data`: then each record is sent once.
    #[serde(default, skip_serializing_if = "StopAfter::is_open")]
    pub stop: StopAfter,
    /// Prompt length, tokens. With `data`: of records without one.
    #[serde(default, skip_serializing_if = "Length::is_given")]
    pub input_tokens: Length,
    /// Answer length, tokens. [default: as in the data]
    #[serde(default, skip_serializing_if = "Length::is_given")]
    pub output_tokens: Length,
    pub data: Option<Data>,
    pub prefixes: Option<Prefixes>,
    /// The number of distinct prompts; requests reuse them.
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub distinct_prompts: Option<u64>,
    pub sessions: Option<Sessions>,
    /// A `tokenizer.json`: synthetic texts get exactly the requested length, and given ones are counted.
    pub tokenizer: Option<String>,
    /// Seed of arrivals, lengths and tokens. The same seed gives the same plan.
    #[serde(default)]
    pub seed: u64,
    /// The number of runs of this measurement, one after the other, with consecutive seeds from `seed` on: `compare`
    /// judges by how much runs differ. Each is kept in `repeats/`, and result.json has means and intervals over them.
    /// In a `sweep`, each point is measured this many times.
    #[serde(default = "super::one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 1000))]
    pub repeat: u32,
    /// Set by the plan where several variants are measured in turn; no key of a manifest.
    #[schemars(skip)]
    pub turn: Option<RepeatRole>,
    /// Requests before the measured ones, which come as those do: as many at once as the load has in flight, or at its
    /// rate, the highest of a `ramp`. Before a `trace`, and with LoadGen, they come one after the other. Several
    /// servers get them in turn.
    #[serde(default)]
    #[schemars(range(max = MOST_USERS))]
    pub warmup: u32,
    /// Continue the warm-up until this much time has passed.
    pub warmup_time: Option<TimeSpan>,
    /// Connections to each server are `frontends × clients`, which the client's workers divide among them. Over HTTP
    /// each is a pool: every request under way has a connection of its own.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub triton_num_frontends_per_model: u32,
    /// Connections of each frontend to each server.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = MOST_PARTS))]
    pub triton_num_clients_per_frontend: u32,
    #[serde(default, skip_serializing_if = "is_usual")]
    pub stream: StreamMode,
    /// Send failed requests again. [default: no]
    pub retries: Option<Retries>,
    /// A request fails when no token arrives for this long. It also fails, with the class `deadline`, when its answer
    /// has not ended ten times as long after its first token, and a sixth of it for each requested token, both of at
    /// least a minute.
    #[serde(default = "super::a_minute")]
    pub stall_timeout: TimeSpan,
    /// What must hold for the run to be VALID beyond the harness's own checks.
    pub limits: Option<Box<Limits>>,
    /// By MLPerf's rules: its LoadGen schedules the requests.
    pub loadgen: Option<Box<Loadgen>>,
    /// The SLO of each request, for goodput: the requests that meet all of it. [default: `limits`]
    pub slo: Option<SloLimits>,
    /// Keep the time of every chunk in requests.jsonl (`timeline`: ns from the start, tokens); else only what metrics
    /// need.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timelines: bool,
    /// The source of GPU readings during the measurement: power, energy, utilization, memory, clocks.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub telemetry: Telemetry,
    /// Whether to test before the measurement that this machine can generate the load: the same rate, or as many users,
    /// for a second or two against Regatta's own server, which does no work. Not for a `search`, whose probes judge the
    /// client themselves.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub preflight: Preflight,
    /// What becomes of the stage where this machine was too busy for the load. The verdict is the same.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub when_busy: WhenBusy,
    /// Vocabulary for synthetic prompts.
    #[serde(default = "super::llama_vocabulary")]
    #[schemars(range(min = 10, max = LARGEST_SHAPE))]
    pub vocab_size: u32,
    /// End-of-sequence and padding token ids of the requests; drawn prompts do not have it. OpenAI's interfaces send
    /// none.
    #[serde(default = "super::usual_end_id")]
    pub end_id: i32,
    /// What each request contains besides its prompt and its length.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub request: Box<Request>,
}

impl Bench {
    /// The model where none is named.
    pub const USUAL_MODEL: &str = "tensorrt_llm";

    /// Fills in what is not `written` and follows from what is: the scenario of its level, and the model of a server
    /// with one.
    pub fn fill_in(&mut self, written: &serde_json::Value) {
        let has_users = self.concurrency.is_some() || matches!(self.sweep, Some(BenchSweep::Concurrency(_)));
        if written.get("scenario").is_none() && has_users && self.rate.is_none() {
            self.scenario = Scenario::Concurrency;
        }
        let protocol = self.protocol.or_else(|| targets(&self.target).ok()?.protocol);
        if written.get("model").is_none() && protocol.is_some_and(Protocol::is_openai) {
            self.model.clear();
        }
    }

    /// The first point of its sweep as a benchmark; without a sweep, and where the sweep has no usable level, itself.
    pub fn at_first_level(&self) -> Cow<'_, Self> {
        let Some(sweep) = &self.sweep else { return Cow::Borrowed(self) };
        let levels = sweep.levels().map(|levels| levels.ascending(sweep.is_whole()));
        let level = match levels {
            Some(Ok(levels)) => levels.first().copied().unwrap_or(1.0),
            // One that finds its own levels begins with one user, and arrivals at a rate are checked.
            None | Some(Err(_)) => 1.0,
        };
        Cow::Owned(self.at_level(level))
    }

    /// A benchmark without a sweep, at one level of its own.
    fn at_level(&self, level: f64) -> Self {
        let mut point = Self { sweep: None, ..self.clone() };
        match self.sweep {
            Some(BenchSweep::Concurrency(_)) => point.concurrency = Some(level as u32),
            Some(BenchSweep::Rate(_) | BenchSweep::Auto(_)) => point.rate = Some(level),
            Some(BenchSweep::InputTokens(_)) => point.input_tokens = Length::Fixed(level as u32),
            Some(BenchSweep::OutputTokens(_)) => point.output_tokens = Length::Fixed(level as u32),
            None => {}
        }
        point
    }

    /// A benchmark for each level of its sweep, or itself. `None`: it finds its levels itself.
    pub fn points(&self) -> Option<Vec<Self>> {
        let Some(sweep) = &self.sweep else { return Some(vec![self.clone()]) };
        let levels = sweep.levels()?.ascending(sweep.is_whole()).ok()?;
        Some(levels.into_iter().map(|level| self.at_level(level)).collect())
    }
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_one<T: PartialEq + From<u8>>(number: &T) -> bool {
    *number == T::from(1)
}

/// Llama 2's.
pub const USUAL_END_ID: i32 = 2;

/// The role of a task in a repeated measurement whose runs are separate tasks, so that variants take turns, A B A B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatRole {
    /// One of the runs. It is kept with any verdict: all runs are judged together.
    Run,
    /// Summarizes the runs. It sends no requests.
    Sum,
}

/// The source of GPU readings. Its errors never fail a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Telemetry {
    /// `nvidia-smi`, where it is in PATH and the servers are on this host; else the servers' metrics.
    #[default]
    Auto,
    /// No readings.
    Off,
    /// `nvidia-smi`; a notice where it cannot.
    NvidiaSmi,
    /// `nv_gpu_*` of the servers' `/metrics`, which Triton has from DCGM.
    Metrics,
}

/// When to run the preflight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preflight {
    /// Where arrivals are expected for 30 s or more; the trial costs about 2 s, or 4 when its first try is not good.
    #[default]
    Auto,
    Off,
    /// Also before a short measurement.
    On,
}

/// What becomes of a stage whose measurement is not VALID where its machine was busy with something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenBusy {
    /// It fails.
    #[default]
    Fail,
    /// It goes on with a notice: for demonstrations, whose numbers are not published.
    Notice,
}

/// The range of rates to search. The result is an estimate from all probes with a 95 % interval; at most 12 probes are
/// made.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateSearch {
    /// The lowest rate that is tried, requests per second.
    pub low: f64,
    /// The highest rate that is tried.
    pub high: f64,
    /// The first rate that is tried, where one is known to be near: fewer probes are spent on the way there. Not with
    /// `loadgen`. [default: `low`]
    pub start: Option<f64>,
    /// In place of `start`: the `search.json` of an earlier search with the same model and limits, or the folder that
    /// has it. The first probes are around the rate that it found; none of its probes count. Not with `loadgen`.
    pub start_from: Option<String>,
    /// Stop when the interval is narrower than this share of the rate.
    #[serde(default = "super::two_percent")]
    pub precision: f64,
}

/// Prompts from a file: exactly one of `jsonl, sharegpt, mooncake, input_ids, plan`. Paths are relative to the current
/// folder.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// One JSON object a line, or a JSON list of them: `prompt` or `text` or `input_ids` (or only `input_length`), over
    /// `openai-chat` also `messages`, or `input`, `instruction` and `output` of benchmark_core_model.py; if there are,
    /// `output_length` or `max_tokens`, `timestamp` (ms), `session_id`, `delay` (ms). Over OpenAI's interfaces a record
    /// may set its own request, in place of the benchmark: the fields of `request` with `headers`, `model` or
    /// `adapter`, `tools`, `tool_choice`, `response_format`, and any others below `extra`; a file of OpenAI's Batch API
    /// is such a file. A key that may change a request and is not sent is an error. Also perf_analyzer's
    /// `{"data": […]}`.
    pub jsonl: Option<String>,
    /// A list of conversations, as in ShareGPT_V3_unfiltered_cleaned_split.json, or one a line.
    pub sharegpt: Option<String>,
    /// A trace, one JSON object a line: `input_length`, with `hash_ids` if there are (equal ids are equal tokens), or
    /// `text_input`; `output_length` and `timestamp` (ms).
    pub mooncake: Option<String>,
    /// Token ids: rows of a `.npy` (see `lengths`), or a list a line in a `.jsonl`.
    pub input_ids: Option<String>,
    /// The `plan.jsonl` of another run: the same requests again.
    pub plan: Option<String>,
    /// `.npy` with the length of each row of `input_ids`.
    pub lengths: Option<String>,
    /// `.npy` with the output length of each row.
    pub output_lengths: Option<String>,
    /// Only the first N records.
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub first: Option<u64>,
    /// Leave out records with a prompt of more tokens than this; without a tokenizer, of more words.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_input_tokens: Option<u32>,
    #[serde(default)]
    pub order: RecordOrder,
    /// Begin again at the end of the data. If false, it is an error if the data end before `stop` is reached.
    #[serde(default)]
    pub repeat: bool,
    /// Tokens that each hash id stands for.
    #[serde(default = "super::mooncake_block")]
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub block_tokens: u32,
    #[serde(default)]
    pub delay: DelayPlace,
}

impl Data {
    /// The files with the keys that name them: those of prompts first.
    pub fn inputs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { jsonl, sharegpt, mooncake, input_ids, plan, lengths, output_lengths, .. } = self;
        let files = [
            ("bench.data.jsonl", jsonl),
            ("bench.data.sharegpt", sharegpt),
            ("bench.data.mooncake", mooncake),
            ("bench.data.input_ids", input_ids),
            ("bench.data.plan", plan),
            ("bench.data.lengths", lengths),
            ("bench.data.output_lengths", output_lengths),
        ];
        files.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)))
    }

    /// Like `inputs`, with the key below `data`.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.inputs().map(|(key, file)| (key.trim_start_matches("bench.data."), file))
    }
}
