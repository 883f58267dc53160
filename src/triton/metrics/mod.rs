//! A server's `/metrics`: parsed, polled over a run, and summarized in a few numbers.
//!
//! They are the server's own counts, not a measurement: a Triton counts requests of decoupled models that were
//! cancelled, timed out or failed as successes. They help to explain a measurement.

mod parse;
mod scrape;
mod summary;

pub use parse::{Exposition, MetricFamily, MetricKind, MetricSample, MetricValue};
pub use scrape::{MetricSeries, Scrape, Scraper, ServerPoll, since};
pub use summary::{Derived, ServerMetric, ServerMetrics, summarize, summarize_part, thinned};
