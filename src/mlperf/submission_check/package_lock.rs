//! Checks a package against its `regatta.lock`: a rehearsal, synthetic data, runs of two systems, files changed later.

use base::files::sha256_of_file;
use std::collections::BTreeSet;
use std::path::Path;

use super::checks::SubmissionCheck;
use super::finding::SubmissionFindings;
use super::tree::{ResultEntry, Submitter, SystemEntry};
use crate::layout::test_folder;
use crate::{LockedResult, LockedRun, PACKAGE_LOCK_FILE, PackageProvenance};
use base::spec::TestMode;
use rules::log::ACCURACY_FILE;
use rules::{MlperfScenario, Round};

/// The locks of a submitter, one for each system; reports those of another round or of a rehearsal, and systems without one.
pub(super) fn read(to: &mut SubmissionFindings, submitter: &Submitter, round: &Round) -> Vec<PackageProvenance> {
    let documentation = submitter.folder.join("documentation");
    let locks = match PackageProvenance::all(&submitter.folder) {
        Ok(locks) => locks,
        Err(error) => {
            to.refuse(
                SubmissionCheck::Lock,
                &documentation.join(PACKAGE_LOCK_FILE),
                format!("it cannot be read: {error}"),
                "it records where the files are from",
                "pack again",
            );
            return Vec::new();
        }
    };
    for lock in &locks {
        let name = PackageProvenance::file_name((locks.len() > 1).then_some(&lock.system));
        one_lock(to, &documentation.join(name), lock, submitter, round);
    }
    let has_none = |system: &&SystemEntry| locks.iter().all(|lock| lock.system != system.name);
    for system in submitter.systems.iter().filter(|system| !locks.is_empty() && has_none(system)) {
        let what = format!("regatta.lock knows nothing of the system {}", system.name);
        let why = "a system that was copied in has no provenance";
        to.refuse(
            SubmissionCheck::Lock,
            &submitter.folder.join("results").join(&system.name),
            what,
            why,
            "`regatta mlperf assemble`",
        );
    }
    locks
}

fn one_lock(to: &mut SubmissionFindings, at: &Path, lock: &PackageProvenance, submitter: &Submitter, round: &Round) {
    if lock.rehearsal {
        let what = "this package is a rehearsal";
        to.refuse(
            SubmissionCheck::Rehearsal,
            at,
            what,
            "durations were shortened, or its data is synthetic",
            "take `rehearse` out of the manifest and run again",
        );
    }
    for (name, locked, found) in [("round", &lock.round, &round.name), ("submitter", &lock.submitter, &submitter.name)]
    {
        if locked != found {
            let what = format!("it was packed for {name} {locked}, and is checked for {found}");
            to.refuse(
                SubmissionCheck::Lock,
                at,
                what,
                "what was packed is what is submitted",
                "pack again; files must not be moved by hand",
            );
        }
    }
}

/// Checks one result against the lock.
pub(super) fn check(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    scenario: MlperfScenario,
    round: &Round,
    lock: &PackageProvenance,
) {
    let Some(result) = lock.result(entry.benchmark, scenario) else {
        let what = format!("regatta.lock knows nothing of {} {}", entry.benchmark, entry.scenario);
        to.refuse(
            SubmissionCheck::Lock,
            &entry.folder(),
            what,
            "a result that was copied in has no provenance",
            "name it under `results` and pack again",
        );
        return;
    };
    for (mode, run) in &result.runs {
        check_test_record(to, entry, scenario, round, *mode, run);
    }
    one_system(to, entry, result);
    for (mode, folder) in [(TestMode::Performance, entry.performance()), (TestMode::Accuracy, entry.accuracy())] {
        let Some(run) = result.runs.get(&mode) else { continue };
        // Of a truncated log the lock has the hash of the whole.
        for (name, hash) in run.files.iter().filter(|(name, _)| *name != ACCURACY_FILE) {
            let path = if name == "user.conf" { entry.measurements().join(name) } else { folder.join(name) };
            if path.is_file() && sha256_of_file(&path).is_ok_and(|found| found != *hash) {
                let why = "logs are submitted as LoadGen wrote them; regatta.lock has the hash of what was packed";
                to.refuse(SubmissionCheck::ChangedFile, &path, "it was changed after it was packed", why, "pack again");
            }
        }
    }
}

fn check_test_record(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    scenario: MlperfScenario,
    round: &Round,
    mode: TestMode,
    run: &LockedRun,
) {
    let Some(test) = &run.test else { return };
    let at = match mode {
        TestMode::Performance => entry.performance(),
        TestMode::Accuracy => entry.accuracy(),
        test => entry.audit(test),
    };
    let name = test_folder(mode);
    if test.rehearsal {
        let what = format!("the {name} run was a rehearsal: its durations were shortened");
        to.refuse(
            SubmissionCheck::Rehearsal,
            &at,
            what,
            "every test lasts at least 600 s",
            "take `rehearse` out of the manifest and run again",
        );
    }
    if test.dataset.synthetic {
        let what = format!("the {name} run was on made-up data ({} samples)", test.dataset.samples);
        let fix = "`mlperf: { dataset: { from: … } }` reads the benchmark's own";
        to.refuse(SubmissionCheck::SyntheticData, &at, what, "a result is measured on the benchmark's data set", fix);
    }
    // A result for 99.9 % is one for 99 %, too.
    let high = test.benchmark.strip_suffix(".9").filter(|low| *low == entry.benchmark && low.ends_with("-99"));
    let benchmark = high.unwrap_or(&test.benchmark);
    let is = (test.round.as_str(), benchmark, test.scenario, test.mode);
    if is != (round.name.as_str(), entry.benchmark, scenario, mode) {
        let what = format!(
            "the run packed as {name} was {} of {} {} in {}",
            test_folder(test.mode),
            test.benchmark,
            test.scenario.title(),
            test.round
        );
        let why = format!("here belongs {name} of {} {} in {}", entry.benchmark, scenario.title(), round.name);
        to.refuse(SubmissionCheck::WrongRun, &at, what, why, "name the right stage under `results`");
    }
}

/// Performance, accuracy and audits are of the same engine, configuration and server.
fn one_system(to: &mut SubmissionFindings, entry: &ResultEntry, result: &LockedResult) {
    let Some(first) = result.runs.get(&TestMode::Performance) else { return };
    for (mode, run) in result.runs.iter().filter(|(mode, _)| **mode != TestMode::Performance) {
        let kinds: BTreeSet<&String> = first.under_test.keys().chain(run.under_test.keys()).collect();
        for kind in kinds {
            let (a, b) = (first.under_test.get(kind), run.under_test.get(kind));
            if a != b {
                let short = |digests: Option<&BTreeSet<String>>| {
                    let digests: Vec<&str> =
                        digests.into_iter().flatten().map(|digest| digest.get(..12).unwrap_or(digest)).collect();
                    if digests.is_empty() { "none".to_owned() } else { digests.join(", ") }
                };
                let what = format!(
                    "the {} run had another `{kind}` ({}) than the performance run ({})",
                    test_folder(*mode),
                    short(b),
                    short(a)
                );
                let why = "all runs of a result are of one system: the same engine, configuration and server";
                to.refuse(
                    SubmissionCheck::TwoSystems,
                    &entry.folder(),
                    what,
                    why,
                    "let both stages name the same upstream stages, and run again",
                );
            }
        }
    }
}
