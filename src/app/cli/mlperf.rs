//! The arguments of `regatta mlperf …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::values::{HOW, KeyValueArg};
use base::diag::ErrorText;
use mlperf::ForeignResult;

/// What to do about a submission.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum MlperfRequest {
    /// Show the state of a submission: every result with its runs, and the command for the next step.
    Status {
        /// A manifest [default: that of the last run].
        #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
        manifest: Option<String>,
        /// Parameters of the manifest.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<KeyValueArg>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Compare two submissions or two runs: values, and settings that differ.
    Diff {
        /// A submission folder (with closed/ or open/ in it), or the output of a run with LoadGen.
        #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
        a: PathBuf,
        /// The submission or run to compare with.
        #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
        b: PathBuf,
        /// Compare results of this submitter only.
        #[arg(long, value_name = "NAME")]
        submitter: Option<String>,
        /// Compare system A of the first submission with system B of the second [default: by name, then by
        /// accelerators]. Can be given several times.
        #[arg(long, value_name = "A=B", value_parser = systems)]
        system: Vec<(String, String)>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Check a submission folder: whether MLCommons would accept it, and what a reviewer may object to. Exit code 1
    /// when it would not be accepted.
    Check {
        /// The folder with closed/ or open/ in it.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
        /// The round to check for [default: that of most logs].
        #[arg(long, value_name = "ROUND")]
        round: Option<String>,
        /// Check the results of this submitter only.
        #[arg(long, value_name = "NAME")]
        submitter: Option<String>,
        #[command(flatten)]
        shown: ExaminationArgs,
    },
    /// Assemble one submission of several packages, and of LoadGen logs that other harnesses made, and check it.
    /// Systems, benchmarks and scenarios may come from different runs and machines. Exit code 1 when it would not be
    /// accepted.
    Assemble(AssembleOptions),
}

/// What is shown of an examined submission.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ExaminationArgs {
    /// Also write the results as a table.
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Print everything that a reviewer may object to, instead of counts.
    #[arg(help_heading = HOW, long)]
    pub review: bool,
    /// Print JSON.
    #[arg(help_heading = HOW, long)]
    pub json: bool,
}

/// How a submission is assembled, and what is printed of it.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct AssembleOptions {
    /// Submission folders (with closed/ or open/ in them), or projects whose `latest/package` is one.
    #[arg(value_name = "PACKAGE", value_hint = ValueHint::DirPath, required_unless_present = "logs")]
    pub packages: Vec<PathBuf>,
    /// Where the submission is written: a new or empty folder.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// LoadGen logs of another harness: `SYSTEM.json:BENCHMARK:SCENARIO=FOLDER`. The file is the system's description,
    /// with submitter and division; the folder has performance/run_1/, accuracy/ with accuracy.txt, TEST06/ (not in
    /// Open), user.conf, measurements.json and the source in src/ (until v5.1 code/). Can be given several times.
    #[arg(long, value_name = "LOGS", value_parser = foreign_logs)]
    pub logs: Vec<ForeignResult>,
    /// The documentation of the whole, in place of that of the packages: calibration.md, bandwidth, licenses.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub documentation: Option<PathBuf>,
    /// Submit each result for 99.9 % of the accuracy for 99 %, too, where the round has both.
    #[arg(long)]
    pub also_99: bool,
    /// The round it is for [default: that of the packages].
    #[arg(long, value_name = "ROUND")]
    pub round: Option<String>,
    /// Also write the upload when the check passes: the divisions as a .tar.gz, and its SHA-1 as .sha1.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub archive: Option<PathBuf>,
    /// Assemble rehearsals, for practice: the check refuses them.
    #[arg(help_heading = HOW, long)]
    pub rehearse: bool,
    #[command(flatten)]
    pub shown: ExaminationArgs,
}

/// `SYSTEM.json:BENCHMARK:SCENARIO=FOLDER`.
fn foreign_logs(text: &str) -> Result<ForeignResult, ErrorText> {
    let form = "SYSTEM.json:BENCHMARK:SCENARIO=FOLDER, for example h200.json:llama2-70b-99.9:Offline=logs/offline";
    let wrong = || ErrorText::new(format_args!("it is {form}"));
    let (result, folder) = text.split_once('=').ok_or_else(wrong)?;
    let mut parts = result.rsplitn(3, ':');
    let (scenario, benchmark, system) = (parts.next(), parts.next(), parts.next());
    let (Some(scenario), Some(benchmark), Some(system)) = (scenario, benchmark, system) else {
        return Err(wrong());
    };
    Ok(ForeignResult {
        system: system.into(),
        benchmark: benchmark.to_owned(),
        scenario: scenario.to_owned(),
        folder: folder.into(),
    })
}

/// `A=B`, the names of two systems, which are names of folders.
fn systems(text: &str) -> Result<(String, String), ErrorText> {
    let pair = text.split_once('=').filter(|(a, b)| !a.is_empty() && !b.is_empty());
    pair.map(|(a, b)| (a.to_owned(), b.to_owned())).ok_or_else(|| ErrorText::new("it is A=B, the names of two systems"))
}
