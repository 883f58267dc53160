//! Sends a finished run to a collector.

use std::time::Duration;

use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::checked_exporter::CheckedExporter;
use super::endpoints::OtlpEndpoints;
use super::recorder::OtlpRecorder;
use super::{metrics, spans};
use crate::console::print_error;
use base::units::counted;

/// A collector that does not answer must not keep the run's end waiting for longer.
const LIMIT: Duration = Duration::from_secs(10);

/// Why nothing, or not all, was sent.
#[derive(Debug, thiserror::Error)]
enum OtlpError {
    #[error("{0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("{0}")]
    Sending(#[from] OTelSdkError),
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SentTelemetry {
    /// The trace in hexadecimal digits.
    trace: Option<String>,
    spans: usize,
    values: usize,
}

/// Sends the run. What cannot be sent is reported, and does not change how the run ended.
pub fn send(recorder: &OtlpRecorder, endpoints: &OtlpEndpoints) {
    // Another part of the program may have set it before; there is only one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = endpoints.shown();
    match try_send(recorder, endpoints) {
        Ok(SentTelemetry { trace, spans, values }) => {
            let trace =
                trace.map_or(String::new(), |trace| format!("{} of the trace {trace}, ", counted(spans, "span")));
            print_error(&format!("otlp: {trace}{} of metrics sent to {url}\n", counted(values, "value")));
        }
        Err(error) => print_error(&format!("warning: not all of the run's telemetry was sent to {url}: {error}\n")),
    }
}

fn try_send(recorder: &OtlpRecorder, endpoints: &OtlpEndpoints) -> Result<SentTelemetry, OtlpError> {
    let mut sent = SentTelemetry::default();
    if let Some(url) = &endpoints.traces {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .with_timeout(LIMIT)
            .build()?;
        let (exporter, first_error) = CheckedExporter::new(exporter);
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        let (trace, spans) = spans::record(recorder, &provider);
        provider.shutdown_with_timeout(LIMIT)?;
        first_error.lock().take().map_or(Ok(()), Err)?;
        (sent.trace, sent.spans) = (Some(trace), spans);
    }
    if let Some(url) = &endpoints.metrics {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .with_timeout(LIMIT)
            .build()?;
        let (exporter, first_error) = CheckedExporter::new(exporter);
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource()).build();
        sent.values = metrics::record(recorder.state(), &provider);
        provider.shutdown_with_timeout(LIMIT)?;
        first_error.lock().take().map_or(Ok(()), Err)?;
    }
    Ok(sent)
}

/// `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` decide before the program's own name.
fn resource() -> Resource {
    let builder = Resource::builder();
    let builder = match std::env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => builder,
        None => builder.with_service_name("regatta"),
    };
    builder.with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}
