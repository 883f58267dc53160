//! What is requested over HTTP, and how: plain types of the harness's public interface.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The protocol of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// KServe v2 over gRPC.
    #[default]
    Kserve,
    Http(Http),
}

/// Requests over HTTP/1.1, one connection for each that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Http {
    pub api: Api,
    /// In place of the interface's usual path.
    pub path: Option<String>,
    /// Fields of the body besides those that follow from the rest; null takes one out.
    #[serde(default)]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// The environment variable that holds the key sent as `Authorization: Bearer`.
    pub api_key_env: Option<String>,
    /// Prompts go as token ids (completions, and models with `input_ids`).
    #[serde(default)]
    pub prompt_ids: bool,
    /// `None`: nothing is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<Tls>>,
}

/// Trusted authorities and the client's certificate for TLS. The names of the files are not part of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tls {
    /// Authorities, or the server's own certificate, in PEM, in place of those that this machine knows.
    #[serde(skip)]
    pub ca: Option<PathBuf>,
    /// The server's certificate is not checked.
    #[serde(default)]
    pub insecure: bool,
    /// Our own, in PEM, with the chain to its authority.
    #[serde(skip)]
    pub client_cert: Option<PathBuf>,
    #[serde(skip)]
    pub client_key: Option<PathBuf>,
}

impl Http {
    pub fn new(api: Api) -> Self {
        Self { api, path: None, extra: serde_json::Map::new(), api_key_env: None, prompt_ids: false, tls: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Triton's generate extension.
    Generate,
    OpenaiChat,
    OpenaiCompletions,
}

impl Api {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generate => "generate",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiCompletions => "openai-completions",
        }
    }
}

impl Protocol {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Kserve => "kserve",
            Self::Http(http) => http.api.as_str(),
        }
    }
}
