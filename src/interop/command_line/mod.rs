//! Other tools' command lines and scripts, read as text: what each argument means here, and what has no place.
//!
//! Nothing is run, and no file is opened but those with the settings of a `vllm bench sweep` or of a `trtllm-bench`.
//! Every argument of a line ends in one of three places: in what is done here, in the notes (carried over, and not
//! quite the same), or in what was left, with why. An unknown argument is an error. No tool is named here:
//! `translate` has the table of them.

pub(super) mod connections;
pub(super) mod conversations;
pub(super) mod load;
pub(super) mod load_options;
pub(super) mod options;
pub(super) mod program;
pub(super) mod python;
pub(super) mod shell;
pub(super) mod stage_container;
pub(super) mod tool_table;
pub(super) mod translated_bench;
pub(super) mod translation;

pub(crate) use conversations::{ConversationOptions, length_pairs, rate_of_conversations};
pub(crate) use load::{TranslatedLoad, range};
pub(crate) use load_options::{CHAT, COMPLETIONS, SHAREGPT_FILE, host_and_port, share, token_ids};
pub(crate) use options::{GivenOption, Opt, ParsedLine, flag, one, read_known};
pub(crate) use program::Env;
pub use shell::UnknownValue;
pub(crate) use stage_container::put_secret;
pub(crate) use tool_table::{Compute, OptionRow, ToolTable};
pub use translated_bench::{Sweep, TranslatedBench};
pub use translation::{
    GpuScale, ProblemKind, RunLine, RunSetting, ScriptBench, SystemNeed, TranslatedScript, Translation,
    TranslationError, TranslationKind, TranslationProblem, UntranslatedOption, origin,
};
pub(crate) use translation::{NoMeaning, TranslateInner, TranslationBuilder, manifest, number, quantity};
