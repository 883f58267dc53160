//! What requests carry: prompts drawn from the seed, or read from files.
//!
//! A prompt is a list of parts. Every part is either a recipe (this many tokens of a numbered stream: equal recipes are equal
//! tokens, which is what a server's prefix cache sees) or content of a file. From the same parts a target that takes token
//! ids gets ids, and one that takes text gets text.

mod corpus;
mod corpus_record;
mod errors;
mod jsonl;
mod messages;
mod npy_integers;
mod padded_ids;
mod perf_analyzer;
mod prompt;
mod prompt_renderer;
mod record_keys;
mod record_reader;
mod row;
mod tokenizer;

pub(super) use corpus::digest as file_digest;
pub(super) use corpus::{Corpus, CorpusOrder};
pub use corpus_record::DataSummary;
pub(super) use corpus_record::{CorpusRecord, CorpusTurn};
pub(super) use errors::{DataErrors, fault};
pub use npy_integers::{NpyError, NpyIntegers};
pub use prompt::{ChatMessage, PreviousAnswers, Prompt};
pub(super) use prompt::{PromptPart, RandomStream};
pub(super) use prompt_renderer::{PromptRenderer, words_of};
pub(super) use record_keys::RecordRules;
pub(super) use record_reader::for_each_record;
