//! What requests carry: prompts drawn from the seed, or read from files.
//!
//! A prompt is a list of parts. Every part is either a recipe (this many tokens of a numbered stream: equal recipes are
//! equal tokens, which is what a server's prefix cache sees) or content of a file. From the same parts a target that
//! takes token ids gets ids, and one that takes text gets text.

mod corpus;
mod jsonl;
mod messages;
mod npy;
mod record_reader;
mod row;
mod tokenizer;

pub use corpus::DataSummary;
pub(super) use corpus::{Corpus, CorpusOrder, CorpusRecord, CorpusTurn, digest as file_digest};
pub(super) use jsonl::{DataErrors, fault};
pub(super) use messages::{PromptRenderer, words_of};
pub use npy::NpyIntegers;
pub(super) use record_reader::{RecordRules, for_each_record};
pub(crate) use row::OwnRequest;
pub use row::{ChatMessage, PreviousAnswers, Prompt};
pub(super) use row::{PromptPart, RandomStream};
