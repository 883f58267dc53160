//! `--force`: which stages run although they are cached.

use clap::Args;
use clap::error::ErrorKind;

use super::argument_error::ArgumentError;
use super::common_args::CHOICE;
use super::key_value_arg::KeyValueArg;
use super::request::Force;

/// What a bare `--force` stands for. No stage can be called so.
const ALL: &str = "*";

#[derive(Debug, Args)]
pub(super) struct ForceArgs {
    /// Run this stage even if it is cached; without a STAGE, all of them. Repeatable.
    #[arg(help_heading = CHOICE, long, value_name = "STAGE", num_args = 0..=1, default_missing_value = ALL)]
    pub force: Vec<String>,
}

/// What is to be run although it is cached.
///
/// In `run m --force system=h200` the last argument is a setting, not a stage: no stage has a `=` in its name.
pub(super) fn force(args: ForceArgs, settings: &mut Vec<KeyValueArg>) -> Result<Force, ArgumentError> {
    let mut stages = Vec::new();
    let mut all = false;
    for word in args.force {
        if word == ALL {
            all = true;
        } else if word.contains('=') {
            all = true;
            settings.push(word.parse().map_err(|error| (ErrorKind::InvalidValue, format!("{error}")))?);
        } else {
            stages.push(word);
        }
    }
    Ok(match (all, stages.is_empty()) {
        (true, _) => Force::All,
        (false, true) => Force::Nothing,
        (false, false) => Force::Stages(stages),
    })
}
