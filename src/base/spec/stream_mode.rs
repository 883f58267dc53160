//! Which streams requests share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the requests of one connection share its streams, over KServe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// A `ModelStreamInfer` for each: own flow control, and a cancelled call ends one request.
    #[default]
    PerRequest,
    /// One `ModelStreamInfer` for all of them, as NVIDIA's harness and tritonclient do it. Needs a decoupled model; when the stream ends, all its requests fail.
    Shared,
}
