//! `regatta mlperf`: the state of a submission, what differs from the last one, whether it is ready to submit, and how
//! much load the system can take.

mod assemble;
mod search;
mod status;
mod upload;

use std::path::Path;

use crate::cli::{CliExit, ExaminationArgs, Global, MlperfRequest, rehearsal};
use crate::console::print;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::files::metadata_if_there;
use mlperf::SubmissionReport;
use report::Styler;
use rules::Round;
use runner::store::write_named;

pub(super) fn perform(global: &Global, request: MlperfRequest) -> Result<CliExit, CommandError> {
    let styler = Styler::chosen(global.color.choice());
    match request {
        MlperfRequest::Status { manifest, settings, json } => status::status(global, manifest, settings, json),
        MlperfRequest::Search { manifest, mut settings, rehearse, cost } => {
            settings.extend(rehearsal(rehearse));
            search::search(global, manifest, settings, cost)
        }
        MlperfRequest::Check { folder, round, shown } => {
            let examined = examined(&folder, round.as_deref())?;
            verdict(&examined, &shown, styler)
        }
        MlperfRequest::Assemble(options) => assemble::assemble(options, styler),
        MlperfRequest::Diff { a, b, json } => {
            for folder in [&a, &b] {
                require_folder(folder)?;
                if mlperf::is_endpoints_result(folder) {
                    return Err(no_endpoints(folder));
                }
            }
            let found = mlperf::compare(&a, &b).map_err(CommandError::usage)?;
            let names = [a.display().to_string(), b.display().to_string()];
            print(&if json {
                report::mlperf::diff_json(&names, &found)
            } else {
                report::mlperf::diff(&names, &found, styler)
            });
            Ok(CliExit::Done)
        }
    }
}

/// Prints what the submission check found, and writes the table of results where one is wanted.
fn verdict(examined: &SubmissionReport, shown: &ExaminationArgs, styler: Styler) -> Result<CliExit, CommandError> {
    if let Some(path) = &shown.csv {
        write_named(path, report::mlperf::results_csv(examined)).map_err(CommandError::usage)?;
    }
    print(&if shown.json {
        report::mlperf::examined_json(examined)
    } else {
        report::mlperf::examined(examined, shown.review, styler)
    });
    Ok(if examined.refusal_count() > 0 { CliExit::Failed } else { CliExit::Done })
}

/// A round by the name that was given for it, `v6.1` or `6.1`.
fn named(name: &str) -> Result<Round, CommandError> {
    let known = Round::NAMES.join(", ");
    Round::named(name).or_else(|| Round::named(&format!("v{name}"))).ok_or_else(|| {
        CommandError::usage(ErrorText::new(format!("there is no round `{name}`")).hint(format!("there are {known}")))
    })
}

fn examined(folder: &Path, round: Option<&str>) -> Result<SubmissionReport, CommandError> {
    require_folder(folder)?;
    let round = match round {
        Some(name) => named(name)?,
        None => mlperf::round_of(folder).ok_or_else(|| {
            if let Some(found) = mlperf::endpoints_result(folder) {
                return no_endpoints(&found);
            }
            let hint =
                format!("the folder with closed/ or open/ in it; `--round` names one of {}", Round::NAMES.join(", "));
            CommandError::usage(ErrorText::new(format!("{}: its round is unknown", folder.display())).hint(hint))
        })?,
    };
    Ok(mlperf::examine(folder, &round))
}

/// Results of MLPerf Endpoints where those of LoadGen are needed.
fn no_endpoints(found: &Path) -> CommandError {
    let (what, hint) = (mlperf::NOT_SUPPORTED, mlperf::OWN_CHECKER);
    CommandError::usage(ErrorText::new(format!("{}: {what}", found.display())).hint(hint))
}

fn require_folder(path: &Path) -> Result<(), CommandError> {
    match metadata_if_there(path) {
        Ok(Some(found)) if found.is_dir() => Ok(()),
        Ok(_) => Err(CommandError::Usage(format!("{}: no such folder", path.display()))),
        Err(error) => Err(CommandError::Usage(format!("{}: {error}", path.display()))),
    }
}
