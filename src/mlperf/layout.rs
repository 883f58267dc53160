//! Where things lie in a submission: the layout changed with v6.0.
//!
//! Results of MLPerf Endpoints, the newer path beside LoadGen's, are recognized by their files and not judged here.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use base::spec::TestMode;
use rules::MlperfScenario;

/// The folder beside a submission's divisions with what Regatta reports of it: it is not submitted.
pub const REPORT_FOLDER: &str = ".regatta";

/// The text in a package's documentation that marks it as a rehearsal.
pub const REHEARSAL_FILE: &str = "REHEARSAL.md";

/// How a submission's folders are arranged below `<division>/<submitter>/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmissionLayout {
    /// Until v5.1: `code/`, and `measurements/` and `compliance/` beside `results/`.
    Split,
    /// Since v6.0: `src/`, and everything about a result in its own folder.
    Single,
}

impl SubmissionLayout {
    /// Of a round by its name, `v5.1`. An unknown round has the newest.
    pub fn for_round(round: &str) -> Self {
        if matches!(round, "v4.1" | "v5.0" | "v5.1") { Self::Split } else { Self::Single }
    }

    /// The folder of source code.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Split => "code",
            Self::Single => "src",
        }
    }

    /// The folder of one result's logs, below the submitter's.
    pub fn result(self, system: &str, benchmark: &str, scenario: &str) -> PathBuf {
        self.part("results", system, benchmark, scenario)
    }

    /// The folder of a part of a result, which has a folder of its own until v5.1.
    fn part(self, split: &str, system: &str, benchmark: &str, scenario: &str) -> PathBuf {
        let above = if self == Self::Split { split } else { "results" };
        Path::new(above).join(system).join(benchmark).join(scenario)
    }

    /// The folder of user.conf, README.md and the measurements' JSON.
    pub fn measurements(self, system: &str, benchmark: &str, scenario: &str) -> PathBuf {
        self.part("measurements", system, benchmark, scenario)
    }

    /// The name of the measurements' JSON that Regatta writes.
    pub fn measurements_file(self, system: &str, scenario: &str) -> String {
        match self {
            Self::Split => format!("{system}_{scenario}.json"),
            Self::Single => "measurements.json".to_owned(),
        }
    }

    /// The folder of one audit test.
    pub fn audit(self, system: &str, benchmark: &str, scenario: &str, test: TestMode) -> PathBuf {
        self.part("compliance", system, benchmark, scenario).join(test_folder(test))
    }
}

/// `TEST06`.
pub fn test_folder(test: TestMode) -> &'static str {
    match test {
        TestMode::Performance => "performance",
        TestMode::Accuracy => "accuracy",
        TestMode::Test06 => "TEST06",
        TestMode::Test07 => "TEST07",
        TestMode::Test09 => "TEST09",
    }
}

/// The file with the outcome of a test's verification.
pub fn verdict_file(test: TestMode) -> &'static str {
    if test == TestMode::Test09 { "verify_output_len.txt" } else { "verify_accuracy.txt" }
}

/// By the name of a result's folder; its case does not matter, as for the official checker.
pub fn scenario_titled(title: &str) -> Option<MlperfScenario> {
    [MlperfScenario::Offline, MlperfScenario::Server, MlperfScenario::Interactive, MlperfScenario::SingleStream]
        .into_iter()
        .find(|scenario| scenario.title().eq_ignore_ascii_case(title))
}

/// The message for such a folder.
pub const NOT_SUPPORTED: &str = "results of MLPerf Endpoints are not supported: only MLPerf Inference's results with \
    LoadGen's logs are checked, compared and assembled";

/// Where their own checker is.
pub const OWN_CHECKER: &str = "`submission-checker check FOLDER` of the package endpoints-submission-cli checks them";

/// Files that only the client of MLPerf Endpoints and its submission tools write.
const FILES: [&str; 4] =
    ["performance/result_summary.json", "accuracy/accuracy_results.json", "point.yaml", "points/point_1.yaml"];

/// Whether a folder is the result of such a run: its own files, and no log of LoadGen.
pub fn is_endpoints_result(folder: &Path) -> bool {
    FILES.iter().any(|file| folder.join(file).is_file())
        && !folder.join("performance/run_1").join(rules::log::DETAIL_FILE).is_file()
}

/// The first such result at or below a folder.
pub fn endpoints_result(root: &Path) -> Option<PathBuf> {
    let walk = WalkDir::new(root).sort_by_file_name().into_iter().flatten();
    walk.filter(|item| item.file_type().is_dir())
        .map(walkdir::DirEntry::into_path)
        .find(|path| is_endpoints_result(path))
}
