//! Exporters that keep their errors: the providers of OpenTelemetry only log them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use parking_lot::Mutex;

/// The error of the first export that failed.
pub(super) type FirstError = Arc<Mutex<Option<OTelSdkError>>>;

/// Passes everything on.
pub(super) struct CheckedExporter<E> {
    inner: E,
    first_error: FirstError,
}

impl<E> CheckedExporter<E> {
    pub fn new(inner: E) -> (Self, FirstError) {
        let first_error = FirstError::default();
        (Self { inner, first_error: Arc::clone(&first_error) }, first_error)
    }

    fn keep(&self, exported: OTelSdkResult) -> OTelSdkResult {
        let Err(error) = exported else { return Ok(()) };
        let passed_on = OTelSdkError::InternalFailure(error.to_string());
        self.first_error.lock().get_or_insert(error);
        Err(passed_on)
    }
}

impl<E: fmt::Debug> fmt::Debug for CheckedExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<E: SpanExporter> SpanExporter for CheckedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.keep(self.inner.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for CheckedExporter<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.keep(self.inner.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}
