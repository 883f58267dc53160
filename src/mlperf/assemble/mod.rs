//! One submission of several parts: packages of other runs and machines, and logs that another harness made, as one
//! tree; and its archive for the upload.
//!
//! ```text
//!  package ─┐
//!  package ─┼→ SubmissionTree: path → where its bytes are from ─→ copies for 99 % ─→ written ─→ the submission check
//!  logs    ─┘       two parts that disagree about a path are an error
//! ```

mod foreign_logs;
mod packages;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha1::{Digest as _, Sha1};
use walkdir::WalkDir;

use super::submission_check::DIVISIONS;
use base::diag::{ErrorText, in_file};
use packages::{SubmissionTree, result_folders};
use rules::Round;

/// Writes the submission into `out`, a folder that is new or empty. Gives its round, and the files of the parts that
/// have no place in it.
///
/// # Errors
/// Parts of different rounds, and all places that two parts disagree about.
pub fn assemble(request: &AssembleRequest, out: &Path) -> Assembled<(Round, Vec<PathBuf>)> {
    if std::fs::read_dir(out).is_ok_and(|mut items| items.next().is_some()) {
        return Err(in_file(out)("it is not empty").hint("`--out` names a new folder"));
    }
    let roots = request.packages.iter().map(|part| packages::root(part)).collect::<Result<Vec<_>, _>>()?;
    let round = round(request, &roots)?;
    let mut tree = SubmissionTree::new(&round);
    for root in &roots {
        packages::add(&mut tree, root, request)?;
    }
    for logs in &request.logs {
        foreign_logs::add(&mut tree, logs)?;
    }
    if request.copy_to_99 {
        copy(&mut tree);
    }
    if let Some(folder) = &request.documentation {
        packages::documentation(&mut tree, folder)?;
    }
    Ok((round, tree.write(out)?))
}

/// Of all parts; the first names it unless it is given.
fn round(request: &AssembleRequest, roots: &[PathBuf]) -> Assembled<Round> {
    let mut first: Option<(&Path, Round)> = None;
    for folder in roots.iter().chain(request.logs.iter().map(|logs| &logs.folder)) {
        let Some(found) = super::round_of(folder) else {
            if request.round.is_some() {
                continue;
            }
            return Err(in_file(folder)("its round is unknown").hint("`--round` names it"));
        };
        match &first {
            Some((above, round)) if round.name != found.name => {
                let (above, round, folder) = (above.display(), &round.name, folder.display());
                let text = format!("{above} is of {round}, and {folder} of {}", found.name);
                return Err(ErrorText::new(text));
            }
            Some(_) => {}
            None => first = Some((folder, found)),
        }
    }
    let part_round = first.map(|(_, round)| round);
    request.round.clone().or(part_round).ok_or_else(|| ErrorText::new("there is no part"))
}

// A result for 99.9 % of the reference's accuracy is one for 99 %, too: rounds that have both let it be submitted
// twice.

/// Copies each result for 99.9 % to 99 %, where the round has both and the system has none of its own for 99 %.
fn copy(tree: &mut SubmissionTree) {
    let folders = result_folders(tree.layout);
    let mut copies = Vec::new();
    for (path, source) in &tree.files {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        // Until v5.1 the source has a folder for each benchmark.
        if let [division, submitter, "code", benchmark, below @ ..] = &parts[..]
            && let Some(low) = tree.round.lower_accuracy(benchmark)
        {
            let to: PathBuf = [division, submitter, "code", low.as_str()].iter().chain(below).collect();
            if !tree.files.contains_key(&to) {
                copies.push((to, source.clone()));
            }
            continue;
        }
        // closed/Example/results/<system>/<benchmark>/<scenario>/…
        let [division, submitter, folder, system, benchmark, scenario, below @ ..] = &parts[..] else { continue };
        let Some(low) = tree.round.lower_accuracy(benchmark).filter(|_| folders.contains(folder)) else { continue };
        let above: PathBuf = [division, submitter, "results", system, low.as_str(), scenario].iter().collect();
        if !tree.has_below(&above) {
            let to: PathBuf =
                [division, submitter, folder, system, low.as_str(), scenario].iter().chain(below).collect();
            copies.push((to, source.clone()));
        }
    }
    for (key, lock) in tree.locks.clone() {
        for result in lock.results {
            let Some(low) = tree.round.lower_accuracy(&result.benchmark) else { continue };
            if let Some(lock) = tree.locks.get_mut(&key).filter(|lock| lock.result(&low, result.scenario).is_none()) {
                lock.results.push(crate::LockedResult { benchmark: low, ..result });
            }
        }
    }
    tree.files.extend(copies);
}

// What is to be assembled, and why it was not.

/// One result of another harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignResult {
    /// The system's description, `systems/<system>.json` of a submission; it names submitter and division, too.
    pub system: PathBuf,
    pub benchmark: String,
    /// `Offline`.
    pub scenario: String,
    /// With `performance/`, `accuracy/` and a folder for each audit test, `user.conf` and `measurements.json`.
    pub folder: PathBuf,
}

/// What becomes one submission.
#[derive(Clone, Debug, Default)]
pub struct AssembleRequest {
    /// The round; None: that of the parts.
    pub round: Option<Round>,
    /// Folders with `closed/`, `open/` or `network/` in them, or projects whose last run made one.
    pub packages: Vec<PathBuf>,
    /// Results of other harnesses.
    pub logs: Vec<ForeignResult>,
    /// In place of the parts' own texts: calibration, bandwidth, licenses.
    pub documentation: Option<PathBuf>,
    /// Each result for 99.9 % of the accuracy is one for 99 %, too, where the round has both.
    pub copy_to_99: bool,
    /// Rehearsals may be in it. The submission check refuses the whole then.
    pub rehearse: bool,
}

/// What a step of it gives.
type Assembled<T = ()> = Result<T, ErrorText>;

// The upload of a submission: a compressed archive of its divisions, and a file with the archive's SHA-1.
//
// The names and the format are those of mlcommons/inference, `tools/submission/pack_submission.sh`, without its
// encryption: "Currently submissions do not need to be encrypted" (`tools/submission/README.md`).

/// How the name of an archive ends.
const ENDING: &str = ".tar.gz";

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenUpload {
    pub files: u64,
    /// Size of the archive.
    pub bytes: u64,
    /// `<SHA-1>  <name of the archive>`, as sha1sum prints it.
    pub checksum: PathBuf,
}

/// Refuses a name that the upload cannot have.
///
/// # Errors
/// It does not end with `.tar.gz`.
pub fn require_archive_name(path: &Path) -> Result<(), ErrorText> {
    stem(path).map(drop)
}

/// Packs the divisions of the submission in `root`, and writes the SHA-1 of the archive next to it. The same submission
/// gives the same bytes.
///
/// # Errors
/// The archive's name does not end with `.tar.gz`; the submission has no division; a file cannot be read or written.
pub fn write_upload(root: &Path, to: &Path) -> Result<WrittenUpload, ErrorText> {
    let stem = stem(to)?;
    let unwritten =
        |path: &Path, error: &io::Error| ErrorText::new(format_args!("cannot write {}: {error}", path.display()));
    let failed = |error: io::Error| unwritten(to, &error);
    let file = BufWriter::new(File::create(to).map_err(failed)?);
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    tar.mode(tar::HeaderMode::Deterministic);
    let mut files = 0;
    for division in DIVISIONS {
        for item in WalkDir::new(root.join(division)).sort_by_file_name().into_iter().filter_map(Result::ok) {
            let name = item.path().strip_prefix(root).unwrap_or(item.path());
            if item.path().is_file() {
                tar.append_path_with_name(item.path(), name).map_err(failed)?;
                files += 1;
            }
        }
    }
    if files == 0 {
        drop(tar);
        drop(fs::remove_file(to));
        let text = format!("`{}` has no closed/, open/ or network/", root.display());
        return Err(ErrorText::new(text));
    }
    let mut file = tar.into_inner().and_then(GzEncoder::finish).map_err(failed)?;
    file.flush().map_err(failed)?;
    let mut hasher = Sha1::new();
    let bytes = io::copy(&mut File::open(to).map_err(failed)?, &mut hasher).map_err(failed)?;
    let checksum = to.with_file_name(format!("{stem}.sha1"));
    let line = format!("{:x}  {stem}{ENDING}\n", hasher.finalize());
    fs::write(&checksum, line).map_err(|error| unwritten(&checksum, &error))?;
    Ok(WrittenUpload { files, bytes, checksum })
}

/// The name without its ending.
fn stem(path: &Path) -> Result<&str, ErrorText> {
    let stem = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
    stem.filter(|stem| !stem.is_empty())
        .ok_or_else(|| ErrorText::new(format_args!("`{}` does not end with {ENDING}", path.display())))
}
