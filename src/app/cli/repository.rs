//! The arguments of `regatta repository …`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, Subcommand, ValueHint};

use super::help;
use super::values::{ArgumentError, KeyValueArg, read_as};

/// What to do with a model repository.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum RepositoryRequest {
    /// Report all errors of a repository, with file, line and hint.
    #[command(after_long_help = help::REPOSITORY)]
    Check {
        /// A model repository, or a folder of `triton_model_repo_<n>`.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
        /// The engine, where it is not at the `gpt_model_path` that the config names.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        engine: Option<PathBuf>,
        /// GPUs of the machine that will serve it [default: unknown, any will do].
        #[arg(long, value_name = "N")]
        gpus: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fill a tree of config.pbtxt templates into a new folder, as fill_template.py would.
    #[command(after_long_help = help::REPOSITORY)]
    Fill(RepositoryFill),
    /// List the parameters of the templates: kind, default, allowed values, meaning.
    #[command(after_long_help = help::REPOSITORY)]
    Parameters {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A tree of templates to fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFill {
    pub args: RepositoryFillArgs,
    /// A model's name, and a setting for that model alone.
    pub of_models: Vec<(String, KeyValueArg)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RepositoryFillArgs {
    /// The tree, for example `all_models/inflight_batcher_llm`. It stays as it is.
    #[arg(value_name = "TEMPLATES", value_hint = ValueHint::DirPath)]
    pub templates: PathBuf,
    /// Values for every model that has the placeholder.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
    /// The folder to write; it must be new or empty.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// More values, from YAML: `key: value`, or a model's name with keys and values below it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub values: Option<PathBuf>,
    /// A value for one model. Repeatable.
    #[arg(long, num_args = 2, value_names = ["NAME", "KEY=VALUE"], action = ArgAction::Append)]
    pub model: Vec<String>,
    /// More values, in fill_template.py's format: `key:value,key:value`.
    #[arg(long, value_name = "TEXT")]
    pub substitutions: Option<String>,
    /// Let placeholders inside quotes stay: they reach the backend as they are.
    #[arg(long)]
    pub allow_unfilled: bool,
}

impl RepositoryFill {
    fn from_args(args: RepositoryFillArgs) -> Result<Self, ArgumentError> {
        let mut of_models = Vec::new();
        for pair in args.model.chunks_exact(2) {
            let setting = pair[1].parse().map_err(|error| (ErrorKind::InvalidValue, format!("{error}")))?;
            of_models.push((pair[0].clone(), setting));
        }
        Ok(Self { args, of_models })
    }
}

read_as!(RepositoryFill: RepositoryFillArgs);
