//! The result of an accuracy run: LoadGen's log decoded, detokenized, compared with the references and checked against the round.
//!
//! ```text
//!  mlperf_log_accuracy.json ─AnswerLog→ LoggedAnswer ─Width→ token ids ─TokenDecoder→ text ─ScoringMethod→ AnswerScore ─→ accuracy.txt, .json
//!                                                                       dataset.jsonl → target ───┘
//! ```
//!
//! The numbers are those of the reference scripts, to the last digit that they print; tests hold them against values that
//! those scripts gave.

mod answers;
mod characters;
mod errors;
mod numbers;
mod official_scores;
mod porter;
mod punkt;
mod punkt_token;
mod references;
mod report;
mod rouge;
mod score;
mod score_sum;
mod scoring_method;
mod sentences;
mod token_decoder;

pub use porter::stem;
pub use punkt::{FILES as SENTENCE_FILES, ModelError, PunktModel as SentenceModel};
pub use references::ReferencesError;
pub use report::{
    ACCURACY_FILE, ACCURACY_TEXT, AccuracyLogSummary, AccuracyReport, AccuracyVerdict, DatasetPart, MetricScore,
    UnscoredMetric,
};
pub use rouge::{Rouge, WordInterner};
pub use score::{ScoreError, Scored, Scoring, score};
pub use scoring_method::{AnswerScore, ScoringMethod, UnknownTask};
pub use sentences::one_sentence_per_line;
pub use token_decoder::{TokenDecoder, TokenDecoderError};
