//! The official submission checker of mlcommons/inference, where it is installed.

use std::ffi::OsString;
use std::path::Path;

use crate::task_context::TaskContext;
use base::event::{Failure, FailureKind};
use base::files::read_text;
use mlperf::{Official, REPORT_FOLDER};
use plan::manifest::model::MlperfPackage;

/// Where the official checker is in a clone of mlcommons/inference: since v6.0, and before.
const CHECKERS: [&str; 2] = ["tools/submission/submission_checker/main.py", "tools/submission/submission_checker.py"];

/// Runs the official checker on what was packed. Its exit code shows whether it found errors; that is not a failure here.
pub(super) async fn run_official_checker(
    context: &TaskContext,
    step: &MlperfPackage,
    clone: &Path,
    round: &str,
) -> Result<Official, Failure> {
    let Some(script) = CHECKERS.iter().map(|path| clone.join(path)).find(|path| path.is_file()) else {
        let what = format!("`checker`: {} has no {}", clone.display(), CHECKERS[0]);
        return Err(Failure::new(FailureKind::Refused, what).hint("a clone of mlcommons/inference"));
    };
    context.lease.report_progress("asking the official checker", 0, None);
    let log = context.lease.out.join(REPORT_FOLDER).join("official.log");
    // Until v5.1 it refuses a submission with a file beside the divisions.
    let line = "mkdir -p \"$4\" && exec \"$1\" \"$2\" --input . --version \"$3\" --csv \"$4/official.csv\" >\"$4/official.log\" 2>&1";
    let mut argv: Vec<OsString> = ["sh", "-c", line, "checker"].map(OsString::from).to_vec();
    argv.extend([step.python.clone().into(), script.into_os_string(), round.into(), REPORT_FOLDER.into()]);
    let ran = context.run(context.command(argv)).await;
    let text = read_text(&log).unwrap_or_default();
    match ran {
        Err(failure) if !matches!(failure.kind, FailureKind::Exit(_)) => Err(failure),
        _ if text.contains("SUMMARY: ") => Ok(Official::parse(&text)),
        _ => {
            let lines: Vec<String> = text.lines().rev().take(20).map(str::to_owned).collect();
            let what = "the official checker did not come to its end";
            Err(Failure::new(FailureKind::Refused, what)
                .tail(lines.into_iter().rev().collect())
                .hint("it needs numpy, pandas and pyyaml: `python:` under `package` names the Python that has them"))
        }
    }
}
