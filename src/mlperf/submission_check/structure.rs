//! The folders of a submission beside its results: source, documentation, and what lies where nothing belongs.

use std::path::Path;

use super::checks::SubmissionCheck;
use super::finding::{FindingWeight, SubmissionFindings};
use super::tree::{DIVISIONS, Submitter, files, folders};
use crate::{PackageProvenance, REHEARSAL_FILE, REPORT_FOLDER, SubmissionLayout};
use rules::Round;

/// Folders of a clone that are no part of the submission.
const BESIDE: [&str; 4] = [".git", ".github", "assets", REPORT_FOLDER];

/// Above the submitters: only divisions, and texts for readers.
pub(super) fn root(to: &mut SubmissionFindings, root: &Path, layout: SubmissionLayout) {
    let weight = FindingWeight::of_older_checker(layout);
    let why = "beside closed/, open/ and network/ there are texts (.md, .pdf) at most";
    let is_text = |name: &str| [".md", ".pdf"].iter().any(|end| name.ends_with(end));
    for name in files(root).iter().filter(|name| !is_text(name)) {
        to.find(
            weight,
            SubmissionCheck::StrayFile,
            &root.join(name),
            "it is outside of every division",
            why,
            "take it out",
        );
    }
    let is_stray = |name: &&String| !DIVISIONS.contains(&name.as_str()) && !BESIDE.contains(&name.as_str());
    for name in folders(root).iter().filter(is_stray) {
        to.review(SubmissionCheck::StrayFile, &root.join(name), "it is no division", why, "take it out");
    }
    for division in DIVISIONS {
        for name in files(&root.join(division)) {
            let at = root.join(division).join(name);
            to.find(
                weight,
                SubmissionCheck::StrayFile,
                &at,
                "it is outside of every submitter's folder",
                why,
                "take it out",
            );
        }
    }
}

/// A folder below a division without `results/`. The checkers until v5.1 pass it over.
pub(super) fn no_results(to: &mut SubmissionFindings, submitter: &Submitter, layout: SubmissionLayout) {
    if !submitter.folder.join("results").is_dir() {
        let what = "it has no results/, and is no submitter's";
        let why =
            "since v6.0 the official checker ends at a folder below a division without results/, and judges nothing";
        to.find(
            FindingWeight::of_newer_checker(layout),
            SubmissionCheck::Layout,
            &submitter.folder,
            what,
            why,
            "take it out",
        );
    }
}

/// Of one submitter with results.
pub(super) fn submitter(to: &mut SubmissionFindings, submitter: &Submitter, round: &Round) {
    let layout = SubmissionLayout::of(&round.name);
    let source = submitter.folder.join(layout.source());
    if files_of(&source).next().is_none() {
        let what = if source.is_dir() { "it is empty" } else { "it is missing" };
        let why = "the code that made the results goes with them";
        let fix = format!("`mlperf.package.source: FOLDER`; {}/ in a folder of `assemble --logs`", layout.source());
        to.refuse(SubmissionCheck::Source, &source, what, why, fix);
    }
    let documentation = submitter.folder.join("documentation");
    // What packing puts there explains nothing.
    let is_own = |name: &str| name == REHEARSAL_FILE || PackageProvenance::is_file_name(name);
    if files_of(&documentation).all(|name| is_own(&name)) {
        let why = "calibration and bandwidth are explained there";
        to.review(
            SubmissionCheck::Documentation,
            &documentation,
            "there is none",
            why,
            "`mlperf.package.documentation: FOLDER`",
        );
    }
    calibration(to, submitter, layout);
    other_layout(to, submitter, round, layout);
}

/// How the model was quantized, which Closed has to explain.
fn calibration(to: &mut SubmissionFindings, submitter: &Submitter, layout: SubmissionLayout) {
    let names = ["calibration.md", "documentation/calibration.md"];
    if submitter.division != "open" && !names.iter().any(|name| submitter.folder.join(name).is_file()) {
        let what = "there is no calibration.md, here or in the submitter's folder";
        let why = "a closed result explains how its model was quantized";
        let at = submitter.folder.join("documentation");
        let weight = FindingWeight::of_older_checker(layout);
        to.find(weight, SubmissionCheck::Calibration, &at, what, why, "write documentation/calibration.md");
    }
}

/// Folders that only the other layout has.
fn other_layout(to: &mut SubmissionFindings, submitter: &Submitter, round: &Round, layout: SubmissionLayout) {
    let (name, strays): (_, &[&str]) = match layout {
        SubmissionLayout::Single => ("v5.1", &["measurements", "compliance", "code"]),
        SubmissionLayout::Split => ("v6.0", &["src"]),
    };
    for stray in strays.iter().map(|name| submitter.folder.join(name)).filter(|path| path.is_dir()) {
        let what = format!("this folder belongs to the layout of {name}");
        let why = format!(
            "{} has its own layout; the official checker does not look here ({} is the source there)",
            round.name,
            layout.source()
        );
        to.review(SubmissionCheck::Layout, &stray, what, why, "pack again for this round");
    }
}

/// Names of all files below a folder.
fn files_of(folder: &Path) -> impl Iterator<Item = String> {
    let walk = walkdir::WalkDir::new(folder).into_iter().flatten();
    walk.filter(|item| !item.file_type().is_dir()).map(|item| item.file_name().to_string_lossy().into_owned())
}
