//! Submissions to MLPerf Inference: the result directory, the submission check, where one stands.
//!
//! The logs under `tests/golden/mlperf/logs` are of LoadGen 6.0.17 with unaltered rules: full-length runs of a server that
//! sleeps, each as `key value` lines without what is long and says nothing. [`good`] makes a submission of them.

mod assembling;
mod broken;
mod divisions;
mod edge;
mod fixture;
mod official;
mod packing;
mod reused_logs;
mod standing;
mod witnesses;

pub(crate) use fixture::sha1;
