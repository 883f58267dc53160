//! The audit tests of the rules: whether an audit run passes. Stricter than the official scripts: an empty log does not
//! pass, nor does a run in which the test's settings were not in force.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{TEST_FILE, TestRecord};
use base::event::Failure;
use base::spec::TestMode;
use base::units::counted;
use rules::log::{ACCURACY_FILE, AnswerLog, DETAIL_FILE, Detail, LogError, LoggedAnswer};
use rules::{Accuracy, AuditConfig, LOG_SEED, MlperfScenario, ResolvedTest, audit_config};

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerification {
    pub test: TestMode,
    /// The name of the file for the package.
    pub file: &'static str,
    pub text: String,
    /// Everything that is wrong; empty: it passes, or what is left is not judged.
    pub wrong: Vec<String>,
    /// What the data, which is made up, cannot show; nothing passes or fails by it.
    pub not_judged: Option<String>,
    /// One line for display.
    pub headline: String,
}

/// The score of TEST07's answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test07Score {
    /// Percent.
    ExactMatch(f64),
    /// The answers were looked at, and some of them cannot be scored here.
    Unscored,
}

/// Verifies the audit run in a folder. `end_ids`: tokens that end an answer (TEST06).
pub fn verify(
    folder: &Path,
    found: &ResolvedTest,
    benchmark: &str,
    end_ids: &[i32],
    exact_match: Option<Test07Score>,
) -> Result<AuditVerification, Failure> {
    let test_record = TestRecord::in_folder(folder)
        .map_err(Failure::files)?
        .ok_or_else(|| at(folder, format_args!("has no {TEST_FILE}, which describes the run")))?;
    let mut wrong = Vec::new();
    if test_record.round != found.round.name || test_record.benchmark != benchmark {
        wrong.push(format!(
            "it is a run of {} of {}, not of {benchmark} of {}",
            test_record.benchmark, test_record.round, found.round.name
        ));
    }
    let detail = Detail::read_folder(folder).map_err(|error| unreadable(&folder.join(DETAIL_FILE), &error))?;
    // What a rehearsal loaded is what it was to issue.
    let rehearsed = test_record
        .rehearsal
        .then(|| detail.count("effective_performance_sample_count").unwrap_or(test_record.dataset.samples));
    let config = audit_config(found, test_record.mode, rehearsed);
    wrong.extend(not_in_force(&detail, config.as_ref()));
    let samples = config.map_or(0, |config| config.min_query_count);
    let run = AuditedRun { log: folder.join(ACCURACY_FILE), record: &test_record, resolved: found, samples, wrong };
    match test_record.mode {
        TestMode::Performance | TestMode::Accuracy => {
            let mode = test_record.mode.as_str();
            Err(at(folder, format_args!("is a {mode} run, not an audit test"))
                .hint("`audit` is the output of a `bench` with `loadgen: { mode: test06 }` or another test"))
        }
        TestMode::Test06 => run.test06(end_ids),
        TestMode::Test07 => run.test07(exact_match),
        TestMode::Test09 => run.test09(),
    }
}

/// An audit run, and what is known to be wrong before its answers are looked at.
struct AuditedRun<'a> {
    /// Its answers.
    log: PathBuf,
    record: &'a TestRecord,
    resolved: &'a ResolvedTest,
    /// Answers that the test logs.
    samples: u64,
    wrong: Vec<String>,
}

impl AuditedRun<'_> {
    fn answers(&self) -> Result<AnswerLog<BufReader<File>>, Failure> {
        AnswerLog::open(&self.log).map_err(|error| unreadable(&self.log, &error))
    }

    fn lengths(&self) -> Result<AnswerLengths, Failure> {
        AnswerLengths::measure(self.answers()?).map_err(|error| unreadable(&self.log, &error))
    }

    fn test06(mut self, end_ids: &[i32]) -> Result<AuditVerification, Failure> {
        let outputs = AuditOutputs::collect(self.answers()?, self.record.scenario, end_ids)
            .map_err(|error| unreadable(&self.log, &error))?;
        self.wrong.extend(outputs.first_offences.iter().cloned());
        self.wrong.extend(too_few(outputs.answers, self.samples));
        let passes = self.wrong.is_empty() && outputs.holds();
        let outcome = if passes { "passes" } else { "fails" };
        Ok(AuditVerification {
            test: TestMode::Test06,
            file: "verify_accuracy.txt",
            text: outputs.text(passes),
            wrong: self.wrong,
            not_judged: None,
            headline: format!("TEST06 {}: {} answers looked at", outcome, outputs.answers),
        })
    }

    fn test07(mut self, exact_match: Option<Test07Score>) -> Result<AuditVerification, Failure> {
        let is_synthetic = self.record.dataset.synthetic;
        let missing = || {
            Failure::refused("TEST07 needs the exact match of the run's answers")
                .hint("add `score: \"{{ stages.NAME.out }}\"` of an `mlperf: { score: … }` stage over the run")
        };
        let score = match exact_match.ok_or_else(missing)? {
            Test07Score::ExactMatch(score) => Some(score),
            Test07Score::Unscored if is_synthetic => None,
            // The data is not made up, so the score is the verdict.
            Test07Score::Unscored => {
                let failure = Failure::refused("the score of TEST07's answers has no `exact_match`");
                return Err(failure.hint(
                    "run the reference's evaluator over the run's mlperf_log_accuracy.json and name what it prints: \
                     `score: { official: FILE }`",
                ));
            }
        };
        let lengths = self.lengths()?;
        self.wrong.extend(too_few(lengths.count, self.samples));
        let audit = self.resolved.benchmark.audits.get(&TestMode::Test07);
        let least = audit.and_then(|audit| audit.exact_match).unwrap_or_default().min.unwrap_or(0.0);
        let score_text = score.map_or_else(|| "not computed".to_owned(), |score| score.to_string());
        let passes_score = score.is_some_and(|score| score >= least);
        if !is_synthetic && !passes_score {
            self.wrong.push(format!("exact match is {score_text}, less than {least}"));
        }
        let (line, verb) = outcome(&self.wrong, is_synthetic);
        let check = verdict(!is_synthetic, passes_score);
        let not_judged =
            is_synthetic.then(|| format!("exact match, {score_text} of at least {least}: the samples are synthetic"));
        let text = format!(
            "'exact_match': {score_text}\n\nTEST07 Verification Summary\nAccuracy score: {score_text}\nAccuracy \
             threshold: {least}\n\
             Accuracy check pass: {check}\n{}TEST {}\n",
            note(not_judged.as_deref()),
            line
        );
        let headline =
            format!("TEST07 {}: exact match {score_text} of at least {least}, {} answers", verb, lengths.count);
        let (test, file, wrong) = (TestMode::Test07, "verify_accuracy.txt", self.wrong);
        Ok(AuditVerification { test, file, text, wrong, not_judged, headline })
    }

    fn test09(mut self) -> Result<AuditVerification, Failure> {
        let is_synthetic = self.record.dataset.synthetic;
        let lengths = self.lengths()?;
        let audit = self.resolved.benchmark.audits.get(&TestMode::Test09);
        let bounds = audit.and_then(|audit| audit.output_tokens).unwrap_or_default();
        self.wrong.extend(lengths.mean_violation(bounds).filter(|_| !is_synthetic || lengths.count == 0));
        self.wrong.extend(too_few(lengths.count, self.samples));
        let (line, verb) = outcome(&self.wrong, is_synthetic);
        let mean = lengths.mean().unwrap_or(0.0);
        let headline = format!("TEST09 {}: {mean:.2} tokens on average of {} answers", verb, lengths.count);
        let not_judged = is_synthetic
            .then(|| format!("the mean length, {mean:.2} tokens: the samples are synthetic, and so are their answers"));
        let text = lengths.text(bounds, &note(not_judged.as_deref()), line, !is_synthetic);
        let (test, file, wrong) = (TestMode::Test09, "verify_output_len.txt", self.wrong);
        Ok(AuditVerification { test, file, text, wrong, not_judged, headline })
    }
}

/// How TEST07 or TEST09 ended: in its last line, of which the official checker takes `TEST PASS` alone, and in words.
const fn outcome(wrong: &[String], is_synthetic: bool) -> (&'static str, &'static str) {
    match (wrong.is_empty(), is_synthetic) {
        (false, _) => ("FAIL", "fails"),
        // Everything but what synthetic data cannot show is right.
        (true, true) => (NOT_JUDGED, "is NOT JUDGED, SIMULATED"),
        (true, false) => ("PASS", "passes"),
    }
}

/// One check of TEST07 or TEST09 in the verification.
const fn verdict(is_judged: bool, passes: bool) -> &'static str {
    match (is_judged, passes) {
        (false, _) => "Not judged",
        (true, true) => "True",
        (true, false) => "False",
    }
}

/// The line of a verification about what is not judged.
fn note(not_judged: Option<&str>) -> String {
    not_judged.map_or_else(String::new, |what| format!("SIMULATED, not judged: {what}\n"))
}

/// The last word of a verification that synthetic data leaves open.
pub(crate) const NOT_JUDGED: &str = "NOT JUDGED";

/// What is wrong with a file or folder.
fn at(path: &Path, problem: impl Display) -> Failure {
    Failure::refused(format!("`{}` {problem}", path.display()))
}

fn unreadable(log: &Path, error: &impl Display) -> Failure {
    Failure::files(format!("`{}` cannot be read: {error}", log.display()))
}

/// Whether LoadGen worked with the test's audit.config.
fn not_in_force(detail: &Detail, config: Option<&AuditConfig>) -> Vec<String> {
    let Some(config) = config else { return Vec::new() };
    let mut wrong = Vec::new();
    for (kind, key, should) in [
        ("effective", "accuracy_log_rng_seed", Value::from(LOG_SEED)),
        ("effective", "accuracy_log_sampling_target", config.sampling_target.into()),
        ("requested", "min_query_count", config.min_query_count.into()),
        ("effective", "sample_concatenate_permutation", false.into()),
        ("effective", "performance_issue_unique", config.issue_unique.into()),
    ] {
        let key_of_log = format!("{kind}_{key}");
        let logged = detail.get(&key_of_log);
        let is_same = match should.as_bool() {
            Some(flag) => detail.flag(&key_of_log) == Some(flag),
            None => logged == Some(&should),
        };
        if !is_same {
            let logged = logged.map_or_else(|| "not reported".to_owned(), Value::to_string);
            wrong.push(format!("audit.config was not in effect: `{key}` is {logged}, not {should}"));
        }
    }
    let errors = detail.all_errors();
    if errors > 0 {
        let first = detail.first_errors.first().map_or_else(String::new, |first| format!("; the first: {first}"));
        wrong.push(format!("LoadGen logged {}{first}", counted(errors, "error")));
    }
    wrong
}

fn too_few(answers: u64, needed: u64) -> Option<String> {
    (answers < needed).then(|| format!("the log holds {}; the test logs {needed}", counted(answers, "answer")))
}

// TEST09: answers are as long as the reference's, on average.

/// Lengths of answers, tokens.
#[derive(Clone, Debug, PartialEq)]
struct AnswerLengths {
    pub count: u64,
    sum: u64,
    squares: f64,
    min: u64,
    max: u64,
}

impl AnswerLengths {
    fn measure(answers: impl Iterator<Item = Result<LoggedAnswer, LogError>>) -> Result<Self, LogError> {
        let mut lengths = Self { count: 0, sum: 0, squares: 0.0, min: u64::MAX, max: 0 };
        for answer in answers {
            let length = answer?.tokens()?.len() as u64;
            lengths.count += 1;
            lengths.sum += length;
            lengths.squares += (length as f64).powi(2);
            lengths.min = lengths.min.min(length);
            lengths.max = lengths.max.max(length);
        }
        Ok(lengths)
    }

    /// `None` without answers.
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// What is wrong with the mean.
    fn mean_violation(&self, bounds: Accuracy) -> Option<String> {
        let Some(mean) = self.mean() else { return Some("there is no answer".to_owned()) };
        bounds.broken_by(mean).map(|bound| format!("answers have {mean:.2} tokens on average, {bound}"))
    }

    /// `verify_output_len.txt`: the checker looks for its last line.
    /// `note`: lines in front of the last one. `judges`: whether the bounds are applied.
    fn text(&self, bounds: Accuracy, note: &str, outcome: &str, judges: bool) -> String {
        let mean = self.mean().unwrap_or(0.0);
        let spread =
            if self.count == 0 { 0.0 } else { (self.squares / self.count as f64 - mean.powi(2)).max(0.0).sqrt() };
        let least = if self.count == 0 { 0 } else { self.min };
        let mut text = format!(
            "TEST09: length of answers in performance mode\n\nTotal samples: {}\nMean output tokens: {mean:.2}\n\
             Min output tokens: {least}\nMax output tokens: {}\nStd deviation: {spread:.2}\n\n",
            self.count, self.max
        );
        let flag = |fine| verdict(judges, fine);
        if let Some(min) = bounds.min {
            let _ = writeln!(text, "Min threshold: {min}\nMin check pass: {}", flag(mean >= min));
        }
        if let Some(max) = bounds.max {
            let _ = writeln!(text, "Max threshold: {max}\nMax check pass: {}", flag(mean <= max));
        }
        let _ = write!(text, "\n{note}TEST {outcome}\n");
        text
    }
}

// TEST06: answers are consistent with what the system reported while it made them.

/// How many offending samples are named.
const NAMED: usize = 5;

/// The three things that TEST06 looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditOutputs {
    pub answers: u64,
    /// Their places in the data set.
    pub samples: BTreeSet<u64>,
    /// The queries that they answer.
    pub queries: BTreeSet<u64>,
    /// Those that differ from one another.
    pub different: BTreeSet<Vec<u8>>,
    /// The largest token id, and the most tokens of an answer.
    pub largest: Option<u32>,
    pub longest: usize,
    /// None: Offline reports no first token.
    pub first_token: Option<bool>,
    pub end: bool,
    pub length: bool,
    /// The first samples that offend.
    pub first_offences: Vec<String>,
    offences: u64,
}

impl AuditOutputs {
    /// Looks at every answer. `end_ids` are the tokens that end one.
    pub(crate) fn collect(
        answers: impl Iterator<Item = Result<LoggedAnswer, LogError>>,
        scenario: MlperfScenario,
        end_ids: &[i32],
    ) -> Result<Self, LogError> {
        let needs_first = scenario != MlperfScenario::Offline;
        let mut outputs = Self { first_token: needs_first.then_some(true), end: true, length: true, ..Self::default() };
        for answer in answers {
            let answer = answer?;
            outputs.answers += 1;
            outputs.samples.insert(answer.qsl_idx);
            outputs.queries.insert(answer.seq_id);
            let tokens = answer.tokens()?;
            let first = answer.first_tokens()?;
            if needs_first && let Some(what) = first_differs(&tokens, first.as_deref()) {
                outputs.first_token = Some(false);
                outputs.add_offence(&answer, &what);
            }
            let ends = tokens
                .iter()
                .rev()
                .take_while(|token| end_ids.iter().any(|end| i64::from(*end) == i64::from(**token)))
                .count();
            if ends > 1 {
                outputs.end = false;
                outputs
                    .add_offence(&answer, &format!("ends with {ends} end-of-sequence tokens; one at most is allowed"));
            }
            outputs.different.insert(answer.data.clone());
            outputs.largest = outputs.largest.max(tokens.iter().max().copied());
            outputs.longest = outputs.longest.max(tokens.len());
            if answer.token_count != Some(tokens.len() as i64) {
                outputs.length = false;
                let text = answer
                    .token_count
                    .map_or_else(|| "no number of tokens".to_owned(), |count| format!("{count} tokens"));
                outputs.add_offence(&answer, &format!("{text} were reported, but the answer has {}", tokens.len()));
            }
        }
        Ok(outputs)
    }

    fn add_offence(&mut self, answer: &LoggedAnswer, what: &str) {
        self.offences += 1;
        if self.first_offences.len() < NAMED {
            self.first_offences.push(format!("sample {} (query {}): {what}", answer.qsl_idx, answer.seq_id));
        } else if self.first_offences.len() == NAMED {
            self.first_offences.push(String::new());
        }
        if self.offences > NAMED as u64
            && let Some(last) = self.first_offences.last_mut()
        {
            *last = format!("and {} more", self.offences - NAMED as u64);
        }
    }

    fn holds(&self) -> bool {
        self.first_token != Some(false) && self.end && self.length
    }

    /// `verify_accuracy.txt`, in the format that the official checker looks for.
    fn text(&self, passes: bool) -> String {
        let flag = |fine: bool| if fine { "True" } else { "False" };
        format!(
            "First token check pass: {}\nEOS check pass: {}\nSample length check pass: {}\nTEST06 verification {}\n",
            self.first_token.map_or("Skipped", flag),
            flag(self.end),
            flag(self.length),
            if passes { "complete" } else { "failed" },
        )
    }
}

/// Compares the reported first token with the beginning of the answer.
fn first_differs(tokens: &[u32], first: Option<&[u32]>) -> Option<String> {
    match first {
        None | Some([]) => Some("no first token was reported".to_owned()),
        Some(first) if tokens.starts_with(first) => None,
        Some(first) => {
            let begins = &tokens[..tokens.len().min(first.len())];
            Some(format!("{first:?} was reported first, but the answer begins with {begins:?}"))
        }
    }
}

#[cfg(test)]
mod tests;
