//! `regatta serve`: what is typed, and what it means.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Args, ValueHint};

use super::argument_error::ArgumentError;
use super::common_args::HOW;
use super::force::{ForceArgs, force};
use super::key_value_arg::{KeyValueArg, rehearsal};
use super::request::{Select, ServeRequest};
use super::run_mode::RunModeArgs;

pub(super) const USAGE: &str = "regatta serve [OPTIONS] <MANIFEST> [STAGE] [KEY=VALUE]... [-- COMMAND...]";

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// A manifest's name (`regatta list`) or a path to its file.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// The `serve` stage, or one task of it [default: the only one]; then parameters of the manifest.
    #[arg(value_name = "STAGE|KEY=VALUE")]
    pub arguments: Vec<String>,
    /// Run this command with the endpoints in its environment (`REGATTA_ENDPOINTS`, `REGATTA_GRPC`, `REGATTA_HTTP`,
    /// `REGATTA_METRICS`, `REGATTA_MODEL`), stop the servers when it ends, and exit with its exit code.
    #[arg(value_name = "COMMAND", last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub force: ForceArgs,
    /// Print the endpoints as one line of JSON in place of the table.
    #[arg(help_heading = HOW, long, conflicts_with = "events")]
    pub json: bool,
    #[command(flatten)]
    pub mode: RunModeArgs,
}

pub(super) fn into_request(args: ServeArgs) -> Result<ServeRequest, ArgumentError> {
    let (words, names): (Vec<_>, Vec<_>) = args.arguments.into_iter().partition(|word| word.contains('='));
    let wrong = |text: String| (ErrorKind::InvalidValue, text);
    let stage = match names.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        [first, second, ..] => {
            return Err(wrong(format!("`{first}` and `{second}`: one STAGE is served; parameters are KEY=VALUE")));
        }
    };
    let mut settings: Vec<KeyValueArg> = words
        .iter()
        .map(|word| word.parse().map_err(|error| wrong(format!("{error}"))))
        .collect::<Result<_, ArgumentError>>()?;
    settings.extend(rehearsal(args.mode.rehearse));
    if args.mode.events.is_some() && !args.command.is_empty() {
        return Err((
            ErrorKind::ArgumentConflict,
            "--events jsonl cannot be used with a COMMAND: both write to stdout".to_owned(),
        ));
    }
    let select = Select { force: force(args.force, &mut settings)?, repeat_number: 1, ..Select::default() };
    let run = args.mode.into_request(args.manifest, settings, select)?;
    Ok(ServeRequest { run, stage, command: args.command, json: args.json })
}
