//! The data set of a benchmark: from the form that it is published in, or made up, to `dataset.jsonl`, one sample a
//! line.
//!
//! ```text
//!  *.parquet, *.json, *.jsonl, folder of *.npy ─→ Row ─┐
//!  seed, published length statistics           ─→ Row ─┴→ checked against the round ─→ dataset.jsonl, dataset.json
//! ```
//!
//! Rows go through one at a time. Pickle is refused with the command that converts it: reading one runs what is in it.

#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "parquet_stub.rs"]
mod parquet;
mod row;
mod synthetic;
mod write;

pub use row::{DATASET_FILE, DatasetFile, DatasetFormat, LengthSpread, SAMPLES_FILE, SyntheticSpec};
pub(crate) use synthetic::synthetic_text;
pub use synthetic::{LengthDistribution, assumed_lengths};
pub use write::{DatasetRequest, make, read};
