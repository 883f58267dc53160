//! A server's `/metrics`: read, polled over a run, and told in a few numbers.
//!
//! They are what the server counts, and no proof of anything: a Triton counts requests of decoupled models that were
//! cancelled, timed out or failed as successes. They explain a measurement; they are none.

mod parse;
mod scrape;
mod series;

pub use parse::{Exposition, MetricFamily, MetricKind, MetricSample, MetricValue, MetricsError};
pub use scrape::{MetricSeries, Scrape, Scraper, Tick};
pub use series::{Derived, ServerMetric, ServerMetrics, summarise};
