//! Settings of a `bench` that no measurement can be made from.

use plan::manifest::TargetError;

/// The settings contradict each other, or one is missing.
#[derive(Debug, thiserror::Error)]
pub enum BenchSettingError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("the path {0} needs a `protocol` over HTTP: generate, openai-chat, openai-completions")]
    PathOverGrpc(String),
    #[error("`tls` is for protocols over HTTP: set `protocol` to one of generate, openai-chat, openai-completions")]
    TlsOverGrpc,
    #[error("`ramp` replaces `{0}`, and both are given")]
    RampAndLevel(&'static str),
    #[error("this scenario needs a `{0}` or a `ramp`")]
    NoLevel(&'static str),
    #[error("LoadGen's scenarios are offline, server, interactive and single_stream")]
    NotOfLoadgen,
    #[error("`interactive` and `single_stream` are scenarios of LoadGen: add `loadgen`")]
    OnlyOfLoadgen,
}
