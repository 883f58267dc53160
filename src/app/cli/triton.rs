//! `regatta triton …`: what was typed, and what it means.

use std::time::Duration;

use base::diag::ErrorText;
use clap::error::ErrorKind;
use clap::{Args, Subcommand};

use super::help;
use super::values::{ArgumentError, HOW, KeyValueArg, read_as};

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct TritonArgs {
    #[command(subcommand)]
    pub command: TritonCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum TritonCommand {
    /// Show liveness, readiness, version and models: exit code 0 when it is ready.
    #[command(after_long_help = help::TRITON_STATUS)]
    Status(TritonStatusArgs),
    /// The models: tensors in and out, and the configuration that is in effect.
    #[command(after_long_help = help::TRITON)]
    Models(ModelsArgs),
    /// Send one request and print the answer as it arrives, with its times.
    #[command(after_long_help = help::TRITON)]
    Infer(InferArgs),
    /// Show /metrics as a table.
    #[command(after_long_help = help::TRITON)]
    Metrics(MetricsArgs),
    /// Print a model's configuration that is in effect, as config.pbtxt.
    #[command(after_long_help = help::TRITON)]
    Config(OfModelArgs),
    /// Show the server's statistics of its models.
    #[command(after_long_help = help::TRITON)]
    Statistics(StatisticsArgs),
    /// Load a model, or load it again (needs --model-control-mode=explicit).
    #[command(after_long_help = help::TRITON)]
    Load(LoadArgs),
    /// Unload a model (needs --model-control-mode=explicit).
    #[command(after_long_help = help::TRITON)]
    Unload(UnloadArgs),
    /// Print the server's log settings, or change them.
    #[command(after_long_help = help::TRITON)]
    Log(LogArgs),
    /// Print the server's trace settings, or change them.
    #[command(after_long_help = help::TRITON)]
    Trace(TraceArgs),
}

#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// `host:port` (gRPC), `grpc://host:port` or `http://host:port`.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Timeout in seconds.
    #[arg(help_heading = HOW, long, value_name = "SECONDS", default_value_t = 10.0)]
    pub deadline: f64,
}

#[derive(Debug, Args)]
pub(super) struct TritonStatusArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Models that must be ready, too.
    #[arg(value_name = "MODEL")]
    pub models: Vec<String>,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Only these.
    #[arg(value_name = "MODEL")]
    pub models: Vec<String>,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct InferArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// The prompt, for models that take text.
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Tokens to request, for models that take text.
    #[arg(long, value_name = "N", visible_alias = "output-len")]
    pub max_tokens: Option<u32>,
    /// The prompt as token ids, for `tensorrt_llm`.
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with = "text", allow_negative_numbers = true)]
    pub input_ids: Vec<i32>,
    /// Any input tensor: nested lists in JSON, missing dimensions in front are 1. Repeatable.
    #[arg(long, value_name = "NAME=JSON")]
    pub input: Vec<String>,
    /// Stream the answer.
    #[arg(long)]
    pub stream: bool,
    /// Print the answers in JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// `host:port` of the metrics (8002 by default), or `http://host:port`.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Timeout in seconds.
    #[arg(help_heading = HOW, long, value_name = "SECONDS", default_value_t = 10.0)]
    pub deadline: f64,
    /// Only families and labels that have this in them.
    #[arg(long, value_name = "TEXT")]
    pub grep: Option<String>,
    /// Print them again every N seconds, with the counters' increase per second.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    pub watch: Option<f64>,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct OfModelArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    #[arg(value_name = "MODEL")]
    pub model: String,
}

#[derive(Debug, Args)]
pub(super) struct StatisticsArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Only this one.
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// JSON in place of its config.pbtxt.
    #[arg(long, value_name = "JSON")]
    pub config: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct UnloadArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// Also unload the models of an ensemble.
    #[arg(long)]
    pub dependents: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// `log_verbose_level=1`, `log_info=false`, …
    #[arg(value_name = "NAME=VALUE")]
    pub set: Vec<KeyValueArg>,
}

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// `trace_rate=1`, `trace_level=TIMESTAMPS`, …; several values with commas.
    #[arg(value_name = "NAME=VALUE")]
    pub set: Vec<KeyValueArg>,
    /// Of this model only.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
}

/// A question to a server.
#[derive(Clone, Debug, PartialEq)]
pub struct TritonRequest {
    pub url: TritonUrl,
    pub deadline: Duration,
    pub act: TritonAction,
}

/// Where a server is, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TritonUrl {
    pub host: String,
    pub port: u16,
    pub protocol: TritonProtocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TritonProtocol {
    Grpc,
    Http,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TritonAction {
    Status { models: Vec<String>, json: bool },
    Models { models: Vec<String>, json: bool },
    Infer(Infer),
    Metrics { grep: Option<String>, watch: Option<Duration>, json: bool },
    Config { model: String },
    Statistics { model: Option<String>, json: bool },
    Load { model: String, config: Option<String> },
    Unload { model: String, dependents: bool },
    Log { set: Vec<KeyValueArg> },
    Trace { model: Option<String>, set: Vec<KeyValueArg> },
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Infer {
    pub model: String,
    pub text: Option<String>,
    pub max_tokens: Option<u32>,
    pub input_ids: Vec<i32>,
    /// Name of a tensor and its values in JSON.
    pub inputs: Vec<(String, serde_json::Value)>,
    pub stream: bool,
    pub json: bool,
}

impl TritonRequest {
    fn from_args(args: TritonArgs) -> Result<Self, ArgumentError> {
        let (server, act) = match args.command {
            TritonCommand::Status(args) => (args.server, TritonAction::Status { models: args.models, json: args.json }),
            TritonCommand::Models(args) => (args.server, TritonAction::Models { models: args.models, json: args.json }),
            TritonCommand::Infer(args) => {
                let inputs = args.input.iter().map(|word| input(word)).collect::<Result<_, _>>()?;
                let infer = Infer {
                    model: args.model,
                    text: args.text,
                    max_tokens: args.max_tokens,
                    input_ids: args.input_ids,
                    inputs,
                    stream: args.stream,
                    json: args.json,
                };
                (args.server, TritonAction::Infer(infer))
            }
            TritonCommand::Metrics(args) => {
                let watch = args.watch.map(seconds).transpose()?;
                let mut url = url(&args.url, 8002)?;
                url.protocol = TritonProtocol::Http;
                let act = TritonAction::Metrics { grep: args.grep, watch, json: args.json };
                return Ok(TritonRequest { url, deadline: seconds(args.deadline)?, act });
            }
            TritonCommand::Config(args) => (args.server, TritonAction::Config { model: args.model }),
            TritonCommand::Statistics(args) => {
                (args.server, TritonAction::Statistics { model: args.model, json: args.json })
            }
            TritonCommand::Load(args) => (args.server, TritonAction::Load { model: args.model, config: args.config }),
            TritonCommand::Unload(args) => {
                (args.server, TritonAction::Unload { model: args.model, dependents: args.dependents })
            }
            TritonCommand::Log(args) => (args.server, TritonAction::Log { set: args.set }),
            TritonCommand::Trace(args) => (args.server, TritonAction::Trace { model: args.model, set: args.set }),
        };
        let url = url(&server.url, 8001)?;
        let knows_http = matches!(
            act,
            TritonAction::Status { .. }
                | TritonAction::Models { .. }
                | TritonAction::Infer(_)
                | TritonAction::Metrics { .. }
        );
        if url.protocol == TritonProtocol::Http && !knows_http {
            let text = format!("this works over gRPC only\n  hint: give the gRPC port: `{}:8001`", url.host);
            return Err((ErrorKind::InvalidValue, text));
        }
        Ok(TritonRequest { url, deadline: seconds(server.deadline)?, act })
    }
}

read_as!(TritonRequest: TritonArgs);

fn url(text: &str, usual: u16) -> Result<TritonUrl, ArgumentError> {
    let invalid = |what: &str| {
        let hint = "write `host:8001` or `grpc://host:8001` for gRPC, `http://host:8000` for HTTP";
        (
            ErrorKind::InvalidValue,
            ErrorText::new(format!("`{text}` is no address of a server: {what}")).hint(hint).to_string(),
        )
    };
    let (face, rest, usual) = match text.split_once("://") {
        None => (TritonProtocol::Grpc, text, usual),
        Some(("grpc", rest)) => (TritonProtocol::Grpc, rest, usual),
        Some(("http", rest)) => (TritonProtocol::Http, rest, if usual == 8001 { 8000 } else { usual }),
        Some(("https" | "grpcs", _)) => return Err(invalid("TLS is not supported here")),
        Some((other, _)) => return Err(invalid(&format!("`{other}` is not known"))),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    // Without the text, which has the secret in it.
    if rest.contains('@') {
        return Err((ErrorKind::InvalidValue, "an address of a server holds no user, password or token".to_owned()));
    }
    // An IPv6 address has colons of its own, and brackets around it.
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().map_err(|_| invalid(&format!("`{port}` is not a port")))?)
        }
        _ => (rest, usual),
    };
    if host.is_empty() {
        return Err(invalid("it has no host"));
    }
    Ok(TritonUrl { host: host.to_owned(), port, protocol: face })
}

fn seconds(seconds: f64) -> Result<Duration, ArgumentError> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| (ErrorKind::InvalidValue, format!("`{seconds}` is no time in seconds; it must be above 0")))
}

fn input(word: &str) -> Result<(String, serde_json::Value), ArgumentError> {
    let invalid = |what: String| {
        let hint = "for example `--input input_ids=[[1,2,3]]` or `--input 'text_input=\"hello\"'`";
        (ErrorKind::InvalidValue, ErrorText::new(format!("`--input {word}`: {what}")).hint(hint).to_string())
    };
    let (name, json) = word.split_once('=').ok_or_else(|| invalid("it is not NAME=JSON".to_owned()))?;
    let value = serde_json::from_str(json).map_err(|error| invalid(format!("`{json}` is not JSON: {error}")))?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_scheme_selects_the_protocol() {
        let read = |text: &str| url(text, 8001).map(|url| (url.host, url.port, url.protocol));
        let is = |host: &str, port, face| Ok((host.to_owned(), port, face));
        assert_eq!(read("h:9"), is("h", 9, TritonProtocol::Grpc));
        assert_eq!(read("h"), is("h", 8001, TritonProtocol::Grpc));
        assert_eq!(read("grpc://h:9/"), is("h", 9, TritonProtocol::Grpc));
        assert_eq!(read("http://h"), is("h", 8000, TritonProtocol::Http));
        assert_eq!(read("http://[::1]:7/metrics"), is("[::1]", 7, TritonProtocol::Http));
        assert_eq!(read("[::1]"), is("[::1]", 8001, TritonProtocol::Grpc));
        for wrong in ["h:x", ":8001", "https://h", "ftp://h", ""] {
            assert!(read(wrong).unwrap_err().1.contains("hint: write"), "{wrong}");
        }
    }

    #[test]
    fn an_input_is_a_name_and_json() {
        assert_eq!(input("a=[1]").unwrap(), ("a".to_owned(), serde_json::json!([1])));
        assert!(input("a").unwrap_err().1.contains("NAME=JSON"));
        assert!(input("a=hello").unwrap_err().1.contains("is not JSON"));
    }
}
