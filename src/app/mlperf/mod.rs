//! `regatta mlperf`: the state of a submission, what differs from the last one, and whether it is ready to submit.

mod status;

use std::path::Path;

use crate::cli::{AssembleOptions, CliExit, ExaminationArgs, Global, MlperfRequest};
use crate::console::{print_as, print_error};
use crate::error::CommandError;
use base::diag::{ErrorText, did_you_mean};
use base::files::metadata_if_there;
use base::units::{counted, size};
use mlperf::{AssembleRequest, SubmissionReport, require_archive_name, write_upload};
use report::Styler;
use rules::Round;
use runner::store::write_named;
use serde_json::json;

pub(super) fn perform(global: &Global, request: MlperfRequest) -> Result<CliExit, CommandError> {
    let styler = global.styler();
    match request {
        MlperfRequest::Status { manifest, settings, json } => status::status(global, manifest, settings, json),
        MlperfRequest::Check { folder, round, submitter, shown } => {
            let examined = examined(&folder, round.as_deref(), submitter.as_deref())?;
            verdict(&examined, &shown, styler)
        }
        MlperfRequest::Assemble(options) => assemble(options, styler),
        MlperfRequest::Diff { a, b, submitter, system: systems, json } => {
            for folder in [&a, &b] {
                require_folder(folder)?;
                if mlperf::is_endpoints_result(folder) {
                    return Err(no_endpoints(folder));
                }
            }
            let differences =
                mlperf::compare(&a, &b, &mlperf::DiffSelection { submitter, systems }).map_err(CommandError::usage)?;
            let names = [a.display().to_string(), b.display().to_string()];
            let as_json = || json!({ "a": names[0], "b": names[1], "results": differences });
            print_as(styler, json, as_json, |styler| report::mlperf::diff(&names, &differences).terminal(styler));
            Ok(CliExit::Done)
        }
    }
}

/// Prints what the submission check found, and writes the table of results where one is wanted.
fn verdict(examined: &SubmissionReport, shown: &ExaminationArgs, styler: Styler) -> Result<CliExit, CommandError> {
    if let Some(path) = &shown.csv {
        write_named(path, report::mlperf::results_csv(examined)).map_err(CommandError::usage)?;
    }
    let text = |styler| report::mlperf::examined(examined, shown.review).terminal(styler);
    print_as(styler, shown.json, || report::mlperf::examined_json(examined), text);
    Ok(if examined.refusal_count() > 0 { CliExit::Failed } else { CliExit::Done })
}

/// A round by the name that was given for it, `v6.1` or `6.1`.
fn named(name: &str) -> Result<Round, CommandError> {
    let names = Round::NAMES.join(", ");
    Round::named(name)
        .or_else(|| Round::named(&format!("v{name}")))
        .ok_or_else(|| CommandError::hinted(format!("unknown round `{name}`"), format!("there are {names}")))
}

fn examined(folder: &Path, round: Option<&str>, submitter: Option<&str>) -> Result<SubmissionReport, CommandError> {
    require_folder(folder)?;
    let round = round.map_or_else(|| majority(folder), named)?;
    let whole = mlperf::examine(folder, &round);
    let near =
        submitter.and_then(|name| did_you_mean(name, whole.results.iter().map(|result| result.submitter.as_str())));
    let examined = whole.of_submitter(submitter);
    match submitter.filter(|_| examined.results.is_empty() && examined.not_examined.is_empty()) {
        Some(name) => Err(CommandError::usage(
            ErrorText::new(format!("{}: no result of a submitter `{name}`", folder.display())).maybe_hint(near),
        )),
        None => Ok(examined),
    }
}

/// The round of most logs; reports the others.
fn majority(folder: &Path) -> Result<Round, CommandError> {
    let mut rounds = mlperf::rounds_of(folder).into_iter();
    let Some((round, logs)) = rounds.next() else {
        if let Some(result) = mlperf::endpoints_result(folder) {
            return Err(no_endpoints(&result));
        }
        let hint =
            format!("the folder with closed/ or open/ in it; `--round` names one of {}", Round::NAMES.join(", "));
        return Err(CommandError::hinted(format!("{}: its round is unknown", folder.display()), hint));
    };
    let others: Vec<String> = rounds.map(|(round, logs)| format!("{logs} of {}", round.name)).collect();
    if !others.is_empty() {
        let text = format!("checked for {}, which {logs} logs are of; {}", round.name, others.join(", "));
        print_error(&format!("{text}; `--round` selects another\n"));
    }
    Ok(round)
}

/// Results of MLPerf Endpoints where those of LoadGen are needed.
fn no_endpoints(result: &Path) -> CommandError {
    CommandError::hinted(format!("{}: {}", result.display(), mlperf::NOT_SUPPORTED), mlperf::OWN_CHECKER)
}

fn require_folder(path: &Path) -> Result<(), CommandError> {
    match metadata_if_there(path) {
        Ok(Some(found)) if found.is_dir() => Ok(()),
        Ok(_) => Err(CommandError::Usage(format!("{}: no such folder", path.display()))),
        Err(error) => Err(CommandError::Usage(format!("{}: {error}", path.display()))),
    }
}

pub(super) fn assemble(options: AssembleOptions, styler: Styler) -> Result<CliExit, CommandError> {
    let mut parts = options.packages.iter().chain(options.logs.iter().map(|logs| &logs.folder));
    if let Some(result) = parts.find_map(|folder| mlperf::endpoints_result(folder)) {
        return Err(no_endpoints(&result));
    }
    if let Some(path) = &options.archive {
        require_archive_name(path).map_err(CommandError::usage)?;
    }
    let request = AssembleRequest {
        round: options.round.as_deref().map(named).transpose()?,
        packages: options.packages,
        logs: options.logs,
        documentation: options.documentation,
        copy_to_99: options.also_99,
        rehearse: options.rehearse,
    };
    let (round, left_out) = mlperf::assemble(&request, &options.out).map_err(CommandError::usage)?;
    for path in &left_out {
        print_error(&format!("left out, since a submission has no place for it: {}\n", path.display()));
    }
    let examined = mlperf::examine(&options.out, &round);
    let exit = verdict(&examined, &options.shown, styler)?;
    if let Some(path) = &options.archive {
        if examined.refusal_count() > 0 {
            print_error(&format!("{} is not written: the submission is refused\n", path.display()));
        } else {
            let written = write_upload(&options.out, path).map_err(|error| CommandError::Other(error.into()))?;
            let (files, bytes, sum) = (counted(written.files, "file"), size(written.bytes), written.checksum.display());
            print_error(&format!("{}: {files}, {bytes}; its SHA-1 is in {sum}\n", path.display()));
        }
    }
    Ok(exit)
}
