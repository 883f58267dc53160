//! What an accuracy run is worth: LoadGen's log decoded, spelt, compared with the references and held against the round.
//!
//! ```text
//!  mlperf_log_accuracy.json ─Answers→ Answer ─Width→ token ids ─Speller→ text ─Recipe→ Worth ─→ accuracy.txt, .json
//!                                       dataset.jsonl → target ────────────────────┘
//! ```
//!
//! The numbers are those of the reference scripts, to the last digit that they print; tests hold them against values that
//! those scripts gave.

mod answers;
mod mistakes;
mod numbers;
mod porter;
mod punkt;
mod recipe;
mod references;
mod rouge;
mod score;
mod sentences;
mod sum;
mod tokens;
mod told;
mod word;

pub use porter::stem;
pub use punkt::{FILES as SENTENCE_FILES, PunktModel as SentenceModel, ModelError};
pub use recipe::{Recipe, Worth};
pub use rouge::{Lexicon, Rouge};
pub use score::{ScoreError, Scored, Scoring, score};
pub use sentences::lined;
pub use tokens::Speller;
pub use told::{ACCURACY_FILE, ACCURACY_TEXT, AccuracyReport, AccuracyLogSummary, MetricScore, DatasetPart, Unscored, AccuracyVerdict};
