//! `regatta mlperf assemble`: several packages as one submission, checked.

use super::upload::{require_password, upload};
use super::{named, no_endpoints, verdict};
use crate::cli::{AssembleOptions, CliExit, PasswordSource};
use crate::console::print_error;
use crate::error::CommandError;
use base::diag::ErrorText;
use mlperf::{AssembleError, AssembleRequest, ForeignResult, require_archive_name};
use report::Styler;

pub(super) fn assemble(options: AssembleOptions, styler: Styler) -> Result<CliExit, CommandError> {
    let mut parts = options.packages.iter().chain(options.logs.iter().map(|one| &one.folder));
    if let Some(found) = parts.find_map(|folder| mlperf::endpoints_result(folder)) {
        return Err(no_endpoints(&found));
    }
    let logs = options.logs.into_iter().map(|one| ForeignResult {
        system: one.system,
        benchmark: one.benchmark,
        scenario: one.scenario,
        folder: one.folder,
    });
    if let Some(path) = &options.archive {
        require_archive_name(path).map_err(CommandError::usage)?;
    }
    let password: Option<PasswordSource> =
        options.encrypt.as_deref().map(str::parse).transpose().map_err(CommandError::usage)?;
    if let Some(password) = &password {
        require_password(password).map_err(CommandError::usage)?;
    }
    let request = AssembleRequest {
        round: options.round.as_deref().map(named).transpose()?,
        packages: options.packages,
        logs: logs.collect(),
        documentation: options.documentation,
        copy_to_99: options.also_99,
        rehearse: options.rehearse,
    };
    let round = mlperf::assemble(&request, &options.out).map_err(|error| {
        let hint = match &error {
            AssembleError::NoRound(_) => Some("`--round` names it"),
            AssembleError::NotEmpty(_) => Some("`--out` names a new folder"),
            AssembleError::Io { path, .. } | AssembleError::Json { path, .. }
                if request.logs.iter().any(|logs| logs.system == *path) =>
            {
                Some("`--logs SYSTEM.json:BENCHMARK:SCENARIO=FOLDER`: the description of the system comes first")
            }
            _ => None,
        };
        CommandError::usage(ErrorText::new(error).maybe_hint(hint))
    })?;
    let examined = mlperf::examine(&options.out, &round);
    let exit = verdict(&examined, &options.shown, styler)?;
    if let Some(path) = &options.archive {
        if examined.refusal_count() > 0 {
            print_error(&format!("{} is not written: the submission is refused\n", path.display()));
        } else {
            print_error(&upload(&options.out, path, password.as_ref())?);
        }
    }
    Ok(exit)
}
