//! The seed of a server's sampling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The seed of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum RandomSeed {
    /// The same for every request.
    Fixed(u64),
    /// `true`: one for each request, drawn with the bench's seed and the request's number.
    PerRequest(bool),
}
