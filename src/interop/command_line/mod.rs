//! Other tools' command lines and scripts, read as text: what each argument means here, and what has no place.
//!
//! Nothing is run, and no file is opened but those with the settings of a `vllm bench sweep` or of a `trtllm-bench`. Every argument
//! of a line ends in one of three places: in what is done here, in the notes (carried over, and not quite the same), or in what was
//! left, with why. An unknown argument is an error. No tool is named here: `translate` has the table of them.

pub(super) mod connections;
pub(super) mod conversations;
pub(super) mod headers;
pub(super) mod host_paths;
pub(super) mod json_number;
pub(super) mod load;
pub(super) mod options;
pub(super) mod program;
pub(super) mod python;
pub(super) mod shell;
pub(super) mod stage_container;
pub(super) mod translated_bench;
pub(super) mod translation;
pub(super) mod translation_error;
pub(super) mod visible_gpus;

pub use shell::UnknownValue;
pub use translated_bench::{Sweep, TranslatedBench};
pub use translation::{
    GpuScale, RunLine, RunSetting, ScriptBench, SystemNeed, TranslatedScript, Translation, TranslationKind,
    UntranslatedOption, origin,
};
pub use translation_error::{ProblemKind, TranslationError, TranslationProblem};
