//! Checks of every LoadGen log, of any run: it is complete, written by the round's LoadGen, and without errors.

use std::path::Path;

use serde_json::Value;

use super::checks::{FindingWeight, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::{ResultEntry, files};
use super::{accuracy, witness};
use crate::SIMULATED_SUT;
use base::units::counted;
use rules::Round;
use rules::log::{DETAIL_FILE, Detail, LoggedError, SUMMARY_FILE};

const FILES: [&str; 2] = [SUMMARY_FILE, DETAIL_FILE];
const RERUN_HINT: &str = "run the test again and pack its logs as LoadGen wrote them";

/// The kind of run that a log must be of. The official checker looks at seeds and mode of performance runs only.
pub(super) struct RunKind {
    mode: &'static str,
    weight: FindingWeight,
    /// The last key of such a log, and an earlier one: without the earlier one, the run was interrupted.
    ends: [&'static str; 2],
}

pub(super) const PERFORMANCE: RunKind =
    RunKind { mode: "PerformanceOnly", weight: Refused, ends: ["num_errors", "result_validity"] };
pub(super) const ACCURACY: RunKind =
    RunKind { mode: "AccuracyOnly", weight: Review, ends: ["power_end", "generated_query_count"] };

/// Reads the logs of one folder and checks them. None: there is nothing to check further; the findings include that.
pub(super) fn read(to: &mut SubmissionFindings, folder: &Path, round: &Round, kind: &RunKind) -> Option<Detail> {
    let there = files(folder);
    for name in FILES {
        let path = folder.join(name);
        if !there.iter().any(|file| file == name) {
            finding!(to; Refused, MissingFile, &path, "it is missing",
                "a result has LoadGen's summary and its detail log",
                "pack the output of the run again; LoadGen writes this file in every test");
        }
    }
    let path = folder.join(DETAIL_FILE);
    if !path.is_file() {
        return None;
    }
    let detail = Detail::read_folder(folder).map_err(|error| {
        finding!(to; Refused, UnreadableLog, &path, error.to_string(),
            "the detail log is what a result is judged by", RERUN_HINT);
    });
    let detail = detail.ok()?;
    if let Some(first) = detail.first_unread.first() {
        finding!(to; Refused, UnreadableLog, &path,
            format!("{} lines do not have LoadGen's format; the first is line {first}", detail.unread),
            "logs are submitted as LoadGen wrote them; something else wrote into this one, or it is torn", RERUN_HINT);
    }
    witness::files(to, &path, &detail, &round.loadgen.results_cc);
    one_run(to, &path, &detail);
    check_log_complete(to, &path, &detail, kind);
    version(to, &path, &detail, round);
    seeds(to, &path, &detail, round, kind);
    errors(to, &path, &detail);
    Some(detail)
}

/// Checks the log of a result's further run: an audit test, or the ranging run of a power measurement.
/// MLCommons does not look at these logs, so that all of it is for review.
pub(super) fn other_run(
    to: &mut SubmissionFindings,
    folder: &Path,
    entry: &ResultEntry,
    performance: Option<&Detail>,
) -> Option<Detail> {
    let at = folder.join(DETAIL_FILE);
    let before = to.all.len();
    let detail = if at.is_file() { read(to, folder, entry.round, &PERFORMANCE) } else { None };
    if let Some(detail) = &detail {
        scenario(to, folder, detail, entry);
        if let Some(performance) = performance {
            accuracy::same_system(to, &at, performance, detail);
        }
    }
    to.all[before..].iter_mut().for_each(|finding| finding.weight = Review);
    detail
}

/// Reports keys with several values that LoadGen writes once.
fn one_run(to: &mut SubmissionFindings, path: &Path, detail: &Detail) {
    let several = &detail.contradictions;
    let verdict = several.get_key_value("result_validity");
    let Some((key, later)) = verdict.or_else(|| several.first_key_value()) else { return };
    let first = detail.get(key).unwrap_or(later);
    let more =
        if several.len() > 1 { format!(", and {} more have several values", several.len() - 1) } else { String::new() };
    let (first, later) = (shortened(first), shortened(later));
    let finding = format!("`{key}` is {first} and, further down, {later}{more}");
    let rule = "LoadGen writes each of these once in a run: the log contains several runs, or was edited";
    finding!(to; Refused, LogsDisagree, path, finding, rule, RERUN_HINT);
}

/// A value of a log in a message: some are lists of thousands.
fn shortened(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Checks that the log is complete, has the expected mode, and is not of a simulated system.
fn check_log_complete(to: &mut SubmissionFindings, path: &Path, detail: &Detail, kind: &RunKind) {
    let name = detail.text("sut_name").filter(|name| name.contains(SIMULATED_SUT));
    let RunKind { mode, weight, ends: [last, before] } = *kind;
    let logged = detail.text("effective_test_mode");
    let is_cut = detail.get(last).is_none();
    let is_broken_off = is_cut && detail.get(before).is_none();
    // LoadGen 5.0.16 and later write `num_errors`.
    let parts = |version: &str| version.split('.').map_while(|part| part.parse().ok()).collect::<Vec<u32>>();
    let is_older = detail.loadgen_version().is_none_or(|version| parts(version) < vec![5, 0, 16]);
    findings! { to;
        Refused, Simulated, path, name.map(|name| format!("the system under test is called {name:?}")),
            "a result is a measurement; the servers of this run were simulated", "run it on the system";
        weight, TestMode, path,
            (logged != Some(mode)).then(|| format!("the test mode was {}, not {mode}", logged.unwrap_or("not logged"))),
            "each folder holds the logs of its own mode", RERUN_HINT;
        Refused, TornLog, path, is_broken_off.then(|| format!("it ends before `{before}`")),
            "the run was interrupted", RERUN_HINT;
        Review, LogsDisagree, path,
            detail.spliced_at.map(|line| format!("line {line} is by another process, or older than the one before")),
            "one process writes a log from its first line to its last", RERUN_HINT;
        Review, LogsDisagree, path, detail.process.is_none().then_some("no line has the id of its process (`pid`)"),
            "LoadGen writes it in each line", RERUN_HINT;
        Review, TornLog, path, (is_cut && !is_broken_off && !is_older).then(|| format!("it has no `{last}`")),
            "the run was interrupted, or the log is truncated", RERUN_HINT;
    }
}

/// The seeds show what round a LoadGen is of; its version shows how it was built.
fn version(to: &mut SubmissionFindings, path: &Path, detail: &Detail, round: &Round) {
    let pin = &round.loadgen;
    let mut versions = pin.accepted.iter().chain(&pin.published);
    let accepted = pin.accepted.join(", ");
    let line_of = |version: &str| version.rsplit_once('.').map(|(line, _)| line.to_owned());
    match detail.loadgen_version() {
        Some(version) if versions.any(|one| one == version) => {}
        Some(version) if pin.accepted.iter().any(|one| line_of(one) == line_of(version)) => {
            finding!(to; Review, LoadGenVersion, path,
                format!("LoadGen was {version}; known of {} are {accepted}", round.name),
                "LoadGen must be an unmodified tagged revision", "check that it was one, and not a commit in between");
        }
        found => {
            let (name, version) = (&round.name, found.unwrap_or("of unknown version"));
            finding!(to; Refused, LoadGenVersion, path, format!("LoadGen was {version}, {name} takes {accepted}"),
                "a round pins LoadGen, with its seeds and its rules",
                format!("`mlperf: {{ loadgen: {{ round: {name} }} }}` gets the right one; run again with it"));
        }
    }
    // Built outside of a git work tree, it writes NA.
    let status = detail.text("loadgen_git_status_message").unwrap_or_default().trim();
    let altered = Some(status.lines().next().unwrap_or_default()).filter(|first| !["", "NA"].contains(first));
    let commit = detail.text("loadgen_version").and_then(|text| Some(text.split_once(" @ ")?.1));
    let newest = detail.text("loadgen_git_log_message").and_then(|text| text.split_whitespace().next());
    let is_commit = |text: &str| text.len() >= 10 && text.chars().all(|c| c.is_ascii_hexdigit());
    let other = commit.zip(newest).filter(|(a, b)| is_commit(a) && is_commit(b) && !b.starts_with(a));
    findings! { to;
        Review, LoadGenFiles, path,
            other.map(|(commit, newest)| format!("its version is of commit {commit}, its newest is {newest}")),
            "LoadGen logs the commit that it was built from twice", RERUN_HINT;
        Refused, AlteredLoadGen, path, altered.map(|first| format!("LoadGen was built from altered files: {first}")),
            "LoadGen must be an unmodified tagged revision", "build it unaltered, run again";
    }
}

fn seeds(to: &mut SubmissionFindings, path: &Path, detail: &Detail, round: &Round, kind: &RunKind) {
    for (name, expected) in round.loadgen.seeds.named() {
        let logged = detail.count(&format!("effective_{name}_rng_seed"));
        if logged != Some(expected) {
            let origin = logged.and_then(|seed| Some(format!(" (that is {}'s)", round_with_seed((name, seed))?)));
            let origin = origin.unwrap_or_default();
            let logged = logged.map_or("not logged".to_owned(), |seed| seed.to_string());
            let finding = format!("{name}_rng_seed is {logged}{origin}, {} has {expected}", round.name);
            let rule = "seeds are part of a round, built into its LoadGen; 0 means that mlperf.conf was not read";
            finding!(to; kind.weight, Seeds, path, finding,
                rule, "run again with the round's LoadGen, one test per process");
        }
    }
}

/// The round that the seeds of a log belong to.
pub(super) fn other_round(detail: &Detail) -> Option<&'static str> {
    round_with_seed(("qsl", detail.count("effective_qsl_rng_seed")?))
}

/// The round that has this value of one of its seeds.
fn round_with_seed(seed: (&str, u64)) -> Option<&'static str> {
    let has_seed = |round: Round| round.loadgen.seeds.named().contains(&seed);
    Round::NAMES.into_iter().find(|name| Round::named(name).is_some_and(has_seed))
}

fn errors(to: &mut SubmissionFindings, path: &Path, detail: &Detail) {
    // An audit is made with an audit.config, of which LoadGen warns, and which may end it by a number of queries.
    let is_audit = detail.number("effective_accuracy_log_sampling_target").is_some_and(|target| target > 0.0);
    let is_its_end = |error: &LoggedError| is_audit && error.text.contains("Max query count reached");
    let ends: u64 = detail.first_errors.iter().filter(|error| is_its_end(error)).map(|error| error.times).sum();
    let errors = detail.all_errors().saturating_sub(ends);
    let first = detail
        .first_errors
        .iter()
        .filter(|error| !is_its_end(error))
        .take(3)
        .map(|error| format!("{} × {:?}", error.times, error.text));
    let first: Vec<String> = first.collect();
    let first = if first.is_empty() { "their texts are not in the log".to_owned() } else { first.join("; ") };
    findings! { to;
        Refused, LoadGenErrors, path,
            (errors > 0).then(|| format!("LoadGen logged {}: {first}", counted(errors, "error"))),
            "a run with errors is not valid, even where LoadGen reports VALID",
            "find the cause (for token counts: report at least 2 tokens for each sample), then run again";
        Review, LoadGenWarnings, path,
            detail.first_warning.as_ref().filter(|_| !is_audit).map(|text| format!("LoadGen warned: {text}")),
            "LoadGen warns of what may spoil a run", "find the cause, and run again if it changes the result";
    }
}

/// The log's scenario is the folder's, or one that it may be inferred from.
pub(super) fn scenario(to: &mut SubmissionFindings, folder: &Path, detail: &Detail, entry: &ResultEntry) {
    let scenario = entry.scenario_of_run(detail);
    let logged = detail.text("effective_scenario").unwrap_or("not logged");
    if logged != scenario.loadgen() {
        finding!(to; Refused, Scenario, &folder.join(FILES[1]),
            format!("the run's scenario was {logged}, the folder is {}", entry.scenario),
            format!("{} is LoadGen's {}", scenario.title(), scenario.loadgen()), "put the logs of the right run there");
    }
}
