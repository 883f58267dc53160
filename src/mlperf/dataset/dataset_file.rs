//! `dataset.json`: what a prepared data set is, and where it is from.

use serde::{Deserialize, Serialize};

use crate::DatasetRecord;

/// The file that holds a [`DatasetFile`], of which a [`DatasetRecord`] is a part.
pub const DATASET_FILE: &str = "dataset.json";
/// The samples, one a line: `{"input_ids": […], "reference": "…", "task": "…", "id": "…"}`, in the order of the QSL.
pub const SAMPLES_FILE: &str = "dataset.jsonl";

#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetFile {
    #[serde(flatten)]
    pub record: DatasetRecord,
    pub round: String,
    pub form: DatasetFormat,
    /// Name of the file or folder that it was read from.
    pub from: Option<String>,
    /// Tokens of a sample's input.
    pub input_tokens: LengthSpread,
    /// Samples that answers can be compared with.
    pub references: u64,
    /// How it was made up.
    pub made: Option<SyntheticSpec>,
}

/// The form that a data set came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetFormat {
    Parquet,
    Json,
    /// A folder of NumPy arrays.
    Npy,
    MadeUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthSpread {
    pub min: u64,
    pub mean: f64,
    pub max: u64,
}

/// A made-up data set: the same values make the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyntheticSpec {
    pub seed: u64,
    pub input_tokens: super::LengthDistribution,
    pub reference_words: super::LengthDistribution,
}
