//! Where things lie in a submission: the layout changed with v6.0.

use std::path::{Path, PathBuf};

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
        Path::new("results").join(system).join(benchmark).join(scenario)
    }

    /// The folder of user.conf, README.md and the measurements' JSON.
    pub fn measurements(self, system: &str, benchmark: &str, scenario: &str) -> PathBuf {
        match self {
            Self::Split => Path::new("measurements").join(system).join(benchmark).join(scenario),
            Self::Single => self.result(system, benchmark, scenario),
        }
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
        let above = match self {
            Self::Split => Path::new("compliance").join(system).join(benchmark).join(scenario),
            Self::Single => self.result(system, benchmark, scenario),
        };
        above.join(test_folder(test))
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
