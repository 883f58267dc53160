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
    /// The model. Triton's `tensorrt_llm` takes token ids, `ensemble` and `tensorrt_llm_bls` take text. For OpenAI the
    /// default is "": the only one that the server lists, adapters aside, or Triton's `ensemble`.
    #[serde(default = "super::tensorrt_llm")]
    pub model: String,
    /// Over HTTP: the path, if not the protocol's usual one.
    pub endpoint: Option<String>,
    /// Over HTTP: additional fields of every body; null removes one.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Over HTTP: the variable with the key for `Authorization: Bearer`. Never shown or stored.
    pub api_key_env: Option<String>,
    /// TLS settings for `https://`, where the defaults do not fit.
    pub tls: Option<Tls>,
    /// Wait at most this long for all servers. [default: no wait; `serve` stages have their own]
    pub ready_timeout: Option<TimeSpan>,
    /// How requests arrive. [default: `concurrency` where that key or its sweep is set, else `server`]
    #[serde(default = "super::server")]
    pub scenario: Scenario,
    /// Server: mean arrivals per second; of sessions, where there are any.
    pub rate: Option<f64>,
    /// Server, instead of `rate`: find the highest rate within all `limits`. Each probe has the arrivals of `stop`.
    pub search: Option<RateSearch>,
    /// Measure at several levels: `points/` has each result, `sweep.json` the curve. An interrupted sweep continues.
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
    /// Pause between an answer and the user's next request, and between turns without a `turn_delay`.
    pub think_time: Option<ThinkTime>,
    /// Server and Trace: beyond this many requests in flight arrivals wait in the client, and the wait counts as
    /// latency. With LoadGen over HTTP: any scenario.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub max_in_flight: Option<u32>,
    /// When to stop. Optional with `data`: each record is then sent once.
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
    /// A `tokenizer.json`: synthetic texts get exactly the requested length, given ones are counted.
    pub tokenizer: Option<String>,
    /// Seed of arrivals, lengths and tokens. The same seed gives the same plan.
    #[serde(default)]
    pub seed: u64,
    /// Runs of this measurement (of each point of a `sweep`), with consecutive seeds from `seed`. `repeats/` has each
    /// run, result.json means and intervals; `compare` judges by their spread.
    #[serde(default = "super::one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 1000))]
    pub repeat: u32,
    /// Set by the plan where several variants are measured in turn; no key of a manifest.
    #[schemars(skip)]
    pub turn: Option<RepeatRole>,
    /// Requests before the measured ones, under the same load (the highest level of a `ramp`); for a `trace` and
    /// LoadGen one after another. Several servers take turns.
    #[serde(default)]
    #[schemars(range(max = MOST_USERS))]
    pub warmup: u32,
    /// Warm up for at least this long.
    pub warmup_time: Option<TimeSpan>,
    /// Connections to each server: `frontends × clients`. Over HTTP each is a pool, with a connection for each request
    /// in flight.
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
    /// A request fails when no token arrives for this long, and with the class `deadline` when its answer takes longer
    /// after its first token than 10 × this and a sixth of this for each requested token (each at least a minute).
    #[serde(default = "super::a_minute")]
    pub stall_timeout: TimeSpan,
    /// Limits that a VALID run meets.
    pub limits: Option<Box<Limits>>,
    /// MLPerf's rules: its LoadGen schedules the requests.
    pub loadgen: Option<Box<Loadgen>>,
    /// The SLO of each request, for goodput. [default: `limits`]
    pub slo: Option<SloLimits>,
    /// Keep the time of every chunk in requests.jsonl (`timeline`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timelines: bool,
    /// The source of GPU readings: power, energy, utilization, memory, clocks.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub telemetry: Telemetry,
    /// Test first, for a second or two against a built-in server that does no work, whether this machine can generate
    /// the load. Not for a `search`.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub preflight: Preflight,
    /// What happens if this machine is too busy for the load.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub when_busy: WhenBusy,
    /// Vocabulary for synthetic prompts.
    #[serde(default = "super::llama_vocabulary")]
    #[schemars(range(min = 10, max = LARGEST_SHAPE))]
    pub vocab_size: u32,
    /// End-of-sequence and padding token id of the requests; synthetic prompts do not contain it. Not for OpenAI.
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

pub(super) fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
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
    /// Where arrivals last 30 s or more.
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
    /// It continues with a notice: for demonstrations.
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
    /// First rate; near the result it saves probes. Not with `loadgen`. [default: `low`]
    pub start: Option<f64>,
    /// Instead of `start`: the `search.json`, or its folder, of an earlier search with the same model and limits. Its
    /// probes do not count. Not with `loadgen`.
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
    /// JSON lines, a JSON list, a file of OpenAI's Batch API, or perf_analyzer's `{"data": […]}`. `regatta manual
    /// prompts` lists the keys of a record.
    pub jsonl: Option<String>,
    /// Conversations as in ShareGPT_V3_unfiltered_cleaned_split.json: a JSON list or JSON lines.
    pub sharegpt: Option<String>,
    /// A trace as JSON lines: `input_length` and `hash_ids` (equal ids are equal tokens), or `text_input`;
    /// `output_length`, `timestamp` (ms).
    pub mooncake: Option<String>,
    /// Token ids: rows of a `.npy` (see `lengths`), or a list a line in a `.jsonl`.
    pub input_ids: Option<String>,
    /// The `plan.jsonl` of another run: the same requests.
    pub plan: Option<String>,
    /// `.npy` with the length of each row of `input_ids`.
    pub lengths: Option<String>,
    /// `.npy` with the output length of each row.
    pub output_lengths: Option<String>,
    /// Only the first N records.
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub first: Option<u64>,
    /// Leave out longer prompts; without a tokenizer words are counted.
    #[schemars(range(min = 1, max = LONGEST_LENGTH))]
    pub max_input_tokens: Option<u32>,
    #[serde(default)]
    pub order: RecordOrder,
    /// Start over at the end of the data; otherwise data that end before `stop` are an error.
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
