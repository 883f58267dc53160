//! Other tools' command lines and scripts, read as text: what each argument means here, and what has no place.
//!
//! Nothing is run. The only files that are opened are scripts that a script names, and files of options that a line
//! names, as `vllm serve --config` does. Every argument of a line ends in one of three places: in what is done here,
//! in the notes (carried over, and not quite the same), or in what was left, with why. An unknown argument is an
//! error. No tool is named here:
//! `translate` has the table of them.

mod connections;
mod conversations;
mod load;
mod load_options;
mod options;
mod program;
pub(super) mod python;
mod shell;
mod tool_table;
mod translated_bench;
mod translation;

pub(crate) use connections::{
    StartedServer, TargetMatch, each_text, is_in_container, match_target, mounts, on_the_host, put_container,
    put_secret, read_outputs, replace_path,
};
pub(crate) use conversations::{ConversationOptions, length_pairs, rate_of_conversations};
pub(crate) use load::{TranslatedLoad, range};
pub(crate) use load_options::{
    CHAT, COMPLETIONS, RangeRatio, SHAREGPT_FILE, WHOLE_REQUESTS, adapters, api_key, host_and_port, models, share,
    token_ids,
};
pub(crate) use options::{ConfiguredLine, GivenOption, Opt, ParsedLine, flag, one, read, read_known, yaml_options};
pub(crate) use program::{
    Env, LAUNCHER, Program, assignment, base, idle, idle_command, is_secret, prefix_reason, program, tools,
};
pub use shell::UnknownValue;
pub(crate) use shell::{
    ELEMENT_BLANK, Variables, WrittenCommand, as_typed, as_written, commands_of_page, positional, sequence, split,
    unmentioned, without_prompts,
};
pub(crate) use tool_table::{Compute, OptionRow, ToolTable, tool_table};
pub use translated_bench::{Sweep, TranslatedBench};
pub use translation::{
    GpuScale, ProblemKind, RunLine, RunSetting, ScriptBench, SystemNeed, TranslatedScript, Translation,
    TranslationError, TranslationKind, TranslationProblem, TranslationResult, UntranslatedOption, origin,
};
pub(crate) use translation::{
    TranslateContained, TranslateInner, TranslateRanks, TranslationBuilder, number, quantity,
};
