//! The options of `regatta bench`: its own names, with GenAI-Perf's and `benchmark_core_model`'s as aliases.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::builder::{
    OsStringValueParser, PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser,
};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum, ValueHint, value_parser};
use serde_json::{Map, Value, json};

use super::values::{GpuSelection, any, host_and_port, whole};
use base::spec::{
    BenchOption, FieldKind, LengthField, Protocol, Quantity, REQUEST_FIELDS, RequestField, SweepLevels,
    UnmeasuredProtocol,
};

const WHERE: &str = "Target";
const SERVED: &str = "A server for the measurement";
const LOAD: &str = "Load";
pub(super) const WHAT: &str = "Requests";
const JUDGE: &str = "Limits";
const OUT: &str = "Output";
const OTHERS: &str = "Options of other tools, for their command lines";

/// The options of `regatta bench` as they were given.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct BenchArgs {
    /// The server: `http://HOST:PORT` (OpenAI; a path selects the interface), `openai://HOST:PORT` (the server
    /// decides), `HOST:PORT` or `grpc://HOST:PORT` (Triton over gRPC), `sim:` or `sim:h100/llama2-70b` (simulated).
    #[arg(value_name = "TARGET", value_hint = ValueHint::Url)]
    pub target: Option<String>,
    /// TARGET as an option. Without a scheme, other options select the protocol.
    #[arg(help_heading = WHERE, short, long, value_name = "URL", conflicts_with = "target")]
    #[arg(visible_aliases = ["base-url", "endpoint-url"], alias = "target")]
    pub url: Option<String>,
    /// The model [default: that of the URL; the only one of an OpenAI server, or its `ensemble`; Triton's
    /// `tensorrt_llm`].
    #[arg(help_heading = WHERE, short, long, value_name = "NAME")]
    pub model: Option<String>,
    /// The protocol of requests.
    #[arg(help_heading = WHERE, long, value_name = "NAME", value_parser = ProtocolParser)]
    pub protocol: Option<&'static str>,
    /// The path of requests over HTTP, in place of the usual one.
    #[arg(help_heading = WHERE, long, value_name = "PATH")]
    pub endpoint: Option<String>,
    /// Environment variable with the server's API key. The key is never shown.
    #[arg(help_heading = WHERE, long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// A header of every request; over gRPC, metadata. `${VARIABLE}` is read from the environment. Values of secret
    /// headers, such as api-key, are never shown or stored. Repeatable.
    #[arg(help_heading = WHERE, short = 'H', long, value_name = "NAME:VALUE")]
    pub header: Vec<String>,
    /// Wait this long for a server that is loading: `10m` [default: not at all].
    #[arg(help_heading = WHERE, long, value_name = "TIME")]
    pub ready_timeout: Option<String>,
    /// For `https://`: CA certificates, or the server's own, to trust instead of this machine's.
    #[arg(help_heading = WHERE, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(value_parser = utf8_path())]
    pub cacert: Option<String>,
    /// For `https://`: accept any certificate.
    #[arg(help_heading = WHERE, short = 'k', long, conflicts_with = "cacert")]
    pub insecure: bool,
    /// For `https://`: the client certificate, for servers that require one.
    #[arg(help_heading = WHERE, long, value_name = "FILE", requires = "key", value_hint = ValueHint::FilePath)]
    #[arg(value_parser = utf8_path())]
    pub cert: Option<String>,
    /// The key of --cert.
    #[arg(help_heading = WHERE, long, value_name = "FILE", requires = "cert", value_hint = ValueHint::FilePath)]
    #[arg(value_parser = utf8_path())]
    pub key: Option<String>,
    /// Connections to each server over gRPC; over HTTP every request in flight has its own.
    #[arg(help_heading = WHERE, long, value_name = "N", default_value = "1")]
    #[arg(value_parser = whole(value_parser!(u32).range(1..)))]
    pub connections: Quantity<u32>,
    /// Over gRPC: one stream per request, or one per connection, as in NVIDIA's harness and tritonclient.
    #[arg(help_heading = WHERE, long, value_name = "MODE", default_value = "per-request")]
    pub stream: StreamWord,

    /// Start a server for the measurement. TARGET is then the model: a Hugging Face name or a folder. Arguments after
    /// `--` go to the server.
    #[arg(help_heading = SERVED, long, value_name = "ENGINE", requires = "target", conflicts_with = "url")]
    pub serve: Option<ServedWord>,
    /// GPUs per server: tensor parallelism.
    #[arg(help_heading = SERVED, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), requires = "serve")]
    pub tp: u32,
    /// Number of servers, each with its own GPUs.
    #[arg(help_heading = SERVED, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), requires = "serve")]
    pub copies: u32,
    /// The command that starts it: `"python3 -m vllm.entrypoints.openai.api_server"` [default: `vllm serve`, `python3
    /// -m sglang.launch_server`, `trtllm-serve` or `llama-server`].
    #[arg(help_heading = SERVED, long, value_name = "COMMAND", requires = "serve")]
    pub program: Option<String>,
    /// GPUs to lease: a count (`0`: none), or ids with commas (`0,2`; `0,` is GPU 0 alone) [default: all].
    #[arg(help_heading = SERVED, long, value_name = "N|LIST", requires = "serve")]
    pub gpus: Option<GpuSelection>,
    /// Additional arguments for the server.
    #[arg(last = true, value_name = "ARGUMENT", requires = "serve")]
    pub server_args: Vec<String>,

    /// Closed loop: N users, each of whom waits for an answer before the next request [default: 1]. A sweep: `1,2,4,8`,
    /// `1..64` (doubling), `1..64:5` (5 levels with equal ratios).
    #[arg(help_heading = LOAD, short, long, value_name = "N|LEVELS", value_parser = whole(SweepLevels::from_str))]
    #[arg(group = "load", visible_alias = "max-concurrency", alias = "users")]
    pub concurrency: Option<Quantity<SweepLevels>>,
    /// Open loop: N requests per second, whether or not earlier ones are answered; latency counts from the scheduled
    /// time. -1: all at once. Several levels make a sweep.
    #[arg(help_heading = LOAD, long, visible_aliases = ["request-rate", "rps", "qps"], value_name = "N|LEVELS")]
    #[arg(allow_hyphen_values = true, value_parser = any(SweepLevels::from_str), group = "load")]
    pub rate: Option<Quantity<SweepLevels>>,
    /// A curve from idle to saturated: one user, then more until throughput stops growing, then N rates in between
    /// [default: 8].
    #[arg(help_heading = LOAD, long, value_name = "N", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "8", value_parser = value_parser!(u32).range(1..=200), group = "load")]
    pub sweep: Option<u32>,
    /// All requests at once.
    #[arg(help_heading = LOAD, long, group = "load")]
    pub offline: bool,
    /// Send each record of --data at its time stamp, SPEED times as fast [default: 1; the load of a trace if no other
    /// is given].
    #[arg(help_heading = LOAD, long, visible_alias = "fixed-schedule", value_name = "SPEED", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "1", requires = "data", group = "load")]
    pub trace: Option<f64>,
    /// The distribution of arrivals at a rate [default: poisson].
    #[arg(help_heading = LOAD, long, visible_aliases = ["request-distribution", "time-delay-dist"], value_name = "LAW")]
    pub arrivals: Option<ArrivalsWord>,
    /// Number of requests, at each level of a sweep [default: 100, unless a duration or data is given].
    #[arg(help_heading = LOAD, short = 'n', long, visible_aliases = ["request-count", "num-requests", "max-requests"])]
    #[arg(value_name = "N", value_parser = whole(value_parser!(u64).range(1..)))]
    pub requests: Option<Quantity<u64>>,
    /// How long to send requests: `30s`, `5m`. With --requests, whichever is longer [default for each level of a sweep:
    /// 30s].
    #[arg(help_heading = LOAD, long, value_name = "TIME")]
    pub duration: Option<String>,
    /// How long to send requests, in milliseconds.
    #[arg(help_heading = LOAD, short = 'p', long, value_name = "MS", conflicts_with = "duration")]
    #[arg(value_parser = whole(value_parser!(u64).range(1..)))]
    pub measurement_interval: Option<Quantity<u64>>,
    /// Measure N times with consecutive seeds, and print means and intervals over the runs. `regatta compare` needs
    /// several runs to judge a difference.
    #[arg(help_heading = LOAD, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Number of warm-up requests, sent under the same load.
    #[arg(help_heading = LOAD, long, visible_alias = "warmup-request-count", value_name = "N", default_value = "1")]
    #[arg(aliases = ["warmup-requests", "num-warmups"])]
    #[arg(value_parser = whole(value_parser!(u32)))]
    pub warmup: Quantity<u32>,

    /// Prompts from a file: `.jsonl` (prompts, or a Mooncake trace), `.npy` (token ids), `.json` (ShareGPT).
    #[arg(help_heading = WHAT, long, visible_aliases = ["input-file", "dataset"], value_name = "FILE")]
    #[arg(alias = "dataset-path")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: Option<PathBuf>,
    /// The format of the file, if its name does not show it.
    #[arg(help_heading = WHAT, long, value_name = "KIND", requires = "data")]
    pub data_kind: Option<DataWord>,
    /// Start over at the end of the data. Otherwise it is an error if the data end before --requests or --duration.
    #[arg(help_heading = WHAT, long, requires = "data")]
    pub repeat_data: bool,
    /// A tokenizer.json or its folder: prompts get exactly the requested length, and answers are counted if the server
    /// does not count them.
    #[arg(help_heading = WHAT, long, visible_alias = "tokenizer-dir", value_name = "PATH")]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub tokenizer: Option<String>,
    /// Mean length of synthetic prompts, in tokens [default: 550].
    #[arg(help_heading = WHAT, long, visible_aliases = ["synthetic-input-tokens-mean", "isl", "input-mean"])]
    #[arg(aliases = ["input-len", "random-input-len", "prompt-tokens"])]
    #[arg(value_name = "N", value_parser = whole(value_parser!(u32).range(1..)))]
    pub input_tokens: Option<Quantity<u32>>,
    /// Standard deviation of prompt lengths.
    #[arg(help_heading = WHAT, long, visible_aliases = ["synthetic-input-tokens-stddev", "isl-stddev", "input-stdev"])]
    #[arg(value_name = "N", default_value = "0", value_parser = any(f64::from_str))]
    pub input_tokens_stddev: Quantity<f64>,
    /// Maximum prompt length; longer prompts of --data are left out. Without a tokenizer words are counted.
    #[arg(help_heading = WHAT, long, value_name = "N", value_parser = whole(value_parser!(u32).range(1..)))]
    pub max_input_len: Option<Quantity<u32>>,
    /// Mean length of answers, in tokens [default: 128, or as in the data].
    #[arg(help_heading = WHAT, long, visible_aliases = ["output-tokens-mean", "osl", "output-mean"], value_name = "N")]
    #[arg(aliases = ["output-len", "random-output-len", "max-tokens", "max-output-tokens"])]
    #[arg(value_parser = whole(value_parser!(u32).range(1..)))]
    pub output_tokens: Option<Quantity<u32>>,
    /// Standard deviation of answer lengths.
    #[arg(help_heading = WHAT, long, visible_aliases = ["osl-stddev", "output-stdev"], value_name = "N")]
    #[arg(default_value = "0", value_parser = any(f64::from_str))]
    pub output_tokens_stddev: Quantity<f64>,
    /// Over openai-chat: the field for the length of the answer [default: max_tokens].
    #[arg(help_heading = WHAT, long, value_name = "NAME", value_parser = length_field())]
    pub length_field: Option<LengthField>,
    /// Ignore the end token, so that answers have exactly the requested length.
    #[arg(help_heading = WHAT, long, visible_alias = "output-tokens-mean-deterministic")]
    pub ignore_eos: bool,
    #[command(flatten)]
    pub fields: RequestOptions,
    /// Stream the answer, one chunk per token: the default where the model can.
    #[arg(help_heading = WHAT, long, conflicts_with = "no_streaming")]
    pub streaming: bool,
    /// Get the whole answer in one response.
    #[arg(help_heading = WHAT, long)]
    pub no_streaming: bool,
    /// An additional field of every request: `NAME:VALUE`, or a JSON object. Repeatable.
    #[arg(help_heading = WHAT, long, visible_alias = "extra-inputs", value_name = "NAME:VALUE")]
    pub extra: Vec<String>,
    /// Seed of arrivals, lengths and prompts: the same seed gives the same requests at the same times.
    #[arg(help_heading = WHAT, long, visible_alias = "random-seed", value_name = "N", default_value = "0")]
    #[arg(value_parser = whole(value_parser!(u64)))]
    pub seed: Quantity<u64>,
    /// End-of-sequence token of models that take token ids.
    #[arg(help_heading = WHAT, long, value_name = "ID", default_value_t = 2, allow_negative_numbers = true)]
    pub end_id: i32,
    /// Prompt tokens are drawn below this, for models that take token ids.
    #[arg(help_heading = WHAT, long, value_name = "N", default_value_t = 32_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..))]
    pub vocab_size: u32,

    /// Limit for the 99th percentile of TTFT: `450ms`. Above it the run is LIMIT MISSED.
    #[arg(help_heading = JUDGE, long, value_name = "TIME")]
    pub ttft_p99: Option<String>,
    /// Limit for the 99th percentile of TPOT.
    #[arg(help_heading = JUDGE, long, value_name = "TIME")]
    pub tpot_p99: Option<String>,
    /// Any limit of a manifest's `limits`: `e2e_p95=9s`, `itl_p99=60ms`, `failures=0.5%`, `goodput=95%`. Repeatable.
    #[arg(help_heading = JUDGE, long, value_name = "KEY=LIMIT")]
    pub limit: Vec<String>,
    /// The SLO of each request, for goodput: `ttft:450`, `tpot:40`, `e2e:9000`, in ms. GenAI-Perf's metric names are
    /// accepted too.
    #[arg(help_heading = JUDGE, long, value_name = "METRIC:MS", num_args = 1..)]
    pub goodput: Vec<String>,
    /// A request fails when no token arrives for this long.
    #[arg(help_heading = JUDGE, long, visible_alias = "stream-timeout", value_name = "TIME", default_value = "60s")]
    pub stall_timeout: String,

    /// Copy result.json, requests.jsonl, report.html and the manifest of this run to DIR. Only files of the same
    /// benchmark are replaced.
    #[arg(help_heading = OUT, short, long, visible_aliases = ["artifact-dir", "output-dir"], value_name = "DIR")]
    #[arg(value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Copy the requests, one JSON object a line, to this file.
    #[arg(help_heading = OUT, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub profile_export_file: Option<PathBuf>,
    /// Keep the time of every chunk, for `regatta export --as perf-analyzer` and the time to the second token.
    #[arg(help_heading = OUT, long)]
    pub timelines: bool,
    /// Also write JUnit XML: a failure where the benchmark is not valid.
    #[arg(help_heading = OUT, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Serve OpenMetrics at `/metrics` here during the run; port 0 takes a free one.
    #[arg(help_heading = OUT, long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub metrics_listen: Option<String>,
    /// Print the result as JSON on stdout, and nothing else there.
    #[arg(help_heading = OUT, long)]
    pub json: bool,
    /// Print the manifest of this run, and start nothing. `regatta run` takes it.
    #[arg(help_heading = OUT, long)]
    pub dry_run: bool,

    /// The kind of server.
    #[arg(help_heading = OTHERS, long, value_name = "KIND")]
    pub service_kind: Option<ServiceWord>,
    /// The backend of the Triton model.
    #[arg(help_heading = OTHERS, long, value_name = "NAME")]
    pub backend: Option<BackendWord>,
    /// The interface of the server.
    #[arg(help_heading = OTHERS, long, value_name = "TYPE")]
    pub endpoint_type: Option<EndpointWord>,
    /// Not needed: each request has its own prompt.
    #[arg(help_heading = OTHERS, long, alias = "num-dataset-entries", value_name = "N")]
    pub num_prompts: Option<u64>,
    /// Not needed: a run ends after its requests or its duration.
    #[arg(help_heading = OTHERS, short = 's', long, value_name = "PERCENT", action = ArgAction::Set)]
    pub stability_percentage: Option<f64>,
    /// The source of prompts.
    #[arg(help_heading = OTHERS, long, value_name = "SOURCE")]
    pub prompt_source: Option<PromptWord>,
    /// Not needed: the server reports whether the model is decoupled.
    #[arg(help_heading = OTHERS, long)]
    pub decoupled: bool,
}

/// Reads a protocol, and names one that is not measured.
#[derive(Clone)]
struct ProtocolParser;

impl TypedValueParser for ProtocolParser {
    type Value = &'static str;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        if let Some(unmeasured) = value.to_str().and_then(UnmeasuredProtocol::find) {
            let text = format!("`--protocol {}`: {unmeasured}\n", value.display());
            return Err(Error::raw(ErrorKind::InvalidValue, text).with_cmd(command));
        }
        let name = PossibleValuesParser::new(Protocol::NAMES).parse_ref(command, arg, value)?;
        Ok(Protocol::NAMES.into_iter().find(|known| *known == name).unwrap_or_default())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Protocol::NAMES.into_iter().map(PossibleValue::new)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServedWord {
    Vllm,
    Sglang,
    TrtllmServe,
    LlamaServer,
}

impl ServedWord {
    /// The action under `serve` that starts it.
    pub const fn action(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::TrtllmServe => "trtllm_serve",
            Self::Sglang | Self::LlamaServer => "command",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamWord {
    #[value(alias = "per_request")]
    PerRequest,
    Shared,
}

/// A manifest has texts.
fn utf8_path() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|path| path.into_string().map_err(|_| "the path is not UTF-8"))
}

fn length_field() -> impl TypedValueParser<Value = LengthField> {
    let names = LengthField::ALL.iter().map(|field| field.as_str());
    PossibleValuesParser::new(names).try_map(|name| serde_json::from_value::<LengthField>(name.into()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsWord {
    /// Exponential gaps.
    #[value(alias = "exponential_dist")]
    Poisson,
    /// Exponential gaps, scaled so that the last of N requests arrives at N / rate.
    #[value(alias = "poisson_scaled")]
    PoissonScaled,
    /// Equal gaps.
    Constant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceWord {
    Triton,
    Openai,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendWord {
    #[value(alias = "trtllm")]
    Tensorrtllm,
    Vllm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointWord {
    Kserve,
    Generate,
    Chat,
    Completions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataWord {
    /// A prompt a line.
    Jsonl,
    /// Conversations.
    Sharegpt,
    /// A trace: time stamps, lengths and shared prefixes; replayed as with --trace if no load is given.
    Mooncake,
    /// Token ids, a row for each prompt.
    InputIds,
    /// The plan.jsonl of another run.
    Plan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PromptWord {
    Synthetic,
}

// Options that set a field of the request are made from the field's row.

/// Keys of the manifest's `request` with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions(pub Map<String, Value>);

/// The rows that an option is made from.
fn rows() -> impl Iterator<Item = (&'static RequestField, BenchOption)> {
    let rows = REQUEST_FIELDS.iter().filter_map(|field| Some((field, field.option?)));
    rows.filter(|(_, option)| !option.help.is_empty())
}

fn parser(kind: FieldKind) -> (&'static str, ValueParser) {
    match kind {
        FieldKind::Int { min, max } => {
            ("N", whole(value_parser!(i64).range(min..=max)).map(|value| json!(value)).into())
        }
        FieldKind::Number(_) => ("X", any(f64::from_str).map(|value| json!(value)).into()),
        _ => ("VALUE", StringValueParser::new().map(|value| json!(value)).into()),
    }
}

impl Args for RequestOptions {
    fn augment_args(command: Command) -> Command {
        rows().fold(command, |command, (field, option)| {
            let (value_name, parser) = parser(field.kind);
            let arg = Arg::new(field.key).long(option.name).help(option.help).help_heading(WHAT);
            command.arg(arg.value_name(value_name).value_parser(parser))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RequestOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let value =
            |(field, _): (&RequestField, _)| Some((field.key.to_owned(), matches.get_one::<Value>(field.key)?.clone()));
        Ok(Self(rows().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_sets_the_key_of_its_row() {
        let command = RequestOptions::augment_args(Command::new("bench"));
        let matches = command.try_get_matches_from(["bench", "--temperature", "0.5", "--min-tokens", "3"]).unwrap();
        let options = RequestOptions::from_arg_matches(&matches).unwrap();
        assert_eq!(Value::Object(options.0), json!({"temperature": 0.5, "min_length": 3}));
    }
}
