//! `bench.scenario:` — how requests arrive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// All requests at once; metric tokens/s.
    Offline,
    /// Arrivals at a rate; latency from the intended time.
    Server,
    /// Arrivals at the time stamps of `data`; later turns of a session also wait for the answer before; latency from the intended time.
    Trace,
    /// N users; each sends its next request when its previous one has ended. Latency counts from then.
    Concurrency,
    /// With `loadgen`: Server with the round's tighter limits.
    Interactive,
    /// With `loadgen`: one request after the other.
    SingleStream,
}
