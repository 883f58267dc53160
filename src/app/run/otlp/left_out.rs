//! A program without the feature `otlp` sends no telemetry.

use super::endpoints::OtlpEndpoints;
use crate::console::print_error;
use base::diag::FeatureLeftOut;
use base::event::Event;

/// Records nothing.
#[derive(Debug)]
pub struct OtlpRecorder;

impl OtlpRecorder {
    pub const fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the real one keeps what it takes")]
    pub const fn take(&mut self, _: &Event) {}
}

/// The environment named a collector; `--otlp` is refused before the run.
pub fn send(_: &OtlpRecorder, endpoints: &OtlpEndpoints) {
    let url = endpoints.shown();
    print_error(&format!("warning: the run's telemetry was not sent to {url}: {}\n", FeatureLeftOut("otlp")));
}
