//! The arguments of `regatta triton …` and `regatta repository …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueHint};

use super::values::{HOW, KeyValueArg};
use base::diag::ErrorText;

/// What to ask a server, or to do there.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum TritonRequest {
    /// Show liveness, readiness, version and models: exit code 0 when it is ready.
    Status {
        #[command(flatten)]
        server: ServerArgs,
        /// Models that must also be ready.
        #[arg(value_name = "MODEL")]
        models: Vec<String>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Show models with their inputs, outputs and effective configuration.
    Models {
        #[command(flatten)]
        server: ServerArgs,
        /// Only these.
        #[arg(value_name = "MODEL")]
        models: Vec<String>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Send one request and print the answer as it arrives, with its times.
    Infer(Infer),
    /// Show /metrics as a table.
    Metrics {
        /// `host:port` of the metrics (8002 by default), or `http://host:port`.
        // Not read by clap: its error would show a password in the text.
        #[arg(value_name = "URL")]
        url: String,
        /// Timeout in seconds.
        #[arg(help_heading = HOW, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
        deadline: Duration,
        /// Only families and labels with this text.
        #[arg(long, value_name = "TEXT")]
        grep: Option<String>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Print a model's effective configuration, as config.pbtxt.
    Config {
        #[command(flatten)]
        server: ServerArgs,
        #[arg(value_name = "MODEL")]
        model: String,
    },
    /// Load a model, or load it again (needs --model-control-mode=explicit).
    Load {
        #[command(flatten)]
        server: ServerArgs,
        #[arg(value_name = "MODEL")]
        model: String,
        /// JSON to use instead of the model's config.pbtxt.
        #[arg(long, value_name = "JSON")]
        config: Option<String>,
    },
    /// Unload a model (needs --model-control-mode=explicit).
    Unload {
        #[command(flatten)]
        server: ServerArgs,
        #[arg(value_name = "MODEL")]
        model: String,
        /// Also unload the models of an ensemble.
        #[arg(long)]
        dependents: bool,
    },
}

impl TritonRequest {
    /// The server that is asked, as given, and how long to wait for it.
    pub fn server(&self) -> (&str, Duration) {
        match self {
            Self::Metrics { url, deadline, .. } => (url, *deadline),
            Self::Infer(Infer { server, .. })
            | Self::Status { server, .. }
            | Self::Models { server, .. }
            | Self::Config { server, .. }
            | Self::Load { server, .. }
            | Self::Unload { server, .. } => (&server.url, server.deadline),
        }
    }

    /// Where the server is. Metrics have a port of their own, and are read over HTTP.
    ///
    /// # Errors
    /// The text is not an address, or has a secret in it.
    pub fn url(&self) -> Result<TritonUrl, ErrorText> {
        let (text, _) = self.server();
        match self {
            Self::Metrics { .. } => Ok(TritonUrl { protocol: TritonProtocol::Http, ..url(text, 8002)? }),
            _ => url(text, 8001),
        }
    }

    /// Whether it is asked over HTTP, too.
    pub const fn knows_http(&self) -> bool {
        match self {
            Self::Status { .. } | Self::Models { .. } | Self::Infer(_) | Self::Metrics { .. } => true,
            Self::Config { .. } | Self::Load { .. } | Self::Unload { .. } => false,
        }
    }
}

/// A server and how long to wait for its answers.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ServerArgs {
    /// `host:port` (gRPC), `grpc://host:port` or `http://host:port`.
    // Not read by clap: its error would show a password in the text.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Timeout in seconds.
    #[arg(help_heading = HOW, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub deadline: Duration,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Infer {
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
    #[arg(long = "input", value_name = "NAME=JSON", value_parser = input)]
    pub inputs: Vec<(String, serde_json::Value)>,
    /// Stream the answer.
    #[arg(long)]
    pub stream: bool,
    /// Cancel the request after this time, and print what has arrived.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stop_after: Option<Duration>,
    /// Print the answers in JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

/// Where a server is, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TritonUrl {
    pub host: String,
    pub port: u16,
    pub protocol: TritonProtocol,
}

/// How a Triton server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TritonProtocol {
    Grpc,
    Http,
}

/// `usual`: the port where the text has none.
fn url(text: &str, usual: u16) -> Result<TritonUrl, ErrorText> {
    let invalid = |why: &str| {
        ErrorText::new(format_args!("`{text}` is not an address of a server: {why}"))
            .hint("write `host:8001` or `grpc://host:8001` for gRPC, `http://host:8000` for HTTP")
    };
    let (protocol, rest, usual) = match text.split_once("://") {
        None => (TritonProtocol::Grpc, text, usual),
        Some(("grpc", rest)) => (TritonProtocol::Grpc, rest, usual),
        Some(("http", rest)) => (TritonProtocol::Http, rest, if usual == 8001 { 8000 } else { usual }),
        Some(("https" | "grpcs", _)) => return Err(invalid("TLS is not supported here")),
        Some((other, _)) => return Err(invalid(&format!("unknown scheme `{other}`"))),
    };
    let rest = rest.split('/').next().unwrap_or_default();
    if rest.contains('@') {
        // Without the text, which has the secret in it.
        return Err(ErrorText::new("an address of a server holds no user, password or token"));
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
    Ok(TritonUrl { host: host.to_owned(), port, protocol })
}

fn seconds(text: &str) -> Result<Duration, ErrorText> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or_else(|| ErrorText::new("must be a time in seconds above 0"))
}

fn input(text: &str) -> Result<(String, serde_json::Value), ErrorText> {
    let invalid = |why: &str| {
        ErrorText::new(why).hint("for example `--input input_ids=[[1,2,3]]` or `--input 'text_input=\"hello\"'`")
    };
    let (name, json) = text.split_once('=').ok_or_else(|| invalid("it is not NAME=JSON"))?;
    let value = serde_json::from_str(json).map_err(|error| invalid(&format!("`{json}` is not JSON: {error}")))?;
    Ok((name.to_owned(), value))
}

/// What to do with a model repository.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum RepositoryRequest {
    /// Report all errors of a repository, with file, line and hint.
    Check {
        /// A model repository, or a folder of `triton_model_repo_<n>`.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
        /// The engine, if it is not at the config's `gpt_model_path`.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        engine: Option<PathBuf>,
        /// GPUs of the machine that will serve it [default: any number].
        #[arg(long, value_name = "N")]
        gpus: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fill a tree of config.pbtxt templates into a new folder, as fill_template.py would.
    Fill(RepositoryFill),
    /// List the parameters of the templates: kind, default, allowed values, meaning.
    Parameters {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A tree of templates to fill.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RepositoryFill {
    /// The tree, for example `all_models/inflight_batcher_llm`. It stays as it is.
    #[arg(value_name = "TEMPLATES", value_hint = ValueHint::DirPath)]
    pub templates: PathBuf,
    /// Values for every model that has the placeholder.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// The folder to write; it must be new or empty.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// More values, from YAML: `key: value`, or a model's name with keys and values below it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub values: Option<PathBuf>,
    /// A value for one model. Repeatable.
    #[arg(long, num_args = 2, value_names = ["NAME", "KEY=VALUE"], action = ArgAction::Append)]
    pub model: Vec<String>,
    /// More values, in fill_template.py's format: `key:value,key:value`.
    #[arg(long, value_name = "TEXT")]
    pub substitutions: Option<String>,
    /// Let placeholders inside quotes stay: they reach the backend as they are.
    #[arg(long)]
    pub allow_unfilled: bool,
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
            assert!(read(wrong).unwrap_err().to_string().contains("hint: write"), "{wrong}");
        }
    }

    #[test]
    fn an_input_is_a_name_and_json() {
        assert_eq!(input("a=[1]").unwrap(), ("a".to_owned(), serde_json::json!([1])));
        assert!(input("a").unwrap_err().to_string().contains("NAME=JSON"));
        assert!(input("a=hello").unwrap_err().to_string().contains("is not JSON"));
    }
}
