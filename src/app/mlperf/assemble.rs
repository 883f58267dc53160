//! `regatta mlperf assemble`: several packages as one submission, checked.

use super::{named, verdict};
use crate::app::error::CommandError;
use crate::cli::{AssembleOptions, CliExit};
use crate::mlperf::{self, AssembleError, AssembleRequest, ForeignResult};
use crate::report::Styler;

pub(super) fn assemble(options: AssembleOptions, styler: Styler) -> Result<CliExit, CommandError> {
    let logs = options.logs.into_iter().map(|one| ForeignResult {
        system: one.system,
        benchmark: one.benchmark,
        scenario: one.scenario,
        folder: one.folder,
    });
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
            AssembleError::NoRound(_) => "\n  hint: `--round` names it",
            AssembleError::NotEmpty(_) => "\n  hint: `--out` names a new folder",
            _ => "",
        };
        CommandError::Usage(format!("{error}{hint}"))
    })?;
    let examined = mlperf::examine(&options.out, &round);
    verdict(&examined, options.csv.as_deref(), options.review, options.json, styler)
}
