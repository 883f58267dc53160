//! The upload of a submission: a compressed archive of its divisions, and its SHA-1 beside it.
//!
//! The names and the format are those of mlcommons/inference, `tools/submission/pack_submission.sh`, without its encryption:
//! since the upload goes through MLCommons' submission page, "submissions do not need to be encrypted" (`tools/submission/README.md`).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha1::{Digest as _, Sha1};
use walkdir::WalkDir;

use super::submission_check::DIVISIONS;

/// How the name of an archive ends.
const ENDING: &str = ".tar.gz";

/// Why no archive was made.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("`{}` does not end with {ENDING}", .0.display())]
    Name(PathBuf),
    #[error("`{}` has no closed/, open/ or network/", .0.display())]
    Empty(PathBuf),
    #[error("cannot write {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenArchive {
    pub archive: PathBuf,
    /// `<SHA-1>  <name of the archive>`, as sha1sum prints it.
    pub checksum: PathBuf,
    pub files: u64,
    pub bytes: u64,
}

/// Packs the divisions of the submission in `root`. The same submission gives the same bytes.
///
/// # Errors
/// The archive's name does not end with `.tar.gz`, there is no division, a file cannot be read or written.
pub fn archive(root: &Path, to: &Path) -> Result<WrittenArchive, ArchiveError> {
    let stem = to.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
    let Some(stem) = stem.filter(|stem| !stem.is_empty()) else {
        return Err(ArchiveError::Name(to.to_owned()));
    };
    let failed = |source: io::Error| ArchiveError::Io { path: to.to_owned(), source };
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
        return Err(ArchiveError::Empty(root.to_owned()));
    }
    let mut file = tar.into_inner().and_then(GzEncoder::finish).map_err(failed)?;
    file.flush().map_err(failed)?;
    let bytes = fs::metadata(to).map_err(failed)?.len();
    let mut hasher = Sha1::new();
    io::copy(&mut File::open(to).map_err(failed)?, &mut hasher).map_err(failed)?;
    let checksum = to.with_file_name(format!("{stem}.sha1"));
    let line = format!("{:x}  {stem}{ENDING}\n", hasher.finalize());
    fs::write(&checksum, line).map_err(|source| ArchiveError::Io { path: checksum.clone(), source })?;
    Ok(WrittenArchive { archive: to.to_owned(), checksum, files, bytes })
}
