//! The result of the official submission checker, read from its output.

use serde::{Deserialize, Serialize};

use super::REPORT_FOLDER;

/// The final result of mlcommons/inference's submission checker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Official {
    /// It printed `SUMMARY: submission looks OK`.
    pub passed: bool,
    pub messages: Vec<OfficialFinding>,
    /// Its last lines, as they came.
    pub last: Vec<String>,
}

/// One error or warning of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfficialFinding {
    /// `ERROR` or `WARNING`.
    pub level: String,
    pub text: String,
}

const TAIL: usize = 12;

impl Official {
    /// From everything that it printed. Lines are `[2026-01-01 00:00:00,000 file.py:12 ERROR] text` or
    /// `ERROR:main:text`.
    pub fn parse(output: &str) -> Self {
        let mut messages: Vec<OfficialFinding> = Vec::new();
        for line in output.lines() {
            let parts = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
                Some((head, text)) => head.rsplit(' ').next().map(|level| (level, text)),
                None => line.split_once(':').and_then(|(level, rest)| Some((level, rest.split_once(':')?.1))),
            };
            if let Some((level @ ("ERROR" | "WARNING"), text)) = parts {
                let official_finding = OfficialFinding { level: level.to_owned(), text: text.trim().to_owned() };
                if !messages.contains(&official_finding)
                    && !official_finding.text.starts_with("There are multiple messages with key")
                    // Until v5.1 it reports every folder that is not a division, and goes on.
                    && !official_finding.text.ends_with(&format!("input dir {REPORT_FOLDER}"))
                {
                    messages.push(official_finding);
                }
            }
        }
        let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(TAIL)..].iter().map(|line| (*line).to_owned()).collect();
        Self { passed: output.contains("SUMMARY: submission looks OK"), messages, last }
    }

    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter(|message| message.level == "ERROR").map(|message| message.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_errors_are_read_in_both_forms() {
        let output = "[2026-11-21 19:00:00,123 accuracy_check.py:170 ERROR] closed/x not hash value for accuracy.txt\n\
                      INFO:main:fine\nERROR:main:SUMMARY: submission has errors\n\
                      Traceback (most recent call last):\n";
        let official = Official::parse(output);
        assert!(!official.passed);
        let errors: Vec<&str> = official.errors().collect();
        assert_eq!(errors, ["closed/x not hash value for accuracy.txt", "SUMMARY: submission has errors"]);
        assert!(Official::parse("[x main.py:3 INFO] SUMMARY: submission looks OK\n").passed);
    }
}
