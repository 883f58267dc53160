//! How requests are sent: think times, a limit on requests in flight, streams, retries.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pause::Pause;
use base::spec::{Retries, StreamMode};

/// How requests are sent: held back, tried again, over which streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendingSpec {
    /// Of a user between an answer and the next request.
    pub think: Pause,
    /// Arrivals beyond this wait in the client, and their latency counts from when they should have been sent.
    pub max_in_flight: Option<u32>,
    /// Warm up for this long, after the number of requests.
    pub warmup_for: Option<Duration>,
    pub stream: StreamMode,
    /// `None`: what failed has failed.
    pub retries: Option<Retries>,
    /// An answer may take ten times as long after its first token, and a sixth of it for each token. `None`: `stall_timeout`, and at least a
    /// minute. Tests shorten it.
    pub answer_time_out: Option<Duration>,
}
