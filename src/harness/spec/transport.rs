//! What is requested over HTTP, and how: plain types of the harness's public interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::spec::{Protocol, Tls, requests_token_ids};

pub(crate) const USUAL_MODELS_PATH: &str = "/v1/models";

/// What requests are sent over: a protocol with its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
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

impl Http {
    pub fn new(api: Api) -> Self {
        Self { api, path: None, extra: serde_json::Map::new(), api_key_env: None, prompt_ids: false, tls: None }
    }

    /// Answers to one prompt.
    pub(crate) fn choices(&self) -> u32 {
        let choices = self.extra.get("n").and_then(serde_json::Value::as_u64);
        choices.map_or(1, |n| u32::try_from(n).unwrap_or(u32::MAX).max(1))
    }

    /// Where a server of OpenAI's interfaces lists its models: below the base URL that its completions are below.
    pub(crate) fn models_path(&self) -> String {
        let base = self.path.as_deref().and_then(|path| {
            let base = path.strip_suffix("/completions")?;
            Some(base.strip_suffix("/chat").unwrap_or(base))
        });
        base.map_or_else(|| USUAL_MODELS_PATH.to_owned(), |base| format!("{base}/models"))
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
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Generate => Protocol::Generate,
            Self::OpenaiChat => Protocol::OpenaiChat,
            Self::OpenaiCompletions => Protocol::OpenaiCompletions,
        }
    }

    /// The path of OpenAI's interfaces, on a server without a prefix.
    pub const fn openai_path(self) -> Option<&'static str> {
        match self {
            Self::Generate => None,
            Self::OpenaiChat => Some("/v1/chat/completions"),
            Self::OpenaiCompletions => Some("/v1/completions"),
        }
    }
}

impl Transport {
    /// The transport without the names of certificates and keys, for a result.
    pub(crate) fn without_files(&self) -> Self {
        let mut shown = self.clone();
        if let Self::Http(http) = &mut shown {
            http.tls = http.tls.take().map(|tls| Box::new(tls.without_files()));
        }
        shown
    }

    /// Answers to one prompt that its settings request.
    pub(crate) fn choices(&self) -> u32 {
        match self {
            Self::Kserve => 1,
            Self::Http(http) => http.choices(),
        }
    }

    /// Whether both prompts and answers are token ids.
    pub(crate) fn answers_with_ids(&self) -> bool {
        match self {
            Self::Kserve => true,
            Self::Http(http) => {
                http.api == Api::OpenaiCompletions && http.prompt_ids && requests_token_ids(&http.extra)
            }
        }
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Kserve => Protocol::Kserve.as_str(),
            Self::Http(http) => http.api.protocol().as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_listed_below_the_base_url_of_the_requests() {
        for (path, models) in [
            (None, "/v1/models"),
            (Some("/v1/completions"), "/v1/models"),
            (Some("/api/llm/v1/chat/completions"), "/api/llm/v1/models"),
            (Some("/api/paas/v4/chat/completions"), "/api/paas/v4/models"),
            (Some("/generate"), "/v1/models"),
        ] {
            let http = Http { path: path.map(str::to_owned), ..Http::new(Api::OpenaiChat) };
            assert_eq!(http.models_path(), models);
        }
    }
}
