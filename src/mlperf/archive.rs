//! The upload of a submission: a compressed archive of its divisions, and a file with the archive's SHA-1.
//!
//! The names and the format are those of mlcommons/inference, `tools/submission/pack_submission.sh`, without its
//! encryption: "Currently submissions do not need to be encrypted" (`tools/submission/README.md`).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha1::{Digest as _, Sha1};
use walkdir::WalkDir;

use super::submission_check::DIVISIONS;
use base::diag::ErrorText;

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
