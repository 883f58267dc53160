//! `--otlp`: a finished run as a trace and as metrics, for a collector of OpenTelemetry. Spans are the run, its tasks and the
//! phases of a task; metrics are the numbers of its results. Sent once, at the end, over HTTP.

#[cfg(feature = "otlp")]
mod checked_exporter;
mod endpoints;
#[cfg(not(feature = "otlp"))]
mod left_out;
#[cfg(feature = "otlp")]
mod metrics;
#[cfg(feature = "otlp")]
mod recorder;
#[cfg(feature = "otlp")]
mod send;
#[cfg(feature = "otlp")]
mod spans;

pub(super) use self::endpoints::OtlpEndpoints;
#[cfg(not(feature = "otlp"))]
pub(super) use self::left_out::{OtlpRecorder, send};
#[cfg(feature = "otlp")]
pub(super) use self::recorder::OtlpRecorder;
#[cfg(feature = "otlp")]
pub(super) use self::send::send;
